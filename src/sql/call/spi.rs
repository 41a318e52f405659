//! Queries of the library itself, run inside a function. Their text qualifies the names it uses,
//! because it is parsed under the caller's search_path.

use std::cell::Cell;
use std::ffi::{CStr, c_char};

use pgrx::prelude::*;

use crate::backend::Global;
use crate::catalog::rows::table::{bytes_of, next_command, text_of};
use crate::errors::HiloError;
use crate::process::ffi;
use crate::process::memory::{self, TryGrow};
pub use crate::process::rights::{with_rights_of, with_settings};

/// A row of a result.
pub struct Row {
    tuple: pg_sys::HeapTuple,
    columns: pg_sys::TupleDesc,
}

impl Row {
    /// Each column: its number (from 1), its name and its type.
    pub fn columns(&self) -> impl Iterator<Item = (i32, String, pg_sys::Oid)> {
        // SAFETY: the descriptor belongs to the result that is being read, and has these columns.
        // The name is a copy.
        unsafe {
            (1..=(*self.columns).natts).map(|number| {
                let name = CStr::from_ptr(pg_sys::SPI_fname(self.columns, number));
                let oid = pg_sys::SPI_gettypeid(self.columns, number);
                (number, name.to_string_lossy().into_owned(), oid)
            })
        }
    }

    pub fn datum(&self, number: i32) -> Option<pg_sys::Datum> {
        let mut null = false;
        // SAFETY: the tuple and the descriptor belong to the same result, which is being read; a
        // column that does not exist is NULL.
        let datum = unsafe { pg_sys::SPI_getbinval(self.tuple, self.columns, number, &mut null) };
        (!null).then_some(datum)
    }

    /// Column `number` (from 1), of type bigint.
    pub fn int8(&self, number: i32) -> Option<i64> {
        self.datum(number).map(|datum| datum.value() as i64)
    }

    /// Column `number`, of type integer.
    pub fn int4(&self, number: i32) -> Option<i32> {
        self.datum(number).map(|datum| datum.value() as i32)
    }

    /// Column `number`, of type double precision.
    pub fn float8(&self, number: i32) -> Option<f64> {
        self.datum(number).map(|datum| f64::from_bits(datum.value() as u64))
    }

    /// Column `number`, of type oid.
    pub fn oid(&self, number: i32) -> pg_sys::Oid {
        pg_sys::Oid::from_u32(self.datum(number).map_or(0, |datum| datum.value() as u32))
    }

    /// Column `number`, of type boolean; `false` if it is NULL.
    pub fn bool(&self, number: i32) -> bool {
        self.datum(number).is_some_and(|datum| datum.value() & 0xff != 0)
    }

    /// Column `number`, of type text or name, in the database's encoding; `None` if it is NULL.
    pub fn bytes(&self, number: i32) -> Option<Vec<u8>> {
        // SAFETY: the callers select a text as this column; the bytes are copied.
        self.datum(number).map(|datum| unsafe { bytes_of(datum) }.to_vec())
    }

    /// Column `number`, of type text; empty if it is NULL.
    pub fn text(&self, number: i32) -> String {
        // SAFETY: the callers select a text as this column.
        self.datum(number).map(|datum| unsafe { text_of(datum) }).unwrap_or_default()
    }
}

/// A query as Postgres takes it, in the current memory context.
fn c_string(sql: &[u8]) -> *const c_char {
    // SAFETY: copies as many bytes as there are.
    unsafe { pg_sys::pnstrdup(sql.as_ptr().cast(), sql.len()) }
}

/// Runs a query with the rights of the current user and maps each row. It sees what is committed
/// when it starts, as far as the transaction's isolation level allows.
pub fn rows<T>(
    sql: &(impl AsRef<[u8]> + ?Sized),
    mut each: impl FnMut(Row) -> T,
) -> Result<Vec<T>, HiloError> {
    let mut found = Vec::new();
    visit(sql.as_ref(), |row| found.try_push(each(row)))?;
    Ok(found)
}

/// Like [`rows`], but keeps no rows: they are fetched in batches, so there may be any number of
/// them.
pub fn for_each(
    sql: &(impl AsRef<[u8]> + ?Sized),
    mut each: impl FnMut(Row),
) -> Result<(), HiloError> {
    visit(sql.as_ref(), |row| {
        each(row);
        memory::check()
    })
}

fn visit(sql: &[u8], mut each: impl FnMut(Row) -> Result<(), HiloError>) -> Result<(), HiloError> {
    const AT_ONCE: std::ffi::c_long = 1000;
    memory::check()?;
    let mut done = Ok(());
    let text = c_string(sql);
    // SAFETY: connect and finish are a pair, and after an error the transaction's end cleans up. No
    // row is used after its batch is freed. The query is not marked as read-only, because then it
    // would use the older snapshot of the caller's statement; what the callers pass only reads.
    unsafe {
        pg_sys::SPI_connect();
        let plan = pg_sys::SPI_prepare(text, 0, std::ptr::null_mut());
        let (name, values, nulls) = (std::ptr::null(), std::ptr::null_mut(), std::ptr::null());
        let portal = pg_sys::SPI_cursor_open(name, plan, values, nulls, false);
        while done.is_ok() {
            pg_sys::SPI_cursor_fetch(portal, true, AT_ONCE);
            let table = pg_sys::SPI_tuptable;
            if pg_sys::SPI_processed == 0 || table.is_null() {
                break;
            }
            done = (0..pg_sys::SPI_processed as usize).try_for_each(|at| {
                memory::check()?;
                each(Row { tuple: *(*table).vals.add(at), columns: (*table).tupdesc })
            });
            pg_sys::SPI_freetuptable(table);
        }
        pg_sys::SPI_cursor_close(portal);
        pg_sys::SPI_finish();
    }
    done
}

/// Runs a query that only reads, with the rights of the current user, and maps each row. It sees
/// everything that is committed when it starts, and what this transaction has written, whatever the
/// isolation level.
pub fn latest<T>(sql: &[u8], each: impl FnMut(Row) -> T) -> Result<Vec<T>, HiloError> {
    // SAFETY: the text is a C string.
    read(|| unsafe { pg_sys::SPI_execute(c_string(sql), true, 0) }, each)
}

/// Maps the rows of the query that `execute` runs.
fn read<T>(
    execute: impl FnOnce() -> i32,
    mut each: impl FnMut(Row) -> T,
) -> Result<Vec<T>, HiloError> {
    memory::check()?;
    next_command();
    let mut found = Vec::new();
    // SAFETY: each pair of calls encloses the use of what the first one makes, and after an error
    // the transaction's end cleans up. A read-only query uses the active snapshot, which is the
    // latest one.
    unsafe {
        pg_sys::PushActiveSnapshot(pg_sys::GetLatestSnapshot());
        pg_sys::SPI_connect();
        execute();
        let table = pg_sys::SPI_tuptable;
        let done = (0..pg_sys::SPI_processed as usize).try_for_each(|at| {
            let row = Row { tuple: *(*table).vals.add(at), columns: (*table).tupdesc };
            found.try_push(each(row))
        });
        pg_sys::SPI_finish();
        pg_sys::PopActiveSnapshot();
        done.map(|()| found)
    }
}

/// Like [`latest`], for a query of core's catalogs: no user can plant anything in its search_path.
pub fn look_up<T>(sql: &str, each: impl FnMut(Row) -> T) -> Result<Vec<T>, HiloError> {
    trusted(|| latest(sql.as_bytes(), each))
}

/// Runs `work` with the settings that the text of a query and its result depend on.
fn trusted<T>(work: impl FnOnce() -> T) -> T {
    let settings = [(c"standard_conforming_strings", c"on"), (c"quote_all_identifiers", c"off")];
    with_rights_of(ffi::current_user(), || with_settings(&settings, work))
}

/// A query of core's catalogs whose plan the session keeps, because planning takes several times as
/// long as running. Its parameters are of type text.
pub struct Planned {
    sql: &'static str,
    plan: Global<Cell<pg_sys::SPIPlanPtr>>,
}

impl Planned {
    pub const fn new(sql: &'static str) -> Planned {
        Planned { sql, plan: Global::new(Cell::new(std::ptr::null_mut())) }
    }

    /// Like [`look_up`].
    pub fn look_up<T>(
        &self,
        parameters: &[Option<pg_sys::Datum>],
        each: impl FnMut(Row) -> T,
    ) -> Result<Vec<T>, HiloError> {
        let null = |value: &Option<pg_sys::Datum>| if value.is_some() { b' ' } else { b'n' };
        let nulls: Vec<u8> = parameters.iter().map(null).collect();
        let values = parameters.iter().map(|value| value.unwrap_or(pg_sys::Datum::null()));
        let mut values: Vec<_> = values.collect();
        let execute = || {
            let plan = self.plan(values.len());
            // SAFETY: the plan is kept, and there is a value for each of its parameters.
            unsafe {
                pg_sys::SPI_execute_plan(plan, values.as_mut_ptr(), nulls.as_ptr().cast(), true, 0)
            }
        };
        trusted(|| read(execute, each))
    }

    /// The plan, which does not depend on the values. Core renews it when it has become invalid.
    fn plan(&self, parameters: usize) -> pg_sys::SPIPlanPtr {
        if self.plan.get().is_null() {
            let mut types = vec![pg_sys::TEXTOID; parameters];
            let generic = pg_sys::CURSOR_OPT_GENERIC_PLAN as i32;
            let (text, count) = (c_string(self.sql.as_bytes()), parameters as i32);
            // SAFETY: the text is a C string, and there are as many types as are said.
            unsafe {
                let plan = pg_sys::SPI_prepare_cursor(text, count, types.as_mut_ptr(), generic);
                pg_sys::SPI_keepplan(plan);
                self.plan.set(plan);
            }
        }
        self.plan.get()
    }
}

/// Runs a statement that writes or defines something, with the rights of the current user.
pub fn execute(sql: &[u8]) -> Result<(), HiloError> {
    memory::check()?;
    let text = c_string(sql);
    // SAFETY: connect and finish are a pair, and after an error the transaction's end cleans up.
    unsafe {
        pg_sys::SPI_connect();
        pg_sys::SPI_execute(text, false, 0);
        pg_sys::SPI_finish();
    }
    next_command();
    Ok(())
}

/// Text of the database, in whatever encoding, as an SQL expression. It means the same under each
/// setting of standard_conforming_strings.
pub fn literal(bytes: &[u8]) -> String {
    let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("pg_catalog.convert_from(E'\\\\x{hex}', pg_catalog.getdatabaseencoding())")
}
