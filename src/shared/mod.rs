//! Shared memory: its parts, its layout, and how to reach it.
//!
//! Locking, in the order in which locks may be taken:
//! 1. `directory`: exclusive to add, free or reuse a slot, shared to find one;
//! 2. `workers`: exclusive to enter or leave the table of workers, shared to look one up;
//! 3. a slot's lock (one of [`SLOT_LOCKS`], by slot number): guards what of a slot is not atomic.
//!
//! While any of them is held: no SPI, no allocation, no ereport, no wait. An error there would leave
//! Postgres's count of held-off interrupts wrong.

pub mod auto_create;
pub mod content;
pub mod directory;
pub mod inventory;
pub mod key;
pub mod nameplate;
pub mod pending;
pub mod pin;
pub mod slices;
pub mod slot;
pub mod wait_event;
pub mod work_flags;
pub mod workers;

use std::ffi::{CStr, c_void};
use std::sync::atomic::{AtomicI64, AtomicPtr, AtomicU32, AtomicU64, Ordering::*};

use pgrx::pg_sys;
use pgrx::prelude::*;

use crate::errors::HiloError;
use crate::gucs;
use auto_create::{REQUESTS, Request};
use pending::{PENDING, Pending};
use slices::{Backend, Slice};
use slot::{Guarded, Slot};
use workers::Worker;

/// Locks shared by the slots: enough that two busy sequences seldom share one.
pub const SLOT_LOCKS: usize = 256;
const LOCKS: usize = 2 + SLOT_LOCKS;
const TRANCHE: &CStr = c"hilo";

/// The head of hilo's shared memory.
#[repr(C, align(64))]
pub struct Control {
    /// This life of the shared memory: random, never 0. Written once. See [`Shared::life`].
    incarnation: i64,
    /// Raised when a definition has changed, before its slot learns of it: a session that looks up a name can
    /// tell that its answer is out of date.
    pub definitions: AtomicU64,
    /// How many slots are on the free list. Changed only under `directory`.
    free: AtomicU32,
    /// 1: a session waits for a free slot. The worker sets it back to 0.
    pub slots_wanted: AtomicU32,
    /// How many slices are orphaned.
    pub orphans: AtomicU32,
    /// How many places of `Shared::pending` are allocated, and how many of them are to be written off.
    pub pending: AtomicU32,
    pub pending_dead: AtomicU32,
    /// Below it, no place was free when it was last looked at.
    pub pending_from: AtomicU32,
    /// The end of those that may be taken: see `pending::End`.
    pub pending_end: AtomicU64,
    /// The highest generation of a worker so far. Changed only under `workers`.
    pub generations: AtomicU64,
    /// When (microseconds, monotonic) a session last found no place for its database's worker.
    pub workers_wanted_at: AtomicI64,
    /// The database of that session.
    pub worker_wanted_by: AtomicU32,
    /// When (microseconds since 2000) another server was last seen to reserve as this node.
    pub twin_seen_at: AtomicI64,
    /// Wakes the sessions that wait for a free slot.
    pub slot_freed: Condition,
    /// Wakes the sessions that wait for a sequence to be created.
    pub answered: Condition,
}

/// A Postgres condition variable in shared memory.
#[repr(transparent)]
pub struct Condition(std::cell::UnsafeCell<pg_sys::ConditionVariable>);

// SAFETY: a spinlock inside it guards the ConditionVariable.
unsafe impl Sync for Condition {}

impl Condition {
    fn init(&self) {
        // SAFETY: called once, by the postmaster, before any other process can see it.
        unsafe { pg_sys::ConditionVariableInit(self.0.get()) }
    }

    pub fn broadcast(&self) {
        // SAFETY: the variable was initialised at server start.
        unsafe { pg_sys::ConditionVariableBroadcast(self.0.get()) }
    }

    /// Enters the queue, so that no broadcast from now on is missed.
    pub fn prepare(&self) {
        // SAFETY: as above.
        unsafe { pg_sys::ConditionVariablePrepareToSleep(self.0.get()) }
    }

    /// Sleeps until a broadcast, or for `ms` milliseconds. Interrupts are processed meanwhile.
    pub fn sleep(&self, ms: i64, event: u32) {
        // SAFETY: as above.
        unsafe { pg_sys::ConditionVariableTimedSleep(self.0.get(), ms.max(1), event) };
    }

    /// Leaves the queue.
    pub fn cancel() {
        // SAFETY: it does nothing if no sleep was prepared.
        unsafe { pg_sys::ConditionVariableCancelSleep() };
    }
}

/// Where all parts of hilo's shared memory are.
pub struct Shared {
    pub control: &'static Control,
    pub slots: &'static [Slot],
    guarded: &'static [Guarded],
    free: &'static [AtomicU32],
    wanted: &'static [AtomicU64],
    /// By the hash of a name: the number of the slot that may have its nameplate, plus one.
    names: &'static [AtomicU32],
    pub workers: &'static [Worker],
    requests: &'static [Request],
    pub backends: &'static [Backend],
    slices: &'static [Slice],
    pub pending: &'static [Pending],
    pub slices_per_backend: usize,
    map: *mut pg_sys::HTAB,
    locks: *mut pg_sys::LWLockPadded,
}

// SAFETY: a process has one thread, and what this points to is guarded as the module header says.
unsafe impl Sync for Shared {}
// SAFETY: as above.
unsafe impl Send for Shared {}

/// Set by the postmaster and inherited by its children; set again when the postmaster reinitializes after a
/// crash.
static SHARED: AtomicPtr<Shared> = AtomicPtr::new(std::ptr::null_mut());

/// hilo's shared memory, or the error that says how to set it up.
#[inline]
pub fn get() -> Result<&'static Shared, HiloError> {
    // SAFETY: the pointer is null, or `startup` has leaked what it points to, so that is never freed.
    unsafe { SHARED.load(Relaxed).as_ref() }.ok_or(HiloError::NotPreloaded)
}

/// How an LWLock is taken.
#[derive(Clone, Copy)]
enum LockMode {
    Shared,
    Exclusive,
}

/// An LWLock, held until this is dropped.
pub struct Lock(*mut pg_sys::LWLock);

impl Lock {
    fn new(lock: *mut pg_sys::LWLock, mode: LockMode) -> Lock {
        let mode = match mode {
            LockMode::Exclusive => pg_sys::LWLockMode::LW_EXCLUSIVE,
            LockMode::Shared => pg_sys::LWLockMode::LW_SHARED,
        };
        // SAFETY: the lock is one of hilo's tranche, in shared memory.
        unsafe { pg_sys::LWLockAcquire(lock, mode) };
        Lock(lock)
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        // SAFETY: the lock was taken in `new`, and nothing under it raises an error, so it is still held.
        unsafe { pg_sys::LWLockRelease(self.0) }
    }
}

impl Shared {
    fn lock_at(&self, index: usize, mode: LockMode) -> Lock {
        debug_assert!(index < LOCKS);
        // SAFETY: `index` is less than LOCKS, and the tranche has LOCKS locks.
        Lock::new(unsafe { &raw mut (*self.locks.add(index)).lock }, mode)
    }

    fn lock_directory(&self, mode: LockMode) -> Lock {
        self.lock_at(0, mode)
    }

    fn lock_workers(&self, mode: LockMode) -> Lock {
        self.lock_at(1, mode)
    }

    /// A slot with its lock held.
    pub fn lock_slot(&'static self, number: usize) -> slot::Locked {
        let lock = self.lock_at(2 + number % SLOT_LOCKS, LockMode::Exclusive);
        slot::Locked::new(&self.slots[number], &self.guarded[number], lock)
    }

    /// The id of this life of the memory in the catalog of this database: `incarnation` has it where this
    /// life has reserved. It depends on the database, so in a copy of this database it names the memory of no
    /// server.
    pub fn life(&self) -> i64 {
        // SAFETY: the static is set when the backend connects, and only read here.
        let database = unsafe { pg_sys::MyDatabaseId }.to_u32();
        (self.control.incarnation ^ i64::from(database)).max(1)
    }

    pub fn number_of(&self, slot: &Slot) -> usize {
        (std::ptr::from_ref(slot) as usize - self.slots.as_ptr() as usize) / size_of::<Slot>()
    }
}

/// In bytes; each part begins at a multiple of it.
const ALIGNMENT: usize = align_of::<Slot>();

/// How many of each part there are. [`offsets`](Self::offsets) says where each part begins.
struct Layout {
    slots: usize,
    backends: usize,
    slices_per_backend: usize,
    workers: usize,
}

impl Layout {
    fn from_settings() -> Layout {
        // SAFETY: both are set before the library's hooks run.
        let (backends, workers) = unsafe { (pg_sys::MaxBackends, pg_sys::max_worker_processes) };
        // A few spare slots, so that as many sequences as the setting says can be active while others are
        // flushed.
        let sequences = gucs::max_sequences();
        Layout {
            slots: sequences + sequences / 32,
            backends: backends as usize,
            slices_per_backend: gucs::max_backend_slices(),
            workers: workers as usize + 1,
        }
    }

    /// The places for names: few enough of the slots' names share one.
    fn names(&self) -> usize {
        2 * self.slots
    }

    fn offsets(&self) -> ([usize; 10], usize) {
        let sizes = [
            size_of::<Slot>() * self.slots,
            size_of::<AtomicU32>() * self.slots,
            size_of::<AtomicU64>() * self.slots.div_ceil(64),
            size_of::<Worker>() * self.workers,
            size_of::<Backend>() * self.backends,
            size_of::<Slice>() * self.backends * self.slices_per_backend,
            size_of::<Request>() * REQUESTS,
            size_of::<Guarded>() * self.slots,
            size_of::<AtomicU32>() * self.names(),
            size_of::<Pending>() * PENDING,
        ];
        let mut end = size_of::<Control>();
        let starts = sizes.map(|size| {
            let start = end;
            end = (start + size).next_multiple_of(ALIGNMENT);
            start
        });
        (starts, end + ALIGNMENT)
    }

    fn map_size(&self) -> usize {
        // SAFETY: it computes a size from its arguments and reads no other memory.
        unsafe { pg_sys::hash_estimate_size(self.slots as _, size_of::<directory::Entry>()) }
    }
}

type Hook = Option<unsafe extern "C-unwind" fn()>;
static mut PREV_REQUEST: Hook = None;
static mut PREV_STARTUP: Hook = None;

/// Requests the memory. Called while the postmaster loads its libraries.
pub fn init() {
    // SAFETY: only the postmaster runs this, once, on its one thread.
    unsafe {
        PREV_REQUEST = pg_sys::shmem_request_hook;
        pg_sys::shmem_request_hook = Some(request);
        PREV_STARTUP = pg_sys::shmem_startup_hook;
        pg_sys::shmem_startup_hook = Some(startup);
    }
}

#[pg_guard]
unsafe extern "C-unwind" fn request() {
    let layout = Layout::from_settings();
    // SAFETY: this is the hook in which both requests are allowed, and `prev` is the hook that was set before
    // it.
    unsafe {
        if let Some(prev) = PREV_REQUEST {
            prev();
        }
        pg_sys::RequestAddinShmemSpace(layout.offsets().1 + layout.map_size());
        pg_sys::RequestNamedLWLockTranche(TRANCHE.as_ptr(), LOCKS as i32);
    }
}

/// Runs in the postmaster at server start and again after each crash; the children inherit what it sets.
#[pg_guard]
unsafe extern "C-unwind" fn startup() {
    // SAFETY: `PREV_STARTUP` was written once, before this hook could run.
    if let Some(prev) = unsafe { PREV_STARTUP } {
        // SAFETY: it is the hook that was set before this one.
        unsafe { prev() }
    }
    let layout = Layout::from_settings();
    let (starts, size) = layout.offsets();
    let mut found = false;
    // SAFETY: the size is what was requested.
    let memory = unsafe { pg_sys::ShmemInitStruct(c"hilo".as_ptr(), size, &mut found) };
    let base = (memory as usize).next_multiple_of(ALIGNMENT) as *mut u8;
    if !found {
        // SAFETY: `size` is ALIGNMENT more than the parts need, and aligning `base` skips less.
        unsafe { std::ptr::write_bytes(base, 0, size - ALIGNMENT) };
    }
    let map = init_map(&layout);
    // SAFETY: the parts lie within the memory, aligned as each needs it. All are valid when zeroed, except for
    // what `fill` writes before another process can look.
    let shared = unsafe {
        let part = |at: usize| base.add(starts[at]) as *mut c_void;
        Shared {
            control: &*(base as *const Control),
            slots: std::slice::from_raw_parts(part(0) as *const Slot, layout.slots),
            guarded: std::slice::from_raw_parts(part(7) as *const Guarded, layout.slots),
            free: std::slice::from_raw_parts(part(1) as *const AtomicU32, layout.slots),
            wanted: std::slice::from_raw_parts(
                part(2) as *const AtomicU64,
                layout.slots.div_ceil(64),
            ),
            workers: std::slice::from_raw_parts(part(3) as *const Worker, layout.workers),
            backends: std::slice::from_raw_parts(part(4) as *const Backend, layout.backends),
            slices: std::slice::from_raw_parts(
                part(5) as *const Slice,
                layout.backends * layout.slices_per_backend,
            ),
            names: std::slice::from_raw_parts(part(8) as *const AtomicU32, layout.names()),
            pending: std::slice::from_raw_parts(part(9) as *const Pending, PENDING),
            requests: std::slice::from_raw_parts(part(6) as *const Request, REQUESTS),
            slices_per_backend: layout.slices_per_backend,
            map,
            locks: pg_sys::GetNamedLWLockTranche(TRANCHE.as_ptr()),
        }
    };
    if !found {
        // SAFETY: no other process sees it yet.
        unsafe { (*(base as *mut Control)).incarnation = random_id() };
        shared.fill();
    }
    SHARED.store(Box::leak(Box::new(shared)), Relaxed);
}

fn init_map(layout: &Layout) -> *mut pg_sys::HTAB {
    let mut info = pg_sys::HASHCTL {
        keysize: size_of::<key::Key>(),
        entrysize: size_of::<directory::Entry>(),
        ..Default::default()
    };
    let size = layout.slots as std::ffi::c_long;
    // SAFETY: called in the startup hook, as by pg_stat_statements. `info` describes a map of fixed size that
    // is keyed by plain bytes.
    unsafe {
        pg_sys::ShmemInitHash(
            c"hilo directory".as_ptr(),
            size as _,
            size as _,
            &mut info,
            (pg_sys::HASH_ELEM | pg_sys::HASH_BLOBS | pg_sys::HASH_FIXED_SIZE) as i32,
        )
    }
}

/// A random positive number.
pub fn random_id() -> i64 {
    let mut bytes = [0u8; 8];
    // SAFETY: it writes as many bytes as the array has.
    let strong =
        unsafe { pg_sys::pg_strong_random(bytes.as_mut_ptr() as *mut c_void, bytes.len()) };
    if !strong {
        error!("could not generate a random number");
    }
    (i64::from_ne_bytes(bytes) & i64::MAX).max(1)
}

impl Shared {
    fn fill(&self) {
        self.control.slot_freed.init();
        self.control.answered.init();
        self.requests.iter().for_each(Request::init);
        for (slot, guarded) in self.slots.iter().zip(self.guarded) {
            slot.init();
            guarded.init();
        }
        for (place, number) in self.free.iter().zip((0..self.slots.len() as u32).rev()) {
            place.store(number, Relaxed);
        }
        self.control.free.store(self.slots.len() as u32, Relaxed);
    }
}
