//! The report's queries: of the extension's own functions and views, with the caller's rights. A
//! part that cannot be read says why, and the others are shown.

use std::ffi::CStr;

use pgrx::pg_sys::panic::CaughtError;
use pgrx::prelude::*;

use crate::catalog::name::{escape_for_message, utf8};
use crate::catalog::version;
use crate::errors::OrRaise;
use crate::process::ffi;
use crate::process::memory;
use crate::process::subtransaction;
use crate::sql::call::spi::{self, Row};
use crate::sql::report::text::visible;

/// The result of a query, or why there is none.
pub type Read<T> = Result<T, String>;

/// The rows of a query, in which `@` stands before the names of the extension's functions and
/// views. No user can plant anything in its search_path.
pub fn rows<T>(sql: &str, mut each: impl FnMut(&Record) -> T) -> Read<Vec<T>> {
    // In the database's encoding.
    let schema = [&version::schema_identifier().or_raise()[..], b"."].concat();
    let sql = sql.as_bytes().split(|byte| *byte == b'@').collect::<Vec<_>>().join(&schema[..]);
    let each = |row| each(&Record(row));
    let read = || spi::with_rights_of(ffi::current_user(), || spi::rows(&sql, each));
    subtransaction::run(read).map_err(|error| visible(&unreadable(*error)))
}

/// Why a part cannot be read. An error that ends the session's statement or transaction ends the
/// report too.
fn unreadable(error: CaughtError) -> String {
    match &error {
        CaughtError::PostgresError(report) | CaughtError::ErrorReport(report)
            if !subtransaction::is_final(&error) =>
        {
            let hint = report.hint().map(|hint| format!(". {hint}"));
            format!("{}{}", report.message(), hint.unwrap_or_default())
        }
        _ => error.rethrow(),
    }
}

/// A row of a part's query, whose columns have names.
pub struct Record(Row);

impl Record {
    /// A text or name, as the page can show it.
    pub fn text(&self, column: &CStr) -> Option<String> {
        self.bytes(column).map(|bytes| visible(&in_utf8(&bytes)))
    }

    /// The same in the database's encoding.
    pub fn bytes(&self, column: &CStr) -> Option<Vec<u8>> {
        self.0.bytes(self.0.column(column))
    }

    /// A double precision.
    pub fn float(&self, column: &CStr) -> Option<f64> {
        self.0.float8(self.0.column(column))
    }

    /// The same; 0 if it is NULL.
    pub fn size(&self, column: &CStr) -> f64 {
        self.float(column).unwrap_or(0.0)
    }
}

/// Text of the database in UTF-8. Where there is no such text, each byte that is not ASCII appears
/// as `\\xNN`.
fn in_utf8(bytes: &[u8]) -> String {
    match utf8(bytes) {
        Some(text) => text.to_owned(),
        None => convert(bytes).unwrap_or_else(|| escape_for_message(bytes)),
    }
}

fn convert(bytes: &[u8]) -> Option<String> {
    const UTF8: i32 = pg_sys::pg_enc::PG_UTF8 as i32;
    let size = bytes.len() * pg_sys::MAX_CONVERSION_GROWTH as usize + 1;
    let mut into = memory::with_capacity::<u8>(size).or_raise();
    into.resize(size, 0);
    // SAFETY: the first two read a static and a catalog. The conversion reads as many bytes as
    // there are, and writes at most as many as there is room for, with a zero behind them. It
    // raises no error for text that it cannot convert.
    let read = unsafe {
        let encoding = pg_sys::GetDatabaseEncoding();
        let conversion = pg_sys::FindDefaultConversionProc(encoding, UTF8);
        if conversion == pg_sys::InvalidOid {
            return None;
        }
        let from = bytes.as_ptr().cast_mut();
        let (length, size) = (bytes.len() as i32, size as i32);
        let to = into.as_mut_ptr();
        pg_sys::pg_do_encoding_conversion_buf(
            conversion, encoding, UTF8, from, length, to, size, true,
        )
    };
    let text = CStr::from_bytes_until_nul(&into).ok()?;
    (read as usize == bytes.len()).then(|| text.to_string_lossy().into_owned())
}
