//! Signals to processes, and locks that block them: the server keeps running.

use std::thread;
use std::time::{Duration, Instant};

use fastrand::Rng;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use postgres::Client;

use crate::Torture;
use hilo_tests::ClientExt;

pub fn terminate_worker(torture: &Torture, _rng: &mut Rng) -> &'static str {
    signal_one(torture, "worker terminated", "pg_terminate_backend", "hilo worker")
}

pub fn terminate_session(torture: &Torture, _rng: &mut Rng) -> &'static str {
    signal_one(torture, "session terminated", "pg_terminate_backend", "client backend")
}

pub fn cancel_statement(torture: &Torture, _rng: &mut Rng) -> &'static str {
    signal_one(torture, "statement cancelled", "pg_cancel_backend", "client backend")
}

/// Cancels what sessions and workers do, at many moments in a row.
pub fn cancel_often(torture: &Torture, rng: &mut Rng) -> &'static str {
    let mut client = torture.cluster.connect_when_up("postgres");
    for _ in 0..rng.usize(10..60) {
        let whom = if rng.bool() { "client backend" } else { "hilo worker" };
        let told = client.batch_execute(&format!(
            "SELECT pg_cancel_backend(pid) FROM (SELECT pid FROM pg_stat_activity
             WHERE backend_type = '{whom}' AND pid <> pg_backend_pid() ORDER BY random() LIMIT 1) p"
        ));
        if let Err(error) = told {
            torture.ledger.figures.wrong(format!("processes cannot be cancelled: {error:?}"));
        }
        let most = 1 << rng.u32(1..16);
        thread::sleep(Duration::from_micros(rng.u64(..most)));
    }
    "sessions and workers cancelled, again and again"
}

pub fn signal_one(torture: &Torture, what: &'static str, how: &str, whom: &str) -> &'static str {
    let mut client = torture.cluster.connect_when_up("postgres");
    let told: i64 = client.one(&format!(
        "SELECT count({how}(pid)) FROM (SELECT pid FROM pg_stat_activity
         WHERE backend_type = '{whom}' AND pid <> pg_backend_pid() ORDER BY random() LIMIT 1) p"
    ));
    if told == 0 { "no process to signal" } else { what }
}

fn worker(client: &mut Client, but: i32) -> Option<i32> {
    let found: Vec<i32> = client.all(&format!(
        "SELECT pid FROM pg_stat_activity WHERE backend_type = 'hilo worker' AND pid <> {but}
         ORDER BY random() LIMIT 1"
    ));
    found.first().copied()
}

/// Halts a worker for a while: during its work, at its end, or just after its start. A session that needs
/// a worker may start another one meanwhile; then this one continues beside it.
pub fn stand_still(torture: &Torture, rng: &mut Rng) -> &'static str {
    let mut client = torture.cluster.connect_when_up("postgres");
    let Some(first) = worker(&mut client, 0) else { return "no process to signal" };
    let pid = match rng.u32(..3) {
        0 => first,
        1 => {
            // At its end: it has received the signal, and may have released its place.
            let _ = kill(Pid::from_raw(first), Signal::SIGTERM);
            thread::sleep(Duration::from_micros(rng.u64(..20_000)));
            first
        }
        _ => {
            let _ = kill(Pid::from_raw(first), Signal::SIGTERM);
            let since = Instant::now();
            let mut next = None;
            while next.is_none() && since.elapsed() < Duration::from_millis(500) {
                next = worker(&mut client, first);
            }
            let Some(next) = next else { return "worker terminated" };
            next
        }
    };
    let pid = Pid::from_raw(pid);
    if kill(pid, Signal::SIGSTOP).is_err() {
        return "no process to signal";
    }
    thread::sleep(Duration::from_millis(rng.u64(100..3_500)));
    if rng.bool() {
        let _ = kill(pid, Signal::SIGTERM);
    }
    let _ = kill(pid, Signal::SIGCONT);
    "worker stopped (SIGSTOP) for a while"
}

pub fn hold_positions(torture: &Torture, rng: &mut Rng) -> &'static str {
    let mut client = torture.cluster.connect_when_up("postgres");
    let held = client.batch_execute(&format!(
        "BEGIN; SELECT FROM _hilo.hilo_position WHERE random() < 0.5 FOR UPDATE; SELECT pg_sleep({}); ROLLBACK",
        rng.f32() * 1.5
    ));
    if let Err(error) = held
        && error.as_db_error().is_none_or(|report| report.code().code() != "40P01")
    {
        torture.ledger.figures.wrong(format!("position rows cannot be locked: {error:?}"));
    }
    "position rows locked for a while"
}
