//! Sequences that are changed at random serve no value twice, and hilo goes on where they were.

use fastrand::Rng;
use hilo_tests::extension::create_lite;
use hilo_tests::{Client, ClientExt, Cluster, assert_unique};

use super::conversion::convert;
use super::drop_additions;

/// A sequence that is changed while leases of it are out, and each value that it has served.
struct Changed {
    name: String,
    up: bool,
    /// No value so far is farther from 0, nor one that a holder may use.
    farthest: i64,
    seen: Vec<i64>,
    /// Leases that are open: name, first value, increment, count.
    leases: Vec<(String, i64, i64, i64)>,
}

impl Changed {
    fn new(client: &mut Client, number: usize, random: &mut Rng) -> Changed {
        let (name, up) = (format!("s{number}"), random.bool());
        let increment = if up { random.i64(1..9) } else { -random.i64(1..9) };
        client.run(&format!("SELECT hilo_create('{name}', increment => {increment})"));
        Changed { name, up, farthest: 0, seen: Vec::new(), leases: Vec::new() }
    }

    fn saw(&mut self, values: impl Iterator<Item = i64>) {
        for value in values {
            self.farthest = self.farthest.max(value.abs());
            self.seen.push(value);
        }
    }

    /// Draws, leases, returns or revokes.
    fn use_it(&mut self, client: &mut Client, random: &mut Rng) {
        let (name, n) = (self.name.clone(), random.i64(1..30));
        match random.u32(0..9) {
            0 | 1 => {
                let sql =
                    format!("SELECT first, increment, count FROM hilo_nextrange('{name}', {n})");
                let row = client.query_one(&sql, &[]).expect("a range");
                let (first, step, count): (i64, i64, i64) = (row.get(0), row.get(1), row.get(2));
                self.saw((0..count).map(|i| first + i * step));
            }
            2..=5 => {
                let sql = "SELECT lease::text, first, increment, count FROM hilo_lease";
                let row = client.query_one(&format!("{sql}('{name}', {n})"), &[]).expect("a lease");
                let (first, step, count): (i64, i64, i64) = (row.get(1), row.get(2), row.get(3));
                self.farthest = self.farthest.max((first + step * count).abs());
                self.leases.push((row.get(0), first, step, count));
            }
            way if !self.leases.is_empty() => {
                let (lease, first, step, count) =
                    self.leases.swap_remove(random.usize(..self.leases.len()));
                let used = random.i64(0..=count);
                self.saw((0..used).map(|i| first + i * step));
                client.run(&match way {
                    6 | 7 => {
                        format!("SELECT hilo_lease_return('{lease}', {})", first + used * step)
                    }
                    _ => format!("SELECT hilo_lease_revoke('{lease}')"),
                });
            }
            _ => {}
        }
    }

    /// Another increment, a restart behind all values, or bounds that begin there.
    fn change(&mut self, client: &mut Client, random: &mut Rng) {
        let way = if self.up { 1 } else { -1 };
        let (step, to) = (way * random.i64(1..30), way * (self.farthest + random.i64(1..30)));
        let bound = if self.up { "min_value" } else { "max_value" };
        self.farthest = to.abs();
        let name = &self.name;
        client.run(&match random.u32(0..4) {
            0 | 1 => format!("SELECT hilo_alter('{name}', increment => {step})"),
            2 => format!("SELECT hilo_setval('{name}', {to}, {})", random.bool()),
            _ => format!("SELECT hilo_alter('{name}', {bound} => {to}, start_value => {to})"),
        });
    }
}

/// Draws, leases, returns, revocations, restarts, other increments and narrower bounds in any order; then hilo goes on,
/// through a restart.
#[test]
fn no_sequence_of_changes_repeats_a_value() {
    let seed = std::env::var("HILO_SEED").ok().and_then(|seed| seed.parse().ok());
    let seed: u64 = seed.unwrap_or_else(|| fastrand::u64(..));
    println!("HILO_SEED={seed}");
    let mut random = Rng::with_seed(seed);
    let cluster = Cluster::builder().preload(true).start();
    let mut client = cluster.connect("postgres");
    create_lite(&mut client, "public");
    let mut all: Vec<Changed> =
        (0..30).map(|number| Changed::new(&mut client, number, &mut random)).collect();
    for changed in &mut all {
        for _ in 0..random.usize(1..60) {
            match random.u32(0..5) {
                0 => changed.change(&mut client, &mut random),
                _ => changed.use_it(&mut client, &mut random),
            }
        }
        assert_unique(&changed.name, &changed.seen);
    }
    drop_additions(&mut client);
    let open = "SELECT count(*) FROM hilo_leases";
    let leases = client.one::<i64>(open);
    convert(&cluster, "postgres");
    let mut client = cluster.connect("postgres");
    client.run("SET statement_timeout = '20s'");
    assert_eq!(client.one::<i64>(open), leases);
    let wrong = "SELECT object || ': ' || what FROM hilo_check()
                  WHERE severity = 'error' AND object NOT LIKE 'setting %'";
    assert_eq!(client.all::<String>(wrong), Vec::<String>::new());
    for changed in &mut all {
        for _ in 0..20 {
            changed.use_it(&mut client, &mut random);
        }
        assert_unique(&changed.name, &changed.seen);
    }
    drop(client);
    cluster.restart();
    let mut client = cluster.connect("postgres");
    for changed in &mut all {
        let values = client.draw(&changed.name, 5);
        changed.saw(values.into_iter());
        assert_unique(&changed.name, &changed.seen);
    }
    cluster.finish();
}
