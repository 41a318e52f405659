//! The rates of the sequences, sampled while there is traffic.

use std::sync::atomic::Ordering::*;
use std::time::Instant;

use hilo_core::policy::{self, Room};

use super::Worker;
use crate::ffi;
use crate::gucs;

impl Worker {
    /// Samples the slots of this database when it is time. Once a whole window has been empty, nothing
    /// is sampled until something is wanted again.
    pub(super) fn sample(&mut self) {
        if !self.active || self.sampled_at.elapsed() < gucs::sample_interval() {
            return;
        }
        self.sampled_at = Instant::now();
        let mut active = self.busy_at.elapsed() < gucs::window();
        for number in self.slots() {
            active |= self.sample_slot(number);
        }
        self.active = active;
    }

    /// Whether anything was dealt within the window.
    fn sample_slot(&mut self, number: usize) -> bool {
        let now = ffi::now();
        let window = gucs::window().as_micros() as i64;
        let mut locked = self.shared.lock_slot(number);
        let dealt = locked.dealt();
        if dealt != locked.seen_dealt {
            locked.seen_dealt = dealt;
            locked.active_at = now;
            self.busy_at = Instant::now();
        }
        locked.rate.sample(now, dealt, window);
        let active = now - locked.active_at < window;
        if let Some((terms, _)) = locked.terms() {
            let settings = gucs::refill((terms.block_size > 0).then_some(terms.block_size));
            let demand = locked.rate.demand(now, dealt, window);
            let whole = terms.mapping.limit();
            let left = if locked.slot.is_exhausted() { 0 } else { whole };
            let room = Room { whole, left };
            locked.block = policy::shrunk_block(locked.block, &demand, room, &settings);
            let threshold = policy::threshold(locked.block, &demand, room, &settings);
            locked.slot.threshold.store(threshold, Relaxed);
        }
        active
    }
}
