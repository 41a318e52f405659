//! What one statement does.

use uuid::Uuid;

use hilo_core::numbers::{Micros, Monotonic};

use super::supply::Risk;
use super::{Engine, Id, NEVER, after};

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
    /// Whether to revoke all leases of the holder.
    pub sweep: bool,
}

impl Plan {
    /// How many calls it makes.
    pub fn len(&self) -> usize {
        self.asks.len() + self.returns.len() + self.renewals.len() + usize::from(self.sweep)
    }

    /// Whether it does nothing.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Two parts, so that the one call that the server refuses can be found: what it takes and what
    /// it ends, or halves.
    pub fn split(mut self) -> (Plan, Plan) {
        let ends = self.returns.len() + self.renewals.len();
        if ends > 0 && !self.asks.is_empty() {
            let asks = std::mem::take(&mut self.asks);
            return (Plan { asks, ..Plan::default() }, self);
        }
        let first = self.len() / 2;
        let returns = self.returns.len().min(first);
        let renewals = self.renewals.len().min(first - returns);
        let second = Plan {
            returns: self.returns.split_off(returns),
            renewals: self.renewals.split_off(renewals),
            asks: self.asks.split_off(first - returns - renewals),
            sweep: std::mem::take(&mut self.sweep),
        };
        (self, second)
    }

    /// Adds what another one does.
    pub fn extend(&mut self, other: Plan) {
        self.asks.extend(other.asks);
        self.returns.extend(other.returns);
        self.renewals.extend(other.renewals);
        self.sweep |= other.sweep;
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
    /// What to send at `now`, if anything. The lanes of a sequence hold `in_lanes` values. Until
    /// the plan is [`done`](Self::done) or has [`failed`](Self::failed), there is no other.
    pub fn plan(&mut self, now: Monotonic, in_lanes: impl Fn(Id) -> i64) -> Option<Plan> {
        if now < self.due() {
            return None;
        }
        if self.housekeeping <= now {
            self.keep_house(now, &in_lanes);
        }
        let mut plan = Plan::default();
        let mut alone = self.held_due <= now;
        if alone {
            self.plan_held(&mut plan);
        } else {
            if self.renewal <= now {
                self.plan_renewals(now, &mut plan);
            }
            if self.due <= now {
                alone = self.plan_asks(now, &in_lanes, &mut plan) == Some(Risk::Refused);
            }
            if !alone && (self.ends_due <= now || !plan.is_empty()) {
                self.plan_ends(now, &mut plan);
            }
        }
        if plan.is_empty() {
            return None;
        }
        self.in_flight = true;
        if !alone {
            self.last_plan = now;
        }
        Some(plan)
    }

    /// Asks for leases of one risk; returns which. What the server refuses undoes the leases of the
    /// others with it: so those that it may refuse have statements of their own, and take turns
    /// with the rest. What it has refused is asked for by itself, so that it fails alone.
    fn plan_asks(
        &mut self,
        now: Monotonic,
        in_lanes: &impl Fn(Id) -> i64,
        plan: &mut Plan,
    ) -> Option<Risk> {
        let low = self.low.iter().filter(|id| self.due_of(**id, now) <= now);
        let ranges = self.ranges.iter().map(|(id, ..)| id);
        let due = low.chain(ranges.filter(|id| self.retry_at(**id, now) <= now));
        let risks = due.map(|id| self.risk(*id));
        let risks = risks.filter(|risk| *risk != Risk::Refused || plan.is_empty());
        let turn = |risk: &Risk| (*risk <= self.last_risk, *risk);
        let risk = risks.min_by_key(turn);
        if let Some(risk) = risk {
            self.last_risk = risk;
            if risk == Risk::Refused {
                self.plan_refused(now, in_lanes, plan);
            } else {
                self.plan_ranges(risk, plan);
                self.plan_low(risk, now, in_lanes, plan);
            }
            if risk == Risk::None {
                self.plan_near(now, in_lanes, plan);
            }
        }
        let low = self.low.iter().map(|id| self.due_of(*id, now));
        let ranges = self.ranges.iter().map(|(id, ..)| self.retry_at(*id, now));
        self.due = low.chain(ranges).min().unwrap_or(NEVER);
        risk
    }

    /// The one that has waited longest of those that the server has refused.
    fn plan_refused(&mut self, now: Monotonic, in_lanes: &impl Fn(Id) -> i64, plan: &mut Plan) {
        let refused = |id: &Id| self.risk(*id) == Risk::Refused;
        let low = self.low.iter().filter(|id| refused(id)).map(|id| (self.due_of(*id, now), *id));
        let range = self.ranges.iter().filter(|(id, ..)| refused(id));
        let range = range.map(|(id, ..)| (self.supplies[id.0 as usize].retry(), *id)).min();
        let low = low.min().filter(|(due, _)| *due <= now);
        let first = low.into_iter().chain(range).min();
        let Some((_, id)) = first else { return };
        if let Some(at) = self.ranges.iter().position(|(of, ..)| *of == id) {
            let (id, count, ticket) = self.ranges.remove(at).expect("it was found");
            plan.asks.push(Ask { id, count, purpose: Purpose::Range(ticket) });
        } else {
            self.low.retain(|low| *low != id);
            self.supply(id).is_low = false;
            self.plan_one(id, now, in_lanes, plan);
        }
    }

    /// Ranges never take all of a statement.
    fn plan_ranges(&mut self, risk: Risk, plan: &mut Plan) {
        for (id, count, ticket) in std::mem::take(&mut self.ranges) {
            if self.risk(id) == risk && plan.asks.len() < self.most_asks / 2 {
                plan.asks.push(Ask { id, count, purpose: Purpose::Range(ticket) });
            } else {
                self.ranges.push_back((id, count, ticket));
            }
        }
    }

    fn plan_low(
        &mut self,
        risk: Risk,
        now: Monotonic,
        in_lanes: &impl Fn(Id) -> i64,
        plan: &mut Plan,
    ) {
        let mut low = std::mem::take(&mut self.low);
        // Those that somebody waits for come first, if there are too many.
        low.sort_by_key(|id| !self.is_awaited(*id));
        for id in low {
            if self.risk(id) != risk || plan.asks.len() >= self.most_asks {
                self.low.push(id);
            } else {
                self.supply(id).is_low = false;
                self.plan_one(id, now, in_lanes, plan);
            }
        }
    }

    /// Those that are near their threshold come along.
    fn plan_near(&mut self, now: Monotonic, in_lanes: &impl Fn(Id) -> i64, plan: &mut Plan) {
        for id in std::mem::take(&mut self.near) {
            if plan.asks.len() >= self.most_asks {
                self.near.push(id);
                continue;
            }
            self.supply(id).is_near = false;
            if self.risk(id) == Risk::None {
                self.plan_one(id, now, in_lanes, plan);
            }
        }
    }

    fn plan_ends(&mut self, now: Monotonic, plan: &mut Plan) {
        let ends = self.returns.len().min(self.most_ends());
        plan.returns.extend(self.returns.drain(..ends));
        self.ends_due = if self.returns.is_empty() { NEVER } else { now };
    }

    fn plan_held(&mut self, plan: &mut Plan) {
        let ends = self.held.len().min(self.most_ends());
        plan.returns.extend(self.held.drain(..ends));
        if self.held.is_empty() {
            self.held_due = NEVER;
        }
    }

    fn risk(&self, id: Id) -> Risk {
        self.supplies[id.0 as usize].risk()
    }

    /// When a sequence that is low is to be asked for.
    fn due_of(&self, id: Id, now: Monotonic) -> Monotonic {
        self.supplies[id.0 as usize].due.max(self.retry_at(id, now))
    }

    /// Adds what a sequence needs.
    fn plan_one(&mut self, id: Id, now: Monotonic, in_lanes: &impl Fn(Id) -> i64, plan: &mut Plan) {
        let (window, settings) = (self.settings.window, self.refill);
        let room = self.most_asks.saturating_sub(plan.asks.len()) as i64;
        let in_lanes = in_lanes(id);
        let supply = self.supply(id);
        let seen = supply.look(now, in_lanes, window, &settings);
        if supply.asked > 0 || !(seen.low || seen.near) {
            return;
        }
        let size = supply.size(now, in_lanes, window, &settings);
        // One lease shows whether it is refused again.
        let lanes = if supply.refused > 0 { 1 } else { i64::from(supply.lanes) };
        let lanes = lanes.min(size / LEAST_PART).min(room).max(1);
        for lane in 0..lanes {
            let count = size / lanes + i64::from(lane < size % lanes);
            plan.asks.push(Ask { id, count, purpose: Purpose::Stock });
            supply.asked += 1;
        }
    }

    /// Renews what would have less than a third of its time left when it is its turn again.
    fn plan_renewals(&mut self, now: Monotonic, plan: &mut Plan) {
        let Some(ttl) = self.settings.ttl else { return };
        let most = self.most_ends();
        let near = after(now, Micros(ttl.0 / 6 * 5));
        let wanted = self.supplies.iter().enumerate().flat_map(|(number, supply)| {
            let open = supply.leases().filter(|lease| (now..near).contains(&lease.expires));
            open.map(move |lease| (Id(number as u32), lease.token))
        });
        plan.renewals.extend(wanted.take(most));
        let all = plan.renewals.len() < most;
        self.renewal = if all { after(now, Micros(ttl.0 / 2)) } else { now };
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

    /// All that is left to return, without a plan for anything else.
    pub fn plan_returns(&mut self) -> Plan {
        self.returns.append(&mut self.held);
        self.held_due = NEVER;
        let mut plan = Plan::default();
        self.plan_ends(Monotonic(i64::MIN), &mut plan);
        plan
    }
}
