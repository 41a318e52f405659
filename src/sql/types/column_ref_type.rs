//! The type `_hilo.hilo_column`: the column that owns a sequence, in the catalog's rows.
//!
//! It stores the OID of a table and the number of a column, and prints `schema.table.column`. So a
//! dump contains names, and a restored database finds its own columns by them. While a dump is
//! restored, a name that no column has raises a warning and becomes [`ColumnRef::NOWHERE`]: the
//! sequence is restored without an owner column. Otherwise it is an error.

use std::ffi::{CStr, CString};

use pgrx::prelude::*;

use crate::catalog::columns::column_ref::ColumnRef;
use crate::catalog::rows::name::identifiers;
use crate::catalog::rows::{relations, restore};
use crate::errors::HiloError;
use crate::sql::call::raw_function::{input_functions, output_functions};

// A client knows no OIDs, so the binary format has names too.
input_functions!(read; hilo_column_ref_in, hilo_column_ref_recv);
output_functions!(text; hilo_column_ref_out, hilo_column_ref_send);

const NOWHERE_TEXT: &CStr = c"-";

fn text(column: pg_sys::Datum) -> CString {
    let column = ColumnRef::unpack(column.value() as i64);
    column.text().unwrap_or_else(|| NOWHERE_TEXT.to_owned())
}

fn read(input: &CStr) -> Result<i64, HiloError> {
    Ok(parse(input).pack())
}

fn parse(input: &CStr) -> ColumnRef {
    if input == NOWHERE_TEXT {
        return ColumnRef::NOWHERE;
    }
    let found = identifiers(input).and_then(|names| match names.as_slice() {
        [schema, table, column] => {
            // Nothing is locked: the value is as good as any OID that was just read.
            ColumnRef::by_name(relations::by_name(schema, table), column)
        }
        _ => None,
    });
    found.unwrap_or_else(|| {
        restore::read_as_none("42703", format!("column {}", input.to_string_lossy()), "column");
        ColumnRef::NOWHERE
    })
}
