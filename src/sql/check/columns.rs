//! The part of `hilo_check` about columns whose default names a sequence: the values that they can hold, and
//! those that they hold.

use pgrx::pg_sys::panic::CaughtError;
use pgrx::prelude::*;

use hilo_core::mapping::Mapping;
use hilo_core::numbers::{Index, SequenceId};
use hilo_core::range::Range;

use super::finding::{Finding, Severity, finding, readable, reads_all};
use crate::advice;
use crate::catalog::catalog_oids;
use crate::catalog::column_defaults::{self, ColumnDefault};
use crate::catalog::column_values::{self, Judged};
use crate::catalog::definitions::{self, Sequence};
use crate::catalog::name::Name;
use crate::catalog::node;
use crate::catalog::positions::{self, Position};
use crate::errors::OrRaise;
use crate::memory;
use crate::session::invalidation;
use crate::sql::owners;
use crate::sql::spi::{self, Row};
use crate::sql::unserved::{Unserved, unserved};
use crate::subtransaction;

pub(super) type Defaults = Vec<(ColumnDefault, Name)>;

/// A column whose default names a sequence.
pub(super) struct Column {
    relation: pg_sys::Oid,
    number: i16,
    /// `schema.table`, quoted; `column` is the bare name of the column.
    pub table: String,
    pub column: String,
    /// The name of the sequence.
    pub name: String,
    /// The bounds of its type, if that is an integer type.
    bounds: Option<(i64, i64)>,
    /// The sequence's id and bounds; `None` if it does not exist.
    pub sequence: Option<(i64, i64, i64)>,
    /// Whether it is a table's, and no view's.
    pub in_table: bool,
    /// Whether the caller may know of it. A role that may read every sequence is told how much there is to find
    /// about the other columns too.
    pub shown: bool,
    /// Whether all of its rows are on this server, and are the concern of this caller.
    checked: bool,
    /// Whether the caller may read all of its rows.
    readable: bool,
}

/// The defaults that name a sequence.
pub(super) fn defaults() -> Defaults {
    column_defaults::all(owners::name_type().or_raise())
}

/// The columns of these defaults, as far as they are the concern of `caller`.
pub(super) fn columns(caller: pg_sys::Oid, named: &Defaults) -> Vec<Column> {
    if named.is_empty() {
        return Vec::new();
    }
    // The text of the query contains all of them.
    memory::room(named.len() * 4096).or_raise();
    let list = |of: &dyn Fn(&(ColumnDefault, Name)) -> String| {
        named.iter().map(of).collect::<Vec<_>>().join(",")
    };
    let names = list(&|(_, name)| spi::literal(name));
    let caller_id = caller.to_u32();
    let sql = format!(
        "SELECT d.relation, format('%I.%I', n.nspname, c.relname), a.attname::text, d.name,
                CASE a.atttypid WHEN 21 THEN 2 WHEN 23 THEN 4 WHEN 20 THEN 8 ELSE 0 END,
                s.id, s.min_value, s.max_value,
                a.attnum::integer, c.relkind IN ('r', 'p', 'f'),
                v.shown, c.relkind IN ('r', 'p') AND NOT c.relrowsecurity AND (v.readable OR {reads_all}), v.readable
           FROM unnest(ARRAY[{relations}]::oid[], ARRAY[{numbers}]::smallint[], ARRAY[{names}]::text[]) AS d (relation, number, name)
           JOIN pg_class c ON c.oid = d.relation
           JOIN pg_namespace n ON n.oid = c.relnamespace
           JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum = d.number AND NOT a.attisdropped
           LEFT JOIN hilo.sequence s ON s.name = d.name
          CROSS JOIN LATERAL (
               SELECT has_column_privilege({caller_id}::oid, c.oid, a.attnum, 'SELECT, INSERT, UPDATE, REFERENCES') AS shown,
                      has_schema_privilege({caller_id}::oid, n.oid, 'USAGE')
                      AND has_column_privilege({caller_id}::oid, c.oid, a.attnum, 'SELECT') AS readable) v
          WHERE (v.shown OR {reads_all})
            AND (s.id IS NULL OR EXISTS (SELECT FROM ({readable}) r WHERE r.id = s.id))",
        relations = list(&|(default, _)| default.relid.to_u32().to_string()),
        numbers = list(&|(default, _)| default.attnum.to_string()),
        readable = readable(caller),
        reads_all = reads_all(caller),
    );
    spi::rows(&sql, |row| Column {
        relation: row.oid(1),
        number: row.int4(9).unwrap_or(0) as i16,
        table: row.text(2),
        column: row.text(3),
        name: row.text(4),
        bounds: bounds(&row),
        sequence: row.int8(6).map(|id| (id, row.int8(7).unwrap_or(0), row.int8(8).unwrap_or(0))),
        in_table: row.bool(10),
        shown: row.bool(11),
        checked: row.bool(12),
        readable: row.bool(13),
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
    /// Its table and its number there.
    pub(super) fn place(&self) -> (pg_sys::Oid, i16) {
        (self.relation, self.number)
    }

    /// `schema.table.column`, quoted.
    pub(super) fn qualified(&self) -> String {
        format!("{}.{}", self.table, spi::quoted(&self.column))
    }

    fn object(&self) -> String {
        format!("column {}", self.qualified())
    }

    pub(super) fn check_definition(&self) -> Option<Finding> {
        let found = self.wrong_definition()?;
        Some(if self.shown { found } else { found.hidden() })
    }

    fn wrong_definition(&self) -> Option<Finding> {
        let name = &self.name;
        let Some((_, min, max)) = self.sequence else {
            return Some(finding(
                self.object(),
                Severity::Error,
                format!("its default uses hilo sequence \"{name}\", which does not exist"),
                advice::create_for_column(),
            ));
        };
        let (low, high) = self.bounds?;
        (max > high || min < low).then(|| {
            let beyond = if max > high { max } else { min };
            finding(self.object(), Severity::Warning,
                format!("hilo sequence \"{name}\" continues to {beyond}, which the column's type cannot hold"),
                "Change the column's type to bigint, or give the sequence the column's data type with hilo_alter, so that a clear error is raised in time.")
        })
    }

    /// Whether the sequence is yet to serve a value that the table already holds: finds the furthest one
    /// among those that this node is yet to serve. Checks that only if an index shows it at once; never waits
    /// for a lock, and never runs anything that a user has put into an index.
    pub(super) fn check_rows(&self) -> Option<Finding> {
        let found = self.wrong_rows()?;
        Some(if self.readable { found } else { found.hidden() })
    }

    fn wrong_rows(&self) -> Option<Finding> {
        let (id, ..) = self.sequence?;
        self.bounds?;
        if !self.checked || invalidation::in_progress() {
            return None;
        }
        let ids = catalog_oids().or_raise();
        let sequence = definitions::by_id(&ids, SequenceId(id)).or_raise()?;
        let definition = &sequence.definition;
        if definition.cycle {
            return None;
        }
        let node = node::known()?;
        let look = || unserved(&sequence, node);
        let before = look();
        let ranges = before.ranges();
        // Values beyond the bounds are never served.
        let (direction, bound) = (definition.direction(), definition.last_bound());
        let found = subtransaction::run(|| {
            let judge = |value| judge(&before.mapping, &ranges, value);
            column_values::search(self.relation, self.number, direction, bound, judge).or_raise()
        });
        let value = match found {
            Ok(value) => value?,
            Err(error) => return Some(self.unreadable(*error)),
        };
        // Meanwhile sessions may have got values and inserted them. Those are seen to be served now.
        let after = look();
        let same = after.position.numbering() == before.position.numbering()
            && after.position.epoch == before.position.epoch;
        let wanted = || matches!(judge(&after.mapping, &after.ranges(), value), Judged::Wanted);
        (same && wanted()).then(|| self.behind(&sequence, &after, value))
    }

    /// Whether the table holds a value that another node is yet to serve, as far as it is known how far that has come.
    /// `reach` is called again after the look at the rows, since the node has gone on meanwhile.
    pub(super) fn check_rows_of(&self, reach: &dyn Fn(&Sequence) -> Vec<Reach>) -> Option<Finding> {
        let (id, ..) = self.sequence?;
        self.bounds?;
        if !self.readable || invalidation::in_progress() {
            return None;
        }
        let ids = catalog_oids().or_raise();
        let sequence = definitions::by_id(&ids, SequenceId(id)).or_raise()?;
        if sequence.definition.cycle {
            return None;
        }
        for before in reach(&sequence) {
            // A fault was reported when this node's own values were looked for.
            let Some(value) = self.furthest_unserved(&sequence, &before) else { continue };
            let after = reach(&sequence).into_iter().find(|after| after.node == before.node);
            if after.is_some_and(|after| after.is_to_serve(value)) {
                let (node, name) = (before.node, &sequence.name);
                return Some(finding(
                    self.object(),
                    Severity::Warning,
                    format!(
                        "its value {value} is yet to be served by node {node} of hilo sequence \"{name}\": inserts will fail or repeat it"
                    ),
                    format!(
                        "If that row was not just replicated: {}",
                        advice::pass(&name.to_string(), Some(value))
                    ),
                ));
            }
        }
        None
    }

    fn furthest_unserved(&self, sequence: &Sequence, reach: &Reach) -> Option<i64> {
        let definition = &sequence.definition;
        let ranges = [Range::new(reach.next_index, reach.mapping.limit())];
        let judge = |value| judge(&reach.mapping, &ranges, value);
        let (direction, bound) = (definition.direction(), definition.last_bound());
        subtransaction::run(|| {
            column_values::search(self.relation, self.number, direction, bound, judge).or_raise()
        })
        .ok()?
    }

    fn behind(&self, sequence: &Sequence, unserved: &Unserved, value: i64) -> Finding {
        let name = &sequence.name;
        let to_do = match unserved.position.nodes {
            1 => {
                let literal = pgrx::spi::quote_literal(name.to_string());
                let table = pgrx::spi::quote_literal(&self.table);
                let column = pgrx::spi::quote_literal(&self.column);
                format!("SELECT hilo_sync({literal}, {table}, {column})")
            }
            _ => advice::pass(&name.to_string(), Some(value)),
        };
        finding(
            self.object(),
            Severity::Error,
            format!(
                "its value {value} is yet to be served by hilo sequence \"{name}\": inserts will fail or repeat it"
            ),
            to_do,
        )
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
                Severity::Warning,
                format!("its values cannot be read: {message}"),
                "Find out what is wrong with the table's files; if an index is damaged, REINDEX it.",
            ),
            _ => error.rethrow(),
        }
    }
}

/// How far another node has come.
pub(super) struct Reach {
    pub node: i32,
    pub mapping: Mapping,
    pub next_index: Index,
}

impl Reach {
    fn is_to_serve(&self, value: i64) -> bool {
        self.mapping.index_of(value).is_some_and(|index| index >= self.next_index)
    }
}

/// How far the other nodes have come whose positions replication has brought, if they number the sequence as this one.
pub(super) fn replicated(sequence: &Sequence) -> Vec<Reach> {
    let ids = catalog_oids().or_raise();
    let Some(here) = node::known() else { return Vec::new() };
    let Some(own) = positions::find(&ids, sequence.id, here).or_raise() else { return Vec::new() };
    // While tables are being copied, one may be ahead of another.
    let copying = "SELECT 1 FROM pg_catalog.pg_subscription_rel WHERE srsubstate OPERATOR(pg_catalog.<>) 'r' LIMIT 1";
    let others = positions::of_other_nodes(&ids, sequence.id, here).or_raise();
    let alike = |other: &Position| other.is_replicated() && other.numbering() == own.numbering();
    let reaches = others.into_iter().filter(alike).map(|other| Reach {
        node: other.node,
        mapping: other.mapping(&sequence.definition),
        next_index: other.next_index,
    });
    let reaches: Vec<Reach> = memory::collected(reaches).or_raise();
    match reaches.is_empty() || spi::look_up(copying, |_| ()).is_empty() {
        true => reaches,
        false => Vec::new(),
    }
}

/// Whether `value` lies in one of the `ranges` that this node is yet to serve, or how to continue the search for
/// one that does.
fn judge(mapping: &Mapping, ranges: &[Range], value: i64) -> Judged {
    let beyond = mapping.first_index_beyond(value);
    // The ranges before this one end with indexes whose values come before `value`, or are it.
    let after = ranges.partition_point(|range| range.start < beyond);
    let Some(range) = ranges[..after].last() else { return Judged::Enough };
    if mapping.index_of(value).is_some_and(|index| range.contains(index)) {
        return Judged::Wanted;
    }
    // The value has been served, or lies between two of this node's values, or in another node's stripe.
    match mapping.value(range.until(beyond).last()) {
        Some(next) => Judged::Continue(next),
        None => Judged::Enough,
    }
}
