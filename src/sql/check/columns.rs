//! The part of `hilo_check` about columns whose default names a sequence: the values that they can hold, and
//! those that they hold.

use pgrx::pg_sys::panic::CaughtError;
use pgrx::prelude::*;

use hilo_core::direction::Direction;
use hilo_core::mapping::Mapping;
use hilo_core::numbers::{Index, SequenceId};

use super::finding::{ERROR, Finding, WARNING, finding, readable};
use crate::catalog::column_values::{self, Judged};
use crate::catalog::definitions;
use crate::catalog::name::Name;
use crate::catalog::positions::{self, Position};
use crate::catalog::{catalog_oids, column_defaults};
use crate::errors::OrRaise;
use crate::gucs;
use crate::memory;
use crate::session::invalidation;
use crate::sql::spi::{self, Row};
use crate::subtransaction;

/// A column whose default names a sequence.
pub(super) struct Column {
    relation: pg_sys::Oid,
    number: i16,
    /// `schema.table`, quoted; `column` is the bare name of the column.
    table: String,
    column: String,
    name: String,
    /// The bounds of its type, if that is an integer type.
    bounds: Option<(i64, i64)>,
    /// The sequence's id and bounds; `None` if it does not exist.
    sequence: Option<(i64, i64, i64)>,
    /// Whether the caller may read all of its rows, and they are on this server.
    readable: bool,
}

pub(super) fn columns(caller: pg_sys::Oid) -> Vec<Column> {
    let type_of_names = "SELECT t.oid FROM pg_type t JOIN pg_depend d ON d.classid = 'pg_type'::regclass AND d.objid = t.oid
          JOIN pg_extension e ON d.refclassid = 'pg_extension'::regclass AND d.refobjid = e.oid AND e.extname = 'hilo'
         WHERE t.typname = 'hilo_sequence' AND d.deptype = 'e'";
    let Some(type_oid) = spi::rows(type_of_names, |row| row.oid(1)).first().copied() else {
        return Vec::new();
    };
    let named = column_defaults::all(type_oid);
    if named.is_empty() {
        return Vec::new();
    }
    // The text of the query contains all of them.
    memory::room(named.len() * 4096).or_raise();
    let list = |of: &dyn Fn(&(column_defaults::ColumnDefault, Name)) -> String| {
        named.iter().map(of).collect::<Vec<_>>().join(",")
    };
    let names = list(&|(_, name)| spi::literal(name));
    let caller_id = caller.to_u32();
    let sql = format!(
        "SELECT d.relation, format('%I.%I', n.nspname, c.relname), a.attname::text, d.name,
                CASE a.atttypid WHEN 21 THEN 2 WHEN 23 THEN 4 WHEN 20 THEN 8 ELSE 0 END,
                s.id, s.min_value, s.max_value,
                c.relkind IN ('r', 'p') AND NOT c.relrowsecurity
                AND has_schema_privilege({caller_id}::oid, n.oid, 'USAGE')
                AND has_column_privilege({caller_id}::oid, c.oid, a.attnum, 'SELECT'),
                a.attnum::integer
           FROM unnest(ARRAY[{relations}]::oid[], ARRAY[{numbers}]::smallint[], ARRAY[{names}]::text[]) AS d (relation, number, name)
           JOIN pg_class c ON c.oid = d.relation
           JOIN pg_namespace n ON n.oid = c.relnamespace
           JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum = d.number AND NOT a.attisdropped
           LEFT JOIN hilo.sequence s ON s.name = d.name
          WHERE has_column_privilege({caller_id}::oid, c.oid, a.attnum, 'SELECT, INSERT, UPDATE, REFERENCES')
            AND (s.id IS NULL OR EXISTS (SELECT FROM ({readable}) r WHERE r.id = s.id))",
        relations = list(&|(default, _)| default.relid.to_u32().to_string()),
        numbers = list(&|(default, _)| default.attnum.to_string()),
        readable = readable(caller),
    );
    spi::rows(&sql, |row| Column {
        relation: row.oid(1),
        number: row.int4(10).unwrap_or(0) as i16,
        table: row.text(2),
        column: row.text(3),
        name: row.text(4),
        bounds: bounds(&row),
        sequence: row.int8(6).map(|id| (id, row.int8(7).unwrap_or(0), row.int8(8).unwrap_or(0))),
        readable: row.bool(9),
    })
}

fn bounds(row: &Row) -> Option<(i64, i64)> {
    match row.int4(5) {
        Some(2) => Some((i16::MIN as i64, i16::MAX as i64)),
        Some(4) => Some((i32::MIN as i64, i32::MAX as i64)),
        Some(8) => Some((i64::MIN, i64::MAX)),
        _ => None,
    }
}

impl Column {
    fn object(&self) -> String {
        format!("column {}.{}", self.table, spi::quoted(&self.column))
    }

    pub(super) fn check_definition(&self) -> Option<Finding> {
        let name = &self.name;
        let Some((_, min, max)) = self.sequence else {
            return Some(finding(
                self.object(),
                ERROR,
                format!("its default uses hilo sequence \"{name}\", which does not exist"),
                "Create it with hilo_create, or give the column another default.",
            ));
        };
        let (low, high) = self.bounds?;
        (max > high || min < low).then(|| {
            let beyond = if max > high { max } else { min };
            finding(self.object(), WARNING,
                format!("hilo sequence \"{name}\" continues to {beyond}, which the column's type cannot hold"),
                "Change the column's type to bigint, or give the sequence the column's data type with hilo_alter, so that a clear error is raised in time.")
        })
    }

    /// Whether the sequence is yet to serve a value that the table already holds: finds the furthest one
    /// among those that this node is yet to serve. Checks that only if an index shows it at once; never waits
    /// for a lock, and never runs anything that a user has put into an index.
    pub(super) fn check_rows(&self) -> Option<Finding> {
        let (id, ..) = self.sequence?;
        self.bounds?;
        if !self.readable || invalidation::in_progress() {
            return None;
        }
        let ids = catalog_oids().or_raise();
        let sequence = definitions::by_id(&ids, SequenceId(id)).or_raise()?;
        let definition = &sequence.definition;
        if definition.cycle {
            return None;
        }
        let direction = definition.direction();
        let position = || {
            let found = positions::find(&ids, SequenceId(id), gucs::node().0).or_raise();
            found.unwrap_or_else(|| Position::first(&sequence))
        };
        let before = position();
        let mapping = before.mapping(definition);
        // Values beyond the bounds are never served.
        let bound = definition.last_bound();
        let found = subtransaction::run(|| {
            let judge = |value| judge(&mapping, before.next_index, value);
            column_values::search(self.relation, self.number, direction, bound, judge).or_raise()
        });
        let value = match found {
            Ok(value) => value?,
            Err(error) => return Some(self.unreadable(*error)),
        };
        // The position is read again after the rows: by then it covers every value that the rows have got
        // from the sequence.
        let after = position();
        let ahead = mapping.index_of(value).is_some_and(|index| index >= after.next_index);
        if after.numbering() != before.numbering() || after.epoch != before.epoch || !ahead {
            return None;
        }
        let word = match direction {
            Direction::Rising => "largest",
            Direction::Falling => "smallest",
        };
        let (name, whose) = match after.nodes {
            1 => (&sequence.name, ""),
            _ => (&sequence.name, " (among this node's values)"),
        };
        let literal = pgrx::spi::quote_literal(name.to_string());
        let behind = value.checked_add(definition.increment);
        let to_do = match behind.filter(|_| after.nodes > 1) {
            Some(behind) => format!(
                "Run SELECT hilo_alter({literal}, restart_with => {behind}) on every node, with a value beyond all that any node has reserved."
            ),
            None => format!("SELECT hilo_setval({literal}, {value})"),
        };
        Some(finding(
            self.object(),
            ERROR,
            format!(
                "its {word} value {value}{whose} lies beyond what hilo sequence \"{name}\" has reserved: it will be served again"
            ),
            to_do,
        ))
    }

    /// A damaged index or file keeps hilo_check only from this column. A cancellation ends hilo_check, and so
    /// does an error of the session rather than of the table.
    fn unreadable(&self, error: CaughtError) -> Finding {
        use PgSqlErrorCode::*;
        let (sqlstate, message) = match &error {
            CaughtError::PostgresError(report) => {
                (report.sql_error_code(), report.message().to_string())
            }
            _ => error.rethrow(),
        };
        match sqlstate {
            ERRCODE_DATA_CORRUPTED
            | ERRCODE_INDEX_CORRUPTED
            | ERRCODE_IO_ERROR
            | ERRCODE_UNDEFINED_FILE => finding(
                self.object(),
                WARNING,
                format!("its values cannot be read: {message}"),
                "Find out what is wrong with the table's files; if an index is damaged, REINDEX it.",
            ),
            _ => error.rethrow(),
        }
    }
}

/// Whether this node is yet to serve `value`, or how to continue the search for a value that it is yet to
/// serve.
fn judge(mapping: &Mapping, next_index: Index, value: i64) -> Judged {
    match mapping.index_of(value) {
        Some(index) if index >= next_index => Judged::Wanted,
        Some(_) => Judged::Enough,
        // The value lies between two of this node's values, or in another node's stripe.
        None => {
            let beyond = mapping.first_index_beyond(value);
            match mapping.value(beyond - 1) {
                Some(last) if beyond > next_index => Judged::Continue(last),
                _ => Judged::Enough,
            }
        }
    }
}
