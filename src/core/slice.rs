//! How large a session's next slice is.

/// The slice after one of `previous` values (0: the first): it doubles, so that who takes one number
/// takes one number and who takes many seldom asks. Between 1 and `max` (at least 1).
pub fn next_slice(previous: i32, max: i32) -> i32 {
    previous.max(0).saturating_mul(2).clamp(1, max.max(1))
}
