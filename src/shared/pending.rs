//! Ranges that open transactions have leased out. Until a transaction ends, its range counts as memory's: nobody else
//! gets it, and the catalog accounts for it as it does for slices. Then the row of `hilo.lease` owns the range, or, after
//! a rollback, the worker writes the range off.
//!
//! A session allocates a place, and fills it under the lock of the slot that the range comes from, so that no process
//! that holds this lock misses a range. Afterwards only `state` changes.

use std::sync::atomic::{AtomicI32, AtomicI64, AtomicU32, AtomicU64, Ordering::*};

use pgrx::pg_sys;

use hilo_core::numbers::{Epoch, Index, SequenceId};
use hilo_core::range::Range;

use super::Shared;
use super::key::Key;
use super::slices::IndexSpace;

/// How many ranges open transactions can have leased out at the same time.
pub const PENDING: usize = 16_384;

/// See the module.
#[repr(C, align(64))]
pub struct Pending {
    state: AtomicU64,
    sequence: AtomicI64,
    epoch: AtomicI64,
    start: AtomicI64,
    end: AtomicI64,
    node: AtomicI32,
    database: AtomicU32,
    extension: AtomicU32,
    /// How often the place was filled, so that a process that reads it notices that it was.
    filled: AtomicU32,
}

const FREE: u64 = 0;
/// A session has allocated the place, which has no range yet.
const ALLOCATED: u64 = 1;
/// The transaction is open.
const OPEN: u64 = 2;
/// The transaction is committing; the upper half of the state is its number.
const COMMITTING: u64 = 3;
/// The sequence is being renumbered: the transaction must not commit.
const VOID: u64 = 4;
/// The transaction was rolled back: the range is to be written off.
const DEAD: u64 = 5;

const KIND: u64 = 0xffff_ffff;

/// What a session that renumbers a sequence has to wait for.
pub struct Committing(pub pg_sys::TransactionId);

impl Pending {
    /// Stores the range, for whose slot the caller holds the lock.
    pub fn hold(&self, index_space: &IndexSpace, range: Range) {
        let IndexSpace { key, node, epoch } = index_space;
        self.filled.fetch_add(1, SeqCst);
        std::sync::atomic::fence(SeqCst);
        self.database.store(key.database, Relaxed);
        self.extension.store(key.extension, Relaxed);
        self.sequence.store(key.sequence.0, Relaxed);
        self.node.store(*node, Relaxed);
        self.epoch.store(epoch.0, Relaxed);
        self.start.store(range.start.0, Relaxed);
        self.end.store(range.end.0, Relaxed);
        self.state.store(OPEN, Release);
    }

    fn kind(&self) -> u64 {
        self.state.load(Acquire) & KIND
    }

    /// The index space and the range, if there is one.
    pub fn held(&self) -> Option<(IndexSpace, Range)> {
        let filled = self.filled.load(SeqCst);
        if matches!(self.kind(), FREE | ALLOCATED) {
            return None;
        }
        let key = Key {
            database: self.database.load(Relaxed),
            extension: self.extension.load(Relaxed),
            sequence: SequenceId(self.sequence.load(Relaxed)),
        };
        let (node, epoch) = (self.node.load(Relaxed), Epoch(self.epoch.load(Relaxed)));
        let range = Range::new(Index(self.start.load(Relaxed)), Index(self.end.load(Relaxed)));
        std::sync::atomic::fence(SeqCst);
        // If it was filled again, its transaction has ended, and what it holds now is another's.
        let same = self.filled.load(SeqCst) == filled;
        same.then_some((IndexSpace { key, node, epoch }, range))
    }

    /// Notes that the transaction is about to commit. `false`: the range is void.
    pub fn commit(&self, transaction: pg_sys::TransactionId) -> bool {
        let committing = COMMITTING | u64::from(u32::from(transaction)) << 32;
        self.state.compare_exchange(OPEN, committing, AcqRel, Acquire).is_ok()
    }

    pub fn is_dead(&self) -> bool {
        self.kind() == DEAD
    }
}

impl Shared {
    /// Allocates a place, from number `from` on if one is free there. `None`: all are taken.
    pub fn allocate_pending(&self, from: usize) -> Option<usize> {
        let places = self.pending.len();
        let found = (0..places).map(|step| (from + step) % places).find(|&at| {
            let place = &self.pending[at].state;
            place.compare_exchange(FREE, ALLOCATED, AcqRel, Relaxed).is_ok()
        })?;
        self.control.pending.fetch_add(1, AcqRel);
        self.control.pending_end.fetch_max(found as u32 + 1, AcqRel);
        Some(found)
    }

    /// Frees a place: nothing is in it, or the catalog has it.
    pub fn free_pending(&self, at: usize) {
        if self.pending[at].state.swap(FREE, AcqRel) & KIND != FREE {
            self.control.pending.fetch_sub(1, AcqRel);
        }
    }

    /// Leaves a place to the worker, because its transaction was rolled back. Returns whether there is anything to do
    /// for the worker.
    pub fn abandon_pending(&self, at: usize) -> bool {
        let place = &self.pending[at];
        if place.kind() == ALLOCATED {
            self.free_pending(at);
            return false;
        }
        self.control.pending_dead.fetch_add(1, AcqRel);
        place.state.store(DEAD, Release);
        true
    }

    /// Frees a place that the worker has written off.
    pub fn bury_pending(&self, at: usize) {
        self.control.pending_dead.fetch_sub(1, AcqRel);
        self.free_pending(at);
    }

    /// All ranges that open transactions have leased out, or that are to be written off.
    pub fn all_pending(&self) -> impl Iterator<Item = (usize, IndexSpace, Range)> + '_ {
        let any = self.control.pending.load(Acquire) != 0;
        let end = if any { self.control.pending_end.load(Acquire) as usize } else { 0 };
        self.pending[..end].iter().enumerate().filter_map(|(at, place)| {
            let (index_space, range) = place.held()?;
            Some((at, index_space, range))
        })
    }

    /// Those of an index space.
    pub fn pending_of(&self, index_space: &IndexSpace) -> Vec<Range> {
        let same = self.all_pending().filter(|(_, of, _)| of == index_space);
        same.map(|(.., range)| range).collect()
    }

    /// Those of rolled back transactions.
    pub fn dead_pending(&self) -> impl Iterator<Item = (usize, IndexSpace, Range)> + '_ {
        let any = self.control.pending_dead.load(Acquire) != 0;
        let all = any.then(|| self.all_pending()).into_iter().flatten();
        all.filter(|(at, ..)| self.pending[*at].is_dead())
    }

    /// Keeps the open transactions that have leased from a sequence from committing, except for the places that are
    /// `mine`.
    ///
    /// # Errors
    /// `Committing` for a transaction that cannot be kept from it: the caller waits for its end, and tries again.
    pub fn void_pending(&self, key: &Key, mine: impl Fn(usize) -> bool) -> Result<(), Committing> {
        for (at, index_space, _) in self.all_pending() {
            if index_space.key != *key || mine(at) {
                continue;
            }
            let state = &self.pending[at].state;
            if let Err(found) = state.compare_exchange(OPEN, VOID, AcqRel, Acquire)
                && found & KIND == COMMITTING
            {
                return Err(Committing(pg_sys::TransactionId::from((found >> 32) as u32)));
            }
        }
        Ok(())
    }

    /// Frees what belongs to databases that no longer exist.
    pub fn reap_pending(&self, mut is_gone: impl FnMut(u32) -> bool) {
        for (at, index_space, _) in self.dead_pending() {
            if is_gone(index_space.key.database) {
                self.bury_pending(at);
            }
        }
    }
}
