//! `_hilo.hilo_free_range`: ranges of indexes below a position, each with its owner. Most are free:
//! reserved, returned, in no memory. The others are in the memory of a server life, below the
//! `settled_index` from which on the position itself stands for that memory.

use std::cmp::Reverse;

use pgrx::pg_sys;

use hilo_core::mapping::Mapping;
use hilo_core::numbers::{Index, SequenceId};
use hilo_core::options::Definition;
use hilo_core::range::Range;
use hilo_core::source::{self, Chosen, Wish};

use crate::catalog::columns::free_range as column;
use crate::catalog::gaps::{self, Reason};
use crate::catalog::leases;
use crate::catalog::own::{self, Own};
use crate::catalog::positions::Position;
use crate::catalog::scan::Match;
use crate::catalog::table::{Row, Table, next_command};
use crate::errors::{HiloError, OrRaise};
use crate::process::memory::{self, TryGrow};

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
) -> [Option<pg_sys::Datum>; column::WIDTH] {
    [
        Some(position.sequence.0.into()),
        Some(position.node.into()),
        Some(position.epoch.0.into()),
        Some(range.start.0.into()),
        Some(range.end.0.into()),
        Some(incarnation.into()),
    ]
}

/// The free ranges of a position's epoch, lowest first.
pub fn free_of(position: &Position) -> Result<Vec<Range>, HiloError> {
    let keys = free_keys(position);
    Own::FreeRange.read()?.collect(own::FREE_RANGE_PKEY, &keys, |row| Some(range(row)))
}

/// The rows of the free ranges that contain an index of at least `from`, lowest first. `wants` gets
/// each range, and how many there are before it, and ends the list.
fn free_from(
    table: &Table,
    position: &Position,
    from: Index,
    wants: impl Fn(Range, usize) -> bool,
) -> Vec<Row> {
    let [a, b, c, d] = free_keys(position);
    let before = table.last(own::FREE_RANGE_PKEY, &[a, b, c, d, starting_before(from)]);
    let mut rows: Vec<Row> = before.into_iter().filter(|row| range(row).end > from).collect();
    let after = [a, b, c, d, starting_from(from)];
    table.scan(own::FREE_RANGE_PKEY, &after, |row| {
        let wanted = wants(range(&row), rows.len());
        if wanted {
            rows.try_push(row).or_raise();
        }
        wanted
    });
    rows
}

/// The free ranges that overlap `hull`.
fn free_within(position: &Position, hull: Range) -> Result<Vec<Range>, HiloError> {
    let table = Own::FreeRange.read()?;
    let rows = free_from(&table, position, hull.start, |found, _| found.start < hull.end);
    memory::try_collect(rows.iter().map(range))
}

/// The end of the highest free range; zero if there is none.
pub fn free_end(position: &Position) -> Result<Index, HiloError> {
    let last = Own::FreeRange.read()?.last(own::FREE_RANGE_PKEY, &free_keys(position));
    Ok(last.map_or(Index::ZERO, |row| range(&row).end))
}

/// Whether a position's epoch has any row.
pub(super) fn any(position: &Position) -> Result<bool, HiloError> {
    Ok(Own::FreeRange.read()?.find(own::FREE_RANGE_PKEY, &keys(position)).is_some())
}

fn rows(table: &Table, keys: &[(i16, Match)]) -> Vec<Row> {
    let mut rows = Vec::new();
    table.scan(own::FREE_RANGE_PKEY, keys, |row| {
        rows.try_push(row).or_raise();
        true
    });
    rows
}

/// The rows of ranges that are in some server's memory.
fn lent_rows(table: &Table, position: &Position) -> Vec<Row> {
    let [a, b, c] = keys(position);
    rows(table, &[a, b, c, (column::INCARNATION, Match::Int8Greater(FREE))])
}

/// The ranges that are in some server's memory, or were when that server's life ended.
pub fn lent_ranges(position: &Position) -> Result<Vec<Range>, HiloError> {
    let table = Own::FreeRange.read()?;
    Ok(lent_rows(&table, position).iter().map(range).collect())
}

/// Lends up to `limit` free ranges of a position's epoch to the memory of `incarnation`. They are
/// the lowest that contain an index of at least `from`. The caller holds the position's lock.
pub(super) fn lend(
    position: &Position,
    incarnation: i64,
    limit: usize,
    from: Index,
) -> Result<Vec<Range>, HiloError> {
    if limit == 0 {
        return Ok(Vec::new());
    }
    let table = Own::FreeRange.write()?;
    let rows = free_from(&table, position, from, |_, before| before < limit);
    Ok(rows
        .iter()
        .map(|row| {
            let range = range(row);
            table.update(row, &mut values(position, &range, incarnation));
            range
        })
        .collect())
}

/// Lends to the memory of `incarnation` what [`source::choose`] chooses of the free ranges. The
/// caller holds the position's lock.
pub(super) fn lend_chosen(
    position: &Position,
    incarnation: i64,
    wish: &Wish,
) -> Result<Chosen, HiloError> {
    let table = Own::FreeRange.write()?;
    let rows = rows(&table, &free_keys(position));
    let free: Vec<Range> = memory::try_collect(rows.iter().map(range))?;
    let chosen = source::choose(&free, position.next_index, wish);
    let parts = chosen.returned.iter().chain(&chosen.blocks).copied();
    let parts = Range::union(memory::try_collect(parts)?);
    for row in &rows {
        let whole = range(row);
        let rest = whole.without(&parts);
        if rest == [whole] {
            continue;
        }
        table.delete(row);
        rest.iter().for_each(|rest| table.insert(&mut values(position, rest, FREE)));
    }
    let lent = chosen.returned.iter().chain(&chosen.blocks);
    lent.for_each(|lent| table.insert(&mut values(position, lent, incarnation)));
    next_command();
    Ok(chosen)
}

/// How many free ranges a position has at most, and how many are left if there would be more.
const MAX_FREE_RANGES: usize = 1_000;
const KEPT_FREE_RANGES: usize = MAX_FREE_RANGES * 3 / 4;

/// Writes free ranges to the catalog, each merged with the free ranges that it touches. If there
/// are too many then, the smallest are written off.
pub(super) fn put_free(
    position: &Position,
    mapping: &Mapping,
    ranges: &[Range],
) -> Result<(), HiloError> {
    if ranges.is_empty() {
        return Ok(());
    }
    if ranges.len() > MAX_FREE_RANGES {
        return put_many(position, mapping, ranges);
    }
    let table = Own::FreeRange.write()?;
    let [a, b, c, d] = free_keys(position);
    for put in Range::union(ranges.to_vec()) {
        let mut whole = put;
        let before = [a, b, c, d, starting_before(put.start)];
        let after = [a, b, c, d, (column::FIRST_INDEX, Match::Int8(put.end.0))];
        let neighbours = table
            .last(own::FREE_RANGE_PKEY, &before)
            .into_iter()
            .chain(table.find(own::FREE_RANGE_PKEY, &after));
        for row in neighbours {
            if let Some(joined) = whole.join(&range(&row)) {
                table.delete(&row);
                whole = joined;
            }
        }
        table.insert(&mut values(position, &whole, FREE));
        next_command();
    }
    write_off_smallest(position, mapping)
}

/// The same for more ranges than there may be: they are merged and the smallest are chosen before
/// any is written. Ranges that are served first stay before others of the same size.
fn put_many(position: &Position, mapping: &Mapping, ranges: &[Range]) -> Result<(), HiloError> {
    let table = Own::FreeRange.write()?;
    let rows = rows(&table, &free_keys(position));
    let known: Vec<Range> = memory::try_collect(rows.iter().map(range))?;
    let mut kept = Range::union(memory::try_collect(known.iter().chain(ranges).copied())?);
    let mut lost = Vec::new();
    if kept.len() > MAX_FREE_RANGES {
        kept.sort_by_key(|range| (Reverse(range.len()), range.start));
        lost = kept.split_off(KEPT_FREE_RANGES);
        kept.sort_unstable();
    }
    let is_kept = |range: &Range| kept.binary_search(range).is_ok();
    rows.iter().filter(|row| !is_kept(&range(row))).for_each(|row| table.delete(row));
    for new in kept.iter().filter(|range| known.binary_search(range).is_err()) {
        table.insert(&mut values(position, new, FREE));
    }
    next_command();
    gaps::record(position, mapping, &lost, Reason::Discarded)
}

/// Nobody may ever use small ranges that all sessions have served beyond.
fn write_off_smallest(position: &Position, mapping: &Mapping) -> Result<(), HiloError> {
    /// The most rows that are looked at in one go.
    const LOOKED_AT: usize = 4 * MAX_FREE_RANGES;
    let table = Own::FreeRange.write()?;
    let mut rows = Vec::new();
    table.scan(own::FREE_RANGE_PKEY, &free_keys(position), |row| {
        rows.try_push(row).or_raise();
        rows.len() < LOOKED_AT
    });
    if rows.len() <= MAX_FREE_RANGES {
        return Ok(());
    }
    rows.sort_by_key(|row| range(row).len());
    rows.truncate(rows.len() - KEPT_FREE_RANGES);
    rows.iter().for_each(|row| table.delete(row));
    next_command();
    let lost: Vec<Range> = rows.iter().map(range).collect();
    gaps::record(position, mapping, &lost, Reason::Discarded)
}

/// Lowers a position to the start of the free range that its top belongs to, and leaves the range.
pub(super) fn lower_into(position: &mut Position) -> Result<(), HiloError> {
    let table = Own::FreeRange.read()?;
    let [a, b, c, d] = free_keys(position);
    let below = [a, b, c, d, starting_before(position.next_index)];
    if let Some(row) = table.last(own::FREE_RANGE_PKEY, &below)
        && range(&row).end >= position.next_index
    {
        position.lower(range(&row).start);
    }
    Ok(())
}

/// Lowers a position to the start of the highest free range, if that range ends at the position,
/// and deletes the range's row.
pub(super) fn lower(position: &mut Position) -> Result<(), HiloError> {
    let table = Own::FreeRange.write()?;
    if let Some(row) = table.last(own::FREE_RANGE_PKEY, &free_keys(position))
        && range(&row).end == position.next_index
    {
        table.delete(&row);
        position.lower(range(&row).start);
        next_command();
    }
    Ok(())
}

/// Records what the memory of `incarnation` holds below `settled_index`. The part of each `held`
/// range that lies there gets a row; the rows of all other lent ranges are deleted.
pub(super) fn write_lent(
    position: &Position,
    incarnation: i64,
    held: &[Range],
) -> Result<(), HiloError> {
    forget_lent(position, &[])?;
    let table = Own::FreeRange.write()?;
    let below = Range::below(position.settled_index);
    for range in held.iter().map(|range| range.intersection(&below)).filter(|r| !r.is_empty()) {
        table.insert(&mut values(position, &range, incarnation));
    }
    next_command();
    Ok(())
}

/// Deletes the rows of lent ranges of which no part is `held` any more.
pub(super) fn forget_lent(position: &Position, held: &[Range]) -> Result<(), HiloError> {
    let table = Own::FreeRange.write()?;
    let rows = lent_rows(&table, position);
    for row in rows {
        let lent = range(&row);
        if held.iter().all(|held| held.intersection(&lent).is_empty()) {
            table.delete(&row);
        }
    }
    next_command();
    Ok(())
}

/// Cuts the lent rows down to what memory holds of each, and deletes those of which it holds
/// nothing. `exact`: to each range that it holds, else to where the first begins and the last ends.
pub(super) fn trim_lent(position: &Position, held: &[Range], exact: bool) -> Result<(), HiloError> {
    let table = Own::FreeRange.write()?;
    for row in lent_rows(&table, position) {
        let lent = range(&row);
        let parts = held.iter().map(|held| held.intersection(&lent));
        let mut parts = Range::union(memory::try_collect(parts)?);
        if let (false, [first, .., last]) = (exact, parts.as_slice()) {
            parts = vec![Range::new(first.start, last.end)];
        }
        if parts != [lent] {
            table.delete(&row);
            for part in &parts {
                table.insert(&mut values(position, part, row.int8(column::INCARNATION)));
            }
        }
    }
    next_command();
    Ok(())
}

/// Records as gaps what a memory held that no longer exists. These are the indexes from
/// `settled_index` to the position, and the lent ranges, whose rows it deletes. The free ranges,
/// the leases, and what is `pending` of leases stay.
pub fn write_off_memory(
    position: &Position,
    mapping: &Mapping,
    pending: &[Range],
    reason: Reason,
) -> Result<(), HiloError> {
    let table = Own::FreeRange.write()?;
    let rows = lent_rows(&table, position);
    let mut lost: Vec<Range> = rows.iter().map(range).collect();
    rows.iter().for_each(|row| table.delete(row));
    lost.push(position.unsettled_range());
    let leased = leases::leased_ranges(position)?.into_iter().chain(pending.iter().copied());
    let leased = Range::union(memory::try_collect(leased)?);
    let mut parts = Vec::new();
    for lost in Range::union(lost).iter().flat_map(|lost| lost.without(&leased)) {
        let free = free_within(position, lost)?;
        lost.without(&free).into_iter().try_for_each(|part| parts.try_push(part))?;
    }
    next_command();
    gaps::record(position, mapping, &parts, reason)
}

/// Records as gaps the parts of `held` and of the free ranges below the position, or all of them
/// where they come from a source. None of them is served any more. Deletes the rows of the free and
/// the lent ranges.
pub fn write_off(
    position: &Position,
    definition: &Definition,
    held: Vec<Range>,
    reason: Reason,
) -> Result<(), HiloError> {
    let table = Own::FreeRange.write()?;
    let mut lost = held;
    table.scan(own::FREE_RANGE_PKEY, &keys(position), |row| {
        // A lent range is in `held`, or has been served.
        if row.int8(column::INCARNATION) == FREE {
            lost.try_push(range(&row)).or_raise();
        }
        table.delete(&row);
        true
    });
    next_command();
    let mut lost = Range::union(lost);
    if definition.source.is_none() {
        lost.iter_mut().for_each(|range| *range = range.until(position.next_index));
    }
    gaps::record(position, &position.mapping(definition), &lost, reason)
}

/// Deletes the free ranges, the gaps, the leases, the requests and the privileges of a dropped
/// sequence.
pub fn forget(sequence: SequenceId) -> Result<(), HiloError> {
    leases::forget(sequence)?;
    for (table, index) in [
        (Own::FreeRange, own::FREE_RANGE_PKEY),
        (Own::Gap, own::GAP_SEQUENCE_IDX),
        (Own::Source, own::SOURCE_PKEY),
        (Own::Privilege, own::PRIVILEGE_PKEY),
    ] {
        table.write()?.delete_all(index, &[(column::SEQUENCE, Match::Int8(sequence.0))]);
    }
    Ok(())
}
