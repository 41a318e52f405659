//! Refills the slots that want something. It checks again what each needs, reserves for all of them
//! in one transaction, publishes the blocks, and wakes the sessions that wait.

use std::collections::HashMap;
use std::sync::atomic::Ordering::*;
use std::time::{Duration, Instant};

use pgrx::prelude::*;

use hilo_core::backoff;
use hilo_core::numbers::{Index, Micros, Serial, Timestamp};
use hilo_core::policy;
use hilo_core::pool::RETURNED;

use crate::catalog::rows::catalog_tables;
use crate::catalog::rows::catalog_tables::CatalogTable;
use crate::catalog::sequence::node::{self, LocalNode};
use crate::errors::{FaultKind, HiloError};
use crate::gucs;
use crate::process::ffi;
use crate::process::memory;
use crate::shared::fault::Fault;
use crate::shared::pin::Pinned;
use crate::shared::random_id;
use crate::shared::shared_name::SharedName;
use crate::shared::slot::{DROPPED, Locked};
use crate::worker::reserve::{self, Batch, Outcome, Plan, Reserved};
use crate::worker::transaction::{self, BRIEFLY, Commit, Failure, LOCKED, TAKEN};
use crate::worker::{Worker, exhaustion_warning};

/// The log says again that the same reservation fails after so many microseconds.
const REPEAT_AFTER: Micros = Micros(60_000_000);

/// The most sequences in one transaction.
const BATCH: usize = 256;

/// The most sequences that are read ahead at once. With those that sessions want meanwhile, they
/// are one transaction.
pub const MAX_AHEAD: usize = BATCH - 16;

/// How many returned ranges stay in memory when there are too many of them, and up to how many are
/// reloaded from the catalog.
const KEPT: usize = RETURNED / 2;

/// Slots whose reservation has failed: how often, and when to try again.
#[derive(Default)]
pub struct Retries(HashMap<usize, Retry>);

struct Retry {
    /// The slot's serial: another sequence in the same slot starts from the beginning.
    serial: Serial,
    failed: u32,
    at: Instant,
}

/// How a failed reservation is treated.
#[derive(Clone, Copy, PartialEq, Eq)]
enum FailureKind {
    /// Another transaction is in the way, such as one that has locked the row. It is tried again
    /// for as long as a session waits, because each caller's own timeout ends its wait.
    Transient,
    /// It is tried again a few times.
    Persistent,
}

impl Retries {
    /// How long until the next retry is due.
    pub fn next(&self) -> Option<Duration> {
        self.0.values().map(|retry| retry.at.saturating_duration_since(Instant::now())).min()
    }

    /// Keeps only those that `due` says are still to be retried.
    pub fn retain(&mut self, due: impl Fn(usize, Serial) -> bool) {
        self.0.retain(|number, retry| due(*number, retry.serial));
    }

    fn is_backing_off(&self, number: usize, serial: Serial) -> bool {
        let retry = self.0.get(&number);
        retry.is_some_and(|retry| retry.serial == serial && retry.at > Instant::now())
    }

    fn failures(&self, number: usize) -> u32 {
        self.0.get(&number).map_or(0, |retry| retry.failed)
    }

    /// Notes a failure. Returns whether it was the last one that is tolerated.
    fn note_failure(&mut self, number: usize, serial: Serial, kind: FailureKind) -> bool {
        /// Retries no later than about 160 ms after a lock is released.
        const STEADY: u32 = 4;
        let before = self.0.get(&number).filter(|retry| retry.serial == serial);
        let failed = before.map_or(0, |retry| retry.failed) + 1;
        let step = match kind {
            FailureKind::Transient => failed.min(STEADY),
            FailureKind::Persistent if failed < backoff::ATTEMPTS => failed,
            FailureKind::Persistent => {
                self.0.remove(&number);
                return true;
            }
        };
        let wait = backoff::delay(step, random_id() as u32);
        self.0.insert(number, Retry { serial, failed, at: Instant::now() + wait });
        false
    }
}

/// How many indexes the callers of a slot need at once.
fn need(locked: &Locked, waited_for: bool) -> i64 {
    let (slot, available) = (locked.slot, locked.available());
    let ahead = match locked.is_at_end() {
        true => 0,
        false => policy::refill_for_lease(available, slot.lease_ahead.load(Relaxed)),
    };
    // A waiter that finds nothing to take needs at least one.
    slot.demand.load(Relaxed).max((waited_for && available == 0) as i64).max(ahead)
}

fn row_locked() -> Failure {
    let message = "its row in _hilo.hilo_position, or the table, is locked by another transaction";
    let (sqlstate, kind) = (LOCKED, FaultKind::Locked);
    Failure { sqlstate, kind, message: message.into(), advice: [None, None] }
}

impl Worker {
    /// Serves the slots that want something now. Returns whether there were any.
    pub(super) fn serve(&mut self) -> bool {
        let (mut any, mut free) = (false, true);
        for batch in self.due_slots().chunks(BATCH) {
            let (mut alone, mut together) = (Vec::new(), Vec::new());
            self.recheck_all(batch, &mut alone, &mut together);
            // A session may have used up what was read ahead, and wait for one of the next.
            if self.has_passed_mark() && batch.len() <= BATCH - MAX_AHEAD {
                let ahead = self.read_ahead();
                self.recheck_all(&ahead, &mut alone, &mut together);
            }
            any |= !(alone.is_empty() && together.is_empty());
            if !together.is_empty() {
                self.reserve(together);
            }
            self.read_ahead();
            // The creation of a sequence may wait for another transaction. No other slot is marked
            // as reserving meanwhile, and only one waits in a round, which has failed least often.
            alone.sort_unstable_by_key(|plan| self.retries.failures(plan.number));
            for plan in alone {
                match free {
                    true => free = self.reserve(vec![plan]),
                    false => self.put_off(&plan),
                }
            }
            self.interrupts();
        }
        any
    }

    /// The slots of this database that want something, unless it is too early to try again.
    pub(super) fn due_slots(&mut self) -> Vec<usize> {
        let shared = self.shared;
        self.retries.retain(|number, serial| {
            shared.wanted.is_set(number) && shared.slots[number].serial() == serial
        });
        let is_due = |number: &usize| {
            let slot = &shared.slots[*number];
            slot.database.load(Acquire) == self.database.to_u32()
                && !self.retries.is_backing_off(*number, slot.serial())
        };
        let due = || shared.wanted.iter().filter(is_due);
        memory::try_collect(due()).unwrap_or_else(|_| due().take(BATCH).collect())
    }

    /// Rechecks slots. `alone`: the plans of those that get a transaction of their own.
    fn recheck_all(&mut self, numbers: &[usize], alone: &mut Vec<Plan>, together: &mut Vec<Plan>) {
        for &number in numbers {
            // A slot for which there is no memory now keeps its flag.
            if alone.try_reserve(1).is_err() || together.try_reserve(1).is_err() {
                break;
            }
            match self.recheck(number) {
                Some(plan) if plan.create.is_some() => alone.push(plan),
                Some(plan) => together.push(plan),
                None => {}
            }
        }
    }

    /// Takes a slot's flag, and checks again what the slot needs.
    fn recheck(&mut self, number: usize) -> Option<Plan> {
        if self.shared.slots[number].database.load(Acquire) != self.database.to_u32() {
            return None;
        }
        self.shared.wanted.clear(number);
        self.pass_mark(number);
        if !self.flush_other_node(number) {
            let serial = self.shared.slots[number].serial();
            self.retries.note_failure(number, serial, FailureKind::Transient);
            self.shared.wanted.set(number);
            return None;
        }
        let plan = self.plan(number);
        if plan.is_none() {
            self.retries.0.remove(&number);
        }
        plan
    }

    pub(super) fn plan(&mut self, number: usize) -> Option<Plan> {
        let mut locked = self.shared.lock_slot(number);
        let slot = locked.slot;
        if slot.database.load(Relaxed) != self.database.to_u32() {
            return None;
        }
        let waited_for = slot.waiting.load(SeqCst) > 0;
        let request = Some(locked.shared_name).filter(SharedName::asks_for_creation);
        if request.is_some() && !waited_for {
            locked.end();
        }
        if locked.epoch == DROPPED {
            drop(locked);
            self.shared.free(number);
            return None;
        }
        if !locked.claim_for_worker(self.place.generation) {
            return None;
        }
        let (now, window) = (ffi::now(), gucs::window().into());
        let (available, taken) = (locked.available(), locked.taken_count());
        let (threshold, frozen) = (slot.threshold.load(Relaxed), locked.pool.is_frozen());
        let known = locked.terms().is_some();
        // Nothing more can be reserved: the free ranges in the catalog are all that is left.
        let at_end = locked.is_at_end();
        let need = need(&locked, waited_for);
        let crowded = locked.pool.returned_ranges().is_crowded();
        let reloads = locked.is_to_reload() || locked.is_bare();
        let content = available >= threshold.max(need) && !(at_end && waited_for) && !reloads;
        let calm = known && !crowded && !frozen && locked.leaving.is_empty();
        let full = !locked.pool.has_room() && available > 0 && !frozen;
        if full || (calm && (content || locked.awaits_source(now))) {
            return None;
        }
        if at_end && waited_for && !frozen {
            // The sessions that wait can be served none of these: they leave for the catalog, which
            // may have others.
            locked.clear_returned(0);
        } else if crowded {
            locked.clear_returned(KEPT);
        }
        let from = if at_end { slot.take_wanted_from() } else { Index::ZERO };
        let returned = locked.pool.returned_ranges().len();
        slot.reserving.store(1, Release);
        Some(Plan {
            number,
            index_space: locked.index_space(),
            serial: locked.serial(),
            version: slot.version.load(Relaxed),
            freezes: locked.freezes,
            freed: locked.freed,
            available,
            holds: !locked.is_empty(),
            need,
            demand: locked.rate.refill(now, taken, window),
            counted: locked.counters(),
            block: locked.block,
            room: if crowded { 0 } else { KEPT.saturating_sub(returned) },
            from: locked.terms().map_or(from, |(terms, _)| from.max(terms.mapping.indexes().start)),
            places: locked.pool.places(),
            leaving: locked.leaving,
            create: request,
            _pin: Pinned::new(slot),
        })
    }

    /// Flushes what a slot holds for another node than this server is now, as that node's. Returns
    /// whether nothing is held for it any more.
    pub(super) fn flush_other_node(&mut self, number: usize) -> bool {
        let (here, database) = (node::id(), self.database.to_u32());
        let is_other = |locked: &Locked| {
            locked.key.database == database && locked.node >= 0 && locked.node != here
        };
        if !is_other(&self.shared.lock_slot(number)) {
            return true;
        }
        let _ = self.flush(&[number]);
        let mut locked = self.shared.lock_slot(number);
        let left = locked.is_done();
        if left && is_other(&locked) {
            locked.change_node();
        }
        left
    }

    /// Reserves for all plans in one transaction. If that fails, reserves for each in its own
    /// transaction, so that a fault with one sequence does not affect another. Returns whether no
    /// lock of another transaction was waited for in vain.
    fn reserve(&mut self, plans: Vec<Plan>) -> bool {
        match self.reserve_together(&plans) {
            Ok((outcomes, commit)) => self.apply_outcomes(plans, outcomes, commit),
            Err(failure) if plans.len() == 1 => {
                let free = failure.sqlstate != LOCKED;
                self.fail(&plans[0], failure);
                self.shared.slots[plans[0].number].reserving.store(0, Release);
                return free;
            }
            Err(_) => {
                for plan in plans {
                    self.reserve(vec![plan]);
                }
            }
        }
        true
    }

    /// Leaves what a slot wants to the next round.
    fn put_off(&self, plan: &Plan) {
        self.shared.slots[plan.number].reserving.store(0, Release);
        self.shared.wanted.set(plan.number);
    }

    fn reserve_together(&self, plans: &[Plan]) -> Result<(Vec<Outcome>, Commit), Failure> {
        let shared = self.shared;
        let patience = plans.iter().any(|plan| plan.create.is_some()).then_some(BRIEFLY);
        transaction::run(patience, c"hilo: reserving blocks", || {
            if !catalog_tables::lock_for_reservation()? {
                return memory::try_collect(plans.iter().map(|_| Outcome::Locked));
            }
            let here = LocalNode::read()?;
            let positions = CatalogTable::Position.write()?;
            let _indexes = positions.keep_indexes();
            let mut batch = Batch::lock(plans, &here)?;
            let mut outcomes = memory::with_capacity(plans.len())?;
            for plan in plans {
                outcomes.push(reserve::reserve(shared, &here, &mut batch, plan)?);
            }
            Ok(outcomes)
        })
    }

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
                    self.retries.0.remove(&plan.number);
                    self.set_mark(&plan.index_space.key, plan.number, reserved.threshold);
                    if let Some(asks) = reserved.asks {
                        self.ask(asks);
                    }
                    if plan.is_first_use() {
                        self.first_uses.note(plan.index_space.key.sequence);
                    }
                    if let Some(level) = reserved.passed {
                        let (name, bound) =
                            (reserved.name.to_string(), reserved.terms.mapping.bound());
                        HiloError::NearEnd { name, level, bound }.warn();
                    }
                }
                Outcome::Locked => self.fail(plan, row_locked()),
                Outcome::OtherNode => {
                    self.retries.note_failure(plan.number, plan.serial, FailureKind::Transient);
                    self.shared.wanted.set(plan.number);
                }
                // Who has begun to wait meanwhile asks again.
                Outcome::NotOurs => {
                    self.drop_mark(&plan.index_space.key, plan.number);
                    self.shared.slots[plan.number].refilled.broadcast();
                    gone.push(plan.number);
                }
                Outcome::Foreign => self.discard(plan),
                Outcome::Gone => {
                    self.shared.lock_slot(plan.number).end();
                    self.shared.slots[plan.number].refilled.broadcast();
                    gone.push(plan.number);
                }
            }
        }
        for plan in &plans {
            self.shared.slots[plan.number].reserving.store(0, Release);
        }
        drop(plans);
        gone.into_iter().for_each(|number| {
            self.shared.free(number);
        });
    }

    /// Discards what a slot holds that is not of its row, and has it filled from that.
    fn discard(&self, plan: &Plan) {
        let mut locked = self.shared.lock_slot(plan.number);
        if locked.serial() == plan.serial {
            locked.change_node();
        }
        drop(locked);
        self.shared.wanted.set(plan.number);
    }

    /// Publishes what was reserved. If the standby has not acknowledged the commit, it goes back to
    /// the catalog instead. Returns the level that was passed, if that is worth a warning.
    fn publish(&self, plan: &Plan, reserved: &Reserved, commit: Commit) -> Option<u8> {
        let mapping = reserved.terms.mapping;
        let mut passed = None;
        let mut locked = self.shared.lock_slot(plan.number);
        let slot = locked.slot;
        if locked.worker == self.place.generation
            && locked.key == plan.index_space.key
            && locked.learn(reserved.epoch, plan.version, reserved.terms)
            && locked.epoch == reserved.epoch
        {
            match locked.serial() == plan.serial && reserved.left {
                true => locked.forget_leaving(),
                false => locked.reinstate(),
            }
            let interrupted = !commit.is_acknowledged();
            locked.unacknowledged |= interrupted;
            for range in &reserved.free {
                if interrupted || !locked.restore(*range) {
                    locked.leaving.push(*range);
                }
            }
            for block in &reserved.blocks {
                passed = exhaustion_warning::new_level(&mut locked, &mapping, *block).or(passed);
                let waited = plan.available == 0;
                if interrupted || !locked.publish(*block) {
                    locked.leaving.push(*block);
                }
                locked.block_at = ffi::now();
                locked.counts.blocks_reserved += 1;
                locked.counts.blocks_prefetched += u64::from(!waited);
            }
            locked.reserved_to = Some(reserved.next_index);
            locked.counted_before.get_or_insert(reserved.totals);
            locked.catalog_stale = true;
            (locked.free_end, locked.reloaded) = (reserved.free_end, plan.freed);
            locked.asked_at = if reserved.awaits { ffi::now() } else { Timestamp(0) };
            locked.more_free = reserved.free.len() == plan.room;
            locked.block = reserved.size;
            locked.thaw(plan.freezes);
            let (key, available) = (plan.index_space.key, locked.available());
            let threshold = self.threshold(&key, plan.number, reserved.threshold, available);
            slot.threshold.store(threshold, Relaxed);
            slot.demand.store(0, Relaxed);
        }
        drop(locked);
        slot.reserving.store(0, Release);
        passed
    }

    /// Notes why a reservation failed. It is tried again later, or the sessions that wait learn of
    /// the failure.
    fn fail(&mut self, plan: &Plan, failure: Failure) {
        let mut locked = self.shared.lock_slot(plan.number);
        let slot = locked.slot;
        if locked.serial() == plan.serial {
            locked.reinstate();
        }
        let known = locked.fault.at.0 != 0 && locked.fault.message() == failure.message;
        let since = ffi::now().since(locked.fault.at);
        locked.fault = Fault::new(failure.sqlstate, failure.kind, &failure.message, ffi::now());
        locked.counts.errors += 1;
        drop(locked);
        if (!known || since > REPEAT_AFTER) && !transaction::is_ending() {
            let sequence = match &plan.create {
                Some(request) => format!("\"{}\"", String::from_utf8_lossy(request.name())),
                None => plan.index_space.key.sequence.to_string(),
            };
            log!("hilo could not reserve a block of sequence {sequence}: {}", failure.message);
        }
        let kind = match failure.sqlstate {
            LOCKED if slot.waiting.load(SeqCst) > 0 => FailureKind::Transient,
            // Whoever was creating the sequence has committed: the next attempt finds it.
            TAKEN if plan.create.is_some() => FailureKind::Transient,
            _ => FailureKind::Persistent,
        };
        if self.retries.note_failure(plan.number, plan.serial, kind) {
            slot.faults.fetch_add(1, AcqRel);
            slot.refilled.broadcast();
        } else {
            self.shared.wanted.set(plan.number);
        }
    }
}
