//! Classic Hi/Lo blocks, taken from the same indexes as single values.
//!
//! The block `hi` has the values `start_value + (hi × block_size + lo) × increment` for 0 ≤ lo <
//! block_size. The caller that gets a block owns its whole span. Every index whose value lies in
//! the span is used up with the block, and no index used before may lie in it. After a setval the
//! base may be off the grid of the blocks, so the span is compared by value, not by index.
//!
//! With several nodes a block lies within one stripe of this node. It does not begin before the
//! stripe's first value, and ends before the first value of the next stripe.

use crate::fit::Fit;
use crate::mapping::Mapping;
use crate::numbers::Index;
use crate::range::Range;

/// A block, and the indexes that it uses up (never none), but not what lies before them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HiBlock {
    pub hi: i64,
    pub range: Range,
}

/// The smallest block whose span lies beyond everything before `available.start`. `block_size` is
/// at least 1. A cycling sequence has no such blocks.
pub fn next_hi(
    mapping: &Mapping,
    start_value: i64,
    block_size: i64,
    available: Range,
) -> Fit<HiBlock> {
    match find(mapping, start_value, block_size.max(1) as i128, available.start) {
        Some(block) if block.range.end <= available.end => Fit::Here(block),
        Some(block) => Fit::Needs(block.range.end),
        None => Fit::Never,
    }
}

/// The next block whose first index is at least `from`. Offsets count from the base in
/// the direction of the increment.
fn find(mapping: &Mapping, start_value: i64, size: i128, from: Index) -> Option<HiBlock> {
    if mapping.cycle {
        return None;
    }
    let step = mapping.step();
    let end = mapping.offset(mapping.bound());
    let used = match from <= Index::ZERO {
        true => -1,
        false => mapping.offset(mapping.value(from - 1)?),
    };
    let length = (size - 1) * step;
    if length > end {
        return None;
    }
    let origin = mapping.offset(start_value);
    let pitch = size * step;
    let least = (used + 1 - origin).max(0);
    let hi = (least + pitch - 1) / pitch;
    let hi = hi + skip(mapping, origin + hi * pitch, pitch, length)?;
    let first = hi.checked_mul(pitch)?.checked_add(origin)?;
    let last = first + length;
    if last > end {
        return None;
    }
    let start = mapping.stripes.below((first + step - 1) / step);
    // The last index has the block's last value, or lies beyond it. So whatever continues after
    // this index, even with another increment, is beyond the block. At the end of a stripe there
    // may be no such index, and the increment cannot change there either.
    let end = mapping.stripes.below((last + step - 1) / step + 1).max(start + 1);
    if end > mapping.limit().0 as i128 {
        return None;
    }
    let range = Range::new(Index(start as i64), Index(end as i64));
    Some(HiBlock { hi: i64::try_from(hi).ok()?, range })
}

/// How many blocks to skip, from the block at offset `first` on, until one lies within a stripe of
/// this node.
fn skip(mapping: &Mapping, first: i128, pitch: i128, length: i128) -> Option<i128> {
    let stripes = &mapping.stripes;
    if stripes.nodes <= 1 {
        return Some(0);
    }
    // Offsets stay below 2^65, so a wider stripe may count as one of this width.
    let width = (stripes.size.max(1) as i128 * mapping.step()).min(1 << 70);
    if length >= width {
        return None;
    }
    let round = width * stripes.nodes as i128;
    let inside = (first - width * stripes.node as i128).rem_euclid(round);
    first_hit(inside, pitch, round, width - length - 1)
}

/// The smallest x ≥ 0 with `(start + x × pitch) mod round ≤ most`, for 0 ≤ start < round.
fn first_hit(start: i128, pitch: i128, round: i128, most: i128) -> Option<i128> {
    if start <= most {
        return Some(0);
    }
    first_multiple(pitch % round, round, round - start, round - start + most)
}

/// The smallest x ≥ 0 with `low ≤ x × pitch mod round ≤ high`, for 0 < low ≤ high and pitch <
/// round; None also if it is beyond all offsets. This is Euclid's algorithm: between two multiples
/// of `pitch` the question is the same about the remainders.
fn first_multiple(pitch: i128, round: i128, low: i128, high: i128) -> Option<i128> {
    if pitch == 0 {
        return None;
    }
    let x = (low + pitch - 1) / pitch;
    if x * pitch <= high {
        return Some(x);
    }
    let laps = first_multiple(round % pitch, pitch, pitch - high % pitch, pitch - low % pitch)?;
    Some((laps.checked_mul(round)?.checked_add(low + pitch - 1)?) / pitch)
}
