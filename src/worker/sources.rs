//! The processes that ask the sources of this database's sequences: one for each owner and query.

use std::collections::HashMap;
use std::sync::atomic::Ordering::AcqRel;
use std::time::{Duration, Instant};

use pgrx::memcxt::PgMemoryContexts;
use pgrx::pg_sys;
use pgrx::prelude::*;

use hilo_core::numbers::SequenceId;

use crate::errors::FaultKind;
use crate::process::ffi;
use crate::shared::fault::Fault;
use crate::shared::key::Key;
use crate::shared::workers;
use crate::worker::Worker;

/// A source that has been asked: a request is in the catalog.
pub struct Asks {
    pub owner: pg_sys::Oid,
    pub query: String,
    pub key: Key,
}

/// A process that has been registered.
struct Process {
    handle: *mut pg_sys::BackgroundWorkerHandle,
    at: Instant,
}

impl Process {
    fn is_running(&self) -> bool {
        let mut pid = 0;
        // SAFETY: the handle was made when the process was registered, and is never freed.
        let status = unsafe { pg_sys::GetBackgroundWorkerPid(self.handle, &mut pid) };
        use pg_sys::BgwHandleStatus::*;
        matches!(status, BGWH_STARTED | BGWH_NOT_YET_STARTED)
    }
}

/// The processes that this worker knows of. Another one may be left of an earlier worker: see
/// [`crate::worker::source`].
#[derive(Default)]
pub struct Processes(HashMap<(pg_sys::Oid, String), Process>);

impl Worker {
    /// Makes sure that a process makes a request that is in the catalog.
    pub(super) fn ask(&mut self, asks: Asks) {
        /// A process that ends sooner than this has failed, or has found another one.
        const AGAIN: Duration = Duration::from_secs(1);
        self.shared.control.source_requests.fetch_add(1, AcqRel);
        self.shared.control.source_wanted.broadcast();
        let processes = &mut self.sources.0;
        processes.retain(|_, process| process.is_running() || process.at.elapsed() < AGAIN);
        let Asks { owner, query, key } = asks;
        if processes.contains_key(&(owner, query.clone())) {
            return;
        }
        // Half of the places are for others.
        // SAFETY: a setting that is read when the server starts.
        let most = unsafe { pg_sys::max_worker_processes } as usize / 2;
        let place = processes.len() < most.max(1);
        match place.then(|| register(self.database, key.sequence)).flatten() {
            Some(handle) => {
                processes.insert((owner, query), Process { handle, at: Instant::now() });
            }
            None => {
                let code = PgSqlErrorCode::ERRCODE_CONFIGURATION_LIMIT_EXCEEDED as i32;
                let message = "no background worker is free to ask its source: raise \
                               max_worker_processes, or let fewer queries ask at once";
                let fault = Fault::new(code, FaultKind::Source, message, ffi::now());
                self.shared.note_source_failure(&key, fault, false);
            }
        }
    }
}

fn register(
    database: pg_sys::Oid,
    sequence: SequenceId,
) -> Option<*mut pg_sys::BackgroundWorkerHandle> {
    let mut worker = workers::entry(database, "hilo source", "hilo_source_main");
    for (to, from) in worker.bgw_extra.iter_mut().zip(sequence.0.to_ne_bytes()) {
        *to = from as std::ffi::c_char;
    }
    let mut handle = std::ptr::null_mut();
    // SAFETY: `worker` is filled in; the handle is made in a memory context that lives as long as
    // the process.
    let registered = unsafe {
        PgMemoryContexts::TopMemoryContext
            .switch_to(|_| pg_sys::RegisterDynamicBackgroundWorker(&mut worker, &mut handle))
    };
    registered.then_some(handle)
}
