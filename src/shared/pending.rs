//! Ranges that open transactions have leased out. Until a transaction ends, its range counts as
//! memory's: nobody else gets it, and the catalog accounts for it as it does for slices. Then the
//! row of `_hilo.hilo_lease` owns the range, or, after a rollback, the worker writes the range off.
//!
//! A session allocates a place, and fills it under the lock of the slot that the range comes from.
//! So no process that holds this lock misses a range. Afterwards only the place's [`State`]
//! changes, and each change is one compare-and-swap from the very word that was read. That word
//! says how often the place was filled. So a process that slept since it read the place changes
//! nothing of its present content.

use std::sync::atomic::{AtomicI32, AtomicI64, AtomicU64, Ordering::*, fence};

use pgrx::pg_sys;

use hilo_core::numbers::{Epoch, Index};
use hilo_core::range::Range;

use crate::shared::Shared;
use crate::shared::key::{AtomicKey, Key};
use crate::shared::slices::IndexSpace;

/// How many ranges open transactions can have leased out at the same time.
pub const PENDING: usize = 16_384;

/// See the module's documentation. The session that has allocated the place writes all fields but
/// `state` before the place is open.
#[repr(C, align(64))]
pub struct Pending {
    state: AtomicU64,
    key: AtomicKey,
    epoch: AtomicI64,
    start: AtomicI64,
    end: AtomicI64,
    node: AtomicI32,
}

/// The use of a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Free,
    /// A session has allocated the place, which has no range yet.
    Allocated,
    /// The transaction is open.
    Open,
    /// The transaction is committing.
    Committing,
    /// The sequence is being renumbered: the transaction must not commit.
    Void,
    /// The transaction was rolled back: the range is to be written off.
    Dead,
    /// A transaction of the worker writes the range off. When it has committed, the catalog has the
    /// range.
    Leaving,
}

/// The state of a place in one word: its kind, how often the place was filled, and the number of
/// the transaction that is committing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlaceState(u64);

impl PlaceState {
    const PHASE: u64 = 0b111;
    const FILLING: u64 = 0xffff_fff8;
    /// The step to the next filling. The number begins again after 2^29 fillings.
    const FILLED: u64 = 0b1000;

    fn phase(self) -> Phase {
        match self.0 & Self::PHASE {
            0 => Phase::Free,
            1 => Phase::Allocated,
            2 => Phase::Open,
            3 => Phase::Committing,
            4 => Phase::Void,
            5 => Phase::Dead,
            _ => Phase::Leaving,
        }
    }

    fn filling(self) -> u64 {
        self.0 & Self::FILLING
    }

    fn transaction(self) -> pg_sys::TransactionId {
        pg_sys::TransactionId::from((self.0 >> 32) as u32)
    }

    /// The state of the same filling in another phase.
    fn to(self, phase: Phase) -> PlaceState {
        PlaceState(self.filling() | phase as u64)
    }

    /// The next filling.
    fn next_filling(self) -> PlaceState {
        let next = self.filling().wrapping_add(Self::FILLED) & Self::FILLING;
        PlaceState(next | Phase::Allocated as u64)
    }

    fn committing(self, transaction: pg_sys::TransactionId) -> PlaceState {
        PlaceState(self.to(Phase::Committing).0 | u64::from(u32::from(transaction)) << 32)
    }
}

/// A place that has a range, as it was read.
#[derive(Clone, Copy, Debug)]
pub struct Place {
    pub at: usize,
    state: PlaceState,
    pub index_space: IndexSpace,
    pub range: Range,
}

/// The committing transaction for which a session that renumbers a sequence has to wait.
pub struct Committing(pub pg_sys::TransactionId);

impl Pending {
    fn state(&self) -> PlaceState {
        PlaceState(self.state.load(Acquire))
    }

    /// Replaces the state that was read. `false`: it is another one by now.
    fn change(&self, from: PlaceState, to: PlaceState) -> bool {
        self.state.compare_exchange(from.0, to.0, AcqRel, Acquire).is_ok()
    }

    /// Stores the range, for whose slot the caller holds the lock. The caller has allocated the
    /// place.
    pub fn hold(&self, index_space: &IndexSpace, range: Range) {
        let IndexSpace { key, node, epoch } = index_space;
        // Pairs with the fence in `content`: a process that sees what is stored after this sees the
        // new filling too.
        fence(Release);
        self.key.store(key);
        self.node.store(*node, Relaxed);
        self.epoch.store(epoch.0, Relaxed);
        self.start.store(range.start.0, Relaxed);
        self.end.store(range.end.0, Relaxed);
        // Nobody else changes the state of a place that is allocated.
        self.state.store(self.state().to(Phase::Open).0, Release);
    }

    /// The index space and the range, if there is one, with the state in which the place has them.
    fn content(&self) -> Option<(PlaceState, IndexSpace, Range)> {
        loop {
            let state = self.state();
            if matches!(state.phase(), Phase::Free | Phase::Allocated) {
                return None;
            }
            let key = self.key.load();
            let (node, epoch) = (self.node.load(Relaxed), Epoch(self.epoch.load(Relaxed)));
            let range = Range::new(Index(self.start.load(Relaxed)), Index(self.end.load(Relaxed)));
            fence(Acquire);
            if self.state.load(Relaxed) == state.0 {
                return Some((state, IndexSpace { key, node, epoch }, range));
            }
        }
    }

    /// Notes that the transaction is about to commit. `false`: the range is void.
    pub fn commit(&self, transaction: pg_sys::TransactionId) -> bool {
        let state = self.state();
        state.phase() == Phase::Open && self.change(state, state.committing(transaction))
    }
}

impl Shared {
    /// Allocates a place, the lowest that is free. `None`: all are taken.
    pub fn allocate_pending(&self) -> Option<usize> {
        let at = self.pending_used.set_first(self.pending.len())?;
        // The place was free, and nobody else can take it now.
        let place = &self.pending[at];
        place.state.store(place.state().next_filling().0, Release);
        Some(at)
    }

    /// Frees a place whose state was read. `false`: it has another one by now.
    fn free_pending(&self, at: usize, state: PlaceState) -> bool {
        let freed = self.pending[at].change(state, state.to(Phase::Free));
        if freed {
            self.pending_used.clear(at);
        }
        freed
    }

    /// Frees the place of a transaction that has committed: the row of `_hilo.hilo_lease` owns it.
    pub fn free_committed(&self, at: usize) {
        self.free_pending(at, self.pending[at].state());
    }

    /// Leaves a place to the worker, because its transaction was rolled back. Returns whether there
    /// is anything to do for the worker.
    pub fn abandon_pending(&self, at: usize) -> bool {
        let place = &self.pending[at];
        loop {
            let state = place.state();
            if state.phase() == Phase::Allocated {
                self.free_pending(at, state);
                return false;
            }
            self.control.pending_dead.fetch_add(1, AcqRel);
            // It may just become void.
            if place.change(state, state.to(Phase::Dead)) {
                return true;
            }
            self.control.pending_dead.fetch_sub(1, AcqRel);
        }
    }

    /// Marks a place that the worker's transaction writes off. `None`: another process has freed
    /// it.
    pub fn begin_leaving(&self, held: &Place) -> Option<Place> {
        let state = held.state.to(Phase::Leaving);
        self.pending[held.at].change(held.state, state).then_some(Place { state, ..*held })
    }

    /// The worker's transaction was rolled back: the place is to be written off again.
    pub fn stays(&self, held: &Place) {
        self.pending[held.at].change(held.state, held.state.to(Phase::Dead));
    }

    /// Frees a place that the worker has written off, or that no worker will write off.
    pub fn mark_dead(&self, held: &Place) {
        if self.free_pending(held.at, held.state) {
            self.control.pending_dead.fetch_sub(1, AcqRel);
            self.control.pending_freed.broadcast();
        }
    }

    /// The content of one place.
    pub fn pending_at(&self, at: usize) -> Option<Place> {
        let (state, index_space, range) = self.pending[at].content()?;
        Some(Place { at, state, index_space, range })
    }

    /// All ranges that open transactions have leased out, or that are to be written off.
    pub fn all_pending(&self) -> impl Iterator<Item = Place> + '_ {
        self.pending_used.iter().filter_map(|at| self.pending_at(at))
    }

    /// The ranges of an index space.
    pub fn pending_of(&self, index_space: &IndexSpace) -> Vec<Range> {
        let same = self.all_pending().filter(|held| held.index_space == *index_space);
        same.map(|held| held.range).collect()
    }

    /// The places of rolled back transactions that the worker has not taken up yet.
    pub fn dead_pending(&self) -> impl Iterator<Item = Place> + '_ {
        let any = self.control.pending_dead.load(Acquire) != 0;
        let all = any.then(|| self.all_pending()).into_iter().flatten();
        all.filter(|held| held.state.phase() == Phase::Dead)
    }

    /// Whether the worker is just writing off what was leased out of a sequence.
    pub fn is_pending_leaving(&self, key: &Key) -> bool {
        self.control.pending_dead.load(Acquire) != 0
            && self
                .all_pending()
                .any(|held| held.index_space.key == *key && held.state.phase() == Phase::Leaving)
    }

    /// Prevents the open transactions that have leased from a sequence from committing, except for
    /// the places that are `mine`.
    ///
    /// # Errors
    /// `Committing` for a transaction that is committing already: the caller waits for its end, and
    /// tries again.
    pub fn void_pending(&self, key: &Key, mine: impl Fn(usize) -> bool) -> Result<(), Committing> {
        for found in self.all_pending().filter(|held| held.index_space.key == *key) {
            let mut found = Some(found);
            // A place that is filled again is another transaction's.
            while let Some(held) =
                found.filter(|held| held.index_space.key == *key && !mine(held.at))
            {
                match held.state.phase() {
                    Phase::Open
                        if self.pending[held.at].change(held.state, held.state.to(Phase::Void)) =>
                    {
                        break;
                    }
                    Phase::Open => found = self.pending_at(held.at),
                    Phase::Committing => return Err(Committing(held.state.transaction())),
                    _ => break,
                }
            }
        }
        Ok(())
    }

    /// Frees all places of a database in which no process is: their transactions have ended.
    pub(super) fn free_pending_of(&self, database: u32) {
        for held in self.all_pending().filter(|held| held.index_space.key.database == database) {
            match held.state.phase() {
                Phase::Dead | Phase::Leaving => self.mark_dead(&held),
                _ => drop(self.free_pending(held.at, held.state)),
            }
        }
    }
}
