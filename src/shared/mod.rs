//! Shared memory: its parts, its layout, and how to reach it.
//!
//! Locking, in the order in which locks may be taken:
//! 1. `databases`: exclusive to enter a database, or to forget one;
//! 2. `directory`: exclusive to add, free or reuse a slot, shared to find one;
//! 3. `workers`: exclusive to enter or leave the tables of workers and of processes that ask
//!    sources, shared to look one up;
//! 4. a slot's lock (one of [`SLOT_LOCKS`], by slot number): guards what of a slot is not atomic.
//!
//! While any of them is held: no SPI, no allocation, no ereport, no wait. An error there would
//! leave Postgres's count of held-off interrupts wrong.

pub mod askers;
pub mod content;
pub mod databases;
pub mod directory;
pub mod fault;
pub mod flags;
pub mod inventory;
pub mod key;
mod layout;
pub mod pending;
pub mod pin;
mod preloaded;
#[cfg(not(any(feature = "pg15", feature = "pg16")))]
mod registry;
pub mod seat;
pub mod shared_name;
pub mod slices;
pub mod slot;
pub mod totals;
mod turnover;
pub mod wait_event;
pub mod workers;

use std::ffi::c_void;
use std::sync::atomic::{AtomicI64, AtomicPtr, AtomicU32, AtomicU64, Ordering::*};

use pgrx::pg_sys;
use pgrx::pg_sys::LWLockMode::{self, LW_EXCLUSIVE};
use pgrx::prelude::*;

use crate::errors::HiloError;
use crate::process::ffi;
use askers::AskerEntry;
use flags::Flags;
use pending::Pending;
use slices::{Backend, Slice};
use slot::{Guarded, Slot};
use wait_event::WaitEvent;
use workers::WorkerEntry;

/// Locks shared by the slots: enough that two busy sequences seldom share one.
pub const SLOT_LOCKS: usize = 256;
const LOCKS: usize = 3 + SLOT_LOCKS;

/// The head of hilo's shared memory.
#[repr(C, align(64))]
pub struct Control {
    /// The tranche of the locks. Written once.
    tranche: i32,
    /// Raised when a definition has changed, before its slot learns of it. So a session that looks
    /// up a name can tell that its answer is out of date.
    pub definitions: AtomicU64,
    /// 1: a session waits for a free slot. The worker sets it back to 0.
    pub slots_wanted: AtomicU32,
    /// How many slices are orphaned.
    pub orphans: AtomicU32,
    /// How many places of `Shared::pending` are to be written off.
    pub pending_dead: AtomicU32,
    /// Sessions that find no place wait here until a place that was to be written off is free.
    pub pending_freed: Condition,
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
    /// How often a request to a source may have been written down.
    pub source_requests: AtomicU64,
    /// Wakes the processes that ask the sources of sequences.
    pub source_wanted: Condition,
    /// The number of the last of these processes. Changed only under `workers`.
    asker_tickets: AtomicU64,
    turnover: turnover::Turnover,
}

/// A Postgres condition variable in shared memory.
#[repr(transparent)]
pub struct Condition(std::cell::UnsafeCell<pg_sys::ConditionVariable>);

// SAFETY: a spinlock inside it guards the ConditionVariable.
unsafe impl Sync for Condition {}

impl Condition {
    fn init(&self) {
        // SAFETY: called once, before any other process can see it.
        unsafe { pg_sys::ConditionVariableInit(self.0.get()) }
    }

    pub fn broadcast(&self) {
        // SAFETY: the variable was initialised with the memory.
        unsafe { pg_sys::ConditionVariableBroadcast(self.0.get()) }
    }

    /// Enters the queue, so that no broadcast from now on is missed.
    pub fn prepare(&self) {
        // SAFETY: as above.
        unsafe { pg_sys::ConditionVariablePrepareToSleep(self.0.get()) }
    }

    /// Sleeps until a broadcast, or for `ms` milliseconds. Interrupts are processed meanwhile.
    /// Returns whether there was a broadcast.
    pub fn sleep(&self, ms: i64, event: WaitEvent) -> bool {
        // SAFETY: as above.
        unsafe { !pg_sys::ConditionVariableTimedSleep(self.0.get(), ms.max(1), event.code()) }
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
    /// The slots that have a key. Changed only under `directory`.
    used: Flags,
    /// The slots where the worker has something to do. Who sets a flag anew wakes the worker. So of
    /// a thousand callers that want a block at the same time, one does.
    pub wanted: Flags,
    /// By the hash of a name: the number of the slot that may have its shared name, plus one.
    names: &'static [AtomicU32],
    pub workers: &'static [WorkerEntry],
    askers: &'static [AskerEntry],
    databases: &'static [databases::Database],
    pub backends: &'static [Backend],
    slices: &'static [Slice],
    pub pending: &'static [Pending],
    /// The places of `pending` that are allocated.
    pub pending_used: Flags,
    pub slices_per_backend: usize,
    entries: &'static [directory::Entry],
    buckets: &'static [AtomicU32],
    notes: &'static [turnover::Note],
    locks: *mut pg_sys::LWLockPadded,
}

// SAFETY: a process has one thread, and what this points to is guarded as the module header says.
unsafe impl Sync for Shared {}
// SAFETY: as above.
unsafe impl Send for Shared {}

/// If the library is preloaded, set by the postmaster and inherited by its children; set again when
/// the postmaster reinitializes after a crash. Else each process sets it when it needs it first.
static SHARED: AtomicPtr<Shared> = AtomicPtr::new(std::ptr::null_mut());

/// The memory, once this process has arrived in its database: see `databases`.
static ARRIVED: AtomicPtr<Shared> = AtomicPtr::new(std::ptr::null_mut());

/// hilo's shared memory for the use of this process's database, or the error that says how to set
/// it up.
#[inline]
pub fn get() -> Result<&'static Shared, HiloError> {
    // SAFETY: the pointer is null, or `keep` has leaked what it points to, so that is never freed.
    unsafe { ARRIVED.load(Relaxed).as_ref() }.map_or_else(first_use, Ok)
}

/// The memory, if this process knows where it is.
#[inline]
fn current() -> Option<&'static Shared> {
    // SAFETY: as above.
    unsafe { SHARED.load(Relaxed).as_ref() }
}

/// Finds the memory, and arrives in the database. Both can fail, so this is done within
/// transactions only. Code that runs at the end of a transaction or of the process finds no memory
/// unless the process has used it before. So a caller that will need it then uses it in time.
#[cold]
fn first_use() -> Result<&'static Shared, HiloError> {
    // SAFETY: reads the state of this backend.
    if !unsafe { pg_sys::IsTransactionState() } {
        return Err(HiloError::NotPreloaded);
    }
    let shared = attach()?;
    // A process without a database has nothing in memory.
    if ffi::database() != pg_sys::InvalidOid {
        databases::arrive(shared);
        ARRIVED.store(std::ptr::from_ref(shared).cast_mut(), Relaxed);
    }
    Ok(shared)
}

/// Refuses work that needs a worker in a process that can have none beside it.
///
/// # Errors
/// `SingleUser`
pub fn refuse_single_user() -> Result<(), HiloError> {
    // SAFETY: a static that is set when the process starts.
    if unsafe { pg_sys::IsUnderPostmaster } { Ok(()) } else { Err(HiloError::SingleUser) }
}

/// The memory, for data that belong to no database, or for a process that has arrived in its own.
///
/// # Errors
/// `NotPreloaded` where only a preloaded library can have memory.
pub fn attach() -> Result<&'static Shared, HiloError> {
    current().map_or_else(make_or_find, Ok)
}

#[cfg(not(any(feature = "pg15", feature = "pg16")))]
fn make_or_find() -> Result<&'static Shared, HiloError> {
    refuse_single_user()?;
    if is_alone() { Err(HiloError::NotPreloaded) } else { Ok(keep(registry::attach())) }
}

/// Whether this process has no others beside it, or pg_upgrade has started its server.
#[cfg(not(any(feature = "pg15", feature = "pg16")))]
fn is_alone() -> bool {
    // SAFETY: both are read by the one thread of this process.
    unsafe { pg_sys::IsBinaryUpgrade || !pg_sys::IsUnderPostmaster }
}

#[cfg(any(feature = "pg15", feature = "pg16"))]
fn make_or_find() -> Result<&'static Shared, HiloError> {
    Err(HiloError::NotPreloaded)
}

/// The memory, if it exists: for data that matter only to processes that use it. Within
/// transactions only. Where hilo is not preloaded, only the version of the library that asks first
/// may use it until the server restarts.
pub fn existing() -> Option<&'static Shared> {
    #[cfg(any(feature = "pg15", feature = "pg16"))]
    return current();
    #[cfg(not(any(feature = "pg15", feature = "pg16")))]
    current().or_else(|| if is_alone() { None } else { registry::find().map(keep) })
}

/// The version of a library that a process has loaded since the memory was made, and that cannot
/// use it. The files may have been replaced since then.
pub fn other_version() -> Option<String> {
    #[cfg(any(feature = "pg15", feature = "pg16"))]
    return None;
    #[cfg(not(any(feature = "pg15", feature = "pg16")))]
    registry::other_version()
}

/// Whether there is shared memory, or there can be when it is needed.
pub fn available() -> Result<(), HiloError> {
    match cfg!(any(feature = "pg15", feature = "pg16")) {
        true => get().map(|_| ()),
        false => Ok(()),
    }
}

/// Keeps where the memory is, for this process and its children.
fn keep(shared: Shared) -> &'static Shared {
    let shared = Box::leak(Box::new(shared));
    SHARED.store(shared, Relaxed);
    shared
}

/// An LWLock, held until this is dropped.
pub struct Lock(*mut pg_sys::LWLock);

impl Lock {
    fn new(lock: *mut pg_sys::LWLock, mode: LWLockMode::Type) -> Lock {
        // SAFETY: the lock is one of hilo's tranche, in shared memory.
        unsafe { pg_sys::LWLockAcquire(lock, mode) };
        Lock(lock)
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        // SAFETY: the lock was taken in `new`, and nothing under it raises an error, so it is still
        // held.
        unsafe { pg_sys::LWLockRelease(self.0) }
    }
}

impl Shared {
    fn lock_at(&self, index: usize, mode: LWLockMode::Type) -> Lock {
        debug_assert!(index < LOCKS);
        // SAFETY: `index` is less than LOCKS, and the tranche has LOCKS locks.
        Lock::new(unsafe { &raw mut (*self.locks.add(index)).lock }, mode)
    }

    fn lock_directory(&self, mode: LWLockMode::Type) -> Lock {
        self.lock_at(0, mode)
    }

    fn lock_workers(&self, mode: LWLockMode::Type) -> Lock {
        self.lock_at(1, mode)
    }

    /// A slot with its lock held.
    pub fn lock_slot(&'static self, number: usize) -> slot::Locked {
        let lock = self.lock_at(3 + number % SLOT_LOCKS, LW_EXCLUSIVE);
        slot::Locked::new(&self.slots[number], &self.guarded[number], lock)
    }

    pub fn number_of(&self, slot: &Slot) -> usize {
        (std::ptr::from_ref(slot) as usize - self.slots.as_ptr() as usize) / size_of::<Slot>()
    }
    /// Makes memory that is all zeros ready for use.
    fn fill(&self) {
        self.control.slot_freed.init();
        self.control.source_wanted.init();
        self.control.pending_freed.init();
        for (slot, guarded) in self.slots.iter().zip(self.guarded) {
            slot.init();
            guarded.init();
        }
    }
}

pub use preloaded::init;

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
