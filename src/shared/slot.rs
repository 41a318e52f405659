//! A slot: one active sequence in shared memory.
//!
//! - `version` and `serial` are raised under the slot's lock and read by every process. A cached
//!   name is valid while the version is the one that it was made with. The serial names one epoch
//!   of one sequence in this slot and is never used again. So a range taken under one serial cannot
//!   be mistaken for another's.
//! - Ranges are taken from the cursor without a lock; its segments are installed under the slot's
//!   lock.
//! - `queued` and `returned` mirror what the lock guards, for callers who only want to know whether
//!   to take the lock.
//! - `pins` keep the slot from being reused while a session or the worker is in the middle of
//!   something. A session's slices do not, because they name their sequence themselves.
//! - Ranges that are neither in the pool nor in the catalog yet are in `leaving`. A range that the
//!   worker writes to the catalog stays in the frozen pool or in `leaving` until the transaction
//!   has committed.
//! - The counters are relaxed atomics; each process adds what it has done.

use std::cell::UnsafeCell;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicI64, AtomicU32, AtomicU64, Ordering::*};

use hilo_core::cursor::Cursor;
use hilo_core::mapping::Mapping;
use hilo_core::numbers::{Epoch, Index, Micros, Serial, Timestamp};
use hilo_core::pool::{Pool, QUEUE, RETURNED, Ranges};
use hilo_core::range::Range;
use hilo_core::rate::Rate;

use crate::shared::fault::Fault;
use crate::shared::key::Key;
use crate::shared::shared_name::SharedName;
use crate::shared::totals::Totals;
use crate::shared::{Condition, Lock};

/// The epoch of a slot whose row has not been read yet.
pub const UNKNOWN: Epoch = Epoch(-1);
/// The epoch of a sequence that was dropped: no row has a later one.
pub const DROPPED: Epoch = Epoch(i64::MAX);

/// How one sequence is served, as its rows said when the worker read them.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct Terms {
    pub mapping: Mapping,
    pub ordered: bool,
    /// Whether a source gives the values: then this server knows no end.
    pub has_source: bool,
    /// In values; 0: as `hilo.max_slice_size` says.
    pub slice_size: i32,
    pub start_value: i64,
    /// In values; 0: by rate.
    pub block_size: i64,
}

/// A draw touches only its first two cache lines.
#[repr(C, align(64))]
pub struct Slot {
    pub version: AtomicU64,
    serial: AtomicI64,
    /// The next block is wanted when fewer values than this are left.
    pub threshold: AtomicI64,
    queued: AtomicI64,
    returned: AtomicU32,
    /// The database of the slot's key, by which a worker finds its slots; 0: the slot is free.
    pub database: AtomicU32,
    pub taking: Taking,
    pub pins: AtomicU32,
    /// Not 0: the worker is in the middle of a reservation, and what it has committed may not be
    /// here yet.
    pub reserving: AtomicU32,
    /// The most consecutive indexes that a caller needs; 0: no caller needs any.
    pub demand: AtomicI64,
    /// The lowest index that a caller who waits at the sequence's end may be served, plus one; 0:
    /// no caller has said.
    wanted_from: AtomicI64,
    /// How many values to keep ready for the next lease: what the largest one took, fading with
    /// time.
    pub lease_ahead: AtomicI64,
    /// How many failed reservations were reported to the callers.
    pub faults: AtomicU64,
    pub waiting: AtomicU32,
    pub waits: AtomicU64,
    /// In microseconds.
    pub wait_total: AtomicU64,
    pub wait_max: AtomicU64,
    pub refilled: Condition,
}

/// The cache line that every taker writes.
#[repr(C, align(64))]
pub struct Taking {
    pub cursor: Cursor,
    /// How many slices were taken.
    pub slices: AtomicU64,
}

/// The part that a slot's lock guards. It lies apart from the slots, so that the slots lie close
/// together. A session that draws from thousands of sequences pays for each page of slots.
#[repr(C, align(64))]
pub struct Guarded(UnsafeCell<Inner>);

// SAFETY: after `init`, what is inside is reached only through `Locked`, which holds the slot's
// lock.
unsafe impl Sync for Guarded {}

impl Guarded {
    /// Initialises it for a free slot.
    pub fn init(&self) {
        // SAFETY: no other process sees it yet, and `Inner` has no destructor.
        unsafe { self.0.get().write(Inner::new(Key::NONE)) }
    }
}

/// The counters behind the lock.
#[derive(Clone, Copy, Default)]
#[repr(C)]
pub struct Counts {
    pub blocks_reserved: u64,
    pub blocks_prefetched: u64,
    pub lost: i64,
    pub errors: u64,
    /// The totals before this slot counted. `None`: the position is not read yet.
    pub before: Option<Totals>,
    /// How much had been taken and recycled when it began to count.
    pub taken_before: i64,
    pub recycled_before: i64,
}

/// The catalog, as this memory last saw it. The worker writes this, and sessions tell from it
/// whether anything can still come.
#[derive(Clone, Copy, Default)]
#[repr(C)]
pub struct CatalogView {
    /// Whether something was reserved or returned since the catalog was last told. The slot is not
    /// freed before the catalog is told again.
    pub is_stale: bool,
    /// Whether the catalog may have more free ranges than were last reloaded.
    pub more_free: bool,
    /// How far the position of the slot's epoch was when this memory last heard of it.
    pub reserved_to: Option<Index>,
    /// The end of the highest free range that the catalog was last seen to have; zero: it had none.
    pub free_end: Index,
    /// Counts how often something became free that this memory had not put there, or was about to.
    pub freed: u64,
    /// The `freed` of the last reload. If they differ, there is something to reload.
    pub reloaded: u64,
    /// When the worker last found nothing to lend before the source answers; 0: it has answered
    /// since then.
    pub asked_at: Timestamp,
}

/// How fast the sequence is used, from which follows how much is reserved. The worker samples it.
#[derive(Clone, Copy, Default)]
#[repr(C)]
pub struct Pace {
    pub rate: Rate,
    /// The size of a block, as the last refill or sample set it.
    pub block: i64,
    /// When a block was last reserved.
    pub block_at: Timestamp,
    /// When something was last seen to be taken, and how much had been taken by then.
    pub active_at: Timestamp,
    seen_taken: i64,
}

/// The part that the slot's lock guards.
#[derive(Default)]
#[repr(C)]
pub struct Inner {
    pub key: Key,
    /// The epoch of the terms and of all ranges here, or [`UNKNOWN`] or [`DROPPED`].
    pub epoch: Epoch,
    /// The node of all ranges here; -1 while the epoch is unknown.
    pub node: i32,
    terms: Option<Terms>,
    pub pool: Pool,
    /// Ranges on their way to the catalog: they are not served, and are accounted for here until
    /// the catalog has them.
    pub leaving: Ranges<LEAVING>,
    /// Whether some of the leaving ranges were reserved by a commit that the standby may not have
    /// acknowledged. Then none of them is served before the catalog has had them.
    pub unacknowledged: bool,
    /// How often the pool has been frozen. A process that thaws it must know the number of the last
    /// time.
    pub freezes: u64,
    /// The generation of the worker that acts for this slot. A worker with a lower generation has
    /// been replaced, and changes nothing here.
    pub worker: u64,
    pub catalog: CatalogView,
    pub pace: Pace,
    pub counts: Counts,
    pub fault: Fault,
    /// The used share of the sequence, in percent, that the last warning was about.
    pub warned: u8,
    pub shared_name: SharedName,
}

/// As many ranges as a pool can have to flush at once, and what one reservation brings.
pub const LEAVING: usize = RETURNED + RETURNED / 2 + QUEUE;

/// All ranges that a slot can hold.
pub const HELD: usize = 1 + QUEUE + RETURNED + LEAVING;

impl Slot {
    /// The serial under which ranges are taken now.
    pub fn serial(&self) -> Serial {
        Serial(self.serial.load(Acquire))
    }

    /// Makes zeroed memory a free slot.
    pub fn init(&self) {
        self.refilled.init();
        self.serial.store(1, Relaxed);
        self.version.store(1, Relaxed);
    }

    #[inline]
    pub fn cursor(&self) -> &Cursor {
        &self.taking.cursor
    }

    /// Whether the pool has returned ranges.
    #[inline]
    pub fn has_returned(&self) -> bool {
        self.returned.load(Relaxed) != 0
    }

    #[inline]
    pub fn queue_len(&self) -> i64 {
        self.queued.load(Relaxed)
    }

    /// Whether the next block is wanted.
    pub fn is_low(&self) -> bool {
        self.cursor().peek().0.len() + self.queue_len() < self.threshold.load(Relaxed)
    }

    /// Notes that a caller waits who may be served no index below `floor`.
    pub fn want_from(&self, floor: Index) {
        let wanted = floor.0 + 1;
        let lower = |known: i64| (known == 0 || wanted < known).then_some(wanted);
        let _ = self.wanted_from.fetch_update(AcqRel, Relaxed, lower);
    }

    /// Takes the lowest index that a waiting caller may get, and resets it.
    pub fn take_wanted_from(&self) -> Index {
        Index((self.wanted_from.swap(0, AcqRel) - 1).max(0))
    }

    /// Counts a wait of `micros` microseconds.
    pub fn count_wait(&self, micros: u64) {
        self.waits.fetch_add(1, Relaxed);
        self.wait_total.fetch_add(micros, Relaxed);
        self.wait_max.fetch_max(micros, Relaxed);
    }

    pub(super) fn reset_counters(&self) {
        for counter in [&self.waits, &self.wait_total, &self.wait_max, &self.taking.slices] {
            counter.store(0, Relaxed);
        }
    }
}

impl Inner {
    fn new(key: Key) -> Inner {
        let pace = Pace { active_at: crate::process::ffi::now(), ..Pace::default() };
        Inner { key, epoch: UNKNOWN, node: -1, pace, ..Inner::default() }
    }
}

/// A slot whose lock is held.
pub struct Locked {
    pub slot: &'static Slot,
    guarded: &'static Guarded,
    _lock: Lock,
}

impl Deref for Locked {
    type Target = Inner;
    fn deref(&self) -> &Inner {
        // SAFETY: `self` holds the lock exclusively for as long as it exists.
        unsafe { &*self.guarded.0.get() }
    }
}

impl DerefMut for Locked {
    fn deref_mut(&mut self) -> &mut Inner {
        // SAFETY: `self` holds the lock exclusively for as long as it exists.
        unsafe { &mut *self.guarded.0.get() }
    }
}

/// Mirrors what the pool holds, for callers without the lock, before the lock is released.
impl Drop for Locked {
    fn drop(&mut self) {
        let (queued, returned) =
            (self.pool.queue().total(), self.pool.returned_ranges().len() as u32);
        // Others read this cache line all the time.
        if self.slot.queued.load(Relaxed) != queued {
            self.slot.queued.store(queued, Relaxed);
        }
        if self.slot.returned.load(Relaxed) != returned {
            self.slot.returned.store(returned, Relaxed);
        }
    }
}

impl Locked {
    pub(super) fn new(slot: &'static Slot, guarded: &'static Guarded, lock: Lock) -> Locked {
        Locked { slot, guarded, _lock: lock }
    }

    /// The terms, and the serial under which ranges are taken now. `None`: the worker has not read
    /// the rows yet.
    pub fn terms(&self) -> Option<(Terms, Serial)> {
        self.terms.map(|terms| (terms, self.serial()))
    }

    pub fn serial(&self) -> Serial {
        self.slot.serial()
    }

    /// Makes everything that cached names remember of this slot out of date.
    pub fn outdate(&mut self) {
        self.slot.version.fetch_add(1, SeqCst);
    }

    /// Advances the epoch of a node's numbering. All that is held belongs to an older epoch and is
    /// discarded; what advanced the epoch in the catalog has recorded that there. Doing so twice
    /// does nothing. Another node's epochs are separate: they say nothing of what is held here.
    pub fn advance_epoch(&mut self, node: i32, epoch: Epoch) {
        if self.node >= 0 && self.node != node {
            self.outdate();
        } else if self.epoch < epoch {
            self.begin(node, epoch);
        }
    }

    /// Discards all ranges: the sequence has been dropped, on all nodes.
    pub fn mark_dropped(&mut self) {
        if self.epoch != DROPPED {
            self.begin(-1, DROPPED);
        }
    }

    /// Begins again, since this server's node has changed, and the ranges of the former node have
    /// been flushed. Or the ranges here do not belong to the current row.
    pub fn change_node(&mut self) {
        if self.epoch != DROPPED {
            self.begin(-1, UNKNOWN);
            self.forget_counts();
        }
    }

    /// A frozen pool stays frozen: a block that the worker publishes may have been reserved before
    /// the freeze.
    fn begin(&mut self, node: i32, epoch: Epoch) {
        let slot = self.slot;
        self.counts.lost += self.all_ranges().total();
        self.pool.drain(slot.cursor());
        self.pool.set_bounds(slot.cursor(), Range::ALL);
        self.forget_leaving();
        self.terms = None;
        self.epoch = epoch;
        self.node = node;
        self.catalog.is_stale = false;
        self.catalog.reserved_to = None;
        self.catalog.free_end = Index::ZERO;
        self.warned = 0;
        self.slot.serial.fetch_add(1, SeqCst);
        self.outdate();
    }

    /// Assigns a free slot to `key`, or frees a slot ([`Key::NONE`]).
    pub(super) fn assign(&mut self, key: Key) {
        let slot = self.slot;
        self.pool.drain(slot.cursor());
        self.slot.serial.fetch_add(1, SeqCst);
        self.outdate();
        **self = Inner::new(key);
        slot.threshold.store(0, Relaxed);
        slot.demand.store(0, Relaxed);
        slot.lease_ahead.store(0, Relaxed);
        slot.wanted_from.store(0, Relaxed);
        slot.reserving.store(0, Release);
        slot.database.store(key.database, Release);
        slot.reset_counters();
    }

    /// Says that what the worker has committed for a sequence is here, unless the slot has become
    /// another one's since.
    pub fn end_reserving(&self, key: &Key) {
        if self.key == *key {
            self.slot.reserving.store(0, Release);
        }
    }

    /// Makes the worker of this generation the one that acts here from now on. `false`: a later one
    /// does.
    pub fn claim_for_worker(&mut self, generation: u64) -> bool {
        if self.worker > generation {
            return false;
        }
        self.worker = generation;
        true
    }

    /// Stores the terms that the worker has read, unless the slot was told of a change since
    /// `version`; then they have to be read again. `false`: the slot has a later epoch already, or
    /// another node.
    pub fn learn(&mut self, epoch: Epoch, version: u64, terms: Terms) -> bool {
        let node = terms.mapping.stripes.node as i32;
        if self.node >= 0 && self.node != node && self.is_empty() {
            self.change_node();
        }
        if epoch < self.epoch || (self.node >= 0 && self.node != node) {
            return false;
        }
        let same = self.slot.version.load(Relaxed) == version;
        self.advance_epoch(node, epoch);
        if self.shared_name.asks_for_creation() {
            self.shared_name = SharedName::default();
        }
        if same {
            self.terms = Some(terms);
            let slot = self.slot;
            self.pool.set_bounds(slot.cursor(), terms.mapping.indexes());
        }
        true
    }

    /// Forgets the terms, which have to be read again: the definition has changed, though not the
    /// meaning of the indexes. All ranges stay.
    pub fn forget_terms(&mut self) {
        self.terms = None;
        self.outdate();
    }

    /// Whether nothing more can be reserved.
    pub fn is_at_end(&self) -> bool {
        self.terms.is_some_and(|terms| {
            let limit = terms.mapping.limit();
            let endless = terms.mapping.cycle || terms.has_source;
            !endless && self.catalog.reserved_to.is_some_and(|to| to >= limit)
        })
    }

    /// Whether nothing is left for a caller who may be served no index below `floor`.
    pub fn is_exhausted(&self, floor: Index) -> bool {
        let Some(terms) = self.terms else { return false };
        let indexes = terms.mapping.indexes();
        self.is_at_end()
            && self.catalog.free_end.min(indexes.end) <= floor.max(indexes.start)
            && self.leaving.is_empty()
            && !self.pool.is_frozen()
            && !self.may_get_more()
    }

    /// Whether free ranges may be about to come.
    fn may_get_more(&self) -> bool {
        self.is_to_reload() || self.slot.reserving.load(Acquire) != 0
    }

    /// Whether a range has become free since free ranges were last reloaded.
    pub fn is_to_reload(&self) -> bool {
        self.catalog.freed != self.catalog.reloaded
    }

    /// Whether the source has been asked, and there is nothing to lend before it answers. After a
    /// while this is checked again, since the process that asks may have ended.
    pub fn awaits_source(&self, now: Timestamp) -> bool {
        const LOOK_AGAIN: Micros = Micros(1_000_000);
        let asked_at = self.catalog.asked_at;
        asked_at.0 != 0 && now.since(asked_at) < LOOK_AGAIN && !self.is_to_reload()
    }

    /// Whether no returned range is left here, while the catalog may have free ones.
    pub fn is_bare(&self) -> bool {
        self.catalog.more_free && self.pool.returned_ranges().is_empty()
    }

    /// Notes at `now` whether anything was taken since the last call, and returns that.
    pub fn see_activity(&mut self, now: Timestamp) -> bool {
        let taken = self.taken_count();
        let active = taken != self.pace.seen_taken;
        if active {
            self.pace.seen_taken = taken;
            self.pace.active_at = now;
        }
        active
    }
}
