//! `hilo.unserved_values`: what a column holds of the values that its sequence is yet to serve.

use pgrx::pg_sys;
use pgrx::pg_sys::panic::CaughtError;
use pgrx::prelude::PgSqlErrorCode;

use hilo_core::mapping::Mapping;
use hilo_core::numbers::{Index, SequenceId};
use hilo_core::range::Range;

use crate::advice;
use crate::catalog::column_ref::ColumnRef;
use crate::catalog::column_values::Verdict;
use crate::catalog::definitions::{self, Sequence};
use crate::catalog::positions::{self, Position};
use crate::catalog::stored;
use crate::catalog::table::text_datum;
use crate::catalog::version;
use crate::catalog::{catalog_oids, node, privileges};
use crate::errors::OrRaise;
use crate::process::ffi;
use crate::process::memory;
use crate::process::subtransaction;
use crate::session::invalidation;
use crate::sql::call::args::{Args, sql_functions};
use crate::sql::call::spi;
use crate::sql::call::stored_rows::StoredRows;
use crate::sql::define::unserved::look;

sql_functions!(hilo_unserved_values);

/// `hilo.unserved_values(relation, number, sequence)`: the furthest value that a column holds and a
/// node is yet to serve. The nodes are this one and the first of those that replicate their
/// positions. Checks that only if an index shows it at once. It
/// never waits for a lock, and never runs anything that a user has put into an index.
fn hilo_unserved_values(args: Args) {
    let mut rows = StoredRows::begin(args);
    let Some(column) = ColumnCheck::of(args) else { return };
    let found = [column.on_this_node(), column.on_another()];
    let text = |text: Option<String>| text.map(|text| text_datum(text.as_bytes()));
    let found = found.into_iter().flatten().filter_map(|found| column.if_visible(found));
    for Found { node, value, failure, advice } in found {
        let (node, value) = (node.map(Into::into), value.map(Into::into));
        // SAFETY: the function is declared to return an integer, a bigint and two texts.
        unsafe { rows.add_some([node, value, text(failure), text(advice)]) };
    }
}

/// A column of an integer type and the sequence that its default names.
struct ColumnCheck {
    relation: pg_sys::Oid,
    number: i16,
    sequence: Sequence,
}

/// The furthest value that a node is yet to serve, or why it cannot be read.
#[derive(Default)]
struct Found {
    /// `None`: this one.
    node: Option<i32>,
    value: Option<i64>,
    failure: Option<String>,
    /// How to pass the value on all nodes; `None`: the sequence has one node.
    advice: Option<String>,
}

impl ColumnCheck {
    /// The column that the arguments name, if there is something to look for.
    fn of(args: Args) -> Option<ColumnCheck> {
        let (relation, id) = (args.oid(0)?, SequenceId(args.int8(2)?));
        let number = args.datum(1)?.value() as i16;
        if invalidation::in_progress() {
            return None;
        }
        let sequence = definitions::by_id(id).or_raise()?;
        (!sequence.definition.cycle).then_some(ColumnCheck { relation, number, sequence })
    }

    /// The findings that the caller may learn. In schema hilo the users of the extension can call
    /// the function themselves, without the conditions of `hilo.finding`.
    fn if_visible(&self, found: Found) -> Option<Found> {
        let ids = catalog_oids().or_raise();
        let is_open = version::schema(ids.extension).or_raise() == ids.schema;
        if !is_open || is_readable(self.relation, self.number) {
            return Some(found);
        }
        let Found { node, failure, .. } = found;
        let reads_all = privileges::reads_all(ffi::current_user());
        reads_all.then_some(Found { node, failure, ..Found::default() })
    }

    fn search(&self, mapping: &Mapping, ranges: &[Range]) -> Result<Option<i64>, Box<CaughtError>> {
        let definition = &self.sequence.definition;
        // Values beyond the bounds are never served.
        let (direction, bound) = (definition.direction(), definition.last_bound());
        let judge = |value| judge(mapping, ranges, value);
        subtransaction::run(|| {
            let column = ColumnRef { relid: self.relation, attnum: self.number };
            stored::search(column, direction, bound, judge).or_raise()
        })
    }

    fn on_this_node(&self) -> Option<Found> {
        let node = node::id();
        let look = || look(&self.sequence, node);
        let before = look();
        let value = match self.search(&before.mapping, &before.ranges()) {
            Ok(value) => value?,
            Err(error) => return Some(unreadable(*error)),
        };
        // Meanwhile sessions may have got values and inserted them. These are seen to be served
        // now.
        let after = look();
        let same = after.position.numbering() == before.position.numbering()
            && after.position.epoch == before.position.epoch;
        let is_wanted = matches!(judge(&after.mapping, &after.ranges(), value), Verdict::Found);
        let advice = (after.position.nodes > 1).then(|| self.pass(value));
        let found = Found { value: Some(value), advice, ..Found::default() };
        (same && is_wanted).then_some(found)
    }

    /// The value that another node is yet to serve, as far as it is known how far that has come.
    /// That is read again after the look at the rows, since the node has gone on meanwhile.
    fn on_another(&self) -> Option<Found> {
        for before in replicated(&self.sequence) {
            let ranges = [Range::new(before.next_index, before.mapping.limit())];
            // A fault is reported where this node's own values are looked for.
            let Ok(Some(value)) = self.search(&before.mapping, &ranges) else { continue };
            let after =
                replicated(&self.sequence).into_iter().find(|after| after.node == before.node);
            if after.is_some_and(|after| after.is_to_serve(value)) {
                let (node, advice) = (Some(before.node), Some(self.pass(value)));
                return Some(Found { node, value: Some(value), failure: None, advice });
            }
        }
        None
    }

    fn pass(&self, value: i64) -> String {
        advice::pass(&self.sequence.name.to_string(), value)
    }
}

/// Whether the current user may read all rows of a column by a SELECT.
fn is_readable(relation: pg_sys::Oid, number: i16) -> bool {
    let sql = format!(
        "SELECT pg_catalog.has_schema_privilege(relnamespace, 'USAGE')
                AND pg_catalog.has_column_privilege(oid, {number}::pg_catalog.int2, 'SELECT')
                AND NOT relrowsecurity
           FROM pg_catalog.pg_class WHERE oid OPERATOR(pg_catalog.=) {}::pg_catalog.oid",
        relation.to_u32()
    );
    spi::look_up(&sql, |row| row.bool(1)).first().is_some_and(|readable| *readable)
}

/// A damaged index or file keeps hilo_check only from this column. A cancellation ends hilo_check,
/// and so does an error of the session rather than of the table.
fn unreadable(error: CaughtError) -> Found {
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
        | ERRCODE_UNDEFINED_FILE => Found { failure: Some(message), ..Found::default() },
        _ => error.rethrow(),
    }
}

/// How far another node has come.
struct Reach {
    node: i32,
    mapping: Mapping,
    next_index: Index,
}

impl Reach {
    fn is_to_serve(&self, value: i64) -> bool {
        self.mapping.index_of(value).is_some_and(|index| index >= self.next_index)
    }
}

/// How far the other nodes have come whose positions replication has brought, if they number the
/// sequence as this one.
fn replicated(sequence: &Sequence) -> Vec<Reach> {
    let here = node::id();
    let Some(own) = positions::find(sequence.id, here).or_raise() else { return Vec::new() };
    // While tables are being copied, one may be ahead of another.
    let copying = "SELECT 1 FROM pg_catalog.pg_subscription_rel
                    WHERE srsubstate OPERATOR(pg_catalog.<>) 'r' LIMIT 1";
    let others = positions::of_other_nodes(sequence.id, here).or_raise();
    let alike = |other: &Position| other.is_replicated() && other.numbering() == own.numbering();
    let reaches = others.into_iter().filter(alike).map(|other| Reach {
        node: other.node,
        mapping: other.mapping(&sequence.definition),
        next_index: other.next_index,
    });
    let reaches: Vec<Reach> = memory::try_collect(reaches).or_raise();
    match reaches.is_empty() || spi::look_up(copying, |_| ()).is_empty() {
        true => reaches,
        false => Vec::new(),
    }
}

/// Whether `value` lies in one of the `ranges` that this node is yet to serve, or how to continue
/// the search for one that does.
fn judge(mapping: &Mapping, ranges: &[Range], value: i64) -> Verdict {
    let beyond = mapping.first_index_beyond(value);
    // The ranges before this one end with indexes whose values come before `value`, or are it.
    let after = ranges.partition_point(|range| range.start < beyond);
    let Some(range) = ranges[..after].last() else { return Verdict::Stop };
    if mapping.index_of(value).is_some_and(|index| range.contains(index)) {
        return Verdict::Found;
    }
    // The value has been served, or lies between two of this node's values, or in another node's
    // stripe.
    match mapping.value(range.until(beyond).last()) {
        Some(next) => Verdict::SeekTo(next),
        None => Verdict::Stop,
    }
}
