//! Queries of our own, run inside a function. The text qualifies what it names: it is parsed under the
//! caller's search_path.

use std::ffi::CString;
use std::panic::AssertUnwindSafe;

use pgrx::pg_sys::panic::CaughtError;
use pgrx::prelude::*;

use crate::catalog::table::text_of;

/// A row of a result.
pub struct Row {
    tuple: pg_sys::HeapTuple,
    columns: pg_sys::TupleDesc,
}

impl Row {
    fn datum(&self, number: i32) -> Option<pg_sys::Datum> {
        let mut null = false;
        // SAFETY: both belong to the result that is being read; a column that is not there is NULL.
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

    /// Column `number`, of type boolean; `false` where NULL.
    pub fn bool(&self, number: i32) -> bool {
        self.datum(number).is_some_and(|datum| datum.value() & 0xff != 0)
    }

    /// Column `number`, of type text; empty where NULL.
    pub fn text(&self, number: i32) -> String {
        // SAFETY: the callers select a text there.
        self.datum(number).map(|datum| unsafe { text_of(datum) }).unwrap_or_default()
    }
}

/// Runs a query with the rights of the current user and makes something of each row. It sees what is
/// committed by now, as far as the transaction's isolation level lets it.
pub fn rows<T>(sql: &str, each: impl FnMut(Row) -> T) -> Vec<T> {
    let text = CString::new(sql).unwrap_or_default();
    // SAFETY: connect and finish are a pair, and after an error the transaction's end cleans up. Not
    // marked as read-only, which would have it use the older snapshot of the caller's statement; what
    // the callers pass only reads.
    unsafe {
        pg_sys::SPI_connect();
        let status = pg_sys::SPI_execute(text.as_ptr(), false, 0);
        let mut found = Vec::new();
        if status == pg_sys::SPI_OK_SELECT as i32 && !pg_sys::SPI_tuptable.is_null() {
            let table = &*pg_sys::SPI_tuptable;
            let tuples = (0..pg_sys::SPI_processed as usize).map(|at| *table.vals.add(at));
            found = tuples.map(|tuple| Row { tuple, columns: table.tupdesc }).map(each).collect();
        }
        pg_sys::SPI_finish();
        found
    }
}

/// Runs `work` with the rights of another role, and with a search_path that nobody can plant anything
/// in. After an error the transaction's end puts both back.
pub fn with_rights_of<T>(role: pg_sys::Oid, work: impl FnOnce() -> T) -> T {
    let (mut user, mut context) = (pg_sys::InvalidOid, 0);
    // SAFETY: as core does where a check runs as the owner of a table; both calls set statics.
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
    // SAFETY: as above.
    unsafe {
        pg_sys::AtEOXact_GUC(false, level);
        pg_sys::SetUserIdAndSecContext(user, context);
    }
    result
}

/// Runs `work` in a subtransaction, which an error ends and its message comes back from; but not one that
/// is this session's own cancellation, whose code others' functions can raise too.
pub fn tried<T>(work: impl FnOnce() -> T) -> Result<T, String> {
    let work = AssertUnwindSafe(work);
    // SAFETY: the pattern of PL/pgSQL's exception blocks: both ends of the subtransaction are here,
    // and context and owner are put back after either.
    unsafe {
        let (context, owner) = (pg_sys::CurrentMemoryContext, pg_sys::CurrentResourceOwner);
        pg_sys::BeginInternalSubTransaction(std::ptr::null());
        pg_sys::MemoryContextSwitchTo(context);
        let result = PgTryBuilder::new(AssertUnwindSafe(move || {
            let done = { work }.0();
            pg_sys::ReleaseCurrentSubTransaction();
            Ok(done)
        }))
        .catch_others(|error| match error {
            CaughtError::PostgresError(report)
                if report.function_name() != Some("ProcessInterrupts") =>
            {
                pg_sys::RollbackAndReleaseCurrentSubTransaction();
                Err(report.message().to_string())
            }
            other => other.rethrow(),
        })
        .execute();
        pg_sys::MemoryContextSwitchTo(context);
        pg_sys::CurrentResourceOwner = owner;
        result
    }
}

/// Text of the database, whatever its encoding, as an expression.
pub fn literal(bytes: &[u8]) -> String {
    let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("pg_catalog.convert_from('\\x{hex}', pg_catalog.getdatabaseencoding())")
}

/// An identifier, quoted where it must be.
pub fn quoted(identifier: &str) -> String {
    pgrx::spi::quote_identifier(identifier)
}
