//! The databases that have something in memory, and which of them memory belongs to.
//!
//! Everything in memory names its database by the OID alone. `DROP DATABASE` and `CREATE DATABASE …
//! OID` can give that to another database. A copy by TEMPLATE has all else of the original: ids,
//! epochs, positions. So memory has a *life* for each database: a random number, which the catalog
//! has wherever it says that memory holds something (`incarnation`). A process arrives in its
//! database before it uses the memory, and finds the life there. From then until its exit it counts
//! as inside. A process that arrives uses the memory that is there if this is certainly the memory
//! of its own database:
//!
//! * Another process is inside. It marks itself after it has connected, and takes the mark away
//!   before it disconnects. Nobody can drop a database that a process is connected to. So whoever
//!   sees the mark is connected to the same database.
//! * Or the database's row of pg_database is still the version that was seen last. No other version
//!   has its `xmin`, unless the numbers of transactions have come round since. The number is no
//!   longer trusted when half of them have.
//!
//! Otherwise nothing of the memory is used: it is freed, and a new life begins. If the database
//! was only altered, the ranges of the old life become gaps, as after a crash. That is rare: the
//! last process to leave flushes what memory has.
//!
//! A session that drops a database frees its memory at the commit. By then no process is connected
//! to the database, and none can be before the session has released its lock. Nobody learns of a
//! drop by a session that has not loaded the library. Whoever needs room asks which databases
//! exist.

use std::cell::Cell;
use std::sync::atomic::{AtomicI64, AtomicU32, AtomicU64, Ordering::*};

use pgrx::pg_sys;
use pgrx::pg_sys::LWLockMode::LW_EXCLUSIVE;
use pgrx::prelude::*;

use crate::backend::Global;
use crate::process::ffi;
use crate::shared::slices::my_number;
use crate::shared::{self, Lock, Shared, random_id};

/// A place in the table of databases. Read and written under `databases`.
#[repr(C)]
pub struct Database {
    /// 0: the place is free.
    oid: AtomicU32,
    /// The `xmin` of its row when it was seen last, and the number that the next transaction had.
    row: AtomicU32,
    seen_at: AtomicU64,
    life: AtomicI64,
}

/// How many places there are beside those for as many databases as can have processes.
pub const SPARE: usize = 4096;

/// The row of this process's database.
struct Seen {
    oid: u32,
    row: u32,
    next: u64,
}

impl Seen {
    /// Looks at pg_database within a transaction. A process sees a version of the very database
    /// that it is connected to, if not always the newest.
    fn now() -> Seen {
        let oid = ffi::database();
        // SAFETY: the catalog look-up runs inside a transaction, and the tuple is released.
        let (row, next) = unsafe {
            let cache = pg_sys::SysCacheIdentifier::DATABASEOID as _;
            let tuple = pg_sys::SearchSysCache1(cache, oid.into());
            if tuple.is_null() {
                error!("cache lookup failed for database {}", oid.to_u32());
            }
            let row = (*(*tuple).t_data).t_choice.t_heap.t_xmin;
            pg_sys::ReleaseSysCache(tuple);
            (row, pg_sys::ReadNextFullTransactionId().value)
        };
        Seen { oid: oid.to_u32(), row: row.into(), next }
    }
}

impl Database {
    fn is_same(&self, seen: &Seen) -> bool {
        const TRUSTED: u64 = 1 << 31;
        let begun_since = seen.next.saturating_sub(self.seen_at.load(Relaxed));
        self.row.load(Relaxed) == seen.row && begun_since < TRUSTED
    }

    fn see(&self, seen: &Seen) {
        self.oid.store(seen.oid, Relaxed);
        self.row.store(seen.row, Relaxed);
        self.seen_at.store(seen.next, Relaxed);
    }
}

/// The life of memory in this process's database; 0: it has not arrived.
static LIFE: AtomicI64 = AtomicI64::new(0);

/// Runs at the exit of a process that has arrived, before it leaves.
static BEFORE_LEAVING: Global<Cell<Option<AtExit>>> = Global::new(Cell::new(None));

type AtExit = unsafe extern "C-unwind" fn(i32, pg_sys::Datum);

/// Makes a function of a higher module run at the exit of each process that has arrived, while it
/// is still inside. Called when the library is loaded.
pub fn before_leaving(callback: AtExit) {
    BEFORE_LEAVING.set(Some(callback));
}

/// Counts this process as inside its database, until its exit. Called within a transaction, before
/// the process uses anything of its database in memory.
pub(super) fn arrive(shared: &'static Shared) {
    let seen = Seen::now();
    // Callbacks run in the opposite order: what the process holds is returned before it leaves. It
    // leaves even if that fails.
    for callback in [Some(leave as AtExit), BEFORE_LEAVING.get()] {
        // SAFETY: the functions are of this library, which stays loaded.
        unsafe { pg_sys::before_shmem_exit(callback, pg_sys::Datum::null()) };
    }
    LIFE.store(shared.life_of(&seen), Relaxed);
}

/// Runs while the process is still connected.
#[pg_guard]
unsafe extern "C-unwind" fn leave(_code: i32, _arg: pg_sys::Datum) {
    if let Ok(shared) = shared::attach() {
        shared.backends[my_number()].inside.store(0, Release);
    }
}

/// Whether a transaction keeps everybody from connecting to this database: it drops, renames, moves
/// or copies it, and may wait until nobody is connected.
pub fn is_wanted() -> bool {
    let tag = pg_sys::LOCKTAG {
        locktag_field1: 0,
        locktag_field2: pg_sys::DatabaseRelationId.to_u32(),
        locktag_field3: ffi::database().to_u32(),
        locktag_field4: 0,
        locktag_type: pg_sys::LockTagType::LOCKTAG_OBJECT as u8,
        locktag_lockmethodid: pg_sys::DEFAULT_LOCKMETHOD as u8,
    };
    let mut holders = 0;
    // SAFETY: it reads the lock table, and returns memory of the current context. A connection to a
    // database begins with this lock.
    unsafe {
        let mode = pg_sys::RowExclusiveLock as i32;
        pg_sys::pfree(pg_sys::GetLockConflicts(&tag, mode, &mut holders).cast());
    }
    holders > 0
}

/// Whether there is a database with this OID. Called within a transaction, and under none of our
/// locks.
pub fn exists(database: u32) -> bool {
    let none = pg_sys::Datum::null();
    // SAFETY: a look-up in the catalog.
    unsafe {
        pg_sys::SearchSysCacheExists(
            pg_sys::SysCacheIdentifier::DATABASEOID as _,
            pg_sys::Oid::from_u32(database).into(),
            none,
            none,
            none,
        )
    }
}

impl Shared {
    /// The id of this life of the memory in the catalog of this database: `incarnation` has it
    /// where this life has reserved. No other database has the same, not even a copy.
    pub fn life(&self) -> i64 {
        let life = LIFE.load(Relaxed);
        debug_assert!(life != 0);
        life
    }

    fn lock_databases(&self) -> Lock {
        self.lock_at(2, LW_EXCLUSIVE)
    }

    fn is_inside(&self, database: u32) -> bool {
        self.backends.iter().any(|backend| backend.inside.load(Acquire) == database)
    }

    /// Enters this process's database, and returns the life that memory has there.
    fn life_of(&'static self, seen: &Seen) -> i64 {
        let _lock = self.lock_databases();
        let known = self.databases.iter().find(|known| known.oid.load(Relaxed) == seen.oid);
        let same = known.filter(|place| place.is_same(seen) || self.is_inside(seen.oid));
        let place = same.unwrap_or_else(|| {
            // A random number costs a new process more than all else here.
            let life = random_id();
            let place = known.unwrap_or_else(|| self.place_for_database());
            self.forget(seen.oid);
            place.life.store(life, Relaxed);
            place
        });
        place.see(seen);
        self.backends[my_number()].inside.store(seen.oid, Release);
        place.life.load(Relaxed)
    }

    /// A free place. If there is none, a database without processes loses its place. It is
    /// the first that has nothing in memory, or else the first. There is one, since there are more
    /// places than processes.
    fn place_for_database(&'static self) -> &'static Database {
        let oid = |place: &Database| place.oid.load(Relaxed);
        if let Some(free) = self.databases.iter().find(|place| oid(place) == 0) {
            return free;
        }
        let deserted = || self.databases.iter().filter(|place| !self.is_inside(oid(place)));
        let empty = deserted().find(|place| !self.is_in_memory(oid(place)));
        let place = empty.or_else(|| deserted().next()).expect("there are more than processes");
        self.forget(oid(place));
        place
    }

    /// Frees the memory of a database that was dropped. If a process is inside, the database is
    /// another one with the same OID, and has its own memory.
    pub fn forget_deserted(&'static self, database: u32) {
        let _lock = self.lock_databases();
        if self.is_inside(database) {
            return;
        }
        let places = self.databases.iter().filter(|known| known.oid.load(Relaxed) == database);
        places.for_each(|place| place.oid.store(0, Relaxed));
        self.forget(database);
    }

    /// Frees the memory of a database. The caller has locked `databases`, and no process is inside,
    /// so none uses it or waits for it.
    fn forget(&'static self, database: u32) {
        self.free_all(database);
        self.orphans()
            .filter(|slice| slice.index_space().key.database == database)
            .for_each(|slice| self.adopt(slice));
        self.free_pending_of(database);
        self.unregister_all(database);
        if self.control.slots_wanted.swap(0, AcqRel) != 0 {
            self.control.slot_freed.broadcast();
        }
    }
}
