//! Several processes, each with a client of the same thousand counters, at a fixed rate; and an outage of the server.
//!
//! The processes are this program: the environment says what such a process does ([`process`]), and its standard input
//! when. The Python client's processes are `tests/fleet.py` of its package.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use hilo_client::{Client, Sequence};

use super::Bench;
use super::hits::runtime;
use hilo_tests::example::Example;
use hilo_tests::extension::create_lite;
use hilo_tests::{ClientExt, Mode};

const PROCESSES: usize = 8;
/// Databases with either of them.
const HILO: &str = "postgres";
pub const LITE: &str = "lite";
/// Clients and servers: what the results are called, a label, whether the client is Python's, and the database.
pub const PAIRS: [(&str, &str, bool, &str); 4] = [
    ("fleet", "Rust client, hilo", false, HILO),
    ("fleet in lite", "Rust client, hilo_lite", false, LITE),
    ("fleet of Python", "Python client, hilo", true, HILO),
    ("fleet of Python in lite", "Python client, hilo_lite", true, LITE),
];
const VARIABLE: &str = "HILO_BENCH_PROCESS";
/// How often a process draws what is due.
const TICK: Duration = Duration::from_millis(10);

/// The work of the processes, and how long it lasts.
#[derive(Clone, Copy)]
pub struct Load {
    pub counters: u64,
    /// Numbers a second of all processes together.
    pub rate: u64,
    pub buffer: Duration,
    /// How long it takes until the rate is known.
    pub warm_up: Duration,
    pub time: Duration,
    pub outage: Duration,
}

/// The figures of one process.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    numbers: u64,
    waits: u64,
    longest: u64,
    leases: u64,
}

struct Process {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Load {
    pub fn full() -> Load {
        Load {
            counters: 1_000,
            rate: 50_000,
            buffer: Duration::from_secs(60),
            warm_up: Duration::from_secs(150),
            time: Duration::from_secs(60),
            outage: Duration::from_secs(30),
        }
    }

    pub fn quick() -> Load {
        Load {
            counters: 50,
            rate: 8_000,
            buffer: Duration::from_secs(6),
            warm_up: Duration::from_secs(6),
            time: Duration::from_secs(2),
            outage: Duration::from_secs(2),
        }
    }
}

impl Process {
    /// A process of this program.
    fn start(bench: &Bench, load: &Load, database: &str) -> Process {
        let what = format!(
            "{} {} {} {} {database}",
            bench.cluster.socket_directory().display(),
            load.counters,
            load.rate / PROCESSES as u64,
            load.buffer.as_millis()
        );
        let mut command = Command::new(std::env::current_exe().expect("this program"));
        command.env(VARIABLE, what);
        Process::of(command)
    }

    /// A process of the Python client.
    fn python(bench: &Bench, load: &Load, database: &str, package: &Example) -> Process {
        let words = [load.counters, load.rate / PROCESSES as u64].map(|number| number.to_string());
        let buffer = load.buffer.as_secs_f64().to_string();
        let words = ["python3", "tests/fleet.py", &words[0], &words[1], &buffer];
        let mut command = package.command(&bench.cluster, &words);
        command.env("PGUSER", "postgres").env("PGDATABASE", database);
        Process::of(command)
    }

    fn of(mut command: Command) -> Process {
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("another process");
        let input = child.stdin.take().expect("its input");
        let output = BufReader::new(child.stdout.take().expect("its output"));
        Process { child, input, output }
    }

    /// Asks the process for its figures since the last report.
    fn report(&mut self) -> Seen {
        self.input.write_all(b"report\n").expect("it reads");
        let mut line = String::new();
        self.output.read_line(&mut line).expect("it answers");
        let mut numbers = line.split_whitespace().map(|word| word.parse().expect("a number"));
        let mut next = || numbers.next().unwrap_or(0);
        Seen { numbers: next(), waits: next(), longest: next(), leases: next() }
    }

    fn end(mut self) {
        self.input.write_all(b"end\n").expect("it reads");
        assert!(self.child.wait().expect("it ends").success());
    }
}

/// The process that the environment describes: it draws until its input ends. Returns at once in
/// any other.
pub fn process() -> bool {
    let Ok(what) = std::env::var(VARIABLE) else { return false };
    let words: Vec<&str> = what.split_whitespace().collect();
    let number = |at: usize| words[at].parse::<u64>().expect("a number");
    let (counters, rate, buffer) = (number(1), number(2), Duration::from_millis(number(3)));
    let mut config = tokio_postgres::Config::new();
    config.host_path(words[0]).user("postgres").dbname(words[4]);
    let runtime = runtime(1);
    let client =
        Client::builder(config).buffer(buffer).patience(Duration::from_secs(300)).connect();
    let client = runtime.block_on(client).expect("a client");
    let names: Vec<String> = (0..counters).map(|n| format!("counter {n}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    runtime.block_on(client.warm_up(&names)).expect("numbers");
    let sequences: Vec<Sequence> = names.iter().map(|name| client.sequence(name)).collect();
    let (sender, commands) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        std::io::stdin().lines().map_while(Result::ok).try_for_each(|line| sender.send(line))
    });
    let mut random = fastrand::Rng::new();
    let (mut seen, mut drawn, mut leases) = (Seen::default(), 0, client.stats().refills);
    let began = Instant::now();
    loop {
        let due = (began.elapsed().as_secs_f64() * rate as f64) as u64;
        while drawn < due {
            let sequence = &sequences[random.usize(..sequences.len())];
            if sequence.try_next().expect("no error").is_none() {
                let before = Instant::now();
                runtime.block_on(sequence.next()).expect("a number");
                seen.waits += 1;
                seen.longest = seen.longest.max(before.elapsed().as_micros() as u64);
            }
            drawn += 1;
            seen.numbers += 1;
        }
        match commands.recv_timeout(TICK).as_deref() {
            Err(std::sync::mpsc::RecvTimeoutError::Timeout) => {}
            Ok("report") => {
                let all = client.stats().refills;
                println!("{} {} {} {}", seen.numbers, seen.waits, seen.longest, all - leases);
                (seen, leases) = (Seen::default(), all);
            }
            _ => break,
        }
    }
    runtime.block_on(client.shutdown()).expect("the rest comes back");
    true
}

fn reports(processes: &mut [Process]) -> Seen {
    processes.iter_mut().map(Process::report).fold(Seen::default(), |all, one| Seen {
        numbers: all.numbers + one.numbers,
        waits: all.waits + one.waits,
        longest: all.longest.max(one.longest),
        leases: all.leases + one.leases,
    })
}

/// Transactions of the database that have committed, and how many blocks hilo has reserved there for the counters.
fn commits(bench: &Bench, database: &str) -> (f64, f64) {
    let mut session = bench.cluster.connect(database);
    let commits = "SELECT xact_commit FROM pg_stat_database WHERE datname = current_database()";
    let blocks = "SELECT coalesce(sum(blocks_reserved), 0)::bigint FROM hilo_stat_sequences WHERE name::text LIKE 'counter %'";
    let blocks = if database == HILO { session.one::<i64>(blocks) } else { 0 };
    (session.one::<i64>(commits) as f64, blocks as f64)
}

/// Creates the database with hilo_lite, unless it is there.
pub fn create_lite_database(bench: &Bench) {
    let is_there = format!("SELECT count(*) FROM pg_database WHERE datname = '{LITE}'");
    if bench.connect().one::<i64>(&is_there) == 0 {
        bench.connect().run(&format!("CREATE DATABASE {LITE}"));
        create_lite(&mut bench.cluster.connect(LITE), "public");
    }
}

/// Creates the counters that are missing.
fn create_counters(bench: &Bench, database: &str) {
    bench.cluster.connect(database).run(&format!(
        "SELECT hilo_create(name) FROM (SELECT 'counter ' || n FROM generate_series(0, {}) n
                                        EXCEPT SELECT name::text FROM hilo_sequences) c (name)",
        bench.plan.fleet.counters - 1
    ));
}

/// `KEY/…`: numbers, waits, leases and commits per second in steady state.
fn measure_steady(bench: &mut Bench, key: &str, database: &str, processes: &mut [Process]) {
    let load = bench.plan.fleet;
    std::thread::sleep(load.warm_up);
    reports(processes);
    let (before, blocks_before) = commits(bench, database);
    let began = Instant::now();
    std::thread::sleep(load.time);
    let steady = reports(processes);
    let seconds = began.elapsed().as_secs_f64();
    let (after, blocks) = commits(bench, database);
    for (what, count) in [
        ("rate", steady.numbers as f64 / seconds),
        ("waits", steady.waits as f64),
        ("numbers", steady.numbers as f64),
        ("leases", steady.leases as f64 / seconds),
        ("commits", (after - before) / seconds),
        ("blocks", (blocks - blocks_before) / seconds),
        ("memory", 100.0 * (steady.numbers - steady.waits) as f64 / steady.numbers as f64),
        ("catalog", 100.0 * (after - before) / steady.numbers as f64),
    ] {
        bench.results.push(format!("{key}/{what}"), count);
    }
}

/// The same of the other [`PAIRS`]; without those of Python where `scripts/clients` has not installed what it needs.
pub fn measure_pairs(bench: &mut Bench) {
    let load = bench.plan.fleet;
    let python = Example::find("python");
    create_lite_database(bench);
    for (key, _, is_python, database) in &PAIRS[1..] {
        create_counters(bench, database);
        let start = |_| match (is_python, &python) {
            (true, package) => package.as_ref().map(|p| Process::python(bench, &load, database, p)),
            (false, _) => Some(Process::start(bench, &load, database)),
        };
        let Some(mut processes) = (0..PROCESSES).map(start).collect::<Option<Vec<_>>>() else {
            continue;
        };
        measure_steady(bench, key, database, &mut processes);
        processes.into_iter().for_each(Process::end);
    }
}

/// `fleet/…`: what [`measure_steady`] says, and blocks per second; `outage/…`: numbers, waits and the longest wait, in
/// milliseconds, of an outage.
pub fn measure(bench: &mut Bench) {
    let load = bench.plan.fleet;
    create_counters(bench, HILO);
    let start = |_| Process::start(bench, &load, HILO);
    let mut processes: Vec<Process> = (0..PROCESSES).map(start).collect();
    measure_steady(bench, "fleet", HILO, &mut processes);
    bench.results.say("fleet counters", load.counters.to_string());
    bench.results.say("outage", load.outage.as_secs().to_string());
    bench.results.say("buffer", load.buffer.as_secs().to_string());
    bench.cluster.stop(Mode::Fast);
    std::thread::sleep(load.outage);
    bench.cluster.start();
    // Whoever was about to run dry has been refilled.
    std::thread::sleep(load.outage.min(Duration::from_secs(5)));
    let outage = reports(&mut processes);
    bench.results.push("outage/numbers", outage.numbers as f64);
    bench.results.push("outage/waits", outage.waits as f64);
    bench.results.push("outage/longest", outage.longest as f64 * 1e-3);
    processes.into_iter().for_each(Process::end);
}
