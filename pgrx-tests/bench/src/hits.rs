//! Numbers from a client's memory, beside those that take a round trip.

use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

use hilo_client::{Client, Sequence};
use nix::time::{ClockId, clock_gettime};
use tokio::runtime::Runtime;
use tokio_postgres::Config;

use super::Bench;
use super::contenders::rotate;
use hilo_tests::ClientExt;
use hilo_tests::Cluster;

/// Tasks, each with a thread, that draw at once.
pub const TASKS: [usize; 4] = [1, 2, 4, 8];

/// The percentiles of a call.
pub const PERCENTILES: [(&str, f64); 3] = [("p50", 0.5), ("p99", 0.99), ("p99.9", 0.999)];

/// Ways to get numbers: an id, a label, how many come with one call, and the statement, if there is one.
pub const WAYS: [(&str, &str, u64, &str); 5] = [
    ("clock", "reading a clock alone", 1, ""),
    ("client", "hilo-client, from memory", 1, ""),
    ("nextval", "`SELECT nextval('s')`, CACHE 1", 1, "SELECT nextval('core1')"),
    ("hilo", "`SELECT hilo_nextval('s')`", 1, "SELECT hilo_nextval('hilo')"),
    ("batch", "`SELECT hilo_nextvals('s', 100)`", 100, "SELECT hilo_nextvals('hilo', 100)"),
];

/// How long calls took: how many within each nanosecond, and above that the times.
struct Times {
    short: Vec<u32>,
    long: Vec<u64>,
}

impl Times {
    fn new() -> Times {
        Times { short: vec![0; 1 << 14], long: Vec::new() }
    }

    fn add(&mut self, nanos: u64) {
        match self.short.get_mut(nanos as usize) {
            Some(count) => *count += 1,
            None => self.long.push(nanos),
        }
    }

    fn join(all: Vec<Times>) -> Times {
        let mut whole = Times::new();
        for times in all {
            for (sum, count) in whole.short.iter_mut().zip(times.short) {
                *sum += count;
            }
            whole.long.extend(times.long);
        }
        whole.long.sort_unstable();
        whole
    }

    /// The time that this part of the calls does not exceed.
    fn percentile(&self, part: f64) -> u64 {
        let short: u64 = self.short.iter().map(|count| u64::from(*count)).sum();
        let rank = ((short + self.long.len() as u64) as f64 * part).ceil().max(1.0) as u64;
        let mut seen = 0;
        for (nanos, count) in self.short.iter().enumerate() {
            seen += u64::from(*count);
            if seen >= rank {
                return nanos as u64;
            }
        }
        self.long.get((rank - seen - 1) as usize).copied().unwrap_or(0)
    }
}

pub fn config(cluster: &Cluster) -> Config {
    let mut config = Config::new();
    config.host_path(cluster.socket_directory()).user("postgres").dbname("postgres");
    config
}

pub fn runtime(threads: usize) -> Runtime {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(threads)
        .enable_all()
        .build()
        .expect("a runtime")
}

/// The figures of some tasks.
struct Observed {
    /// Calls per second.
    rate: f64,
    /// Nanoseconds of a processor for a call.
    processor: f64,
    times: Times,
}

/// Makes calls in `tasks` threads for `time`, without and then with a look at the clock after each.
fn observe<C: FnMut()>(tasks: usize, time: Duration, make: impl Fn() -> C + Sync) -> Observed {
    let start = Barrier::new(tasks);
    let work = || {
        let mut call = make();
        start.wait();
        let (began, used) = (Instant::now(), processor_time());
        let mut count = 0_u64;
        while began.elapsed() < time {
            for _ in 0..100 {
                call();
            }
            count += 100;
        }
        let processor = (processor_time() - used).as_nanos() as f64 / count as f64;
        let rate = count as f64 / began.elapsed().as_secs_f64();
        start.wait();
        let mut times = Times::new();
        let began = Instant::now();
        let mut before = began;
        while before - began < time {
            call();
            let after = Instant::now();
            times.add((after - before).as_nanos() as u64);
            before = after;
        }
        Observed { rate, processor, times }
    };
    let all: Vec<Observed> = thread::scope(|scope| {
        let tasks: Vec<_> = (0..tasks).map(|_| scope.spawn(work)).collect();
        tasks.into_iter().map(|task| task.join().expect("it drew")).collect()
    });
    Observed {
        rate: all.iter().map(|task| task.rate).sum(),
        processor: all.iter().map(|task| task.processor).sum::<f64>() / tasks as f64,
        times: Times::join(all.into_iter().map(|task| task.times).collect()),
    }
}

/// The time that this thread has had a processor, so that other work on the machine does not count.
fn processor_time() -> Duration {
    clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).expect("Linux has this clock").into()
}

/// The same for whole statements, whose calls are few.
fn observe_statements(bench: &Bench, tasks: usize, sql: &str) -> Observed {
    observe(tasks, bench.plan.time / 2, || {
        let mut session = bench.connect();
        let statement = session.prepare(sql).expect("a statement");
        move || {
            std::hint::black_box(session.query(&statement, &[]).expect("numbers"));
        }
    })
}

/// Draws by `next`, which is polled once if there is a value, as in a task.
fn hit(sequence: &Sequence, runtime: &Runtime) -> i64 {
    let mut next = std::pin::pin!(sequence.next());
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    match next.as_mut().poll(&mut context) {
        std::task::Poll::Ready(value) => value.expect("a number"),
        std::task::Poll::Pending => runtime.block_on(next).expect("a number"),
    }
}

/// `hits/WAY/TASKS`: numbers per second. `hits/WAY/TASKS/PERCENTILE`: nanoseconds of a call.
/// `hits/ns`: of a processor for a hit in a loop. `hits/share`: the part of the calls that found a
/// number in memory, in per cent.
pub fn measure(bench: &mut Bench) {
    let runtime = runtime(2);
    let client =
        runtime.block_on(Client::builder(config(&bench.cluster)).connect()).expect("a client");
    bench.connect().run("SELECT hilo_create('leased')");
    let leased = client.sequence("leased");
    // The leases grow to the size that the rate requires.
    let inside = runtime.enter();
    let warm = Instant::now();
    while warm.elapsed() < bench.plan.warm_up {
        hit(&leased, &runtime);
    }
    drop(inside);
    for round in bench.rounds(bench.plan.few_rounds) {
        for tasks in TASKS {
            for (way, _, numbers, sql) in rotate(&WAYS, round) {
                let before = client.stats();
                let seen = match way {
                    "clock" => observe(tasks, bench.plan.time, || {
                        || {
                            std::hint::black_box(());
                        }
                    }),
                    "client" => observe(tasks, bench.plan.time, || {
                        let inside = runtime.enter();
                        let (leased, runtime) = (&leased, &runtime);
                        move || {
                            let _inside = &inside;
                            std::hint::black_box(hit(leased, runtime));
                        }
                    }),
                    _ => observe_statements(bench, tasks, sql),
                };
                let key = format!("hits/{way}/{tasks}");
                bench.results.push(&key, seen.rate * numbers as f64);
                for (name, part) in PERCENTILES {
                    bench.results.push(format!("{key}/{name}"), seen.times.percentile(part) as f64);
                }
                if way == "client" {
                    let after = client.stats();
                    let (hits, waits) = (after.hits - before.hits, after.waits - before.waits);
                    let share = 100.0 * (hits - waits) as f64 / hits as f64;
                    bench.results.push("hits/share", share);
                    if tasks == 1 {
                        bench.results.push("hits/ns", seen.processor);
                    }
                }
            }
        }
    }
    runtime.block_on(client.shutdown()).expect("the rest comes back");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_count_calls() {
        let mut times = Times::new();
        (0..980).for_each(|_| times.add(5));
        (0..19).for_each(|_| times.add(20_000));
        times.add(1_000_000);
        let times = Times::join(vec![times, Times::new()]);
        let at = |part| times.percentile(part);
        assert_eq!((at(0.5), at(0.99), at(0.999), at(1.0)), (5, 20_000, 20_000, 1_000_000));
    }
}
