//! `hilo_check` of columns whose default names a sequence: what they can hold, and what they do.

use pgrx::pg_sys;

use super::check::{ERROR, Finding, WARNING, finding, readable};
use super::query::{self, Row};
use crate::catalog::definitions;
use crate::catalog::name::Name;
use crate::catalog::positions::{self, Position};
use crate::catalog::{column_defaults, ids};
use crate::errors::OrRaise;
use crate::gucs;
use crate::session::change;

/// A column whose default names a sequence.
pub(super) struct Column {
    relation: pg_sys::Oid,
    /// Who owns it.
    owner: pg_sys::Oid,
    /// `schema.table`, quoted, and the column alone.
    table: String,
    column: String,
    name: String,
    /// The bounds of its type, where that is an integer.
    bounds: Option<(i64, i64)>,
    /// The sequence's number and bounds; `None` where it does not exist.
    sequence: Option<(i64, i64, i64)>,
    cheap: bool,
}

pub(super) fn columns(caller: pg_sys::Oid) -> Vec<Column> {
    let type_of_names = "SELECT t.oid FROM pg_type t JOIN pg_depend d ON d.classid = 'pg_type'::regclass AND d.objid = t.oid
          JOIN pg_extension e ON d.refclassid = 'pg_extension'::regclass AND d.refobjid = e.oid AND e.extname = 'hilo'
         WHERE t.typname = 'hilo_sequence' AND d.deptype = 'e'";
    let Some(type_oid) = query::rows(type_of_names, |row| row.oid(1)).first().copied() else {
        return Vec::new();
    };
    let named = column_defaults::all(type_oid);
    if named.is_empty() {
        return Vec::new();
    }
    let list = |of: &dyn Fn(&(column_defaults::ColumnDefault, Name)) -> String| {
        named.iter().map(of).collect::<Vec<_>>().join(",")
    };
    let names = list(&|(_, name)| query::literal(name));
    let caller_id = caller.to_u32();
    let sql = format!(
        "SELECT d.relation, format('%I.%I', n.nspname, c.relname), a.attname::text, d.name,
                CASE a.atttypid WHEN 21 THEN 2 WHEN 23 THEN 4 WHEN 20 THEN 8 ELSE 0 END,
                s.id, s.min_value, s.max_value,
                c.relkind IN ('r', 'p') AND NOT c.relrowsecurity AND NOT pg_is_other_temp_schema(n.oid)
                AND NOT (c.relpersistence = 'u' AND pg_is_in_recovery())
                AND has_column_privilege(c.relowner, c.oid, a.attnum, 'SELECT') AND has_schema_privilege(c.relowner, n.oid, 'USAGE')
                AND has_column_privilege({caller_id}::oid, c.oid, a.attnum, 'SELECT')
                AND EXISTS (SELECT FROM pg_index i JOIN pg_class ic ON ic.oid = i.indexrelid JOIN pg_am am ON am.oid = ic.relam
                             WHERE i.indrelid = c.oid AND i.indkey[0] = a.attnum AND i.indisvalid AND i.indpred IS NULL
                               AND am.amname = 'btree'),
                c.relowner
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
    query::rows(&sql, |row| Column {
        relation: row.oid(1),
        owner: row.oid(10),
        table: row.text(2),
        column: row.text(3),
        name: row.text(4),
        bounds: bounds(&row),
        sequence: row.int8(6).map(|id| (id, row.int8(7).unwrap_or(0), row.int8(8).unwrap_or(0))),
        cheap: row.bool(9),
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
        format!("column {}.{}", self.table, query::quoted(&self.column))
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
                format!("hilo sequence \"{name}\" goes on to {beyond}, which the column's type cannot hold"),
                "Make the column a bigint, or give the sequence the column's data_type with hilo_alter, for a clear error in time.")
        })
    }

    /// Whether the sequence will yet serve what the table already holds. Only where an index tells the
    /// largest value at once; never where that would wait for a lock.
    pub(super) fn check_rows(&self) -> Option<Finding> {
        let (id, min, max) = self.sequence?;
        let (low, high) = self.bounds?;
        let (min, max) = (min.max(low), max.min(high));
        let share = pg_sys::AccessShareLock as pg_sys::LOCKMODE;
        // SAFETY: takes the lock, which the transaction's end releases, or does not.
        if !self.cheap
            || change::in_progress()
            || !unsafe { pg_sys::ConditionalLockRelationOid(self.relation, share) }
        {
            return None;
        }
        let sequence = definitions::by_id(&ids().or_raise(), id).or_raise()?;
        let definition = &sequence.definition;
        let most = if definition.increment > 0 { "max" } else { "min" };
        let column = query::quoted(&self.column);
        // Of those that the sequence may serve: on Citus, say, others are of other nodes.
        let sql = format!(
            "SELECT pg_catalog.{most}(t.{column})::pg_catalog.int8 FROM {} AS t
              WHERE t.{column} OPERATOR(pg_catalog.>=) '{min}'::pg_catalog.int8
                AND t.{column} OPERATOR(pg_catalog.<=) '{max}'::pg_catalog.int8",
            self.table
        );
        // As the table's owner, who may have hidden a function where the planner runs it.
        let largest = || query::rows(&sql, |row| row.int8(1)).first().copied().flatten();
        let value = match query::tried(|| query::with_rights_of(self.owner, largest)) {
            Ok(value) => value?,
            Err(message) => {
                return Some(finding(
                    self.object(),
                    WARNING,
                    format!("its values cannot be read: {message}"),
                    "See what the table's indexes and checks call.",
                ));
            }
        };
        // Read after the rows, whose values it had given out by then.
        let position = positions::find(&ids().or_raise(), id, gucs::node().0).or_raise();
        let position = position.unwrap_or_else(|| Position::first(&sequence));
        let mapping = position.mapping(definition);
        let beyond = mapping.first_index_beyond(value) > position.next_index;
        if definition.cycle || position.nodes > 1 || !beyond {
            return None;
        }
        let word = if definition.increment > 0 { "largest" } else { "smallest" };
        Some(finding(
            self.object(),
            ERROR,
            format!(
                "its {word} value {value} lies beyond what hilo sequence \"{}\" has reserved: it will be served again",
                sequence.name
            ),
            format!(
                "SELECT hilo_setval({}, {value})",
                pgrx::spi::quote_literal(sequence.name.to_string())
            ),
        ))
    }
}
