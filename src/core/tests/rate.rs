//! The sliding window: any sampling, any clock.

use hilo_core::numbers::{Micros, Timestamp};
use hilo_core::rate::Rate;
use proptest::prelude::*;

const SECOND: i64 = 1_000_000;
const WINDOW: Micros = Micros(60 * SECOND);

/// Samples a count that rises as `count` says, at these times.
fn sample(times: impl IntoIterator<Item = i64>, count: impl Fn(i64) -> i64) -> Rate {
    let mut rate = Rate::default();
    for time in times {
        rate.sample(Timestamp(time), count(time), WINDOW);
    }
    rate
}

#[test]
fn it_fits_beside_its_slot() {
    assert!(size_of::<Rate>() <= 200);
}

#[test]
fn nothing_seen_is_no_rate() {
    let rate = Rate::default();
    assert_eq!(rate.per_second(Timestamp(5 * SECOND), 0, WINDOW), 0.0);
    assert_eq!(rate.demand(Timestamp(0), 0, WINDOW).burst, 0);
}

#[test]
fn one_value_at_once_is_not_a_million_a_second() {
    let rate = sample([0], |_| 0);
    assert_eq!(rate.per_second(Timestamp(3), 1, WINDOW), 1.0);
}

#[test]
fn its_course_is_what_was_seen() {
    let nothing = Rate::default();
    assert_eq!(nothing.history(Timestamp(5 * SECOND), 7).count(), 0);
    let rate = sample((0..=60).map(|s| s * SECOND), |time| time / SECOND * 100);
    let course: Vec<(Timestamp, i64)> = rate.history(Timestamp(61 * SECOND), 6_150).collect();
    let [.., mark, present] = course[..] else { panic!("{course:?}") };
    assert_eq!(mark, (Timestamp(56 * SECOND), 5_600));
    assert_eq!(present, (Timestamp(61 * SECOND), 6_150));
    assert!((9..=10).contains(&course.len()) && course.is_sorted(), "{course:?}");
    assert!(course[..course.len() - 1].iter().all(|(at, taken)| *taken == at.0 / SECOND * 100));
    // A clock that went back adds nothing, and what was seen a moment ago is no interval of its
    // own.
    let back: Vec<(Timestamp, i64)> = rate.history(Timestamp(0), 6_000).collect();
    assert_eq!(back.last(), Some(&(Timestamp(60 * SECOND), 6_000)));
    let soon: Vec<(Timestamp, i64)> = rate.history(Timestamp(56 * SECOND + 1), 5_600).collect();
    assert_eq!(soon.last().map(|(at, _)| at.0), Some(60 * SECOND));
    let young = sample([0, SECOND / 10], |_| 0);
    let young: Vec<(Timestamp, i64)> = young.history(Timestamp(SECOND / 5), 7).collect();
    assert_eq!(young, [(Timestamp(0), 0), (Timestamp(SECOND / 5), 7)]);
}

#[test]
fn it_fades_without_samples() {
    let rate = sample((0..60).map(|s| s * SECOND), |time| time / SECOND * 100);
    let taken = 59 * 100;
    assert_eq!(rate.per_second(Timestamp(59 * SECOND), taken, WINDOW), 100.0);
    let later = rate.per_second(Timestamp(89 * SECOND), taken, WINDOW);
    assert!((later - 50.0).abs() < 1.0, "{later}");
    assert_eq!(rate.per_second(Timestamp(120 * SECOND), taken, WINDOW), 0.0);
}

#[test]
fn a_jump_is_seen_before_the_mean_has_followed() {
    let count = |time: i64| match time / SECOND {
        second @ ..100 => second,
        second => 100 + (second - 100) * 1_000_000,
    };
    let rate = sample((0..102).map(|s| s * SECOND), count);
    let demand = rate.demand(Timestamp(101 * SECOND), count(101 * SECOND), WINDOW);
    assert!(demand.per_second < 20_000.0);
    assert!(demand.burst >= 1_000_000);
    // Once the rate is steady, there is no burst any more.
    let rate = sample((0..200).map(|s| s * SECOND), count);
    assert_eq!(rate.demand(Timestamp(199 * SECOND), count(199 * SECOND), WINDOW).burst, 0);
}

#[test]
fn a_refill_counts_what_was_taken_since_the_one_before() {
    let mut rate = sample([0], |_| 0);
    assert_eq!(rate.refill(Timestamp(10_000), 32, WINDOW).recent, 3_200.0);
    assert_eq!(rate.refill(Timestamp(20_000), 96, WINDOW).recent, 6_400.0);
    assert_eq!(rate.demand(Timestamp(20_000), 96, WINDOW).recent, 0.0);
}

proptest! {
    #[test]
    fn a_steady_rate_is_measured_however_it_is_sampled(
        speed in 1i64..10_000_000, gaps in prop::collection::vec(1i64..40 * SECOND, 1..100),
        wait in 0i64..20 * SECOND,
    ) {
        let mut time = 0;
        let times: Vec<i64> = std::iter::once(0)
            .chain(gaps.into_iter().map(|gap| {
                time += gap;
                time
            }))
            .collect();
        let count = |time: i64| (time as i128 * speed as i128 / SECOND as i128) as i64;
        let rate = sample(times, count);
        let now = time + wait;
        prop_assume!(now >= SECOND);
        let measured = rate.per_second(Timestamp(now), count(now), WINDOW);
        prop_assert!((measured - speed as f64).abs() <= 2.0 + speed as f64 * 0.001, "{}", measured);
    }

    #[test]
    fn a_clock_or_a_counter_that_goes_back_stands_still(
        at in 1i64..120, back in 0i64..1_000_000, reset in any::<bool>(),
    ) {
        let mut rate = Rate::default();
        let (mut clock, mut counter) = (0, 0);
        for second in 0..200i64 {
            if second == at {
                clock -= back * SECOND;
                if reset {
                    counter = -second * 100;
                }
            }
            rate.sample(Timestamp(second * SECOND + clock), second * 100 + counter, WINDOW);
        }
        let at = Timestamp(199 * SECOND + clock);
        let measured = rate.per_second(at, 199 * 100 + counter, WINDOW);
        prop_assert!((measured - 100.0).abs() < 5.0, "{}", measured);
    }

    #[test]
    fn no_input_panics(
        samples in prop::collection::vec((any::<i64>(), any::<i64>(), any::<bool>()), 0..30),
        window in 1i64..,
    ) {
        let mut rate = Rate::default();
        for (now, taken, refill) in samples {
            if refill {
                rate.refill(Timestamp(now), taken, Micros(window));
            } else {
                rate.sample(Timestamp(now), taken, Micros(window));
            }
            let demand = rate.demand(Timestamp(taken), now, Micros(window));
            prop_assert!(demand.per_second >= 0.0 && demand.burst >= 0);
        }
    }
}
