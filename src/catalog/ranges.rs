//! `hilo.free_range`: reserved, never served, given back. `hilo.gap`: never to be served, and why.

use hilo_core::mapping::Mapping;
use hilo_core::range::Range;

use super::Ids;
use super::positions::Position;
use super::table::{Equals, See, Table, text_datum};
use crate::errors::HiloError;
use crate::ffi;

/// Why values will never be served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// They were in memory when the server went down.
    Crash,
    /// They could not be kept, or were skipped to be safe.
    Discarded,
    /// The sequence was altered, restarted or set.
    Altered,
}

impl Reason {
    fn name(self) -> &'static str {
        match self {
            Reason::Crash => "crash",
            Reason::Discarded => "discarded",
            Reason::Altered => "altered",
        }
    }
}

fn keys(position: &Position) -> [(i16, Equals<'static>); 3] {
    [
        (1, Equals::Int8(position.sequence)),
        (2, Equals::Int4(position.node)),
        (3, Equals::Int8(position.epoch)),
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
pub fn gaps_of(ids: &Ids, sequence: i64, node: i32) -> Result<Vec<GapRow>, HiloError> {
    let mut gaps = Vec::new();
    Table::read(ids.gap)?.scan(
        ids.gap_sequence_idx,
        &[(1, Equals::Int8(sequence))],
        See::Newest,
        |row| {
            if row.int4(2) == node {
                let reason = row.text(6).unwrap_or_default();
                gaps.push(GapRow {
                    first: row.int8(3),
                    last: row.int8(4),
                    count: row.int8(5),
                    reason,
                });
            }
            true
        },
    );
    Ok(gaps)
}

/// The free ranges of a position's epoch, lowest first.
pub fn free_of(ids: &Ids, position: &Position) -> Result<Vec<Range>, HiloError> {
    let mut free = Vec::new();
    Table::read(ids.free_range)?.scan(ids.free_range_pkey, &keys(position), See::Newest, |row| {
        free.push(Range::new(row.int8(4), row.int8(5)));
        true
    });
    Ok(free)
}

/// Takes up to `limit` of the free ranges of a position's epoch out of the catalog, lowest first.
/// Whoever calls holds the position's lock.
pub fn take_free(ids: &Ids, position: &Position, limit: usize) -> Result<Vec<Range>, HiloError> {
    let table = Table::write(ids.free_range)?;
    let mut rows = Vec::new();
    if limit > 0 {
        table.scan(ids.free_range_pkey, &keys(position), See::Newest, |row| {
            rows.push(row);
            rows.len() < limit
        });
    }
    Ok(rows
        .iter()
        .map(|row| {
            table.delete(row);
            Range::new(row.int8(4), row.int8(5))
        })
        .collect())
}

/// Puts free ranges into the catalog.
pub fn put_free(ids: &Ids, position: &Position, ranges: &[Range]) -> Result<(), HiloError> {
    let table = Table::write(ids.free_range)?;
    for range in ranges.iter().filter(|range| !range.is_empty()) {
        table.insert(&mut [
            Some(position.sequence.into()),
            Some(position.node.into()),
            Some(position.epoch.into()),
            Some(range.start.into()),
            Some(range.end.into()),
        ]);
    }
    Ok(())
}

/// A range that runs over more stripes or laps than this ends in a row for all the others.
const MOST_ROWS: usize = 1024;

/// Records that the values of `range` will not be served: a row for each part in which they step evenly.
pub fn record_gap(
    ids: &Ids,
    position: &Position,
    mapping: &Mapping,
    range: Range,
    reason: Reason,
) -> Result<(), HiloError> {
    if range.is_empty() {
        return Ok(());
    }
    let mut rest = Range::new(range.start, range.end.min(mapping.limit()));
    let table = Table::write(ids.gap)?;
    let now = ffi::now();
    let record = |first: i64, last: i64, count: i64| {
        table.insert(&mut [
            Some(position.sequence.into()),
            Some(position.node.into()),
            Some(first.into()),
            Some(last.into()),
            Some(count.into()),
            Some(text_datum(reason.name().as_bytes())),
            Some(now.into()),
        ]);
    };
    for run in mapping.runs(rest).take(MOST_ROWS) {
        record(run.first, run.last(mapping.increment), run.count);
        rest.start += run.count;
    }
    if !rest.is_empty()
        && let (Some(first), Some(last)) = (mapping.value(rest.start), mapping.value(rest.end - 1))
    {
        record(first, last, rest.len());
    }
    Ok(())
}

/// Records all that is reserved and not accounted for, and the free ranges with it.
pub fn write_off(
    ids: &Ids,
    position: &Position,
    mapping: &Mapping,
    reason: Reason,
) -> Result<(), HiloError> {
    let free = take_free(ids, position, usize::MAX)?;
    for range in &free {
        record_gap(ids, position, mapping, *range, reason)?;
    }
    let outstanding = Range::new(position.settled_index, position.next_index);
    for range in without(outstanding, &free) {
        record_gap(ids, position, mapping, range, reason)?;
    }
    Ok(())
}

/// The parts of `whole` outside of `holes`, which are sorted and apart.
pub fn without(whole: Range, holes: &[Range]) -> Vec<Range> {
    let mut parts = Vec::new();
    let mut at = whole.start;
    for hole in holes.iter().filter(|hole| hole.end > whole.start && hole.start < whole.end) {
        parts.push(Range::new(at, hole.start));
        at = at.max(hole.end);
    }
    parts.push(Range::new(at, whole.end));
    parts.retain(|part| !part.is_empty());
    parts
}

/// Deletes what the catalog says of a dropped sequence.
pub fn forget(ids: &Ids, sequence: i64) -> Result<(), HiloError> {
    for (table, index) in [
        (ids.free_range, ids.free_range_pkey),
        (ids.gap, ids.gap_sequence_idx),
        (ids.privilege, ids.privilege_pkey),
    ] {
        let table = Table::write(table)?;
        table.scan(index, &[(1, Equals::Int8(sequence))], See::Newest, |row| {
            table.delete(&row);
            true
        });
    }
    Ok(())
}
