//! Registers the processes that ask the sources of this database's sequences: one for each owner
//! and query.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use pgrx::pg_sys;
use pgrx::prelude::*;

use hilo_core::numbers::SequenceId;

use crate::errors::FaultKind;
use crate::process::ffi;
use crate::shared::askers::{Group, Hold, Ticket};
use crate::shared::fault::Fault;
use crate::shared::key::Key;
use crate::shared::workers;
use crate::worker::Worker;

/// A source that has been asked: a request is in the catalog.
pub struct Asks {
    pub group: Group,
    pub key: Key,
}

/// When this worker last registered the process of a group.
#[derive(Default)]
pub struct Registered(HashMap<Group, Instant>);

impl Worker {
    /// Makes sure that a process makes a request that is in the catalog.
    pub(super) fn ask(&mut self, asks: Asks) {
        /// A process that ends sooner than this has failed.
        const AGAIN: Duration = Duration::from_secs(1);
        let Asks { group, key } = asks;
        self.shared.wake_askers();
        let registered = &mut self.sources.0;
        registered.retain(|_, at| at.elapsed() < AGAIN);
        if registered.contains_key(&group) {
            return;
        }
        let found = match self.shared.hold_asker(group) {
            Hold::Running => true,
            Hold::Full => false,
            Hold::Register(ticket) => {
                let done = register(self.database, key.sequence, ticket);
                match done {
                    true => _ = registered.insert(group, Instant::now()),
                    false => self.shared.leave_asker(ticket),
                }
                done
            }
        };
        if !found {
            // One that has nothing to ask makes room.
            self.shared.wake_askers();
            let code = PgSqlErrorCode::ERRCODE_CONFIGURATION_LIMIT_EXCEEDED as i32;
            let message = "no background worker is free to ask its source: raise \
                           max_worker_processes, or let fewer queries ask at once";
            let fault = Fault::new(code, FaultKind::Source, message, ffi::now());
            self.shared.note_source_failure(&key, fault, false);
        }
    }
}

/// The task of a process, which it gets when it is registered.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Errand {
    pub ticket: Ticket,
    /// One of its sequences.
    pub sequence: SequenceId,
}

fn register(database: pg_sys::Oid, sequence: SequenceId, ticket: Ticket) -> bool {
    let mut worker = workers::entry(database, "hilo source", "hilo_source_main");
    // SAFETY: `worker` is filled in, with an errand in the field that is for such; no handle is
    // asked for.
    unsafe {
        (&raw mut worker.bgw_extra).cast::<Errand>().write_unaligned(Errand { ticket, sequence });
        pg_sys::RegisterDynamicBackgroundWorker(&mut worker, std::ptr::null_mut())
    }
}

impl Errand {
    /// The task of this process.
    pub fn ours() -> Errand {
        // SAFETY: Postgres has set this for a background worker; `register` has filled it in.
        unsafe {
            (&raw const (*pg_sys::MyBgworkerEntry).bgw_extra).cast::<Errand>().read_unaligned()
        }
    }
}
