//! A slot: one active sequence in shared memory.
//!
//! - `version` and `serial` are raised under the slot's lock and read by everybody. A memo is good
//!   while the version is the one that it was made with. The serial names one epoch of one sequence in
//!   this slot and is never used again, so a range dealt under one serial can't be taken for another's.
//! - The cursor is taken from without a lock and installed under it.
//! - `queued` and `returned` mirror what the lock guards, for callers who only want to know whether to
//!   take the lock.
//! - `pins` keep the slot from being reused while a session or the worker is in the middle of something.
//!   A session's slices do not: they name their sequence themselves.
//! - Ranges that are neither in the pool nor in the catalog yet are in `leaving`. A range that the
//!   worker writes to the catalog stays in the pool, frozen, or in `leaving` until that is committed.
//! - The counters are relaxed atomics, added to by whoever it concerns.

use std::cell::UnsafeCell;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicI64, AtomicU32, AtomicU64, Ordering::*};

use hilo_core::cursor::Cursor;
use hilo_core::mapping::{Mapping, Stripes};
use hilo_core::numbers::{Epoch, Serial};
use hilo_core::pool::{Pool, QUEUE, RETURNED, Ranges};
use hilo_core::range::Range;
use hilo_core::rate::Rate;

use super::key::Key;
use super::{Condition, Lock};
use crate::errors::FaultKind;

/// The epoch of a slot whose row nobody has read yet.
pub const UNKNOWN: Epoch = Epoch(-1);
/// The epoch of a sequence that was dropped: no row has a later one.
pub const DROPPED: Epoch = Epoch(i64::MAX);

/// How one sequence is dealt, as its rows said when the worker read them.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Terms {
    pub mapping: Mapping,
    pub ordered: bool,
    /// Values; 0: as `hilo.max_slice_size` says.
    pub slice_size: i32,
    pub start_value: i64,
    /// Values; 0: by rate.
    pub block_size: i64,
}

impl Terms {
    /// Before the worker has read any.
    pub const UNKNOWN: Terms = Terms {
        mapping: Mapping {
            base: 0,
            increment: 1,
            min_value: 0,
            max_value: 0,
            cycle: false,
            stripes: Stripes::ALL,
        },
        start_value: 0,
        ordered: false,
        slice_size: 0,
        block_size: 0,
    };
}

#[repr(C, align(64))]
pub struct Slot {
    pub version: AtomicU64,
    serial: AtomicI64,
    /// Below so many values the next block is wanted.
    pub threshold: AtomicI64,
    queued: AtomicI64,
    returned: AtomicU32,
    /// The database of the slot's key, for the workers to find theirs; 0: the slot is free.
    pub database: AtomicU32,
    pub dealing: Dealing,
    pub pins: AtomicU32,
    /// The worker is in the middle of a reservation: what it has committed may not be here yet.
    pub reserving: AtomicU32,
    /// A caller needs so many consecutive indexes; 0: nobody.
    pub demand: AtomicI64,
    /// The lowest index that anybody who waits at the sequence's end may be served, plus one; 0: nobody has
    /// said.
    wanted_from: AtomicI64,
    /// Failed reservations that were reported to the callers.
    pub faults: AtomicU64,
    pub waiting: AtomicU32,
    pub waits: AtomicU64,
    /// Microseconds.
    pub wait_total: AtomicU64,
    pub wait_max: AtomicU64,
    pub refilled: Condition,
}

/// The cache line that every taker writes.
#[repr(C, align(64))]
pub struct Dealing {
    pub cursor: Cursor,
    /// Slices taken.
    pub slices: AtomicU64,
}

/// Where what a slot's lock guards lies: apart from the slots, so that those lie close together. Who
/// draws from thousands of sequences pays for each page that they are spread over.
#[repr(C, align(64))]
pub struct Guarded(UnsafeCell<Inner>);

// SAFETY: reached only through `Locked`.
unsafe impl Sync for Guarded {}

impl Guarded {
    /// For a slot that is free.
    pub fn init(&self) {
        // SAFETY: nobody else sees it yet; `Inner` has no destructor.
        unsafe { self.0.get().write(Inner::new(Key::NONE)) }
    }
}

/// What the slot's lock guards.
#[repr(C)]
pub struct Inner {
    pub key: Key,
    /// The epoch of the terms and of all ranges here; [`UNKNOWN`], [`DROPPED`].
    pub epoch: Epoch,
    /// The node of all ranges here; -1 while the epoch is unknown.
    pub node: i32,
    terms: Option<Terms>,
    pub pool: Pool,
    /// Ranges on their way to the catalog: dealt by nobody, and accounted for here until it has them.
    pub leaving: Ranges<LEAVING>,
    /// Whether something among them was reserved and may not have been acknowledged by the standby: none
    /// of them is dealt before the catalog has had them.
    pub unacknowledged: bool,
    /// Whether the catalog may say of this memory what is not so any more: something was reserved or
    /// returned since it was told. The slot is not given up before.
    pub untold: bool,
    /// How far the position was when this memory last heard of it, of `epoch`.
    pub reserved_to: Option<i64>,
    /// The end of the highest free range that the catalog was last seen to have; 0: it had none.
    pub free_end: i64,
    /// How often the pool has been frozen: who thaws it must know of the last time.
    pub freezes: u64,
    /// The generation of the worker that has frozen it last; 0: a session has.
    pub frozen_by: u64,
    /// The generation of the worker that acts for this slot. One with a lower generation is a worker
    /// that has been replaced, and changes nothing here.
    pub worker: u64,
    pub rate: Rate,
    /// The block reserved last.
    pub block: i64,
    /// When it was reserved.
    pub block_at: i64,
    /// When something was last seen to be dealt, and how much had been by then.
    pub active_at: i64,
    seen_dealt: i64,
    pub blocks_reserved: u64,
    pub blocks_prefetched: u64,
    pub lost: i64,
    pub dealt_at_reset: i64,
    pub recycled_at_reset: i64,
    pub errors: u64,
    pub fault: Fault,
    /// The share of the range, in percent, that was last warned of.
    pub warned: u8,
}

/// As many as a pool can have to be put away at once, and what one reservation has brought.
pub const LEAVING: usize = RETURNED + RETURNED / 2 + QUEUE;

/// All ranges that a slot can hold.
pub const HELD: usize = 1 + QUEUE + RETURNED + LEAVING;

/// The last failed reservation.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Fault {
    pub sqlstate: i32,
    pub kind: FaultKind,
    len: u32,
    text: [u8; 240],
    /// Microseconds since 2000; 0: there was none.
    pub at: i64,
}

impl Fault {
    pub const NONE: Fault =
        Fault { sqlstate: 0, kind: FaultKind::Other, len: 0, text: [0; 240], at: 0 };

    pub fn new(sqlstate: i32, kind: FaultKind, message: &str, at: i64) -> Fault {
        let mut end = message.len().min(240);
        while !message.is_char_boundary(end) {
            end -= 1;
        }
        let mut text = [0; 240];
        text[..end].copy_from_slice(&message.as_bytes()[..end]);
        Fault { sqlstate, kind, len: end as u32, text, at }
    }

    pub fn message(&self) -> &str {
        std::str::from_utf8(&self.text[..self.len as usize]).unwrap_or_default()
    }
}

impl Slot {
    /// Under which ranges are handed out now.
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
        &self.dealing.cursor
    }

    /// Whether ranges lie here that were given back.
    #[inline]
    pub fn has_returned(&self) -> bool {
        self.returned.load(Relaxed) != 0
    }

    #[inline]
    pub fn queued(&self) -> i64 {
        self.queued.load(Relaxed)
    }

    /// Whether the next block is wanted.
    pub fn is_low(&self) -> bool {
        self.cursor().peek().0.len() + self.queued() < self.threshold.load(Relaxed)
    }

    /// Somebody waits who may be served no index below `floor`.
    pub fn want_from(&self, floor: i64) {
        let lower = |known: i64| (known == 0 || floor + 1 < known).then_some(floor + 1);
        let _ = self.wanted_from.fetch_update(AcqRel, Relaxed, lower);
    }

    /// From where on those who wait may be served.
    pub fn take_wanted_from(&self) -> i64 {
        (self.wanted_from.swap(0, AcqRel) - 1).max(0)
    }

    /// Counts a wait of so many microseconds.
    pub fn count_wait(&self, micros: u64) {
        self.waits.fetch_add(1, Relaxed);
        self.wait_total.fetch_add(micros, Relaxed);
        self.wait_max.fetch_max(micros, Relaxed);
    }

    pub fn reset_counters(&self) {
        for counter in [&self.waits, &self.wait_total, &self.wait_max, &self.dealing.slices] {
            counter.store(0, Relaxed);
        }
    }
}

impl Inner {
    fn new(key: Key) -> Inner {
        Inner {
            key,
            epoch: UNKNOWN,
            node: -1,
            terms: None,
            pool: Pool::default(),
            leaving: Ranges::default(),
            unacknowledged: false,
            untold: false,
            reserved_to: None,
            free_end: 0,
            freezes: 0,
            frozen_by: 0,
            worker: 0,
            rate: Rate::default(),
            block: 0,
            block_at: 0,
            active_at: crate::ffi::now(),
            seen_dealt: 0,
            blocks_reserved: 0,
            blocks_prefetched: 0,
            lost: 0,
            dealt_at_reset: 0,
            recycled_at_reset: 0,
            errors: 0,
            fault: Fault::NONE,
            warned: 0,
        }
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
        // SAFETY: the lock is held exclusively.
        unsafe { &*self.guarded.0.get() }
    }
}

impl DerefMut for Locked {
    fn deref_mut(&mut self) -> &mut Inner {
        // SAFETY: the lock is held exclusively.
        unsafe { &mut *self.guarded.0.get() }
    }
}

impl Locked {
    pub(super) fn new(slot: &'static Slot, guarded: &'static Guarded, lock: Lock) -> Locked {
        Locked { slot, guarded, _lock: lock }
    }

    /// The terms and the serial under which ranges are dealt now; `None` before the worker has read
    /// the rows.
    pub fn terms(&self) -> Option<(Terms, Serial)> {
        self.terms.map(|terms| (terms, self.serial()))
    }

    pub fn serial(&self) -> Serial {
        self.slot.serial()
    }

    /// Counts from zero again; what was dealt so far becomes the starting point, but for what the
    /// sessions still hold.
    pub fn reset_counters(&mut self, in_slices: i64) {
        self.dealt_at_reset = self.dealt() - in_slices;
        self.recycled_at_reset = self.pool.recycled();
        self.blocks_reserved = 0;
        self.blocks_prefetched = 0;
        self.lost = 0;
        self.errors = 0;
        self.fault = Fault::NONE;
    }

    /// Everything that memos remember of this slot is out of date.
    pub fn outdate(&mut self) {
        self.slot.version.fetch_add(1, SeqCst);
    }

    /// Raises the epoch of a node's numbering: all that is held belongs to an older one and is thrown
    /// away; whoever has raised it in the catalog has written that down. Doing it twice does nothing.
    /// Another node's epochs are its own: of what is held here they say nothing.
    pub fn raise(&mut self, node: i32, epoch: Epoch) {
        if self.node >= 0 && self.node != node {
            self.outdate();
        } else if self.epoch < epoch {
            self.begin(node, epoch);
        }
    }

    /// The sequence is gone, on all nodes.
    pub fn end(&mut self) {
        if self.epoch != DROPPED {
            self.begin(-1, DROPPED);
        }
    }

    /// This server is another node now, and all that was held as the former one has been put away.
    pub fn change_node(&mut self) {
        if self.epoch != DROPPED {
            self.begin(-1, UNKNOWN);
        }
    }

    fn begin(&mut self, node: i32, epoch: Epoch) {
        let slot = self.slot;
        self.lost += self.held().total();
        self.pool.drain(slot.cursor());
        self.pool.thaw();
        self.pool.set_bounds(slot.cursor(), Range::new(0, i64::MAX));
        self.forget_leaving();
        self.terms = None;
        self.epoch = epoch;
        self.node = node;
        self.untold = false;
        self.reserved_to = None;
        self.free_end = 0;
        self.warned = 0;
        self.slot.serial.fetch_add(1, SeqCst);
        self.mirror();
        self.outdate();
    }

    /// Gives a free slot to `key`, or frees one ([`Key::NONE`]).
    pub(super) fn assign(&mut self, key: Key) {
        let slot = self.slot;
        self.pool.drain(slot.cursor());
        self.slot.serial.fetch_add(1, SeqCst);
        self.outdate();
        **self = Inner::new(key);
        slot.threshold.store(0, Relaxed);
        slot.demand.store(0, Relaxed);
        slot.wanted_from.store(0, Relaxed);
        slot.database.store(key.database, Release);
        slot.reset_counters();
        self.mirror();
    }

    /// This generation of the worker acts here from now on. `false`: a later one does.
    pub fn employ(&mut self, generation: u64) -> bool {
        if self.worker > generation {
            return false;
        }
        if self.pool.is_frozen() && self.frozen_by != 0 && self.frozen_by != generation {
            // Its end was none that a worker can have: the catalog may have what the pool has.
            self.begin(-1, UNKNOWN);
        }
        self.worker = generation;
        true
    }

    pub(super) fn mirror(&mut self) {
        self.slot.queued.store(self.pool.queue().total(), Relaxed);
        self.slot.returned.store(self.pool.returned().as_slice().len() as u32, Relaxed);
    }

    /// Enters the terms that the worker has read, unless a change has been told here since `version`;
    /// then they have to be read again. `false`: the epoch is a later one already, or the node another.
    pub fn learn(&mut self, epoch: Epoch, version: u64, terms: Terms) -> bool {
        let node = terms.mapping.stripes.node as i32;
        if self.node >= 0 && self.node != node && self.is_empty() {
            self.change_node();
        }
        if epoch < self.epoch || (self.node >= 0 && self.node != node) {
            return false;
        }
        let same = self.slot.version.load(Relaxed) == version;
        self.raise(node, epoch);
        if same {
            self.terms = Some(terms);
            let slot = self.slot;
            self.pool.set_bounds(slot.cursor(), terms.mapping.indexes());
        }
        true
    }

    /// The definition has changed, though not what the indexes mean: the terms have to be read again.
    /// What is held stays.
    pub fn forget_terms(&mut self) {
        self.terms = None;
        self.outdate();
    }

    /// Whether nothing more can be reserved.
    pub fn is_at_end(&self) -> bool {
        self.terms.is_some_and(|terms| {
            let limit = terms.mapping.limit();
            !terms.mapping.cycle && self.reserved_to.is_some_and(|to| to >= limit)
        })
    }

    /// Whether nothing is left for a caller who may be served no index below `floor`.
    pub fn is_exhausted(&self, floor: i64) -> bool {
        let Some(terms) = self.terms else { return false };
        let indexes = terms.mapping.indexes();
        self.is_at_end()
            && self.free_end.min(indexes.end) <= floor.max(indexes.start)
            && self.leaving.is_empty()
            && !self.pool.is_frozen()
    }

    /// Notes at `now` whether anything was dealt since this was asked last, and says so.
    pub fn see_activity(&mut self, now: i64) -> bool {
        let dealt = self.dealt();
        let active = dealt != self.seen_dealt;
        if active {
            self.seen_dealt = dealt;
            self.active_at = now;
        }
        active
    }
}
