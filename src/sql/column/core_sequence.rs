//! A core sequence that `hilo_adopt` replaces: its definition, and its next value.

use pgrx::pg_sys;

use hilo_core::direction::Direction;
use hilo_core::mapping::{Mapping, Stripes};
use hilo_core::numbers::Index;
use hilo_core::options::{DataType, Options};

use crate::catalog::rows::scan;
use crate::catalog::rows::table::Table;
use crate::catalog::sequence::definitions;
use crate::errors::HiloError;
use crate::sql::call::spi::Row;

/// The columns of the one row of a sequence.
mod state {
    pub const LAST_VALUE: i16 = 1;
    pub const IS_CALLED: i16 = 3;
}

/// A core sequence that feeds columns.
#[derive(PartialEq, Eq)]
pub struct CoreSequence {
    pub oid: pg_sys::Oid,
    /// Whether it feeds the columns themselves, and not only those that inherit from them.
    pub is_main: bool,
    /// Whether it belongs to the owner of one of the tables.
    pub own: bool,
    /// The owner of the sequence that replaces it.
    pub new_owner: pg_sys::Oid,
    /// Its name without and with its schema, in the database's encoding.
    pub names: [Vec<u8>; 2],
    data_type: DataType,
    start: i64,
    pub increment: i64,
    min: i64,
    max: i64,
    cycle: bool,
    /// Whether the sequence that replaces it is ordered.
    pub ordered: bool,
    /// The description of this sequence that the new sequence stores, for a release.
    pub former: Vec<u8>,
}

impl CoreSequence {
    /// Reads a row of `sequences.sql`.
    pub fn read(row: Row) -> CoreSequence {
        let int8 = |number| row.int8(number).unwrap_or(0);
        CoreSequence {
            oid: row.oid(1),
            is_main: row.bool(2),
            own: row.bool(3),
            new_owner: row.oid(4),
            names: [5, 6].map(|number| row.bytes(number).unwrap_or_default()),
            data_type: definitions::data_type_from(row.oid(7)).unwrap_or(DataType::BigInt),
            start: int8(8),
            increment: int8(9),
            min: int8(10),
            max: int8(11),
            cycle: row.bool(12),
            ordered: row.bool(13),
            former: row.bytes(14).unwrap_or_default(),
        }
    }

    /// The value that the next caller would get; `None`: none is left. The last value covers what
    /// sessions have cached. It needs nobody's rights: the query has checked that the column may
    /// use the sequence.
    pub fn next(&self) -> Result<Option<i64>, HiloError> {
        // A sequence of core's always has one row.
        let state = Table::read(self.oid)?.find(scan::Index::None, &[]);
        let state = state.ok_or(HiloError::NoSuchRelation(self.oid.to_u32()))?;
        let (last, called) = (state.int8(state::LAST_VALUE), state.bool(state::IS_CALLED));
        Ok(self.mapping(last).value(if called { Index(1) } else { Index::ZERO }))
    }

    pub fn direction(&self) -> Direction {
        Direction::from_increment(self.increment)
    }

    /// The bound that the values approach.
    pub fn last(&self) -> i64 {
        self.mapping(self.start).bound()
    }

    /// The mapping of the values from `base` on.
    fn mapping(&self, base: i64) -> Mapping {
        let (increment, cycle) = (self.increment, self.cycle);
        let (min_value, max_value) = (self.min, self.max);
        Mapping { base, increment, min_value, max_value, cycle, stripes: Stripes::ALL }
    }

    /// The first value in the sequence's steps that is not before `next` and beyond `taken`.
    /// `None`: none is left. A sequence that cycles and has none left before its bound continues
    /// where it stands, since its values come again anyway.
    pub fn next_beyond(&self, next: Option<i64>, taken: Option<i64>) -> Option<i64> {
        let (Some(next), Some(taken)) = (next, taken) else { return next };
        let lap = Mapping { cycle: false, ..self.mapping(next) };
        lap.value(lap.first_index_beyond(taken)).or(self.cycle.then_some(next))
    }

    /// The options of a hilo sequence with the same values, as far as a column of type `column` can
    /// hold them.
    pub fn options(&self, column: Option<DataType>) -> Options {
        let data_type = self.data_type.within(column);
        Options {
            data_type: Some(data_type),
            start_value: Some(data_type.clamp(self.start)),
            increment: Some(self.increment),
            min_value: Some(data_type.clamp(self.min)),
            max_value: Some(data_type.clamp(self.max)),
            cycle: Some(self.cycle),
            ordered: Some(self.ordered),
            ..Options::default()
        }
    }
}
