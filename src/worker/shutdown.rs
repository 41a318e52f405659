//! The worker's end: on SIGTERM, between two transactions, what memory holds goes to the catalog.
//!
//! When the server stops its sessions are ended at the same time, and the worker waits until they have
//! given back. When it alone is ended, another worker comes after it, where sessions are there or
//! something is left in memory: what fails here is that one's to do.

use std::cell::Cell;
use std::time::{Duration, Instant};

use pgrx::pg_sys;
use pgrx::prelude::*;

use super::{Worker, transaction};
use crate::backend::Global;
use crate::shared;
use crate::shared::workers::{Place, register};

/// How long a stopping server's worker waits for the sessions to give back their slices.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long a worker waits for the one that comes after it.
const SUCCESSION: Duration = Duration::from_secs(2);
const STEP: Duration = Duration::from_millis(5);

static PLACE: Global<Cell<Option<Place>>> = Global::new(Cell::new(None));

/// Has this process leave its place at its end, whatever brings that.
pub fn init(place: Place) {
    PLACE.set(Some(place));
    // SAFETY: the callback only changes our own shared memory, under our own locks.
    unsafe { pg_sys::before_shmem_exit(Some(at_exit), pg_sys::Datum::null()) }
}

#[pg_guard]
unsafe extern "C-unwind" fn at_exit(_code: i32, _arg: pg_sys::Datum) {
    if let (Ok(shared), Some(place)) = (shared::get(), PLACE.take()) {
        shared.leave(place);
    }
}

impl Worker {
    /// Puts all away and leaves.
    pub(super) fn end(mut self) {
        // A silent standby must not hold up the end: one that misses what is put away has only the
        // higher position.
        // SAFETY: the variable behind the setting, on this process's one thread.
        unsafe {
            pg_sys::synchronous_commit =
                pg_sys::SyncCommitLevel::SYNCHRONOUS_COMMIT_LOCAL_FLUSH as i32
        };
        transaction::begin_end();
        let began = Instant::now();
        while is_stopping()
            && self.shared.sessions_in(self.database) > 0
            && began.elapsed() < PATIENCE
        {
            self.nap(Some(STEP));
        }
        let empty = self.adopt_orphans() & self.evict_all();
        let needed = !empty || self.shared.sessions_in(self.database) > 0;
        if needed && !is_stopping() {
            self.hand_over();
        }
    }

    /// Brings the worker that comes next. Should the server be stopped before that has come, its work is
    /// still this one's.
    fn hand_over(mut self) {
        let at = self.shared.hand_over(self.place);
        if !register(self.database) {
            return self.shared.unregister(at);
        }
        let began = Instant::now();
        while self.shared.is_awaited(at, self.database) && began.elapsed() < SUCCESSION {
            if is_stopping() {
                let process = crate::shared::slices::my_number();
                let Some(place) = self.shared.enter(self.database, process) else { return };
                PLACE.set(Some(place));
                self.place = place;
                return self.end();
            }
            self.nap(Some(STEP));
        }
    }
}

/// Whether the postmaster has begun to shut down: it says so in the last line of its lock file.
fn is_stopping() -> bool {
    std::fs::read_to_string("postmaster.pid")
        .is_ok_and(|file| file.lines().last().is_some_and(|line| line.trim() == "stopping"))
}
