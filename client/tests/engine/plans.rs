//! The requests to the server, and their times.

use super::*;

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
    world.engine.finish_plan();
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
            let count = count.min(world.remaining(0, now));
            world.take(0, count, now);
            if let Some(plan) = world.plan(now) {
                world.carry_out(&plan, now);
                statements += usize::from(step > 1200);
            }
            let left = world.remaining(0, now);
            if step > 1200 {
                assert!(left >= rate * 60, "{left} at {rate}");
                assert!(left <= 100 + rate * 60 * 3, "{left} at {rate}");
            }
        }
        assert!(statements <= 10, "{statements} in eight minutes at {rate}");
    }
}

/// A lost statement is sent again, later and later, and returned again.
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
        // A statement that was never sent has not been tried.
        assert_eq!(
            (plan.returns[0].tried, plan.asks[0].tried.is_some()),
            (attempt > 10, attempt > 10)
        );
        assert_eq!(plan.returns[0].next, 83);
        let why = if attempt < 10 { Failure::Unsent } else { Failure::Unknown };
        world.engine.fail_plan(plan, why, now);
        assert!(world.engine.is_cut_off());
    }
    let now = world.engine.due();
    let plan = world.plan(now).expect("again");
    world.carry_out(&plan, now);
    assert!(!world.engine.is_cut_off());
    assert!(world.remaining(0, now) > 0);
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
        world.engine.fail_plan(plan, Failure::Unsent, now);
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
    world.engine.fail_plan(plan, Failure::Unsent, due);
    let again = world.engine.due();
    let plan = world.plan(again).expect("the renewal again");
    assert_eq!(plan.renewals.len(), 50);
    world.carry_out(&plan, again);
    // An outage that lasts too long.
    let late = Monotonic(again.0 + 61 * SECOND);
    assert!(world.plan(late).is_none_or(|plan| plan.renewals.is_empty()), "all have expired");
    world.engine.finish_plan();
    world.take(7, 82, late);
    world.engine.want(Id(7));
    world.engine.check(Id(7), late, 0);
    let plan = world.plan(late).expect("a refill");
    assert_eq!((plan.returns.len(), plan.asks.len()), (0, 1));
}

/// Without a ttl, a client renews what an earlier process has left to expire: once, since then it
/// never expires.
#[test]
fn a_lease_of_an_earlier_process_does_not_expire() {
    let mut world = World::new(2, None);
    for ask in [stock(0, 50), stock(1, 50)] {
        world.engine.resume_ask(ask.id, ask.count, ask.token, at(0.0));
    }
    let asked = world.plan(at(0.0)).expect("both are asked for").asks;
    for (ask, expires) in asked.iter().zip([true, false]) {
        let expires = world.engine.resumed_expiry(expires, at(0.0));
        let lease = Lease { token: ask.token, ..world.lease(ask.count, expires) };
        world.engine.accept_lease(*ask, lease, 0);
    }
    world.engine.finish_plan();
    let plan = world.plan(at(1.0)).expect("a renewal");
    assert_eq!(plan.renewals, [(asked[0].id, asked[0].token)]);
    world.engine.renew_later(at(1.0));
    world.engine.finish_plan();
    let later = world.engine.due();
    assert!(later <= at(10.0), "{later}");
    let plan = world.plan(later).expect("the renewal again");
    assert_eq!(plan.renewals, [(asked[0].id, asked[0].token)]);
    world.carry_out(&plan, later);
    for minute in 1..10 {
        let plan = world.plan(at(60.0 * minute as f64));
        assert!(plan.is_none_or(|plan| plan.renewals.is_empty()), "after {minute} minutes");
        world.engine.finish_plan();
    }
}

/// Calls that were sent, and perhaps done, are asked for by their name until there is an answer,
/// whatever comes in between. When the name is used up, they are asked for by another.
#[test]
fn a_lost_answer_is_asked_for_again() {
    let mut world = World::new(2, None);
    for number in 0..2 {
        world.engine.want(Id(number));
        world.engine.check(Id(number), at(0.0), 0);
    }
    let ticket = world.engine.wait_for_range(Id(0), 500, at(0.0));
    let plan = world.plan(at(0.0)).expect("they are wanted");
    let sent = plan.asks.clone();
    let mut now = at(0.0);
    let mut plan = Some(plan);
    for why in [Failure::Unknown, Failure::Unsent, Failure::NoRoom, Failure::Unknown] {
        world.engine.fail_plan(plan.take().expect("it is tried again"), why, now);
        world.engine.check(Id(0), now, 0);
        now = Monotonic(world.engine.due().0.max(now.0));
        plan = world.plan(now);
    }
    let mut seen = Vec::new();
    while seen.len() < sent.len() {
        let plan = plan.take().or_else(|| world.plan(world.engine.due())).expect("the others");
        assert!(
            plan.asks.iter().all(|ask| ask.tried == Some(at(0.0))),
            "nothing is asked for twice: {plan:?}"
        );
        seen.extend(plan.asks.iter().map(|ask| (ask.id, ask.count, ask.token)));
        world.carry_out(&plan, now);
    }
    let named = |ask: &Ask| (ask.id, ask.count, ask.token);
    assert!(sent.iter().all(|ask| seen.contains(&named(ask))), "{seen:?} of {sent:?}");
    assert_eq!(world.engine.claim(ticket, now).map(|lease| lease.count), Some(500));
    // Somebody has revoked it meanwhile.
    world.engine.want(Id(1));
    let left = world.lanes[1];
    world.take(1, left - 1, now);
    world.engine.check(Id(1), now, 0);
    let plan = world.plan(world.engine.due()).expect("a refill");
    let first = plan.asks[0].token;
    world.engine.fail_plan(plan, Failure::Unknown, now);
    let plan = world.plan(world.engine.due()).expect("again");
    assert_eq!(plan.asks[0].token, first);
    world.engine.ask_again(plan.asks[0]);
    world.engine.finish_plan();
    world.engine.check(Id(1), world.engine.due(), 0);
    let plan = world.plan(world.engine.due().max(at(100.0))).expect("anew");
    assert!(plan.asks[0].token != first && plan.asks[0].tried.is_none(), "{plan:?}");
}

/// A sequence that was forgotten leaves its place to another one, when nothing is on its way for
/// it.
#[test]
fn a_place_is_used_again() {
    let mut world = World::new(2, None);
    world.begin(at(0.0));
    assert_eq!(world.engine.vacant(), None);
    world.engine.finish(Id(1), 0, world.lanes[1], at(1.0));
    world.engine.vacate(Id(1));
    assert_eq!(world.engine.vacant(), Some(Id(1)));
    world.take(0, 82, at(10.0));
    world.engine.wait(Id(0), true);
    world.engine.check(Id(0), at(10.0), 0);
    let plan = world.plan(at(10.0)).expect("a refill, and the return");
    assert_eq!(world.engine.vacant(), None, "a plan is under way");
    assert!(plan.returns.iter().any(|back| back.next < 83 * 2), "{plan:?}");
    world.carry_out(&plan, at(10.0));
    assert_eq!(world.engine.register(Some(Id(1))), Id(1));
    assert_eq!(world.engine.vacant(), None);
    assert_eq!(world.engine.figures(Id(1), at(10.0), 0).taken, 0);
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
        assert_eq!(world.engine.plan_returns().returns[0].next, next);
    }
}
