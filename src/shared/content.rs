//! The ranges that a slot holds and how they move: some are taken, some are returned, and some
//! leave for the catalog.

use std::sync::atomic::Ordering::Relaxed;

use hilo_core::numbers::{Index, Timestamp};
use hilo_core::pool::Ranges;
use hilo_core::range::Range;

use crate::errors::FaultKind;
use crate::shared::Shared;
use crate::shared::fault::Fault;
use crate::shared::key::Key;
use crate::shared::slices::IndexSpace;
use crate::shared::slot::{Counts, DROPPED, HELD, Locked};
use crate::shared::totals::Totals;

hilo_core::named! {
    /// Where in memory a range is.
    pub enum Tier {
        /// A session serves it.
        Slice = "slice",
        /// The block that slices are taken from.
        Current = "current",
        /// The blocks behind it.
        Standby = "standby",
        /// Returned, or on its way to the catalog.
        Returned = "returned",
        /// An open transaction leases it out.
        Leased = "leased",
    }
}

/// The counters of a slot.
#[derive(Clone, Copy)]
pub struct Counted {
    /// Before the slot counted. `None`: the row is not read yet, and nothing was served.
    before: Option<Totals>,
    now: Totals,
}

impl Counted {
    pub fn total(&self) -> Totals {
        self.before.unwrap_or_default().plus(&self.now)
    }

    /// The counts to be written to the row, whose counts are `row`.
    pub fn total_beside(&self, row: Totals) -> Totals {
        self.before.map_or(row, |_| self.total())
    }
}

impl Locked {
    /// Whether the slot can be freed: it holds nothing, and the catalog knows that.
    pub fn is_done(&self) -> bool {
        self.is_empty() && !self.catalog.is_stale
    }

    /// Whether the slot holds nothing.
    pub fn is_empty(&self) -> bool {
        self.all_ranges().is_empty()
    }

    /// All ranges that the slot holds, with their tiers.
    pub fn tiers(&self) -> impl Iterator<Item = (Tier, Range)> {
        let current = self.slot.cursor().peek().0;
        let queued = self.pool.queue().as_slice().iter();
        let returned = self.pool.returned_ranges().as_slice().iter().chain(self.leaving.as_slice());
        [(Tier::Current, current)]
            .into_iter()
            .chain(queued.map(|range| (Tier::Standby, *range)))
            .chain(returned.map(|range| (Tier::Returned, *range)))
    }

    /// The ranges alone.
    pub fn all_ranges(&self) -> Ranges<HELD> {
        let mut held = Ranges::default();
        for (_, range) in self.tiers() {
            let kept = held.push(range);
            debug_assert!(kept);
        }
        held
    }

    /// The index space of the ranges here.
    pub fn index_space(&self) -> IndexSpace {
        IndexSpace { key: self.key, node: self.node, epoch: self.epoch }
    }

    /// Publishes a block that the worker has reserved. `false`: there is no room.
    pub fn publish(&mut self, block: Range) -> bool {
        let published = self.pool.publish(block);
        self.promote();
        published
    }

    /// Stops serving from the pool until [`thaw`](Self::thaw) is called with what this returns.
    pub fn freeze(&mut self) -> u64 {
        let slot = self.slot;
        self.pool.freeze(slot.cursor());
        self.freezes += 1;
        self.freezes
    }

    /// Serves from the pool again, unless it was frozen once more after `freezes`.
    pub fn thaw(&mut self, freezes: u64) {
        if self.freezes == freezes {
            self.pool.thaw();
            self.promote();
        }
    }

    /// Makes the next queued block current if the segment is used up. Returns whether there is
    /// anything to take.
    pub fn promote(&mut self) -> bool {
        let (slot, serial) = (self.slot, self.serial());
        self.pool.promote(slot.cursor(), serial)
    }

    /// Takes back a range that was taken and not served. `false`: there is no place for it.
    pub fn return_range(&mut self, range: Range) -> bool {
        let (slot, serial) = (self.slot, self.serial());
        self.pool.return_range(slot.cursor(), serial, range)
    }

    /// Serves a range that comes from the catalog. `false`: there is no place for it.
    pub fn restore(&mut self, range: Range) -> bool {
        let slot = self.slot;
        self.pool.restore(slot.cursor(), range)
    }

    /// Counts a range that was taken under an earlier epoch as lost, not as served.
    pub fn discard(&mut self, range: Range) {
        self.counts.lost += range.len();
        self.counts.taken_before += range.len();
    }

    /// The counters. Values in the slices of sessions count as served.
    pub fn counters(&self) -> Counted {
        let slot = self.slot;
        let now = Totals {
            served: self.taken_count() - self.counts.taken_before,
            slices: slot.taking.slices.load(Relaxed) as i64,
            blocks_reserved: self.counts.blocks_reserved as i64,
            blocks_prefetched: self.counts.blocks_prefetched as i64,
            waits: slot.waits.load(Relaxed) as i64,
            wait_time: slot.wait_total.load(Relaxed) as i64,
            recycled: self.pool.recycled_count() - self.counts.recycled_before,
            lost: self.counts.lost,
            errors: self.counts.errors as i64,
        };
        Counted { before: self.counts.before, now }
    }

    /// Counts from zero again. All that was taken so far becomes the starting point, except for
    /// what the sessions still hold.
    pub fn reset_counters(&mut self, in_slices: i64) {
        self.forget_counts();
        self.counts.taken_before -= in_slices;
        self.counts.before = Some(Totals::default());
        self.catalog.is_stale = true;
        self.fault = Fault::default();
    }

    pub(super) fn forget_counts(&mut self) {
        self.slot.reset_counters();
        self.counts = Counts {
            taken_before: self.taken_count(),
            recycled_before: self.pool.recycled_count(),
            ..Counts::default()
        };
    }

    /// See [`Pool::claim`].
    pub fn claim(&mut self, fit: impl FnMut(Range) -> Option<Range>) -> Option<Range> {
        let (slot, serial) = (self.slot, self.serial());
        self.pool.claim(slot.cursor(), serial, fit)
    }

    /// Moves the returned ranges, except the `keep` lowest, to those that are leaving for the
    /// catalog, as far as there is room.
    pub fn clear_returned(&mut self, keep: usize) {
        for range in self.pool.drain_returned(keep).as_slice() {
            if !self.leaving.push(*range) {
                let kept = self.restore(*range);
                debug_assert!(kept);
            }
        }
    }

    /// The ranges of a frozen pool that are to be written to the catalog. They are all that could
    /// be served in order, and those that are already leaving. See
    /// [`forget_queue`](Self::forget_queue).
    pub fn outgoing(&self) -> Ranges<HELD> {
        let mut outgoing = Ranges::default();
        for range in self.pool.queue().as_slice().iter().chain(self.leaving.as_slice()) {
            let kept = outgoing.push(*range);
            debug_assert!(kept);
        }
        outgoing
    }

    /// Serves the leaving ranges from memory again, as far as there is room: they could not be
    /// written to the catalog. Ranges without room keep leaving, and so do all while they are
    /// `unacknowledged`.
    pub fn reinstate(&mut self) {
        if self.unacknowledged {
            return;
        }
        let leaving = std::mem::take(&mut self.leaving);
        for range in leaving.as_slice() {
            if !self.restore(*range) {
                self.leaving.push(*range);
            }
        }
    }

    /// Forgets the ranges that were leaving: the catalog has them.
    pub fn forget_leaving(&mut self) {
        self.leaving = Ranges::default();
        self.unacknowledged = false;
    }

    /// Does the same, and forgets what could be served in order, which the catalog has too.
    pub fn forget_queue(&mut self) {
        self.pool.forget_queue();
        self.forget_leaving();
    }

    /// How many indexes have been taken so far. See [`Pool::taken_count`].
    pub fn taken_count(&self) -> i64 {
        self.pool.taken_count(self.slot.cursor())
    }

    /// How many indexes can still be taken in order. See [`Pool::available`].
    pub fn available(&self) -> i64 {
        self.pool.available(self.slot.cursor())
    }

    /// The first index that has not been taken in order, if the pool holds any.
    pub fn first_untaken(&self) -> Option<Index> {
        self.pool.first_untaken(self.slot.cursor())
    }
}

impl Shared {
    /// Notes that a range of a sequence becomes free in the catalog, or is about to. Nobody is told
    /// that the sequence is exhausted before its slot has reloaded the range. Returns the slot's
    /// number, if it has one.
    pub fn expect_free(&'static self, key: &Key) -> Option<usize> {
        let slot = self.find(key)?;
        let number = self.number_of(&slot);
        self.lock_slot(number).catalog.freed += 1;
        Some(number)
    }

    /// Corrects how many values count as served by a node. The used values of a lease are added,
    /// those of an orphaned slice are taken off.
    pub fn correct_served(&'static self, key: &Key, node: i32, by: i64) {
        let Some(slot) = self.find(key) else { return };
        let mut locked = self.lock_slot(self.number_of(&slot));
        if locked.node == node
            && let Some(before) = &mut locked.counts.before
        {
            before.served += by;
        }
    }

    /// Notes that a range of a sequence has become free in the catalog, and makes its slot reload
    /// it.
    pub fn reload(&'static self, key: &Key) {
        if let Some(number) = self.expect_free(key) {
            self.wanted.set(number);
        }
    }

    /// Tells the sessions that wait for a sequence why its source has brought nothing. They go on
    /// waiting unless `ends` is set.
    pub fn note_source_failure(&'static self, key: &Key, fault: Fault, ends: bool) {
        let Some(slot) = self.find(key) else { return };
        let mut locked = self.lock_slot(self.number_of(&slot));
        locked.fault = fault;
        locked.counts.errors += 1;
        drop(locked);
        if ends {
            slot.faults.fetch_add(1, std::sync::atomic::Ordering::AcqRel);
            slot.refilled.broadcast();
        }
    }

    /// When the process that asked the source of a sequence ended, if nothing has failed since
    /// then.
    pub fn source_ended_at(&'static self, key: &Key) -> Option<Timestamp> {
        let slot = self.find(key)?;
        let fault = self.lock_slot(self.number_of(&slot)).fault;
        (fault.kind == FaultKind::SourceEnded).then_some(fault.at)
    }

    /// Returns the rest of a slice to its sequence's pool. `false`: there is no place for it, or
    /// the rest is empty, and the catalog must be told that all was served.
    pub fn return_range(&'static self, index_space: &IndexSpace, rest: Range) -> bool {
        let Some(slot) = self.find(&index_space.key) else { return false };
        let number = self.number_of(&slot);
        let mut locked = self.lock_slot(number);
        let kept = if locked.index_space() == *index_space {
            locked.catalog.is_stale = true;
            rest.is_empty() || locked.return_range(rest)
        } else {
            // Under a later epoch the rest is void: the change that raised the epoch in the catalog
            // has recorded it there.
            let void = locked.epoch == DROPPED
                || (locked.node == index_space.node && locked.epoch > index_space.epoch);
            if void {
                locked.discard(rest);
            }
            void
        };
        let crowded = locked.pool.returned_ranges().is_crowded();
        drop(locked);
        drop(slot);
        if crowded && self.wanted.set(number) {
            self.wake_worker(index_space.key.database);
        }
        kept
    }
}
