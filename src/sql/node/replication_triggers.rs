//! The part of the triggers for replicated rows that is not SQL. It is what only this server knows,
//! and how its sessions learn of a change. The rest is in sql/triggers.sql and restore_triggers.rs.

use std::cell::Cell;
use std::sync::atomic::Ordering::*;
use std::time::{Duration, Instant};

use pgrx::pg_sys::panic::ErrorReport;
use pgrx::prelude::*;

use hilo_core::numbers::SequenceId;

use crate::backend::Global;
use crate::catalog::rows::roles;
use crate::catalog::sequence::{definitions, node, positions};
use crate::process::ffi;
use crate::session::invalidation::{self, Change};
use crate::shared;
use crate::sql::call::border::Call;
use crate::sql::call::text::Text;
use crate::sql::define::ddl_checks::forget_numbers;
use crate::sql::types::role_type::Role;

/// `_hilo.hilo_has_name(name)`: whether a sequence has this name.
#[pg_extern(sql = false)]
fn hilo_has_name(_call: Call, name: Text) -> Result<bool, ErrorReport> {
    Ok(definitions::by_name(&name)?.is_some())
}

/// `_hilo.hilo_has_id(id)`: whether a sequence has this id.
#[pg_extern(sql = false)]
fn hilo_has_id(_call: Call, id: i64) -> Result<bool, ErrorReport> {
    Ok(definitions::by_id(SequenceId(id))?.is_some())
}

/// `_hilo.hilo_has_position(sequence, node)`: whether a node has a position.
#[pg_extern(sql = false)]
fn hilo_has_position(_call: Call, sequence: i64, node: i32) -> Result<bool, ErrorReport> {
    Ok(positions::find(SequenceId(sequence), node)?.is_some())
}

/// `_hilo.hilo_is_served_here(sequence)`: whether this server has reserved from a sequence, or made
/// its position.
#[pg_extern(sql = false)]
fn hilo_is_served_here(_call: Call, sequence: i64) -> Result<bool, ErrorReport> {
    let own = positions::find(SequenceId(sequence), node::id())?;
    Ok(own.is_some_and(|own| own.is_ours()))
}

/// `_hilo.hilo_is_twin(sequence, system_id, incarnation)`: whether a row for this node shows that
/// another server serves the same values.
#[pg_extern(sql = false)]
fn hilo_is_twin(
    _call: Call,
    sequence: i64,
    system_id: i64,
    incarnation: i64,
) -> Result<bool, ErrorReport> {
    let shared = shared::get();
    let lives = [0, shared.as_ref().map_or(0, |shared| shared.life())];
    // A row of this server may come back through a third server. A copy of this server is a twin.
    // Any other server gets other values from a centre.
    let is_harmless = match system_id == positions::server().0 {
        true => lives.contains(&incarnation),
        false => definitions::by_id(SequenceId(sequence))?.is_some_and(|own| own.is_branch()),
    };
    if let Ok(shared) = shared
        && !is_harmless
    {
        shared.control.twin_seen_at.store(ffi::now().0, Relaxed);
    }
    Ok(!is_harmless)
}

/// `_hilo.hilo_is_due(moved)`: whether it is time to repeat the warning of a moved node, or else
/// that of a twin. Either may be due for many rows.
#[pg_extern(sql = false)]
fn hilo_is_due(_call: Call, moved: bool) -> bool {
    const INTERVAL: Duration = Duration::from_secs(60);
    static LAST: Global<[Cell<Option<Instant>>; 2]> = Global::new([const { Cell::new(None) }; 2]);
    let last = &LAST[usize::from(moved)];
    let due = last.get().is_none_or(|last| last.elapsed() >= INTERVAL);
    if due {
        last.set(Some(Instant::now()));
    }
    due
}

/// `_hilo.hilo_depend_on(role)`
#[pg_extern(sql = false)]
fn hilo_depend_on(_call: Call, role: Role) -> Result<(), ErrorReport> {
    Ok(roles::depend_on(role.0)?)
}

/// `_hilo.hilo_note_replicated(sequence, change)`
#[pg_extern(sql = false)]
fn hilo_note_replicated(_call: Call, sequence: i64, change: Text) -> Result<(), ErrorReport> {
    let id = SequenceId(sequence);
    let change = match change.bytes() {
        b"altered" => Change::Terms,
        b"dropped" => {
            forget_numbers(id)?;
            Change::Dropped
        }
        _ => Change::Outdated,
    };
    Ok(invalidation::note(id, change)?)
}
