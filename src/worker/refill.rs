//! From the slots that want something to published blocks: look again what each needs, reserve for all
//! of them in one transaction, publish, wake who waits.

use std::collections::HashMap;
use std::sync::atomic::Ordering::*;
use std::time::{Duration, Instant};

use pgrx::prelude::*;

use hilo_core::backoff;

use super::reserve::{self, Outcome, Plan, Reserved};
use super::transaction::{self, Failure};
use super::{Worker, alarm, put_back};
use crate::catalog;
use crate::ffi::{self, HoldInterrupts};
use crate::gucs;
use crate::shared::random_id;
use crate::shared::slot::{DROPPED, Fault, Locked};

const LOCKED: i32 = PgSqlErrorCode::ERRCODE_LOCK_NOT_AVAILABLE as i32;

/// The most sequences in one transaction.
const BATCH: usize = 256;

/// Slots whose reservation has failed: how often, and when to try again.
#[derive(Default)]
pub struct Retries(HashMap<usize, Retry>);

struct Retry {
    failed: u32,
    at: Instant,
}

impl Retries {
    /// How long until the next retry is due.
    pub fn next(&self) -> Option<Duration> {
        self.0.values().map(|retry| retry.at.saturating_duration_since(Instant::now())).min()
    }

    fn is_early(&self, number: usize) -> bool {
        self.0.get(&number).is_some_and(|retry| retry.at > Instant::now())
    }

    /// Notes a failure. Whether it was the last that is tolerated. One that is `passing`, as a row
    /// lock is, is retried for as long as somebody waits: each caller's own patience ends it.
    fn failed(&mut self, number: usize, passing: bool) -> bool {
        /// No later than some 160 ms after a lock has gone.
        const STEADY: u32 = 4;
        let failed = self.0.get(&number).map_or(0, |retry| retry.failed) + 1;
        if failed >= backoff::ATTEMPTS && !passing {
            self.0.remove(&number);
            return true;
        }
        let step = if passing { failed.min(STEADY) } else { failed };
        let wait = backoff::delay(step, random_id() as u32);
        self.0.insert(number, Retry { failed, at: Instant::now() + wait });
        false
    }
}

/// What is held for another node than this server is now (`hilo.node_id` has changed) is let go. Whether
/// it was.
pub(super) fn disown_other(locked: &mut Locked) -> bool {
    let here = gucs::node().0 as u32;
    let other = locked.terms().is_some_and(|(terms, _)| terms.mapping.stripes.node != here);
    if other {
        locked.disown();
    }
    other
}

impl Worker {
    /// Serves the slots that want something. Whether there were any.
    pub(super) fn serve(&mut self) -> bool {
        let mut any = false;
        loop {
            let plans = self.plans();
            if plans.is_empty() {
                return any;
            }
            any = true;
            self.reserve(plans);
            self.interrupts();
        }
    }

    /// Takes the flags of this database's slots and looks again what each needs.
    fn plans(&mut self) -> Vec<Plan> {
        let mut plans = Vec::new();
        for number in self.shared.all_wanted() {
            let slot = &self.shared.slots[number];
            if slot.database.load(Acquire) != self.database.to_u32()
                || self.retries.is_early(number)
            {
                continue;
            }
            self.shared.take_want(number);
            if slot.recall.load(Acquire) != 0 {
                self.recall(number);
                if slot.waiting.load(SeqCst) == 0 {
                    continue;
                }
            }
            match self.plan(number) {
                Some(plan) => plans.push(plan),
                None => {
                    self.retries.0.remove(&number);
                }
            }
            if plans.len() == BATCH {
                break;
            }
        }
        plans
    }

    fn plan(&self, number: usize) -> Option<Plan> {
        let mut locked = self.shared.lock_slot(number);
        let slot = locked.slot;
        if slot.database.load(Relaxed) != self.database.to_u32() {
            return None;
        }
        if locked.epoch == DROPPED {
            drop(locked);
            self.shared.free(number);
            return None;
        }
        disown_other(&mut locked);
        let now = ffi::now();
        let window = gucs::window().as_micros() as i64;
        let (available, dealt) = (locked.available(), locked.dealt());
        let threshold = slot.threshold.load(Relaxed);
        // A waiter that finds nothing to take needs at least one.
        let waited_for = slot.waiting.load(SeqCst) > 0;
        let need = slot.demand.load(Relaxed).max((waited_for && available == 0) as i64);
        let known = locked.terms().is_some();
        let crowded = locked.pool.returned().is_crowded();
        let floored = locked.has_floor();
        if known && !crowded && !floored && available >= threshold.max(need) {
            return None;
        }
        if !locked.pool.has_room() && available > 0 && !floored {
            return None;
        }
        let demand = locked.rate.refill(now, dealt, window);
        let overflow =
            if crowded { locked.drain_returned().as_slice().to_vec() } else { Vec::new() };
        let returned = locked.pool.returned().as_slice().len();
        let plan = Plan {
            number,
            sequence: locked.key.sequence,
            epoch: locked.epoch,
            serial: locked.serial(),
            available,
            need,
            demand,
            block: locked.block,
            floor: locked.floor,
            floor_epoch: locked.floor_epoch,
            reserved_to: locked.reserved_to,
            room: if crowded {
                0
            } else {
                (hilo_core::pool::RETURNED / 2).saturating_sub(returned)
            },
            overflow,
        };
        drop(locked);
        put_back::in_flight(&plan, plan.epoch, plan.serial, plan.overflow.clone());
        Some(plan)
    }

    /// Reserves for all in one transaction; where that fails, for each in one of its own, so that no
    /// fault takes another sequence down with it.
    fn reserve(&mut self, plans: Vec<Plan>) {
        match self.reserve_together(&plans) {
            Ok(outcomes) => self.settle(plans, outcomes),
            Err(failure) if plans.len() == 1 => self.fail(&plans[0], failure),
            Err(_) => {
                for plan in plans {
                    self.reserve(vec![plan]);
                }
            }
        }
    }

    fn reserve_together(&self, plans: &[Plan]) -> Result<Vec<Outcome>, Failure> {
        let shared = self.shared;
        transaction::run(c"hilo: reserving blocks", || {
            let ids = catalog::ids()?;
            plans.iter().map(|plan| reserve::reserve(&ids, shared, plan)).collect()
        })
    }

    /// Interrupts are held until all has arrived: a warning, too, looks at them.
    fn settle(&mut self, plans: Vec<Plan>, outcomes: Vec<Outcome>) {
        let _hold = HoldInterrupts::new();
        let ending = transaction::is_ending();
        for (plan, outcome) in plans.iter().zip(outcomes) {
            match outcome {
                Outcome::Reserved(reserved) if ending => {
                    put_back::arrived(plan.number);
                    let mut ranges = reserved.free;
                    ranges.push(reserved.block);
                    // Of no serial, so that it goes to the catalog or nowhere.
                    put_back::in_flight(plan, reserved.epoch, 0, ranges);
                }
                Outcome::Reserved(reserved) => {
                    put_back::arrived(plan.number);
                    self.retries.0.remove(&plan.number);
                    self.publish(plan, reserved);
                }
                Outcome::Held => self.fail(
                    plan,
                    Failure {
                        sqlstate: LOCKED,
                        message: "its row in hilo.position is locked by another transaction".into(),
                    },
                ),
                Outcome::Gone => {
                    put_back::arrived(plan.number);
                    let mut locked = self.shared.lock_slot(plan.number);
                    locked.raise(DROPPED);
                    let slot = locked.slot;
                    drop(locked);
                    slot.refilled.broadcast();
                    self.shared.free(plan.number);
                }
            }
        }
    }

    fn publish(&self, plan: &Plan, reserved: Reserved) {
        let mapping = reserved.terms.mapping;
        let mut passed = None;
        let mut locked = self.shared.lock_slot(plan.number);
        let slot = locked.slot;
        if locked.key.sequence == plan.sequence
            && locked.learn(reserved.epoch, reserved.terms, reserved.exhausted)
        {
            for range in &reserved.free {
                if !locked.restore(*range) {
                    locked.lost += range.len();
                }
            }
            if !reserved.block.is_empty() {
                passed =
                    alarm::passed(&mut locked, &mapping, reserved.block.start, reserved.block.end);
                let waited = plan.available == 0;
                locked.publish(reserved.epoch, reserved.block);
                locked.block_at = ffi::now();
                locked.blocks_reserved += 1;
                locked.blocks_prefetched += u64::from(!waited);
            }
            locked.reserved_to = Some(reserved.block.end);
            locked.block = reserved.size;
            slot.threshold.store(reserved.threshold, Relaxed);
            slot.demand.store(0, Relaxed);
        }
        drop(locked);
        slot.refilled.broadcast();
        if let Some(level) = passed {
            alarm::warn(&reserved.name, level, &mapping);
        }
    }

    /// Notes why a reservation failed; tries again later, or tells who waits.
    fn fail(&mut self, plan: &Plan, failure: Failure) {
        let mut locked = self.shared.lock_slot(plan.number);
        let slot = locked.slot;
        // Under another serial these indexes mean other values, or those of another sequence.
        let same = locked.serial() == plan.serial;
        for range in &plan.overflow {
            if !same || !locked.restore(*range) {
                locked.lost += range.len();
            }
        }
        put_back::arrived(plan.number);
        let known = locked.fault.at != 0 && locked.fault.message() == failure.message;
        let since = ffi::now() - locked.fault.at;
        locked.fault = Fault::new(failure.sqlstate, &failure.message, ffi::now());
        locked.errors += 1;
        drop(locked);
        if !known || since > 60_000_000 {
            log!(
                "hilo could not reserve a block of sequence {}: {}",
                plan.sequence,
                failure.message
            );
        }
        let passing = failure.sqlstate == LOCKED && slot.waiting.load(SeqCst) > 0;
        if self.retries.failed(plan.number, passing) {
            slot.faults.fetch_add(1, AcqRel);
            slot.refilled.broadcast();
        } else {
            self.shared.want(plan.number);
        }
    }
}
