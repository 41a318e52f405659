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

use pgrx::{IntoDatum, pg_sys};

use hilo_core::numbers::{Monotonic, Timestamp};

use crate::advice;
use crate::catalog::positions;
use crate::catalog::table::text_datum;
use crate::errors::{HiloError, load_in_sessions, preload_excluded_by};
use crate::process::ffi;
use crate::shared::{self, Shared};
use crate::sql::call::args::{Args, sql_functions};
use crate::sql::call::stored_rows::StoredRows;
use crate::sql::define::loads_hilo::{LoadedBy, loader};
use crate::sql::observe::stat;

sql_functions!(hilo_server_state);

const SECOND: i64 = 1_000_000;
const UNKNOWN: &str = "a setting of its own hides from this session whether all others load hilo";

/// `_hilo.hilo_server_state()`: what only this server knows, as a row. The knowledge of shared
/// memory is null without it.
fn hilo_server_state(args: Args) {
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
    let number = |number: usize| pg_sys::Datum::from(number as i64);
    let text = |text: &str| text_datum(text.as_bytes());
    let row = [
        Some(system_id.into()),
        Some(timeline.into()),
        no_memory.as_deref().map(text),
        shared.map(|shared| number(shared.slots.len())),
        shared.map(|shared| number(shared.slots.len() - shared.free_slots())),
        shared.map(|shared| shared.is_nearly_full().into()),
        shared.and_then(Shared::turned_over_for).map(|ago| (ago.0 / SECOND).into()),
        stat::failing().into_datum(),
        wanted.map(|ago| (ago.0 / SECOND).into()),
        twin.map(|at| (ffi::now().since(at).0 / SECOND).into()),
        sessions.as_deref().map(text),
        Some((sessions.as_deref() == Some(UNKNOWN)).into()),
        Some(text(&load_in_sessions(whose.as_deref()))),
        Some(text(&advice::create_for_column())),
        HiloError::NodeUnset(0).hint().as_deref().map(text),
        Some(advice::is_alone().into()),
        Some(text(advice::RESTART)),
        Some(text(advice::PASS)),
    ];
    // SAFETY: these are the types of the columns that sql/compare.sql declares.
    unsafe { StoredRows::begin(args).add_some(row) };
}
