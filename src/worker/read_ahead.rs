//! Read-ahead: the first blocks of the sequences that a session will probably use next.
//!
//! It pays where a session uses thousands of sequences for the first time, as after a start of the
//! server. Without it the session waits for a transaction of the worker each time. The rule is that
//! of a file system. A wait for one of the next few sequences by name continues a run. From the
//! fourth wait of a run on, the worker fetches the 4 sequences that follow, then 16, 64 and so on.
//! A run ends where the sequences end, or where a session uses none of the next ones. With
//! `hilo.prefetch` off nothing is fetched. In docs/benchmarks.md, "First uses of sequences" counts
//! the waits.

use std::collections::VecDeque;

use hilo_core::numbers::SequenceId;

use crate::catalog::rows::catalog_tables;
use crate::catalog::sequence::definitions;
use crate::gucs;
use crate::shared::key::Key;
use crate::worker::Worker;
use crate::worker::refill::BATCH;
use crate::worker::transaction::{self, BRIEFLY};

/// How many runs are known at once: as many sessions may each go on in their own order.
const RUNS: usize = 4;

/// How many sequences may be left out within a run.
const NEAR: usize = 4;

/// How many waits in a row are no chance.
const FEW: u32 = 4;

/// The first uses that sessions have waited for, in the order in which they came.
pub type Runs = VecDeque<Run>;

/// Waits for sequences that follow each other.
pub struct Run {
    waits: u32,
    /// The last sequence that was waited for, and those that were read ahead of it.
    known: Vec<SequenceId>,
    /// The next wait is expected for one of these.
    next: Vec<SequenceId>,
}

/// How many sequences to read ahead after so many waits.
fn size(waits: u32) -> usize {
    match waits.checked_sub(FEW) {
        None => 0,
        Some(more) => 4_usize.checked_pow(more + 1).map_or(BATCH, |size| size.min(BATCH)),
    }
}

impl Worker {
    /// Notes that a session has waited for the first use of `sequence`, and asks for the sequences
    /// that follow. They become active ones like any other, but take no slot that others may need
    /// soon.
    pub(super) fn read_ahead(&mut self, sequence: SequenceId) {
        let shared = self.shared;
        let spare = shared.free_slots().saturating_sub(shared.slots.len() / 4);
        let is_known = self.runs.iter().any(|run| run.known.contains(&sequence));
        if is_known || spare == 0 || !gucs::refill(None).prefetch {
            return;
        }
        let at = self.runs.iter().position(|run| run.next.contains(&sequence));
        let waits = at.and_then(|at| self.runs.remove(at)).map_or(0, |run| run.waits) + 1;
        let most = size(waits).min(spare);
        let found = transaction::run_within(BRIEFLY, c"hilo: reading ahead", || {
            let following = definitions::following(sequence, most + NEAR)?;
            Ok((catalog_tables::catalog_oids()?.extension, following))
        });
        // If this fails, each is fetched when it is used.
        let Ok((extension, mut known)) = found else { return };
        let next = known.split_off(most.min(known.len()));
        for id in &known {
            if let Some(pinned) = shared.add(&Key::here(extension, *id)) {
                shared.wanted.set(shared.number_of(pinned.slot()));
            }
        }
        known.push(sequence);
        self.runs.truncate(RUNS - 1);
        self.runs.push_front(Run { waits, known, next });
    }
}
