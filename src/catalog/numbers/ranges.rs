//! The ranges of indexes below a position, each with its owner, and how each passes to the next
//! owner. Most rows of `_hilo.hilo_free_range` are of free ranges: reserved, returned, in no
//! memory. The other rows say which life of a server has a range in memory. They lie below
//! `settled_index`; from there on, the position itself says it.

use std::cmp::Reverse;

use hilo_core::mapping::Mapping;
use hilo_core::numbers::{Index, SequenceId};
use hilo_core::options::Definition;
use hilo_core::range::Range;
use hilo_core::source::{self, LendPlan, LendRequest};

use crate::catalog::lease::leases;
use crate::catalog::numbers::range_rows::{FREE, RangeRow, RangeRows};
use crate::catalog::rows::catalog_tables::{self, CatalogTable};
use crate::catalog::rows::columns::free_range as column;
use crate::catalog::rows::scan::Match;
use crate::catalog::rows::table::next_command;
use crate::catalog::sequence::gaps::{self, Reason};
use crate::catalog::sequence::positions::Position;
use crate::errors::HiloError;
use crate::process::memory::{self, TryGrow};

fn ranges(rows: &[RangeRow]) -> Result<Vec<Range>, HiloError> {
    memory::try_collect(rows.iter().map(|row| row.range))
}

/// The free ranges, lowest first.
pub fn free_of(rows: &RangeRows) -> Result<Vec<Range>, HiloError> {
    ranges(&rows.free()?)
}

/// The end of the highest free range; zero if there is none.
pub(in crate::catalog) fn free_end(rows: &RangeRows) -> Index {
    rows.last_free(None).map_or(Index::ZERO, |row| row.range.end)
}

/// The ranges that are in some server's memory, or were when that server's life ended.
pub fn lent_ranges(rows: &RangeRows) -> Result<Vec<Range>, HiloError> {
    ranges(&rows.lent()?)
}

/// Lends up to `limit` free ranges to the memory of `incarnation`. They are the lowest that contain
/// an index of at least `from`. The caller holds the position's lock.
pub(in crate::catalog) fn lend(
    rows: &mut RangeRows,
    incarnation: i64,
    limit: usize,
    from: Index,
) -> Result<Vec<Range>, HiloError> {
    if limit == 0 {
        return Ok(Vec::new());
    }
    let found = rows.free_from(from, |_, before| before < limit)?;
    found.iter().for_each(|row| rows.lend(row, incarnation));
    ranges(&found)
}

/// Lends to memory of `incarnation` the free ranges that [`source::choose`] chooses. The caller
/// holds the position's lock.
pub(in crate::catalog) fn lend_chosen(
    rows: &mut RangeRows,
    next_index: Index,
    incarnation: i64,
    request: &LendRequest,
) -> Result<LendPlan, HiloError> {
    let found = rows.free()?;
    let plan = source::choose(&ranges(&found)?, next_index, request);
    let parts = plan.returned.iter().chain(&plan.blocks).copied();
    let parts = Range::union(memory::try_collect(parts)?);
    for row in &found {
        let rest = row.range.without(&parts);
        if rest == [row.range] {
            continue;
        }
        rows.delete(row);
        rest.iter().for_each(|rest| rows.insert(rest, FREE));
    }
    let lent = plan.returned.iter().chain(&plan.blocks);
    lent.for_each(|lent| rows.insert(lent, incarnation));
    next_command();
    Ok(plan)
}

/// The most free ranges of a position, and how many are left when there would be more.
const MAX_FREE_RANGES: usize = 1_000;
const KEPT_FREE_RANGES: usize = MAX_FREE_RANGES * 3 / 4;

/// Writes free ranges to the catalog, each merged with the free ranges that it touches. If there
/// are too many then, the smallest are written off.
pub(in crate::catalog) fn put_free(
    rows: &mut RangeRows,
    position: &Position,
    mapping: &Mapping,
    ranges: &[Range],
) -> Result<(), HiloError> {
    if ranges.is_empty() {
        return Ok(());
    }
    if ranges.len() > MAX_FREE_RANGES {
        return put_many(rows, position, mapping, ranges);
    }
    for put in Range::union(ranges.to_vec()) {
        let mut whole = put;
        let before = rows.last_free(Some(put.start));
        for row in before.into_iter().chain(rows.free_at(put.end)) {
            if let Some(joined) = whole.join(&row.range) {
                rows.delete(&row);
                whole = joined;
            }
        }
        rows.insert(&whole, FREE);
        next_command();
    }
    write_off_smallest(rows, position, mapping)
}

/// Does the same for more ranges than there may be: they are merged, and the smallest are chosen,
/// before any is written. Where several have the same size, those that are served first stay.
fn put_many(
    rows: &mut RangeRows,
    position: &Position,
    mapping: &Mapping,
    put: &[Range],
) -> Result<(), HiloError> {
    let free = rows.free()?;
    let known = ranges(&free)?;
    let mut kept = Range::union(memory::try_collect(known.iter().chain(put).copied())?);
    let mut lost = Vec::new();
    if kept.len() > MAX_FREE_RANGES {
        kept.sort_by_key(|range| (Reverse(range.len()), range.start));
        lost = kept.split_off(KEPT_FREE_RANGES);
        kept.sort_unstable();
    }
    let gone = free.iter().filter(|row| kept.binary_search(&row.range).is_err());
    gone.for_each(|row| rows.delete(row));
    let new = kept.iter().filter(|range| known.binary_search(range).is_err());
    new.for_each(|range| rows.insert(range, FREE));
    next_command();
    gaps::record(position, mapping, &lost, Reason::Discarded)
}

/// Small ranges that all sessions have passed may never be used.
fn write_off_smallest(
    rows: &mut RangeRows,
    position: &Position,
    mapping: &Mapping,
) -> Result<(), HiloError> {
    /// The most rows that are looked at in one go.
    const LOOKED_AT: usize = 4 * MAX_FREE_RANGES;
    let mut free = rows.free_from(Index::ZERO, |_, before| before < LOOKED_AT)?;
    if free.len() <= MAX_FREE_RANGES {
        return Ok(());
    }
    free.sort_by_key(|row| row.range.len());
    free.truncate(free.len() - KEPT_FREE_RANGES);
    free.iter().for_each(|row| rows.delete(row));
    next_command();
    gaps::record(position, mapping, &ranges(&free)?, Reason::Discarded)
}

/// Lowers a position to the start of the free range at its top, and keeps the range's row.
pub(in crate::catalog) fn lower_into(rows: &RangeRows, position: &mut Position) {
    if let Some(row) = rows.last_free(Some(position.next_index))
        && row.range.end >= position.next_index
    {
        position.lower(row.range.start);
    }
}

/// Lowers a position to the start of the highest free range, if that range ends at the position,
/// and deletes the range's row.
pub(in crate::catalog) fn lower(rows: &mut RangeRows, position: &mut Position) {
    if let Some(row) = rows.last_free(None)
        && row.range.end == position.next_index
    {
        rows.delete(&row);
        position.lower(row.range.start);
        next_command();
    }
}

/// Records what the memory of `incarnation` holds below `settled_index`. The part of each `held`
/// range that lies there gets a row; the rows of all other lent ranges are deleted.
pub(in crate::catalog) fn write_lent(
    rows: &mut RangeRows,
    position: &Position,
    held: &[Range],
) -> Result<(), HiloError> {
    let below = Range::below(position.settled_index);
    let held = held.iter().map(|range| range.intersection(&below)).filter(|r| !r.is_empty());
    let mut held: Vec<Range> = memory::try_collect(held)?;
    for row in rows.lent()? {
        let known = |held: &Range| *held == row.range && row.incarnation == position.incarnation;
        match held.iter().position(known) {
            Some(at) => drop(held.swap_remove(at)),
            None => rows.delete(&row),
        }
    }
    held.iter().for_each(|range| rows.insert(range, position.incarnation));
    next_command();
    Ok(())
}

/// Deletes the rows of lent ranges that `held` does not touch.
pub(in crate::catalog) fn forget_lent(
    rows: &mut RangeRows,
    held: &[Range],
) -> Result<(), HiloError> {
    for row in rows.lent()? {
        if held.iter().all(|held| held.intersection(&row.range).is_empty()) {
            rows.delete(&row);
        }
    }
    next_command();
    Ok(())
}

/// Cuts each lent row down to the part that memory holds, and deletes it if memory holds nothing of
/// it. `exact`: to each held range; otherwise from where the first held range begins to where the
/// last ends.
pub(in crate::catalog) fn trim_lent(
    rows: &mut RangeRows,
    held: &[Range],
    exact: bool,
) -> Result<(), HiloError> {
    for row in rows.lent()? {
        let parts = held.iter().map(|held| held.intersection(&row.range));
        let mut parts = Range::union(memory::try_collect(parts)?);
        if let (false, [first, .., last]) = (exact, parts.as_slice()) {
            parts = vec![Range::new(first.start, last.end)];
        }
        if parts != [row.range] {
            rows.delete(&row);
            parts.iter().for_each(|part| rows.insert(part, row.incarnation));
        }
    }
    next_command();
    Ok(())
}

/// Records as gaps what was in a memory that no longer exists. That is the indexes from
/// `settled_index` to the position, and the lent ranges, whose rows it deletes. The free ranges,
/// the leases, and the ranges `pending` of leases stay.
pub fn write_off_memory(
    rows: &mut RangeRows,
    position: &Position,
    mapping: &Mapping,
    pending: &[Range],
    reason: Reason,
) -> Result<(), HiloError> {
    let lent = rows.lent()?;
    let mut lost = ranges(&lent)?;
    lent.iter().for_each(|row| rows.delete(row));
    lost.push(position.unsettled_range());
    let leased = leases::leased_ranges(position)?.into_iter().chain(pending.iter().copied());
    let leased = Range::union(memory::try_collect(leased)?);
    let mut parts = Vec::new();
    for lost in Range::union(lost).iter().flat_map(|lost| lost.without(&leased)) {
        let free = rows.free_from(lost.start, |found, _| found.start < lost.end)?;
        lost.without(&ranges(&free)?).into_iter().try_for_each(|part| parts.try_push(part))?;
    }
    next_command();
    gaps::record(position, mapping, &parts, reason)
}

/// Records as gaps the parts of `held` and of the free ranges below the position, or all of them if
/// they come from a source. Deletes the rows of the free and the lent ranges.
pub fn write_off(
    rows: &mut RangeRows,
    position: &Position,
    definition: &Definition,
    held: Vec<Range>,
    reason: Reason,
) -> Result<(), HiloError> {
    let mut lost = held;
    for row in rows.of_all()? {
        // A lent range is in `held`, or it has been served.
        if row.incarnation == FREE {
            lost.try_push(row.range)?;
        }
        rows.delete(&row);
    }
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
        (CatalogTable::FreeRange, catalog_tables::FREE_RANGE_PKEY),
        (CatalogTable::Gap, catalog_tables::GAP_SEQUENCE_IDX),
        (CatalogTable::Source, catalog_tables::SOURCE_PKEY),
        (CatalogTable::Privilege, catalog_tables::PRIVILEGE_PKEY),
    ] {
        table.write()?.delete_all(index, &[(column::SEQUENCE, Match::Int8(sequence.0))]);
    }
    Ok(())
}
