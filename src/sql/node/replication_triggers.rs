//! The judge of what logical replication brings to the tables of schema `hilo`. Its workers write
//! to them without the library. So triggers that fire for these workers only judge each row
//! (sql/triggers.sql). No value is served twice because of replication, memory learns of what has
//! changed, and no row stops a worker permanently.
//!
//! A position belongs to its node. Rows of other nodes are accepted, and marked as [`REPLICATED`].
//! Rows of this server's own node are accepted only if this server has not reserved yet, as on a
//! replica that is to take over. Once it has, neither its position nor the columns that determine
//! the numbers are replaced by rows from elsewhere.

use std::cell::Cell;
use std::sync::atomic::Ordering::*;
use std::time::{Duration, Instant};

use pgrx::pg_sys::panic::ErrorReport;
use pgrx::prelude::*;

use hilo_core::numbers::SequenceId;
use hilo_core::options::{DataType, Definition};

use crate::backend::Global;
use crate::catalog::columns;
use crate::catalog::definitions::{self, Sequence};
use crate::catalog::node;
use crate::catalog::positions::{self, Position, REPLICATED};
use crate::catalog::roles::NOBODY;
use crate::catalog::table::{LockWait, RowLock};
use crate::catalog::{default_privileges, privileges, roles};
use crate::errors::{HiloError, OrRaise};
use crate::process::ffi;
use crate::session::invalidation::{self, Change};
use crate::shared;
use crate::sql::call::trigger::{Event, Fired, refuse, trigger_functions};
use crate::sql::define::ddl_checks::forget_numbers;

// The function of `hilo.replicated() RETURNS trigger`. The others are those of the tables in the
// SQL objects of 0.2.0 and 0.3.0.
trigger_functions!(
    store_row;
    hilo_replicated,
    hilo_replicated_sequence,
    hilo_replicated_position,
    hilo_replicated_privilege,
    hilo_replicated_default_privilege,
    hilo_replicated_free_range,
    hilo_replicated_lease,
);

/// SESSION_REPLICATION_ROLE_REPLICA of core's trigger.h.
const REPLICA: std::ffi::c_int = 1;

/// The verdict on a row that has arrived.
enum Verdict {
    Accept,
    KeepOut,
    /// The row is stored with these columns replaced.
    With(Vec<(i16, Option<pg_sys::Datum>)>),
}

fn store_row(fired: Fired) -> pg_sys::Datum {
    let judge = match fired.table() {
        b"sequence" => sequence,
        b"position" => position,
        b"privilege" => privilege,
        b"default_privilege" => default_privilege,
        // A range that another server returned is for that server to serve, and a lease is ended at
        // the server that made it.
        b"free_range" | b"lease" | b"source" => |_: &Fired| Ok(Verdict::KeepOut),
        _ => refuse(),
    };
    // The triggers may have been enabled for all sessions: `hilo_check` reports that.
    // SAFETY: reads the variable behind the setting session_replication_role.
    let replica = unsafe { pg_sys::SessionReplicationRole } == REPLICA;
    let verdict = if replica { judge(&fired).or_raise() } else { Verdict::Accept };
    match verdict {
        Verdict::KeepOut => pg_sys::Datum::null(),
        Verdict::Accept => fired.accept(),
        // SAFETY: each column gets a value of its own type, a constant or from a row of this table.
        Verdict::With(columns) => unsafe { fired.replacing(&columns) },
    }
}

fn warn(message: String, detail: &str, hint: &str) {
    ErrorReport::new(PgSqlErrorCode::ERRCODE_WARNING, message, "hilo")
        .set_detail(detail)
        .set_hint(hint)
        .report(PgLogLevel::WARNING);
}

/// A row of `_hilo.position`.
fn position(fired: &Fired) -> Result<Verdict, HiloError> {
    let is_here = |node| node == node::id();
    if fired.event == Event::Delete {
        let old = Position::from_row(&fired.old());
        // A position of this server is deleted with its sequence: see `sequence`.
        let keep = is_here(old.node) && old.is_ours();
        return Ok(if keep { Verdict::KeepOut } else { Verdict::Accept });
    }
    let new = Position::from_row(&fired.new_row());
    let known = match fired.event {
        Event::Update => Some(Position::from_row(&fired.old())),
        _ => positions::find(new.sequence, new.node)?,
    };
    if let Some(known) = known {
        if is_here(new.node) && known.is_ours() {
            meet_twin(&new);
            return Ok(Verdict::KeepOut);
        }
        if !is_here(new.node)
            && known.system_id != 0
            && new.system_id != 0
            && known.system_id != new.system_id
        {
            warn_of_moved_node(new.node);
        }
        if fired.event == Event::Insert {
            replace(&new, is_here(new.node))?;
            return Ok(Verdict::KeepOut);
        }
    }
    Ok(Verdict::With(vec![(columns::position::TIMELINE, Some(REPLICATED.into()))]))
}

/// Replaces the existing row with one that arrived, unless the existing row became this server's
/// during the wait for its lock.
fn replace(new: &Position, here: bool) -> Result<(), HiloError> {
    let arrived = Position { timeline: REPLICATED, ..*new };
    match positions::lock(new.sequence, new.node, LockWait::Block)? {
        RowLock::Locked(locked) if here && locked.position.is_ours() => meet_twin(new),
        RowLock::Locked(locked) => {
            locked.update(&arrived);
        }
        _ => {
            positions::insert(&arrived)?;
        }
    }
    Ok(())
}

/// Whether it is time to repeat a warning: what is true of one row is true of many.
fn is_due(last: &Cell<Option<Instant>>) -> bool {
    const INTERVAL: Duration = Duration::from_secs(60);
    let due = last.get().is_none_or(|last| last.elapsed() >= INTERVAL);
    if due {
        last.set(Some(Instant::now()));
    }
    due
}

/// Handles a row that shows that another server reserves as this node.
fn meet_twin(new: &Position) {
    static LAST: Global<Cell<Option<Instant>>> = Global::new(Cell::new(None));
    let life = shared::get().map_or(0, |shared| shared.life());
    // A row of this server may come back through a third server, which has marked it as replicated.
    if new.system_id == positions::server().0 && (new.incarnation == 0 || new.incarnation == life) {
        return;
    }
    if let Ok(shared) = shared::get() {
        shared.control.twin_seen_at.store(ffi::now().0, Relaxed);
    }
    if is_due(&LAST) {
        let node = new.node;
        warn(
            format!(
                "another server reserves values as node {node}, which is the node of this server"
            ),
            "A row of _hilo.position for this node arrived by replication, but this server has \
             already reserved from that sequence. The row was not applied.",
            "Both servers serve the same values and, with the same hilo.server_prefix, the same \
             keys. Stop one of them, or give it its own hilo.node_id.",
        );
    }
}

fn warn_of_moved_node(node: i32) {
    static LAST: Global<Cell<Option<Instant>>> = Global::new(Cell::new(None));
    if is_due(&LAST) {
        warn(
            format!("node {node} is now a different server"),
            "A row of _hilo.position arrived by replication from a different server than before.",
            "After a failover of that node this is expected. Otherwise two servers have the same \
             hilo.node_id and serve the same values.",
        );
    }
}

/// Whether this server has reserved from a sequence, or made its position.
fn is_served_here(id: SequenceId) -> Result<bool, HiloError> {
    Ok(positions::find(id, node::id())?.is_some_and(|own| own.is_ours()))
}

/// The source of a sequence that has one on another server. Here it fails until its owner sets
/// one: a server runs no query that another sends, and makes no numbers between those of a source.
const FROM_ELSEWHERE: &str =
    "SELECT NULL::bigint, NULL::bigint /* the sequence has its source on another server */";

/// The options that the numbers are made of.
fn numbers(of: &Definition) -> (DataType, [i64; 4], [bool; 3]) {
    let bounds = [of.start_value, of.increment, of.min_value, of.max_value];
    (of.data_type, bounds, [of.cycle, of.ordered, of.gapless])
}

/// A row of `_hilo.sequence`.
fn sequence(fired: &Fired) -> Result<Verdict, HiloError> {
    match fired.event {
        Event::Insert => judge_insert(&Sequence::from_row(&fired.new_row())),
        Event::Update => {
            let new = Sequence::from_row(&fired.new_row());
            let merged = merge(&Sequence::from_row(&fired.old()), &new)?;
            invalidation::note(merged.id, Change::Terms)?;
            Ok(match merged == new {
                true => Verdict::Accept,
                false => Verdict::With((1..).zip(merged.values()).collect()),
            })
        }
        Event::Delete => {
            let id = Sequence::from_row(&fired.old()).id;
            forget_numbers(id)?;
            invalidation::note(id, Change::Dropped)?;
            Ok(Verdict::Accept)
        }
    }
}

fn judge_insert(new: &Sequence) -> Result<Verdict, HiloError> {
    if let Some(locked) = definitions::lock_existing(new.id)? {
        let known = &locked.sequence;
        // If the new owner does not exist here, `missing_owner` has replaced it with the role that
        // this runs as.
        let owner = if new.owner == ffi::current_user() { known.owner } else { new.owner };
        let merged = Sequence { owner, created_at: known.created_at, ..merge(known, new)? };
        if merged != *known {
            locked.update(&merged);
            invalidation::note(merged.id, Change::Terms)?;
        }
        return Ok(Verdict::KeepOut);
    }
    if definitions::by_name(&new.name)?.is_some() {
        warn(
            format!("hilo sequence \"{}\" was also created on another server", new.name),
            "A row of _hilo.sequence arrived by replication with a name that another sequence has \
             on this server. The row was not applied.",
            "Each server continues with its own sequence. Their values stay disjoint as long as \
             both have the same definition and numbering.",
        );
        return Ok(Verdict::KeepOut);
    }
    roles::depend_on(new.owner)?;
    if new.definition.source.is_none() {
        return Ok(Verdict::Accept);
    }
    let mut kept = new.clone();
    kept.definition.source = Some(FROM_ELSEWHERE.into());
    Ok(Verdict::With((1..).zip(kept.values()).collect()))
}

/// The sequence that `new`, which has arrived, makes of `old`.
fn merge(old: &Sequence, new: &Sequence) -> Result<Sequence, HiloError> {
    let mut merged = new.clone();
    if new.name != old.name && definitions::by_name(&new.name)?.is_some() {
        warn(
            format!(
                "hilo sequence \"{}\" was renamed to \"{}\" on another server",
                old.name, new.name
            ),
            "Another sequence on this server has the new name, so the sequence keeps its old name \
             here.",
            "Rename one of the two sequences.",
        );
        merged.name = old.name.clone();
    }
    match new.owner {
        NOBODY => merged.owner = old.owner,
        owner => roles::depend_on(owner)?,
    }
    if numbers(&new.definition) != numbers(&old.definition) && is_served_here(old.id)? {
        warn(
            format!("hilo sequence \"{}\" is numbered differently on another server", old.name),
            "A row of _hilo.sequence arrived by replication with a different data type, \
             increment, start value, bounds, cycle, order, or gapless. This server kept its own, \
             because it has numbered the sequence by them.",
            "Make the same change on every node that serves the sequence.",
        );
        let Definition { block_size, slice_size, key_format, .. } = merged.definition;
        merged.definition =
            Definition { block_size, slice_size, key_format, ..old.definition.clone() };
    }
    // A source is this server's own: what the other one brings there is not brought here.
    let (known, arrived) = (&old.definition, &new.definition);
    merged.definition.reserve_ahead = known.reserve_ahead;
    merged.definition.source = match (&known.source, &arrived.source) {
        (None, Some(_)) if !is_served_here(old.id)? => Some(FROM_ELSEWHERE.into()),
        (kept, _) => kept.clone(),
    };
    Ok(merged)
}

/// A row of `_hilo.privilege`.
fn privilege(fired: &Fired) -> Result<Verdict, HiloError> {
    let row = match fired.event {
        Event::Delete => fired.old(),
        _ => fired.new_row(),
    };
    let known = fired.event == Event::Insert && privileges::is_recorded(&row)?;
    if !known && fired.event != Event::Delete {
        roles::depend_on(row.oid(columns::privilege::GRANTEE))?;
    }
    invalidation::note(SequenceId(row.int8(columns::privilege::SEQUENCE)), Change::Outdated)?;
    Ok(if known { Verdict::KeepOut } else { Verdict::Accept })
}

/// A row of `_hilo.default_privilege`.
fn default_privilege(fired: &Fired) -> Result<Verdict, HiloError> {
    if fired.event == Event::Delete {
        return Ok(Verdict::Accept);
    }
    let row = fired.new_row();
    if default_privileges::is_recorded(&row)? {
        return Ok(Verdict::KeepOut);
    }
    for column in [columns::default_privilege::OWNER, columns::default_privilege::GRANTEE] {
        roles::depend_on(row.oid(column))?;
    }
    Ok(Verdict::Accept)
}
