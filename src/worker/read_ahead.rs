//! Read-ahead. A session that uses one sequence after the other for the first time would wait for a
//! transaction of the worker each time. So if a few were waited for, the worker also fetches those
//! whose names follow. Each further one that is waited for doubles how many, as the read-ahead of a
//! file system does.

use std::time::{Duration, Instant};

use hilo_core::numbers::SequenceId;

use crate::catalog::{self, definitions};
use crate::gucs;
use crate::shared::key::Key;
use crate::worker::Worker;
use crate::worker::transaction::{self, BRIEFLY};

/// So many waits within [`PAUSE`] of each other come before the first read-ahead.
const FIRST: u32 = 4;
const PAUSE: Duration = Duration::from_secs(1);
/// The most sequences at once.
const MAX_AHEAD: usize = 256;

/// The first uses that sessions have waited for.
#[derive(Default)]
pub struct FirstUses {
    /// How many came one soon after the other.
    waits: u32,
    /// When the last one came.
    at: Option<Instant>,
    /// The last one, until something is read ahead of it.
    last: Option<SequenceId>,
}

impl FirstUses {
    /// Notes that a session has waited for this sequence, whose first block it now has.
    pub fn note(&mut self, sequence: SequenceId) {
        if self.at.is_none_or(|at| at.elapsed() > PAUSE) {
            self.waits = 0;
        }
        self.waits = self.waits.saturating_add(1);
        self.at = Some(Instant::now());
        self.last = Some(sequence);
    }

    /// How many sequences to read ahead.
    fn due(&self) -> usize {
        match self.waits.checked_sub(FIRST) {
            None => 0,
            Some(more) => 2_usize.checked_shl(more).unwrap_or(MAX_AHEAD).min(MAX_AHEAD),
        }
    }
}

impl Worker {
    /// Reads ahead of the first uses that have been noted since the last time.
    ///
    /// A sequence that is read ahead becomes an active one like any other. It takes no slot that
    /// others may need soon, and nothing that another server serves: see
    /// [`Outcome::NotOurs`](crate::worker::reserve::Outcome::NotOurs).
    pub(super) fn read_ahead(&mut self) {
        let Some(last) = self.first_uses.last.take() else { return };
        let shared = self.shared;
        let spare = shared.free_slots().saturating_sub(shared.slots.len() / 4);
        let most = self.first_uses.due().min(spare);
        if most == 0 || !gucs::refill(None).prefetch {
            return;
        }
        let following = transaction::run_within(BRIEFLY, c"hilo: reading ahead", || {
            let ids = catalog::catalog_oids()?;
            let following = definitions::following(last, MAX_AHEAD)?;
            Ok((ids.extension, following))
        });
        // If this fails, each is fetched when it is used.
        let Ok((extension, following)) = following else { return };
        let keys = following.into_iter().map(|sequence| Key::here(extension, sequence));
        for key in keys.filter(|key| shared.find(key).is_none()).take(most) {
            let Some(pinned) = shared.find_or_add(&key) else { return };
            shared.want(shared.number_of(pinned.slot()));
        }
    }
}
