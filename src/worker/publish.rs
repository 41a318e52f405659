//! Publishes what was reserved, after the commit.

use std::sync::atomic::Ordering::*;

use hilo_core::numbers::Timestamp;

use crate::errors::{FaultKind, HiloError};
use crate::process::ffi;
use crate::worker::plan::Plan;
use crate::worker::reserve::{Outcome, Reserved};
use crate::worker::retries::FailureKind;
use crate::worker::transaction::{Commit, Failure, LOCKED};
use crate::worker::{Worker, exhaustion_warning};

fn row_locked() -> Failure {
    let message = "its row in _hilo.hilo_position, or the table, is locked by another transaction";
    let (sqlstate, kind) = (LOCKED, FaultKind::Locked);
    Failure { sqlstate, kind, message: message.into(), advice: [None, None] }
}

impl Worker {
    /// Tells memory what came of `plans` in a transaction that has committed. Memory and messages
    /// are asked for last: an error there ends the worker, and what was not published by then would
    /// be lost.
    pub(super) fn apply_outcomes(
        &mut self,
        plans: Vec<Plan>,
        mut outcomes: Vec<Outcome>,
        commit: Commit,
    ) {
        for (plan, outcome) in plans.iter().zip(&mut outcomes) {
            if let Outcome::Reserved(reserved) = outcome {
                reserved.passed = self.publish(plan, reserved, commit);
            }
        }
        // A session that went on at once would soon wait for a block that is yet to be published.
        plans.iter().for_each(|plan| self.shared.slots[plan.number].refilled.broadcast());
        let mut gone = Vec::new();
        for (plan, outcome) in plans.iter().zip(outcomes) {
            match outcome {
                Outcome::Reserved(reserved) => {
                    self.retries.forget(plan.number);
                    if let Some(asks) = reserved.taken.asks {
                        self.ask(asks);
                    }
                    if let Some(level) = reserved.passed {
                        let (name, bound) =
                            (reserved.name.to_string(), reserved.terms.mapping.bound());
                        HiloError::NearEnd { name, level, bound }.warn();
                    }
                }
                Outcome::Locked => self.fail(plan, row_locked()),
                Outcome::OtherNode => {
                    self.retries.note_failure(
                        plan.number,
                        plan.seen.serial,
                        FailureKind::Transient,
                    );
                    self.shared.wanted.set(plan.number);
                }
                // Who has begun to wait meanwhile asks again.
                Outcome::NotOurs => {
                    self.shared.slots[plan.number].refilled.broadcast();
                    gone.push(plan.number);
                }
                Outcome::Foreign => self.discard(plan),
                Outcome::Gone => {
                    self.shared.lock_slot(plan.number).mark_dropped();
                    self.shared.slots[plan.number].refilled.broadcast();
                    gone.push(plan.number);
                }
            }
        }
        plans.iter().for_each(|plan| self.end_reserving(plan));
        drop(plans);
        gone.into_iter().for_each(|number| {
            self.shared.free(number);
        });
    }

    /// Discards what a slot holds that is not of its row, and has it filled from that.
    fn discard(&self, plan: &Plan) {
        let mut locked = self.shared.lock_slot(plan.number);
        if locked.serial() == plan.seen.serial {
            locked.change_node();
        }
        drop(locked);
        self.shared.wanted.set(plan.number);
    }

    /// Publishes what was reserved. If the standby has not acknowledged the commit, it goes back to
    /// the catalog instead. Returns the level that was passed, if that is worth a warning.
    fn publish(&self, plan: &Plan, reserved: &Reserved, commit: Commit) -> Option<u8> {
        let (seen, taken, mapping) = (&plan.seen, &reserved.taken, reserved.terms.mapping);
        let mut passed = None;
        let mut locked = self.shared.lock_slot(plan.number);
        let slot = locked.slot;
        if locked.worker == self.place.generation
            && locked.key == plan.index_space.key
            && locked.learn(reserved.epoch, seen.version, reserved.terms)
            && locked.epoch == reserved.epoch
        {
            match locked.serial() == seen.serial && reserved.left {
                true => locked.forget_leaving(),
                false => locked.reinstate(),
            }
            let interrupted = !commit.is_acknowledged();
            locked.unacknowledged |= interrupted;
            for range in &taken.free {
                if interrupted || !locked.restore(*range) {
                    locked.leaving.push(*range);
                }
            }
            for block in &taken.blocks {
                passed = exhaustion_warning::new_level(&mut locked, &mapping, *block).or(passed);
                let waited = seen.available == 0;
                if interrupted || !locked.publish(*block) {
                    locked.leaving.push(*block);
                }
                locked.pace.block_at = ffi::now();
                locked.counts.blocks_reserved += 1;
                locked.counts.blocks_prefetched += u64::from(!waited);
            }
            locked.catalog.reserved_to = Some(reserved.next_index);
            locked.counts.before.get_or_insert(reserved.totals);
            locked.catalog.is_stale = true;
            (locked.catalog.free_end, locked.catalog.reloaded) = (taken.free_end, seen.freed);
            locked.catalog.asked_at = if taken.awaits { ffi::now() } else { Timestamp(0) };
            locked.catalog.more_free = taken.free.len() == plan.room.ranges;
            locked.pace.block = taken.size;
            locked.thaw(seen.freezes);
            slot.threshold.store(taken.threshold, Relaxed);
            slot.demand.store(0, Relaxed);
        }
        locked.end_reserving(&plan.index_space.key);
        passed
    }
}
