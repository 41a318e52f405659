//! The server refuses, and callers give up, are blocked or ask for too much.

use super::*;

/// The server's refusals are repeated later and later, and no more after a while unless somebody
/// waits.
#[test]
fn what_is_refused_is_asked_for_ever_later() {
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
    world.engine.accept_lease(plan.asks[0], lease, 0);
    let mut attempts = 0;
    loop {
        world.engine.accept_refusal(stock(bad.0, 50), false, now);
        world.engine.finish_plan();
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

/// The lease of a caller who gives up is for others, before and after it has come. That of one who
/// does not is all used.
#[test]
fn a_range_that_is_given_up_is_for_others() {
    let mut world = World::new(1, None);
    world.begin(at(0.0));
    let left = world.remaining(0, at(0.0));
    let tickets = [0; 3].map(|_| world.engine.wait_for_range(Id(0), 1_000, at(1.0)));
    world.engine.forget_range(tickets[0]);
    let plan = world.plan(at(1.0)).expect("two wait");
    assert_eq!(plan.asks.iter().filter(|ask| ask.count == 1_000).count(), 2);
    world.engine.forget_range(tickets[1]);
    world.carry_out(&plan, at(1.0));
    assert_eq!(world.remaining(0, at(1.0)), left + 1_000, "nobody waited for it");
    assert_eq!(world.engine.claim(tickets[1], at(1.0)), None);
    let lease = world.engine.claim(tickets[2], at(1.0)).expect("it has come");
    assert_eq!(world.remaining(0, at(1.0)), left + 1_000);
    let returns = world.engine.plan_returns().returns;
    assert_eq!((returns[0].token, returns[0].next), (lease.token, lease.last + 1));
    let late = world.engine.wait_for_range(Id(0), 500, at(2.0));
    let plan = world.plan(at(2.0)).expect("one waits");
    world.carry_out(&plan, at(2.0));
    world.engine.forget_range(late);
    assert_eq!(world.remaining(0, at(2.0)), left + 1_500, "it had come");
}

/// A range of a sequence that the server has just refused waits its turn, and holds up nobody.
#[test]
fn a_refused_range_is_remembered() {
    let mut world = World::new(2, None);
    world.begin(at(0.0));
    world.engine.wait_for_range(Id(0), 1_000, at(1.0));
    let plan = world.plan(at(1.0)).expect("one waits");
    world.engine.accept_refusal(plan.asks[0], false, at(1.0));
    world.engine.finish_plan();
    world.engine.wait_for_range(Id(0), 1_000, at(1.0));
    world.engine.wait_for_range(Id(1), 1_000, at(1.0));
    let mut asked = Vec::new();
    while asked.len() < 3 {
        let now = Monotonic(world.engine.due().0.max(at(1.0).0));
        assert!(now < at(2.0), "{now}");
        let Some(plan) = world.plan(now) else { continue };
        asked.extend(plan.asks.iter().map(|ask| ask.id));
        world.carry_out(&plan, now);
    }
    asked.sort();
    assert_eq!(asked, [Id(0), Id(0), Id(1)]);
}

/// A lease that the server cannot end now is tried again later and later, and not given up.
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
        world.engine.return_later(plan.returns[0], now);
        world.engine.finish_plan();
        tries.push(now.0 / SECOND);
    }
    assert_eq!(tries, [60, 61, 63, 67, 75, 91, 123, 183]);
}

/// Values that nobody uses any more go back unused.
#[test]
fn a_surplus_is_given_back() {
    let mut world = World::new(1, None);
    world.begin(at(0.0));
    for _ in 0..3 {
        let lease = world.lease(100_000, NEVER);
        world.engine.accept_lease(stock(0, 100_000), lease, 0);
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
    assert_eq!(world.remaining(0, at(600.0)), 100_082);
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
            let count = rate.min(world.remaining(0, now) - 1);
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
/// and later. It gets larger ones again when it has room. Nothing is asked for by itself, and
/// nothing is forgotten.
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
            assert_eq!(world.engine.can_be_smaller(&plan), plan.asks.len() > 1);
            world.engine.fail_plan(plan, why, now);
        }
        assert_eq!(sizes, [1_000, 500, 250, 125, 62, 31, 15, 7, 3, 1, 1, 1], "{why:?}");
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

/// The server cancels each statement that asks for one of the sequences, which is locked. The
/// others come nevertheless: callers wait for the locked one itself, for a range of it, or for what
/// an answer was lost for.
#[test]
fn a_sequence_that_fails_every_statement_holds_up_no_other() {
    for (seed, case) in (0..300).zip(["itself", "a range", "a lost answer"].into_iter().cycle()) {
        let mut world = World::with_seed(4, None, seed);
        let locked = Id(0);
        for number in 0..4 {
            let id = Id(number);
            match case {
                "a range" if id == locked => {
                    world.engine.wait_for_range(id, 10, at(0.0));
                }
                _ => world.engine.wait(id, true),
            }
            world.engine.check(id, at(0.0), 0);
        }
        let mut now = at(0.0);
        if case == "a lost answer" {
            let plan = world.plan(now).expect("somebody waits");
            world.engine.fail_plan(plan, Failure::Unknown, now);
        }
        let mut statements = 0;
        while world.lanes[1..].contains(&0) {
            now = Monotonic(world.engine.due().0.max(now.0));
            let Some(plan) = world.plan(now) else { continue };
            statements += 1;
            assert!(statements <= 40, "{statements} with {case}, seed {seed}: {:?}", world.lanes);
            if !plan.asks.iter().any(|ask| ask.id == locked) {
                world.carry_out(&plan, now);
            } else if world.engine.can_be_smaller(&plan) {
                world.engine.fail_plan(plan, Failure::NoRoom, now);
            } else {
                for ask in plan.asks {
                    world.engine.accept_refusal(ask, true, now);
                }
                world.engine.finish_plan_in_part(now);
                for id in 0..4 {
                    world.engine.check(Id(id), now, world.lanes[id as usize]);
                }
            }
        }
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
        world.engine.fail_plan(plan, why, now);
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
    world.engine.register(None);
    world.begin(at(0.0));
    for step in 1..100 {
        let now = at(step as f64);
        let count = world.remaining(0, now) / 2;
        world.take(0, count, now);
        if let Some(plan) = world.plan(now) {
            world.carry_out(&plan, now);
        }
    }
    assert!(world.remaining(0, at(100.0)) > 0);
}
