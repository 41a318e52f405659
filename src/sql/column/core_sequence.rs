//! A sequence of core's: its definition, and where it stands.

use pgrx::pg_sys;

use hilo_core::direction::Direction;
use hilo_core::options::{DataType, Options};

use crate::catalog::definitions;
use crate::catalog::scan::Index;
use crate::catalog::table::Table;
use crate::errors::{HiloError, OrRaise};
use crate::sql::call::spi;

/// The columns of the one row of a sequence.
mod state {
    pub const LAST_VALUE: i16 = 1;
    pub const IS_CALLED: i16 = 3;
}

/// A sequence of core's.
pub struct CoreSequence {
    pub oid: pg_sys::Oid,
    pub owner: pg_sys::Oid,
    /// Its name without and with its schema, in the database's encoding.
    pub names: [Vec<u8>; 2],
    data_type: DataType,
    start: i64,
    pub increment: i64,
    min: i64,
    max: i64,
    cycle: bool,
    /// The value that the next caller would get; `None`: there is none left.
    pub next: Option<i64>,
}

impl CoreSequence {
    /// Reads a sequence. Its last value covers what sessions have cached. Nothing of it is looked
    /// up by name, and nobody's rights are needed: the caller has checked that the column may use
    /// it.
    pub fn read(oid: pg_sys::Oid) -> CoreSequence {
        let id = oid.to_u32();
        let sql = format!(
            "SELECT c.relowner, c.relname::text, n.nspname || '.' || c.relname, s.seqtypid,
                    s.seqstart, s.seqincrement, s.seqmin, s.seqmax, s.seqcycle
               FROM pg_sequence s
               JOIN pg_class c ON c.oid = s.seqrelid
               JOIN pg_namespace n ON n.oid = c.relnamespace
              WHERE s.seqrelid = {id}::oid"
        );
        let found = spi::look_up(&sql, |row| {
            let int8 = |number| row.int8(number).unwrap_or(0);
            CoreSequence {
                oid,
                owner: row.oid(1),
                names: [2, 3].map(|number| row.bytes(number).unwrap_or_default()),
                data_type: definitions::data_type_from(row.oid(4)).unwrap_or(DataType::BigInt),
                start: int8(5),
                increment: int8(6),
                min: int8(7),
                max: int8(8),
                cycle: row.bool(9),
                next: None,
            }
        });
        let missing = || HiloError::NoSuchRelation(id);
        let mut sequence = found.into_iter().next().ok_or_else(missing).or_raise();
        // A sequence of core's always has one row.
        let state = Table::read(oid).or_raise().find(Index::None, &[]);
        let state = state.ok_or_else(missing).or_raise();
        let (last, called) = (state.int8(state::LAST_VALUE), state.bool(state::IS_CALLED));
        sequence.next = if called { sequence.after(last) } else { Some(last) };
        sequence
    }

    pub fn direction(&self) -> Direction {
        Direction::of(self.increment)
    }

    /// The bound that the values approach.
    pub fn last(&self) -> i64 {
        match self.direction() {
            Direction::Rising => self.max,
            Direction::Falling => self.min,
        }
    }

    fn holds(&self, value: &i64) -> bool {
        (self.min..=self.max).contains(value)
    }

    /// The value after `value`, which the sequence has served.
    fn after(&self, value: i64) -> Option<i64> {
        let next = value.checked_add(self.increment).filter(|next| self.holds(next));
        let restart = if self.increment > 0 { self.min } else { self.max };
        next.or(self.cycle.then_some(restart))
    }

    /// The first value that comes, in the sequence's steps, at or after its next one and beyond
    /// `taken`. `None`: there is none left. A sequence that cycles and has none left before its
    /// bound continues where it stands: its values come again anyway.
    pub fn next_beyond(&self, taken: Option<i64>) -> Option<i64> {
        let next = self.next?;
        let Some(taken) = taken.filter(|taken| !self.direction().is_beyond(next, *taken)) else {
            return Some(next);
        };
        let (next_wide, step) = (i128::from(next), i128::from(self.increment));
        let steps = (i128::from(taken) - next_wide) / step + 1;
        let value = i64::try_from(next_wide + steps * step).ok().filter(|value| self.holds(value));
        value.or(self.cycle.then_some(next))
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
            ..Options::default()
        }
    }
}
