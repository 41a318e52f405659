//! Rules that hold for any rate, any settings and any pool. simulation.rs tests how they work
//! together over time.

use hilo_core::backoff;
use hilo_core::policy::{
    FAILOVER_LAG, Remaining, Settings, SourcePace, ahead, failover_skip, lease_ahead, lease_size,
    next_block, patience, request_size, reservation_size, shrunk_block, threshold,
};
use hilo_core::rate::Demand;
use hilo_core::slice::next_slice;
use proptest::prelude::*;
use std::time::Duration;

fn count() -> impl Strategy<Value = i64> {
    (0u32..63, any::<u64>()).prop_map(|(bits, any)| (any >> 1 >> bits) as i64)
}

fn any_demand() -> impl Strategy<Value = Demand> {
    (0.0..1e9f64, 0.0..1e9f64, count()).prop_map(|(per_second, recent, burst)| Demand {
        per_second,
        recent,
        burst,
    })
}

fn any_settings() -> impl Strategy<Value = Settings> {
    let sizes = (count(), 1i64..100_000, 0i64..10_000_000, prop::option::of(1i64..1_000_000));
    (0.0..1000f64, sizes, any::<bool>()).prop_map(
        |(buffer, (min_threshold, min_block, above, fixed), prefetch)| Settings {
            buffer,
            min_threshold,
            min_block,
            max_block: min_block + above,
            fixed,
            prefetch,
        },
    )
}

fn any_room() -> impl Strategy<Value = Remaining> {
    (count(), count()).prop_map(|(a, b)| Remaining { whole: a.max(b), left: a.min(b) })
}

proptest! {
    #[test]
    fn a_block_keeps_to_its_limits(
        previous in count(), demand in any_demand(), room in any_room(), settings in any_settings(),
    ) {
        let next = next_block(previous, &demand, room, &settings);
        prop_assert!(next >= 1);
        let shrunk = shrunk_block(next, &demand, room, &settings);
        if let Some(fixed) = settings.fixed {
            prop_assert_eq!((next, shrunk), (fixed, fixed));
            return Ok(());
        }
        prop_assert!(next <= settings.max_block && next <= (room.whole / 64).max(1));
        prop_assert!(next <= previous.saturating_mul(2).max(settings.min_block));
        prop_assert!(shrunk <= next && shrunk >= next / 2 && shrunk >= 1);
    }

    #[test]
    fn one_small_block_is_read_ahead(
        demand in any_demand(), room in any_room(), settings in any_settings(),
    ) {
        match ahead(next_block(0, &demand, room, &settings), &settings) {
            Some(ahead) => {
                prop_assert!((1..=settings.min_block).contains(&ahead.count));
                prop_assert!((1..=ahead.count).contains(&ahead.threshold));
            }
            None => prop_assert!(settings.fixed > Some(settings.min_block)),
        }
    }

    #[test]
    fn an_order_serves_all_who_wait_and_no_more_than_there_is(
        available in count(), need in count(), previous in count(), demand in any_demand(),
        room in any_room(), settings in any_settings(),
    ) {
        let block = next_block(previous, &demand, room, &settings);
        let threshold = threshold(block, &demand, room, &settings);
        let order = reservation_size(available, need, block, &demand, room, &settings);
        prop_assert!((0..=room.left).contains(&order));
        let wanted = need > available || available < threshold;
        prop_assert_eq!(order > 0, wanted && room.left > 0, "threshold {}", threshold);
        if room.left > order && wanted {
            prop_assert!(available + order >= need);
            prop_assert!(settings.fixed.is_none_or(|fixed| order % fixed == 0));
        }
    }

    #[test]
    fn a_pool_holds_no_more_than_the_buffer(
        available in count(), previous in count(), per_second in 0.0..1e9f64, room in any_room(),
        settings in any_settings(),
    ) {
        let settings = Settings { prefetch: true, ..settings };
        let demand = Demand { per_second, ..Demand::default() };
        let block = next_block(previous, &demand, room, &settings);
        let order = reservation_size(available, 0, block, &demand, room, &settings);
        let buffer = (per_second * settings.buffer) as i64;
        let least = settings.min_threshold.max(block / 5) + settings.min_block;
        let rounding = settings.fixed.unwrap_or(settings.min_block);
        prop_assert!(order == 0 || available + order <= buffer.max(least) + rounding);
        // A small data type is not used up by reserving ahead.
        let small = (room.whole / 32).max(settings.min_block + room.whole / 64 + 1) + rounding;
        prop_assert!(order == 0 || available + order <= small);
    }

    #[test]
    fn nothing_is_prefetched_where_it_is_switched_off(
        available in count(), demand in any_demand(),
        room in any_room(), settings in any_settings(),
    ) {
        let settings = Settings { prefetch: false, ..settings };
        prop_assert_eq!(threshold(1000, &demand, room, &settings), 0);
        prop_assert_eq!(reservation_size(available, available, 1000, &demand, room, &settings), 0);
    }

    #[test]
    fn slices_double_from_one(max in 1i32..70_000) {
        let mut slices = vec![next_slice(0, max)];
        for _ in 0..20 {
            slices.push(next_slice(*slices.last().unwrap(), max));
        }
        prop_assert_eq!(slices[0], 1);
        prop_assert!(slices.windows(2).all(|pair| pair[1] == (pair[0] * 2).min(max)));
        prop_assert_eq!(slices[20], max);
    }

    #[test]
    fn a_delay_is_anything_up_to_the_doubled_base(attempt in any::<u32>(), random in any::<u32>()) {
        let most = |base: u64, cap: u64| Duration::from_millis((base << attempt.min(20)).min(cap));
        prop_assert!(backoff::delay(attempt, random) <= most(10, 1000));
        prop_assert!(backoff::delay_of_many(attempt, random) <= most(50, 5000));
        let of = |random| {
            (backoff::delay(attempt, random), backoff::delay_of_many(attempt, random))
        };
        prop_assert_eq!(of(u32::MAX), (most(10, 1000), most(50, 5000)));
        prop_assert_eq!(of(0), (Duration::ZERO, Duration::ZERO));
    }
}

/// Neither the values kept ready for the next lease, nor those that a lease is advised to take, use
/// up a sequence.
#[test]
fn leases_keep_within_a_part_of_the_sequence() {
    let settings = Settings::default();
    for (count, whole, ahead) in [
        (100, i64::MAX, 100),
        (10_000_000, i64::MAX, settings.max_block),
        (100, 3_200, 100),
        (101, 3_200, 100),
        (5, 31, 0),
    ] {
        assert_eq!(lease_ahead(count, whole, &settings), ahead, "{count} of {whole}");
    }
    assert_eq!(lease_ahead(100, i64::MAX, &Settings { prefetch: false, ..settings }), 0);
    let idle = Demand { per_second: 0.0, recent: 0.0, burst: 0 };
    let busy = Demand { per_second: 500.0, ..idle };
    let room = |whole| Remaining { whole, left: whole };
    assert_eq!(lease_size(&idle, room(i64::MAX), &settings), settings.min_block);
    assert_eq!(lease_size(&busy, room(i64::MAX), &settings), 5_000);
    assert_eq!(lease_size(&busy, room(6_400), &settings), 100);
    assert_eq!(lease_size(&busy, room(10), &settings), 1);
}

#[test]
fn all_attempts_together_take_seconds() {
    let total: Duration = (0..backoff::ATTEMPTS).map(|n| backoff::delay(n, u32::MAX)).sum();
    assert!(total < Duration::from_secs(3));
}

/// Without a known rate, a promotion skips the largest block that a sequence can get.
#[test]
fn no_block_is_larger_than_the_largest() {
    let settings = Settings {
        buffer: 10.0,
        min_threshold: 50,
        min_block: 32,
        max_block: 1 << 20,
        fixed: None,
        prefetch: true,
    };
    let busy = Demand { per_second: 1e9, recent: 1e9, burst: i64::MAX / 4 };
    for whole in [1, 100, 32_767, i32::MAX as i64, i64::MAX] {
        let room = Remaining { whole, left: whole };
        let block = (0..64).fold(0, |block, _| next_block(block, &busy, room, &settings));
        assert_eq!(block, failover_skip(whole, 0.0, &settings), "of {whole}");
    }
    assert_eq!(failover_skip(32_767, 0.0, &Settings { fixed: Some(5_000), ..settings }), 5_000);
    // A fixed block says nothing about how far ahead a server reserves.
    let fixed = Settings { fixed: Some(100), ..settings };
    assert_eq!(failover_skip(i64::MAX, 0.0, &fixed), settings.max_block);
    let million_a_second = failover_skip(i64::MAX, 1e6, &settings);
    assert!(million_a_second as f64 >= 1e6 * (FAILOVER_LAG + settings.buffer));
}

/// A query that others wait for gets more time with each failure, up to a limit, and as much as one
/// that has answered needs.
#[test]
fn a_query_gets_more_time_with_each_failure() {
    let grown: Vec<i64> = [0, 1, 2, 3, 40, u32::MAX].map(|failures| patience(failures, 0)).into();
    assert!(grown.is_sorted() && grown[0] == 1_000_000 && grown[5] == 2_000_000);
    assert_eq!(patience(0, 5_000), patience(0, 0));
    assert_eq!(patience(9, 7_000_000), 14_000_000);
    assert_eq!(patience(9, i64::MAX), i64::MAX);
}

/// A slow sequence asks for minutes' worth, a fast one for that of seconds: some sources count
/// their values one by one. A small sequence asks for a part of the numbers that there are.
#[test]
fn a_request_to_a_source_is_large_only_for_slow_sequences() {
    let wanted = |per_second: f64, whole: i64| {
        let demand = Demand { per_second, recent: 0.0, burst: 0 };
        let block = (per_second * 10.0) as i64;
        let pace = SourcePace { ahead: None, latency: 0.1 };
        let held = (per_second * 14.0) as i64;
        request_size(held, 0, block, &demand, &pace, whole, &Settings::default())
    };
    assert!(wanted(25.0, i64::MAX) >= 25 * 300);
    assert!((50_000..=50_000 * 10).contains(&wanted(50_000.0, i64::MAX)));
    assert!(wanted(25.0, 32_767) <= 32_767 / 32);
}
