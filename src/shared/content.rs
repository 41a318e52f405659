//! What a slot holds and how it moves: what is dealt, what comes back, what leaves for the catalog.

use hilo_core::pool::Ranges;
use hilo_core::range::Range;

use super::Shared;
use super::slices::IndexSpace;
use super::slot::{DROPPED, HELD, Locked};

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
    }
}

impl Locked {
    /// Whether the slot can be given up: nothing is held here, and the catalog knows that.
    pub fn is_done(&self) -> bool {
        self.is_empty() && !self.untold
    }

    /// Whether nothing is held here.
    pub fn is_empty(&self) -> bool {
        self.held().is_empty()
    }

    /// All ranges that are held here.
    pub fn held(&self) -> Ranges<HELD> {
        let mut held = Ranges::default();
        let current = self.slot.cursor().peek().0;
        let queued = self.pool.queue().as_slice().iter();
        let returned = self.pool.returned().as_slice().iter();
        for range in [current].iter().chain(queued).chain(returned).chain(self.leaving.as_slice()) {
            let kept = held.push(*range);
            debug_assert!(kept);
        }
        held
    }

    /// How the indexes here are counted.
    pub fn index_space(&self) -> IndexSpace {
        IndexSpace { key: self.key, node: self.node, epoch: self.epoch }
    }

    /// Whether the indexes here are counted so.
    pub fn counts(&self, index_space: &IndexSpace) -> bool {
        self.index_space() == *index_space
    }

    /// Enters a block that the worker has reserved. `false`: there is no room.
    pub fn publish(&mut self, block: Range) -> bool {
        let published = self.pool.publish(block);
        self.promote();
        published
    }

    /// Deals nothing until [`thaw`](Self::thaw) with what this returns.
    pub fn freeze(&mut self) -> u64 {
        let slot = self.slot;
        self.pool.freeze(slot.cursor());
        self.mirror();
        self.freezes += 1;
        self.frozen_by = 0;
        self.freezes
    }

    /// Deals again, unless somebody has frozen the pool since `freezes`.
    pub fn thaw(&mut self, freezes: u64) {
        if self.freezes == freezes {
            self.pool.thaw();
            self.promote();
        }
    }

    /// Makes the next queued block current if need be. Whether there is anything to take.
    pub fn promote(&mut self) -> bool {
        let serial = self.serial();
        let slot = self.slot;
        let any = self.pool.promote(slot.cursor(), serial);
        self.mirror();
        any
    }

    /// Takes back what was dealt and not served. `false` when there is no place for it.
    pub fn return_range(&mut self, range: Range) -> bool {
        let (slot, serial) = (self.slot, self.serial());
        let kept = self.pool.return_range(slot.cursor(), serial, range);
        self.mirror();
        kept
    }

    /// Counts what was dealt under an earlier epoch as lost, not as served.
    pub fn discard(&mut self, range: Range) {
        self.lost += range.len();
        self.dealt_at_reset += range.len();
    }

    /// See [`Pool::restore`].
    pub fn restore(&mut self, range: Range) -> bool {
        let kept = self.pool.restore(range);
        self.mirror();
        kept
    }

    /// See [`Pool::take_returned`].
    pub fn take_returned(&mut self, want: i64, floor: i64) -> Option<Range> {
        let taken = self.pool.take_returned(want, floor);
        self.mirror();
        taken
    }

    /// See [`Pool::claim`].
    pub fn claim(&mut self, fit: impl FnMut(Range) -> Option<Range>) -> Option<Range> {
        let serial = self.serial();
        let slot = self.slot;
        let claimed = self.pool.claim(slot.cursor(), serial, fit);
        self.mirror();
        claimed
    }

    /// See [`Pool::claim_returned`].
    pub fn claim_returned(
        &mut self,
        floor: i64,
        fit: impl FnMut(Range) -> Option<Range>,
    ) -> Option<Range> {
        let claimed = self.pool.claim_returned(floor, fit);
        self.mirror();
        claimed
    }

    /// Puts the returned ranges but for the `keep` lowest on their way to the catalog, as far as there is
    /// room.
    pub fn clear_returned(&mut self, keep: usize) {
        for range in self.pool.drain_returned(keep).as_slice() {
            if !self.leaving.push(*range) {
                let kept = self.pool.restore(*range);
                debug_assert!(kept);
            }
        }
        self.mirror();
    }

    /// What a frozen pool is to write to the catalog: all that could be dealt in order, and what was on its
    /// way there. See [`forget_queue`](Self::forget_queue).
    pub fn outgoing(&self) -> Ranges<HELD> {
        let mut outgoing = Ranges::default();
        for range in self.pool.queue().as_slice().iter().chain(self.leaving.as_slice()) {
            let kept = outgoing.push(*range);
            debug_assert!(kept);
        }
        outgoing
    }

    /// What was on its way to the catalog could not be written: it is dealt again, as far as there is
    /// room. What is not stays where it is.
    pub fn reinstate(&mut self) {
        if self.unacknowledged {
            return;
        }
        let leaving = std::mem::take(&mut self.leaving);
        for range in leaving.as_slice() {
            if !self.pool.restore(*range) {
                self.leaving.push(*range);
            }
        }
        self.mirror();
    }

    /// The catalog has what was on its way there.
    pub fn forget_leaving(&mut self) {
        self.leaving = Ranges::default();
        self.unacknowledged = false;
    }

    /// The same, and what could be dealt in order.
    pub fn forget_queue(&mut self) {
        self.pool.forget_queue();
        self.forget_leaving();
        self.mirror();
    }

    /// Indexes dealt so far.
    pub fn dealt(&self) -> i64 {
        self.pool.dealt(self.slot.cursor())
    }

    /// What can be dealt in order now.
    pub fn available(&self) -> i64 {
        self.pool.available(self.slot.cursor())
    }

    /// The first index that has not been dealt in order, if any is held.
    pub fn undealt(&self) -> Option<i64> {
        self.pool.undealt(self.slot.cursor())
    }
}

impl Shared {
    /// Puts a range back into its sequence's pool. `false`: there is no place for it; or, where it is empty,
    /// the catalog has to be told that all was served.
    pub fn return_range(&'static self, index_space: &IndexSpace, rest: Range) -> bool {
        let Some(slot) = self.find(&index_space.key) else { return false };
        let number = self.number_of(&slot);
        let mut locked = self.lock_slot(number);
        let kept = if locked.counts(index_space) {
            locked.untold = true;
            rest.is_empty() || locked.return_range(rest)
        } else {
            // Under a later epoch it is worthless, which whoever has raised that has written down.
            let void = locked.epoch == DROPPED
                || (locked.node == index_space.node && locked.epoch > index_space.epoch);
            if void {
                locked.discard(rest);
            }
            void
        };
        let crowded = locked.pool.returned().is_crowded();
        drop(locked);
        drop(slot);
        if crowded && self.want(number) {
            self.nudge(index_space.key.database);
        }
        kept
    }
}
