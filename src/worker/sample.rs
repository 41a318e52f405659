//! Samples the rates of the sequences while there is traffic.

use std::sync::atomic::Ordering::*;
use std::time::Instant;

use hilo_core::numbers::Index;
use hilo_core::policy::{self, Remaining};

use crate::gucs;
use crate::process::ffi;
use crate::worker::Worker;

impl Worker {
    /// Samples the slots of this database when it is time. After a whole window without activity,
    /// nothing is sampled until something is wanted again.
    pub(super) fn sample(&mut self) {
        if !self.active || self.sampled_at.elapsed() < gucs::sample_interval() {
            return;
        }
        let active = self.sample_all();
        self.active = active || self.busy_at.elapsed() < gucs::window();
    }

    /// Samples all slots now, also after the settings have changed. Returns whether any is active.
    pub(super) fn sample_all(&mut self) -> bool {
        self.sampled_at = Instant::now();
        self.slots().into_iter().fold(false, |active, number| self.sample_slot(number) | active)
    }

    /// Samples one slot. Returns whether anything was taken from it within the window.
    fn sample_slot(&mut self, number: usize) -> bool {
        let now = ffi::now();
        let window = gucs::window().into();
        if !self.flush_other_node(number) {
            self.shared.wanted.set(number);
        }
        let mut locked = self.shared.lock_slot(number);
        let taken = locked.taken_count();
        if locked.see_activity(now) {
            self.busy_at = Instant::now();
        }
        locked.pace.rate.sample(now, taken, window);
        let active = now.since(locked.pace.active_at) < window;
        if let Some((terms, _)) = locked.terms() {
            let settings = gucs::refill((terms.block_size > 0).then_some(terms.block_size));
            let demand = locked.pace.rate.demand(now, taken, window);
            let whole = terms.mapping.limit() - Index::ZERO;
            let left = if locked.is_at_end() { 0 } else { whole };
            let room = Remaining { whole, left };
            locked.pace.block = policy::shrunk_block(locked.pace.block, &demand, room, &settings);
            let usual = policy::threshold(locked.pace.block, &demand, room, &settings);
            // Nobody has used it: it was read ahead.
            let threshold = match policy::ahead(locked.pace.block, &settings) {
                Some(ahead) if taken == 0 => ahead.threshold.min(usual),
                _ => usual,
            };
            locked.slot.threshold.store(threshold, Relaxed);
        }
        let ahead = locked.slot.lease_ahead.load(Relaxed);
        let _ = locked.slot.lease_ahead.compare_exchange(
            ahead,
            policy::fade_lease_ahead(ahead),
            Relaxed,
            Relaxed,
        );
        active
    }
}
