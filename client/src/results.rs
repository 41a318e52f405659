//! What a statement has brought, for the books and for those who wait.

use std::collections::HashSet;
use std::sync::Arc;

use hilo_core::numbers::Monotonic;

use crate::driver::Driver;
use crate::engine::{Ask, Lease, Plan};
use crate::hot::{Hot, Keys};
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
        let serving = core.life == Life::Serving;
        for hot in changed {
            if serving {
                core.fill(&hot, 0, now);
                core.check(&hot, now);
            }
            hot.changed.notify_waiters();
        }
    }

    /// The server refuses a part: its one call, or what it lacks something for. What the other `parts` ask for the same
    /// sequences is not asked for either.
    pub fn refused(&mut self, part: Plan, source: tokio_postgres::Error, parts: &mut [Plan]) {
        let now = self.shared.now();
        let (lack, gone) = (is_lack(&source), is_gone(&source));
        let mut core = self.shared.lock();
        for back in part.returns {
            if gone && back.tried {
                // It ended then, although the answer was lost.
                continue;
            }
            tracing::warn!(lease = %back.token, error = %source, "a lease cannot be returned");
            if !gone && !lack && core.life != Life::Serving {
                self.returned.refused += 1;
                self.unsure = true;
            } else if !gone {
                core.engine.return_later(back, now);
            }
        }
        for (id, token) in part.renewals {
            tracing::warn!(lease = %token, error = %source, "a lease cannot be renewed");
            match gone {
                true => core.engine.not_renewed(id, token),
                false => core.engine.renew_later(now),
            }
        }
        if part.sweep {
            self.unsure = lack;
        }
        let source = Arc::new(source);
        let mut refused = HashSet::new();
        for ask in part.asks {
            if !refused.insert(ask.id) {
                core.engine.ask_again(ask);
                continue;
            }
            core.engine.refused(ask, now);
            let name = core.seat(ask.id).hot.name.clone();
            let error = Error::Refused { sequence: name, source: source.clone() };
            tracing::warn!(%error, source = %source, "no lease");
            let seat = core.seat(ask.id);
            seat.errors += 1;
            seat.lack = lack.then(|| source.clone());
            seat.refusal = (!lack).then_some(error);
            seat.refusals += u64::from(!lack);
        }
        for part in parts {
            let (of_refused, others) =
                part.asks.drain(..).partition(|ask| refused.contains(&ask.id));
            part.asks = others;
            let of_refused: Vec<Ask> = of_refused;
            of_refused.into_iter().for_each(|ask| core.engine.ask_again(ask));
        }
        for id in refused {
            let hot = core.seat(id).hot.clone();
            core.check(&hot, now);
            hot.changed.notify_waiters();
        }
    }

    /// The server was not reached, or nobody knows what it did.
    pub fn lost(&mut self, plan: Plan, trouble: Option<Arc<tokio_postgres::Error>>) {
        let why = trouble.as_ref().map(|error| error.to_string()).unwrap_or_default();
        tracing::warn!(error = why, "cannot reach the server");
        let now = self.shared.now();
        let mut core = self.shared.lock();
        core.connected = false;
        core.trouble = trouble.or(core.trouble.take());
        core.counts.failures += 1;
        core.engine.lost(plan, now);
        if self.shared.options.unavailable == Unavailable::Fail {
            for seat in &core.seats {
                seat.hot.changed.notify_waiters();
            }
        }
    }
}

/// Notes how keys look from this lease on, before it is served. What is left of leases whose keys look different goes
/// back: no key is made of them any more.
fn learn_keys(core: &mut Core, hot: &Hot, granted: &Granted, now: Monotonic) {
    let (format, prefix) = (&granted.key_format, &granted.server_prefix);
    let first = hilo_core::lane::value(granted.last, granted.increment, granted.count as u32);
    // The bounds are the server's; a negative value among these says enough.
    let least = first.min(granted.last);
    let known = hot.keys();
    let fits = |keys: &Keys| {
        let look = keys.format == *format && keys.prefix == *prefix;
        look && (least >= 0 || keys.least < 0)
    };
    if known.as_deref().is_some_and(fits) {
        return;
    }
    if known.is_some() {
        core.retire(hot, now);
    }
    hot.set_keys(keys(&hot.name, format, prefix, least));
}
