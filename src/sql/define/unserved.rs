//! Finds what a sequence is yet to serve on this node. It is the values from its next index on, and
//! the ranges below in memory and in the catalog.

use hilo_core::direction::Direction;
use hilo_core::mapping::Mapping;
use hilo_core::numbers::Index;
use hilo_core::range::Range;

use crate::catalog::lease::leases::{self, Ended};
use crate::catalog::numbers::range_rows::RangeRows;
use crate::catalog::numbers::ranges;
use crate::catalog::sequence::definitions::Sequence;
use crate::catalog::sequence::positions::{self, Position};
use crate::catalog::sequence::{numbering, takeover};
use crate::errors::HiloError;
use crate::process::memory::{self, TryGrow};
use crate::session::{gapless, names, own_leases, uncommitted};
use crate::shared;
use crate::shared::slices::IndexSpace;

pub struct Unserved {
    pub position: Position,
    pub mapping: Mapping,
    /// The first index from which on all are yet to be served.
    pub next_index: Index,
    /// The ranges below `next_index` that are held by sessions, returned, or free. `None`: they
    /// cannot be determined.
    pub held: Option<Vec<Range>>,
    /// Leases of other open transactions: their holders have them once these commit.
    pub pending: Vec<Range>,
}

impl Unserved {
    /// The value that comes next in order; `None`: none is left.
    pub fn next(&self) -> Option<i64> {
        self.mapping.value(self.next_index)
    }

    /// Whether all values that come in order lie beyond `value`, even if the bounds or the
    /// increment change. With one node, another increment continues after the last value.
    pub fn continues_beyond(&self, value: i64) -> bool {
        let mapping = self.mapping.without_bounds();
        let direction = Direction::from_increment(mapping.increment);
        let last = match self.position.nodes > 1 {
            true => None,
            false => mapping.value(self.next_index - 1),
        };
        let next = mapping.value(self.next_index);
        next.is_none_or(|next| direction.is_beyond(next, value))
            && last.is_none_or(|last| !direction.is_beyond(value, last))
    }

    /// The ranges below `next_index` that may yet be served; `None`: they cannot be determined.
    pub fn held_ranges(&self) -> Option<Vec<Range>> {
        let mut all = self.held.clone()?;
        all.extend(&self.pending);
        Some(all)
    }

    /// All indexes that are known to be yet to be served, as sorted and disjoint ranges.
    pub fn ranges(&self) -> Vec<Range> {
        let mut all = self.held.clone().unwrap_or_default();
        all.push(Range::new(self.next_index, self.mapping.limit()));
        Range::union(all)
    }
}

/// Finds the values that a sequence is yet to serve on `node`. It takes nothing from anyone. A
/// value that a session got before the call counts as served.
pub fn unserved_ranges(sequence: &Sequence, node: i32) -> Result<Unserved, HiloError> {
    let position = numbering::found_or_joined(sequence, node)?;
    let position = position.unwrap_or_else(|| Position::first(sequence, node));
    let of = |position: Position, next_index, held| Unserved {
        mapping: position.mapping(&sequence.definition),
        position,
        next_index,
        held,
        pending: Vec::new(),
    };
    if let Some(reached) = gapless::progress(sequence.id) {
        return Ok(of(position, reached, Some(Vec::new())));
    }
    let written = positions::find_own_write(sequence.id, node)?;
    if let Some((position, version)) = written {
        // Nobody else holds values that this transaction has numbered.
        let reached = uncommitted::progress(&version).unwrap_or_default().max(position.next_index);
        return Ok(of(position, reached, Some(Vec::new())));
    }
    // A range that leaves the catalog now is in memory afterwards, and a range that comes back from
    // a lease is free before that.
    let mut free = returning_ranges(sequence, &position)?;
    let rows = RangeRows::read(&position)?;
    free.try_extend(ranges::free_of(&rows)?)?;
    let in_memory = shared::get().ok().filter(|shared| position.incarnation == shared.life());
    let Some(shared) = in_memory else {
        let discards = takeover::discards_free(&position, &sequence.definition);
        let free = if discards { Vec::new() } else { free };
        return Ok(of(position, position.next_index, Some(free)));
    };
    let index_space = index_space(&position)?;
    let Some(held) = shared.in_memory_soon(&index_space)? else {
        return Ok(of(position, position.next_index, None));
    };
    let next_index = held.first_untaken.unwrap_or(position.next_index);
    let leased = Range::union(shared.pending_of(&index_space));
    let in_memory = held.ranges.iter().flat_map(|range| range.without(&leased));
    let unserved = in_memory.chain(free).map(|range| range.until(next_index));
    let held = Some(unserved.filter(|range| !range.is_empty()).collect());
    let own = Range::union(own_leases::pending_ranges(&index_space));
    let pending = leased.iter().flat_map(|range| range.without(&own)).collect();
    Ok(Unserved { pending, ..of(position, next_index, held) })
}

/// The values that come back from leases that the worker has not filed yet.
fn returning_ranges(sequence: &Sequence, position: &Position) -> Result<Vec<Range>, HiloError> {
    let ended = leases::due_of(position.sequence, position.node)?.into_iter();
    let back = ended.filter(|lease| {
        lease.ended == Some(Ended::Returned)
            && lease.loss_reason(Some((sequence, position))).is_none()
    });
    memory::try_collect(back.map(|lease| lease.rest()))
}

/// The index space of a position.
pub fn index_space(position: &Position) -> Result<IndexSpace, HiloError> {
    let key = names::key_of(position.sequence)?;
    Ok(IndexSpace { key, node: position.node, epoch: position.epoch })
}
