//! A sequence of core's: its definition, where it stands, and which columns it feeds.

use std::ffi::CString;

use pgrx::pg_sys;

use hilo_core::direction::Direction;
use hilo_core::options::{DataType, Options};

use crate::catalog::definitions;
use crate::catalog::privileges;
use crate::catalog::relations;
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
    /// `schema.name`, quoted, in the database's encoding.
    pub qualified: Vec<u8>,
    pub name: Vec<u8>,
    pub schema: Vec<u8>,
    pub data_type: DataType,
    pub start: i64,
    pub increment: i64,
    pub min: i64,
    pub max: i64,
    pub cycle: bool,
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
            "SELECT c.relowner, format('%I.%I', n.nspname, c.relname), c.relname::text,
                    n.nspname::text, s.seqtypid, s.seqstart, s.seqincrement, s.seqmin, s.seqmax, \
                    s.seqcycle
               FROM pg_sequence s
               JOIN pg_class c ON c.oid = s.seqrelid
               JOIN pg_namespace n ON n.oid = c.relnamespace
              WHERE s.seqrelid = {id}::oid"
        );
        let found = spi::look_up(&sql, |row| {
            let int8 = |number| row.int8(number).unwrap_or(0);
            let bytes = |number| row.bytes(number).unwrap_or_default();
            CoreSequence {
                oid,
                owner: row.oid(1),
                qualified: bytes(2),
                name: bytes(3),
                schema: bytes(4),
                data_type: definitions::data_type_from(row.oid(5)).unwrap_or(DataType::BigInt),
                start: int8(6),
                increment: int8(7),
                min: int8(8),
                max: int8(9),
                cycle: row.bool(10),
                next: None,
            }
        });
        let Some(mut sequence) = found.into_iter().next() else {
            HiloError::NoSuchRelation(id).raise()
        };
        // A sequence of core's always has one row.
        let Some(state) = Table::read(oid).or_raise().find(Index::None, &[]) else {
            HiloError::NoSuchRelation(id).raise()
        };
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

    /// The objects that would break if it were dropped, besides the default of this column of
    /// `tables`; empty if nothing.
    pub fn other_uses(&self, tables: &[pg_sys::Oid]) -> Vec<String> {
        let list = oid_list(tables);
        let id = self.oid.to_u32();
        let sql = format!(
            "SELECT u FROM pg_depend d, pg_describe_object(d.classid, d.objid, d.objsubid) AS u
              WHERE u IS NOT NULL AND d.refclassid = 'pg_class'::regclass AND d.refobjid = {id}::oid
                AND d.deptype IN ('n', 'a')
                AND NOT EXISTS (SELECT FROM pg_attrdef f
                                 WHERE d.classid = 'pg_attrdef'::regclass AND f.oid = d.objid
                                   AND f.adrelid = ANY ({list}))
              UNION ALL
             SELECT u FROM pg_depend d, pg_describe_object(d.refclassid, d.refobjid, \
             d.refobjsubid) AS u
              WHERE u IS NOT NULL AND d.classid = 'pg_class'::regclass AND d.objid = {id}::oid
                AND (d.deptype = 'e'
                     OR d.deptype IN ('a', 'i') AND d.refclassid = 'pg_class'::regclass
                        AND d.refobjid <> ALL ({list}))"
        );
        spi::look_up(&sql, |row| row.text(1))
    }
}

/// A column that a sequence feeds, as its default or as that of an identity column.
pub struct Feed {
    pub relid: pg_sys::Oid,
    pub column: CString,
    /// For messages.
    pub description: String,
}

impl Feed {
    /// Whether the other column inherits from this one.
    pub fn is_above(&self, other: &Feed) -> bool {
        self.column == other.column
            && self.relid != other.relid
            && relations::with_children(self.relid).or_raise().contains(&other.relid)
    }
}

/// The columns that a sequence feeds, without those whose table's owner may not draw from it.
pub fn feeds(sequence: pg_sys::Oid) -> Vec<Feed> {
    let id = sequence.to_u32();
    let sql = format!(
        "SELECT a.attrelid, a.attname::text, pg_describe_object(u.classid, u.objid, u.part),
                c.relowner
           FROM (SELECT f.adrelid, f.adnum::integer, d.classid, d.objid, 0 AS part
                   FROM pg_depend d JOIN pg_attrdef f ON f.oid = d.objid
                  WHERE d.classid = 'pg_attrdef'::regclass AND d.refclassid = 'pg_class'::regclass
                    AND d.refobjid = {id}::oid
                  UNION
                 SELECT d.refobjid, d.refobjsubid, d.refclassid, d.refobjid, d.refobjsubid
                   FROM pg_depend d
                  WHERE d.classid = 'pg_class'::regclass AND d.objid = {id}::oid
                    AND d.refclassid = 'pg_class'::regclass AND d.deptype = 'i') u
           JOIN pg_attribute a ON a.attrelid = u.adrelid AND a.attnum = u.adnum
           JOIN pg_class c ON c.oid = a.attrelid
          ORDER BY a.attrelid, a.attnum"
    );
    let mut found = spi::look_up(&sql, |row| {
        let column = CString::new(row.bytes(2).unwrap_or_default()).unwrap_or_default();
        (Feed { relid: row.oid(1), column, description: row.text(3) }, row.oid(4))
    });
    found.retain(|(_, owner)| rights(*owner, sequence).is_some());
    found.into_iter().map(|(feed, _)| feed).collect()
}

/// The rights of a table's owner on a sequence, which limit what is done for the table.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Rights {
    Own,
    Draw,
}

/// The rights of a table's owner on the source of a default. `None`: it is no sequence, or one that
/// the owner may not draw from. Such a default says nothing: anybody can write one with any OID.
pub fn rights(table_owner: pg_sys::Oid, sequence: pg_sys::Oid) -> Option<Rights> {
    let (role, id) = (table_owner.to_u32(), sequence.to_u32());
    let sql = format!(
        "SELECT relowner, has_sequence_privilege({role}::oid, oid, 'USAGE, UPDATE')
           FROM pg_class WHERE oid = {id}::oid AND relkind = 'S'"
    );
    let (owner, may_draw) = spi::look_up(&sql, |row| (row.oid(1), row.bool(2))).pop()?;
    match privileges::acts_as(table_owner, owner) {
        true => Some(Rights::Own),
        false => may_draw.then_some(Rights::Draw),
    }
}

/// OIDs as an SQL expression.
pub fn oid_list(oids: &[pg_sys::Oid]) -> String {
    let list: Vec<String> = oids.iter().map(|oid| oid.to_u32().to_string()).collect();
    format!("'{{{}}}'::oid[]", list.join(","))
}
