//! What one statement does, and what becomes of it.

use std::collections::HashSet;

use uuid::Uuid;

use hilo_core::numbers::{Micros, Monotonic};

use super::supply::Risk;
use super::{Engine, Id, Lease, MOST_ASKS, MOST_ENDS, NEVER, after};

/// The fewest values of a lease when several are taken for the lanes of one sequence.
const LEAST_PART: i64 = 32;

/// What to do in one transaction.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plan {
    /// Leases to take.
    pub asks: Vec<Ask>,
    /// Leases to end.
    pub returns: Vec<Return>,
    /// Leases to renew.
    pub renewals: Vec<(Id, Uuid)>,
}

impl Plan {
    /// How many calls it makes.
    pub fn len(&self) -> usize {
        self.asks.len() + self.returns.len() + self.renewals.len()
    }

    /// Whether it does nothing.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Two halves, so that the one call that the server refuses can be found.
    pub fn halves(mut self) -> (Plan, Plan) {
        let first = self.len() / 2;
        let returns = self.returns.len().min(first);
        let renewals = self.renewals.len().min(first - returns);
        let second = Plan {
            returns: self.returns.split_off(returns),
            renewals: self.renewals.split_off(renewals),
            asks: self.asks.split_off(first - returns - renewals),
        };
        (self, second)
    }
}

/// A lease to take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ask {
    /// Of this sequence.
    pub id: Id,
    /// With so many values.
    pub count: i64,
    /// For this.
    pub purpose: Purpose,
}

/// What a lease is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// To serve from.
    Stock,
    /// For one caller, who wants consecutive values.
    Range(u64),
}

/// A lease to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Return {
    /// Its name.
    pub token: Uuid,
    /// How.
    pub end: End,
    /// It was sent before, and may have ended then.
    pub tried: bool,
}

/// How a lease ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// All values before this one were used.
    Return(i64),
    /// Nobody knows what was used: no value of it may come again.
    Revoke,
}

impl Engine {
    /// What to send at `now`, if anything. The lanes of a sequence hold `in_lanes` values. Until the plan is
    /// [`done`](Self::done) or [`lost`](Self::lost), there is no other.
    pub fn plan(&mut self, now: Monotonic, in_lanes: impl Fn(Id) -> i64) -> Option<Plan> {
        if now < self.due() {
            return None;
        }
        let due = self.due <= now;
        if self.housekeeping <= now {
            self.keep_house(now, &in_lanes);
        }
        let mut plan = Plan::default();
        if self.renewal <= now {
            self.plan_renewals(now, &mut plan);
        }
        if due {
            self.due = NEVER;
            match self.ranges.is_empty() {
                true => self.plan_low(now, &in_lanes, &mut plan),
                false => self.plan_ranges(now, &mut plan),
            }
        }
        if due || !plan.is_empty() {
            let ends = self.returns.len().min(MOST_ENDS);
            plan.returns = self.returns.drain(..ends).collect();
        }
        if !plan.is_empty() {
            let is_safe =
                |ask: &Ask| ask.purpose == Purpose::Stock && self.risk(ask.id) == Risk::None;
            let risky = !plan.asks.iter().all(is_safe);
            for id in if risky { Vec::new() } else { std::mem::take(&mut self.near) } {
                if plan.asks.len() >= MOST_ASKS {
                    self.near.push(id);
                    continue;
                }
                self.supply(id).is_near = false;
                self.plan_one(id, now, &in_lanes, &mut plan);
            }
            self.in_flight = true;
            self.last_plan = now;
            return Some(plan);
        }
        // What the server has refused is asked for by itself, so that it fails alone.
        if due && let Some(at) = self.low.iter().position(|id| self.is_suspect(*id, now)) {
            let id = self.low.swap_remove(at);
            self.supply(id).is_low = false;
            self.plan_one(id, now, &in_lanes, &mut plan);
            self.due = self.due_of_low(now);
            if !plan.is_empty() {
                self.in_flight = true;
                return Some(plan);
            }
        }
        None
    }

    fn is_suspect(&self, id: Id, now: Monotonic) -> bool {
        let supply = &self.supplies[id.0 as usize];
        supply.refused > 0 && supply.not_before(now) <= now
    }

    /// Ranges have statements of their own: the server may refuse them.
    fn plan_ranges(&mut self, now: Monotonic, plan: &mut Plan) {
        self.due = self.due_of_low(now);
        while let Some((id, count, ticket)) = self.ranges.pop_front() {
            plan.asks.push(Ask { id, count, purpose: Purpose::Range(ticket) });
            if plan.asks.len() >= MOST_ASKS {
                self.due = Monotonic(i64::MIN);
                return;
            }
        }
    }

    fn plan_low(&mut self, now: Monotonic, in_lanes: &impl Fn(Id) -> i64, plan: &mut Plan) {
        let mut low = std::mem::take(&mut self.low);
        // Those that somebody waits for come first, if there are too many.
        low.sort_by_key(|id| !self.is_awaited(*id));
        // What the server refuses undoes the leases of the others with it. So those that it may refuse have statements
        // of their own, and take turns with the rest.
        let is_due = |engine: &Engine, id: &Id| {
            let supply = &engine.supplies[id.0 as usize];
            supply.refused == 0 && supply.due <= now
        };
        let risks = low.iter().filter(|id| is_due(self, id)).map(|id| self.risk(*id));
        let turn = |risk: &Risk| (*risk <= self.last_risk, *risk);
        let risk = risks.min_by_key(turn).unwrap_or(self.last_risk);
        self.last_risk = risk;
        for id in low {
            let wrong = self.supplies[id.0 as usize].refused > 0 || self.risk(id) != risk;
            if wrong || plan.asks.len() >= MOST_ASKS {
                self.low.push(id);
            } else {
                self.supply(id).is_low = false;
                self.plan_one(id, now, in_lanes, plan);
            }
        }
        self.due = self.due.min(self.due_of_low(now));
    }

    fn risk(&self, id: Id) -> Risk {
        self.supplies[id.0 as usize].risk()
    }

    fn due_of_low(&self, now: Monotonic) -> Monotonic {
        let due = |id: &Id| {
            let supply = &self.supplies[id.0 as usize];
            supply.due.max(supply.not_before(now))
        };
        self.low.iter().map(due).min().unwrap_or(NEVER)
    }

    /// Adds what a sequence needs.
    fn plan_one(&mut self, id: Id, now: Monotonic, in_lanes: &impl Fn(Id) -> i64, plan: &mut Plan) {
        let (window, settings) = (self.settings.window, self.refill);
        let in_lanes = in_lanes(id);
        let supply = self.supply(id);
        let seen = supply.look(now, in_lanes, window, &settings);
        if supply.asked > 0 || !(seen.low || seen.near) {
            return;
        }
        let lanes = i64::from(supply.lanes.max(1));
        let least = if lanes > 1 { lanes * LEAST_PART } else { 1 };
        let size = supply.size(now, in_lanes, window, &settings).max(least);
        for lane in 0..lanes {
            let count = size / lanes + i64::from(lane < size % lanes);
            plan.asks.push(Ask { id, count, purpose: Purpose::Stock });
            supply.asked += 1;
        }
    }

    fn plan_renewals(&mut self, now: Monotonic, plan: &mut Plan) {
        let Some(ttl) = self.settings.ttl else { return };
        self.renewal = after(now, Micros(ttl.0 / 2));
        for (number, supply) in self.supplies.iter().enumerate() {
            let open = supply.leases().filter(|lease| now < lease.expires);
            plan.renewals.extend(open.map(|lease| (Id(number as u32), lease.token)));
        }
    }

    /// Gives back what has not been used for long.
    fn keep_house(&mut self, now: Monotonic, in_lanes: &impl Fn(Id) -> i64) {
        self.housekeeping = after(now, self.settings.window);
        let (window, settings) = (self.settings.window, self.refill);
        for number in 0..self.supplies.len() {
            let supply = &mut self.supplies[number];
            let mut surplus = supply.surplus(now, in_lanes(Id(number as u32)), window, &settings);
            while let Some(lease) = self.supplies[number].unstock_surplus(surplus) {
                surplus -= lease.count;
                self.give_back(lease, lease.count, now);
            }
        }
    }

    /// A lease to serve from has come. `suggested` is the server's word on how many to ask for.
    pub fn granted(&mut self, ask: Ask, lease: Lease, suggested: i64) {
        let supply = self.supply(ask.id);
        // It has reached a bound, perhaps: the next one may be refused.
        supply.is_short = lease.count < ask.count;
        supply.asked = supply.asked.saturating_sub(1);
        supply.refused = 0;
        supply.wanted = false;
        supply.suggest(suggested);
        supply.stock(lease);
    }

    /// The server has refused a lease to serve from.
    pub fn refused(&mut self, id: Id, now: Monotonic) {
        let random = self.random();
        let supply = self.supply(id);
        supply.asked = supply.asked.saturating_sub(1);
        supply.wanted = false;
        supply.refuse(now, random);
    }

    /// When a sequence that was refused is asked for again.
    pub fn retry_at(&self, id: Id, now: Monotonic) -> Monotonic {
        self.supplies[id.0 as usize].not_before(now)
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
    }

    /// The server could not be reached, or nobody knows what it did. What was asked for is asked for again: whatever
    /// the server has leased out nevertheless is never served.
    pub fn lost(&mut self, plan: Plan, now: Monotonic) {
        for ask in plan.asks.into_iter().rev() {
            match ask.purpose {
                Purpose::Range(ticket) => self.ranges.push_front((ask.id, ask.count, ticket)),
                Purpose::Stock => {
                    let supply = self.supply(ask.id);
                    supply.asked = supply.asked.saturating_sub(1);
                    supply.due = now;
                    if !supply.is_low {
                        supply.is_low = true;
                        self.low.push(ask.id);
                    }
                }
            }
        }
        if !plan.renewals.is_empty() {
            self.renewal = now;
        }
        self.returns.extend(plan.returns.into_iter().map(|back| Return { tried: true, ..back }));
        let delay = self.delay(self.attempt);
        self.attempt = self.attempt.saturating_add(1);
        self.not_before = after(now, delay);
        self.due = now;
        self.in_flight = false;
    }

    /// A lease has gone to one caller, whole.
    pub fn hand_over(&mut self, ask: Ask, lease: Lease, now: Monotonic) {
        let supply = self.supply(ask.id);
        supply.is_short = lease.count < ask.count;
        supply.hand_over(lease.count);
        self.give_back(lease, 0, now);
    }

    /// Revokes those of the leases that the server has in this client's name (`found`) which are neither served from nor
    /// on their way back; mostly because the answer was lost that brought them. They are not returned unused: a server
    /// that crashes may forget the return of a lease that was used up. `plan` is under way. Says how many they are.
    pub fn revoke_lost(&mut self, mut found: HashSet<Uuid>, plan: &Plan) -> usize {
        let open = self.supplies.iter().flat_map(|supply| supply.leases()).map(|lease| lease.token);
        let ending = self.returns.iter().chain(&plan.returns).map(|back| back.token);
        for token in open.chain(ending) {
            found.remove(&token);
        }
        let revoke = |token: &Uuid| Return { token: *token, end: End::Revoke, tried: false };
        self.returns.extend(found.iter().map(revoke));
        if !found.is_empty() {
            self.due = Monotonic(i64::MIN);
        }
        found.len()
    }

    /// Gives up the lease that `ticket` names: its caller no longer waits.
    pub fn forget_range(&mut self, ticket: u64) {
        self.ranges.retain(|(_, _, waiting)| *waiting != ticket);
    }

    /// All that is left to return, without a plan for anything else.
    pub fn plan_returns(&mut self) -> Plan {
        let ends = self.returns.len().min(MOST_ENDS);
        Plan { returns: self.returns.drain(..ends).collect(), ..Plan::default() }
    }
}
