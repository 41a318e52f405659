//! The worker's end: on SIGTERM, between two transactions, it flushes what memory holds.
//!
//! When the server stops, its sessions are ended at the same time, and the worker waits until they
//! have returned what they hold. When only the worker is ended, another one follows it if there are
//! sessions or something is left in memory. Whatever fails here is left to that one.

use std::cell::Cell;
use std::time::{Duration, Instant};

use pgrx::pg_sys;
use pgrx::prelude::*;

use crate::backend::Global;
use crate::shared::workers::{Place, register};
use crate::shared::{self, databases};
use crate::worker::{Worker, transaction};

/// How long a stopping server's worker waits for the sessions to return their slices.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long a worker waits for the next one to start.
const SUCCESSION: Duration = Duration::from_secs(2);
const STEP: Duration = Duration::from_millis(5);

static PLACE: Global<Cell<Option<Place>>> = Global::new(Cell::new(None));

/// Has this process leave its place when it ends, for whatever reason.
pub fn init(place: Place) {
    PLACE.set(Some(place));
    // SAFETY: the callback only changes our own shared memory, under our own locks, which the
    // process can still take then.
    unsafe { pg_sys::before_shmem_exit(Some(at_exit), pg_sys::Datum::null()) }
}

#[pg_guard]
unsafe extern "C-unwind" fn at_exit(_code: i32, _arg: pg_sys::Datum) {
    if let (Ok(shared), Some(place)) = (shared::attach(), PLACE.take()) {
        shared.leave(place);
    }
}

impl Worker {
    /// Flushes everything and leaves.
    pub(super) fn end(mut self) {
        // A standby that does not answer must not hold up the end: if it misses what is flushed, it
        // only has a higher position. SAFETY: this is the variable behind the setting, written on
        // this process's one thread.
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
        let empty = self.adopt_leftovers(self.patience()) & self.evict_all();
        let needed = !empty || self.shared.sessions_in(self.database) > 0;
        // No other one can connect to a database that is being dropped.
        if needed && !is_stopping() && !databases::is_wanted() {
            self.hand_over();
        }
    }

    /// Registers the next worker and waits until it has started. If the server stops before that,
    /// this worker does the work of the next one.
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
