//! What happens to the server meanwhile. One thing at a time, and the server is up after each.

use std::thread;
use std::time::Duration;

use fastrand::Rng;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use postgres::Client;

use super::Torture;
use super::book::Sequence;
use crate::client::ClientExt;
use crate::cluster::Mode;
use crate::wait::{LONG, came_true};

/// Accidents until the time is up.
pub fn run(torture: &Torture, mut rng: Rng) {
    while !torture.is_over() {
        thread::sleep(Duration::from_millis(rng.u64(200..torture.pause)));
        if !torture.is_over() {
            happen(torture, &mut rng);
        }
    }
}

fn happen(torture: &Torture, rng: &mut Rng) {
    let cluster = &torture.cluster;
    let what = match rng.u32(..20) {
        0..4 => crash(torture, "kill -9 of a backend", "backend_type = 'client backend'"),
        4..6 => crash(torture, "kill -9 of the worker", "backend_type = 'hilo worker'"),
        6..8 => {
            cluster.kill9_postmaster();
            cluster.start();
            "kill -9 of the postmaster"
        }
        8..10 => {
            cluster.stop(Mode::Immediate);
            cluster.start();
            "immediate stop"
        }
        10..12 => {
            cluster.stop(Mode::Fast);
            cluster.start();
            "fast stop"
        }
        12 => {
            torture.send_away();
            cluster.stop(Mode::Smart);
            cluster.start();
            torture.let_in();
            "smart stop"
        }
        13 | 14 => tell(torture, "worker terminated", "pg_terminate_backend", "hilo worker"),
        15 => tell(torture, "session terminated", "pg_terminate_backend", "client backend"),
        16 => tell(torture, "statement cancelled", "pg_cancel_backend", "client backend"),
        17 => hold_positions(torture, rng),
        18 => recreate_database(torture, "shop"),
        _ => recreate_extension(torture, "stall"),
    };
    torture.book.figures.accident(what);
}

/// The server restarts behind the death of one of its processes.
fn crash(torture: &Torture, what: &'static str, which: &str) -> &'static str {
    let cluster = &torture.cluster;
    let mut witness = cluster.connect_when_up("postgres");
    let pids: Vec<i32> = witness.all(&format!(
        "SELECT pid FROM pg_stat_activity WHERE {which} AND pid <> pg_backend_pid() ORDER BY random() LIMIT 1"
    ));
    let Some(&pid) = pids.first() else { return "nothing to kill" };
    cluster.expect_crash();
    if kill(Pid::from_raw(pid), Signal::SIGKILL).is_err() {
        return "nothing to kill";
    }
    // Sessions end of themselves: then the signal came too late.
    let noticed = came_true(Duration::from_secs(5), || witness.simple_query("SELECT 1").is_err());
    drop(witness);
    cluster.connect_when_up("postgres");
    if noticed { what } else { "nothing to kill" }
}

fn tell(torture: &Torture, what: &'static str, how: &str, whom: &str) -> &'static str {
    let mut client = torture.cluster.connect_when_up("postgres");
    let told: i64 = client.one(&format!(
        "SELECT count({how}(pid)) FROM (SELECT pid FROM pg_stat_activity
         WHERE backend_type = '{whom}' AND pid <> pg_backend_pid() ORDER BY random() LIMIT 1) p"
    ));
    if told == 0 { "nothing to tell" } else { what }
}

fn hold_positions(torture: &Torture, rng: &mut Rng) -> &'static str {
    let mut client = torture.cluster.connect_when_up("postgres");
    let held = client.batch_execute(&format!(
        "BEGIN; SELECT FROM hilo.position WHERE random() < 0.5 FOR UPDATE; SELECT pg_sleep({}); ROLLBACK",
        rng.f32() * 1.5
    ));
    if let Err(error) = held
        && error.as_db_error().is_none_or(|report| report.code().code() != "40P01")
    {
        torture.book.figures.wrong(format!("position rows cannot be locked: {error:?}"));
    }
    "position rows locked for a while"
}

/// With all of its sequences kept from being defined meanwhile.
fn recreate_database(torture: &Torture, database: &'static str) -> &'static str {
    let sequences = torture.sequences_of(database);
    let _definers: Vec<_> =
        sequences.iter().map(|sequence| sequence.definer.lock().unwrap()).collect();
    let mut client = torture.cluster.connect_when_up("postgres");
    retried(torture, &mut client, &format!("DROP DATABASE {database} WITH (FORCE)"));
    let since = torture.book.now();
    sequences.iter().for_each(|sequence| torture.book.settle(sequence, None, since));
    retried(torture, &mut client, &format!("CREATE DATABASE {database}"));
    let mut client = torture.cluster.connect(database);
    retried(torture, &mut client, "CREATE EXTENSION IF NOT EXISTS hilo");
    populate(torture, &mut client, &sequences);
    "DROP and CREATE DATABASE"
}

fn recreate_extension(torture: &Torture, database: &'static str) -> &'static str {
    let sequences = torture.sequences_of(database);
    let _definers: Vec<_> =
        sequences.iter().map(|sequence| sequence.definer.lock().unwrap()).collect();
    let mut client = torture.cluster.connect_when_up(database);
    retried(torture, &mut client, "DROP EXTENSION hilo CASCADE");
    let since = torture.book.now();
    sequences.iter().for_each(|sequence| torture.book.settle(sequence, None, since));
    retried(torture, &mut client, "CREATE EXTENSION hilo");
    populate(torture, &mut client, &sequences);
    "DROP and CREATE EXTENSION"
}

/// Gives each sequence its first life, or a new one.
pub fn populate(torture: &Torture, client: &mut Client, sequences: &[&Sequence]) {
    for sequence in sequences {
        let life = torture.book.begin_life(sequence);
        let (name, _) = sequence.name();
        retried(torture, client, &sequence.create(&name, &life));
        life.committed.store(true, std::sync::atomic::Ordering::SeqCst);
        torture.book.settle(sequence, Some(life.key), torture.book.now());
        torture.book.forgotten(sequence, life.key);
    }
}

/// Others may be in the way for a moment, or deadlock with us.
fn retried(torture: &Torture, client: &mut Client, sql: &str) {
    let mut reason = String::new();
    let done = came_true(LONG, || match client.batch_execute(sql) {
        Ok(()) => true,
        Err(error) => {
            reason = format!("{error:?}");
            client.is_closed()
        }
    });
    if !done || client.is_closed() {
        torture.book.figures.wrong(format!("{sql}: {reason}"));
    }
}
