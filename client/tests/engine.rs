//! What an engine asks for, when, and what it gives back.

use std::collections::HashSet;

use hilo_client::engine::{
    Ask, End, Engine, Failure, Id, Lease, NEVER, Parts, Plan, Purpose, Settings,
};
use hilo_core::numbers::{Micros, Monotonic};
use uuid::Uuid;

const SECOND: i64 = 1_000_000;

fn at(seconds: f64) -> Monotonic {
    Monotonic((seconds * SECOND as f64) as i64)
}

/// A lease to serve from.
fn stock(id: u32, count: i64) -> Ask {
    Ask { id: Id(id), count, purpose: Purpose::Stock }
}

/// An engine, and how many values each of its sequences has in its lane.
struct World {
    engine: Engine,
    lanes: Vec<i64>,
    next: i64,
}

impl World {
    fn new(sequences: usize, ttl: Option<i64>) -> World {
        let settings = Settings::new(Micros(60 * SECOND), ttl.map(|ttl| Micros(ttl * SECOND)));
        let mut engine = Engine::new(settings, at(0.0), 1);
        for _ in 0..sequences {
            engine.register();
        }
        World { engine, lanes: vec![0; sequences], next: 1 }
    }

    fn plan(&mut self, now: Monotonic) -> Option<Plan> {
        let lanes = &self.lanes;
        self.engine.plan(now, |id| lanes[id.0 as usize])
    }

    /// Carries a plan out as the server would.
    fn carry_out(&mut self, plan: &Plan, now: Monotonic) {
        for ask in &plan.asks {
            let lease = self.lease(ask.count, self.engine.expiry(now));
            self.engine.granted(*ask, lease, 0);
        }
        for (id, token) in &plan.renewals {
            self.engine.renewed(*id, *token, now);
        }
        self.engine.done();
        for number in 0..self.lanes.len() {
            self.fill(number, now);
        }
    }

    fn lease(&mut self, count: i64, expires: Monotonic) -> Lease {
        self.next += count;
        let token = Uuid::from_u128(self.next as u128);
        Lease { token, last: self.next - 1, increment: 1, count, expires }
    }

    fn fill(&mut self, number: usize, now: Monotonic) {
        let id = Id(number as u32);
        if self.lanes[number] == 0 {
            self.engine.finish(id, 0, 0, now);
            if let Some(lease) = self.engine.serve(id, 0) {
                self.lanes[number] = lease.count;
            }
        }
        self.engine.check(id, now, self.lanes[number]);
    }

    /// Takes values from the lane and the queue, as callers do.
    fn take(&mut self, number: usize, mut count: i64, now: Monotonic) {
        while count > 0 {
            let taken = count.min(self.lanes[number]);
            assert!(taken > 0, "it has run dry");
            self.lanes[number] -= taken;
            count -= taken;
            self.fill(number, now);
        }
        self.engine.check(Id(number as u32), now, self.lanes[number]);
    }

    /// Has all sequences begin, in one plan.
    fn begin(&mut self, now: Monotonic) {
        for number in 0..self.lanes.len() {
            self.engine.want(Id(number as u32));
            self.engine.check(Id(number as u32), now, 0);
        }
        let plan = self.plan(now).expect("they are wanted");
        assert_eq!(plan.asks.len(), self.lanes.len());
        self.carry_out(&plan, now);
    }

    fn left(&self, number: usize, now: Monotonic) -> i64 {
        self.engine.figures(Id(number as u32), now, self.lanes[number]).left
    }
}

#[test]
fn nothing_is_asked_for_before_it_is_used() {
    let mut world = World::new(3, None);
    assert_eq!(world.plan(at(1.0)), None);
    assert_eq!(world.plan(at(1000.0)), None);
    world.engine.want(Id(1));
    world.engine.check(Id(1), at(1000.0), 0);
    let plan = world.plan(at(1000.0)).expect("it is wanted");
    assert_eq!(plan.asks.iter().map(|ask| ask.id).collect::<Vec<_>>(), [Id(1)]);
}

#[test]
fn there_is_one_plan_at_a_time() {
    let mut world = World::new(2, None);
    for number in 0..2 {
        world.engine.wait(Id(number), true);
        world.engine.check(Id(number), at(1.0), 0);
        if number == 0 {
            assert!(world.plan(at(1.0)).is_some());
        }
    }
    assert_eq!(world.engine.due(), NEVER);
    assert_eq!(world.plan(at(2.0)), None);
    world.engine.done();
    assert_eq!(world.plan(at(2.0)).expect("the other one").asks[0].id, Id(1));
}

/// A sequence that goes below its threshold waits for the next turn, and takes along one that is
/// near its own.
#[test]
fn statements_are_paced_and_shared() {
    let mut world = World::new(3, None);
    world.begin(at(0.0));
    // 82 values each, a threshold of 50, and nearness below 62.
    world.take(1, 25, at(300.0));
    assert_eq!(
        world.plan(at(300.0)),
        None,
        "one that is near comes along, and does not go by itself"
    );
    world.take(0, 40, at(300.0));
    let plan = world.plan(at(300.0)).expect("the last one was long ago");
    let ids: Vec<Id> = plan.asks.iter().map(|ask| ask.id).collect();
    assert_eq!(ids, [Id(0), Id(1)]);
    world.carry_out(&plan, at(300.0));
    world.take(2, 20, at(301.0));
    world.take(2, 13, at(303.0));
    assert_eq!(world.plan(at(303.0)), None);
    assert_eq!(world.engine.due(), at(305.0));
    assert!(world.plan(at(305.0)).is_some());
}

/// A caller who waits does not wait for a turn, nor does a sequence that will not last so long.
#[test]
fn who_waits_is_served_at_once() {
    let mut world = World::new(2, None);
    world.begin(at(0.0));
    world.take(0, 80, at(0.1));
    assert!(world.engine.due() <= at(0.2), "{}", world.engine.due());
    let mut world = World::new(1, None);
    world.begin(at(0.0));
    world.take(0, 82, at(3.0));
    world.engine.wait(Id(0), true);
    world.engine.check(Id(0), at(3.0), 0);
    assert!(world.plan(at(3.0)).is_some());
}

/// At a steady rate more than a buffer is left at any time, at most somewhat more than two, and
/// nobody waits.
#[test]
fn a_buffer_is_left_at_any_time() {
    for rate in [1, 10, 1_000] {
        let mut world = World::new(1, None);
        world.begin(at(0.0));
        let mut statements = 0;
        for step in 1..600 * 10 {
            let now = at(step as f64 / 10.0);
            let count = rate * step / 10 - rate * (step - 1) / 10;
            // The start is faster than anything that was seen before.
            let count = count.min(world.left(0, now));
            world.take(0, count, now);
            if let Some(plan) = world.plan(now) {
                world.carry_out(&plan, now);
                statements += usize::from(step > 1200);
            }
            let left = world.left(0, now);
            if step > 1200 {
                assert!(left >= rate * 60, "{left} at {rate}");
                assert!(left <= 100 + rate * 60 * 3, "{left} at {rate}");
            }
        }
        assert!(statements <= 10, "{statements} in eight minutes at {rate}");
    }
}

/// What was lost is asked for again, later and later, and returned again.
#[test]
fn a_lost_plan_comes_again() {
    let mut world = World::new(1, None);
    world.begin(at(0.0));
    world.take(0, 82, at(10.0));
    world.engine.wait(Id(0), true);
    world.engine.check(Id(0), at(10.0), 0);
    let mut now = at(10.0);
    for attempt in 0..20 {
        let due = world.engine.due();
        assert!(due.0 <= now.0 + 5 * SECOND, "attempt {attempt}");
        now = Monotonic(due.0.max(now.0));
        let plan = world.plan(now).expect("again");
        assert_eq!((plan.asks.len(), plan.returns.len()), (1, 1), "attempt {attempt}");
        // What was never sent has not been tried.
        assert_eq!(plan.returns[0].tried, attempt > 10);
        assert_eq!(plan.returns[0].end, End::Return(83));
        let why = if attempt < 10 { Failure::Unsent } else { Failure::Unknown };
        world.engine.failed(plan, why, now);
        assert!(world.engine.is_cut_off());
    }
    let now = world.engine.due();
    let plan = world.plan(now).expect("again");
    world.carry_out(&plan, now);
    assert!(!world.engine.is_cut_off());
    assert!(world.left(0, now) > 0);
}

/// A server that starts again is not met by a crowd that tries all the time: each client waits some
/// seconds between two attempts.
#[test]
fn an_outage_takes_few_attempts() {
    let mut world = World::new(1, None);
    world.begin(at(0.0));
    world.take(0, 82, at(10.0));
    world.engine.wait(Id(0), true);
    world.engine.check(Id(0), at(10.0), 0);
    let mut attempts = Vec::new();
    while attempts.last().is_none_or(|last| *last < at(610.0)) {
        let now = Monotonic(world.engine.due().0.max(at(10.0).0));
        let plan = world.plan(now).expect("again");
        world.engine.failed(plan, Failure::Unsent, now);
        attempts.push(now);
    }
    let soon = attempts.iter().filter(|now| **now < at(11.0)).count();
    assert!((3..=10).contains(&soon), "{soon} in the first second");
    // Two and a half seconds, in the mean.
    assert!((180..=300).contains(&attempts.len()), "{} in ten minutes", attempts.len());
}

/// All leases are renewed together, before a third of the time is left; what has expired is neither
/// renewed nor returned.
#[test]
fn leases_are_renewed_together() {
    let mut world = World::new(50, Some(60));
    world.begin(at(0.0));
    let due = world.engine.due();
    assert!(due <= at(40.0), "{due}");
    let plan = world.plan(due).expect("a renewal");
    assert_eq!((plan.renewals.len(), plan.asks.len()), (50, 0));
    world.engine.failed(plan, Failure::Unsent, due);
    let again = world.engine.due();
    let plan = world.plan(again).expect("the renewal again");
    assert_eq!(plan.renewals.len(), 50);
    world.carry_out(&plan, again);
    // An outage that lasts too long.
    let late = Monotonic(again.0 + 61 * SECOND);
    assert!(world.plan(late).is_none_or(|plan| plan.renewals.is_empty()), "all have expired");
    world.engine.done();
    world.take(7, 82, late);
    world.engine.want(Id(7));
    world.engine.check(Id(7), late, 0);
    let plan = world.plan(late).expect("a refill");
    assert_eq!((plan.returns.len(), plan.asks.len()), (0, 1));
}

/// Of all leases in the client's name, those that it neither serves from nor returns are revoked.
/// None comes back unused: the server may have forgotten the return of one that was used up.
#[test]
fn what_was_never_heard_of_is_revoked() {
    let mut world = World::new(2, Some(60));
    world.begin(at(0.0));
    let mut names = Vec::new();
    let mut lease = |world: &mut World| {
        let lease = world.lease(10, at(1000.0));
        names.push(lease.token);
        lease
    };
    let queued = lease(&mut world);
    world.engine.granted(stock(0, 10), queued, 0);
    let on_its_way = lease(&mut world);
    world.engine.give_back(on_its_way, 0, at(10.0));
    let plan = world.engine.plan_returns();
    let used_up = lease(&mut world);
    world.engine.give_back(used_up, 0, at(10.0));
    let unheard = lease(&mut world).token;
    let found: HashSet<Uuid> = names.iter().copied().collect();
    assert_eq!(world.engine.revoke_lost(found.clone(), &plan), 1);
    assert_eq!(world.engine.revoke_lost(found, &plan), 0, "once");
    let returns = world.engine.plan_returns().returns;
    let ends: Vec<_> = returns.iter().map(|back| (back.token, back.end)).collect();
    let next = used_up.last + 1;
    assert_eq!(ends, [(used_up.token, End::Return(next)), (unheard, End::Revoke)]);
}

/// However many sequences are used for the first time, those that are refilled get their turn, and
/// never share a statement with them.
#[test]
fn first_uses_and_refills_take_turns() {
    let mut world = World::new(100, None);
    world.engine.want(Id(0));
    world.engine.check(Id(0), at(0.0), 0);
    let plan = world.plan(at(0.0)).expect("it is wanted");
    world.carry_out(&plan, at(0.0));
    for round in 1..20 {
        let now = at(round as f64);
        let held = world.lanes[0];
        world.take(0, held, now);
        world.engine.wait(Id(0), true);
        world.engine.check(Id(0), now, world.lanes[0]);
        for _ in 0..2 {
            let new = Id(100 - round);
            world.engine.wait(new, true);
            world.engine.check(new, now, world.lanes[new.0 as usize]);
            let Some(plan) = world.plan(now) else { continue };
            let old = plan.asks.iter().filter(|ask| ask.id == Id(0)).count();
            assert!(old == 0 || old == plan.asks.len(), "{plan:?}");
            world.carry_out(&plan, now);
        }
        assert!(world.lanes[0] > 0, "round {round}");
        world.engine.wait(Id(0), false);
    }
}

/// A return names the first value that was not used, close to the ends of bigint too.
#[test]
fn a_return_names_the_first_value_that_is_left() {
    let mut world = World::new(1, None);
    for (last, increment, left, next) in [
        (i64::MAX - 1, 1, 0, i64::MAX),
        (i64::MIN + 1, -1, 0, i64::MIN),
        (i64::MAX - 1, 1, 3, i64::MAX - 3),
        (i64::MAX - 10, 10, 0, i64::MAX),
        (i64::MIN + 10, -10, 5, i64::MIN + 50),
    ] {
        let lease = Lease { last, increment, count: 5, ..world.lease(1, NEVER) };
        world.engine.give_back(lease, left, at(1.0));
        assert_eq!(world.engine.plan_returns().returns[0].end, End::Return(next));
    }
}

/// The server's refusals are repeated later and later, alone, and no more after a while unless
/// somebody waits.
#[test]
fn what_is_refused_is_asked_for_alone_and_ever_later() {
    let mut world = World::new(2, None);
    world.begin(at(0.0));
    for number in 0..2 {
        world.take(number, 60, at(100.0));
    }
    let mut now = at(100.0);
    let plan = world.plan(now).expect("both are low");
    assert_eq!(plan.asks.len(), 2);
    let bad = plan.asks[1].id;
    let lease = world.lease(50, NEVER);
    world.engine.granted(plan.asks[0], lease, 0);
    let mut attempts = 0;
    loop {
        world.engine.refused(stock(bad.0, 50), now);
        world.engine.done();
        world.engine.check(bad, now, world.lanes[bad.0 as usize]);
        let due = world.engine.due();
        if due > Monotonic(now.0 + 10 * SECOND) {
            break;
        }
        now = Monotonic(due.0.max(now.0));
        let plan = world.plan(now).expect("it is due");
        assert_eq!(plan.asks.iter().map(|ask| ask.id).collect::<Vec<_>>(), [bad]);
        attempts += 1;
        assert!(attempts < 20);
    }
    assert!(attempts >= 3, "{attempts}");
    for _ in 0..100 {
        world.engine.wait(bad, true);
    }
    world.engine.check(bad, now, world.lanes[bad.0 as usize]);
    assert!(world.engine.due() <= Monotonic(now.0 + 2 * SECOND));
}

/// However many callers wait for ranges, the others are refilled, and those that are new get their
/// first lease.
#[test]
fn ranges_starve_nobody() {
    let mut world = World::new(3, None);
    world.engine.want(Id(0));
    world.engine.want(Id(1));
    for id in [Id(0), Id(1)] {
        world.engine.check(id, at(0.0), 0);
    }
    let plan = world.plan(at(0.0)).expect("they are wanted");
    world.carry_out(&plan, at(0.0));
    let left = world.lanes[1];
    world.take(1, left, at(1.0));
    for id in [Id(1), Id(2)] {
        world.engine.wait(id, true);
        world.engine.check(id, at(1.0), 0);
    }
    for _ in 0..2 {
        for _ in 0..2_000 {
            world.engine.wait_for_range(Id(0), 20_000, at(1.0));
        }
        let plan = world.plan(at(1.0)).expect("somebody waits");
        world.carry_out(&plan, at(1.0));
    }
    assert!(world.lanes[1] > 0, "a refill");
    assert!(world.lanes[2] > 0, "a first lease");
}

/// The lease of a caller who gives up is for others, before and after it has come; that of one who
/// does not is all used.
#[test]
fn a_range_that_is_given_up_is_for_others() {
    let mut world = World::new(1, None);
    world.begin(at(0.0));
    let left = world.left(0, at(0.0));
    let tickets = [0; 3].map(|_| world.engine.wait_for_range(Id(0), 1_000, at(1.0)));
    world.engine.forget_range(tickets[0]);
    let plan = world.plan(at(1.0)).expect("two wait");
    assert_eq!(plan.asks.iter().filter(|ask| ask.count == 1_000).count(), 2);
    world.engine.forget_range(tickets[1]);
    world.carry_out(&plan, at(1.0));
    assert_eq!(world.left(0, at(1.0)), left + 1_000, "nobody waited for it");
    assert_eq!(world.engine.claim(tickets[1], at(1.0)), None);
    let lease = world.engine.claim(tickets[2], at(1.0)).expect("it has come");
    assert_eq!(world.left(0, at(1.0)), left + 1_000);
    let returns = world.engine.plan_returns().returns;
    assert_eq!((returns[0].token, returns[0].end), (lease.token, End::Return(lease.last + 1)));
    let late = world.engine.wait_for_range(Id(0), 500, at(2.0));
    let plan = world.plan(at(2.0)).expect("one waits");
    world.carry_out(&plan, at(2.0));
    world.engine.forget_range(late);
    assert_eq!(world.left(0, at(2.0)), left + 1_500, "it had come");
}

/// A range of a sequence that the server has just refused waits its turn, alone, and holds up
/// nobody.
#[test]
fn a_refused_range_is_remembered() {
    let mut world = World::new(2, None);
    world.begin(at(0.0));
    world.engine.wait_for_range(Id(0), 1_000, at(1.0));
    let plan = world.plan(at(1.0)).expect("one waits");
    world.engine.refused(plan.asks[0], at(1.0));
    world.engine.done();
    world.engine.wait_for_range(Id(0), 1_000, at(1.0));
    world.engine.wait_for_range(Id(1), 1_000, at(1.0));
    let mut asked = Vec::new();
    for _ in 0..3 {
        let now = Monotonic(world.engine.due().0.max(at(1.0).0));
        assert!(now < at(2.0), "{now}");
        let Some(plan) = world.plan(now) else { continue };
        let ids: Vec<Id> = plan.asks.iter().map(|ask| ask.id).collect();
        assert!(!ids.contains(&Id(0)) || ids == [Id(0)] || asked.len() == 2, "{plan:?}");
        asked.extend(ids);
        world.carry_out(&plan, now);
    }
    assert!(asked.starts_with(&[Id(1), Id(0)]), "{asked:?}");
}

/// A lease that the server cannot end now is tried again by itself, later and later, and not given
/// up.
#[test]
fn a_return_that_is_blocked_holds_up_nothing() {
    let mut world = World::new(1, None);
    world.begin(at(0.0));
    let lease = world.lease(10, NEVER);
    world.engine.give_back(lease, 0, at(0.0));
    let mut tries = Vec::new();
    while tries.len() < 8 {
        let now = world.engine.due();
        // Housekeeping may have nothing to say.
        let Some(plan) = world.plan(now) else { continue };
        assert_eq!((plan.returns.len(), plan.len()), (1, 1), "{plan:?}");
        world.engine.return_later(plan.returns, now);
        world.engine.done();
        tries.push(now.0 / SECOND);
    }
    assert_eq!(tries, [60, 61, 63, 67, 75, 91, 123, 183]);
}

/// What nobody uses any more goes back unused.
#[test]
fn a_surplus_is_given_back() {
    let mut world = World::new(1, None);
    world.begin(at(0.0));
    for _ in 0..3 {
        let lease = world.lease(100_000, NEVER);
        world.engine.granted(stock(0, 100_000), lease, 0);
    }
    let mut returned = 0;
    for minute in 1..10 {
        let now = at(60.0 * minute as f64);
        if let Some(plan) = world.plan(now) {
            returned += plan.returns.len();
            world.carry_out(&plan, now);
        }
    }
    assert_eq!(returned, 2, "the last one is more than the surplus");
    assert_eq!(world.left(0, at(600.0)), 100_082);
}

/// A sequence with several lanes takes a lease for each with its next refill, and none that is
/// tiny.
#[test]
fn each_lane_has_a_lease() {
    for (rate, leases) in [(1, 1..5), (1_000, 64..65)] {
        let mut world = World::new(1, None);
        world.begin(at(0.0));
        world.engine.set_lanes(Id(0), 64);
        world.engine.check(Id(0), at(1.0), world.lanes[0]);
        assert!(world.engine.due() > at(2.0), "what is there is used first");
        assert!(!world.engine.is_spread(Id(0)));
        let mut asks = 0;
        for step in 1..600 {
            let now = at(step as f64);
            let count = rate.min(world.left(0, now) - 1);
            world.take(0, count, now);
            if let Some(plan) = world.plan(now) {
                assert!(
                    plan.asks.len() < 2 || plan.asks.iter().all(|ask| ask.count >= 32),
                    "{plan:?}"
                );
                asks = plan.asks.len().max(asks);
                world.carry_out(&plan, now);
            }
        }
        assert!(leases.contains(&asks), "{asks} at {rate}");
    }
}

/// A server that has no room for a statement, or takes too long for it, gets smaller ones, later
/// and later, and larger ones again when it has. Nothing is asked for by itself, and nothing is
/// forgotten.
#[test]
fn a_statement_that_failed_is_made_smaller() {
    for why in [Failure::NoRoom, Failure::Unknown] {
        let mut world = World::new(1_000, None);
        for number in 0..1_000 {
            world.engine.want(Id(number));
            world.engine.check(Id(number), at(0.0), 0);
        }
        let used_up = world.lease(10, NEVER);
        world.engine.give_back(used_up, 0, at(0.0));
        let mut now = at(0.0);
        let mut sizes = Vec::new();
        for attempt in 0..12 {
            let due = world.engine.due();
            assert!(due <= Monotonic(now.0 + 5 * SECOND), "{due} after {now}");
            now = Monotonic(due.0.max(now.0));
            let plan = world.plan(now).expect("they are wanted");
            let tried = why == Failure::Unknown && attempt > 0;
            assert_eq!((plan.returns.len(), plan.returns[0].tried), (1, tried), "{why:?}");
            sizes.push(plan.asks.len());
            assert_eq!(world.engine.can_be_smaller(&plan), plan.asks.len() > 2);
            world.engine.failed(plan, why, now);
        }
        assert_eq!(sizes, [1_000, 500, 250, 125, 62, 31, 15, 7, 3, 2, 2, 2], "{why:?}");
        let mut statements = 0;
        while world.lanes.contains(&0) {
            now = Monotonic(world.engine.due().0.max(now.0));
            if let Some(plan) = world.plan(now) {
                world.carry_out(&plan, now);
                statements += 1;
            }
        }
        assert!(statements <= 60, "{statements}");
        assert_eq!(world.engine.plan_returns().returns, []);
    }
}

/// Leases to return, or to renew, are fewer at a time too, when that was too much; and as many as
/// before after an outage.
#[test]
fn what_a_client_returns_or_renews_is_made_smaller() {
    let mut world = World::new(1_000, Some(60));
    world.begin(at(0.0));
    let due = world.engine.due();
    let mut sizes = Vec::new();
    for why in [Failure::Unsent, Failure::Unknown, Failure::Unknown, Failure::Unsent] {
        let now = Monotonic(world.engine.due().0.max(due.0));
        let plan = world.plan(now).expect("a renewal");
        sizes.push(plan.renewals.len());
        world.engine.failed(plan, why, now);
    }
    for number in 0..1_000 {
        let lease = world.lease(10, NEVER);
        world.engine.give_back(lease, number % 10, due);
    }
    sizes.push(world.engine.plan_returns().returns.len());
    assert_eq!(sizes, [1_000, 1_000, 500, 250, 250]);
}

/// Times that are longer than a clock can count are as long as it can.
#[test]
fn no_time_overflows() {
    let settings = Settings::new(Micros(i64::MAX), Some(Micros(i64::MAX)));
    let mut world = World::new(1, None);
    world.engine = Engine::new(settings, at(0.0), 1);
    world.engine.register();
    world.begin(at(0.0));
    for step in 1..100 {
        let now = at(step as f64);
        let count = world.left(0, now) / 2;
        world.take(0, count, now);
        if let Some(plan) = world.plan(now) {
            world.carry_out(&plan, now);
        }
    }
    assert!(world.left(0, at(100.0)) > 0);
}

/// Has a server that refuses these sequences carry out a plan in parts. Returns which were leased,
/// which were found, and how many statements it took.
fn search(plan: Plan, refused: &[u32]) -> (Vec<u32>, Vec<u32>, usize) {
    let mut parts = Parts::new(plan);
    let (mut leased, mut found, mut statements) = (Vec::new(), Vec::new(), 0);
    while let Some(part) = parts.take() {
        statements += 1;
        let ids = part.asks.iter().map(|ask| ask.id.0);
        if !ids.clone().any(|id| refused.contains(&id)) {
            leased.extend(ids);
            parts.accepted();
        } else if part.len() > 1 {
            parts.halve(part);
        } else {
            found.extend(ids);
            parts.found();
        }
    }
    leased.sort_unstable();
    found.sort_unstable();
    (leased, found, statements)
}

/// One call that the server refuses is found in the logarithm of their number; if it refuses them
/// all, in two statements for each.
#[test]
fn what_is_refused_is_found_soon() {
    let plan =
        |count| Plan { asks: (0..count).map(|id| stock(id, 1)).collect(), ..Plan::default() };
    for bad in [0, 1, 333, 499, 500, 998, 999] {
        let (leased, found, statements) = search(plan(1_000), &[bad]);
        assert_eq!((leased.len(), found), (999, vec![bad]));
        assert!(statements <= 1 + 10 + 2, "{statements} for {bad}");
    }
    let all: Vec<u32> = (0..100).collect();
    let (leased, found, statements) = search(plan(100), &all);
    assert_eq!((leased.len(), found), (0, all));
    assert!(statements <= 200 + 7, "{statements}");
    let (leased, found, _) = search(plan(50), &[0, 7, 8, 49]);
    assert_eq!((leased.len(), found), (46, vec![0, 7, 8, 49]));
}

/// A plan that is refused is done in parts: what it takes, and what it ends, and halves of these.
#[test]
fn parts_of_a_plan_are_the_plan() {
    let mut world = World::new(1, None);
    for (asks, returns, renewals) in [(5, 0, 0), (0, 3, 2), (4, 4, 4), (1, 1, 0), (2, 7, 1)] {
        for _ in 0..returns {
            let lease = world.lease(1, NEVER);
            world.engine.give_back(lease, 0, at(0.0));
        }
        let whole = Plan {
            asks: (0..asks).map(|n| stock(n, 1)).collect(),
            returns: world.engine.plan_returns().returns,
            renewals: (0..renewals).map(|n| (Id(n), Uuid::from_u128(n.into()))).collect(),
            sweep: false,
        };
        let (mut first, second) = whole.clone().split();
        assert!(!first.is_empty() && !second.is_empty());
        if asks > 0 && returns + renewals > 0 {
            assert_eq!((first.len(), second.asks.len()), (asks as usize, 0));
        } else {
            assert!(first.len().abs_diff(second.len()) <= 1);
        }
        first.extend(second);
        assert_eq!(first, whole);
    }
}
