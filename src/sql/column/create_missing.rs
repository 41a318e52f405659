//! The parts of `hilo_create_missing` that cannot be queries. They read defaults and tables as they
//! are now, and run no code of the tables' owners. The rest is in `sql/missing.sql`.

use pgrx::pg_sys;
use pgrx::pg_sys::panic::ErrorReport;
use pgrx::prelude::*;

use crate::catalog::columns::column_defaults;
use crate::catalog::columns::column_ref::ColumnRef;
use crate::catalog::rights::privileges;
use crate::catalog::rows::name::{Name, escape_for_message};
use crate::catalog::rows::relations;
use crate::catalog::sequence::definitions;
use crate::errors::HiloError;
use crate::process::ffi;
use crate::sql::call::border::Call;
use crate::sql::call::stored_rows::{Rows, row};
use crate::sql::column::lock;
use crate::sql::column::stored::base_type;
use crate::sql::column::values;
use crate::sql::define::ddl_checks;

row! {
    struct NamingDefault {
        relation: pg_sys::Oid,
        number: i16,
        name: Name,
        missing: bool,
    }
}

/// `_hilo.hilo_column_defaults()`: the columns whose default names a sequence, and whether that
/// sequence is missing.
#[pg_extern(sql = false)]
fn hilo_column_defaults(call: Call) -> Result<Rows<NamingDefault>, ErrorReport> {
    let mut rows = Rows::begin(call);
    for (default, name) in column_defaults::all()? {
        let missing = definitions::by_name(&name)?.is_none();
        let (relation, number) = (default.relid, default.attnum);
        rows.add(NamingDefault { relation, number, name, missing });
    }
    Ok(rows)
}

row! {
    struct MissingDefault {
        relation: pg_sys::Oid,
        number: i16,
        name: Name,
    }
}

/// `_hilo.hilo_missing_defaults()`: the columns whose default names a sequence that does not exist.
#[pg_extern(sql = false)]
fn hilo_missing_defaults(call: Call) -> Result<Rows<MissingDefault>, ErrorReport> {
    ddl_checks::begin_write(c"hilo_create_missing()")?;
    let mut rows = Rows::begin(call);
    for (default, name) in column_defaults::all()? {
        if definitions::by_name(&name)?.is_none() {
            rows.add(MissingDefault { relation: default.relid, number: default.attnum, name });
        }
    }
    Ok(rows)
}

/// `_hilo.hilo_stored_type(relation, number)`: the type, below all domains, of a column whose
/// values are stored in this database. NULL if the column does not exist, belongs to another role,
/// or its values cannot be read there.
#[pg_extern(sql = false)]
fn hilo_stored_type(
    _call: Call,
    relation: pg_sys::Oid,
    number: i16,
) -> Result<Option<pg_sys::Oid>, ErrorReport> {
    let column = ColumnRef { relid: relation, attnum: number };
    if column.names().is_none()
        || !privileges::acts_as(ffi::current_user(), relations::owner(relation))
    {
        return Ok(None);
    }
    match values::open_stored(column) {
        // The column may have been dropped during a wait.
        Ok(_) => Ok(Some(base_type(column)).filter(|kind| *kind != pg_sys::InvalidOid)),
        Err(HiloError::NotStored { .. }) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// `_hilo.hilo_lock_against_writers(relation)`: for a role that may create the sequences of the
/// table. Returns the argument, or NULL if there is no such table.
#[pg_extern(sql = false)]
fn hilo_lock_against_writers(
    _call: Call,
    relation: pg_sys::Oid,
) -> Result<Option<pg_sys::Oid>, ErrorReport> {
    privileges::may_create()?;
    let Some(table) = relations::identifier(relation) else { return Ok(None) };
    if !privileges::acts_as(ffi::current_user(), relations::owner(relation)) {
        return Err(HiloError::NotTableOwner(escape_for_message(&table)).into());
    }
    lock::against_writers(relation)?;
    Ok(Some(relation))
}
