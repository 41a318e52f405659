//! How large a session's next slice is.

/// The size of the slice after a slice of `previous` values (0: the first). It doubles, so that a
/// session that draws one value takes one, and a session that draws many seldom takes a slice.
/// Between 1 and `max` (at least 1).
pub fn next_slice(previous: i32, max: i32) -> i32 {
    previous.max(0).saturating_mul(2).clamp(1, max.max(1))
}
