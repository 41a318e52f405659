//! The part of `hilo_export`, `hilo_apply` and `hilo_node_summary` that is not SQL: how a server
//! numbers a sequence, rights, locks, and the change of one sequence. The rest is in
//! sql/documents.sql and sql/apply.sql.

use std::panic::AssertUnwindSafe;

use pgrx::pg_sys;
use pgrx::pg_sys::panic::{CaughtError, ErrorReport};
use pgrx::prelude::*;

use hilo_core::name as names;
use hilo_core::numbers::SequenceId;
use hilo_core::options::{Definition, Options};

use crate::catalog::catalog_oids;
use crate::catalog::column_ref::ColumnRef;
use crate::catalog::definitions::{self, Sequence};
use crate::catalog::missing;
use crate::catalog::node::{self, Here};
use crate::catalog::numbering::{self, Numbering};
use crate::catalog::positions::{self, Position};
use crate::catalog::privileges::{self, Privileges};
use crate::catalog::table::{next_command, text_datum};
use crate::errors::{HiloError, OrRaise, with_path};
use crate::process::ffi;
use crate::process::subtransaction;
use crate::session::invalidation;
use crate::session::uncommitted::{self, Origin};
use crate::shared;
use crate::sql::call::args::{Args, sql_functions};
use crate::sql::call::stored_rows::StoredRows;
use crate::sql::define::ddl::{self, Duplicate};
use crate::sql::define::ddl_checks::{
    self, begin_write, check_owner, find_owned, lock_by_name, lock_owned,
};
use crate::sql::define::owned_by::{self, Purpose};
use crate::sql::define::redefine::Alteration;
use crate::sql::define::renumber;
use crate::sql::draw::nextval;

sql_functions!(
    hilo_may_see,
    hilo_server,
    hilo_numbering,
    hilo_begin_apply,
    hilo_check_may_apply,
    hilo_owning_column,
    hilo_lock_definitions,
    hilo_lock,
    hilo_apply_one,
    hilo_raise,
);

/// `_hilo.hilo_raise(code, message, detail, hint)`
fn hilo_raise(args: Args) {
    let message = args.text(1).unwrap_or_default();
    let state = args.text(0).unwrap_or_default();
    HiloError::Told { state, message, detail: args.text(2), hint: args.text(3) }.raise();
}

/// `_hilo.hilo_may_see(name, must_exist)`
fn hilo_may_see(args: Args) -> pg_sys::Datum {
    let name = args.name(0);
    let found = match args.bool(1) {
        Some(true) => Some(missing::require(name).or_raise()),
        _ => definitions::by_name(name).or_raise(),
    };
    if let Some(sequence) = &found
        && !privileges::may_see(sequence, ffi::current_user()).or_raise()
    {
        nextval::allow(sequence, Privileges::ALL).or_raise();
    }
    found.is_some().into()
}

/// `_hilo.hilo_server()`: the life of this server. Its system identifier would not do: copies share
/// that.
fn hilo_server(_: Args) -> pg_sys::Datum {
    let life = shared::get().map_or(positions::server().0, |shared| shared.life());
    text_datum(life.to_string().as_bytes())
}

/// `_hilo.hilo_numbering(sequence)`: nothing of a sequence that the caller may not read.
fn hilo_numbering(args: Args) {
    let mut rows = StoredRows::begin(args);
    let found = args.int8(0).and_then(|id| definitions::by_id(SequenceId(id)).or_raise());
    let Some(sequence) = found else { return };
    if !privileges::may_see(&sequence, ffi::current_user()).or_raise() {
        return;
    }
    if let Some(position) = own_position(&sequence).or_raise() {
        let Numbering { base, nodes, stripe } = position.numbering();
        let reserved_to = position.last_value(&sequence.definition).map(pg_sys::Datum::from);
        let row = [Some(base.into()), Some(nodes.into()), Some(stripe.into()), reserved_to];
        // SAFETY: the function is declared to return a bigint, an integer and two bigints.
        unsafe { rows.add_some(row) };
    }
}

/// The position of this server or, if it has not served the sequence yet, the one that it will
/// begin with. `None`: it refuses to serve the sequence.
fn own_position(sequence: &Sequence) -> Result<Option<Position>, HiloError> {
    match positions::find(sequence.id, node::id())? {
        None => Ok(Here::read().and_then(|here| numbering::join(sequence, &here)).ok()),
        found => Ok(found),
    }
}

/// `_hilo.hilo_begin_apply(document)`
fn hilo_begin_apply(args: Args) {
    begin_write(c"hilo_apply()");
    ddl_checks::require(args, 0, "document");
}

/// The place of a sequence in a document.
fn place_of(args: Args, field: &str) -> String {
    format!("sequences[{}]{field}", args.int8(1).unwrap_or(0))
}

/// `_hilo.hilo_check_may_apply(name, at)`
fn hilo_check_may_apply(args: Args) {
    let at = |field, error: HiloError| HiloError::InDocument {
        path: place_of(args, field),
        error: Box::new(error),
    };
    let name = args.bytes(0);
    names::validate(name).map_err(|error| at(".name", error.into())).or_raise();
    let found = find_owned(name).and_then(|found| match found {
        None => privileges::may_create(),
        Some(_) => Ok(()),
    });
    found.map_err(|error| at("", error)).or_raise();
}

/// `_hilo.hilo_owning_column(column_name, at, lock)`
fn hilo_owning_column(args: Args) -> pg_sys::Datum {
    let purpose = if args.bool(2) == Some(true) { Purpose::Own } else { Purpose::Look };
    let path = place_of(args, ".owned_by");
    let column = at_path(&path, || owned_by::parse(args.bytes(0), purpose).or_raise());
    match column.and_then(ColumnRef::text) {
        Some(text) => text_datum(text.to_bytes()),
        None => args.null(),
    }
}

/// Runs `work`; an error says which place of the document it belongs to.
fn at_path<T>(path: &str, work: impl FnOnce() -> T) -> T {
    PgTryBuilder::new(AssertUnwindSafe(work))
        .catch_others(|error| match error {
            CaughtError::PostgresError(report) | CaughtError::ErrorReport(report)
                if report.sql_error_code() != PgSqlErrorCode::ERRCODE_QUERY_CANCELED =>
            {
                let detail = with_path(report.detail().map(str::to_owned), path);
                let mut placed =
                    ErrorReport::new(report.sql_error_code(), report.message().to_owned(), "hilo")
                        .set_detail(detail);
                if let Some(hint) = report.hint() {
                    placed = placed.set_hint(hint);
                }
                placed.report(PgLogLevel::ERROR);
                unreachable!("an ERROR does not return")
            }
            error => error.rethrow(),
        })
        .execute()
}

/// `_hilo.hilo_lock_definitions(keep)`
fn hilo_lock_definitions(args: Args) {
    // PUBLIC has USAGE of _hilo: anybody can call the function.
    if let Err(refusal) = privileges::may_create() {
        let user = ffi::current_user();
        let is_own = |one: Sequence| privileges::acts_as(user, one.owner).then_some(());
        if definitions::collect(is_own).or_raise().is_empty() {
            refusal.raise();
        }
    }
    match args.bool(0) {
        Some(true) => lock_definitions().or_raise(),
        _ => subtransaction::try_out(|| lock_definitions().or_raise())
            .unwrap_or_else(|error| error.rethrow()),
    }
}

/// Waits for other transactions that apply a document, and for DROP EXTENSION. Only for a role that
/// may change something: others must not be able to make these wait.
fn lock_definitions() -> Result<(), HiloError> {
    let extension = catalog_oids()?.extension;
    let mode = pg_sys::ShareUpdateExclusiveLock as pg_sys::LOCKMODE;
    // SAFETY: takes a lock inside a transaction, whose end releases it; any object can be locked.
    unsafe { pg_sys::LockDatabaseObject(pg_sys::ExtensionRelationId, extension, 0, mode) };
    Ok(())
}

/// `_hilo.hilo_lock(name)`
fn hilo_lock(args: Args) {
    begin_write(c"_hilo.hilo_lock()");
    lock_by_name(args.bytes(0), check_owner).or_raise();
}

/// `hilo_apply_one(…)`: the arguments are those of `hilo_alter`, with `is_new` in the place of
/// `restart_with`, then what only documents have.
fn hilo_apply_one(args: Args) -> pg_sys::Datum {
    let name = ddl_checks::begin_with_name(args, c"hilo_apply_one()");
    let options = ddl::options(args);
    let numbering = args.int8(16).zip(args.int8(17)).zip(args.int8(18));
    let numbering =
        numbering.map(|((base, nodes), stripe)| Numbering { base, nodes: nodes as i32, stripe });
    if args.bool(11) == Some(true) {
        let (name, definition) = (args.new_name(0), Definition::create(&options).or_raise());
        if ddl::create(name.clone(), definition, None, numbering, Duplicate::Refuse).is_none() {
            HiloError::Duplicate(name.to_string()).raise();
        }
        return false.into();
    }
    let locked = &lock_owned(name);
    let old = locked.sequence.clone();
    let untold = numbering.and_then(|there| untold(&old, there).or_raise());
    if let Some(given) = untold {
        number(&old, given).or_raise();
    }
    let owned_by = args.datum(13).map(|_| owned_by::parse(args.bytes(13), Purpose::Own).or_raise());
    if options != Options::default() || owned_by.is_some() {
        let (options, owned_by) = (&options, owned_by.unwrap_or(old.owned_by));
        let alteration = Alteration { locked, options, owned_by, restart: None };
        renumber::alter(&alteration, args.bool(19) == Some(true));
    }
    untold.is_some().into()
}

/// The numbering `there` of the other nodes, if this server is yet to be told it. It has not served
/// the sequence as the node that it is now, and would begin differently or not at all. Refuses a
/// sequence that it numbers differently: both could serve the same values.
///
/// # Errors
/// `NumberingDiffers`
fn untold(found: &Sequence, there: Numbering) -> Result<Option<Numbering>, HiloError> {
    let here = own_position(found)?.map(|position| position.numbering());
    if here == Some(there) {
        return Ok(None);
    }
    match (here, positions::find(found.id, node::id())?) {
        (Some(here), Some(_)) => Err(HiloError::NumberingDiffers {
            name: found.name.to_string(),
            here: here.to_string(),
            there: there.to_string(),
        }),
        _ => Ok(numbering::is_open(found)?.then_some(there)),
    }
}

/// Lets this server begin with the numbering of other nodes. The sequence is locked, so the worker
/// makes no first position meanwhile.
fn number(sequence: &Sequence, given: Numbering) -> Result<(), HiloError> {
    let first = numbering::begin_with(sequence, &node::serves(sequence)?, given)?;
    // After a rollback the server may be told again, and would serve what this transaction has
    // drawn.
    uncommitted::note_origin(positions::insert(&first)?, Origin::Shared)?;
    next_command();
    invalidation::begin();
    Ok(())
}
