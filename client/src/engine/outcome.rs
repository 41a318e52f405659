//! What becomes of a plan.

use std::collections::HashSet;

use hilo_core::numbers::{Micros, Monotonic};
use uuid::Uuid;

use super::{
    Ask, ENDS_PER_ASK, End, Engine, Id, LEAST_ASKS, Lease, MOST_ASKS, NEVER, Plan, Purpose, Return,
    SECOND, after,
};

/// Why a plan was not carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// There was no server to send it to.
    Unsent,
    /// Nobody knows what the server has done: it took too long, or the connection ended.
    Unknown,
    /// The server has no room for it, or no time, and has changed nothing.
    NoRoom,
}

impl Engine {
    /// A lease has come: for a caller who waits for it, or to serve from. `suggested` is the
    /// server's word on how many to ask for.
    pub fn granted(&mut self, ask: Ask, lease: Lease, suggested: i64) {
        self.withdraw(ask);
        let supply = self.supply(ask.id);
        // It has reached a bound, perhaps: the next one may be refused.
        supply.is_short = lease.count < ask.count;
        supply.refused = 0;
        match ask.purpose {
            Purpose::Stock => {
                supply.wanted = false;
                supply.suggest(suggested);
                supply.stock(lease);
            }
            Purpose::Range(ticket) => match self.tickets.get_mut(&ticket) {
                Some(place) => *place = Some((ask.id, lease)),
                // Nobody waits for it any more.
                None => self.supply(ask.id).stock(lease),
            },
        }
    }

    /// The server has refused a lease. It is asked for again, alone, as long as somebody needs it.
    pub fn refused(&mut self, ask: Ask, now: Monotonic) {
        let random = self.random();
        self.ask_again(ask);
        let supply = self.supply(ask.id);
        supply.wanted = false;
        supply.refuse(now, random);
    }

    /// A lease of a plan is not asked for now, because another one of the same sequence was
    /// refused.
    pub fn ask_again(&mut self, ask: Ask) {
        self.withdraw(ask);
        match ask.purpose {
            // Whoever checks the sequence sees what it needs.
            Purpose::Stock => {}
            Purpose::Range(ticket) if self.tickets.contains_key(&ticket) => {
                self.ranges.push_front((ask.id, ask.count, ticket));
                self.due = Monotonic(i64::MIN);
            }
            Purpose::Range(_) => {}
        }
    }

    fn withdraw(&mut self, ask: Ask) {
        if ask.purpose == Purpose::Stock {
            let supply = self.supply(ask.id);
            supply.asked = supply.asked.saturating_sub(1);
        }
    }

    /// When a sequence that was refused may be asked for again.
    pub fn retry_at(&self, id: Id, now: Monotonic) -> Monotonic {
        self.supplies[id.0 as usize].not_before(now, Micros(0), true)
    }

    /// A lease was renewed by a statement that was sent at `sent`.
    pub fn renewed(&mut self, id: Id, token: Uuid, sent: Monotonic) {
        let Some(ttl) = self.settings.ttl else { return };
        self.set_expiry(id, token, after(sent, ttl));
    }

    /// The server no longer knows a lease: there is nothing to return to it.
    pub fn not_renewed(&mut self, id: Id, token: Uuid) {
        self.set_expiry(id, token, Monotonic(i64::MIN));
    }

    /// The server could not renew some leases now.
    pub fn renew_later(&mut self, now: Monotonic) {
        let Some(ttl) = self.settings.ttl else { return };
        self.renewal = self.renewal.min(after(now, Micros(ttl.0 / 12)));
    }

    /// The server could not end these leases now. If one of many is the reason, the others come
    /// first next time.
    pub fn return_later(&mut self, mut ends: Vec<Return>, now: Monotonic) {
        if ends.is_empty() {
            return;
        }
        if self.held.is_empty() || self.held_due <= now {
            let most = Micros(SECOND << self.held_attempt.min(6)).min(self.settings.window);
            self.held_due = after(now, most);
            self.held_attempt += 1;
        }
        ends.iter_mut().for_each(|back| back.tried = true);
        let at = if ends.len() > 1 { 0 } else { self.held.len() };
        self.held.splice(at..at, ends);
    }

    fn set_expiry(&mut self, id: Id, token: Uuid, expires: Monotonic) {
        let mut leases = self.supply(id).leases_mut();
        if let Some(lease) = leases.find(|lease| lease.token == token) {
            lease.expires = expires;
        }
    }

    /// When a lease expires that a statement takes that is sent at `sent`.
    pub fn expiry(&self, sent: Monotonic) -> Monotonic {
        self.settings.ttl.map_or(NEVER, |ttl| after(sent, ttl))
    }

    /// The plan was carried out.
    pub fn done(&mut self) {
        self.in_flight = false;
        self.attempt = 0;
        // Less at a time than it was lowered by: what a statement has taken that fails is lost.
        self.most_asks = (self.most_asks + self.most_asks / 8 + 1).min(MOST_ASKS);
        if self.held.is_empty() {
            self.held_attempt = 0;
        }
    }

    /// A plan was not carried out. All of it is done later, and if the server has seen it, less at
    /// a time: it may have been too much. Whatever the server has leased out nevertheless is never
    /// served.
    pub fn failed(&mut self, mut plan: Plan, why: Failure, now: Monotonic) {
        if why != Failure::Unsent {
            self.most_asks = (self.most_asks.min(size(&plan)) / 2).max(LEAST_ASKS);
        }
        if why == Failure::Unknown {
            plan.returns.iter_mut().for_each(|back| back.tried = true);
        }
        self.put_back(plan, now);
    }

    /// Whether a plan for which the server has no room can be made smaller.
    pub fn can_be_smaller(&self, plan: &Plan) -> bool {
        size(plan) > LEAST_ASKS
    }

    /// What a plan was to do is done later.
    fn put_back(&mut self, plan: Plan, now: Monotonic) {
        for ask in plan.asks.into_iter().rev() {
            self.ask_again(ask);
            let supply = self.supply(ask.id);
            if ask.purpose == Purpose::Stock && !supply.is_low {
                supply.is_low = true;
                supply.due = now;
                self.low.push(ask.id);
            }
        }
        if !plan.renewals.is_empty() {
            self.renewal = now;
        }
        if !plan.returns.is_empty() {
            self.ends_due = now;
        }
        self.returns.extend(plan.returns);
        let delay = self.delay(self.attempt);
        self.attempt = self.attempt.saturating_add(1);
        self.not_before = after(now, delay);
        self.due = now;
        self.in_flight = false;
    }

    /// Revokes those of the leases that the server has in this client's name (`found`) which are
    /// neither served from nor on their way back; mostly because the answer was lost that brought
    /// them. They are not returned unused: a server that crashes may forget the return of a lease
    /// that was used up. `plan` is under way. Says how many they are.
    pub fn revoke_lost(&mut self, mut found: HashSet<Uuid>, plan: &Plan) -> usize {
        let handed = self.tickets.values().flatten().map(|(_, lease)| lease);
        let open = self.supplies.iter().flat_map(|supply| supply.leases()).chain(handed);
        let open = open.map(|lease| lease.token);
        let ending = self.returns.iter().chain(&self.held).chain(&plan.returns);
        let ending = ending.map(|back| back.token);
        for token in open.chain(ending) {
            found.remove(&token);
        }
        let revoke = |token: &Uuid| Return { token: *token, end: End::Revoke, tried: false };
        self.returns.extend(found.iter().map(revoke));
        if !found.is_empty() {
            self.ends_due = Monotonic(i64::MIN);
        }
        found.len()
    }
}

/// How much a plan does at a time, in leases to take.
fn size(plan: &Plan) -> usize {
    let ends = plan.returns.len().max(plan.renewals.len());
    plan.asks.len().max(ends.div_ceil(ENDS_PER_ASK))
}
