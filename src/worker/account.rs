//! Keeps the catalog up to date with a server's memory. Every index below `settled_index` is served, free,
//! recorded as a gap, or in a row of `hilo.free_range` that says whose memory holds it. From there to
//! `next_index`, any index may be in the memory of the life that `incarnation` names. So after a crash the
//! catalog alone says what to write off, each index once.

use hilo_core::range::Range;

use crate::catalog::CatalogOids;
use crate::catalog::definitions::Sequence;
use crate::catalog::gaps::{self, Reason};
use crate::catalog::positions::Position;
use crate::catalog::ranges;
use crate::errors::HiloError;
use crate::shared::inventory::InMemory;

/// When each range in memory below the pool gets a row of its own.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum LentRows {
    Always,
    /// If a range that a session keeps for long holds `settled_index` back.
    IfHeldBack,
}

/// Brings a locked position up to date with what memory holds of it.
///
/// `settled_index` follows the lowest range that is held. A range that a session keeps for long would hold it
/// back, and a crash would then write off all that was served since. In that case `settled_index` rises to
/// the first index that no session has taken from the pool, and the ranges below that get rows of their own.
/// With [`LentRows::Always`] this is done in any case.
pub fn account(
    ids: &CatalogOids,
    incarnation: i64,
    position: &mut Position,
    held: &InMemory,
    rows: LentRows,
) -> Result<(), HiloError> {
    let end = position.next_index;
    let taken_to = held.first_untaken.unwrap_or(end).min(end).max(position.settled_index);
    let lowest = held
        .ranges
        .iter()
        .filter(|range| range.end > position.settled_index)
        .map(|range| range.start.max(position.settled_index))
        .min()
        .unwrap_or(end);
    let held_back = lowest == position.settled_index && lowest < taken_to;
    if rows == LentRows::Always || held_back {
        position.settled_index = taken_to;
        ranges::write_lent(ids, position, incarnation, &held.ranges)
    } else {
        position.settled_index = lowest.min(end);
        ranges::forget_lent(ids, position, &held.ranges)
    }
}

/// What memory will hold once the ranges in `leaving` are in the catalog.
pub fn without(held: InMemory, leaving: &[Range]) -> InMemory {
    let leaving = Range::union(leaving.to_vec());
    let ranges = held.ranges.iter().flat_map(|range| range.without(&leaving)).collect();
    let first_untaken =
        held.first_untaken.filter(|next| !leaving.iter().any(|range| range.contains(*next)));
    InMemory { ranges, first_untaken, ..held }
}

/// Writes ranges that leave memory: they become free, or, for an ordered sequence, which never goes back, they
/// are written off.
pub fn put(
    ids: &CatalogOids,
    position: &Position,
    sequence: &Sequence,
    leaving: &[Range],
) -> Result<(), HiloError> {
    match sequence.definition.ordered {
        true => gaps::record_all(ids, position, sequence, leaving, Reason::Discarded),
        false => {
            let mapping = position.mapping(&sequence.definition);
            ranges::put_free(ids, position, &mapping, leaving)
        }
    }
}
