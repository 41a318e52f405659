//! The type `hilo.column_ref`: the column that owns a sequence, in the catalog's rows.
//!
//! It stores the OID of a table and the number of a column, and prints `schema.table.column`. So a
//! dump contains names, and a restored database finds its own columns by them. A name that no
//! column has raises a warning and becomes [`ColumnRef::NOWHERE`]: the sequence is restored without
//! an owner column.

use std::ffi::{CStr, CString, c_char};
use std::ptr;

use pgrx::prelude::*;

use crate::catalog::column_ref::ColumnRef;
use crate::sql::call::raw_function::{input_functions, output_functions};

// A client knows no OIDs, so the binary format has names too.
input_functions!(read; hilo_column_ref_in, hilo_column_ref_recv);
output_functions!(text; hilo_column_ref_out, hilo_column_ref_send);

const NOWHERE_TEXT: &CStr = c"-";

fn text(column: pg_sys::Datum) -> CString {
    let column = ColumnRef::unpacked(column.value() as i64);
    column.text().unwrap_or_else(|| NOWHERE_TEXT.to_owned())
}

fn read(input: &CStr) -> pg_sys::Datum {
    parse(input).packed().into()
}

fn parse(input: &CStr) -> ColumnRef {
    if input == NOWHERE_TEXT {
        return ColumnRef::NOWHERE;
    }
    let found = identifiers(input).and_then(|names| match names.as_slice() {
        [schema, table, column] => {
            // SAFETY: look-ups in system caches, inside a transaction, by names that are C strings.
            // None of them locks what it finds: the value is as good as any OID that was just read.
            let relid = unsafe {
                let schema = pg_sys::get_namespace_oid(schema.as_ptr(), true);
                pg_sys::get_relname_relid(table.as_ptr(), schema)
            };
            ColumnRef::named(relid, column)
        }
        _ => None,
    });
    found.unwrap_or_else(|| {
        ereport!(
            WARNING,
            PgSqlErrorCode::ERRCODE_UNDEFINED_COLUMN,
            format!("column {} does not exist", input.to_string_lossy()),
            "The column is read as \"-\", which stands for no column."
        );
        ColumnRef::NOWHERE
    })
}

/// The identifiers in `input`, separated by dots, without quotes or folded to lower case. `None`:
/// it is no such list.
pub fn identifiers(input: &CStr) -> Option<Vec<&CStr>> {
    // SAFETY: SplitIdentifierString writes only into the palloc'ed copy, into which the cells of
    // the list point; both stay in the current memory context.
    unsafe {
        let mut names: *mut pg_sys::List = ptr::null_mut();
        let copy = pg_sys::pstrdup(input.as_ptr());
        let split = pg_sys::SplitIdentifierString(copy, b'.' as c_char, &mut names);
        if !split || names.is_null() {
            return None;
        }
        let cells = (0..(*names).length as usize).map(|at| (*(*names).elements.add(at)).ptr_value);
        Some(cells.map(|name| CStr::from_ptr(name.cast())).collect())
    }
}
