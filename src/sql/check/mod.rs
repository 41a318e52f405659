//! `hilo_check`: reports the problems that an operator would want to know of. It is SQL over the
//! views (`sql/check.sql` and `sql/check_server.sql`). Here is the rest: the state of this server,
//! and indexed values that are yet to be served.
//!
//! It shows what it finds about a sequence only if the caller may read the sequence. About a column
//! it does so only if the caller also has a privilege on the column. It reads the furthest values
//! of a table only if the caller may read all of its rows, and without a statement
//! (`catalog::stored`). A role that may read every sequence watches the server. It is told
//! that there are findings about columns that it may not see, and how bad they are.

mod columns;

use std::sync::atomic::Ordering::Relaxed;

use pgrx::pg_sys;
use serde_json::json;

use hilo_core::numbers::{Monotonic, Timestamp};

use crate::advice;
use crate::catalog::positions;
use crate::errors::{HiloError, OrRaise, load_in_sessions, preload_excluded_by};
use crate::process::ffi;
use crate::shared::{self, Shared};
use crate::sql::call::args::{Args, sql_functions};
use crate::sql::define::loads_hilo::{LoadedBy, loader};
use crate::sql::node::json;
use crate::sql::observe::stat;

sql_functions!(hilo_server_state);

const SECOND: i64 = 1_000_000;
const UNKNOWN: &str = "a setting of its own hides from this session whether all others load hilo";

/// `hilo.server_state()`: what only this server knows, as an object. The knowledge of shared memory
/// is null without it.
fn hilo_server_state(_: Args) -> pg_sys::Datum {
    let (system_id, timeline) = positions::server();
    let (shared, no_memory) = match shared::get() {
        Ok(shared) => (Some(shared), None),
        Err(error) => (None, Some(error.to_string())),
    };
    let wanted = shared.map(|shared| shared.control.workers_wanted_at.load(Relaxed));
    let wanted = wanted.filter(|at| *at != 0).map(|at| ffi::monotonic().since(Monotonic(at)));
    let twin = shared.map(|shared| Timestamp(shared.control.twin_seen_at.load(Relaxed)));
    let (sessions, whose) = match loader() {
        LoadedBy::All => (None, None),
        LoadedBy::AllBut(whose) => (Some(preload_excluded_by(&whose)), Some(whose)),
        LoadedBy::Unknown => (Some(UNKNOWN.to_owned()), None),
        LoadedBy::Callers => (Some("only sessions that call hilo load it".to_owned()), None),
    };
    json::write(&json!({
        "system_id": system_id,
        "timeline": timeline,
        "no_memory": no_memory,
        "slots": shared.map(|shared| shared.slots.len()),
        "slots_taken": shared.map(|shared| shared.slots.len() - shared.free_slots()),
        "slots_scarce": shared.map(Shared::is_nearly_full),
        "failing": stat::failing(),
        "no_worker_for": wanted.map(|ago| ago.0 / SECOND),
        "twin_seen_for": twin.map(|at| ffi::now().since(at).0 / SECOND),
        "sessions": sessions,
        "sessions_unknown": sessions.as_deref() == Some(UNKNOWN),
        "sessions_hint": load_in_sessions(whose.as_deref()),
        "create_for_column": advice::create_for_column(),
        "set_node_id": HiloError::NodeUnset(0).hint(),
        "alone": advice::is_alone(),
        "restart": advice::RESTART,
    }))
    .or_raise()
}
