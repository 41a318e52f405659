//! Which sequence a slot is for: its key.

use std::sync::atomic::{AtomicI64, AtomicU32, Ordering::*};

use pgrx::pg_sys;

use hilo_core::numbers::SequenceId;

use crate::process::ffi;

/// The owner of a slot: a sequence of a database. Leftovers of a dropped extension or sequence
/// never have the key of a later one: sequence ids are random and not used again. A database that
/// was dropped has no leftovers for one that gets its OID: see `databases`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(C)]
pub struct Key {
    pub database: u32,
    pub extension: u32,
    pub sequence: SequenceId,
}

impl Key {
    /// No sequence's key.
    pub const NONE: Key = Key { database: 0, extension: 0, sequence: SequenceId(0) };

    /// The key of a sequence of this database.
    pub fn here(extension: pg_sys::Oid, sequence: SequenceId) -> Key {
        Key { database: ffi::database().to_u32(), extension: extension.to_u32(), sequence }
    }
}

/// A key in shared memory. Whoever reads a sequence sees what was written before it.
#[repr(C)]
pub struct AtomicKey {
    pub sequence: AtomicI64,
    database: AtomicU32,
    extension: AtomicU32,
}

impl AtomicKey {
    pub fn load(&self) -> Key {
        Key {
            sequence: SequenceId(self.sequence.load(Acquire)),
            database: self.database.load(Relaxed),
            extension: self.extension.load(Relaxed),
        }
    }

    pub fn store(&self, key: &Key) {
        self.database.store(key.database, Relaxed);
        self.extension.store(key.extension, Relaxed);
        self.sequence.store(key.sequence.0, Release);
    }
}
