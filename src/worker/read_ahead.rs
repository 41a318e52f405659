//! Read-ahead. A session that uses one sequence after the other for the first time would wait for a transaction of the
//! worker each time. So if a few were waited for, the worker also fetches those whose names follow, and each further one
//! that is waited for doubles how many, as the read-ahead of a file system does.

use std::time::{Duration, Instant};

use hilo_core::numbers::SequenceId;

use super::Worker;
use super::transaction;
use crate::catalog::{self, definitions};
use crate::gucs;
use crate::shared::key::Key;

/// So many waits within [`PAUSE`] of each other come before the first read-ahead.
const FIRST: u32 = 4;
const PAUSE: Duration = Duration::from_secs(1);
/// The most sequences at once.
const MOST: usize = 256;

/// How many first uses sessions have waited for, one soon after the other.
#[derive(Default)]
pub struct FirstUses {
    waits: u32,
    last: Option<Instant>,
}

impl FirstUses {
    /// Notes waits, and returns how many sequences to read ahead.
    fn note(&mut self, waits: u32) -> usize {
        if self.last.is_none_or(|last| last.elapsed() > PAUSE) {
            self.waits = 0;
        }
        self.last = Some(Instant::now());
        self.waits = self.waits.saturating_add(waits);
        match self.waits.checked_sub(FIRST) {
            None => 0,
            Some(more) => 2_usize.checked_shl(more).unwrap_or(MOST).min(MOST),
        }
    }
}

impl Worker {
    /// To be called when sessions have waited for the first blocks of some sequences, of which `last` is the last one.
    ///
    /// What is read ahead becomes an active sequence like any other. It takes no slot that others may need soon.
    pub(super) fn read_ahead(&mut self, waits: u32, last: SequenceId) {
        let shared = self.shared;
        let spare = shared.free_slots().saturating_sub(shared.slots.len() / 4);
        let most = self.first_uses.note(waits).min(spare);
        if most == 0 || !gucs::refill(None).prefetch {
            return;
        }
        let following = transaction::run(c"hilo: reading ahead", || {
            let ids = catalog::catalog_oids()?;
            let following = definitions::following(&ids, last, MOST)?;
            Ok((ids.extension.to_u32(), following))
        });
        // If this fails, each is fetched when it is used.
        let Ok((extension, following)) = following else { return };
        let database = self.database.to_u32();
        let keys = following.into_iter().map(|sequence| Key { database, extension, sequence });
        for key in keys.filter(|key| shared.find(key).is_none()).take(most) {
            let Some(pinned) = shared.find_or_add(&key) else { return };
            shared.want(shared.number_of(pinned.slot()));
        }
    }
}
