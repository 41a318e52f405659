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
use crate::sql::call::border::Call;
use crate::sql::call::stored_rows::{Rows, row};
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

row! {
    struct Numbered {
        base: i64,
        nodes: i32,
        stripe: i64,
        reserved_to: Option<i64>,
    }
}

/// `_hilo.hilo_numbering(sequence)`: nothing of a sequence that the caller may not read.
#[pg_extern(sql = false)]
fn hilo_numbering(call: Call, sequence: i64) -> Result<Rows<Numbered>, ErrorReport> {
    let mut rows = Rows::begin(call);
    let Some(sequence) = definitions::by_id(SequenceId(sequence))? else { return Ok(rows) };
    if privileges::may_see(&sequence, ffi::current_user())?
        && let Some(position) = own_position(&sequence)?
    {
        let Numbering { base, nodes, stripe } = position.numbering();
        let reserved_to = position.last_value(&sequence.definition);
        rows.add(Numbered { base, nodes, stripe, reserved_to });
    }
    Ok(rows)
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
    ddl_checks::require(args.datum(0), "document").or_raise();
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
    begin_write(c"hilo_apply_one()");
    ddl_checks::require(args.datum(0), "name of a hilo sequence").or_raise();
    let (name, options) = (args.name(0), options(args).or_raise());
    let numbering = args.int8(16).zip(args.int8(17)).zip(args.int8(18));
    let numbering =
        numbering.map(|((base, nodes), stripe)| Numbering { base, nodes: nodes as i32, stripe });
    if args.bool(11) == Some(true) {
        let (name, definition) = (args.new_name(0), Definition::create(&options).or_raise());
        let created = ddl::create(name.clone(), definition, None, numbering, Duplicate::Refuse);
        if created.or_raise().is_none() {
            HiloError::Duplicate(name.to_string()).raise();
        }
        return false.into();
    }
    let locked = &lock_owned(name).or_raise();
    let old = locked.sequence.clone();
    let untold = numbering.and_then(|there| untold(&old, there).or_raise());
    if let Some(given) = untold {
        number(&old, given).or_raise();
    }
    let owned_by = args.datum(13).map(|_| owned_by::parse(args.bytes(13), Purpose::Own).or_raise());
    if options != Options::default() || owned_by.is_some() {
        let (options, owned_by) = (&options, owned_by.unwrap_or(old.owned_by));
        let alteration = Alteration { locked, options, owned_by, restart: None };
        renumber::alter(&alteration, args.bool(19) == Some(true)).or_raise();
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

/// The options, which `hilo_alter` has at the same places.
fn options(args: Args) -> Result<Options, HiloError> {
    // SAFETY: the arguments are declared as texts, and as an interval.
    let text = |at| unsafe {
        FromDatum::from_datum(
            args.datum(at).unwrap_or(pg_sys::Datum::null()),
            args.datum(at).is_none(),
        )
    };
    // SAFETY: as above.
    let interval = |at| unsafe {
        FromDatum::from_datum(
            args.datum(at).unwrap_or(pg_sys::Datum::null()),
            args.datum(at).is_none(),
        )
    };
    Ok(Options {
        data_type: args.oid(5).map(ddl::data_type).transpose()?,
        start_value: args.int8(1),
        increment: args.int8(2),
        min_value: args.int8(3),
        max_value: args.int8(4),
        cycle: args.bool(6),
        ordered: args.bool(7),
        block_size: args.int8(8),
        slice_size: args.int8(9),
        key_format: text(10).map(ddl::key_format).transpose()?,
        gapless: args.bool(12),
        source: text(14).map(ddl::source).transpose()?,
        reserve_ahead: interval(15).map(ddl::seconds),
    })
}
