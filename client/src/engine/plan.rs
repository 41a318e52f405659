//! Chooses what the next statement returns, renews and takes.

use uuid::Uuid;

use hilo_core::numbers::{Micros, Monotonic};

use super::{Engine, Id, NEVER, after};

/// The fewest values of a lease when several are taken for the lanes of one sequence.
const LEAST_PART: i64 = 32;

/// The calls of one transaction.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plan {
    /// Leases to end.
    pub returns: Vec<Return>,
    /// Leases to renew.
    pub renewals: Vec<(Id, Uuid)>,
    /// Leases to take.
    pub asks: Vec<Ask>,
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

    /// The leases that it names, in the order in which the server answers.
    pub fn tokens(&self) -> impl Iterator<Item = Uuid> {
        let returns = self.returns.iter().map(|back| back.token);
        let renewals = self.renewals.iter().map(|(_, token)| *token);
        returns.chain(renewals).chain(self.asks.iter().map(|ask| ask.token))
    }
}

/// A lease to take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ask {
    /// The sequence.
    pub id: Id,
    /// How many values.
    pub count: i64,
    /// Its use.
    pub purpose: Purpose,
    /// The name of the lease.
    pub token: Uuid,
    /// When it was first sent, if it may have been taken then: it is asked for again unchanged.
    pub tried: Option<Monotonic>,
}

impl Ask {
    /// A new lease to ask for, with a name that nobody can guess.
    pub fn new(id: Id, count: i64, purpose: Purpose) -> Ask {
        Ask { id, count, purpose, token: Uuid::new_v4(), tried: None }
    }
}

/// The purpose of a lease.
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
    /// The name of the lease.
    pub token: Uuid,
    /// All values before this one were used.
    pub next: i64,
    /// Whether the return was sent before, so that the lease may have ended then.
    pub tried: bool,
}

impl Engine {
    /// The statement to send at `now`, if any. The lanes of a sequence hold `in_lanes` values.
    /// Until the plan is [finished](Self::finish_plan) or has [failed](Self::fail_plan), there is
    /// no other.
    pub fn plan(&mut self, now: Monotonic, in_lanes: impl Fn(Id) -> i64) -> Option<Plan> {
        if now < self.due() {
            return None;
        }
        if self.housekeeping <= now {
            self.keep_house(now, &in_lanes);
        }
        let mut plan = Plan::default();
        if self.renewal <= now {
            self.plan_renewals(now, &mut plan);
        }
        if self.due <= now {
            self.most_refusals = self.fewest_refusals(now);
            self.plan_again(now, &mut plan);
            self.plan_ranges(now, &mut plan);
            self.plan_low(now, &in_lanes, &mut plan);
            self.plan_near(now, &in_lanes, &mut plan);
            self.due = self.next_due(now);
        }
        if self.held_due <= now {
            self.returns.append(&mut self.held);
            self.held_due = NEVER;
            self.ends_due = now;
        }
        if self.ends_due <= now || !plan.is_empty() {
            self.plan_ends(now, &mut plan);
        }
        if plan.is_empty() {
            return None;
        }
        self.in_flight = true;
        self.last_plan = now;
        Some(plan)
    }

    fn next_due(&self, now: Monotonic) -> Monotonic {
        let low = self.low.iter().map(|id| self.due_of(*id, now));
        let ranges = self.ranges.iter().map(|(id, ..)| self.retry_at(*id, now));
        let again = self.again.iter().map(|ask| self.retry_at(ask.id, now));
        low.chain(ranges).chain(again).min().unwrap_or(NEVER)
    }

    /// A sequence is asked for now only if it was refused at most this often. If a statement has
    /// room for only one, it is one that was refused least often, since the server may refuse
    /// another for ever.
    fn fewest_refusals(&self, now: Monotonic) -> u32 {
        let again = self.again.iter().map(|ask| ask.id);
        let all = again.chain(self.ranges.iter().map(|(id, ..)| *id)).chain(self.low.clone());
        let ready = all.filter(|id| self.retry_at(*id, now) <= now);
        let refusals = ready.map(|id| self.supplies[id.0 as usize].refused);
        if self.most_asks > 1 { u32::MAX } else { refusals.min().unwrap_or(0) }
    }

    fn is_turn(&self, id: Id, now: Monotonic) -> bool {
        let refusals = self.supplies[id.0 as usize].refused;
        self.retry_at(id, now) <= now && refusals <= self.most_refusals
    }

    /// Plans calls that were sent before, and may have been carried out.
    fn plan_again(&mut self, now: Monotonic, plan: &mut Plan) {
        for ask in std::mem::take(&mut self.again) {
            match self.is_turn(ask.id, now) && plan.asks.len() < self.most_asks {
                true => plan.asks.push(ask),
                false => self.again.push(ask),
            }
        }
    }

    /// Ranges never take all of a statement that has room for several.
    fn plan_ranges(&mut self, now: Monotonic, plan: &mut Plan) {
        let most = self.most_asks.div_ceil(2);
        for (id, count, ticket) in std::mem::take(&mut self.ranges) {
            if self.is_turn(id, now) && plan.asks.len() < most {
                plan.asks.push(Ask::new(id, count, Purpose::Range(ticket)));
            } else {
                self.ranges.push_back((id, count, ticket));
            }
        }
    }

    fn plan_low(&mut self, now: Monotonic, in_lanes: &impl Fn(Id) -> i64, plan: &mut Plan) {
        let mut low = std::mem::take(&mut self.low);
        // Sequences that somebody waits for come first, if there are too many.
        low.sort_by_key(|id| self.supply(*id).waiting == 0);
        for id in low {
            let is_turn = self.due_of(id, now) <= now && self.is_turn(id, now);
            if self.supply(id).refused > 0 && !is_turn || plan.asks.len() >= self.most_asks {
                self.low.push(id);
            } else {
                self.supply(id).is_low = false;
                self.plan_one(id, now, in_lanes, plan);
            }
        }
    }

    /// Sequences near their threshold come along.
    fn plan_near(&mut self, now: Monotonic, in_lanes: &impl Fn(Id) -> i64, plan: &mut Plan) {
        for id in std::mem::take(&mut self.near) {
            if plan.asks.len() >= self.most_asks {
                self.near.push(id);
            } else {
                self.supply(id).is_near = false;
                if self.supply(id).refused == 0 {
                    self.plan_one(id, now, in_lanes, plan);
                }
            }
        }
    }

    fn plan_ends(&mut self, now: Monotonic, plan: &mut Plan) {
        let ends = self.returns.len().min(self.most_ends());
        plan.returns.extend(self.returns.drain(..ends));
        self.ends_due = if self.returns.is_empty() { NEVER } else { now };
    }

    /// When a low sequence is to be asked for.
    fn due_of(&self, id: Id, now: Monotonic) -> Monotonic {
        self.supplies[id.0 as usize].due.max(self.retry_at(id, now))
    }

    /// Plans what a sequence needs.
    fn plan_one(&mut self, id: Id, now: Monotonic, in_lanes: &impl Fn(Id) -> i64, plan: &mut Plan) {
        let settings = self.settings;
        let room = self.most_asks.saturating_sub(plan.asks.len()) as i64;
        let in_lanes = in_lanes(id);
        let supply = self.supply(id);
        let seen = supply.look(now, in_lanes, &settings);
        if supply.asked > 0 || !(seen.low || seen.near) {
            return;
        }
        let size = supply.size(now, in_lanes, &settings);
        // One lease is enough to see whether it is refused again.
        let lanes = if supply.refused > 0 { 1 } else { i64::from(supply.lanes) };
        let lanes = lanes.min(size / LEAST_PART).min(room).max(1);
        for lane in 0..lanes {
            let count = size / lanes + i64::from(lane < size % lanes);
            plan.asks.push(Ask::new(id, count, Purpose::Stock));
            supply.asked += 1;
        }
    }

    /// Renews the leases that would have less than a third of their time left at the next turn;
    /// without a ttl, all that expire.
    fn plan_renewals(&mut self, now: Monotonic, plan: &mut Plan) {
        let most = self.most_ends();
        let near = self.settings.ttl.map_or(NEVER, |ttl| after(now, Micros(ttl.0 / 6 * 5)));
        let next = self.settings.ttl.map_or(NEVER, |ttl| after(now, Micros(ttl.0 / 2)));
        let wanted = self.supplies.iter().enumerate().flat_map(|(number, supply)| {
            let open = supply.leases().filter(|lease| (now..near).contains(&lease.expires));
            open.map(move |lease| (Id(number as u32), lease.token))
        });
        plan.renewals.extend(wanted.take(most));
        let all = plan.renewals.len() < most;
        self.renewal = if all { next } else { now };
    }

    /// Gives back values that have not been used for long.
    fn keep_house(&mut self, now: Monotonic, in_lanes: &impl Fn(Id) -> i64) {
        self.housekeeping = after(now, self.settings.window);
        for number in 0..self.supplies.len() {
            let supply = &mut self.supplies[number];
            let in_lanes = in_lanes(Id(number as u32));
            let mut surplus = supply.surplus(now, in_lanes, &self.settings);
            while let Some(lease) = self.supplies[number].unstock_surplus(surplus) {
                surplus -= lease.count;
                self.give_back(lease, lease.count, now);
            }
        }
    }

    /// Plans the return of everything, also of leases whose answer was lost. Asks for nothing else.
    pub fn plan_returns(&mut self) -> Plan {
        self.returns.append(&mut self.held);
        self.held_due = NEVER;
        let again = self.again.len().min(self.most_asks);
        let mut plan = Plan { asks: self.again.drain(..again).collect(), ..Plan::default() };
        self.plan_ends(Monotonic(i64::MIN), &mut plan);
        plan
    }
}
