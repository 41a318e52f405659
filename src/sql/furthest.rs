//! The largest number that a column holds, read with the rights of its table's owner.
//!
//! The owner could run the same query, so nothing of the owner's, such as an expression in an index, gets more
//! rights than it has. Row security hides nothing from the query.

use hilo_core::key_format::KeyFormat;
use pgrx::pg_sys;

use super::owned_by::table_owner;
use super::spi::{self, Row};
use crate::catalog::column_ref::ColumnRef;
use crate::gucs;

/// What a column can hold of a sequence.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Numbers, of an integer type if `bounds` says which it can hold.
    Numbers {
        bounds: Option<(i64, i64)>,
    },
    Keys,
    /// Neither.
    Other,
}

impl Kind {
    pub fn of(column: ColumnRef) -> Kind {
        // SAFETY: look-ups in system caches, inside a transaction; a type that does not exist is itself.
        let type_oid =
            unsafe { pg_sys::getBaseType(pg_sys::get_atttype(column.relid, column.attnum)) };
        match type_oid {
            pg_sys::INT2OID => Kind::integers(i16::MIN.into(), i16::MAX.into()),
            pg_sys::INT4OID => Kind::integers(i32::MIN.into(), i32::MAX.into()),
            pg_sys::INT8OID => Kind::integers(i64::MIN, i64::MAX),
            pg_sys::NUMERICOID => Kind::Numbers { bounds: None },
            pg_sys::TEXTOID | pg_sys::VARCHAROID | pg_sys::BPCHAROID => Kind::Keys,
            _ => Kind::Other,
        }
    }

    fn integers(min: i64, max: i64) -> Kind {
        Kind::Numbers { bounds: Some((min, max)) }
    }
}

/// What was found in a column.
#[derive(Default)]
pub struct Held {
    /// The largest number, or number in a key.
    pub largest: Option<i64>,
    /// How many other values it holds, which are no numbers of the sequence.
    pub others: i64,
}

/// Reads a column of a table that the caller has locked. Keys are those that this server makes of the sequence
/// `name` in the default format.
pub fn held(column: ColumnRef, kind: Kind, name: &[u8]) -> Held {
    let Some(names) = column.names() else { return Held::default() };
    let [schema, table, column_name] = names.each_ref().map(|name| quoted(name.as_bytes()));
    let from = [&schema[..], b".", &table].concat();
    let sql = match kind {
        Kind::Numbers { bounds: Some(_) } => {
            [b"SELECT max(", &column_name[..], b")::bigint, 0::bigint FROM ", &from].concat()
        }
        Kind::Numbers { bounds: None } => [
            b"SELECT ceil(max(n))::bigint, 0::bigint FROM (SELECT ",
            &column_name[..],
            b" AS n FROM ",
            &from,
            b") v WHERE n BETWEEN -9223372036854775808 AND 9223372036854775807",
        ]
        .concat(),
        Kind::Keys => keys(&column_name, &from, name),
        Kind::Other => {
            [b"SELECT NULL::bigint, count(", &column_name[..], b") FROM ", &from].concat()
        }
    };
    spi::as_owner_of_rows(table_owner(column.relid), || {
        let read = |row: Row| Held { largest: row.int8(1), others: row.int8(2).unwrap_or(0) };
        spi::latest(&sql, read).pop().unwrap_or_default()
    })
}

fn keys(column: &[u8], from: &[u8], name: &[u8]) -> Vec<u8> {
    let frame = KeyFormat::default().frame(name, gucs::server_prefix_bytes());
    let before = frame.key(0, &mut [0; 20])[0].to_vec();
    let before = spi::literal(&before);
    let number = format!("substr(c, length({before}) + 1)");
    [
        format!(
            "SELECT max(n)::bigint, count(*) - count(n) FROM (
                 SELECT CASE WHEN starts_with(c, {before}) AND {number} ~ '^-?[0-9]{{1,19}}$'
                              AND {number}::numeric <= 9223372036854775807 THEN {number}::numeric END AS n
                   FROM (SELECT "
        )
        .as_bytes(),
        column,
        b"::text COLLATE \"C\" AS c FROM ",
        from,
        b") t WHERE c IS NOT NULL) v",
    ]
    .concat()
}

/// An identifier in the encoding of the database, in quotes.
fn quoted(identifier: &[u8]) -> Vec<u8> {
    let mut text = vec![b'"'];
    for &byte in identifier {
        text.extend(std::iter::repeat_n(byte, if byte == b'"' { 2 } else { 1 }));
    }
    text.push(b'"');
    text
}
