//! `hilo_check`: reports the problems that an operator would want to know of. It is SQL over the
//! views (`sql/check*.sql`). Here is the rest: the state of this server,
//! and indexed values that are yet to be served.
//!
//! It shows what it finds about a sequence only if the caller may read the sequence. About a column
//! it does so only if the caller also has a privilege on the column. It reads the furthest values
//! of a table only if the caller may read all of its rows, and runs no statement for it
//! (`sql::column::stored`). A role that may read every sequence watches the server. It is told that
//! there are findings about columns that it may not see, and how bad they are.

mod columns;

use std::sync::atomic::Ordering::Relaxed;

use pgrx::pg_sys::panic::ErrorReport;
use pgrx::prelude::*;

use hilo_core::numbers::{Monotonic, Timestamp};

use crate::advice;
use crate::catalog::sequence::positions;
use crate::errors::{HiloError, load_in_sessions, preload_excluded_by};
use crate::process::ffi;
use crate::shared::{self, Shared};
use crate::sql::call::border::Call;
use crate::sql::call::stored_rows::{Rows, row};
use crate::sql::define::loads_hilo::{LoadedBy, loader};
use crate::sql::observe::stat;

const SECOND: i64 = 1_000_000;
const UNKNOWN: &str = "a setting of its own hides from this session whether all others load hilo";

row! {
    struct ServerState {
        system_id: i64,
        timeline: i32,
        no_memory: Option<String>,
        slots: Option<i64>,
        slots_taken: Option<i64>,
        slots_scarce: Option<bool>,
        turned_over_for: Option<i64>,
        failing: Vec<i64>,
        no_worker_for: Option<i64>,
        worker: Option<i32>,
        worker_silent_for: Option<i64>,
        twin_seen_for: Option<i64>,
        sessions: Option<String>,
        sessions_unknown: bool,
        sessions_hint: String,
        create_for_column: String,
        set_node_id: Option<String>,
        alone: bool,
        restart: &'static str,
        pass: &'static str,
    }
}

/// `_hilo.hilo_server_state()`: the state that only this server knows, as a row. Columns about
/// shared memory are null without it.
#[pg_extern(sql = false)]
fn hilo_server_state(call: Call) -> Result<Rows<ServerState>, ErrorReport> {
    let (system_id, timeline) = positions::server();
    let (shared, no_memory) = match shared::get() {
        Ok(shared) => (Some(shared), None),
        Err(error) => (None, Some(error.to_string())),
    };
    let wanted = shared.map(|shared| shared.control.workers_wanted_at.load(Relaxed));
    let wanted = wanted.filter(|at| *at != 0).map(|at| ffi::monotonic().since(Monotonic(at)));
    let silent = shared.and_then(|shared| shared.unanswered(ffi::database()));
    let twin = shared.map(|shared| Timestamp(shared.control.twin_seen_at.load(Relaxed)));
    let (sessions, whose) = match loader()? {
        LoadedBy::All => (None, None),
        LoadedBy::AllBut(whose) => (Some(preload_excluded_by(&whose)), Some(whose)),
        LoadedBy::Unknown => (Some(UNKNOWN.to_owned()), None),
        LoadedBy::Callers => (Some("only sessions that call hilo load it".to_owned()), None),
    };
    let slots = |count: fn(&Shared) -> usize| shared.map(|shared| count(shared) as i64);
    let mut rows = Rows::begin(call);
    rows.add(ServerState {
        system_id,
        timeline,
        no_memory,
        slots: slots(|shared| shared.slots.len()),
        slots_taken: slots(|shared| shared.slots.len() - shared.free_slots()),
        slots_scarce: shared.map(Shared::is_nearly_full),
        turned_over_for: shared.and_then(Shared::turned_over_for).map(|ago| ago.0 / SECOND),
        failing: stat::failing()?,
        no_worker_for: wanted.map(|ago| ago.0 / SECOND),
        worker: silent.map(|(pid, _)| pid as i32),
        worker_silent_for: silent.map(|(_, ago)| ago.0 / SECOND),
        twin_seen_for: twin.map(|at| ffi::now().since(at).0 / SECOND),
        sessions_unknown: sessions.as_deref() == Some(UNKNOWN),
        sessions,
        sessions_hint: load_in_sessions(whose.as_deref()),
        create_for_column: advice::create_for_column(),
        set_node_id: HiloError::NodeUnset(0).hint(),
        alone: advice::is_alone(),
        restart: advice::RESTART,
        pass: advice::PASS,
    });
    Ok(rows)
}
