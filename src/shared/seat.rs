//! A place for a background process in shared memory, from its registration to its end.
//!
//! All times here are of the monotonic clock, and are used only to tell how long ago something
//! happened.

use std::sync::atomic::{AtomicI64, AtomicU32, Ordering::*};

use pgrx::pg_sys;

use hilo_core::numbers::{Micros, Monotonic};

use crate::process::ffi;

/// Changed only under the `workers` lock.
#[repr(C)]
pub struct Seat {
    /// The process's number among the processes plus one; 0: it has been registered and has not
    /// started yet.
    process: AtomicU32,
    /// The pid of that process, which tells it from a later one with the same number.
    pid: AtomicU32,
    /// When it was registered, in microseconds. It stays when the process leaves.
    pub registered_at: AtomicI64,
}

/// A registered process that has not started after this time never will.
const START_TIMEOUT: Micros = Micros(2_000_000);

impl Seat {
    /// Holds the place for a process that is about to be registered.
    pub fn hold(&self) {
        self.process.store(0, Relaxed);
        self.registered_at.store(ffi::monotonic().0, Relaxed);
    }

    /// Makes this process, which has that number, the holder of this place. Whoever sees it there
    /// also sees everything that was written before.
    pub fn enter(&self, process: usize) {
        self.pid.store(std::process::id(), Relaxed);
        self.process.store(process as u32 + 1, Release);
    }

    pub fn leave(&self) {
        self.process.store(0, Relaxed);
    }

    /// Whether the process has started.
    pub fn has_started(&self) -> bool {
        self.process.load(Acquire) != 0
    }

    /// Whether the process has started and has not ended.
    pub fn is_running(&self) -> bool {
        self.has_started() && !self.is_dead()
    }

    /// The pid of the process, if it has started.
    pub fn pid(&self) -> Option<u32> {
        self.has_started().then(|| self.pid.load(Relaxed))
    }

    /// Whether the process has been registered and has not started in time.
    pub fn is_missing(&self) -> bool {
        !self.has_started()
            && ffi::monotonic().since(Monotonic(self.registered_at.load(Relaxed))) >= START_TIMEOUT
    }

    /// The process, if it has started.
    pub fn proc(&self) -> Option<*mut pg_sys::PGPROC> {
        let process = self.process.load(Acquire).checked_sub(1)?;
        // SAFETY: the array of processes stays in place while the server runs, and `process` is the
        // number of one of them.
        Some(unsafe { (*pg_sys::ProcGlobal).allProcs.add(process as usize) })
    }

    /// Wakes the process, if it has started.
    pub fn wake(&self) {
        if let Some(proc) = self.proc() {
            // SAFETY: a process's latch stays in shared memory while the server runs; at worst its
            // next owner wakes without a reason.
            unsafe { ffi::set_latch(&raw mut (*proc).procLatch) };
        }
    }

    /// Whether the process has ended without leaving.
    pub fn is_dead(&self) -> bool {
        // SAFETY: as above; the pid is one word, which is read as a whole.
        self.proc().is_some_and(|proc| unsafe {
            (&raw const (*proc).pid).read_volatile() as u32 != self.pid.load(Relaxed)
        })
    }
}
