//! How fast slots turn over: whether sequences that are soon used again have lost their slots
//! meanwhile.
//!
//! Where more sequences take turns than there are slots, each use of one costs a flush, a
//! reservation and a wait. So whoever takes a slot away notes the sequence, and whoever gives that
//! one a slot again finds the note.

use std::hash::{Hash, Hasher};
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering::*};

use hilo_core::numbers::{Micros, Monotonic};
use rustc_hash::FxHasher;

use crate::process::ffi;
use crate::shared::Shared;
use crate::shared::key::Key;

const MINUTE: Micros = Micros(60_000_000);

/// Slots turn over if, within a minute, one in this many is given to a sequence that has lost its
/// own within a minute.
const PART: usize = 10;

/// When the last sequence with this hash lost its slot, and a part of the hash. Two sequences of
/// one note take it from each other, so that less is counted.
#[repr(C)]
pub struct Note {
    hash: AtomicU64,
    at: AtomicI64,
}

/// How many sequences have come back since some moment. Changed under `directory`.
#[repr(C)]
pub struct Turnover {
    since: AtomicI64,
    returns: AtomicU64,
    /// When the slots last turned over; 0: never.
    at: AtomicI64,
}

impl Shared {
    fn note(&self, key: &Key) -> (&Note, u64) {
        let mut hasher = FxHasher::default();
        key.hash(&mut hasher);
        let hash = hasher.finish();
        (&self.notes[(hash % self.notes.len() as u64) as usize], hash)
    }

    /// Notes that a sequence loses its slot to others. The caller has locked `directory`.
    pub(super) fn note_loss(&self, key: &Key) {
        let (note, hash) = self.note(key);
        note.hash.store(hash, Relaxed);
        note.at.store(ffi::monotonic().0, Relaxed);
    }

    /// Counts a sequence that gets a slot, if it has lost one within a minute. The caller has
    /// locked `directory`.
    pub(super) fn count_return(&self, key: &Key) {
        let (note, hash) = self.note(key);
        let lost_at = note.at.load(Relaxed);
        if lost_at == 0 || note.hash.load(Relaxed) != hash {
            return;
        }
        note.at.store(0, Relaxed);
        let now = ffi::monotonic();
        if now.since(Monotonic(lost_at)) > MINUTE {
            return;
        }
        let Turnover { since, returns, at } = &self.control.turnover;
        if now.since(Monotonic(since.load(Relaxed))) > MINUTE {
            since.store(now.0, Relaxed);
            returns.store(0, Relaxed);
        }
        let before = returns.fetch_add(1, Relaxed);
        if before as usize >= self.slots.len() / PART {
            at.store(now.0, Relaxed);
        }
    }

    /// How long ago the slots last turned over; `None` if they never have.
    pub fn turned_over_for(&self) -> Option<Micros> {
        let at = self.control.turnover.at.load(Relaxed);
        (at != 0).then(|| ffi::monotonic().since(Monotonic(at)))
    }
}
