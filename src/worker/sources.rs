//! Sees to it that a process makes the requests that are in the catalog, for each owner whose
//! sequences wait for their sources.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use pgrx::pg_sys;
use pgrx::prelude::*;

use crate::errors::FaultKind;
use crate::process::ffi;
use crate::shared::askers::{Hold, Owner, Ticket};
use crate::shared::fault::Fault;
use crate::shared::key::Key;
use crate::shared::workers;
use crate::worker::Worker;

/// A source that has been asked: a request is in the catalog.
pub struct Asks {
    pub owner: Owner,
    pub key: Key,
    /// How long the request rests, since it has failed.
    pub rests: Duration,
}

/// The owners with requests, until a process of theirs has nothing to ask.
#[derive(Default)]
pub struct Askers(HashMap<Owner, Wait>);

struct Wait {
    since: Instant,
    /// When to look whether there is a process.
    at: Instant,
    registered_at: Option<Instant>,
    /// Whether there was no place for a process.
    is_full: bool,
}

/// A process that ends sooner than this has failed; the next one is not registered earlier.
const START_INTERVAL: Duration = Duration::from_millis(250);
/// How often an owner's processes are looked at.
const LOOK: Duration = Duration::from_millis(100);

impl Wait {
    fn due(&self) -> Instant {
        self.registered_at.map_or(self.at, |at| self.at.max(at + START_INTERVAL))
    }
}

impl Askers {
    /// How long until the next look.
    pub fn next(&self) -> Option<Duration> {
        self.0.values().map(|wait| wait.due().saturating_duration_since(Instant::now())).min()
    }
}

impl Worker {
    /// Makes sure that a process makes a request that is in the catalog.
    pub(super) fn ask(&mut self, asks: Asks) {
        let Asks { owner, key, rests } = asks;
        let now = Instant::now();
        let at = now + rests;
        let new = Wait { since: now, at, registered_at: None, is_full: false };
        let wait = self.askers.0.entry(owner).or_insert(new);
        wait.at = wait.at.min(at);
        self.shared.wake_askers();
        self.find_askers();
        if self.askers.0.get(&owner).is_some_and(|wait| wait.is_full) {
            let code = PgSqlErrorCode::ERRCODE_CONFIGURATION_LIMIT_EXCEEDED as i32;
            let message =
                "no background worker is free to ask its source: raise max_worker_processes";
            let fault = Fault::new(code, FaultKind::Other, message, ffi::now());
            self.shared.note_source_failure(&key, fault, false);
        }
    }

    /// Sees to the owners who have no process, those first who have waited longest.
    pub(super) fn find_askers(&mut self) {
        let now = Instant::now();
        let due = self.askers.0.iter().filter(|(_, wait)| wait.due() <= now);
        let mut due: Vec<_> = due.map(|(owner, wait)| (wait.since, *owner)).collect();
        due.sort_unstable_by_key(|(since, _)| *since);
        for (_, owner) in due {
            let hold = self.shared.hold_asker(owner);
            let Some(wait) = self.askers.0.get_mut(&owner) else { continue };
            (wait.at, wait.is_full) = (now + LOOK, false);
            match hold {
                Hold::Rests => _ = self.askers.0.remove(&owner),
                Hold::Busy => {}
                Hold::Register(ticket) if register(self.database, ticket) => {
                    wait.registered_at = Some(now);
                }
                Hold::Register(ticket) => {
                    wait.is_full = true;
                    self.shared.leave_asker(ticket);
                }
                Hold::Full => wait.is_full = true,
            }
        }
    }
}

/// Registers a process for a place, whose number is its task.
fn register(database: pg_sys::Oid, ticket: Ticket) -> bool {
    let mut worker = workers::entry(database, "hilo source", "hilo_source_main");
    // SAFETY: `worker` is filled in, with the ticket in the field that is for such; no handle is
    // asked for.
    unsafe {
        (&raw mut worker.bgw_extra).cast::<Ticket>().write_unaligned(ticket);
        pg_sys::RegisterDynamicBackgroundWorker(&mut worker, std::ptr::null_mut())
    }
}

impl Ticket {
    /// That of this process.
    pub fn ours() -> Ticket {
        // SAFETY: Postgres has set this for a background worker; `register` has filled it in.
        unsafe {
            (&raw const (*pg_sys::MyBgworkerEntry).bgw_extra).cast::<Ticket>().read_unaligned()
        }
    }
}
