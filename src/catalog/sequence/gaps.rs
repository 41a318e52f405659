//! `_hilo.hilo_gap`: values that will never be served, and why.

use pgrx::pg_sys;

use hilo_core::gaps::{Gap, Joined};
use hilo_core::mapping::Mapping;
use hilo_core::numbers::{Epoch, SequenceId, Timestamp};
use hilo_core::range::Range;

use crate::catalog::columns::column_ref::ColumnRef;
use crate::catalog::rows::catalog_tables::{self, CatalogTable};
use crate::catalog::rows::columns::gap as column;
use crate::catalog::rows::name::Name;
use crate::catalog::rows::record::{self, Field};
use crate::catalog::rows::scan::Match;
use crate::catalog::rows::table::{Row, Table, next_command, text_datum};
use crate::catalog::sequence::node;
use crate::catalog::sequence::positions::Position;
use crate::errors::HiloError;
use crate::process::ffi;
use crate::process::memory::TryGrow;

hilo_core::named! {
    /// Why values will not be served.
    pub enum Reason {
        /// They were in memory when the server went down.
        Crash = "crash",
        /// There was no room to keep them.
        Discarded = "discarded",
        /// The sequence was altered, restarted or set.
        Altered = "altered",
        /// A lease ran out.
        Expired = "expired",
        /// A lease was revoked.
        Revoked = "revoked",
        /// This server is a copy of another one, which may have served them.
        Restored = "restored",
    }
}

/// The gaps recorded for a node.
pub fn of_node(sequence: SequenceId, node: i32) -> Result<Vec<Gap>, HiloError> {
    let key = [(column::SEQUENCE, Match::Int8(sequence.0))];
    CatalogTable::Gap
        .read()?
        .collect(catalog_tables::GAP_SEQUENCE_IDX, &key, |row| of_row(row, node))
}

/// The gap in a row, if it is one of the node's.
fn of_row(row: &Row, node: i32) -> Option<Gap> {
    let reason = Reason::by_name(&row.text(column::REASON)?)?;
    (row.int4(column::NODE) == node).then(|| Gap {
        epoch: record::get(row, column::EPOCH),
        first: row.int8(column::FIRST_VALUE),
        last: row.int8(column::LAST_VALUE),
        count: row.int8(column::COUNT),
        increment: row.int8(column::INCREMENT),
        reason: reason as usize,
        at: Timestamp(row.int8(column::RECORDED_AT)),
    })
}

/// The most rows of a sequence on a node, and how many are left when there would be more.
const MAX_ROWS: usize = 1_000;
const KEPT_ROWS: usize = MAX_ROWS / 2;

/// The most rows of earlier gaps that are looked at in one go: a restore or replication may have
/// brought any number.
const LOOKED_AT: usize = 4 * MAX_ROWS;

/// The most gaps into which one range is split so that the values of each are evenly spaced. One
/// more gap covers further stripes or laps.
const PARTS: usize = 64;

/// Records that the values of the ranges `lost`, of a position's epoch, will not be served. Each
/// part whose values are evenly spaced is a gap.
pub fn record(
    position: &Position,
    mapping: &Mapping,
    lost: &[Range],
    reason: Reason,
) -> Result<(), HiloError> {
    let mapping = mapping.without_bounds();
    let increment = mapping.increment;
    let gap = |first, last, count, at| {
        let epoch = Some(position.epoch);
        Gap { epoch, first, last, count, increment, reason: reason as usize, at }
    };
    let (at, mut gaps) = (ffi::now(), Vec::new());
    for range in lost.iter().filter(|range| !range.is_empty()) {
        let mut rest = range.until(mapping.limit());
        for run in mapping.runs(rest).take(PARTS) {
            gaps.try_push(gap(run.first, run.last(increment), run.count, at))?;
            rest.take(run.count);
        }
        if !rest.is_empty()
            && let (Some(first), Some(last)) =
                (mapping.value(rest.start), mapping.value(rest.last()))
        {
            gaps.try_push(gap(first, last, rest.len(), at))?;
        }
    }
    add(position.sequence, position.node, &gaps)
}

/// Records gaps of a sequence. All rows of the table are written here. The caller holds the lock of
/// the position, or is the only one who records on this node.
///
/// New gaps are joined with earlier ones, so that the rows stay few: see [`hilo_core::gaps`]. Rows
/// of another node are left alone, since that node may change its rows and replicate the change.
pub fn add(sequence: SequenceId, node: i32, new: &[Gap]) -> Result<(), HiloError> {
    if new.is_empty() {
        return Ok(());
    }
    let table = CatalogTable::Gap.write()?;
    let (mut rows, mut gaps) = (Vec::new(), Vec::new());
    if node::id() == node {
        let keys = [(column::SEQUENCE, Match::Int8(sequence.0))];
        table.scan(catalog_tables::GAP_SEQUENCE_IDX, &keys, |row| {
            if let Some(known) = of_row(&row, node) {
                gaps.try_push(known)?;
                rows.try_push(row)?;
            }
            Ok(rows.len() < LOOKED_AT)
        })?;
    }
    new.iter().try_for_each(|gap| gaps.try_push(*gap))?;
    for Joined { gap, parts } in hilo_core::gaps::join(&gaps, MAX_ROWS, KEPT_ROWS) {
        let mut before = parts.iter().filter_map(|&part| rows.get(part));
        match before.next() {
            Some(_) if parts.len() == 1 => {}
            Some(row) => {
                before.for_each(|row| table.delete(row));
                table.update(row, &mut values(sequence, node, &gap));
            }
            None => {
                table.insert(&mut values(sequence, node, &gap));
            }
        }
    }
    next_command();
    Ok(())
}

fn values(sequence: SequenceId, node: i32, gap: &Gap) -> [Option<pg_sys::Datum>; column::WIDTH] {
    [
        Some(sequence.0.into()),
        Some(node.into()),
        gap.epoch.datum(),
        Some(gap.first.into()),
        Some(gap.last.into()),
        Some(gap.count.into()),
        Some(gap.increment.into()),
        Some(text_datum(Reason::ALL[gap.reason].name().as_bytes())),
        Some(gap.at.0.into()),
        None,
        None,
    ]
}

/// The sequence that gaps of released columns belong to: none.
const RELEASED: SequenceId = SequenceId(0);

/// Keeps the gaps of a sequence that is dropped because `column` is released, under its name.
pub fn keep(sequence: SequenceId, name: &Name, column: ColumnRef) -> Result<(), HiloError> {
    let table = CatalogTable::Gap.write()?;
    // These rows are of an earlier sequence of the column, except those that this transaction has
    // just kept.
    let earlier = |row: &Row| is_from(row, column) && !row.is_own();
    if let Some((first, _)) = restarts(&table, sequence, |_| true)? {
        change_all(&table, RELEASED, earlier, first, &[])?;
    }
    let released = Some(column.pack().into());
    let to = [
        (column::SEQUENCE, Some(RELEASED.0.into())),
        (column::NAME, Some(text_datum(name))),
        (column::RELEASED_FROM, released),
    ];
    change_all(&table, sequence, |_| true, i64::MAX, &to)
}

/// Gives a sequence that adopts `column` the gaps that were kept when it was released. Their epochs
/// come before all of its own.
pub fn adopt(column: ColumnRef, sequence: SequenceId) -> Result<(), HiloError> {
    let table = CatalogTable::Gap.write()?;
    let first = restarts(&table, sequence, |_| true)?.map_or(0, |(first, _)| first.min(0));
    let to = [
        (column::SEQUENCE, Some(sequence.0.into())),
        (column::NAME, None),
        (column::RELEASED_FROM, None),
    ];
    change_all(&table, RELEASED, |row| is_from(row, column), first, &to)
}

fn is_from(row: &Row, column: ColumnRef) -> bool {
    row.int8(column::RELEASED_FROM) == column.pack()
}

/// The first and the last restart in these rows.
fn restarts(
    table: &Table,
    sequence: SequenceId,
    concerns: impl Fn(&Row) -> bool,
) -> Result<Option<(i64, i64)>, HiloError> {
    let mut ends = None;
    table.scan(
        catalog_tables::GAP_SEQUENCE_IDX,
        &[(column::SEQUENCE, Match::Int8(sequence.0))],
        |row| {
            if let Some(epoch) = record::get::<Option<Epoch>>(&row, column::EPOCH)
                && concerns(&row)
            {
                let at = epoch.restarts();
                let (first, last) = ends.unwrap_or((at, at));
                ends = Some((at.min(first), at.max(last)));
            }
            Ok(true)
        },
    )?;
    Ok(ends)
}

/// Writes columns of these rows, and lowers all their epochs by the same number, to below the
/// restart `below`.
fn change_all(
    table: &Table,
    of: SequenceId,
    concerns: impl Fn(&Row) -> bool,
    below: i64,
    to: &[(i16, Option<pg_sys::Datum>)],
) -> Result<(), HiloError> {
    let lower_by = restarts(table, of, &concerns)?.map_or(0, |(_, last)| (last + 1 - below).max(0));
    table.scan(
        catalog_tables::GAP_SEQUENCE_IDX,
        &[(column::SEQUENCE, Match::Int8(of.0))],
        |row| {
            if concerns(&row) {
                let epoch: Option<Epoch> = record::get(&row, column::EPOCH);
                let epoch = epoch.map(|epoch| epoch.lowered(lower_by));
                table.change(&row, &[to, &[(column::EPOCH, epoch.datum())]].concat());
            }
            Ok(true)
        },
    )?;
    next_command();
    Ok(())
}

/// Deletes the gaps that were kept for a released column, or for all columns of its table (`attnum`
/// 0), because it is dropped. Dropping anything else takes no lock on the table of gaps.
pub fn forget_released(relid: pg_sys::Oid, attnum: i16) -> Result<(), HiloError> {
    let keys = [(column::SEQUENCE, Match::Int8(RELEASED.0))];
    let concerns = |row: &Row| {
        let column = ColumnRef::unpack(row.int8(column::RELEASED_FROM));
        column.relid == relid && (attnum == 0 || column.attnum == attnum)
    };
    let mut any = false;
    CatalogTable::Gap.read()?.scan(catalog_tables::GAP_SEQUENCE_IDX, &keys, |row| {
        any = concerns(&row);
        Ok(!any)
    })?;
    if any {
        let table = CatalogTable::Gap.write()?;
        table.scan(catalog_tables::GAP_SEQUENCE_IDX, &keys, |row| {
            if concerns(&row) {
                table.delete(&row);
            }
            Ok(true)
        })?;
    }
    Ok(())
}
