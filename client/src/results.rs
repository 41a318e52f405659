//! Passes on what the server has answered: to the engine, the lanes, and the callers that wait.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use hilo_core::numbers::Monotonic;
use hilo_core::protocol::{self, Done};
use uuid::Uuid;

use crate::driver::Driver;
use crate::engine::{Ask, Failure, Id, Lease, Plan, Return};
use crate::hot::{Hot, Keys};
use crate::lane;
use crate::refusal::Report;
use crate::sequence::keys;
use crate::server::Answer;
use crate::shared::{Core, Life, Shared};
use crate::{Error, Unavailable};

/// The sequences for which a statement has changed something, and whether they were refused.
type Changed = HashMap<Id, bool>;
/// Refusals of the server, to be reported after the lock is released.
type Refusals = Vec<(String, Arc<Report>)>;

impl Driver {
    /// Handles a statement that was committed, or refused as a whole.
    pub fn accept(&mut self, plan: Plan, answer: Answer, sent: Monotonic) {
        let now = self.shared.now();
        let shared = self.shared.clone();
        let mut core = shared.lock();
        let refusals = || answer.iter().filter_map(|row| row.as_ref().err());
        let lack = refusals().find(|why| why.is_lack()).cloned();
        let full = refusals().any(|why| why.is_overload());
        let (mut rows, mut refused) = (answer.into_iter(), Refusals::new());
        for (back, row) in plan.returns.into_iter().zip(&mut rows) {
            self.note_return(&mut core, back, row, now, &mut refused);
        }
        for ((id, token), row) in plan.renewals.into_iter().zip(&mut rows) {
            self.note_renewal(&mut core, (id, token), row, (sent, now), &mut refused);
        }
        let mut changed = Changed::new();
        let asked: Vec<Uuid> = plan.asks.iter().map(|ask| ask.token).collect();
        for (ask, row) in plan.asks.into_iter().zip(&mut rows) {
            match row {
                Ok(Done::Leased(granted)) => {
                    core.accept_lease(ask, granted, sent, now, self.shared.options.ttl);
                    changed.entry(ask.id).or_default();
                }
                Ok(_) => core.engine.ask_again(ask),
                Err(refusal) => {
                    let what = core.note_refusal(ask, &refusal, &mut changed, now);
                    refused.extend(what.map(|what| (what, refusal)));
                }
            }
        }
        if let Err(error) = core.store.as_ref().map_or(Ok(()), |store| store.sync()) {
            refused.push(("leases are not on the disk".into(), Report::own(&error, None, None)));
        }
        core.tidy_store(&asked);
        core.serve(&changed, now);
        match full {
            true => {
                core.counts.overloads += 1;
                core.engine.finish_plan_in_part(now);
            }
            false => core.engine.finish_plan(),
        }
        core.note_answer(now, lack);
        let hots = changed.keys().map(|id| core.states[id.0 as usize].hot.clone());
        let hots: Vec<Arc<Hot>> = hots.collect();
        drop(core);
        for (what, refusal) in refused {
            tracing::warn!(error = %refusal, "{what}");
        }
        hots.iter().for_each(|hot| hot.changed.notify_waiters());
    }

    /// Handles a lease that a statement, sent at `sent`, has renewed or could not renew.
    fn note_renewal(
        &self,
        core: &mut Core,
        (id, token): (Id, Uuid),
        row: Result<Done, Arc<Report>>,
        (sent, now): (Monotonic, Monotonic),
        refused: &mut Refusals,
    ) {
        let Err(refusal) = row else {
            core.engine.note_renewal(id, token, sent);
            if let Some(store) = &core.store {
                store.renew(&token, self.shared.options.ttl);
            }
            return;
        };
        match refusal.is_gone() {
            true => core.engine.note_unknown_lease(id, token),
            false => core.engine.renew_later(now),
        }
        refused.push((format!("lease {token} cannot be renewed"), refusal));
    }

    /// Handles a lease that was returned, or could not be.
    fn note_return(
        &mut self,
        core: &mut Core,
        back: Return,
        row: Result<Done, Arc<Report>>,
        now: Monotonic,
        refused: &mut Refusals,
    ) {
        let refusal = match row {
            Ok(done) => {
                core.free(&back.token);
                self.returned.leases += 1;
                if let Done::Returned(values) = done {
                    self.returned.values += values as u64;
                }
                return;
            }
            Err(refusal) => refusal,
        };
        match () {
            () if refusal.is_gone() => {
                core.free(&back.token);
                self.returned.leases += 1;
            }
            () if refusal.is_lack() || core.life == Life::Serving => {
                core.engine.return_later(back, now);
            }
            () => self.returned.refused += 1,
        }
        // A lease that ended when it was first sent needs no report.
        if !(refusal.is_gone() && back.tried) {
            refused.push((format!("lease {} cannot be returned", back.token), refusal));
        }
    }

    /// A plan was not carried out.
    pub fn fail_plan(&mut self, plan: Plan, why: Failure, trouble: Option<Arc<Report>>) {
        let error = trouble.as_ref().map(|error| error.to_string()).unwrap_or_default();
        tracing::warn!(?why, error, leases = plan.asks.len(), "a statement has failed");
        let now = self.shared.now();
        let asked: Vec<Uuid> = plan.asks.iter().map(|ask| ask.token).collect();
        let mut core = self.shared.lock();
        match why {
            Failure::NoRoom => {
                core.counts.overloads += 1;
                core.note_answer(now, trouble);
            }
            Failure::Unsent | Failure::Unknown => {
                core.counts.failures += 1;
                core.connected = false;
                core.trouble = trouble.or(core.trouble.take());
            }
        }
        core.engine.fail_plan(plan, why, now);
        core.tidy_store(&asked);
        if !core.connected && self.shared.options.unavailable == Unavailable::Fail {
            Shared::wake_all(core);
        }
    }
}

impl Core {
    /// The server has answered; `lack` is what it lacks, if anything.
    fn note_answer(&mut self, now: Monotonic, lack: Option<Arc<Report>>) {
        self.connected = true;
        self.answered_at = now;
        self.trouble = lack;
    }

    /// A lease has come.
    fn accept_lease(
        &mut self,
        ask: Ask,
        granted: protocol::Lease,
        sent: Monotonic,
        now: Monotonic,
        ttl: Option<Duration>,
    ) {
        let hot = self.states[ask.id.0 as usize].hot.clone();
        learn_keys(self, &hot, &granted, now);
        let protocol::Lease { last, increment, count, .. } = granted;
        let token = ask.token;
        let held =
            self.store.as_ref().map(|store| store.hold(&token, (last, increment, count), ttl));
        let (count, is_resumed) = held.unwrap_or((count, false));
        let expires = match is_resumed {
            true => self.engine.resumed_expiry(granted.expires_at.is_some(), now),
            false => self.engine.expiry(ask.tried.unwrap_or(sent)),
        };
        let lease = Lease { token, last, increment, count, expires };
        let state = self.state(ask.id);
        (state.lack, state.refusal) = (None, None);
        self.engine.accept_lease(ask, lease, granted.suggested);
    }

    /// Handles a lease that was refused. Returns what is to be reported.
    fn note_refusal(
        &mut self,
        ask: Ask,
        why: &Arc<Report>,
        changed: &mut Changed,
        now: Monotonic,
    ) -> Option<String> {
        self.give_up(&ask.token, why, now);
        if why.is_taken() {
            self.engine.ask_again(ask);
            return None;
        }
        // If several leases for as many lanes are refused, one refusal counts.
        if changed.insert(ask.id, true) == Some(true) {
            self.engine.keep_asking(ask, why.is_lack(), now);
            return None;
        }
        let name = self.accept_refusal(ask, why.clone(), now);
        Some(format!("no lease of {name:?}"))
    }

    /// The server does not give a lease under its name. If an earlier process had it, it may be
    /// open nevertheless, such as one of a sequence that was renamed: it is returned.
    fn give_up(&mut self, token: &Uuid, why: &Report, now: Monotonic) {
        let next = self.store.as_ref().and_then(|store| store.first_left(token));
        match next.filter(|_| !why.is_lack()) {
            Some(next) => self.engine.resume_return(*token, next, now),
            None if why.is_gone() || why.is_taken() => self.free(token),
            None => {}
        }
    }

    /// The server refuses a lease. Returns the sequence.
    fn accept_refusal(&mut self, ask: Ask, refusal: Arc<Report>, now: Monotonic) -> Arc<str> {
        let lack = refusal.is_lack();
        self.engine.accept_refusal(ask, lack, now);
        let sequence = self.states[ask.id.0 as usize].hot.name.clone();
        let error = match &self.store {
            // The server has not said it: the file has no room for the lease.
            Some(store) if refusal.code.is_none() => store.error(refusal.clone()),
            _ => Error::Refused { sequence: sequence.clone(), source: refusal.clone() },
        };
        let state = self.state(ask.id);
        state.errors += 1;
        state.refusals += u64::from(!lack);
        state.lack = lack.then_some(refusal);
        state.refusal = (!lack).then_some(error);
        sequence
    }

    /// Serves from the leases that have come, or gives them back.
    fn serve(&mut self, changed: &Changed, now: Monotonic) {
        if self.life != Life::Serving {
            // Nobody takes from leases any more.
            return self.engine.give_back_all(now);
        }
        for id in changed.keys() {
            let hot = self.states[id.0 as usize].hot.clone();
            if self.engine.is_spread(*id) {
                hot.widen();
            }
            self.fill(&hot, 0, now);
            self.check(&hot, now);
        }
    }
}

/// Notes the form of the keys from this lease on, before it is served. Leases with another form of
/// keys are given back: no key is made from them any more.
fn learn_keys(core: &mut Core, hot: &Hot, granted: &protocol::Lease, now: Monotonic) {
    let (format, prefix) = (&granted.key_format, &granted.server_prefix);
    let first = lane::value(granted.last, granted.increment, granted.count as u32);
    // The server knows the bounds; a negative value among these is enough here.
    let least = first.min(granted.last);
    let fits = |keys: &Keys| {
        let look = keys.format == *format && keys.prefix == *prefix;
        look && (least >= 0 || keys.least < 0)
    };
    if hot.keys.read().unwrap_or_else(PoisonError::into_inner).as_ref().is_some_and(fits) {
        return;
    }
    // From now on nobody takes a value for a key of the old form, nor for one of the new form
    // before it is known.
    let mut known = hot.keys.write().unwrap_or_else(PoisonError::into_inner);
    if known.is_some() {
        core.retire(hot, now);
    }
    *known = Some(keys(&hot.name, format, prefix, least));
}

#[cfg(all(test, target_os = "linux"))]
mod tests;
