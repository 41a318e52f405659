//! What a statement has brought, for the books and for those who wait.

use std::collections::HashSet;
use std::sync::Arc;

use hilo_core::numbers::Monotonic;

use crate::driver::Driver;
use crate::engine::{Ask, Failure, Lease, Parts, Plan, Return};
use crate::hot::{Hot, Keys};
use crate::lane;
use crate::refusal::{is_gone, is_lack};
use crate::sequence::keys;
use crate::server::{Answer, Granted};
use crate::shared::{Core, Life};
use crate::{Error, Unavailable};

impl Driver {
    /// A part has been committed.
    pub fn accept(&mut self, part: Plan, answer: Answer, sent: Monotonic) {
        tracing::debug!(leases = answer.granted.len(), returned = answer.returned, "done");
        self.returned.leases += part.returns.len() as u64;
        self.returned.values += answer.returned as u64;
        if part.sweep {
            self.unsure = false;
        }
        let now = self.shared.now();
        let mut core = self.shared.lock();
        for (id, token) in &part.renewals {
            core.engine.renewed(*id, *token, sent);
        }
        let mut changed: Vec<Arc<Hot>> = Vec::new();
        for granted in answer.granted {
            let Some(&ask) = part.asks.get(granted.ask) else { continue };
            let hot = core.seats[ask.id.0 as usize].hot.clone();
            learn_keys(&mut core, &hot, &granted, now);
            let lease = Lease {
                token: granted.token,
                last: granted.last,
                increment: granted.increment,
                count: granted.count,
                expires: core.engine.expiry(sent),
            };
            let seat = core.seat(ask.id);
            (seat.lack, seat.refusal) = (None, None);
            core.engine.granted(ask, lease, granted.suggested);
            changed.push(hot);
        }
        if core.life == Life::Serving {
            for hot in &changed {
                if core.engine.is_spread(hot.id) {
                    hot.widen();
                }
                core.fill(hot, 0, now);
                core.check(hot, now);
            }
        } else {
            // Nobody may find it.
            core.engine.give_back_all(now);
        }
        drop(core);
        changed.iter().for_each(|hot| hot.changed.notify_waiters());
    }

    /// The server refuses a part: its one call, or what it lacks something for. What is left of the
    /// plan asks for the same sequences no more.
    pub fn refused(&mut self, part: Plan, source: tokio_postgres::Error, parts: &mut Parts) {
        let (lack, gone) = (is_lack(&source), is_gone(&source));
        // What has ended when it was sent before needs no word.
        for back in part.returns.iter().filter(|back| !(gone && back.tried)) {
            tracing::warn!(lease = %back.token, error = %source, "a lease cannot be returned");
        }
        for (_, token) in &part.renewals {
            tracing::warn!(lease = %token, error = %source, "a lease cannot be renewed");
        }
        if part.sweep {
            tracing::warn!(error = %source, "leases of which nothing is known cannot be revoked");
            self.unsure = lack;
        }
        let now = self.shared.now();
        let mut core = self.shared.lock();
        let (later, ended): (Vec<Return>, Vec<Return>) =
            part.returns.into_iter().partition(|_| !gone && (lack || core.life == Life::Serving));
        core.engine.return_later(later, now);
        if !gone && !ended.is_empty() {
            self.returned.refused += ended.len() as u64;
            self.unsure = true;
        }
        for (id, token) in part.renewals {
            match gone {
                true => core.engine.not_renewed(id, token),
                false => core.engine.renew_later(now),
            }
        }
        let source = Arc::new(source);
        if lack {
            self.lack = Some(source.clone());
        }
        let refused = refuse(&mut core, part.asks, &source, parts, now);
        drop(core);
        for (hot, error) in refused {
            tracing::warn!(%error, source = %source, "no lease");
            hot.changed.notify_waiters();
        }
    }

    /// A plan was not carried out.
    pub fn failed(
        &mut self,
        plan: Plan,
        why: Failure,
        trouble: Option<Arc<tokio_postgres::Error>>,
    ) {
        let error = trouble.as_ref().map(|error| error.to_string()).unwrap_or_default();
        tracing::warn!(?why, error, leases = plan.asks.len(), "a statement has failed");
        let now = self.shared.now();
        let mut core = self.shared.lock();
        core.connected = why == Failure::NoRoom;
        core.trouble = trouble.or(core.trouble.take());
        match why {
            Failure::NoRoom => core.counts.overloads += 1,
            Failure::Unsent | Failure::Unknown => core.counts.failures += 1,
        }
        core.engine.failed(plan, why, now);
        let fails = !core.connected && self.shared.options.unavailable == Unavailable::Fail;
        let hots = core.seats.iter().filter(|_| fails).map(|seat| seat.hot.clone());
        let hots: Vec<Arc<Hot>> = hots.collect();
        drop(core);
        hots.iter().for_each(|hot| hot.changed.notify_waiters());
    }
}

/// The server refuses the first lease of each sequence that is asked for. Returns these sequences.
fn refuse(
    core: &mut Core,
    asks: Vec<Ask>,
    source: &Arc<tokio_postgres::Error>,
    parts: &mut Parts,
    now: Monotonic,
) -> Vec<(Arc<Hot>, Error)> {
    let lack = is_lack(source);
    let mut refused = HashSet::new();
    let mut all = Vec::new();
    for ask in asks {
        if !refused.insert(ask.id) {
            core.engine.ask_again(ask);
            continue;
        }
        core.engine.refused(ask, now);
        let seat = core.seat(ask.id);
        let error = Error::Refused { sequence: seat.hot.name.clone(), source: source.clone() };
        seat.errors += 1;
        seat.lack = lack.then(|| source.clone());
        seat.refusal = (!lack).then(|| error.clone());
        seat.refusals += u64::from(!lack);
        all.push((seat.hot.clone(), error));
    }
    for part in parts.plans_mut() {
        let of_refused = part.asks.extract_if(.., |ask| refused.contains(&ask.id));
        of_refused.for_each(|ask| core.engine.ask_again(ask));
    }
    for (hot, _) in &all {
        core.check(hot, now);
    }
    all
}

/// Notes how keys look from this lease on, before it is served. What is left of leases whose keys
/// look different goes back: no key is made of them any more.
fn learn_keys(core: &mut Core, hot: &Hot, granted: &Granted, now: Monotonic) {
    let (format, prefix) = (&granted.key_format, &granted.server_prefix);
    let first = lane::value(granted.last, granted.increment, granted.count as u32);
    // The bounds are the server's; a negative value among these says enough.
    let least = first.min(granted.last);
    let fits = |keys: &Keys| {
        let look = keys.format == *format && keys.prefix == *prefix;
        look && (least >= 0 || keys.least < 0)
    };
    if hot.keys().as_ref().is_some_and(fits) {
        return;
    }
    // Nobody takes a value for a key of the old kind from now on, nor one of the new kind before it
    // is known.
    let mut known = hot.keys_mut();
    if known.is_some() {
        core.retire(hot, now);
    }
    *known = Some(keys(&hot.name, format, prefix, least));
}
