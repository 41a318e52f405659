//! The largest number that a column holds.

use hilo_core::direction::Direction;
use hilo_core::key_format::KeyFormat;
use pgrx::pg_sys;

use crate::catalog::column_ref::ColumnRef;
use crate::catalog::stored::{Fraction, Numbers, Stored};
use crate::catalog::table::bytes_of;
use crate::errors::HiloError;
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
///
/// # Errors
/// As for [`Stored::open`].
pub fn held(column: ColumnRef, kind: Kind, name: &[u8]) -> Result<Held, HiloError> {
    let (stored, mut held) = (Stored::open(column)?, Held::default());
    match kind {
        Kind::Numbers { .. } => {
            let numbers = Numbers::of(column, Fraction::Upper);
            held.largest = stored.furthest(Direction::Rising, i64::MAX, numbers)?;
        }
        Kind::Keys => {
            let frame = KeyFormat::default().frame(name, gucs::server_prefix_bytes());
            stored.each(|key| {
                // SAFETY: the column is of a type with the layout of text; one of type character
                // fills up with blanks.
                match frame.read(unsafe { bytes_of(key) }.trim_ascii_end()) {
                    Ok(number) => held.largest = held.largest.max(Some(number)),
                    Err(_) => held.others += 1,
                }
            })?;
        }
        Kind::Other => stored.each(|_| held.others += 1)?,
    }
    Ok(held)
}
