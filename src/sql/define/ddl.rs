//! Definitions: create, rename, drop. Ordinary transactional writes to the catalog.

use std::panic::AssertUnwindSafe;

use pgrx::pg_sys;
use pgrx::prelude::*;

use hilo_core::options::{Definition, Options};

use crate::catalog::column_ref::ColumnRef;
use crate::catalog::definitions::{self, Sequence};
use crate::catalog::membership;
use crate::catalog::missing;
use crate::catalog::name::{self, Name, escape_for_message};
use crate::catalog::node;
use crate::catalog::numbering::Numbering;
use crate::catalog::positions::{self, Position};
use crate::catalog::table::next_command;
use crate::catalog::{column_defaults, creation, numbering, privileges};
use crate::errors::{HiloError, OrRaise};
use crate::gucs;
use crate::process::ffi;
use crate::process::subtransaction;
use crate::session::invalidation::{self, Change};
use crate::session::uncommitted::{self, Origin};
use crate::sql::call::args::{Args, sql_functions};
use crate::sql::define::ddl_checks::{
    begin_with_name, begin_write, check_owner, check_source_nodes, find_owned, lock_by_name,
    lock_owned, remove, require,
};
use crate::sql::define::ended::with_numbering;
use crate::sql::define::owned_by::{self, Purpose};
use crate::sql::draw::keys;

sql_functions!(hilo_create, hilo_rename, hilo_drop);

/// The options of `hilo_create` and `hilo_alter`, which have them at the same places: the arguments
/// from `start_value` to `key_format`, and `gapless`.
pub fn options(args: Args) -> Options {
    let data_type = args.oid(5).map(|oid| {
        definitions::data_type_from(oid).unwrap_or_else(|| {
            HiloError::Argument(
                "data type of a hilo sequence must be smallint, integer, or bigint".into(),
                "Use one of these three types.",
            )
            .raise()
        })
    });
    Options {
        data_type,
        start_value: args.int8(1),
        increment: args.int8(2),
        min_value: args.int8(3),
        max_value: args.int8(4),
        cycle: args.bool(6),
        ordered: args.bool(7),
        block_size: args.int8(8),
        slice_size: args.int8(9),
        // It is joined with names and prefixes byte by byte, so it must be in their encoding.
        key_format: args.datum(10).map(|_| {
            text(args.bytes(10), |bytes| format!("key_format \"{}\"", escape_for_message(bytes)))
        }),
        gapless: args.bool(12),
        source: args.datum(14).map(|_| text(args.bytes(14), |_| "source".into())),
        reserve_ahead: args.datum(15).map(|_| seconds(args.interval(15))),
    }
}

fn text(bytes: &[u8], what: fn(&[u8]) -> String) -> String {
    let text = name::utf8(bytes).ok_or_else(|| {
        HiloError::Argument(
            format!("{} contains non-ASCII characters", what(bytes)),
            "Use ASCII only, or a database whose encoding is UTF8.",
        )
    });
    text.or_raise().to_owned()
}

/// An interval in whole seconds, at least 1 unless it is 0.
fn seconds(interval: pg_sys::Interval) -> i64 {
    let days = i64::from(interval.month) * 30 + i64::from(interval.day);
    days.saturating_mul(86_400).saturating_add(interval.time.div_euclid(1_000_000))
        + i64::from(interval.time.rem_euclid(1_000_000) > 0)
}

/// The way to proceed if the name of a new sequence is taken.
#[derive(Clone, Copy)]
pub enum Duplicate {
    /// Raise an error.
    Refuse,
    /// Leave the existing sequence as it is, with a notice.
    Skip,
}

/// `hilo_create(name, …)`: a new sequence, owned by the current user. Returns its name.
fn hilo_create(args: Args) -> pg_sys::Datum {
    begin_write(c"hilo_create()");
    let result = require(args, 0, "name of a hilo sequence");
    let name = args.new_name(0);
    let definition = Definition::create(&options(args)).or_raise();
    let duplicate = match args.bool(11) {
        Some(true) => Duplicate::Skip,
        _ => Duplicate::Refuse,
    };
    let owned_by =
        args.datum(13).and_then(|_| owned_by::parse(args.bytes(13), Purpose::Own).or_raise());
    match create(name.clone(), definition, owned_by, None, duplicate) {
        Some(_) => {}
        None if matches!(duplicate, Duplicate::Refuse) => {
            HiloError::Duplicate(name.to_string()).raise()
        }
        None => ereport!(
            PgLogLevel::NOTICE,
            PgSqlErrorCode::ERRCODE_DUPLICATE_OBJECT,
            format!("hilo sequence \"{name}\" already exists, skipping")
        ),
    }
    result
}

/// Creates a sequence that the current user owns. `given`: the numbering of the other nodes, if
/// they have the sequence. `None`: the name is taken; if another transaction is taking it,
/// [`insert`] decides.
pub fn create(
    name: Name,
    definition: Definition,
    owned_by: Option<ColumnRef>,
    given: Option<Numbering>,
    duplicate: Duplicate,
) -> Option<Sequence> {
    keys::check(&definition, &name).or_raise();
    privileges::may_create().or_raise();
    let owner = ffi::current_user();
    if let Some(column) = owned_by {
        owned_by::check(column, owner).or_raise();
    }
    begin(Sequence { owned_by, ..Sequence::new(name, owner, definition) }, given, duplicate)
}

/// Does the same for a sequence whose owner may create it and own it.
pub fn begin(
    sequence: Sequence,
    given: Option<Numbering>,
    duplicate: Duplicate,
) -> Option<Sequence> {
    let Sequence { name, definition, .. } = &sequence;
    let here = node::Here::read().or_raise();
    here.check(definition).or_raise();
    let nodes = given.map_or(gucs::node_count(), |numbering| numbering.nodes);
    node::check_set(nodes).or_raise();
    if here.id >= nodes {
        HiloError::NotAmongNodes { name: name.to_string(), id: here.id, count: nodes }.raise();
    }
    if definition.gapless && nodes > 1 {
        HiloError::GaplessNodes { name: name.to_string(), nodes }.raise();
    }
    check_source_nodes(&sequence, nodes).or_raise();
    if definitions::by_name(name).or_raise().is_some() {
        return None;
    }
    if given.is_none() {
        numbering::check_begins(name, nodes).or_raise();
    }
    let first = Position::first(&sequence, here.id);
    let first = match given.filter(|_| definition.source.is_none()) {
        Some(numbering) => with_numbering(&first, numbering),
        None => first,
    };
    // The numbering of other nodes is not begun here: after a rollback this one may be told again.
    let is_own = given.is_none() && definition.source.is_none();
    let origin = if is_own { Origin::New } else { Origin::Shared };
    if !insert(&sequence, &first, origin, duplicate) {
        return None;
    }
    invalidation::begin();
    Some(sequence)
}

/// Adds the rows of a new sequence. `false`: another transaction took the name first. That is
/// returned only if a duplicate is skipped, which costs a subtransaction; otherwise it is an error.
fn insert(sequence: &Sequence, first: &Position, origin: Origin, duplicate: Duplicate) -> bool {
    let insert = || {
        creation::insert(sequence).or_raise();
        uncommitted::note_origin(positions::insert(first).or_raise(), origin).or_raise();
        next_command();
    };
    if matches!(duplicate, Duplicate::Refuse) {
        if_free(&sequence.name, insert);
        return true;
    }
    match subtransaction::run(insert) {
        Ok(()) => true,
        Err(error)
            if subtransaction::sqlstate(&error) == PgSqlErrorCode::ERRCODE_UNIQUE_VIOLATION =>
        {
            false
        }
        Err(error) => error.rethrow(),
    }
}

/// Writes a row with this name, unless another transaction took it first.
fn if_free(name: &Name, write: impl FnOnce()) {
    PgTryBuilder::new(AssertUnwindSafe(write))
        .catch_when(PgSqlErrorCode::ERRCODE_UNIQUE_VIOLATION, |_| {
            HiloError::Duplicate(name.to_string()).raise()
        })
        .execute();
}

/// `hilo_rename(name, new_name)`: the sequence keeps its numbers and its defaults.
fn hilo_rename(args: Args) {
    let name = begin_with_name(args, c"hilo_rename()");
    require(args, 1, "new name of a hilo sequence");
    let new_name = args.new_name(1);
    find_owned(name).or_raise().ok_or_else(|| missing::to_use(name)).or_raise();
    if definitions::by_name(&new_name).or_raise().is_some() {
        HiloError::Duplicate(new_name.to_string()).raise();
    }
    let rename_defaults = || {
        for default in column_defaults::using(name) {
            column_defaults::rename_in(&default, name, &new_name);
        }
    };
    // The tables are locked before the sequence. A session that holds a table's lock may be waiting
    // for the worker, and the worker for the sequence's row.
    rename_defaults();
    let locked = lock_owned(name);
    let renamed = Sequence { name: new_name.clone(), ..locked.sequence.clone() };
    keys::check(&renamed.definition, &new_name).or_raise();
    if_free(&new_name, || locked.update(&renamed));
    // Rename also in the defaults that were added during the waits.
    rename_defaults();
    invalidation::note(renamed.id, Change::Outdated).or_raise();
}

/// `hilo_drop(name, if_exists, cascade)`: drops the sequence and all that is recorded of it.
fn hilo_drop(args: Args) {
    let name = begin_with_name(args, c"hilo_drop()");
    let [if_exists, cascade] = [1, 2].map(|at| args.bool(at) == Some(true));
    let absent = || {
        if !if_exists {
            missing::to_use(name).raise();
        }
        let name = escape_for_message(name);
        notice!("hilo sequence \"{name}\" does not exist, skipping");
    };
    let drop_defaults = |name: &Name| {
        let defaults = column_defaults::using(name);
        let name = name.to_string();
        let refusal = |dependents| HiloError::HasDependents { name, dependents };
        column_defaults::drop_all(&defaults, !cascade, refusal);
    };
    let Some(found) = find_owned(name).or_raise() else { return absent() };
    membership::check_droppable(&found).or_raise();
    // The tables come first, as in hilo_rename(), and then the defaults that were added during the
    // waits.
    drop_defaults(&found.name);
    let Some(owned) = lock_by_name(name, check_owner).or_raise() else { return absent() };
    drop_defaults(&owned.sequence.name);
    remove(owned);
}
