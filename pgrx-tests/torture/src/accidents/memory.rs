//! Memory that the system refuses to processes of the server.

use std::fs;
use std::path::Path;
use std::process::Stdio;
use std::thread;
use std::time::Duration;

use fastrand::Rng;

use crate::Torture;
use hilo_tests::{ClientExt, SERVER};

/// Bytes in a page of memory, as /proc counts them.
const PAGE: u64 = 4_096;

/// Lets some sessions, or workers, have no more address space than they have, or a little more;
/// and some time later all they want again.
pub fn refuse(torture: &Torture, rng: &mut Rng) -> &'static str {
    if !torture.refuse_memory {
        return "memory not refused: REFUSE_MEMORY=no";
    }
    let (kind, most, what) = match rng.u32(..3) {
        0 => ("hilo worker", 4, "memory refused to workers"),
        _ => ("client backend", 8, "memory refused to sessions"),
    };
    let mut client = torture.cluster.connect_when_up("postgres");
    let pids: Vec<i32> = client.all(&format!(
        "SELECT pid FROM pg_stat_activity WHERE backend_type = '{kind}' AND pid <> pg_backend_pid()
         ORDER BY random() LIMIT {}",
        rng.u32(1..=most)
    ));
    drop(client);
    let limited: Vec<i32> = pids.into_iter().filter(|pid| limit(torture, *pid, rng)).collect();
    thread::sleep(Duration::from_millis(rng.u64(50..1_500)));
    for pid in &limited {
        set(torture, *pid, "unlimited");
    }
    if limited.is_empty() { "no process to refuse memory to" } else { what }
}

/// Leaves a process up to three megabytes, often much less.
fn limit(torture: &Torture, pid: i32, rng: &mut Rng) -> bool {
    let Ok(statm) = fs::read_to_string(format!("/proc/{pid}/statm")) else { return false };
    let pages = statm.split(' ').next().and_then(|pages| pages.parse::<u64>().ok());
    let most = 1 << rng.u32(10..22);
    let spare = rng.u64(..most);
    pages.is_some_and(|pages| set(torture, pid, &(pages * PAGE + spare).to_string()))
}

/// Sets what the process may exceed only with another limit; whether it still runs.
fn set(torture: &Torture, pid: i32, bytes: &str) -> bool {
    // As the server's user, who may do so to its own processes.
    let mut prlimit = SERVER.command_at(Path::new("prlimit"));
    prlimit.args(["--pid", &pid.to_string()]).arg(format!("--as={bytes}:")).stderr(Stdio::null());
    let done = prlimit.status().expect("prlimit of util-linux is there").success();
    if !done && Path::new(&format!("/proc/{pid}")).exists() {
        torture.ledger.figures.wrong(format!("cannot limit the memory of process {pid}"));
    }
    done
}
