//! Structs that are rows of hilo's tables. One list says which field is which column, for reading
//! and for writing.

use pgrx::prelude::*;

use hilo_core::numbers::{Epoch, Index, SequenceId, Timestamp};
use hilo_core::past::{Past, Span};

use crate::catalog::rows::name::Name;
use crate::catalog::rows::table::{Row, bytes_of, text_datum, text_of};

/// A value that a column holds.
pub trait Field: Sized {
    /// The value in a datum of this column's type; `None`: the datum stands for no value.
    fn read(datum: pg_sys::Datum) -> Option<Self>;

    /// `None` for NULL.
    fn datum(&self) -> Option<pg_sys::Datum>;
}

impl<T: Field> Field for Option<T> {
    fn read(datum: pg_sys::Datum) -> Option<Self> {
        T::read(datum).map(Some)
    }

    fn datum(&self) -> Option<pg_sys::Datum> {
        self.as_ref()?.datum()
    }
}

/// A column of a row; the default if it is NULL, or the table of an older version lacks it.
pub fn get<T: Field + Default>(row: &Row, column: i16) -> T {
    row.datum(column).and_then(T::read).unwrap_or_default()
}

/// Fields of types that are passed by value: the conversion from a word, and to a datum.
macro_rules! by_value {
    ($($type:ty: |$word:ident| $of:expr, |$own:ident| $datum:expr;)+) => { $(
        impl Field for $type {
            fn read(datum: pg_sys::Datum) -> Option<Self> {
                let $word = datum.value();
                Some($of)
            }

            fn datum(&self) -> Option<pg_sys::Datum> {
                let $own = *self;
                Some($datum.into())
            }
        }
    )+ };
}

by_value! {
    i64: |word| word as i64, |own| own;
    i32: |word| word as i32, |own| own;
    bool: |word| word & 0xff != 0, |own| own;
    pg_sys::Oid: |word| pg_sys::Oid::from_u32(word as u32), |own| own;
    SequenceId: |word| SequenceId(word as i64), |own| own.0;
    Epoch: |word| Epoch(word as i64), |own| own.0;
    Index: |word| Index(word as i64), |own| own.0;
    Timestamp: |word| Timestamp(word as i64), |own| own.0;
}

impl Field for String {
    fn read(datum: pg_sys::Datum) -> Option<String> {
        // SAFETY: a text column is read as one. The datum lies in memory that lives as long as the
        // row's, and the result is a copy.
        Some(unsafe { text_of(datum) })
    }

    fn datum(&self) -> Option<pg_sys::Datum> {
        Some(text_datum(self.as_bytes()))
    }
}

impl Field for Name {
    fn read(datum: pg_sys::Datum) -> Option<Name> {
        // SAFETY: as for String.
        Some(unsafe { bytes_of(datum) }.into())
    }

    fn datum(&self) -> Option<pg_sys::Datum> {
        Some(text_datum(self))
    }
}

/// An array with three numbers for each span.
impl Field for Past {
    fn read(datum: pg_sys::Datum) -> Option<Past> {
        // SAFETY: a column of type bigint[] is read as one.
        let numbers: Vec<Option<i64>> = unsafe { FromDatum::from_datum(datum, false) }?;
        let number = |at: &Option<i64>| at.unwrap_or_default();
        let span = |of: &[Option<i64>]| Span::new(number(&of[0]), number(&of[1]), number(&of[2]));
        Some(Past::from_spans(numbers.chunks_exact(3).map(span)))
    }

    fn datum(&self) -> Option<pg_sys::Datum> {
        let numbers = self.spans().iter().flat_map(|span| [span.low, span.high, span.step]);
        numbers.collect::<Vec<i64>>().into_datum()
    }
}

/// Makes `from_row` and `values` from a list of fields, in which each column of the table appears
/// once. A field is a column, a struct of columns, or a struct that exists if its columns are not
/// null. The struct has no fields for the columns `beside`.
macro_rules! record {
    ($record:ident of $table:ident {$(
        $field:ident $(in $column:ident)?
            $(of $struct:ident { $($inner:ident: $part:ident),+ })?
            $(of_some $some:ident { $($own:ident: $piece:ident),+ })?;
    )+} $(beside $($other:ident)+)?) => {
        impl $record {
            pub fn from_row(row: &$crate::catalog::rows::table::Row) -> $record {
                use $crate::catalog::rows::{columns::$table::*, record::get};
                $record { $(
                    $field: $(get(row, $column))?
                        $($struct { $($inner: get(row, $part)),+ })?
                        $((|| Some($some { $($own: get::<Option<_>>(row, $piece)?),+ }))())?,
                )+ }
            }

            /// The columns of the row.
            pub fn values(
                &self,
            ) -> [Option<pg_sys::Datum>; $crate::catalog::rows::columns::$table::WIDTH] {
                use $crate::catalog::rows::columns::$table::*;
                const _: [i16; WIDTH] = [
                    $($($column,)? $($($part,)+)? $($($piece,)+)?)+
                    $($($other,)+)?
                ];
                let mut values = [None; WIDTH];
                let mut set = |column: i16, value| values[column as usize - 1] = value;
                $(
                    $(set($column, self.$field.datum());)?
                    $($(set($part, self.$field.$inner.datum());)+)?
                    $($(set($piece, self.$field.as_ref().map(|it| it.$own).datum());)+)?
                )+
                values
            }
        }
    };
}
pub(in crate::catalog) use record;
