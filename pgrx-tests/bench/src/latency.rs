//! How long single calls take, up to the longest.

use std::collections::BTreeMap;
use std::sync::Barrier;
use std::thread;
use std::time::Instant;

use postgres::Client;

use super::Bench;
use super::contenders::*;
use super::throughput::warm_up;
use hilo_tests::ClientExt;
use hilo_tests::{LONG, wait_until};

/// How many sessions draw at once.
pub const SESSIONS: [usize; 2] = [1, 8];

/// The percentiles of the calls, as fractions; the last is the longest call.
pub const PERCENTILES: [(&str, f64); 5] =
    [("p50", 0.5), ("p99", 0.99), ("p99.9", 0.999), ("p99.99", 0.9999), ("max", 1.0)];

/// The call that is timed: an id of the results, a label, and the statement. hilo without
/// prefetching has its own sequences, so that hilo's counters are separate.
pub const TIMED: [(&str, &str, &str); 8] = [
    ("floor", "floor (a clock)", "clock_timestamp()"),
    ("core1", "core, CACHE 1", "nextval('core1')"),
    ("core100", "core, CACHE 100", "nextval('core100')"),
    ("core1000", "core, CACHE 1000", "nextval('core1000')"),
    ("hilo", "hilo", "hilo_nextval('hilo')"),
    ("ordered", "hilo, ordered", "hilo_nextval('ordered')"),
    ("hilo_off", "hilo, prefetch off", "hilo_nextval('hilo_off')"),
    ("ordered_off", "hilo, ordered, prefetch off", "hilo_nextval('ordered_off')"),
];

/// How many calls took how many microseconds.
type Histogram = BTreeMap<i64, i64>;

/// The clock is read before and after each call in the server. The executor computes the columns of
/// a row one after the other, in order.
fn timing_loop(call: &str) -> String {
    format!(
        "WITH calls AS MATERIALIZED (
             SELECT clock_timestamp() AS began, {call} AS value, clock_timestamp() AS ended
               FROM generate_series(1, 20000))
         SELECT date_part('microseconds', ended - began)::bigint
                    + 60000000 * date_part('minutes', ended - began)::bigint,
                count(*)
           FROM calls WHERE value IS NOT NULL GROUP BY 1"
    )
}

/// The times of `call` in all `clients` for the plan's time, three times.
fn observe(bench: &Bench, clients: &mut [Client], call: &str) -> Histogram {
    let sql = timing_loop(call);
    let time = 3 * bench.plan.time;
    let start = Barrier::new(clients.len());
    let see = |client: &mut Client| {
        let statement = client.prepare(&sql).unwrap_or_else(|error| panic!("{sql}: {error:?}"));
        let mut seen = Histogram::new();
        start.wait();
        let began = Instant::now();
        while began.elapsed() < time {
            for row in client.query(&statement, &[]).unwrap_or_else(|error| panic!("{error:?}")) {
                *seen.entry(row.get(0)).or_default() += row.get::<_, i64>(1);
            }
        }
        seen
    };
    thread::scope(|scope| {
        let sessions: Vec<_> =
            clients.iter_mut().map(|client| scope.spawn(|| see(client))).collect();
        let mut all = Histogram::new();
        for session in sessions {
            for (time, count) in session.join().expect("it drew") {
                *all.entry(time).or_default() += count;
            }
        }
        all
    })
}

/// The time that `fraction` of the calls do not exceed.
fn percentile(histogram: &Histogram, fraction: f64) -> i64 {
    let total: i64 = histogram.values().sum();
    let mut below = 0;
    for (time, count) in histogram {
        below += count;
        if below as f64 >= total as f64 * fraction {
            return *time;
        }
    }
    0
}

fn set_prefetch(bench: &Bench, value: &str) {
    bench.cluster.configure("hilo.prefetch", value);
    bench.cluster.reload();
    wait_until("sessions have the setting", LONG, || {
        bench.connect().one::<String>("SHOW hilo.prefetch") == value
    });
}

/// `latency/SESSIONS/ID/PERCENTILE`: microseconds; `…/ID/waits`, `blocks_reserved`, `calls`: counts.
pub fn measure(bench: &mut Bench) {
    bench
        .connect()
        .run("SELECT hilo_create('hilo_off'), hilo_create('ordered_off', ordered => true)");
    for sessions in SESSIONS {
        let mut clients: Vec<Client> = (0..sessions).map(|_| bench.connect()).collect();
        for round in 0..bench.plan.few_rounds.min(3) {
            for (id, _, call) in rotate(&TIMED, round) {
                if id.ends_with("_off") {
                    set_prefetch(bench, "off");
                }
                let hilo = call.starts_with("hilo");
                if hilo {
                    warm_up(bench, &mut clients, id);
                }
                let counted = ["waits", "blocks_reserved"];
                let before = counted.map(|what| bench.count(what, &[id]));
                let seen = observe(bench, &mut clients, call);
                let key = format!("latency/{sessions}/{id}");
                for (what, before) in counted.iter().zip(before) {
                    if hilo {
                        let count = bench.count(what, &[id]) - before;
                        bench.results.push(format!("{key}/{what}"), count);
                    }
                }
                bench.results.push(format!("{key}/calls"), seen.values().sum::<i64>() as f64);
                for (name, fraction) in PERCENTILES {
                    let time = percentile(&seen, fraction) as f64;
                    bench.results.push(format!("{key}/{name}"), time);
                }
                if id.ends_with("_off") {
                    set_prefetch(bench, "on");
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_count_calls() {
        let histogram = Histogram::from([(0, 980), (1, 19), (700, 1)]);
        let at = |fraction| percentile(&histogram, fraction);
        assert_eq!((at(0.5), at(0.99), at(0.999), at(1.0)), (0, 1, 1, 700));
    }
}
