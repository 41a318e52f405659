//! What memory holds of a sequence: its pool, what is on its way to the catalog, and the slices.

use std::sync::atomic::Ordering::*;

use hilo_core::range::Range;

use super::directory::Key;
use super::slices::Counting;
use super::{Shared, slot};

/// See [`Shared::held`].
#[derive(Debug)]
pub struct Held {
    /// Sorted, and apart.
    pub ranges: Vec<Range>,
    /// The first index that has not been dealt in order, where the pool has any.
    pub undealt: Option<i64>,
    /// How far the slot knows the position to be; `None` where there is no slot, or it does not know.
    pub reserved_to: Option<i64>,
    /// Whether the sequence has a slot.
    pub has_slot: bool,
}

impl Shared {
    /// Nothing of a sequence's pool is dealt any more, until a worker that could lock its position
    /// thaws it.
    pub fn freeze(&'static self, key: &Key) {
        if let Some(slot) = self.find(key) {
            self.lock_slot(self.number_of(slot)).freeze();
            slot.pins.fetch_sub(1, SeqCst);
        }
    }

    /// Waits, for a moment at most, until what the worker has committed is in memory. Whoever calls has the
    /// position's lock, so that nothing more is committed.
    pub fn await_reservation(&'static self, key: &Key) {
        const TRIES: u32 = 500;
        let Some(slot) = self.find(key) else { return };
        for _ in 0..TRIES {
            if slot.reserving.load(Acquire) == 0 {
                break;
            }
            // SAFETY: it only sleeps, and no lock is held meanwhile.
            unsafe { pgrx::pg_sys::pg_usleep(1_000) };
        }
        slot.pins.fetch_sub(1, SeqCst);
    }

    /// What memory holds of `counting`. `None` where a session is just taking some, so that it cannot
    /// be told.
    pub fn held(&'static self, counting: &Counting) -> Option<Held> {
        let lines: usize = self.backends.iter().map(|b| b.used.load(Acquire) as usize).sum();
        // No allocation under the lock; sessions that come meanwhile may need some more.
        let mut ranges = Vec::with_capacity(lines + self.slices_per_backend + slot::HELD);
        let mut held =
            Held { ranges: Vec::new(), undealt: None, reserved_to: None, has_slot: false };
        let found = self.find(&counting.key);
        // Under the lock nothing goes from a session to the pool. What goes the other way is seen in
        // the pool, or then in the session's line, or the line says that it is being filled.
        let locked = found.map(|slot| self.lock_slot(self.number_of(slot)));
        if let Some(locked) = &locked {
            held.has_slot = true;
            if locked.counts(counting) {
                ranges.extend_from_slice(locked.held().as_slice());
                (held.undealt, held.reserved_to) = (locked.undealt(), locked.reserved_to);
            }
        }
        let mut told = true;
        for (_, line) in self.all_slices() {
            match line.observe() {
                None => {}
                Some(Err(())) => told &= line.counting().key != counting.key,
                Some(Ok((whose, rest))) if whose == *counting && !rest.is_empty() => {
                    told &= ranges.len() < ranges.capacity();
                    if told {
                        ranges.push(rest);
                    }
                }
                Some(Ok(_)) => {}
            }
        }
        drop(locked);
        if let Some(slot) = found {
            slot.pins.fetch_sub(1, SeqCst);
        }
        held.ranges = Range::union(ranges);
        told.then_some(held)
    }

    /// The same, where that takes a moment: a session fills a line within a few instructions.
    pub fn held_soon(&'static self, counting: &Counting) -> Option<Held> {
        const TRIES: u32 = 100;
        (0..TRIES).find_map(|_| {
            self.held(counting).or_else(|| {
                // SAFETY: sleeps a tenth of a millisecond.
                unsafe { pgrx::pg_sys::pg_usleep(100) };
                None
            })
        })
    }
}
