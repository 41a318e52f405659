//! `hilo.free_range`: ranges of indexes below a position, each with its owner. Most are free: reserved,
//! returned, in no memory. The others are in the memory of a server life, below the `settled_index` from
//! which on the position itself stands for that memory.
//! `hilo.gap`: values that will never be served, and why.

use pgrx::pg_sys;

use hilo_core::mapping::Mapping;
use hilo_core::numbers::{Index, SequenceId, Timestamp};
use hilo_core::range::Range;

use super::CatalogOids;
use super::column_ref::ColumnRef;
use super::columns::{free_range as column, gap};
use super::definitions::Sequence;
use super::leases;
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

/// The incarnation of a free range: no server's memory holds it.
const FREE: i64 = 0;

fn keys(position: &Position) -> [(i16, Match<'static>); 3] {
    [
        (column::SEQUENCE, Match::Int8(position.sequence.0)),
        (column::NODE, Match::Int4(position.node)),
        (column::EPOCH, Match::Int8(position.epoch.0)),
    ]
}

fn free_keys(position: &Position) -> [(i16, Match<'static>); 4] {
    let [sequence, node, epoch] = keys(position);
    [sequence, node, epoch, (column::INCARNATION, Match::Int8(FREE))]
}

fn range(row: &Row) -> Range {
    Range::new(Index(row.int8(column::FIRST_INDEX)), Index(row.int8(column::END_INDEX)))
}

/// Matches the ranges that start before `index`.
fn starting_before(index: Index) -> (i16, Match<'static>) {
    (column::FIRST_INDEX, Match::Int8Less(index.0))
}

/// Matches the ranges that start at `index` or later.
fn starting_from(index: Index) -> (i16, Match<'static>) {
    (column::FIRST_INDEX, Match::Int8Greater(index.0 - 1))
}

fn values(
    position: &Position,
    range: &Range,
    incarnation: i64,
) -> [Option<pg_sys::Datum>; column::COUNT] {
    [
        Some(position.sequence.0.into()),
        Some(position.node.into()),
        Some(position.epoch.0.into()),
        Some(range.start.0.into()),
        Some(range.end.0.into()),
        Some(incarnation.into()),
    ]
}

/// A row of `hilo.gap`.
pub struct GapRow {
    pub first: i64,
    pub last: i64,
    pub count: i64,
    pub reason: String,
}

/// The gaps recorded for a node.
pub fn gaps_of(
    ids: &CatalogOids,
    sequence: SequenceId,
    node: i32,
) -> Result<Vec<GapRow>, HiloError> {
    let mut gaps = Vec::new();
    Table::read(ids.gap)?.scan(
        ids.gap_sequence_idx,
        &[(gap::SEQUENCE, Match::Int8(sequence.0))],
        Snapshot::Catalog,
        |row| {
            if row.int4(gap::NODE) == node {
                let reason = row.text(gap::REASON).unwrap_or_default();
                let (first, last, count) =
                    (row.int8(gap::FIRST_VALUE), row.int8(gap::LAST_VALUE), row.int8(gap::COUNT));
                gaps.grow(GapRow { first, last, count, reason }).or_raise();
            }
            true
        },
    );
    Ok(gaps)
}

/// The free ranges of a position's epoch, lowest first.
pub fn free_of(ids: &CatalogOids, position: &Position) -> Result<Vec<Range>, HiloError> {
    let mut free = Vec::new();
    Table::read(ids.free_range)?.scan(
        ids.free_range_pkey,
        &free_keys(position),
        Snapshot::Catalog,
        |row| {
            free.grow(range(&row)).or_raise();
            true
        },
    );
    Ok(free)
}

/// The free ranges that overlap `hull`.
fn free_within(
    ids: &CatalogOids,
    position: &Position,
    hull: Range,
) -> Result<Vec<Range>, HiloError> {
    let table = Table::read(ids.free_range)?;
    let [a, b, c, d] = free_keys(position);
    let before = [a, b, c, d, starting_before(hull.start)];
    let mut free: Vec<Range> = table.last(ids.free_range_pkey, &before).iter().map(range).collect();
    let from = [a, b, c, d, starting_from(hull.start)];
    table.scan(ids.free_range_pkey, &from, Snapshot::Catalog, |row| {
        let found = range(&row);
        let inside = found.start < hull.end;
        if inside {
            free.grow(found).or_raise();
        }
        inside
    });
    Ok(free)
}

/// The end of the highest free range; zero if there is none.
pub fn free_end(ids: &CatalogOids, position: &Position) -> Result<Index, HiloError> {
    let last = Table::read(ids.free_range)?.last(ids.free_range_pkey, &free_keys(position));
    Ok(last.map_or(Index::ZERO, |row| range(&row).end))
}

/// The rows of ranges that are in some server's memory.
fn lent_rows(table: &Table, ids: &CatalogOids, position: &Position) -> Vec<Row> {
    let [a, b, c] = keys(position);
    let mut rows = Vec::new();
    let lent = [a, b, c, (column::INCARNATION, Match::Int8Greater(FREE))];
    table.scan(ids.free_range_pkey, &lent, Snapshot::Catalog, |row| {
        rows.grow(row).or_raise();
        true
    });
    rows
}

/// The ranges that are in some server's memory, or were when that server's life ended.
pub fn lent(ids: &CatalogOids, position: &Position) -> Result<Vec<Range>, HiloError> {
    let table = Table::read(ids.free_range)?;
    Ok(lent_rows(&table, ids, position).iter().map(range).collect())
}

/// Lends up to `limit` of the free ranges of a position's epoch to the memory of `incarnation`: the lowest of
/// those that contain an index of at least `from`. The caller holds the position's lock.
pub fn lend(
    ids: &CatalogOids,
    position: &Position,
    incarnation: i64,
    limit: usize,
    from: Index,
) -> Result<Vec<Range>, HiloError> {
    if limit == 0 {
        return Ok(Vec::new());
    }
    let table = Table::write(ids.free_range)?;
    let [a, b, c, d] = free_keys(position);
    let before = table.last(ids.free_range_pkey, &[a, b, c, d, starting_before(from)]);
    let mut rows: Vec<Row> = before.into_iter().filter(|row| range(row).end > from).collect();
    let after = [a, b, c, d, starting_from(from)];
    table.scan(ids.free_range_pkey, &after, Snapshot::Catalog, |row| {
        let wanted = rows.len() < limit;
        if wanted {
            rows.push(row);
        }
        wanted
    });
    Ok(rows
        .iter()
        .map(|row| {
            let range = range(row);
            table.update(row, &mut values(position, &range, incarnation));
            range
        })
        .collect())
}

/// Writes free ranges to the catalog, each merged with the free ranges that it touches.
pub fn put_free(ids: &CatalogOids, position: &Position, ranges: &[Range]) -> Result<(), HiloError> {
    let table = Table::write(ids.free_range)?;
    let [a, b, c, d] = free_keys(position);
    for put in Range::union(ranges.to_vec()) {
        let mut whole = put;
        let before = [a, b, c, d, starting_before(put.start)];
        let after = [a, b, c, d, (column::FIRST_INDEX, Match::Int8(put.end.0))];
        let neighbours = table.last(ids.free_range_pkey, &before).into_iter().chain(table.find(
            ids.free_range_pkey,
            &after,
            Snapshot::Catalog,
        ));
        for row in neighbours {
            if let Some(joined) = whole.joined(&range(&row)) {
                table.delete(&row);
                whole = joined;
            }
        }
        table.insert(&mut values(position, &whole, FREE));
        next_command();
    }
    Ok(())
}

/// Lowers a position to the start of the highest free range, if that range ends at the position, and deletes
/// the range's row.
pub fn lower(ids: &CatalogOids, position: &mut Position) -> Result<(), HiloError> {
    let table = Table::write(ids.free_range)?;
    if let Some(row) = table.last(ids.free_range_pkey, &free_keys(position))
        && range(&row).end == position.next_index
    {
        table.delete(&row);
        position.next_index = range(&row).start;
        position.settled_index = position.settled_index.min(position.next_index);
        next_command();
    }
    Ok(())
}

/// Records what the memory of `incarnation` holds below `settled_index`: the part of each `held` range that
/// lies there gets a row, and the rows of all other lent ranges are deleted.
pub fn write_lent(
    ids: &CatalogOids,
    position: &Position,
    incarnation: i64,
    held: &[Range],
) -> Result<(), HiloError> {
    forget_lent(ids, position, &[])?;
    let table = Table::write(ids.free_range)?;
    let below = Range::below(position.settled_index);
    for range in held.iter().map(|range| range.intersection(&below)).filter(|r| !r.is_empty()) {
        table.insert(&mut values(position, &range, incarnation));
    }
    next_command();
    Ok(())
}

/// Deletes the rows of lent ranges of which no part is `held` any more.
pub fn forget_lent(
    ids: &CatalogOids,
    position: &Position,
    held: &[Range],
) -> Result<(), HiloError> {
    let table = Table::write(ids.free_range)?;
    let rows = lent_rows(&table, ids, position);
    for row in rows {
        let lent = range(&row);
        if held.iter().all(|held| held.intersection(&lent).is_empty()) {
            table.delete(&row);
        }
    }
    next_command();
    Ok(())
}

/// The most rows that one gap gets for its evenly spaced parts. If it has more stripes or laps than this, one
/// further row covers the rest.
const MOST_ROWS: usize = 1024;

/// Does [`record_gap`] for each of `lost`.
pub fn record_gaps(
    ids: &CatalogOids,
    position: &Position,
    sequence: &Sequence,
    lost: &[Range],
    reason: Reason,
) -> Result<(), HiloError> {
    let mapping = position.mapping(&sequence.definition);
    lost.iter().try_for_each(|range| record_gap(ids, position, &mapping, *range, reason))
}

/// Records that the values of `range` will not be served: one row for each part whose values are evenly
/// spaced.
pub fn record_gap(
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
    let record = |first: i64, last: i64, count: i64| {
        let reason = reason.name().to_owned();
        insert_gap(&table, sequence, node, &GapRow { first, last, count, reason }, now);
    };
    for run in mapping.runs(rest).take(MOST_ROWS) {
        record(run.first, run.last(mapping.increment), run.count);
        rest.take(run.count);
    }
    if !rest.is_empty()
        && let (Some(first), Some(last)) = (mapping.value(rest.start), mapping.value(rest.last()))
    {
        record(first, last, rest.len());
    }
    Ok(())
}

fn insert_gap(table: &Table, sequence: SequenceId, node: i32, gap: &GapRow, at: Timestamp) {
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
    insert_gap(&Table::write(ids.gap)?, sequence, node, gap, at);
    Ok(())
}

/// Records as gaps what a memory held that no longer exists: the indexes from `settled_index` to the
/// position, and the ranges that were lent, whose rows it deletes. The free ranges and the leases stay.
pub fn write_off_memory(
    ids: &CatalogOids,
    position: &Position,
    mapping: &Mapping,
    reason: Reason,
) -> Result<(), HiloError> {
    let table = Table::write(ids.free_range)?;
    let rows = lent_rows(&table, ids, position);
    let mut lost: Vec<Range> = rows.iter().map(range).collect();
    rows.iter().for_each(|row| table.delete(row));
    lost.push(position.unsettled());
    let leased = Range::union(leases::leased(ids, position)?);
    for lost in Range::union(lost).iter().flat_map(|lost| lost.without(&leased)) {
        let free = free_within(ids, position, lost)?;
        for part in lost.without(&free) {
            record_gap(ids, position, mapping, part, reason)?;
        }
    }
    next_command();
    Ok(())
}

/// Records as gaps those parts of `held` and of the free ranges that lie below the position: none of them is
/// served any more. Deletes the rows of the free and the lent ranges.
pub fn write_off(
    ids: &CatalogOids,
    position: &Position,
    mapping: &Mapping,
    held: Vec<Range>,
    reason: Reason,
) -> Result<(), HiloError> {
    let table = Table::write(ids.free_range)?;
    let mut lost = held;
    table.scan(ids.free_range_pkey, &keys(position), Snapshot::Catalog, |row| {
        // A lent range is in `held`, or has been served.
        if row.int8(column::INCARNATION) == FREE {
            lost.grow(range(&row)).or_raise();
        }
        table.delete(&row);
        true
    });
    for lost in Range::union(lost) {
        record_gap(ids, position, mapping, lost.until(position.next_index), reason)?;
    }
    next_command();
    Ok(())
}

/// The sequence that gaps of released columns belong to: none.
const RELEASED: SequenceId = SequenceId(0);

/// Keeps the gaps of a sequence that is about to be dropped because `column` is released, under its name.
pub fn keep_gaps(
    ids: &CatalogOids,
    sequence: &Sequence,
    column: ColumnRef,
) -> Result<(), HiloError> {
    move_gaps(ids, sequence.id, RELEASED, |_| {
        Some((Some(text_datum(&sequence.name)), Some(column)))
    })
}

/// Gives a sequence that adopts `column` the gaps that were kept when it was released.
pub fn adopt_gaps(
    ids: &CatalogOids,
    column: ColumnRef,
    sequence: SequenceId,
) -> Result<(), HiloError> {
    let packed = column.packed();
    move_gaps(ids, RELEASED, sequence, |row| {
        (row.int8(gap::RELEASED_FROM) == packed).then_some((None, None))
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
    let keys = [(gap::SEQUENCE, Match::Int8(RELEASED.0))];
    table.scan(ids.gap_sequence_idx, &keys, Snapshot::Catalog, |row| {
        let column = ColumnRef::unpacked(row.int8(gap::RELEASED_FROM));
        if column.relid == relid && (attnum == 0 || column.attnum == attnum) {
            table.delete(&row);
        }
        true
    });
    Ok(())
}

/// Moves those rows for which `to_columns` says what their last two columns become.
fn move_gaps(
    ids: &CatalogOids,
    from: SequenceId,
    to: SequenceId,
    to_columns: impl Fn(&Row) -> Option<(Option<pg_sys::Datum>, Option<ColumnRef>)>,
) -> Result<(), HiloError> {
    let table = Table::write(ids.gap)?;
    let keys = [(gap::SEQUENCE, Match::Int8(from.0))];
    table.scan(ids.gap_sequence_idx, &keys, Snapshot::Catalog, |row| {
        if let Some((name, column)) = to_columns(&row) {
            let mut values = [None; gap::WIDTH];
            for column in gap::NODE..=gap::RECORDED_AT {
                values[column as usize - 1] = row.datum(column);
            }
            values[gap::SEQUENCE as usize - 1] = Some(to.0.into());
            values[gap::NAME as usize - 1] = name;
            values[gap::RELEASED_FROM as usize - 1] = column.map(|column| column.packed().into());
            table.update(&row, &mut values);
        }
        true
    });
    next_command();
    Ok(())
}

/// Deletes the free ranges, the gaps, the leases and the privileges of a dropped sequence.
pub fn forget(ids: &CatalogOids, sequence: SequenceId) -> Result<(), HiloError> {
    leases::forget(ids, sequence)?;
    for (table, index) in [
        (ids.free_range, ids.free_range_pkey),
        (ids.gap, ids.gap_sequence_idx),
        (ids.privilege, ids.privilege_pkey),
    ] {
        let table = Table::write(table)?;
        table.scan(
            index,
            &[(column::SEQUENCE, Match::Int8(sequence.0))],
            Snapshot::Catalog,
            |row| {
                table.delete(&row);
                true
            },
        );
    }
    Ok(())
}
