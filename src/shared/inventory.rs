//! The ranges of a sequence in memory: in its pool, on their way to the catalog, in slices, and in
//! leases of open transactions.

use std::sync::atomic::Ordering::*;

use hilo_core::numbers::Index;
use hilo_core::range::Range;

use crate::errors::HiloError;
use crate::process::{ffi, memory};
use crate::shared::content::Tier;
use crate::shared::key::Key;
use crate::shared::slices::IndexSpace;
use crate::shared::{Shared, slot};

/// See [`Shared::in_memory`].
#[derive(Debug, Default)]
pub struct HeldRanges {
    /// Sorted and disjoint.
    pub ranges: Vec<Range>,
    /// Where each range was found. A range that is moving may be in two places.
    pub tiers: Vec<(Tier, Range)>,
    /// The first index that has not been taken in order, if the pool holds any.
    pub first_untaken: Option<Index>,
    /// How far the position is, as far as the slot knows. `None`: there is no slot, or it does not
    /// know.
    pub reserved_to: Option<Index>,
    /// Whether the sequence has a slot.
    pub has_slot: bool,
}

impl HeldRanges {
    /// The state of memory once the ranges in `leaving` are in the catalog.
    ///
    /// # Errors
    /// `OutOfMemory`
    pub fn without(self, leaving: &[Range]) -> Result<HeldRanges, HiloError> {
        let leaving = Range::union(memory::try_collect(leaving.iter().copied())?);
        let kept = self.ranges.iter().flat_map(|range| range.without(&leaving));
        let ranges = memory::try_collect(kept)?;
        let first_untaken =
            self.first_untaken.filter(|next| !leaving.iter().any(|range| range.contains(*next)));
        Ok(HeldRanges { ranges, first_untaken, ..self })
    }
}

impl Shared {
    /// Stops serving from a sequence's pool until a worker that could lock its position thaws it.
    pub fn freeze(&'static self, key: &Key) {
        if let Some(slot) = self.find(key) {
            self.lock_slot(self.number_of(&slot)).freeze();
        }
    }

    /// Waits, up to about half a second, until memory reflects the worker's last commit: reserved
    /// blocks are published, and flushed ranges are gone. Returns whether it does. The caller holds
    /// the position's lock, so the worker commits nothing more.
    pub fn await_worker(&'static self, key: &Key) -> bool {
        let slot = self.find(key);
        let arrived = || {
            let reserved = slot.as_ref().is_none_or(|slot| slot.reserving.load(Acquire) == 0);
            let left = !self.is_pending_leaving(key) && !self.is_orphan_leaving(key);
            (reserved && left).then_some(())
        };
        ffi::poll(500, 1_000, arrived).is_some()
    }

    /// All ranges of `index_space` in memory. `None`: they cannot be determined, because a session
    /// is just taking a range or the list has no room.
    pub fn in_memory(
        &'static self,
        index_space: &IndexSpace,
    ) -> Result<Option<HeldRanges>, HiloError> {
        let slices: usize = self.backends.iter().map(|b| b.used.load(Acquire) as usize).sum();
        let pending = self.pending_used.count();
        // Nothing may be allocated under the lock. Sessions that come meanwhile may need some more
        // room.
        let room = slices + self.slices_per_backend + pending + slot::HELD;
        let mut tiers = memory::with_capacity(room)?;
        let mut held = HeldRanges::default();
        let found = self.find(&index_space.key);
        // Under the lock no range moves from a session to the pool. A range that moves the other
        // way is seen in the pool, or afterwards in the session's slice. Or the slice says that it
        // is being filled.
        let locked = found.as_ref().map(|slot| self.lock_slot(self.number_of(slot)));
        if let Some(locked) = &locked {
            held.has_slot = true;
            if locked.index_space() == *index_space {
                tiers.extend(locked.tiers().filter(|(_, range)| !range.is_empty()));
                (held.first_untaken, held.reserved_to) =
                    (locked.first_untaken(), locked.catalog.reserved_to);
            }
        }
        let mut complete = true;
        let mut add = |tier, range| {
            let has_room = tiers.len() < tiers.capacity();
            if has_room {
                tiers.push((tier, range));
            }
            has_room
        };
        for (pid, slice) in self.all_slices() {
            match slice.observe() {
                None => {}
                Some(Err(())) => complete &= slice.index_space().key != index_space.key,
                Some(Ok((whose, rest))) if whose == *index_space && !rest.is_empty() => {
                    // An orphaned slice is on its way to the pool or the catalog.
                    complete &= add(if pid == 0 { Tier::Returned } else { Tier::Slice }, rest);
                }
                Some(Ok(_)) => {}
            }
        }
        // A session stores what it leases out under the slot's lock.
        for pending in self.all_pending().filter(|pending| pending.index_space == *index_space) {
            complete &= add(Tier::Leased, pending.range);
        }
        drop(locked);
        drop(found);
        let ranges = tiers.iter().map(|(_, range)| *range);
        held.ranges = Range::union(memory::try_collect(ranges)?);
        held.tiers = tiers;
        Ok(complete.then_some(held))
    }

    /// Does the same, and retries for a moment if that fails: a session fills a slice within a few
    /// instructions.
    pub fn in_memory_soon(
        &'static self,
        index_space: &IndexSpace,
    ) -> Result<Option<HeldRanges>, HiloError> {
        ffi::poll(100, 100, || self.in_memory(index_space).transpose()).transpose()
    }
}
