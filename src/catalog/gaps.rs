//! `hilo.gap`: values that will never be served, and why.

use pgrx::pg_sys;

use hilo_core::mapping::Mapping;
use hilo_core::numbers::{SequenceId, Timestamp};
use hilo_core::range::Range;

use super::CatalogOids;
use super::column_ref::ColumnRef;
use super::columns::gap as column;
use super::definitions::Sequence;
use super::positions::Position;
use super::scan::{Match, Snapshot};
use super::table::{Row, Table, next_command, text_datum};
use crate::errors::{HiloError, OrRaise};
use crate::ffi;
use crate::memory::Grow;

hilo_core::named! {
    /// Why values will not be served.
    pub enum Reason {
        /// They were in memory when the server went down.
        Crash = "crash",
        /// They could not be kept, or were skipped to be safe.
        Discarded = "discarded",
        /// The sequence was altered, restarted or set.
        Altered = "altered",
        /// A lease ran out.
        Expired = "expired",
        /// A lease was revoked.
        Revoked = "revoked",
    }
}

/// A row of `hilo.gap`.
pub struct GapRow {
    pub first: i64,
    pub last: i64,
    pub count: i64,
    pub reason: String,
}

/// The gaps recorded for a node.
pub fn of_node(
    ids: &CatalogOids,
    sequence: SequenceId,
    node: i32,
) -> Result<Vec<GapRow>, HiloError> {
    let mut gaps = Vec::new();
    Table::read(ids.gap)?.scan(
        ids.gap_sequence_idx,
        &[(column::SEQUENCE, Match::Int8(sequence.0))],
        Snapshot::Catalog,
        |row| {
            if row.int4(column::NODE) == node {
                let reason = row.text(column::REASON).unwrap_or_default();
                let (first, last, count) = (
                    row.int8(column::FIRST_VALUE),
                    row.int8(column::LAST_VALUE),
                    row.int8(column::COUNT),
                );
                gaps.grow(GapRow { first, last, count, reason }).or_raise();
            }
            true
        },
    );
    Ok(gaps)
}

/// The most rows that one gap gets for its evenly spaced parts. If it has more stripes or laps than this, one
/// further row covers the rest.
const MOST_ROWS: usize = 1024;

/// Does [`record`] for each of `lost`.
pub fn record_all(
    ids: &CatalogOids,
    position: &Position,
    sequence: &Sequence,
    lost: &[Range],
    reason: Reason,
) -> Result<(), HiloError> {
    let mapping = position.mapping(&sequence.definition);
    lost.iter().try_for_each(|range| record(ids, position, &mapping, *range, reason))
}

/// Records that the values of `range` will not be served: one row for each part whose values are evenly
/// spaced.
pub fn record(
    ids: &CatalogOids,
    position: &Position,
    mapping: &Mapping,
    range: Range,
    reason: Reason,
) -> Result<(), HiloError> {
    if range.is_empty() {
        return Ok(());
    }
    let mut mapping = *mapping;
    if !mapping.cycle {
        // The indexes had values when they were reserved, whatever the bounds are now.
        (mapping.min_value, mapping.max_value) = (i64::MIN, i64::MAX);
    }
    let mut rest = range.until(mapping.limit());
    let table = Table::write(ids.gap)?;
    let now = ffi::now();
    let (sequence, node) = (position.sequence, position.node);
    let add = |first: i64, last: i64, count: i64| {
        let reason = reason.name().to_owned();
        insert(&table, sequence, node, &GapRow { first, last, count, reason }, now);
    };
    for run in mapping.runs(rest).take(MOST_ROWS) {
        add(run.first, run.last(mapping.increment), run.count);
        rest.take(run.count);
    }
    if !rest.is_empty()
        && let (Some(first), Some(last)) = (mapping.value(rest.start), mapping.value(rest.last()))
    {
        add(first, last, rest.len());
    }
    Ok(())
}

fn insert(table: &Table, sequence: SequenceId, node: i32, gap: &GapRow, at: Timestamp) {
    table.insert(&mut [
        Some(sequence.0.into()),
        Some(node.into()),
        Some(gap.first.into()),
        Some(gap.last.into()),
        Some(gap.count.into()),
        Some(text_datum(gap.reason.as_bytes())),
        Some(at.0.into()),
        None,
        None,
    ]);
}

/// Records a gap whose values are known, under the time at which it came about.
pub fn record_values(
    ids: &CatalogOids,
    sequence: SequenceId,
    node: i32,
    gap: &GapRow,
    at: Timestamp,
) -> Result<(), HiloError> {
    insert(&Table::write(ids.gap)?, sequence, node, gap, at);
    Ok(())
}

/// The sequence that gaps of released columns belong to: none.
const RELEASED: SequenceId = SequenceId(0);

/// Keeps the gaps of a sequence that is about to be dropped because `column` is released, under its name.
pub fn keep(ids: &CatalogOids, sequence: &Sequence, column: ColumnRef) -> Result<(), HiloError> {
    move_all(ids, sequence.id, RELEASED, |_| Some((Some(text_datum(&sequence.name)), Some(column))))
}

/// Gives a sequence that adopts `column` the gaps that were kept when it was released.
pub fn adopt(ids: &CatalogOids, column: ColumnRef, sequence: SequenceId) -> Result<(), HiloError> {
    let packed = column.packed();
    move_all(ids, RELEASED, sequence, |row| {
        (row.int8(column::RELEASED_FROM) == packed).then_some((None, None))
    })
}

/// Deletes the gaps that were kept for a released column, or for any column of its table (`attnum` 0), because it is
/// dropped.
pub fn forget_released(
    ids: &CatalogOids,
    relid: pg_sys::Oid,
    attnum: i16,
) -> Result<(), HiloError> {
    let table = Table::write(ids.gap)?;
    let keys = [(column::SEQUENCE, Match::Int8(RELEASED.0))];
    table.scan(ids.gap_sequence_idx, &keys, Snapshot::Catalog, |row| {
        let column = ColumnRef::unpacked(row.int8(column::RELEASED_FROM));
        if column.relid == relid && (attnum == 0 || column.attnum == attnum) {
            table.delete(&row);
        }
        true
    });
    Ok(())
}

/// Moves those rows for which `to_columns` says what their last two columns become.
fn move_all(
    ids: &CatalogOids,
    from: SequenceId,
    to: SequenceId,
    to_columns: impl Fn(&Row) -> Option<(Option<pg_sys::Datum>, Option<ColumnRef>)>,
) -> Result<(), HiloError> {
    let table = Table::write(ids.gap)?;
    let keys = [(column::SEQUENCE, Match::Int8(from.0))];
    table.scan(ids.gap_sequence_idx, &keys, Snapshot::Catalog, |row| {
        if let Some((name, column)) = to_columns(&row) {
            let mut values = [None; column::WIDTH];
            for column in column::NODE..=column::RECORDED_AT {
                values[column as usize - 1] = row.datum(column);
            }
            values[column::SEQUENCE as usize - 1] = Some(to.0.into());
            values[column::NAME as usize - 1] = name;
            values[column::RELEASED_FROM as usize - 1] =
                column.map(|column| column.packed().into());
            table.update(&row, &mut values);
        }
        true
    });
    next_command();
    Ok(())
}
