//! One reservation: what is written for one sequence inside the worker's transaction.

use hilo_core::policy::{self, Room};
use hilo_core::range::Range;
use hilo_core::rate::Demand;

use crate::catalog::definitions::{self, Sequence};
use crate::catalog::positions::{self, Lock, LockedPosition, Position};
use crate::catalog::ranges::{self, Reason};
use crate::catalog::take_over::take_over;
use crate::catalog::{Ids, numbering, table};
use crate::errors::HiloError;
use crate::gucs;
use crate::session::own;
use crate::shared::Shared;
use crate::shared::slot::Terms;

/// What a slot needs, read under its lock before the transaction.
pub struct Plan {
    pub number: usize,
    pub sequence: i64,
    pub epoch: i64,
    pub serial: i64,
    pub available: i64,
    /// Somebody waits for so many.
    pub need: i64,
    pub demand: Demand,
    pub block: i64,
    pub floor: i64,
    pub floor_epoch: i64,
    /// See [`Inner`](crate::shared::slot::Inner).
    pub reserved_to: Option<i64>,
    /// How many ranges the slot can take back from the catalog.
    pub room: usize,
    /// Ranges to be put into the catalog for want of room.
    pub overflow: Vec<Range>,
}

/// What came of it.
pub enum Outcome {
    /// Its row is held by another transaction.
    Held,
    /// There is no such sequence.
    Gone,
    Reserved(Reserved),
}

pub struct Reserved {
    /// The sequence's.
    pub name: String,
    pub epoch: i64,
    pub terms: Terms,
    /// Nothing is left to be reserved.
    pub exhausted: bool,
    /// Empty where none was needed.
    pub block: Range,
    /// Free ranges that came back from the catalog.
    pub free: Vec<Range>,
    /// The block size that was settled on.
    pub size: i64,
    pub threshold: i64,
}

/// Reserves for one sequence.
pub fn reserve(ids: &Ids, shared: &'static Shared, plan: &Plan) -> Result<Outcome, HiloError> {
    let locked = match positions::lock(ids, plan.sequence, numbering::node()?, false)? {
        Lock::Held => return Ok(Outcome::Held),
        Lock::Missing => return first_on_node(ids, shared, plan),
        Lock::Locked(locked) => locked,
    };
    // Read after the row was locked: who changes the definition's numbers holds that lock. Until the
    // position is ours, replication may change them, which locks the definition.
    let sequence = match locked.position.is_ours() {
        true => definitions::by_id(ids, plan.sequence)?,
        false => match definitions::lock_now(ids, plan.sequence)? {
            Ok(found) => found,
            Err(()) => return Ok(Outcome::Held),
        },
    };
    let Some(sequence) = sequence else { return Ok(Outcome::Gone) };
    if locked.position.epoch < plan.epoch {
        return Ok(Outcome::Held);
    }
    let mut position = locked.position;
    let mapping = position.mapping(&sequence.definition);
    if position.epoch == plan.epoch {
        overflow(ids, &position, &sequence, &plan.overflow)?;
    }
    take_over(ids, shared.control.incarnation, &sequence, &mut position)?;
    let same_epoch = position.epoch == plan.epoch;
    let start = start(shared, plan, &locked.position, &position);
    let limit = mapping.limit();
    let floor = match plan.floor_epoch == position.epoch {
        true => plan.floor.min(limit).max(start),
        false => start,
    };
    ranges::record_gap(ids, &position, &mapping, Range::new(start, floor), Reason::Discarded)?;
    let free = match sequence.definition.ordered {
        true => Vec::new(),
        false => ranges::take_free(ids, &position, plan.room)?,
    };
    let reserved = decide(&sequence, &position, plan, same_epoch, floor, free);
    let unpublished = start < position.next_index;
    position.next_index = reserved.block.end.max(position.next_index);
    position.settled_index = settled(shared, plan, &position, &reserved, same_epoch);
    // What is published anew may not have been acknowledged: a commit of something makes it so.
    if position != locked.position || unpublished {
        locked.update(&position);
    }
    Ok(Outcome::Reserved(reserved))
}

/// Where the next block begins: at the position, or before it where an earlier worker of this life has
/// reserved what it did not publish, so that nobody was served from it.
fn start(shared: &Shared, plan: &Plan, before: &Position, position: &Position) -> i64 {
    let here = before.incarnation == shared.control.incarnation && before.epoch == plan.epoch;
    match plan.reserved_to {
        Some(reserved_to) if here => reserved_to.min(position.next_index),
        _ => position.next_index,
    }
}

/// A node that has not drawn from this sequence before gets its position. The definition is locked
/// until that is there: see `sql::replicated`.
fn first_on_node(ids: &Ids, shared: &'static Shared, plan: &Plan) -> Result<Outcome, HiloError> {
    match definitions::lock_now(ids, plan.sequence)? {
        Err(()) => Ok(Outcome::Held),
        Ok(None) => Ok(Outcome::Gone),
        Ok(Some(sequence)) => {
            positions::insert(&numbering::joined(ids, &sequence)?)?;
            table::next_command();
            reserve(ids, shared, plan)
        }
    }
}

/// Ranges that found no place in memory: kept for later, or for an ordered sequence, which never goes
/// back, written off.
fn overflow(
    ids: &Ids,
    position: &Position,
    sequence: &Sequence,
    ranges: &[Range],
) -> Result<(), HiloError> {
    if !sequence.definition.ordered {
        return ranges::put_free(ids, position, ranges);
    }
    let mapping = position.mapping(&sequence.definition);
    ranges.iter().try_for_each(|range| {
        ranges::record_gap(ids, position, &mapping, *range, Reason::Discarded)
    })
}

/// How much to reserve.
fn decide(
    sequence: &Sequence,
    position: &Position,
    plan: &Plan,
    same_epoch: bool,
    start: i64,
    free: Vec<Range>,
) -> Reserved {
    let terms = own::terms(sequence, position);
    let limit = terms.mapping.limit();
    let room = Room { whole: limit, left: (limit - start).max(0) };
    let settings = gucs::refill(sequence.definition.block_size);
    let size = policy::next_block(plan.block, &plan.demand, room, &settings);
    let restored: i64 = free.iter().map(Range::len).sum();
    let available = if same_epoch { plan.available } else { 0 };
    let need = if plan.need <= 1 && restored > 0 { 0 } else { plan.need };
    let count = policy::order(available, need, size, &plan.demand, room, &settings);
    let block = Range::new(start, start + count);
    let left = Room { left: limit - block.end, ..room };
    Reserved {
        name: sequence.name.to_string(),
        epoch: position.epoch,
        terms,
        exhausted: block.end >= limit,
        block,
        free,
        size,
        threshold: policy::threshold(size, &plan.demand, left, &settings),
    }
}

/// The smallest index that may still be in memory after this reservation.
fn settled(
    shared: &'static Shared,
    plan: &Plan,
    position: &Position,
    reserved: &Reserved,
    same_epoch: bool,
) -> i64 {
    let new = reserved.free.iter().map(|range| range.start).fold(reserved.block.start, i64::min);
    if !same_epoch {
        return new.min(position.next_index);
    }
    match lowest_in_memory(shared, plan.number) {
        Some(lowest) => lowest.min(new),
        None => position.settled_index.min(new),
    }
}

/// The smallest index that the pool or a session holds, `i64::MAX` where there is none. `None` where a
/// session is just taking some, so that it cannot be told.
pub fn lowest_in_memory(shared: &'static Shared, number: usize) -> Option<i64> {
    use std::sync::atomic::Ordering::*;
    // Under the lock nothing goes from a session to the pool. What goes the other way is seen in the
    // pool, or then in the session's line, or the line says that it is being filled.
    let locked = shared.lock_slot(number);
    let mut lowest = locked.lowest().unwrap_or(i64::MAX);
    if locked.slot.holders.load(SeqCst) > 0 {
        for (_, slice) in shared.all_slices() {
            if slice.slot.load(Acquire) != number as u32 + 1 {
                continue;
            }
            if slice.taking.load(SeqCst) != 0 {
                return None;
            }
            if slice.serial.load(Acquire) == locked.serial() && !slice.rest().is_empty() {
                lowest = lowest.min(slice.rest().start);
            }
        }
    }
    Some(lowest)
}

/// A row that [`positions::lock`] gave, with its sequence.
pub fn with_sequence(ids: &Ids, id: i64) -> Result<Option<(LockedPosition, Sequence)>, HiloError> {
    let Lock::Locked(locked) = positions::lock(ids, id, gucs::node().0, false)? else {
        return Ok(None);
    };
    Ok(definitions::by_id(ids, id)?.map(|sequence| (locked, sequence)))
}
