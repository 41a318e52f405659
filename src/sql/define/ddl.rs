//! Definitions: make, rename, drop. Ordinary transactional writes to the catalog.

use std::panic::AssertUnwindSafe;

use pgrx::pg_sys::panic::ErrorReport;
use pgrx::prelude::*;

use hilo_core::options::Definition;

use crate::catalog::columns::column_defaults;
use crate::catalog::columns::column_ref::ColumnRef;
use crate::catalog::rights::missing;
use crate::catalog::rights::{creation, privileges};
use crate::catalog::rows::name::{Name, escape_for_message};
use crate::catalog::rows::table::next_command;
use crate::catalog::sequence::definitions::{self, Sequence};
use crate::catalog::sequence::membership;
use crate::catalog::sequence::node;
use crate::catalog::sequence::numbering;
use crate::catalog::sequence::numbering::Numbering;
use crate::catalog::sequence::positions::{self, Position};
use crate::errors::HiloError;
use crate::gucs;
use crate::process::ffi;
use crate::process::subtransaction;
use crate::session::invalidation::{self, Change};
use crate::session::uncommitted::{self, Origin};
use crate::sql::call::border::Call;
use crate::sql::define::ddl_checks::{
    begin_with_name, check_owner, check_source_nodes, find_owned, lock_by_name, lock_owned, remove,
    require,
};
use crate::sql::define::numbering_change::with_numbering;
use crate::sql::define::owned_by;
use crate::sql::define::prefix;
use crate::sql::types::sequence_type::SequenceName;

/// How to proceed if the name of a new sequence is taken.
#[derive(Clone, Copy)]
pub enum Duplicate {
    /// Raise an error.
    Refuse,
    /// Leave the existing sequence as it is, with a notice.
    Skip,
}

/// Creates a sequence that the current user owns. `given`: the numbering of the other nodes, if
/// they have the sequence. `None`: the name is taken, and a duplicate is skipped.
pub fn create(
    name: Name,
    definition: Definition,
    owned_by: Option<ColumnRef>,
    given: Option<Numbering>,
    duplicate: Duplicate,
) -> Result<Option<Sequence>, HiloError> {
    prefix::allows_definition(&definition, &name)?;
    privileges::may_create()?;
    let owner = ffi::current_user();
    if let Some(column) = owned_by {
        owned_by::check(column, owner)?;
    }
    begin(Sequence { owned_by, ..Sequence::new(name, owner, definition) }, given, duplicate)
}

/// Creates a sequence whose owner may create it and own it.
pub fn begin(
    sequence: Sequence,
    given: Option<Numbering>,
    duplicate: Duplicate,
) -> Result<Option<Sequence>, HiloError> {
    let Sequence { name, definition, .. } = &sequence;
    let here = node::LocalNode::read()?;
    here.check(definition)?;
    let nodes = given.map_or(gucs::node_count(), |numbering| numbering.nodes);
    node::check_set(nodes)?;
    if here.id >= nodes {
        let name = name.to_string();
        return Err(HiloError::NotAmongNodes { name, id: here.id, count: nodes });
    }
    if definition.gapless && nodes > 1 {
        return Err(HiloError::GaplessNodes { name: name.to_string(), nodes });
    }
    check_source_nodes(&sequence, nodes)?;
    if definitions::by_name(name)?.is_some() {
        return match duplicate {
            Duplicate::Refuse => Err(HiloError::Duplicate(name.to_string())),
            Duplicate::Skip => Ok(None),
        };
    }
    if given.is_none() {
        numbering::check_begins(name, nodes)?;
    }
    let first = Position::first(&sequence, here.id);
    let first = match given.filter(|_| definition.source.is_none()) {
        Some(numbering) => with_numbering(&first, numbering),
        None => first,
    };
    // The numbering of other nodes is not begun in this transaction: after a rollback this node may
    // be told it again.
    let is_own = given.is_none() && definition.source.is_none();
    let origin = if is_own { Origin::New } else { Origin::Shared };
    if !insert(&sequence, &first, origin, duplicate)? {
        return Ok(None);
    }
    invalidation::begin();
    Ok(Some(sequence))
}

/// Adds the rows of a new sequence. `false`: another transaction took the name first. That is
/// returned only if a duplicate is skipped, which costs a subtransaction; otherwise it is an error.
fn insert(
    sequence: &Sequence,
    first: &Position,
    origin: Origin,
    duplicate: Duplicate,
) -> Result<bool, HiloError> {
    let insert = || {
        creation::insert(sequence)?;
        number(first, origin)
    };
    if matches!(duplicate, Duplicate::Refuse) {
        return if_free(&sequence.name, insert).map(|()| true);
    }
    let is_taken =
        |error: &_| subtransaction::sqlstate(error) == PgSqlErrorCode::ERRCODE_UNIQUE_VIOLATION;
    Ok(subtransaction::run(is_taken, insert).is_ok())
}

/// Writes the position at which this node begins.
pub fn number(first: &Position, origin: Origin) -> Result<(), HiloError> {
    uncommitted::note_origin(positions::insert(first)?, origin)?;
    next_command();
    Ok(())
}

/// Writes a row with this name, unless another transaction took it first.
fn if_free(name: &Name, write: impl FnOnce() -> Result<(), HiloError>) -> Result<(), HiloError> {
    PgTryBuilder::new(AssertUnwindSafe(write))
        .catch_when(PgSqlErrorCode::ERRCODE_UNIQUE_VIOLATION, |_| {
            Err(HiloError::Duplicate(name.to_string()))
        })
        .execute()
}

/// `hilo_rename(name, new_name)`: the sequence keeps its numbers and its defaults.
#[pg_extern(sql = false)]
fn hilo_rename(
    _call: Call,
    name: Option<SequenceName>,
    new_name: Option<SequenceName>,
) -> Result<(), ErrorReport> {
    let name = begin_with_name(name, c"hilo_rename()")?.bytes();
    let new_name = require(new_name, "new name of a hilo sequence")?.new_name()?;
    find_owned(name)?.ok_or_else(|| missing::to_use(name))?;
    if definitions::by_name(&new_name)?.is_some() {
        return Err(HiloError::Duplicate(new_name.to_string()).into());
    }
    let rename_defaults = || {
        let defaults = column_defaults::using(name)?;
        defaults.iter().try_for_each(|one| column_defaults::rename_in(one, name, &new_name))
    };
    // The tables are locked before the sequence. A session that holds a table's lock may be waiting
    // for the worker, and the worker for the sequence's row.
    rename_defaults()?;
    let locked = lock_owned(name)?;
    let renamed = Sequence { name: new_name.clone(), ..locked.sequence.clone() };
    prefix::allows_definition(&renamed.definition, &new_name)?;
    if_free(&new_name, || {
        locked.update(&renamed);
        Ok(())
    })?;
    // Defaults that were added during the waits are renamed too.
    rename_defaults()?;
    Ok(invalidation::note(renamed.id, Change::Outdated)?)
}

/// `hilo_drop(name, if_exists, cascade)`: drops a sequence and all its records.
#[pg_extern(sql = false)]
fn hilo_drop(
    _call: Call,
    name: Option<SequenceName>,
    if_exists: Option<bool>,
    cascade: Option<bool>,
) -> Result<(), ErrorReport> {
    let name = begin_with_name(name, c"hilo_drop()")?;
    Ok(drop(&name, if_exists == Some(true), cascade == Some(true))?)
}

/// Drops a sequence and all its records.
pub fn drop(name: &[u8], if_exists: bool, cascade: bool) -> Result<(), HiloError> {
    let absent = || {
        if !if_exists {
            return Err(missing::to_use(name));
        }
        let name = escape_for_message(name);
        notice!("hilo sequence \"{name}\" does not exist, skipping");
        Ok(())
    };
    let Some(found) = find_owned(name)? else { return absent() };
    membership::check_droppable(&found)?;
    // The tables come first, as in hilo_rename(), and then the defaults that were added during the
    // waits.
    drop_defaults(&found.name, cascade)?;
    let Some(owned) = lock_by_name(name, check_owner)? else { return absent() };
    drop_defaults(&owned.sequence.name, cascade)?;
    remove(owned)
}

/// Drops the column defaults that use a sequence. Without CASCADE they prevent its drop.
fn drop_defaults(name: &Name, cascade: bool) -> Result<(), HiloError> {
    let defaults = column_defaults::using(name)?;
    let name = name.to_string();
    let refusal = |dependents| HiloError::HasDependents { name, dependents };
    column_defaults::drop_all(&defaults, !cascade, refusal)
}

/// Refuses what [`drop`] refuses without CASCADE.
pub fn check_drop(name: &[u8]) -> Result<(), HiloError> {
    match find_owned(name)? {
        Some(found) => {
            membership::check_droppable(&found)?;
            drop_defaults(&found.name, false)
        }
        None => Ok(()),
    }
}
