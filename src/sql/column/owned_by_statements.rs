//! The sequences that a column owns follow it. They are dropped with the column or its table,
//! restart with TRUNCATE … RESTART IDENTITY, and have the table's owner. Sequences that the script
//! of an extension created are dropped with it. `hooks.rs` calls the functions for these
//! statements.

use std::cell::RefCell;

use pgrx::pg_sys;

use hilo_core::numbers::SequenceId;

use crate::backend::Global;
use crate::catalog::columns::column_defaults::{self, ColumnDefault};
use crate::catalog::columns::column_ref::ColumnRef;
use crate::catalog::rows::catalog_tables::catalog_oids;
use crate::catalog::rows::table::next_command;
use crate::catalog::rows::{relations, script};
use crate::catalog::sequence::definitions::{self, LockedSequence, Sequence};
use crate::catalog::sequence::{gaps, membership};
use crate::citus;
use crate::errors::{HiloError, OrRaise};
use crate::process::ffi;
use crate::process::memory::TryGrow;
use crate::session;
use crate::session::invalidation::{self, Change};
use crate::shared;
use crate::sql::column::values::is_distributed;
use crate::sql::column::widened;
use crate::sql::define::owned_by::{lock_each, may_own, owned_sequences};
use crate::sql::define::{ddl_checks, owners, renumber};

/// The sequences to be dropped, since their columns or extensions were dropped.
static DROPPED: Global<RefCell<Vec<SequenceId>>> = Global::new(RefCell::new(Vec::new()));

/// Runs when core drops a table (`part` 0) or a column, whose locks it has. The sequences are
/// dropped at the end of the statement, because other tables may have to be locked before them.
pub fn on_drop(relid: pg_sys::Oid, part: i32) -> Result<(), HiloError> {
    if !may_own(relid) {
        return Ok(());
    }
    let found = owned_sequences(relid, (part != 0).then_some(part as i16))?;
    if catalog_oids().is_ok() {
        gaps::forget_released(relid, part as i16)?;
    }
    drop_later(&found)
}

/// Runs when core drops an extension other than hilo. Where hilo cannot be used, as while it is
/// being dropped too, the extension's sequences stay, and can then be dropped by themselves.
pub fn on_drop_extension(extension: pg_sys::Oid) -> Result<(), HiloError> {
    if catalog_oids().is_ok()
        && shared::get().is_ok()
        && let Some(name) = script::name_of(extension)
    {
        drop_later(&membership::sequences_of(&name)?)?;
    }
    Ok(())
}

fn drop_later(found: &[Sequence]) -> Result<(), HiloError> {
    if found.is_empty() {
        return Ok(());
    }
    session::prepare();
    session::before_others(at_transaction);
    let ids = found.iter().map(|sequence| sequence.id);
    DROPPED.borrow_mut().try_extend(ids)
}

/// How many sequences the statements around the beginning one are to drop.
pub fn mark() -> usize {
    DROPPED.borrow().len()
}

/// Runs at the end of a utility statement: drops the sequences beyond `mark`, whose columns or
/// extensions the statement has dropped. The defaults of other columns may use them. With `keep`,
/// these prevent the drop.
pub fn after_drop(mark: usize, keep: bool) {
    let ids = {
        let mut dropped = DROPPED.borrow_mut();
        let mark = mark.min(dropped.len());
        dropped.split_off(mark)
    };
    // SAFETY: reads a static of xact.c.
    if !ids.is_empty() && unsafe { pg_sys::IsTransactionState() } {
        drop_sequences(ids, keep).or_raise();
    }
}

fn drop_sequences(ids: Vec<SequenceId>, keep: bool) -> Result<(), HiloError> {
    next_command();
    for id in ids {
        // If the same statement has dropped hilo, nothing is left to do.
        if catalog_oids().is_err() {
            return Ok(());
        }
        let Some(sequence) = definitions::by_id(id)?.filter(is_gone) else {
            continue;
        };
        if successor_column(&sequence)?.is_none() {
            drop_defaults(&sequence, keep)?;
        }
        if let Some(locked) = definitions::lock_existing(id)?
            && is_gone(&locked.sequence)
        {
            match successor_column(&locked.sequence)? {
                Some(column) => {
                    let owned_by = Some(column);
                    locked.update(&Sequence { owned_by, ..locked.sequence.clone() });
                    invalidation::note(id, Change::Outdated)?;
                }
                None => {
                    drop_defaults(&locked.sequence, keep)?;
                    ddl_checks::remove(locked)?;
                }
            }
        }
    }
    Ok(())
}

/// Whether the column or extension of a sequence does not exist any more. A rollback to a savepoint
/// may have brought it back.
fn is_gone(sequence: &Sequence) -> bool {
    membership::is_orphan(sequence)
        || sequence.owned_by.is_some_and(|column| column.names().is_none())
}

/// The column that becomes the owner of a sequence when its owner column is dropped. It is in a
/// table that replaces the old one in this transaction, as Citus does it to distribute a table in
/// another way. The new table's shards and partitions use the sequence too, but do not own it. They
/// are no partitions yet: Citus attaches them afterwards.
fn successor_column(sequence: &Sequence) -> Result<Option<ColumnRef>, HiloError> {
    if membership::is_orphan(sequence) {
        return Ok(None);
    }
    let inherits = |relid| {
        may_own(relid) && relations::owner(relid) == sequence.owner && relations::is_new(relid)
    };
    let mut successors = Vec::new();
    for ColumnDefault { relid, attnum, .. } in column_defaults::using(&sequence.name)? {
        if inherits(relid) {
            // A table that is not distributed any more is in no list of Citus either, but it has no
            // shards.
            let rank = (!is_distributed(relid)?, !relations::is_partitioned(relid));
            successors.try_push((rank, ColumnRef { relid, attnum }))?;
        }
    }
    Ok(successors.into_iter().min_by_key(|(rank, _)| *rank).map(|(_, column)| column))
}

/// Whether a table is a shard. Citus gives shards the defaults of their table, and uses none of
/// them. Another connection of the same statement may have locked the shards, to drop them.
fn is_shard(relid: pg_sys::Oid) -> bool {
    /// Citus numbers shards from 102008 on, and appends the number to the table's name.
    const DIGITS: usize = 6;
    let Some(name) = relations::name(relid).filter(|_| citus::is_here()) else { return false };
    let number = name.to_bytes().rsplit(|byte| *byte == b'_').next().unwrap_or_default();
    number.len() >= DIGITS
        && number.len() < name.to_bytes().len()
        && number.iter().all(u8::is_ascii_digit)
}

fn drop_defaults(sequence: &Sequence, keep: bool) -> Result<(), HiloError> {
    let mut defaults = column_defaults::using(&sequence.name)?;
    defaults.retain(|default| !is_shard(default.relid));
    let name = sequence.name.to_string();
    let refusal = |dependents| match &sequence.extension {
        Some(extension) if membership::is_orphan(sequence) => {
            let extension = extension.to_string();
            HiloError::ExtensionHasDependents { name, extension, dependents }
        }
        _ => {
            let successor =
                defaults.iter().map(|one| ColumnRef { relid: one.relid, attnum: one.attnum });
            let mut successor = successor.filter(|column| {
                may_own(column.relid) && relations::owner(column.relid) == sequence.owner
            });
            let successor = successor.next().map(ColumnRef::describe);
            HiloError::OwnedColumnHasDependents { name, dependents, successor }
        }
    };
    column_defaults::drop_all(&defaults, keep, refusal)
}

/// At the latest before the commit, drops the sequences whose columns were dropped without a
/// utility statement, as by another extension's function.
fn at_transaction(event: pg_sys::XactEvent::Type) -> Result<(), HiloError> {
    use pg_sys::XactEvent::*;
    match event {
        XACT_EVENT_PRE_COMMIT | XACT_EVENT_PRE_PREPARE => {
            let ids = std::mem::take(&mut *DROPPED.borrow_mut());
            if !ids.is_empty() {
                drop_sequences(ids, true)?;
            }
        }
        XACT_EVENT_ABORT => DROPPED.borrow_mut().clear(),
        _ => {}
    }
    Ok(())
}

/// Whether a DROP statement keeps dependent objects, since it does not say CASCADE.
///
/// # Safety
/// `node` must be a statement.
pub unsafe fn keeps_dependents(node: *mut pg_sys::Node) -> bool {
    const CASCADE: pg_sys::DropBehavior::Type = pg_sys::DropBehavior::DROP_CASCADE;
    // SAFETY: the tag of a node tells its type.
    unsafe {
        match (*node).type_ {
            pg_sys::NodeTag::T_DropStmt => (*node.cast::<pg_sys::DropStmt>()).behavior != CASCADE,
            pg_sys::NodeTag::T_DropOwnedStmt => {
                (*node.cast::<pg_sys::DropOwnedStmt>()).behavior != CASCADE
            }
            pg_sys::NodeTag::T_AlterTableStmt => {
                ffi::commands(node.cast()).all(|command| (*command).behavior != CASCADE)
            }
            _ => true,
        }
    }
}

/// Copies a statement after which sequences need work; null for all others. Core may free the
/// statement when it executes it.
///
/// # Safety
/// `node` must be a statement.
pub unsafe fn before(node: *mut pg_sys::Node) -> *mut pg_sys::Node {
    // SAFETY: the tag of a node tells its type; the copy is in the statement's memory context.
    unsafe {
        let concerns = match (*node).type_ {
            pg_sys::NodeTag::T_TruncateStmt => (*node.cast::<pg_sys::TruncateStmt>()).restart_seqs,
            pg_sys::NodeTag::T_AlterTableStmt => return before_alter_table(node.cast()),
            pg_sys::NodeTag::T_DropOwnedStmt | pg_sys::NodeTag::T_ReassignOwnedStmt => {
                owners::before(node).or_raise()
            }
            _ => false,
        };
        if concerns { pg_sys::copyObjectImpl(node.cast()).cast() } else { std::ptr::null_mut() }
    }
}

/// # Safety
/// `statement` must be an ALTER TABLE.
unsafe fn changes_owner(statement: *mut pg_sys::AlterTableStmt) -> bool {
    // SAFETY: the caller guarantees it.
    unsafe {
        ffi::commands(statement)
            .any(|command| (*command).subtype == pg_sys::AlterTableType::AT_ChangeOwner)
    }
}

/// # Safety
/// `statement` must be an ALTER TABLE.
unsafe fn before_alter_table(statement: *mut pg_sys::AlterTableStmt) -> *mut pg_sys::Node {
    // SAFETY: as in `before`.
    unsafe {
        if !changes_owner(statement) && !widened::concerns(statement) {
            return std::ptr::null_mut();
        }
        let copy = pg_sys::copyObjectImpl(statement.cast()).cast();
        widened::note_types(copy, relid_of((*statement).relation));
        copy.cast()
    }
}

/// Runs after core has executed the statement that [`before`] copied.
///
/// # Safety
/// `node` must come from [`before`], in the same statement.
pub unsafe fn after(node: *mut pg_sys::Node, keep: bool) {
    // SAFETY: the caller guarantees it.
    unsafe { follow(node, keep) }.or_raise();
}

/// # Safety
/// As for [`after`].
unsafe fn follow(node: *mut pg_sys::Node, keep: bool) -> Result<(), HiloError> {
    next_command();
    // SAFETY: the tag of a node tells its type.
    unsafe {
        match (*node).type_ {
            pg_sys::NodeTag::T_TruncateStmt => restart(node.cast()),
            pg_sys::NodeTag::T_AlterTableStmt => {
                let statement: *mut pg_sys::AlterTableStmt = node.cast();
                // The statement may tolerate a missing table.
                let relid = relid_of((*statement).relation);
                if changes_owner(statement) {
                    follow_owner(relid)?;
                }
                widened::follow(statement, relid)
            }
            _ => owners::after(node, keep),
        }
    }
}

/// Restarts the sequences of the tables that TRUNCATE … RESTART IDENTITY has emptied, each at its
/// start value.
unsafe fn restart(statement: *mut pg_sys::TruncateStmt) -> Result<(), HiloError> {
    // SAFETY: core has locked all of these tables and has just executed the statement on them, so
    // each exists. The lists are in the current memory context.
    let tables = unsafe {
        let mut tables: *mut pg_sys::List = std::ptr::null_mut();
        for range in ffi::cells::<pg_sys::RangeVar>((*statement).relations) {
            let relid = relid_of(range);
            let all = match (*range).inh {
                true => relations::with_children(relid)?,
                false => vec![relid],
            };
            for one in all {
                tables = pg_sys::list_append_unique_oid(tables, one);
            }
        }
        if (*statement).behavior == pg_sys::DropBehavior::DROP_CASCADE {
            loop {
                let referencing = pg_sys::heap_truncate_find_FKs(tables);
                if referencing.is_null() {
                    break;
                }
                tables = pg_sys::list_concat_unique_oid(tables, referencing);
            }
        }
        relations::oids(tables)?
    };
    let mut owned = Vec::new();
    for relid in tables {
        owned.try_extend(owned_sequences(relid, None)?)?;
    }
    let restart = |locked: LockedSequence| {
        ddl_checks::check_owner(&locked.sequence)?;
        renumber::restart(&locked.sequence)
    };
    lock_each(owned, restart)
}

/// Gives the sequences of a table to the table's owner.
fn follow_owner(relid: pg_sys::Oid) -> Result<(), HiloError> {
    let owner = relations::owner(relid);
    let give = |locked: LockedSequence| match locked.sequence.owner == owner {
        true => Ok(()),
        false => owners::give(locked, owner),
    };
    lock_each(owned_sequences(relid, None)?, give)
}

/// The relation that a statement names; InvalidOid if there is none.
unsafe fn relid_of(range: *const pg_sys::RangeVar) -> pg_sys::Oid {
    // SAFETY: the caller passes a part of a statement; the statement has locked the relation.
    unsafe {
        pg_sys::RangeVarGetRelidExtended(
            range,
            pg_sys::NoLock as _,
            pg_sys::RVROption::RVR_MISSING_OK,
            None,
            std::ptr::null_mut(),
        )
    }
}
