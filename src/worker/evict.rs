//! Flushes and evicts pools: what a pool holds goes to the catalog as free ranges, and the position is
//! lowered as far as those reach down from it. After that the slot is freed.
//!
//! A range stays in memory until the catalog has it: the pool is frozen, and its returned ranges are among
//! those that are leaving. If the transaction fails, all of it is served from memory again.

use std::sync::atomic::Ordering::*;

use pgrx::prelude::*;

use hilo_core::numbers::{Index, Serial, Timestamp};
use hilo_core::range::Range;

use super::Worker;
use super::account::{self, LentRows, account};
use super::transaction::{self, Failure, LOCKED};
use crate::catalog::gaps::{self, Reason};
use crate::catalog::positions::{self, Position};
use crate::catalog::ranges;
use crate::catalog::table::{LockWait, RowLock};
use crate::catalog::{self, CatalogOids, definitions};
use crate::errors::HiloError;
use crate::ffi;
use crate::memory;
use crate::shared::slices::IndexSpace;
use crate::shared::{Shared, slot};

/// The most slots in one transaction.
const BATCH: usize = 512;

const DEADLOCK: i32 = PgSqlErrorCode::ERRCODE_T_R_DEADLOCK_DETECTED as i32;

/// What came of a flush.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Flush {
    /// What could be written was.
    Done,
    /// Somebody has locked a table, so that nothing can be written now.
    TablesLocked,
}

/// What came of an eviction.
struct Evicted {
    /// How many slots were freed.
    freed: usize,
    flush: Flush,
}

/// A pool that is being flushed.
struct Frozen {
    number: usize,
    index_space: IndexSpace,
    serial: Serial,
    freezes: u64,
    /// A session had frozen the pool: only a worker that can lock the row may unfreeze it.
    was_frozen: bool,
    ranges: Vec<Range>,
}

/// What became of the ranges that were to be written.
pub(super) enum Outcome {
    /// The catalog has them; the position is at this index now.
    Written(Index),
    /// Another transaction has locked the row, or it cannot be told right now what memory holds.
    RowLocked,
    /// The sequence was renumbered or dropped: the transaction that did so has written the ranges off.
    Outdated,
}

impl Worker {
    /// Flushes and frees all slots of this database. Returns whether all are free.
    pub(super) fn evict_all(&mut self) -> bool {
        let slots = self.slots();
        self.evict(&slots).freed == slots.len()
    }

    /// Flushes slots and frees them.
    fn evict(&mut self, numbers: &[usize]) -> Evicted {
        let mut evicted = Evicted { freed: 0, flush: Flush::Done };
        for batch in numbers.chunks(BATCH) {
            evicted.flush = self.flush(batch);
            evicted.freed += batch.iter().filter(|&&number| self.shared.free(number)).count();
            if evicted.flush == Flush::TablesLocked {
                break;
            }
        }
        if self.shared.control.slots_wanted.swap(0, AcqRel) != 0 {
            self.shared.control.slot_freed.broadcast();
        }
        evicted
    }

    /// Evicts the longest idle slots if sessions wait for a slot, or soon would.
    pub(super) fn make_room(&mut self) {
        let slots = self.shared.slots.len();
        let wanted = self.shared.control.slots_wanted.load(Acquire) != 0;
        if !wanted && !self.shared.is_nearly_full() {
            return;
        }
        let mut idle: Vec<(Timestamp, usize)> = self
            .slots()
            .into_iter()
            .filter(|&number| self.is_idle(number))
            .map(|number| (self.last_active(number), number))
            .collect();
        idle.sort_unstable();
        let mut numbers = idle.into_iter().map(|(_, number)| number);
        let mut missing = (slots / 32).max(1);
        // For each slot whose row is locked, another one is evicted.
        while missing > 0 {
            let some: Vec<usize> = numbers.by_ref().take(missing).collect();
            let evicted = self.evict(&some);
            missing -= evicted.freed;
            if some.is_empty() || evicted.flush == Flush::TablesLocked {
                break;
            }
        }
    }

    fn is_idle(&self, number: usize) -> bool {
        let slot = &self.shared.slots[number];
        slot.pins.load(SeqCst) == 0 && !self.shared.is_wanted(number)
    }

    /// When a slot was last seen to be used, in microseconds.
    fn last_active(&self, number: usize) -> Timestamp {
        let mut locked = self.shared.lock_slot(number);
        locked.see_activity(ffi::now());
        locked.active_at
    }

    /// Writes what these slots hold to the catalog.
    pub(super) fn flush(&mut self, numbers: &[usize]) -> Flush {
        let mut frozen: Vec<Frozen> = Vec::new();
        for &number in numbers {
            // A pool for which there is no memory now stays as it is.
            if memory::check().is_err() || frozen.try_reserve(1).is_err() {
                break;
            }
            frozen.extend(self.freeze(number));
        }
        if frozen.is_empty() {
            return Flush::Done;
        }
        let shared = self.shared;
        let done = transaction::run_within(self.patience(), c"hilo: flushing ranges", || {
            let ids = match catalog::catalog_oids() {
                // It was dropped where nobody told the slots: see `session::invalidation`.
                Err(HiloError::NotInstalled) => {
                    return Ok(frozen.iter().map(|_| Outcome::Outdated).collect());
                }
                found => found?,
            };
            frozen
                .iter()
                .map(|frozen| write(&ids, shared, &frozen.index_space, &frozen.ranges, From::Pool))
                .collect::<Result<Vec<_>, _>>()
        });
        let failed = done.as_ref().err().map(|failure| failure.sqlstate);
        let several = frozen.len() > 1;
        self.conclude(frozen, done);
        match failed {
            Some(LOCKED | DEADLOCK) => Flush::TablesLocked,
            // So that one fault takes no other sequence down with it.
            Some(_) if several => {
                let locked = |&number: &usize| self.flush(&[number]) == Flush::TablesLocked;
                match numbers.iter().any(locked) {
                    true => Flush::TablesLocked,
                    false => Flush::Done,
                }
            }
            _ => Flush::Done,
        }
    }

    /// Freezes a pool, and returns what it is to write. A caller that finds the pool empty asks for a block,
    /// and is served after the flush.
    fn freeze(&self, number: usize) -> Option<Frozen> {
        let mut locked = self.shared.lock_slot(number);
        let ours = locked.key.database == self.database.to_u32();
        if !ours || locked.epoch == slot::DROPPED || locked.is_done() {
            return None;
        }
        if !locked.employ(self.place.generation) {
            return None;
        }
        let was_frozen = locked.pool.is_frozen();
        let freezes = locked.freeze();
        locked.frozen_by = self.place.generation;
        locked.clear_returned(0);
        // The catalog learns the next time of what is returned from here on.
        locked.untold = false;
        // Until `conclude`, what the catalog has and what is in memory may differ.
        locked.slot.reserving.store(1, Release);
        let ranges = locked.outgoing();
        let index_space = locked.index_space();
        let serial = locked.serial();
        drop(locked);
        let ranges = ranges.as_slice().to_vec();
        Some(Frozen { number, index_space, serial, freezes, was_frozen, ranges })
    }

    fn conclude(&self, frozen: Vec<Frozen>, done: Result<Vec<Outcome>, Failure>) {
        let done = done.unwrap_or_else(|_| frozen.iter().map(|_| Outcome::RowLocked).collect());
        for (frozen, done) in frozen.iter().zip(done) {
            let mut locked = self.shared.lock_slot(frozen.number);
            locked.slot.reserving.store(0, Release);
            if locked.serial() != frozen.serial {
                continue;
            }
            match done {
                Outcome::Written(next_index) => {
                    locked.forget_queue();
                    locked.reserved_to = Some(next_index);
                    locked.free_end = Index::MAX;
                }
                Outcome::Outdated => locked.forget_queue(),
                Outcome::RowLocked => {
                    locked.untold = true;
                    locked.reinstate();
                }
            }
            match done {
                Outcome::RowLocked if frozen.was_frozen => locked.frozen_by = 0,
                _ => locked.thaw(frozen.freezes),
            }
            let slot = locked.slot;
            drop(locked);
            slot.refilled.broadcast();
        }
    }
}

/// Where the ranges to be written come from.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum From {
    /// A frozen pool.
    Pool,
    /// An orphaned slice.
    Slice,
    /// Leases whose transactions were rolled back: their values have been seen, so they are written off.
    Lease,
}

/// Writes `ranges`, which have no other owner, to the catalog. What memory still has of an extension that was dropped
/// belongs to no sequence any more, even if a restored one has the same id.
pub(super) fn write(
    ids: &CatalogOids,
    shared: &'static Shared,
    index_space: &IndexSpace,
    ranges: &[Range],
    from: From,
) -> Result<Outcome, HiloError> {
    let IndexSpace { key, node, epoch } = *index_space;
    if key.extension != ids.extension.to_u32() {
        return Ok(Outcome::Outdated);
    }
    let locked = match positions::lock(ids, key.sequence, node, LockWait::Skip)? {
        RowLock::Skipped => return Ok(Outcome::RowLocked),
        RowLock::Missing => return Ok(Outcome::Outdated),
        RowLock::Locked(locked) => locked,
    };
    let Some(sequence) = definitions::by_id(ids, key.sequence)? else {
        return Ok(Outcome::Outdated);
    };
    let mut position = locked.position;
    if position.epoch != epoch || position.incarnation != shared.life() {
        return Ok(Outcome::Outdated);
    }
    // Ranges may have been returned since the pool was frozen; they stay in memory.
    let Some(held) = shared.in_memory(index_space) else { return Ok(Outcome::RowLocked) };
    let held = account::without(held, ranges);
    // If the sequence has a slot, that must learn of a lowered position, so an orphaned slice then does not
    // lower it.
    let lower = from == From::Pool || (from == From::Slice && !held.has_slot);
    if from == From::Lease {
        let lost = Range::union(ranges.to_vec());
        gaps::record_all(ids, &position, &sequence, &lost, Reason::Discarded)?;
    } else if sequence.definition.ordered {
        let mut rest = Range::union(ranges.to_vec());
        if lower {
            lower_ordered(&mut position, &mut rest);
        }
        account::put(ids, &position, &sequence, &rest)?;
    } else {
        account::put(ids, &position, &sequence, ranges)?;
        if lower {
            ranges::lower(ids, &mut position)?;
        } else {
            shared.reload(&key);
        }
    }
    account(ids, shared.life(), &mut position, &held, LentRows::Always)?;
    if held.ranges.is_empty() {
        position.incarnation = 0;
    }
    if position != locked.position {
        locked.update(&position);
    }
    Ok(Outcome::Written(position.next_index))
}

/// Lowers an ordered sequence's position by the range at its top, and removes that from `ranges`, which are
/// sorted. The others remain: the sequence never goes back to them.
fn lower_ordered(position: &mut Position, ranges: &mut Vec<Range>) {
    if let Some(top) = ranges.pop_if(|last| last.end == position.next_index) {
        position.next_index = top.start;
        position.settled_index = position.settled_index.min(top.start);
    }
}
