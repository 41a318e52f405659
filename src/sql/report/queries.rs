//! The report's queries: of the extension's own functions and views, with the caller's rights. A
//! part that cannot be read says why, and the others are shown.

use std::ffi::CStr;

use pgrx::pg_sys::panic::CaughtError;
use pgrx::prelude::*;
use serde::de::value::{Error, MapDeserializer};
use serde::de::{DeserializeOwned, Deserializer, IntoDeserializer, Visitor};
use serde::forward_to_deserialize_any;

use crate::catalog::rows::catalog_tables;
use crate::catalog::rows::name::{escape_for_message, utf8};
use crate::process::ffi;
use crate::process::memory;
use crate::process::subtransaction;
use crate::sql::call::spi::{self, Row};
use crate::sql::report::text::visible;

/// The result of a query, or why there is none.
pub type Read<T> = Result<T, String>;

/// The rows of a query, whose columns are the fields of `T`. In the query `@` stands before the
/// names of the extension's functions and views. No user can plant anything in its search_path.
pub fn rows<T: DeserializeOwned>(sql: &str) -> Read<Vec<T>> {
    let read = || {
        // In the database's encoding.
        let schema = [&catalog_tables::schema_identifier()?[..], b"."].concat();
        let sql = sql.as_bytes().split(|byte| *byte == b'@').collect::<Vec<_>>().join(&schema[..]);
        spi::with_rights_of(ffi::current_user(), || spi::rows(&sql, |row| record::<T>(&row)))
    };
    subtransaction::run(is_of_part, read).map_err(|report| {
        let hint = report.hint().map(|hint| format!(". {hint}"));
        visible(&format!("{}{}", report.message(), hint.unwrap_or_default()))
    })
}

/// Whether an error only keeps one part from being read. An error that ends the session's statement
/// or transaction ends the report too.
fn is_of_part(error: &CaughtError) -> bool {
    !matches!(error, CaughtError::RustPanic { .. }) && subtransaction::is_of_work(error)
}

/// A value of a column: a double precision, or a text as the page can show it.
enum Value {
    Null,
    Float(f64),
    Text(String),
}

impl<'de> IntoDeserializer<'de> for Value {
    type Deserializer = Value;

    fn into_deserializer(self) -> Value {
        self
    }
}

/// NULL is 0 or the empty text where the field is no Option.
impl<'de> Deserializer<'de> for Value {
    type Error = Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self {
            Value::Null => visitor.visit_unit(),
            Value::Float(number) => visitor.visit_f64(number),
            Value::Text(text) => visitor.visit_string(text),
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self {
            Value::Null => visitor.visit_none(),
            value => visitor.visit_some(value),
        }
    }

    fn deserialize_f64<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self {
            Value::Null => visitor.visit_f64(0.0),
            value => value.deserialize_any(visitor),
        }
    }

    fn deserialize_string<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self {
            Value::Null => visitor.visit_str(""),
            value => value.deserialize_any(visitor),
        }
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 char str bytes byte_buf unit unit_struct
        newtype_struct seq tuple tuple_struct map struct enum identifier ignored_any
    }
}

/// A row whose columns are the fields of `T`, by name.
fn record<T: DeserializeOwned>(row: &Row) -> T {
    let columns = row.columns().map(|(number, name, oid)| {
        let value = match oid {
            pg_sys::FLOAT8OID => row.float8(number).map(Value::Float),
            _ => row.bytes(number).map(|bytes| Value::Text(visible(&in_utf8(&bytes)))),
        };
        (name, value.unwrap_or(Value::Null))
    });
    T::deserialize(MapDeserializer::<_, Error>::new(columns))
        .unwrap_or_else(|error| panic!("a query of the report: {error}"))
}

/// Text of the database in UTF-8. If it cannot be converted, each byte that is not ASCII appears as
/// `\\xNN`.
fn in_utf8(bytes: &[u8]) -> String {
    match utf8(bytes) {
        Some(text) => text.to_owned(),
        None => convert(bytes).unwrap_or_else(|| escape_for_message(bytes)),
    }
}

fn convert(bytes: &[u8]) -> Option<String> {
    const UTF8: i32 = pg_sys::pg_enc::PG_UTF8 as i32;
    let size = bytes.len() * pg_sys::MAX_CONVERSION_GROWTH as usize + 1;
    let mut into = memory::with_capacity::<u8>(size).ok()?;
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
