//! The environment of a run: machine, versions, settings.

use std::fs;
use std::process::Command;
use std::time::Duration;

use super::Bench;
use hilo_tests::ClientExt;

/// Durable, like a server in use: every commit is flushed. Big enough that memory does not limit
/// the results.
pub const SETTINGS: [(&str, &str); 13] = [
    ("fsync", "on"),
    ("synchronous_commit", "on"),
    ("full_page_writes", "on"),
    ("shared_buffers", "512MB"),
    ("work_mem", "128MB"),
    ("max_wal_size", "8GB"),
    ("checkpoint_timeout", "30min"),
    ("max_connections", "100"),
    // Ten thousand of core's sequences are ten thousand relations; a session that draws from one locks it.
    ("max_locks_per_transaction", "256"),
    ("hilo.max_sequences", "12000"),
    // The cost of the calls would include compiling the query.
    ("jit", "off"),
    // Nothing waits forever.
    ("statement_timeout", "120s"),
    ("autovacuum", "on"),
];

fn read(file: &str) -> String {
    fs::read_to_string(file).unwrap_or_default()
}

/// The value in a file of lines such as `name : value`.
fn field(text: &str, name: &str, mark: char) -> Option<String> {
    let line = text.lines().find(|line| line.starts_with(name))?;
    Some(line.split_once(mark)?.1.trim().trim_matches('"').to_owned())
}

fn said(program: &str, arguments: &[&str]) -> String {
    let output =
        Command::new(program).args(arguments).current_dir(env!("CARGO_MANIFEST_DIR")).output();
    match output {
        Ok(output) if output.status.success() => {
            String::from_utf8_lossy(&output.stdout).trim().to_owned()
        }
        _ => "?".to_owned(),
    }
}

fn load_average() -> String {
    read("/proc/loadavg").split(' ').take(3).collect::<Vec<_>>().join(", ")
}

/// Notes what can be known before the start.
pub fn describe(bench: &mut Bench) {
    let mut client = bench.connect();
    let version: String = client.one("SELECT version()");
    let hilo: String = client.one("SELECT extversion FROM pg_extension WHERE extname = 'hilo'");
    let date: String = client.one("SELECT to_char(now(), 'YYYY-MM-DD HH24:MI TZ')");
    let memory: i64 = field(&read("/proc/meminfo"), "MemTotal", ':')
        .and_then(|text| text.split(' ').next()?.parse().ok())
        .unwrap_or(0);
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let processor = field(&read("/proc/cpuinfo"), "model name", ':');
    let system = field(&read("/etc/os-release"), "PRETTY_NAME", '=');
    let results = &mut bench.results;
    results.say("processor", processor.unwrap_or_else(|| std::env::consts::ARCH.to_owned()));
    results.say("cores", cores.to_string());
    results.say("memory", format!("{:.0} GB", memory as f64 / 1024.0 / 1024.0));
    let system = system.unwrap_or_else(|| "?".to_owned());
    results.say("system", format!("{system}, Linux {}", read("/proc/sys/kernel/osrelease").trim()));
    results.say("postgres", version.split(" on ").next().unwrap_or_default());
    let commit = said("git", &["describe", "--always", "--dirty", "--exclude=*"]);
    results.say("hilo", format!("{hilo}, commit {commit}"));
    results.say("rustc", said("rustc", &["--version"]));
    results.say("date", date);
    results.say("load at the start", load_average());
    results.say("calls", bench.plan.calls.to_string());
    results.say("sequences", bench.plan.sequences.to_string());
    results.say("connections", bench.plan.connections.to_string());
}

/// Notes what can be known at the end.
pub fn describe_end(bench: &mut Bench, time: Duration) {
    bench.results.say("load at the end", load_average());
    bench.results.say("time", format!("{:.0} minutes", (time.as_secs_f64() / 60.0).ceil()));
}
