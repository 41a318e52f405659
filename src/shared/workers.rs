//! Which worker serves which database, and how a session wakes or registers it.
//!
//! A place of the table is taken and left under the `workers` lock. A session that wants something
//! sets the slot's flag first and then looks for the worker. A worker that leaves does so under the
//! exclusive lock and looks at the flags once more, so no flag is left without a worker.
//!
//! Each worker has a *generation*, higher than that of every worker before it. A slot knows the
//! generation that acts for it, and a worker with a lower generation changes nothing there any
//! more.
//!
//! All times here are of the monotonic clock, and are used only to tell how long ago something
//! happened.

use std::ffi::c_char;
use std::sync::atomic::{AtomicI64, AtomicU32, AtomicU64, Ordering::*};

use pgrx::pg_sys;
use pgrx::pg_sys::LWLockMode::{LW_EXCLUSIVE, LW_SHARED};

use hilo_core::numbers::{Micros, Monotonic, Timestamp};

use crate::process::ffi;
use crate::shared::Shared;
use crate::shared::seat::Seat;

/// An entry in the table of workers, which a worker holds from its registration to its end.
#[repr(C, align(64))]
pub struct WorkerEntry {
    /// 0: the place is free.
    database: AtomicU32,
    seat: Seat,
    generation: AtomicU64,
    /// For which database the worker was registered. It stays when the worker leaves.
    registered_for: AtomicU32,
    /// When a worker last left the place.
    left_at: AtomicI64,
    /// When it was first woken since it last looked at the flags; 0: not since then.
    woken_at: AtomicI64,
    /// How many sessions have ended that the worker of this place was told of.
    departures: AtomicU64,
    /// The `due_at` (microseconds since 2000) of the first lease that the worker does not know of;
    /// 0: there is none. One for each field of [`LeaseNews`].
    leases_due: [AtomicI64; 2],
}

/// Leases that a worker is told of, by their `due_at`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LeaseNews {
    /// The first of those that have ended.
    pub ended: Option<Timestamp>,
    /// The first of those that expire.
    pub expires: Option<Timestamp>,
}

impl LeaseNews {
    /// Both together: the earlier time of each kind.
    pub fn and(self, other: LeaseNews) -> LeaseNews {
        let first = |one: Option<_>, other| [one, other].into_iter().flatten().min();
        LeaseNews {
            ended: first(self.ended, other.ended),
            expires: first(self.expires, other.expires),
        }
    }
}

/// The result of [`Shared::wake`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wake {
    /// The worker was woken, or is about to start.
    Woken,
    /// There is no worker: the caller holds this place for the one that it registers now.
    Register(usize),
    /// There is no worker, and all places are taken or it is the turn of another database.
    Full,
}

/// The place of a worker that has started.
#[derive(Clone, Copy, Debug)]
pub struct Place {
    at: usize,
    pub generation: u64,
}

/// In microseconds. A worker that leaves sooner than this has failed to start; the next one is not
/// registered earlier.
const START_INTERVAL: Micros = Micros(250_000);

impl Shared {
    fn place_of(&self, database: u32) -> Option<usize> {
        self.workers.iter().position(|worker| worker.database.load(Relaxed) == database)
    }

    /// A place that no worker holds, or whose worker has not started in time or has died.
    fn free_place(&self) -> Option<usize> {
        self.place_of(0).or_else(|| {
            self.workers.iter().position(|worker| worker.seat.is_missing() || worker.seat.is_dead())
        })
    }

    /// Wakes the worker of a database.
    pub fn wake(&self, database: pg_sys::Oid) -> Wake {
        let database = database.to_u32();
        {
            let _lock = self.lock_workers(LW_SHARED);
            if let Some(place) = self.place_of(database)
                && self.signal(place)
            {
                return Wake::Woken;
            }
        }
        let _lock = self.lock_workers(LW_EXCLUSIVE);
        let place = match self.place_of(database) {
            Some(place) if self.signal(place) => return Wake::Woken,
            Some(place) => place,
            // Its turn has ended.
            None if self.is_contended() && self.was_just_now(database, |of| &of.left_at) => {
                return Wake::Full;
            }
            None if self.was_just_now(database, |of| &of.seat.registered_at) => return Wake::Woken,
            None => match self.free_place() {
                Some(place) => place,
                None => return Wake::Full,
            },
        };
        self.hold(place, database);
        Wake::Register(place)
    }

    fn hold(&self, place: usize, database: u32) {
        let worker = &self.workers[place];
        worker.seat.hold();
        worker.registered_for.store(database, Relaxed);
        worker.database.store(database, Relaxed);
    }

    /// Whether a worker was registered for a database just now, or left it.
    fn was_just_now(&self, database: u32, at: impl Fn(&WorkerEntry) -> &AtomicI64) -> bool {
        let now = ffi::monotonic();
        self.workers.iter().any(|worker| {
            worker.registered_for.load(Relaxed) == database
                && now.since(Monotonic(at(worker).load(Relaxed))) < START_INTERVAL
        })
    }

    /// Whether a session has lately found no place for its database's worker.
    fn is_contended(&self) -> bool {
        const LATELY: Micros = Micros(1_000_000);
        let wanted_at = self.control.workers_wanted_at.load(Relaxed);
        wanted_at != 0 && ffi::monotonic().since(Monotonic(wanted_at)) < LATELY
    }

    /// Whether a session of another database than this one has found no place. While it waits, it
    /// repeats that.
    pub fn is_contended_by_others(&self, database: pg_sys::Oid) -> bool {
        self.is_contended() && self.control.worker_wanted_by.load(Relaxed) != database.to_u32()
    }

    /// Wakes the worker that holds the place. `false`: it has been registered and has not started
    /// in time, or it has died.
    fn signal(&self, place: usize) -> bool {
        let WorkerEntry { seat, woken_at, .. } = &self.workers[place];
        if !seat.has_started() {
            return !seat.is_missing();
        }
        let runs = !seat.is_dead();
        if runs {
            if woken_at.load(Relaxed) == 0 {
                woken_at.store(ffi::monotonic().0, Relaxed);
            }
            seat.wake();
        }
        runs
    }

    /// Notes that a worker is about to look at the flags.
    pub fn answer(&self, place: Place) {
        self.workers[place.at].woken_at.store(0, Relaxed);
    }

    /// The process that is the worker of a database, and how long ago it was woken without having
    /// looked since; `None` if it has.
    pub fn unanswered(&self, database: pg_sys::Oid) -> Option<(u32, Micros)> {
        let _lock = self.lock_workers(LW_SHARED);
        let worker = &self.workers[self.place_of(database.to_u32())?];
        let pid = worker.seat.pid().filter(|_| !worker.seat.is_dead())?;
        let woken_at = Monotonic(worker.woken_at.load(Relaxed));
        (woken_at.0 != 0).then(|| (pid, ffi::monotonic().since(woken_at)))
    }

    /// Wakes the worker of a database, if there is one.
    pub fn wake_worker(&self, database: u32) {
        let _lock = self.lock_workers(LW_SHARED);
        if let Some(place) = self.place_of(database) {
            self.signal(place);
        }
    }

    /// Whether the process of a database's worker has started and has not ended. It may not be
    /// connected to the database yet.
    pub fn has_worker_process(&self, database: pg_sys::Oid) -> bool {
        let _lock = self.lock_workers(LW_SHARED);
        self.place_of(database.to_u32()).is_some_and(|place| self.workers[place].seat.is_running())
    }

    /// Tells the worker of a database, if there is one, that a session has ended. Returns whether
    /// there is.
    pub fn depart(&self, database: u32) -> bool {
        let _lock = self.lock_workers(LW_SHARED);
        self.place_of(database).is_some_and(|place| {
            self.workers[place].departures.fetch_add(1, Release);
            self.signal(place)
        })
    }

    /// Tells the worker of a database of leases, if there is one. Returns whether there is a
    /// worker.
    pub fn tell_of_leases(&self, database: u32, news: LeaseNews) -> bool {
        let _lock = self.lock_workers(LW_SHARED);
        self.place_of(database).is_some_and(|place| {
            let told = &self.workers[place].leases_due;
            for (told, at) in told.iter().zip([news.ended, news.expires]) {
                let Some(Timestamp(at)) = at else { continue };
                let earlier = |known: i64| (known == 0 || at < known).then_some(at);
                let _ = told.fetch_update(AcqRel, Relaxed, earlier);
            }
            self.signal(place)
        })
    }

    /// The leases that the worker was told of since the last call.
    pub fn take_lease_news(&self, place: Place) -> LeaseNews {
        let [ended, expires] = [0, 1].map(|which: usize| {
            let at = self.workers[place.at].leases_due[which].swap(0, AcqRel);
            (at != 0).then_some(Timestamp(at))
        });
        LeaseNews { ended, expires }
    }

    /// How many sessions have ended, as far as the worker was told.
    pub fn departures(&self, place: Place) -> u64 {
        self.workers[place.at].departures.load(Acquire)
    }

    /// Wakes all workers.
    pub fn wake_all_workers(&self) {
        let _lock = self.lock_workers(LW_SHARED);
        for place in 0..self.workers.len() {
            if self.workers[place].database.load(Relaxed) != 0 {
                self.signal(place);
            }
        }
    }

    /// Frees the place of a worker whose registration failed.
    pub fn unregister(&self, place: usize) {
        let _lock = self.lock_workers(LW_EXCLUSIVE);
        let worker = &self.workers[place];
        if !worker.seat.has_started() {
            worker.database.store(0, Relaxed);
            worker.registered_for.store(0, Relaxed);
        }
    }

    /// Frees the place of a worker that was registered for a database and has not started. If it
    /// starts, it takes another place.
    pub(super) fn unregister_all(&self, database: u32) {
        let _lock = self.lock_workers(LW_EXCLUSIVE);
        for worker in self.workers {
            if worker.database.load(Relaxed) == database && !worker.seat.has_started() {
                worker.database.store(0, Relaxed);
            }
        }
    }

    /// Makes this process the worker of `database` from now on. `None`: it has another one, or no
    /// place is free.
    pub fn enter(&self, database: pg_sys::Oid, process: usize) -> Option<Place> {
        let _lock = self.lock_workers(LW_EXCLUSIVE);
        let at = self.place_of(database.to_u32()).or_else(|| self.free_place())?;
        let worker = &self.workers[at];
        if worker.seat.is_running() {
            return None;
        }
        let generation = self.control.generations.fetch_add(1, Relaxed) + 1;
        worker.generation.store(generation, Relaxed);
        worker.database.store(database.to_u32(), Relaxed);
        worker.woken_at.store(0, Relaxed);
        worker.seat.enter(process);
        Some(Place { at, generation })
    }

    /// Ends this worker's service of its database. Does nothing if it has left before.
    pub fn leave(&self, place: Place) {
        let _lock = self.lock_workers(LW_EXCLUSIVE);
        self.leave_locked(place);
    }

    /// Leaves, unless something is wanted meanwhile. Returns whether it has left.
    pub fn leave_unless(&self, place: Place, wanted: impl Fn() -> bool) -> bool {
        let _lock = self.lock_workers(LW_EXCLUSIVE);
        if wanted() {
            return false;
        }
        self.leave_locked(place);
        true
    }

    /// Leaves, and holds the place for the next worker.
    pub fn hand_over(&self, place: Place) -> usize {
        let _lock = self.lock_workers(LW_EXCLUSIVE);
        let database = self.workers[place.at].database.load(Relaxed);
        self.leave_locked(place);
        self.hold(place.at, database);
        place.at
    }

    /// Whether a place that was handed over still waits for its worker.
    pub fn is_awaited(&self, at: usize, database: pg_sys::Oid) -> bool {
        let _lock = self.lock_workers(LW_SHARED);
        let worker = &self.workers[at];
        worker.database.load(Relaxed) == database.to_u32() && !worker.seat.has_started()
    }

    fn leave_locked(&self, place: Place) {
        let worker = &self.workers[place.at];
        if worker.generation.load(Relaxed) == place.generation {
            worker.seat.leave();
            worker.database.store(0, Relaxed);
            worker.generation.store(0, Relaxed);
            worker.left_at.store(ffi::monotonic().0, Relaxed);
        }
    }
}

/// Registers the worker of a database. `false`: the server has no room for another background
/// worker.
pub fn register(database: pg_sys::Oid) -> bool {
    let mut worker = registration(database, "hilo worker", "hilo_worker_main");
    // SAFETY: `worker` is filled in above, and no handle is asked for.
    unsafe { pg_sys::RegisterDynamicBackgroundWorker(&mut worker, std::ptr::null_mut()) }
}

/// The registration of a background process in a database, which begins with `function`.
/// pg_stat_activity shows its `kind`.
pub fn registration(database: pg_sys::Oid, kind: &str, function: &str) -> pg_sys::BackgroundWorker {
    let mut worker = pg_sys::BackgroundWorker {
        bgw_flags: (pg_sys::BGWORKER_SHMEM_ACCESS | pg_sys::BGWORKER_BACKEND_DATABASE_CONNECTION)
            as i32,
        bgw_start_time: pg_sys::BgWorkerStartTime::BgWorkerStart_RecoveryFinished,
        bgw_restart_time: pg_sys::BGW_NEVER_RESTART,
        bgw_main_arg: database.into(),
        ..Default::default()
    };
    write(&mut worker.bgw_name, &format!("{kind} for database {}", database.to_u32()));
    write(&mut worker.bgw_type, kind);
    write(&mut worker.bgw_library_name, "hilo");
    write(&mut worker.bgw_function_name, function);
    worker
}

fn write(field: &mut [c_char], text: &str) {
    debug_assert!(text.len() < field.len());
    for (to, from) in field.iter_mut().zip(text.bytes()) {
        *to = from as c_char;
    }
}
