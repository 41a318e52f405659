//! Which worker serves which database, and how a session wakes or registers it.
//!
//! A place of the table is taken and left under the `workers` lock. A session that wants something
//! sets the slot's flag first and then looks for the worker; a worker that leaves does so under the
//! exclusive lock and looks at the flags once more, so no flag is left without a worker.

use std::sync::atomic::{AtomicI64, AtomicU32, Ordering::*};

use pgrx::pg_sys;

use super::{Condition, Shared};
use crate::ffi;

/// A place in the table of workers.
#[repr(C, align(64))]
pub struct Worker {
    /// 0: the place is free.
    database: AtomicU32,
    /// The worker's number among the processes plus one; 0: it has been registered and has not come
    /// up yet.
    process: AtomicU32,
    /// When it was registered, in microseconds, and for which database: both stay when it leaves.
    registered_at: AtomicI64,
    registered_for: AtomicU32,
    /// Tells who waits that a worker has come or gone.
    pub left: Condition,
}

/// What a session found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wake {
    /// The worker was woken, or is about to come up.
    Woken,
    /// There is none: the caller holds this place for the one that it registers now.
    Register(usize),
    /// There is none, and all places are taken.
    Full,
}

/// A worker that leaves sooner than this has failed to start: the next one is not registered before,
/// in microseconds.
const START_INTERVAL: i64 = 250_000;

/// A registered worker that has not shown itself after this long, in microseconds, never will.
const START_TIMEOUT: i64 = 2_000_000;

impl Shared {
    fn place_of(&self, database: u32) -> Option<usize> {
        self.workers.iter().position(|worker| worker.database.load(Relaxed) == database)
    }

    /// Wakes the worker of a database.
    pub fn wake(&self, database: pg_sys::Oid) -> Wake {
        let database = database.to_u32();
        {
            let _lock = self.lock_workers(false);
            if let Some(place) = self.place_of(database)
                && self.signal(place)
            {
                return Wake::Woken;
            }
        }
        let _lock = self.lock_workers(true);
        let now = ffi::now();
        let place = match self.place_of(database) {
            Some(place) if self.signal(place) => return Wake::Woken,
            Some(place) => place,
            None => match self.place_of(0) {
                Some(_) if self.has_just_failed(database, now) => return Wake::Woken,
                Some(place) => place,
                None => return Wake::Full,
            },
        };
        let worker = &self.workers[place];
        worker.process.store(0, Relaxed);
        worker.registered_at.store(now, Relaxed);
        worker.registered_for.store(database, Relaxed);
        worker.database.store(database, Relaxed);
        Wake::Register(place)
    }

    fn has_just_failed(&self, database: u32, now: i64) -> bool {
        self.workers.iter().any(|worker| {
            worker.registered_for.load(Relaxed) == database
                && now - worker.registered_at.load(Relaxed) < START_INTERVAL
        })
    }

    /// Wakes who holds the place. `false`: it has been registered and has not come in time.
    fn signal(&self, place: usize) -> bool {
        let worker = &self.workers[place];
        let process = worker.process.load(Acquire);
        if process == 0 {
            return ffi::now() - worker.registered_at.load(Relaxed) < START_TIMEOUT;
        }
        // SAFETY: a process's latch is in shared memory for good; at worst its next owner wakes for
        // nothing.
        unsafe {
            let proc = (*pg_sys::ProcGlobal).allProcs.add(process as usize - 1);
            ffi::set_latch(&raw mut (*proc).procLatch);
        }
        true
    }

    /// Wakes the worker of a database if there is one.
    pub fn nudge(&self, database: u32) {
        let _lock = self.lock_workers(false);
        if let Some(place) = self.place_of(database) {
            self.signal(place);
        }
    }

    /// Wakes all workers.
    pub fn nudge_all(&self) {
        let _lock = self.lock_workers(false);
        for place in 0..self.workers.len() {
            if self.workers[place].database.load(Relaxed) != 0 {
                self.signal(place);
            }
        }
    }

    /// The registration failed: the place is free again.
    pub fn unregister(&self, place: usize) {
        let _lock = self.lock_workers(true);
        let worker = &self.workers[place];
        if worker.process.load(Relaxed) == 0 {
            worker.database.store(0, Relaxed);
            worker.registered_for.store(0, Relaxed);
        }
    }

    /// This process serves `database` from now on. `None`: another does already.
    pub fn enter(&self, database: pg_sys::Oid, process: usize) -> Option<usize> {
        let _lock = self.lock_workers(true);
        let place = self.place_of(database.to_u32()).or_else(|| self.place_of(0))?;
        let worker = &self.workers[place];
        if worker.process.load(Relaxed) != 0 {
            return None;
        }
        worker.database.store(database.to_u32(), Relaxed);
        worker.process.store(process as u32 + 1, Release);
        Some(place)
    }

    /// This process serves its database no longer.
    pub fn leave(&self, place: usize, process: usize) {
        {
            let _lock = self.lock_workers(true);
            self.leave_locked(place, process);
        }
    }

    /// Leaves, unless one of `numbers` is wanted meanwhile. Whether it has left.
    pub fn leave_unless(&self, place: usize, process: usize, wanted: impl Fn() -> bool) -> bool {
        let _lock = self.lock_workers(true);
        if wanted() || self.has_request_locked(self.workers[place].database.load(Relaxed)) {
            return false;
        }
        self.leave_locked(place, process);
        true
    }

    fn leave_locked(&self, place: usize, process: usize) {
        let worker = &self.workers[place];
        if worker.process.load(Relaxed) == process as u32 + 1 {
            worker.process.store(0, Relaxed);
            worker.database.store(0, Relaxed);
        }
    }
}
