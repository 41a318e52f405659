//! No session waits: at full speed, with ten thousand sequences, and with more sequences than slots.
//!
//! `make bench-refill` runs this for longer and prints what it measures; no test here asserts a speed.

use std::collections::HashSet;
use std::env;
use std::thread;
use std::time::{Duration, Instant};

use fastrand::Rng;
use hilo_tests::{Client, ClientExt, Cluster, LONG, wait_until};

const SESSIONS: usize = 8;
/// Drawn by one statement, in the server.
const BATCH: i64 = 100_000;
/// Long enough for blocks, which double, to reach the size that the rate wants.
const WARM_UP: Duration = Duration::from_secs(3);

/// How long full speed is kept up; `STEADY_SECONDS` says it.
fn steady_time() -> Duration {
    let set = env::var("STEADY_SECONDS").ok().filter(|text| !text.is_empty());
    let seconds = set.map_or(2, |text| text.parse().expect("seconds"));
    Duration::from_secs(seconds)
}

/// The counts of hilo of one sequence.
#[derive(Clone, Copy)]
struct Counts {
    served: i64,
    reserved: i64,
    waits: i64,
    errors: i64,
}

fn counts(client: &mut Client, name: &str) -> Counts {
    let sql = "SELECT served, blocks_reserved, waits, errors FROM hilo_stat_sequences
               WHERE name = $1::text::hilo_sequence";
    let row = client.query_one(sql, &[&name]).unwrap_or_else(|error| panic!("{error:?}"));
    Counts { served: row.get(0), reserved: row.get(1), waits: row.get(2), errors: row.get(3) }
}

/// The observations of one sequence at full speed.
struct Run {
    time: Duration,
    served: i64,
    reservations: i64,
    waits: i64,
    errors: i64,
    /// As hilo counts it.
    longest_wait_ms: f64,
    /// How long the statements took.
    statements: Vec<Duration>,
}

impl Run {
    /// Draws by all sessions at once, and looks at what comes after the warm-up.
    fn of(cluster: &Cluster, name: &str) -> Run {
        let mut client = cluster.connect("postgres");
        client.run(&format!("SELECT hilo_create('{name}')"));
        let began = Instant::now();
        let end = began + WARM_UP + steady_time();
        let sql = format!("SELECT count(hilo_nextval('{name}')) FROM generate_series(1, {BATCH})");
        thread::scope(|scope| {
            let sessions: Vec<_> = (0..SESSIONS)
                .map(|_| {
                    scope.spawn(|| {
                        let mut session = cluster.connect("postgres");
                        let mut statements = Vec::new();
                        while Instant::now() < end {
                            let before = Instant::now();
                            assert_eq!(session.one::<i64>(&sql), BATCH);
                            if before > began + WARM_UP {
                                statements.push(before.elapsed());
                            }
                        }
                        statements
                    })
                })
                .collect();
            thread::sleep(WARM_UP);
            let warm = counts(&mut client, name);
            // From zero, since the longest wait is to be one after the warm-up.
            client.run(&format!("SELECT hilo_stat_reset('{name}')"));
            let from = Instant::now();
            thread::sleep(end.saturating_duration_since(from));
            let after = counts(&mut client, name);
            let time = from.elapsed();
            let longest_wait_ms = client.one(&format!(
                "SELECT wait_time_max FROM hilo_stat_sequences WHERE name = '{name}'"
            ));
            assert_eq!(warm.errors, 0);
            let mut statements: Vec<Duration> =
                sessions.into_iter().flat_map(|session| session.join().unwrap()).collect();
            statements.sort_unstable();
            Run {
                time,
                served: after.served,
                reservations: after.reserved,
                waits: after.waits,
                errors: after.errors,
                longest_wait_ms,
                statements,
            }
        })
    }

    fn per_million(&self) -> f64 {
        self.reservations as f64 * 1e6 / self.served as f64
    }

    fn row(&self, what: &str) -> String {
        let ms = |time: Option<&Duration>| time.map_or(0.0, |time| time.as_secs_f64() * 1e3);
        format!(
            "| {what} | {} | {:.1} | {} | {:.2} | {} | {:.2} | {:.0} | {:.0} |",
            self.served,
            self.served as f64 / self.time.as_secs_f64() / 1e6,
            self.reservations,
            self.per_million(),
            self.waits,
            self.longest_wait_ms,
            ms(self.statements.get(self.statements.len() / 2)),
            ms(self.statements.last()),
        )
    }
}

/// Eight sessions that draw as fast as they can never wait once they are warm, and need few
/// reservations. Without prefetching a session waits for every block.
#[test]
fn nobody_waits_at_full_speed() {
    let cluster = Cluster::with_hilo();
    let on = Run::of(&cluster, "on");
    cluster.configure("hilo.prefetch", "off");
    cluster.reload();
    wait_until("sessions have the setting", LONG, || {
        cluster.connect("postgres").one::<String>("SHOW hilo.prefetch") == "off"
    });
    let off = Run::of(&cluster, "off");
    println!(
        "\n{SESSIONS} sessions, {BATCH} values in a statement, {:.0} s\n\n\
         | prefetch | values | million/s | reservations | per million values | waits | longest wait, ms | median statement, ms | longest statement, ms |\n\
         | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |\n{}\n{}",
        steady_time().as_secs_f64(),
        on.row("on"),
        off.row("off"),
    );
    assert_eq!((on.waits, on.errors), (0, 0));
    assert!(on.served > 0 && on.per_million() <= 10.0, "{}", on.row("on"));
    assert!(off.waits > 0 && off.errors == 0, "{}", off.row("off"));
    cluster.finish();
}

/// Ten thousand sequences are active in one database at the same time, nobody is served anything
/// twice, and the views tell of all of them.
#[test]
fn ten_thousand_sequences_are_active() {
    const SEQUENCES: i64 = 10_000;
    // The worker keeps a few places free for those who come next.
    let cluster = Cluster::builder().config("hilo.max_sequences", "11000").start_with_hilo();
    let mut client = cluster.connect("postgres");
    client.run(&format!(
        "CREATE TABLE seen (tenant bigint, value bigint, PRIMARY KEY (tenant, value));
         SELECT count(hilo_create('tenants/' || n)) FROM generate_series(1, {SEQUENCES}) n"
    ));
    let draw_all = || {
        thread::scope(|scope| {
            for first in 1..=4 {
                let cluster = &cluster;
                scope.spawn(move || {
                    cluster.connect("postgres").run(&format!(
                        "INSERT INTO seen SELECT n, hilo_nextval('tenants/' || n)
                         FROM generate_series({first}, {SEQUENCES}, 4) n"
                    ));
                });
            }
        });
    };
    let began = Instant::now();
    draw_all();
    let first = began.elapsed();
    draw_all();
    println!(
        "{SEQUENCES} sequences drawn from: {first:.1?}, again: {:.1?}",
        began.elapsed() - first
    );
    assert_eq!(client.one::<i64>("SELECT count(*) FROM seen"), 2 * SEQUENCES);
    // Nothing was set aside for anybody on the way: what one session returned, the next took.
    assert_eq!(client.one::<i64>("SELECT max(value) FROM seen"), 2);
    assert_eq!(client.one::<i64>("SELECT count(*) FROM hilo_sequences"), SEQUENCES);
    assert_eq!(
        client.one::<i64>("SELECT count(*) FROM hilo_stat_sequences WHERE served = 2"),
        SEQUENCES
    );
    assert_eq!(client.one::<i64>("SELECT count(DISTINCT name) FROM hilo_blocks"), SEQUENCES);
    client.one::<i64>("SELECT count(*) FROM hilo_stat_backends");
    assert_eq!(client.one::<i64>("SELECT count(*) FROM hilo_gaps"), 0);
    cluster.finish();
}

/// A great many sequences are created by one statement; the last one serves like the first.
#[test]
fn sequences_are_created_in_bulk() {
    let count = if env::var("HILO_FULL").is_ok() { 1_000_000 } else { 100_000 };
    let cluster = Cluster::with_hilo();
    let mut client = cluster.connect("postgres");
    let began = Instant::now();
    client.run(&format!(
        "SELECT count(hilo_create('bulk/' || n)) FROM generate_series(1, {count}) n"
    ));
    let time = began.elapsed();
    println!("{count} sequences created in {time:.1?}: {:.0?} each", time / count);
    for number in [1, count / 2, count] {
        for value in 1..=3 {
            let sql = format!("SELECT hilo_nextval('bulk/{number}')");
            assert_eq!(client.one::<i64>(&sql), value);
        }
    }
    assert_eq!(client.one::<i64>("SELECT count(*) FROM hilo_sequences"), i64::from(count));
    cluster.finish();
}

/// With far more sequences in use than places in shared memory, sequences make room for each other
/// all the time. No value is served twice, and when all have left, every index below the positions
/// was served or is free.
#[test]
fn a_full_directory_neither_repeats_nor_loses() {
    const SEQUENCES: usize = 500;
    const DRAWS: usize = 1_500;
    let cluster = Cluster::builder()
        .config("hilo.max_sequences", "64")
        .config("hilo.worker_idle_timeout", "100ms")
        .config("hilo.reserve_timeout", "60s")
        .start_with_hilo();
    let mut client = cluster.connect("postgres");
    client
        .run(&format!("SELECT hilo_create('crowd/' || n) FROM generate_series(1, {SEQUENCES}) n"));
    // A session that has used hilo keeps the worker; the one that looks on must not.
    drop(client);
    let served: Vec<(usize, i64)> = thread::scope(|scope| {
        let draw = |seed| {
            let cluster = &cluster;
            scope.spawn(move || {
                let mut rng = Rng::with_seed(seed);
                let mut session = cluster.connect("postgres");
                let draw = session.prepare("SELECT hilo_nextval('crowd/' || $1::integer)").unwrap();
                let mut seen = Vec::with_capacity(DRAWS);
                for _ in 0..DRAWS {
                    let number = rng.usize(1..=SEQUENCES);
                    let row = session.query_one(&draw, &[&(number as i32)]);
                    seen.push((number, row.unwrap_or_else(|error| panic!("{error:?}")).get(0)));
                }
                seen
            })
        };
        let running: Vec<_> = (1..=4).map(draw).collect();
        running.into_iter().flat_map(|session| session.join().unwrap()).collect()
    });
    let different: HashSet<_> = served.iter().collect();
    assert_eq!(different.len(), served.len(), "a value was served twice");

    let mut onlooker = cluster.connect("postgres");
    wait_until("all sessions and the worker have left", LONG, || {
        let others = "SELECT count(*) FROM pg_stat_activity
                      WHERE datname = current_database() AND pid <> pg_backend_pid()
                        AND backend_type <> 'autovacuum worker'";
        onlooker.one::<i64>(others) == 0
    });
    let reserved: i64 = onlooker.one("SELECT sum(next_index)::bigint FROM _hilo.hilo_position");
    let free: i64 = onlooker
        .one("SELECT coalesce(sum(end_index - first_index), 0)::bigint FROM _hilo.hilo_free_range WHERE incarnation = 0");
    assert_eq!(onlooker.one::<i64>("SELECT count(*) FROM _hilo.hilo_gap"), 0);
    assert_eq!(reserved - free, served.len() as i64, "{reserved} reserved, {free} free");
    cluster.finish();
}

/// As many sequences as `hilo.max_sequences` says stay in memory, so that none is put back while all
/// are drawn from in turn.
#[test]
fn a_directory_holds_as_many_as_it_says() {
    let cluster = Cluster::builder().config("hilo.max_sequences", "640").start_with_hilo();
    let mut client = cluster.connect("postgres");
    client.run("SELECT hilo_create('held/' || n) FROM generate_series(1, 640) n");
    for _ in 0..3 {
        client.run("SELECT hilo_nextval('held/' || n) FROM generate_series(1, 640) n");
    }
    let held = "SELECT count(*) FROM hilo_stat_sequences WHERE served = 3";
    assert_eq!(client.one::<i64>(held), 640);
    cluster.finish();
}
