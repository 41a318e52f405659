//! Queries of the library itself, run inside a function. Their text qualifies the names it uses, because it
//! is parsed under the caller's search_path.

use std::ffi::{CStr, CString};

use pgrx::prelude::*;

use crate::catalog::table::text_of;
use crate::errors::OrRaise;
use crate::memory::{self, Grow};

/// A row of a result.
pub struct Row {
    tuple: pg_sys::HeapTuple,
    columns: pg_sys::TupleDesc,
}

impl Row {
    fn datum(&self, number: i32) -> Option<pg_sys::Datum> {
        let mut null = false;
        // SAFETY: the tuple and the descriptor belong to the same result, which is being read; a column that
        // does not exist is NULL.
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

    /// Column `number`, of type oid.
    pub fn oid(&self, number: i32) -> pg_sys::Oid {
        pg_sys::Oid::from_u32(self.datum(number).map_or(0, |datum| datum.value() as u32))
    }

    /// Column `number`, of type boolean; `false` if it is NULL.
    pub fn bool(&self, number: i32) -> bool {
        self.datum(number).is_some_and(|datum| datum.value() & 0xff != 0)
    }

    /// Column `number`, of type text; empty if it is NULL.
    pub fn text(&self, number: i32) -> String {
        // SAFETY: the callers select a text as this column.
        self.datum(number).map(|datum| unsafe { text_of(datum) }).unwrap_or_default()
    }
}

/// Runs a query with the rights of the current user and maps each row. It sees what is committed when it
/// starts, as far as the transaction's isolation level allows.
pub fn rows<T>(sql: &str, mut each: impl FnMut(Row) -> T) -> Vec<T> {
    let mut found = Vec::new();
    for_each(sql, |row| found.grow(each(row)).or_raise());
    found
}

/// The same for a query in the encoding of the database, which sees all that is committed when it starts, in any
/// isolation level.
pub fn newest_rows<T>(sql: &[u8], mut each: impl FnMut(Row) -> T) -> Vec<T> {
    let mut found = Vec::new();
    let text = CString::new(sql).unwrap_or_default();
    // SAFETY: the two calls are a pair, inside a transaction; after an error its end removes the snapshot.
    unsafe {
        pg_sys::PushActiveSnapshot(pg_sys::GetLatestSnapshot());
        run(&text, true, |row| found.grow(each(row)).or_raise());
        pg_sys::PopActiveSnapshot();
    }
    found
}

/// The same, but keeps no rows: they are fetched in batches, so there may be any number of them.
pub fn for_each(sql: &str, each: impl FnMut(Row)) {
    // Not with the active snapshot, which is the older one of the caller's statement.
    run(&CString::new(sql).unwrap_or_default(), false, each);
}

/// Runs a query that only reads, with the active snapshot or a new one of the transaction.
fn run(text: &CStr, with_active: bool, mut each: impl FnMut(Row)) {
    const AT_ONCE: std::ffi::c_long = 1000;
    memory::check().or_raise();
    // SAFETY: connect and finish are a pair, and after an error the transaction's end cleans up. No row is
    // used after its batch is freed. A query that is marked as read-only uses the active snapshot.
    unsafe {
        pg_sys::SPI_connect();
        let plan = pg_sys::SPI_prepare(text.as_ptr(), 0, std::ptr::null_mut());
        let none = std::ptr::null_mut();
        let portal =
            pg_sys::SPI_cursor_open(std::ptr::null(), plan, none, std::ptr::null(), with_active);
        loop {
            pg_sys::SPI_cursor_fetch(portal, true, AT_ONCE);
            let table = pg_sys::SPI_tuptable;
            if pg_sys::SPI_processed == 0 || table.is_null() {
                break;
            }
            for at in 0..pg_sys::SPI_processed as usize {
                memory::check().or_raise();
                each(Row { tuple: *(*table).vals.add(at), columns: (*table).tupdesc });
            }
            pg_sys::SPI_freetuptable(table);
        }
        pg_sys::SPI_cursor_close(portal);
        pg_sys::SPI_finish();
    }
}

/// Runs `work` with the rights of another role, and with a search_path in which no user can plant anything.
/// After an error the transaction's end restores both.
pub fn with_rights_of<T>(role: pg_sys::Oid, work: impl FnOnce() -> T) -> T {
    let (mut user, mut context) = (pg_sys::InvalidOid, 0);
    // SAFETY: the calls set statics of this process, as core does where a check runs as the owner of a table.
    let level = unsafe {
        pg_sys::GetUserIdAndSecContext(&mut user, &mut context);
        let restricted =
            pg_sys::SECURITY_LOCAL_USERID_CHANGE | pg_sys::SECURITY_RESTRICTED_OPERATION;
        pg_sys::SetUserIdAndSecContext(role, context | restricted as i32);
        let level = pg_sys::NewGUCNestLevel();
        pg_sys::set_config_option(
            c"search_path".as_ptr(),
            c"pg_catalog, pg_temp".as_ptr(),
            pg_sys::GucContext::PGC_USERSET,
            pg_sys::GucSource::PGC_S_SESSION,
            pg_sys::GucAction::GUC_ACTION_SAVE,
            true,
            0,
            false,
        );
        level
    };
    let result = work();
    // SAFETY: as above; the level is the one that was opened above, and the user and the context are those
    // that were saved there.
    unsafe {
        pg_sys::AtEOXact_GUC(false, level);
        pg_sys::SetUserIdAndSecContext(user, context);
    }
    result
}

/// Text of the database, in whatever encoding, as an SQL expression.
pub fn literal(bytes: &[u8]) -> String {
    let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("pg_catalog.convert_from('\\x{hex}', pg_catalog.getdatabaseencoding())")
}

/// An identifier, quoted if necessary.
pub fn quoted(identifier: &str) -> String {
    pgrx::spi::quote_identifier(identifier)
}
