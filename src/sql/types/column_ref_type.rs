//! The type `hilo.column_ref`: the column that owns a sequence, in the catalog's rows.
//!
//! It stores the OID of a table and the number of a column, and prints `schema.table.column`, so
//! that a dump contains names, and a restored database finds its own columns by them. A name that
//! no column has raises a warning and becomes [`ColumnRef::NOWHERE`]: the sequence is restored
//! without an owner column.

use std::ffi::{CStr, c_char};
use std::ptr;

use pgrx::prelude::*;

use crate::catalog::column_ref::ColumnRef;
use crate::sql::call::raw_function::{argument, raw_functions};
use crate::sql::types::sequence_type::received_text;

raw_functions!(hilo_column_ref_in, hilo_column_ref_recv, hilo_column_ref_out, hilo_column_ref_send);

const NOWHERE_TEXT: &CStr = c"-";

/// `hilo.column_ref_in(cstring) RETURNS hilo.column_ref`
#[pg_guard]
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn hilo_column_ref_in(fcinfo: pg_sys::FunctionCallInfo) -> pg_sys::Datum {
    // SAFETY: the function is strict, so its one argument is a C string.
    parse(unsafe { CStr::from_ptr(argument(fcinfo, 0).cast_mut_ptr()) }).packed().into()
}

/// `hilo.column_ref_recv(internal) RETURNS hilo.column_ref`: takes names, as in the text format.
#[pg_guard]
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn hilo_column_ref_recv(
    fcinfo: pg_sys::FunctionCallInfo,
) -> pg_sys::Datum {
    // SAFETY: the function is strict, and Postgres gives a receive function a message.
    parse(unsafe { received_text(argument(fcinfo, 0).cast_mut_ptr()) }).packed().into()
}

/// `hilo.column_ref_out(hilo.column_ref) RETURNS cstring`
#[pg_guard]
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn hilo_column_ref_out(fcinfo: pg_sys::FunctionCallInfo) -> pg_sys::Datum {
    // SAFETY: the function is strict, so its argument is a column_ref. The result is a palloc'ed
    // copy.
    unsafe { pg_sys::pstrdup(text(column_argument(fcinfo)).as_ptr()) }.into()
}

/// `hilo.column_ref_send(hilo.column_ref) RETURNS bytea`
#[pg_guard]
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn hilo_column_ref_send(
    fcinfo: pg_sys::FunctionCallInfo,
) -> pg_sys::Datum {
    // SAFETY: the function is strict, so its argument is a column_ref. The buffer is initialised
    // before it is written to.
    unsafe {
        let text = text(column_argument(fcinfo));
        let mut buffer = pg_sys::StringInfoData::default();
        pg_sys::pq_begintypsend(&mut buffer);
        pg_sys::pq_sendtext(&mut buffer, text.as_ptr(), text.count_bytes() as i32);
        pg_sys::pq_endtypsend(&mut buffer).into()
    }
}

fn text(column: ColumnRef) -> std::ffi::CString {
    column.text().unwrap_or_else(|| NOWHERE_TEXT.to_owned())
}

/// # Safety
/// `fcinfo` must be a live call whose first argument is a `hilo.column_ref`.
unsafe fn column_argument(fcinfo: pg_sys::FunctionCallInfo) -> ColumnRef {
    // SAFETY: the caller guarantees that the argument is one, which is passed by value.
    ColumnRef::unpacked(unsafe { argument(fcinfo, 0) }.value() as i64)
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
