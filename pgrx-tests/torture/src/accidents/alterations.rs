//! Alterations that are open when the server or the worker ends.

use std::sync::Mutex;
use std::thread;
use std::time::Duration;

use fastrand::Rng;

use super::stops;
use crate::Torture;
use crate::ledger::SequenceKind;
use crate::session::{ClientSession, End, Failure};

const NAMES: [&str; 6] = [
    "alterations open at a fast stop",
    "alterations open at a smart stop",
    "alterations open at an immediate stop",
    "alterations open at a kill -9 of the postmaster",
    "alterations open at a kill -9 of the worker",
    "alterations open at a worker's end",
];

/// Transactions that have altered sequences and drawn from them. Some are rolled back just before the
/// server or the worker ends, others by that end, others after it.
pub fn leave_open(torture: &Torture, rng: &mut Rng) -> &'static str {
    let sequences: Vec<_> = torture
        .ledger
        .sequences
        .iter()
        .filter(|sequence| sequence.kind == SequenceKind::Wide && sequence.mutable)
        .collect();
    let mut definers = Vec::new();
    let mut open = Vec::new();
    for _ in 0..rng.usize(1..5) {
        let sequence = sequences[rng.usize(..sequences.len())];
        let Ok(definer) = sequence.definer.try_lock() else { continue };
        let Ok(client) = torture.cluster.try_connect("postgres", sequence.database) else {
            continue;
        };
        let mut session = ClientSession::new(torture, sequence.database, client);
        let name = sequence.name().0;
        torture.ledger.note(sequence, "altered, and left open".into());
        match session.alter_openly(sequence, &name, rng) {
            Err(Failure::Gone) => {}
            Ok(()) if rng.u32(..3) == 0 => drop(session.finish(Ok(()), End::RollBack)),
            _ => open.push(session),
        }
        definers.push(definer);
    }
    let open = Mutex::new(open);
    let (late, pause) = (rng.bool(), rng.u64(..200));
    let what = stops::any_end(torture, rng, NAMES, || {
        thread::sleep(Duration::from_millis(pause));
        for mut session in open.into_inner().unwrap() {
            if late {
                let _ = session.finish(Ok(()), End::RollBack);
            }
        }
    });
    drop(definers);
    what
}
