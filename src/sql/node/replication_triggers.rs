//! The part of the triggers for replicated rows that is not SQL. It is what only this server knows,
//! and how its sessions learn of a change. The rest is in sql/triggers.sql.

use std::cell::Cell;
use std::sync::atomic::Ordering::*;
use std::time::{Duration, Instant};

use pgrx::pg_sys;

use hilo_core::numbers::SequenceId;

use crate::backend::Global;
use crate::catalog::definitions;
use crate::catalog::{node, positions, privileges, roles};
use crate::errors::OrRaise;
use crate::process::ffi;
use crate::session::invalidation::{self, Change};
use crate::shared;
use crate::sql::call::args::{Args, sql_functions};
use crate::sql::define::ddl_checks::forget_numbers;

sql_functions!(
    hilo_has_name,
    hilo_has_id,
    hilo_has_position,
    hilo_is_recorded,
    hilo_is_served_here,
    hilo_is_twin,
    hilo_is_due,
    hilo_depend_on,
    hilo_note_replicated,
);

fn sequence(args: Args) -> SequenceId {
    SequenceId(args.int8(0).unwrap_or(0))
}

/// `_hilo.hilo_has_name(name)`: whether a sequence has this name.
fn hilo_has_name(args: Args) -> pg_sys::Datum {
    definitions::by_name(args.bytes(0)).or_raise().is_some().into()
}

/// `_hilo.hilo_has_id(id)`: whether a sequence has this id.
fn hilo_has_id(args: Args) -> pg_sys::Datum {
    definitions::by_id(sequence(args)).or_raise().is_some().into()
}

/// `_hilo.hilo_has_position(sequence, node)`: whether a node has a position.
fn hilo_has_position(args: Args) -> pg_sys::Datum {
    let node = args.datum(1).map_or(0, |node| node.value() as i32);
    positions::find(sequence(args), node).or_raise().is_some().into()
}

/// `_hilo.hilo_is_recorded(sequence, grantee, privilege)`
fn hilo_is_recorded(args: Args) -> Option<pg_sys::Datum> {
    let privilege = args.text(2)?;
    Some(privileges::is_recorded(sequence(args), args.oid(1)?, &privilege).or_raise().into())
}

/// `_hilo.hilo_is_served_here(sequence)`: whether this server has reserved from a sequence, or made
/// its position.
fn hilo_is_served_here(args: Args) -> pg_sys::Datum {
    let own = positions::find(sequence(args), node::id()).or_raise();
    own.is_some_and(|own| own.is_ours()).into()
}

/// `_hilo.hilo_is_twin(system_id, incarnation)`: whether a row for this node shows that another
/// server reserves as this node.
fn hilo_is_twin(args: Args) -> pg_sys::Datum {
    let shared = shared::get();
    let lives = [Some(0), Some(shared.as_ref().map_or(0, |shared| shared.life()))];
    // A row of this server may come back through a third server.
    let is_own = args.int8(0) == Some(positions::server().0) && lives.contains(&args.int8(1));
    if let Ok(shared) = shared
        && !is_own
    {
        shared.control.twin_seen_at.store(ffi::now().0, Relaxed);
    }
    (!is_own).into()
}

/// `_hilo.hilo_is_due(moved)`: whether it is time to repeat the warning of a moved node, or else
/// that of a twin. Each is true of many rows.
fn hilo_is_due(args: Args) -> pg_sys::Datum {
    const INTERVAL: Duration = Duration::from_secs(60);
    static LAST: Global<[Cell<Option<Instant>>; 2]> = Global::new([const { Cell::new(None) }; 2]);
    let last = &LAST[usize::from(args.bool(0) == Some(true))];
    let due = last.get().is_none_or(|last| last.elapsed() >= INTERVAL);
    if due {
        last.set(Some(Instant::now()));
    }
    due.into()
}

/// `_hilo.hilo_depend_on(role)`
fn hilo_depend_on(args: Args) {
    args.oid(0).map_or(Ok(()), roles::depend_on).or_raise();
}

/// `_hilo.hilo_note_replicated(sequence, change)`
fn hilo_note_replicated(args: Args) {
    let id = sequence(args);
    let change = match args.bytes(1) {
        b"altered" => Change::Terms,
        b"dropped" => {
            forget_numbers(id).or_raise();
            Change::Dropped
        }
        _ => Change::Outdated,
    };
    invalidation::note(id, change).or_raise();
}
