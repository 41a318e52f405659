//! Compares hilo with core's sequences and other ways to get numbers. Writes docs/benchmarks.md.
//!
//! Measuring puts samples into [`results::Results`]; reporting reads nothing else, so that a document
//! can be written again from the samples of an earlier run.

mod branches;
mod bystanders;
mod calls;
mod chart;
mod client_sections;
mod contenders;
mod copies;
mod document;
mod first;
mod fleet;
mod footprint;
mod gapless;
mod hits;
mod inserts;
mod latency;
mod machine;
mod many;
mod parallel;
mod pictures;
mod results;
mod sections;
mod table;
mod targets;
mod throughput;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use postgres::Client;

use hilo_tests::ClientExt;
use hilo_tests::Cluster;
use results::Results;

/// How much to measure.
pub struct Plan {
    /// Rounds; each goes through all contenders.
    pub rounds: usize,
    /// Rounds of measurements that take seconds.
    pub few_rounds: usize,
    /// Calls in a long SELECT, and rows in a long INSERT.
    pub calls: u64,
    /// How long sessions draw at a time.
    pub time: Duration,
    /// How long they draw beforehand where blocks must reach the size that the rate requires.
    pub warm_up: Duration,
    pub sequences: u64,
    pub connections: usize,
    pub restarts: usize,
    /// How long pgbench works at a time.
    pub pgbench: [&'static str; 2],
    /// The same where sessions first get to know a thousand sequences.
    pub pgbench_of_many: [&'static str; 2],
    /// The work of eight processes with a client each.
    pub fleet: fleet::Load,
    /// The work of a centre and its branches.
    pub branches: branches::Fleet,
}

impl Plan {
    /// A full run: about thirty-five minutes.
    pub fn full() -> Plan {
        Plan {
            rounds: 11,
            few_rounds: 5,
            calls: 1_000_000,
            time: Duration::from_millis(500),
            warm_up: Duration::from_secs(3),
            sequences: 10_000,
            connections: 1_000,
            restarts: 7,
            pgbench: ["-T", "1"],
            pgbench_of_many: ["-T", "8"],
            fleet: fleet::Load::full(),
            branches: branches::Fleet::full(),
        }
    }

    /// A run that only shows that everything works: about a minute.
    pub fn quick() -> Plan {
        Plan {
            rounds: 2,
            few_rounds: 1,
            calls: 50_000,
            time: Duration::from_millis(60),
            warm_up: Duration::from_millis(300),
            sequences: 1_200,
            connections: 50,
            restarts: 1,
            pgbench: ["-t", "20"],
            pgbench_of_many: ["-t", "20"],
            fleet: fleet::Load::quick(),
            branches: branches::Fleet::quick(),
        }
    }

    /// Some sizes up to `sequences`.
    pub fn crowds(&self) -> [u64; 4] {
        [1, 64, 1_000, self.sequences]
    }
}

/// A run: the server, how much to measure, and the results so far.
pub struct Bench {
    cluster: Cluster,
    plan: Plan,
    results: Results,
    /// The end of the current measurement's time.
    deadline: Instant,
}

/// A measurement: its name, its time in seconds, and its function.
type Measurement = (&'static str, u64, fn(&mut Bench));

/// Measurements with restarts disconnect all sessions, so they are last.
const MEASUREMENTS: [Measurement; 23] = [
    ("the cost of a call", 80, calls::single),
    ("the cost of many numbers at once", 40, calls::bulk),
    ("sessions that draw at once", 180, throughput::long_selects),
    ("sessions that draw one at a time", 80, throughput::statements),
    ("how long calls take", 120, latency::measure),
    ("INSERT", 140, inserts::measure),
    ("COPY", 90, copies::measure),
    ("those who do not use hilo", 100, bystanders::measure),
    ("instructions of those who do not use hilo", 240, bystanders::count),
    ("parallel queries", 30, parallel::measure),
    ("numbers without holes", 240, gapless::measure),
    ("WAL", 40, footprint::wal),
    ("short connections", 20, footprint::gaps_per_connection),
    ("many sequences", 60, many::measure),
    ("memory", 10, footprint::memory),
    ("numbers from a client's memory", 60, hits::measure),
    ("clients of hilo_lite, and of Python", 660, fleet::measure_pairs),
    ("many clients, and an outage", 240, fleet::measure),
    ("a call of a branch", 30, branches::calls),
    ("a centre and its branches", 280, branches::measure),
    ("a centre of branches that fails", 210, branches::faults),
    ("first calls", 60, first::measure),
    ("first uses of sequences", 120, first::uses),
];

impl Bench {
    fn start(plan: Plan) -> Bench {
        let cluster = machine::SETTINGS
            .iter()
            .fold(Cluster::builder(), |builder, (name, value)| builder.config(name, value))
            .start_with_hilo();
        contenders::create(&cluster);
        Bench { cluster, plan, results: Results::default(), deadline: Instant::now() }
    }

    /// Up to `most` rounds; fewer on a machine that does not manage them in time.
    fn rounds(&self, most: usize) -> impl Iterator<Item = usize> + use<> {
        let deadline = self.deadline;
        (0..most).take_while(move |round| *round < 3 || Instant::now() < deadline)
    }

    fn connect(&self) -> Client {
        self.cluster.connect("postgres")
    }

    /// The statistics of hilo about the sequences `names`.
    fn count(&self, what: &str, names: &[&str]) -> f64 {
        let names = names.join("', '");
        self.connect().one(&format!(
            "SELECT coalesce(sum({what}), 0)::double precision FROM hilo_stat_sequences
             WHERE name::text IN ('{names}')"
        ))
    }
}

/// Measures everything, or the measurements whose names contain a part of the list `only`, and
/// keeps the results so far in `samples`. A measurement that fails is named in the results, and
/// does not affect the others.
fn measure(plan: Plan, samples: &Path, only: &str) -> Results {
    let began = Instant::now();
    let mut bench = Bench::start(plan);
    machine::describe(&mut bench);
    let mut failed = Vec::new();
    for (what, seconds, take) in MEASUREMENTS {
        if !only.split(',').any(|part| what.contains(part)) {
            continue;
        }
        let before = Instant::now();
        bench.deadline = before + Duration::from_secs(seconds);
        eprintln!("{:4.0} s  {what}", began.elapsed().as_secs_f64());
        if catch_unwind(AssertUnwindSafe(|| take(&mut bench))).is_err() {
            failed.push(what);
        }
        bench.results.push(format!("time/{what}"), before.elapsed().as_secs_f64());
        bench.results.save(samples);
    }
    machine::describe_end(&mut bench, began.elapsed());
    bench.results.say("failed", failed.join(", "));
    eprintln!("{:4.0} s  done", began.elapsed().as_secs_f64());
    let Bench { cluster, results, .. } = bench;
    results.save(samples);
    cluster.finish();
    results
}

/// Where the document, its pictures and its samples are written.
pub struct Places {
    /// The root of the checkout, or a directory with the same structure.
    pub root: PathBuf,
    /// The README that gets the short table.
    pub readme: PathBuf,
}

impl Places {
    /// Where the samples of a run with another version of PostgreSQL are, whose short table the page has too.
    fn beside(&self, version: &str) -> PathBuf {
        self.root.join(format!("docs/benchmarks-{version}.tsv"))
    }

    /// Where the samples of a run are: with the version that the page is of, or beside it.
    fn samples(&self, beside: Option<&str>) -> PathBuf {
        match beside {
            Some(version) => self.beside(version),
            None => self.root.join("docs/benchmarks.tsv"),
        }
    }
}

/// Writes the document of the last run; returns what is wrong with it.
fn report(places: &Places) -> Vec<String> {
    let results = Results::load(&places.samples(None));
    pictures::draw(&results, &places.root.join("docs/images"));
    document::write(&results, places)
}

/// Measures everything unless `again`, and writes the document. The run is the one that the document is of, or one of
/// another version of PostgreSQL, which stands beside it.
pub fn run(plan: Plan, places: &Places, beside: Option<&str>, again: bool) -> Vec<String> {
    if !again {
        measure(plan, &places.samples(beside), "");
    }
    report(places)
}

/// Takes the measurements with `only` in their names, and returns the sections that have results. With `keep`, their
/// samples replace the earlier ones of [`run`], and the document is written.
pub fn run_only(
    plan: Plan,
    only: &str,
    places: &Places,
    beside: Option<&str>,
    keep: bool,
) -> String {
    let names = MEASUREMENTS.map(|(name, ..)| name);
    assert!(
        only.split(',').all(|part| names.iter().any(|name| name.contains(part))),
        "no measurement has {only:?} in its name: {names:?}"
    );
    let run = measure(plan, &places.root.join("target/bench-only.tsv"), only);
    let sections = document::numbered_sections(&run);
    if keep {
        let file = places.samples(beside);
        let mut all = Results::load(&file);
        all.add_later(run);
        all.save(&file);
        report(places);
    }
    sections
}

/// Does the work of a measurement's process, if the environment says that this is one. Returns
/// whether it is.
pub fn is_process() -> bool {
    fleet::process()
}
