//! The worker's end, whatever brings it: what the pools hold goes back to the catalog.
//!
//! It runs as an exit callback, where interrupts are held, as core cleans up temporary tables.

use std::cell::Cell;
use std::time::{Duration, Instant};

use pgrx::pg_sys;
use pgrx::prelude::*;

use super::{Worker, put_back};
use crate::session::Global;
use crate::shared;

/// How long a stopping server waits for the sessions to give back their slices.
const PATIENCE: Duration = Duration::from_secs(10);

static PLACE: Global<Cell<Option<(usize, usize)>>> = Global::new(Cell::new(None));

/// Registers the callback.
pub fn init(place: usize, process: usize) {
    PLACE.set(Some((place, process)));
    // SAFETY: runs before core's own clean-up, while transactions still work.
    unsafe { pg_sys::before_shmem_exit(Some(at_exit), pg_sys::Datum::null()) }
}

#[pg_guard]
unsafe extern "C-unwind" fn at_exit(_code: i32, _arg: pg_sys::Datum) {
    let (Ok(shared), Some((place, process))) = (shared::get(), PLACE.take()) else { return };
    // SAFETY: a static of this process; set once connected.
    let database = unsafe { pg_sys::MyDatabaseId };
    if database != pg_sys::InvalidOid {
        // SAFETY: as core's RemoveTempRelationsCallback does first.
        unsafe { pg_sys::AbortOutOfAnyTransaction() };
        // A silent standby must not hold up the end, where nothing cuts that wait short: one that
        // misses what is put back has only the higher position.
        // SAFETY: the variable behind the setting, on this process's one thread.
        unsafe {
            pg_sys::synchronous_commit =
                pg_sys::SyncCommitLevel::SYNCHRONOUS_COMMIT_LOCAL_FLUSH as i32
        };
        let mut worker = Worker::new(shared, database, place, process);
        put_back::rescue(shared);
        let (stopping, began) = (is_stopping(), Instant::now());
        while stopping && shared.sessions_in(database) > 0 && began.elapsed() < PATIENCE {
            worker.make_way();
            // SAFETY: sleeps two milliseconds; interrupts are held in an exit callback.
            unsafe { pg_sys::pg_usleep(2_000) };
        }
        worker.put_back_all();
    }
    shared.leave(place, process);
}

/// Whether the postmaster has begun to shut down: it says so in the last line of its lock file.
fn is_stopping() -> bool {
    std::fs::read_to_string("postmaster.pid")
        .is_ok_and(|file| file.lines().last().is_some_and(|line| line.trim() == "stopping"))
}
