//! Flushes and evicts pools. The content of a pool goes to the catalog as free ranges. The position
//! is lowered as far as these ranges reach down from it. After that the slot is freed.
//!
//! A range stays in memory until the catalog has it: the pool is frozen, and its returned ranges
//! are among those that are leaving. If the transaction fails, all of it is served from memory
//! again.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::atomic::Ordering::*;
use std::time::{Duration, Instant};

use pgrx::prelude::*;

use hilo_core::numbers::Timestamp;
use hilo_core::range::Range;

use crate::catalog::numbers::owned_position::{self, LentRows};
use crate::catalog::rows::catalog_tables;
use crate::catalog::rows::table::{LockWait, RowLock};
use crate::catalog::sequence::{definitions, positions};
use crate::errors::HiloError;
use crate::process::ffi;
use crate::process::memory;
use crate::shared::content::Counted;
use crate::shared::slices::IndexSpace;
use crate::shared::{Shared, databases, slot};
use crate::worker::Worker;
use crate::worker::outbound::{self, AfterCommit, Frozen};
use crate::worker::transaction::{self, LOCKED};

/// The most slots in one transaction.
const BATCH: usize = 512;

const DEADLOCK: i32 = PgSqlErrorCode::ERRCODE_T_R_DEADLOCK_DETECTED as i32;

/// Somebody has locked a table, so that nothing can be written now.
pub(super) struct TablesLocked;

impl Worker {
    /// Flushes and frees all slots of this database. Returns whether all are free.
    pub(super) fn evict_all(&mut self) -> bool {
        let slots = self.slots();
        self.evict(&slots, Shared::free).0 == slots.len()
    }

    /// Flushes slots and frees them with `free`. Returns how many were freed.
    fn evict(
        &mut self,
        numbers: &[usize],
        free: fn(&'static Shared, usize) -> bool,
    ) -> (usize, Result<(), TablesLocked>) {
        let mut freed = 0;
        let done = numbers.chunks(BATCH).try_for_each(|batch| {
            let done = self.flush(batch);
            freed += batch.iter().filter(|&&number| free(self.shared, number)).count();
            done
        });
        if self.shared.control.slots_wanted.swap(0, AcqRel) != 0 {
            self.shared.control.slot_freed.broadcast();
        }
        (freed, done)
    }

    /// Evicts the longest idle slots if sessions wait for a slot, or soon would, and dropped
    /// databases have none.
    pub(super) fn make_room(&mut self) {
        let slots = self.shared.slots.len();
        if !self.is_scarce() {
            return;
        }
        self.free_dropped_databases();
        if !self.is_scarce() {
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
            let (freed, done) = self.evict(&some, Shared::take_away);
            missing -= freed;
            if some.is_empty() || done.is_err() {
                break;
            }
        }
    }

    fn is_scarce(&self) -> bool {
        self.shared.control.slots_wanted.load(Acquire) != 0 || self.shared.is_nearly_full()
    }

    /// Frees the memory of databases that were dropped where nobody told us. While room is short,
    /// it looks for them again and again.
    fn free_dropped_databases(&mut self) {
        const PAUSE: Duration = Duration::from_millis(100);
        if self.reaped_at.is_some_and(|at| at.elapsed() < PAUSE) {
            return;
        }
        self.reaped_at = Some(Instant::now());
        let shared = self.shared;
        let _ = transaction::run_within(self.patience(), c"hilo: freeing slots", || {
            shared.free_dropped_databases(databases::exists);
            Ok(())
        });
    }

    fn is_idle(&self, number: usize) -> bool {
        let slot = &self.shared.slots[number];
        slot.pins.load(SeqCst) == 0 && !self.shared.wanted.is_set(number)
    }

    /// When a slot was last seen to be used, in microseconds.
    fn last_active(&self, number: usize) -> Timestamp {
        let mut locked = self.shared.lock_slot(number);
        locked.see_activity(ffi::now());
        locked.pace.active_at
    }

    /// Writes the ranges in these slots to the catalog.
    pub(super) fn flush(&mut self, numbers: &[usize]) -> Result<(), TablesLocked> {
        let mut frozen: Vec<Rc<Frozen>> = Vec::new();
        for &number in numbers {
            // A pool for which there is no memory now stays as it is.
            if memory::check().is_err() || frozen.try_reserve(1).is_err() {
                break;
            }
            frozen.extend(self.freeze(number));
        }
        if frozen.is_empty() {
            return Ok(());
        }
        let shared = self.shared;
        let done = transaction::run_within(self.patience(), c"hilo: flushing ranges", || {
            let installed = catalog_tables::is_installed()?;
            for frozen in &frozen {
                let Frozen { index_space, ranges, counted, .. } = &**frozen;
                frozen.outcome.set(match installed {
                    true => write(shared, index_space, ranges, From::Pool(*counted))?,
                    // The sequence was dropped where nobody told the slots: see
                    // `session::invalidation`.
                    false => AfterCommit::Outdated,
                });
            }
            Ok(())
        });
        outbound::end_flush(shared);
        match done.map_err(|failure| failure.sqlstate) {
            Err(LOCKED | DEADLOCK) => Err(TablesLocked),
            // Retry one by one, so that a fault stops only its own sequence.
            Err(_) if frozen.len() > 1 => {
                numbers.iter().try_for_each(|number| self.flush(&[*number]))
            }
            _ => Ok(()),
        }
    }

    /// Freezes a pool, and returns the ranges to write. A caller that finds the pool empty asks for
    /// a block, and is served after the flush.
    fn freeze(&self, number: usize) -> Option<Rc<Frozen>> {
        let mut locked = self.shared.lock_slot(number);
        let ours = locked.key.database == self.database.to_u32();
        if !ours || locked.epoch == slot::DROPPED || locked.is_done() {
            return None;
        }
        if !locked.claim_for_worker(self.place.generation) {
            return None;
        }
        let was_frozen = locked.pool.is_frozen();
        let freezes = locked.freeze();
        locked.clear_returned(0);
        // Ranges that are returned from here on are recorded the next time.
        locked.catalog.is_stale = false;
        // Until the transaction ends, the catalog and memory may differ.
        locked.slot.reserving.store(1, Release);
        let ranges = locked.outgoing();
        let counted = locked.counters();
        let index_space = locked.index_space();
        let serial = locked.serial();
        drop(locked);
        let ranges = ranges.as_slice().to_vec();
        let outcome = Cell::new(AfterCommit::RowLocked);
        let frozen = Rc::new(Frozen {
            number,
            index_space,
            serial,
            freezes,
            was_frozen,
            ranges,
            counted,
            outcome,
        });
        outbound::begin_flush(frozen.clone());
        Some(frozen)
    }
}

/// Where the ranges to be written come from.
#[derive(Clone, Copy)]
pub(super) enum From {
    /// A frozen pool.
    Pool(Counted),
    /// An orphaned slice.
    Slice,
    /// Leases whose transactions were rolled back: their values have been seen, so they are written
    /// off.
    Lease,
}

/// Writes `ranges`, which have no other owner, to the catalog. Memory that is left from a dropped
/// extension belongs to no sequence any more, even if a restored one has the same id.
pub(super) fn write(
    shared: &'static Shared,
    index_space: &IndexSpace,
    ranges: &[Range],
    from: From,
) -> Result<AfterCommit, HiloError> {
    let IndexSpace { key, node, epoch } = *index_space;
    if key.extension != catalog_tables::catalog_oids()?.extension.to_u32() {
        return Ok(AfterCommit::Outdated);
    }
    let locked = match positions::lock(key.sequence, node, LockWait::Skip)? {
        RowLock::Skipped => return Ok(AfterCommit::RowLocked),
        RowLock::Missing => return Ok(AfterCommit::Outdated),
        RowLock::Locked(locked) => locked,
    };
    let Some(sequence) = definitions::by_id(key.sequence)? else {
        return Ok(AfterCommit::Outdated);
    };
    if locked.position.epoch != epoch || locked.position.incarnation != shared.life() {
        return Ok(AfterCommit::Outdated);
    }
    // Ranges may have been returned since the pool was frozen; they stay in memory.
    let Some(held) = shared.in_memory(index_space)? else { return Ok(AfterCommit::RowLocked) };
    let held = held.without(ranges)?;
    owned_position::with_position(shared.life(), &sequence, &locked, |owned| {
        match from {
            From::Lease => owned.write_off(ranges)?,
            // If the sequence has a slot, that must learn of a lowered position, so an orphaned
            // slice then does not lower it.
            From::Slice if held.has_slot => {
                owned.store_free(ranges)?;
                if !sequence.definition.ordered {
                    shared.reload(&key);
                }
            }
            From::Pool(_) | From::Slice => owned.store_free_and_truncate(ranges)?,
        }
        match from {
            From::Lease => {}
            From::Pool(counted) => owned.count(counted.total_beside(owned.totals)),
            // It counted as served.
            From::Slice => {
                let rests: i64 = ranges.iter().map(Range::len).sum();
                owned.correct_served(-rests);
                shared.correct_served(&key, node, -rests);
            }
        }
        owned.record_held_ranges(&held, LentRows::Always)?;
        if held.ranges.is_empty() {
            owned.release();
        }
        Ok(AfterCommit::Written(owned.next_index))
    })
}
