//! The parts of `hilo_create_missing` that no query can be. They read defaults and tables as they
//! are now, and run no code of the tables' owners. The rest is in `sql/adopt.sql`.

use pgrx::pg_sys;

use crate::catalog::column_ref::ColumnRef;
use crate::catalog::name::escape_for_message;
use crate::catalog::stored::base_type;
use crate::catalog::table::text_datum;
use crate::catalog::{column_defaults, definitions, privileges, relations};
use crate::errors::{HiloError, OrRaise};
use crate::process::ffi;
use crate::sql::call::args::{Args, sql_functions};
use crate::sql::call::stored_rows::StoredRows;
use crate::sql::call::values;
use crate::sql::column::lock;
use crate::sql::define::ddl_checks;

sql_functions!(
    hilo_column_defaults,
    hilo_missing_defaults,
    hilo_stored_type,
    hilo_lock_against_writers,
);

/// `_hilo.hilo_column_defaults()`: the columns whose default names a sequence, and whether that is
/// missing.
fn hilo_column_defaults(args: Args) {
    let mut rows = StoredRows::begin(args);
    for (default, name) in column_defaults::all() {
        let missing = definitions::by_name(&name).or_raise().is_none();
        let (relation, number) = (default.relid.into(), default.attnum.into());
        // SAFETY: the function is declared to return an oid, a smallint, a text and a boolean.
        unsafe { rows.add([relation, number, text_datum(&name), missing.into()]) };
    }
}

/// `_hilo.hilo_missing_defaults()`: the columns whose default names a sequence that does not exist.
fn hilo_missing_defaults(args: Args) {
    ddl_checks::begin_write(c"hilo_create_missing()");
    let mut rows = StoredRows::begin(args);
    for (default, name) in column_defaults::all() {
        if definitions::by_name(&name).or_raise().is_none() {
            // SAFETY: the function is declared to return an oid, a smallint and a text.
            unsafe { rows.add([default.relid.into(), default.attnum.into(), text_datum(&name)]) };
        }
    }
}

/// `_hilo.hilo_stored_type(relation, number)`: the type, below all domains, of a column whose
/// values are stored in this database. NULL for one that does not exist, whose values cannot be
/// read there, or that belongs to another role.
fn hilo_stored_type(args: Args) -> Option<pg_sys::Datum> {
    let (relid, attnum) = (args.oid(0)?, args.datum(1)?.value() as i16);
    let column = ColumnRef { relid, attnum };
    column.names()?;
    if !privileges::acts_as(ffi::current_user(), relations::owner(relid)) {
        return None;
    }
    match values::open_stored(column) {
        // It may have been dropped during a wait.
        Ok(_) => Some(base_type(column)).filter(|kind| *kind != pg_sys::InvalidOid).map(Into::into),
        Err(HiloError::NotStored { .. }) => None,
        Err(error) => error.raise(),
    }
}

/// `_hilo.hilo_lock_against_writers(relation)`: for a role that may create the sequences of the
/// table. Returns the argument, or NULL if there is no such table.
fn hilo_lock_against_writers(args: Args) -> Option<pg_sys::Datum> {
    let relid = args.oid(0)?;
    privileges::may_create().or_raise();
    let table = relations::identifier(relid)?;
    if !privileges::acts_as(ffi::current_user(), relations::owner(relid)) {
        HiloError::NotTableOwner(escape_for_message(&table)).raise();
    }
    lock::against_writers(relid);
    Some(relid.into())
}
