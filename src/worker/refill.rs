//! Refills the slots that want something. It checks again what each needs, reserves for all of them
//! in one transaction, and has the blocks published.

use std::sync::atomic::Ordering::*;

use pgrx::prelude::*;

use hilo_core::numbers::Micros;

use crate::catalog::rows::catalog_tables;
use crate::catalog::rows::catalog_tables::CatalogTable;
use crate::catalog::sequence::node::{self, LocalNode};
use crate::process::ffi;
use crate::process::memory;
use crate::shared::fault::Fault;
use crate::shared::slot::Locked;
use crate::worker::Worker;
use crate::worker::plan::Plan;
use crate::worker::reserve::{self, Batch, Outcome};
use crate::worker::retries::FailureKind;
use crate::worker::transaction::{self, BRIEFLY, Commit, Failure, LOCKED, TAKEN};

/// After this many microseconds the log repeats that a reservation fails.
const REPEAT_AFTER: Micros = Micros(60_000_000);

/// The most sequences in one transaction.
pub const BATCH: usize = 256;

impl Worker {
    /// Serves the slots that want something now. Returns whether there were any.
    pub(super) fn serve(&mut self) -> bool {
        let (mut any, mut free) = (false, true);
        for batch in self.due_slots().chunks(BATCH) {
            let (mut alone, mut together) = (Vec::new(), Vec::new());
            self.recheck_all(batch, &mut alone, &mut together);
            any |= !(alone.is_empty() && together.is_empty());
            let first_uses: Vec<_> = together.iter().filter_map(Plan::first_use).collect();
            if !together.is_empty() {
                self.reserve(together);
            }
            first_uses.into_iter().for_each(|sequence| self.read_ahead(sequence));
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
        if !self.flush_other_node(number) {
            let serial = self.shared.slots[number].serial();
            self.retries.note_failure(number, serial, FailureKind::Transient);
            self.shared.wanted.set(number);
            return None;
        }
        let plan = self.plan(number);
        if plan.is_none() {
            self.retries.forget(number);
        }
        plan
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
                self.end_reserving(&plans[0]);
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

    pub(super) fn end_reserving(&self, plan: &Plan) {
        self.shared.lock_slot(plan.number).end_reserving(&plan.index_space.key);
    }

    /// Leaves a slot's request to the next round.
    fn put_off(&self, plan: &Plan) {
        self.end_reserving(plan);
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

    /// Notes why a reservation failed. Either it is tried again later, or the waiting sessions
    /// learn of the failure.
    pub(super) fn fail(&mut self, plan: &Plan, failure: Failure) {
        let mut locked = self.shared.lock_slot(plan.number);
        let slot = locked.slot;
        if locked.serial() == plan.seen.serial {
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
        if self.retries.note_failure(plan.number, plan.seen.serial, kind) {
            slot.faults.fetch_add(1, AcqRel);
            slot.refilled.broadcast();
        } else {
            self.shared.wanted.set(plan.number);
        }
    }
}
