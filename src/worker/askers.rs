//! Registers processes that make the requests in the catalog, for each owner whose sequences wait
//! for their sources.

use std::collections::{HashMap, HashSet};
use std::time::{Duration, Instant};

use pgrx::pg_sys;
use pgrx::prelude::*;

use crate::catalog::numbers::sources::{self, Open};
use crate::catalog::sequence::node;
use crate::errors::FaultKind;
use crate::process::ffi;
use crate::shared::askers::{Found, Owner, Ticket};
use crate::shared::fault::Fault;
use crate::shared::key::Key;
use crate::shared::workers;
use crate::worker::Worker;
use crate::worker::transaction::{self, BRIEFLY, Failure, LOCKED};

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
    /// The sequences with requests.
    keys: HashSet<Key>,
    since: Instant,
    /// When to check again that there is a process.
    at: Instant,
    /// Whether a request was written since a process was registered.
    is_new: bool,
    registered_at: Option<Instant>,
    complained_at: Option<Instant>,
}

/// A process that ends sooner than this has failed; the next one is not registered earlier.
const START_INTERVAL: Duration = Duration::from_millis(250);
/// How often an owner's processes are looked at.
const LOOK: Duration = Duration::from_millis(100);

impl Wait {
    fn new(now: Instant, at: Instant) -> Wait {
        let (registered_at, complained_at) = (None, None);
        Wait { keys: HashSet::new(), since: now, at, is_new: true, registered_at, complained_at }
    }

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
    /// Notes that a request is in the catalog. [`find_askers`](Self::find_askers) makes sure that a
    /// process makes it.
    pub(super) fn ask(&mut self, asks: Asks) {
        let Asks { owner, key, rests } = asks;
        let now = Instant::now();
        let at = now + rests;
        let wait = self.askers.0.entry(owner).or_insert_with(|| Wait::new(now, at));
        (wait.at, wait.is_new) = (wait.at.min(at), true);
        wait.keys.insert(key);
        self.shared.wake_askers();
    }

    /// Registers processes for owners whose processes are missing or stuck, those first who have
    /// waited longest.
    pub(super) fn find_askers(&mut self) {
        let now = Instant::now();
        let due = self.askers.0.iter().filter(|(_, wait)| wait.due() <= now);
        let mut due: Vec<_> = due.map(|(owner, wait)| (wait.since, *owner)).collect();
        due.sort_unstable_by_key(|(since, _)| *since);
        for (_, owner) in due {
            let Some(mut wait) = self.askers.0.remove(&owner) else { continue };
            wait.at = now + LOOK;
            let found = self.shared.find_asker(owner);
            let rest = match found {
                Found::Resting => continue,
                Found::Busy => Some(LOOK),
                Found::None if wait.is_new => Some(Duration::ZERO),
                Found::None | Found::Stuck => match self.rest_of_requests(owner) {
                    Ok(rest) => rest,
                    Err(failure) => (failure.sqlstate == LOCKED).then_some(LOOK),
                },
            };
            // There is no request, or processes are making all of them.
            let Some(rest) = rest else { continue };
            if rest.is_zero() {
                self.add_asker(owner, &mut wait, found == Found::None);
            } else {
                wait.at = now + rest;
            }
            self.askers.0.insert(owner, wait);
        }
    }

    /// How long the requests of an owner rest that no process makes. `None`: there is none.
    fn rest_of_requests(&self, owner: Owner) -> Result<Option<Duration>, Failure> {
        transaction::run_within(BRIEFLY, c"hilo: finding requests", || {
            let mut rest = None;
            for Open { state, .. } in sources::open(node::id(), owner.role())? {
                if !self.shared.is_asked(owner.database, state.sequence) {
                    let rests = state.rests(ffi::now());
                    rest = Some(rest.map_or(rests, |least: Duration| least.min(rests)));
                }
            }
            Ok(rest)
        })
    }

    /// Registers a process of an owner, or asks for room for it. `has_none`: the owner has no
    /// other.
    fn add_asker(&self, owner: Owner, wait: &mut Wait, has_none: bool) {
        if let Some(ticket) = self.shared.hold_asker(owner) {
            if register(self.database, ticket) {
                (wait.registered_at, wait.is_new) = (Some(Instant::now()), false);
                return;
            }
            self.shared.leave_asker(ticket);
        }
        const PAUSE: Duration = Duration::from_secs(1);
        if has_none && wait.complained_at.is_none_or(|at| at.elapsed() > PAUSE) {
            wait.complained_at = Some(Instant::now());
            let code = PgSqlErrorCode::ERRCODE_CONFIGURATION_LIMIT_EXCEEDED as i32;
            let message =
                "no background worker is free to ask its source: raise max_worker_processes";
            let fault = Fault::new(code, FaultKind::Other, message, ffi::now());
            wait.keys.iter().for_each(|key| self.shared.note_source_failure(key, fault, false));
        }
    }
}

/// Registers a process for a place, whose number is its task.
fn register(database: pg_sys::Oid, ticket: Ticket) -> bool {
    let mut worker = workers::registration(database, "hilo source", "hilo_source_main");
    // SAFETY: `worker` is filled in, with the ticket in the field that is for such; no handle is
    // asked for.
    unsafe {
        (&raw mut worker.bgw_extra).cast::<Ticket>().write_unaligned(ticket);
        pg_sys::RegisterDynamicBackgroundWorker(&mut worker, std::ptr::null_mut())
    }
}

impl Ticket {
    /// The ticket of this process.
    pub fn ours() -> Ticket {
        // SAFETY: Postgres has set this for a background worker; `register` has filled it in.
        unsafe {
            (&raw const (*pg_sys::MyBgworkerEntry).bgw_extra).cast::<Ticket>().read_unaligned()
        }
    }
}
