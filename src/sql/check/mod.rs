//! `hilo_check`: reports the problems that an operator would want to know of. It is SQL over the
//! views (`sql/check.sql`). Here is the rest: the state of this server, indexed values that are yet
//! to be served, and the summaries of other servers.
//!
//! It shows what it finds about a sequence only if the caller may read the sequence. About a column
//! it does so only if the caller also has a privilege on the column. It reads the furthest values
//! of a table only if the caller may read all of its rows, and without a statement
//! (`catalog::stored`). A role that may read every sequence watches the server. It is told
//! that there are findings about columns that it may not see, and how bad they are.

mod columns;

use std::sync::atomic::Ordering::Relaxed;

use pgrx::pg_sys;
use serde_json::{Value, json};

use hilo_core::numbers::{Micros, Monotonic, Timestamp};

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
const HOUR: Micros = Micros(3600 * SECOND);

/// `hilo.server_state()`: what only this server knows, as an object.
fn hilo_server_state(_: Args) -> pg_sys::Datum {
    let (system_id, timeline) = positions::server();
    let (memory, no_memory) = match shared::get() {
        Ok(shared) => (memory_state(shared), None),
        Err(error) => (json!({}), Some(error.to_string())),
    };
    json::write(&json!({
        "system_id": system_id,
        "timeline": timeline,
        "memory": memory,
        "no_memory": no_memory,
        "create_for_column": advice::create_for_column(),
        "set_node_id": HiloError::NodeUnset(0).hint(),
        "alone": advice::is_alone(),
        "restart": advice::RESTART,
    }))
    .or_raise()
}

/// The knowledge of shared memory, and which sessions load hilo.
fn memory_state(shared: &Shared) -> Value {
    let (slots, free) = (shared.slots.len(), shared.free_slots());
    let wanted_at = shared.control.workers_wanted_at.load(Relaxed);
    let wanted = Some(ffi::monotonic().since(Monotonic(wanted_at))).filter(|_| wanted_at != 0);
    let twin = ffi::now().since(Timestamp(shared.control.twin_seen_at.load(Relaxed)));
    let loader = loader();
    let (sessions, whose) = match &loader {
        LoadedBy::All => (None, None),
        LoadedBy::AllBut(whose) => (Some(preload_excluded_by(whose)), Some(whose.as_str())),
        LoadedBy::Unknown => (Some(UNKNOWN.to_owned()), None),
        LoadedBy::Callers => (Some("only sessions that call hilo load it".to_owned()), None),
    };
    json!({
        "slots": slots,
        "slots_taken": slots - free,
        "slots_scarce": shared.is_nearly_full(),
        "failing": stat::failing(),
        "no_worker_for": wanted.and_then(recent),
        "twin_seen_for": recent(twin),
        "sessions": sessions,
        "sessions_unknown": matches!(loader, LoadedBy::Unknown),
        "sessions_hint": load_in_sessions(whose),
    })
}

const UNKNOWN: &str = "a setting of its own hides from this session whether all others load hilo";

/// The seconds since something that happened within the last hour.
fn recent(ago: Micros) -> Option<i64> {
    (ago < HOUR).then_some(ago.0 / SECOND)
}
