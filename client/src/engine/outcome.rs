//! Enters the outcome of a statement into the engine: it was carried out, refused, or may have been
//! either.

use hilo_core::numbers::{Micros, Monotonic};
use uuid::Uuid;

use super::{
    Ask, ENDS_PER_ASK, Engine, Id, Lease, MOST_ASKS, NEVER, Plan, Purpose, Return, SECOND, after,
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
    /// A lease has come, for a waiting caller or to serve from. `suggested` is how many values the
    /// server advises to ask for.
    pub fn accept_lease(&mut self, ask: Ask, lease: Lease, suggested: i64) {
        self.withdraw(ask);
        let supply = self.supply(ask.id);
        supply.refused = 0;
        match ask.purpose {
            Purpose::Stock => {
                supply.wanted = false;
                supply.suggest(suggested);
                supply.stock(lease);
            }
            Purpose::Range(ticket) => match self.tickets.get_mut(&ticket) {
                Some(place) => *place = Some((ask.id, lease)),
                // Its caller does not wait any more.
                None => self.supply(ask.id).stock(lease),
            },
        }
    }

    /// The server has refused a lease. The sequence is asked for again later, as long as somebody
    /// needs it. `may_come`: an earlier statement may still take the lease.
    pub fn accept_refusal(&mut self, ask: Ask, may_come: bool, now: Monotonic) {
        self.refuse(ask.id, now);
        self.keep_asking(ask, may_come, now);
    }

    /// Asks for a refused lease under the same name again, if an earlier statement may still take
    /// it.
    pub fn keep_asking(&mut self, ask: Ask, may_come: bool, now: Monotonic) {
        if may_come && ask.tried.is_some() {
            self.again.push(ask);
            self.due = self.due.min(self.retry_at(ask.id, now));
        } else {
            self.ask_again(ask);
        }
    }

    /// The sequence is not asked for before some time.
    pub fn refuse(&mut self, id: Id, now: Monotonic) {
        let random = self.random();
        let supply = self.supply(id);
        supply.wanted = false;
        supply.refuse(now, random);
    }

    /// A lease does not come under the name in the plan. Whoever checks the sequence sees what it
    /// needs.
    pub fn ask_again(&mut self, ask: Ask) {
        self.withdraw(ask);
        match ask.purpose {
            Purpose::Range(ticket) if self.tickets.contains_key(&ticket) => {
                self.ranges.push_front((ask.id, ask.count, ticket));
                self.due = Monotonic(i64::MIN);
            }
            _ => {}
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
    pub fn note_renewal(&mut self, id: Id, token: Uuid, sent: Monotonic) {
        self.set_expiry(id, token, self.expiry(sent));
    }

    /// The server does not know a lease any more, so nothing is returned to it.
    pub fn note_unknown_lease(&mut self, id: Id, token: Uuid) {
        self.set_expiry(id, token, Monotonic(i64::MIN));
    }

    /// The server could not renew some leases now.
    pub fn renew_later(&mut self, now: Monotonic) {
        let wait = self.settings.ttl.map_or(self.settings.pace, |ttl| Micros(ttl.0 / 12));
        self.renewal = self.renewal.min(after(now, wait));
    }

    /// The server could not end a lease now.
    pub fn return_later(&mut self, back: Return, now: Monotonic) {
        if self.held.is_empty() || self.held_due <= now {
            let most = Micros(SECOND << self.held_attempt.min(6)).min(self.settings.window);
            self.held_due = after(now, most);
            self.held_attempt += 1;
        }
        self.held.push(Return { tried: true, ..back });
    }

    fn set_expiry(&mut self, id: Id, token: Uuid, expires: Monotonic) {
        let mut leases = self.supply(id).leases_mut();
        if let Some(lease) = leases.find(|lease| lease.token == token) {
            lease.expires = expires;
        }
    }

    /// When a lease expires that a statement takes, if the statement is sent at `sent`.
    pub fn expiry(&self, sent: Monotonic) -> Monotonic {
        self.settings.ttl.map_or(NEVER, |ttl| after(sent, ttl))
    }

    /// The plan was carried out.
    pub fn finish_plan(&mut self) {
        self.in_flight = false;
        self.attempt = 0;
        // It rises by less than it was lowered.
        self.most_asks = (self.most_asks + self.most_asks / 8 + 1).min(MOST_ASKS);
        if self.held.is_empty() {
            self.held_attempt = 0;
        }
    }

    /// The plan was carried out, except for what the server had no room for.
    pub fn finish_plan_in_part(&mut self, now: Monotonic) {
        self.in_flight = false;
        self.back_off(now);
    }

    fn back_off(&mut self, now: Monotonic) {
        let delay = self.delay(self.attempt);
        self.attempt = self.attempt.saturating_add(1);
        self.not_before = after(now, delay);
    }

    /// A plan was not carried out. All of it is done later, and if the server has seen it, in
    /// smaller parts: it may have been too much. Leases that it may have taken are asked for by
    /// their names.
    pub fn fail_plan(&mut self, mut plan: Plan, why: Failure, now: Monotonic) {
        if why != Failure::Unsent {
            self.most_asks = (self.most_asks.min(size(&plan)) / 2).max(1);
        }
        if why == Failure::Unknown {
            plan.returns.iter_mut().for_each(|back| back.tried = true);
            let sent = self.last_plan;
            plan.asks.iter_mut().for_each(|ask| ask.tried = ask.tried.or(Some(sent)));
        }
        self.put_back(plan, now);
    }

    /// Whether a plan for which the server has no room can be made smaller.
    pub fn can_be_smaller(&self, plan: &Plan) -> bool {
        size(plan) > 1
    }

    /// Puts the work of a plan back, to be done later.
    fn put_back(&mut self, plan: Plan, now: Monotonic) {
        let (tried, others): (Vec<Ask>, _) =
            plan.asks.into_iter().partition(|ask| ask.tried.is_some());
        self.again.splice(0..0, tried);
        for ask in others.into_iter().rev() {
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
        self.back_off(now);
        self.due = now;
        self.in_flight = false;
    }
}

/// The size of a plan, in leases to take.
fn size(plan: &Plan) -> usize {
    let ends = plan.returns.len().max(plan.renewals.len());
    plan.asks.len().max(ends.div_ceil(ENDS_PER_ASK))
}
