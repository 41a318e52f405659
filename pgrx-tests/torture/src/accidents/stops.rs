//! Stops and crashes of the server; an audit follows each clean stop.

use std::thread;
use std::time::Duration;

use fastrand::Rng;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::signals::signal_one;
use crate::figures::add;
use crate::ledger::Last;
use crate::{Torture, audit};
use hilo_tests::ClientExt;
use hilo_tests::Mode;
use hilo_tests::came_true;

pub fn kill_postmaster(torture: &Torture, _rng: &mut Rng) -> &'static str {
    add(&torture.ledger.figures.expected_recoveries, 1);
    torture.cluster.kill9_postmaster();
    torture.cluster.start();
    "kill -9 of the postmaster"
}

pub fn immediate(torture: &Torture, _rng: &mut Rng) -> &'static str {
    add(&torture.ledger.figures.expected_recoveries, 1);
    torture.cluster.stop(Mode::Immediate);
    torture.cluster.start();
    "immediate stop"
}

/// The server ends, and its next life uses the indexes of its catalogs and of hilo's tables, or not.
pub fn choose_indexes(torture: &Torture, rng: &mut Rng) -> &'static str {
    let ignored = rng.bool();
    torture.cluster.configure("ignore_system_indexes", if ignored { "on" } else { "off" });
    let end = [kill_postmaster, immediate, fast][rng.usize(..3)];
    torture.ledger.figures.accident(end(torture, rng));
    if ignored { "ignore_system_indexes from then on" } else { "system indexes used from then on" }
}

pub fn fast(torture: &Torture, _rng: &mut Rng) -> &'static str {
    audit::stop_cleanly(torture, Mode::Fast, || {});
    "fast stop"
}

pub fn smart(torture: &Torture, _rng: &mut Rng) -> &'static str {
    torture.disconnect_all();
    audit::stop_cleanly(torture, Mode::Smart, || {});
    "smart stop"
}

/// The workers are terminated when no session needs them any more, while one session keeps its slices;
/// then the server is stopped.
pub fn without_worker(torture: &Torture, rng: &mut Rng) -> &'static str {
    torture.disconnect_all();
    torture.wait_until_disconnected();
    let database = torture.databases[rng.usize(..torture.databases.len())];
    let mut idle = torture.cluster.connect_when_up(database);
    for sequence in torture.sequences_of(database).into_iter().take(3) {
        let Ok(_alone) = sequence.lock_alone() else { continue };
        let ticket = torture.ledger.ticket(sequence);
        for _ in 0..3 {
            let sql = format!("SELECT hilo_nextval('{}')", ticket.name);
            match idle.query(&sql, &[]) {
                Ok(rows) => {
                    let values = [rows[0].get(0)];
                    torture.ledger.saw(sequence, &ticket, &mut Last::default(), &values, true);
                }
                Err(_) => torture.ledger.note_lost(sequence, 1),
            }
        }
    }
    let mut client = torture.cluster.connect_when_up("postgres");
    let told = client.batch_execute(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE backend_type = 'hilo worker'",
    );
    if let Err(error) = told {
        torture.ledger.figures.wrong(format!("workers cannot be terminated: {error:?}"));
    }
    thread::sleep(Duration::from_millis(rng.u64(..400)));
    if rng.bool() {
        drop(idle);
        drop(client);
        audit::stop_cleanly(torture, Mode::Smart, || {});
    } else {
        audit::stop_cleanly(torture, Mode::Fast, || drop((idle, client)));
    }
    "worker terminated when no session needed it, and a stop"
}

pub fn kill_backend(torture: &Torture, _rng: &mut Rng) -> &'static str {
    crash(torture, "kill -9 of a backend", "backend_type = 'client backend'")
}

pub fn kill_worker(torture: &Torture, _rng: &mut Rng) -> &'static str {
    crash(torture, "kill -9 of the worker", "backend_type = 'hilo worker'")
}

/// Kills a process of the server, which then restarts.
fn crash(torture: &Torture, what: &'static str, which: &str) -> &'static str {
    let cluster = &torture.cluster;
    let mut witness = cluster.connect_when_up("postgres");
    let pids: Vec<i32> = witness.all(&format!(
        "SELECT pid FROM pg_stat_activity WHERE {which} AND pid <> pg_backend_pid() ORDER BY random() LIMIT 1"
    ));
    let Some(&pid) = pids.first() else { return "nothing to kill" };
    cluster.expect_crash();
    add(&torture.ledger.figures.expected_recoveries, 1);
    if kill(Pid::from_raw(pid), Signal::SIGKILL).is_err() {
        return "nothing to kill";
    }
    // Sessions also end by themselves: then the signal came too late.
    let noticed = came_true(Duration::from_secs(5), || witness.simple_query("SELECT 1").is_err());
    drop(witness);
    cluster.connect_when_up("postgres");
    if noticed { what } else { "nothing to kill" }
}

/// Ends the server or the worker in a way that `rng` chooses, and returns which of `names` it was.
/// `meanwhile` runs at the same time or after it; a smart stop needs it to disconnect.
pub fn any_end(
    torture: &Torture,
    rng: &mut Rng,
    names: [&'static str; 6],
    meanwhile: impl FnOnce() + Send,
) -> &'static str {
    let kind = rng.usize(..names.len());
    if kind == 1 {
        torture.disconnect_all();
    }
    thread::scope(|scope| match kind {
        0 => audit::stop_cleanly(torture, Mode::Fast, meanwhile),
        1 => {
            let leaving = scope.spawn(meanwhile);
            audit::stop_cleanly(torture, Mode::Smart, || drop(leaving.join()));
        }
        2 => {
            immediate(torture, rng);
            meanwhile();
        }
        3 => {
            kill_postmaster(torture, rng);
            meanwhile();
        }
        4 => {
            kill_worker(torture, rng);
            meanwhile();
        }
        _ => {
            signal_one(torture, "", "pg_terminate_backend", "hilo worker");
            meanwhile();
        }
    });
    names[kind]
}
