//! `hilo_find_gaps`: the values of a sequence that a column lacks, and why.
//!
//! First the function reads what the catalog and the pool know, with the extension's own rights.
//! Then it reads the column in order, as SELECT would show it. The places between neighbours are
//! split by the reasons and go to the result at once.

use std::ffi::CStr;

use pgrx::prelude::*;

use hilo_core::mapping::Mapping;
use hilo_core::numbers::Index;
use hilo_core::range::Range;

use crate::catalog::column_ref::ColumnRef;
use crate::catalog::definitions::Sequence;
use crate::catalog::gaps::{self, GapRow};
use crate::catalog::name::escape_for_message;
use crate::catalog::positions::{self, Position};
use crate::catalog::privileges::Privileges;
use crate::catalog::stored::Numbers;
use crate::catalog::{missing, node};
use crate::errors::{HiloError, OrRaise};
use crate::process::memory::TryGrow;
use crate::sql::call::args::{Args, sql_functions};
use crate::sql::call::spi;
use crate::sql::call::values::{self, Values};
use crate::sql::column::adopt::column_name;
use crate::sql::observe::gap_reason::{Known, Reason, gap_rows, indexes, unknown};
use crate::sql::observe::grid::{Gaps, Grid};

sql_functions!(hilo_find_gaps);

/// `hilo_find_gaps(name, relation, column_name)`
fn hilo_find_gaps(args: Args) {
    let sequence = readable(args.name(0));
    if sequence.definition.cycle {
        HiloError::Cycles(sequence.name.to_string()).raise();
    }
    let column = column(args.oid(1).unwrap_or(pg_sys::InvalidOid), column_name(args, 2));
    let values = Values::by_select(column).or_raise();
    let grids = gather(&sequence).or_raise();
    let mut gaps = Gaps::begin(args);
    for (at, grid) in grids.iter().enumerate() {
        grid.missing(&values, &grids[..at], &mut gaps).or_raise();
    }
}

fn readable(name: &[u8]) -> Sequence {
    let sequence = missing::require(name).or_raise();
    crate::sql::draw::nextval::allow(&sequence, Privileges::ALL).or_raise();
    sequence
}

/// The column that is searched, of numbers that the caller may read.
fn column(relation: pg_sys::Oid, name: &CStr) -> ColumnRef {
    let sql = format!(
        "SELECT format('%I.%I', n.nspname, c.relname) FROM pg_class c
           JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = {}::oid",
        relation.to_u32()
    );
    let Some(known) = spi::look_up(&sql, |row| row.text(1)).pop() else {
        HiloError::NoSuchRelation(relation.to_u32()).raise()
    };
    let column = escape_for_message(name.to_bytes());
    let Some(found) = ColumnRef::by_name(relation, name) else {
        HiloError::NoSuchColumn { column, relation: known }.raise();
    };
    if !values::may_select(found) {
        HiloError::NoSelect { column, relation: known }.raise();
    }
    if !Numbers::are_in(found) {
        HiloError::NotANumber { column, relation: known }.raise();
    }
    found
}

/// All that is known without reading the column: the present numbering, and then the recorded gaps
/// that are of others.
fn gather(sequence: &Sequence) -> Result<Vec<Grid>, HiloError> {
    let node = node::id();
    let found = positions::find(sequence.id, node)?;
    let indexes = match &found {
        Some(position) => indexes(sequence, position)?,
        None => Vec::new(),
    };
    let gaps = gap_rows(sequence, found.as_ref(), node)?;
    lay_out(sequence, found.unwrap_or_else(|| Position::first(sequence, node)), indexes, gaps)
}

fn lay_out(
    sequence: &Sequence,
    position: Position,
    indexes: Vec<Known>,
    gaps: Vec<GapRow>,
) -> Result<Vec<Grid>, HiloError> {
    let start = sequence.definition.start_value;
    let bounded = position.mapping(&sequence.definition);
    let next = position.next_index.min(bounded.limit());
    let earlier = gaps.iter().flat_map(|gap| [gap.first, gap.last]).chain([start]);
    let (mapping, base) = back_to(bounded.without_bounds(), next, earlier);
    let place = |index: Index| index.min(next).saturating_add(base.0);
    let first = mapping.index_of(start).map_or(base, |start| start.min(base));
    let mut known = vec![];
    if first < base {
        known.try_push((Reason::Unknown, Range::new(first, base)))?;
    }
    let all = Range::new(Index::ZERO, next);
    let indexes = indexes.into_iter().chain(unknown(sequence, &position, all)?);
    let indexes =
        indexes.map(|(reason, range)| (reason, Range::new(place(range.start), place(range.end))));
    known.try_extend(indexes)?;
    let mut others = Vec::new();
    for gap in gaps {
        let whole = match (mapping.index_of(gap.first), mapping.index_of(gap.last)) {
            // If it is more than the gap's, gaps became one row, and lie anywhere between its ends.
            (Some(first), Some(last)) if last - first >= gap.count - 1 => {
                Some(Range::new(first, last.next()))
            }
            _ => None,
        };
        let apart = Grid::of(&gap).filter(|_| whole.is_none());
        let part = apart.as_ref().filter(|apart| apart.includes(&mapping));
        let range = whole.or_else(|| Some(part?.span_on(&mapping))).unwrap_or(Range::EMPTY);
        // The sequence has gone back since: what comes next is yet to be served.
        let comes = gaps::Reason::by_name(&gap.reason).is_some() && next < bounded.limit();
        let end = if comes { place(next) } else { Index::MAX };
        known.try_push((Reason::from_name(&gap.reason), range.until(end)))?;
        others.try_extend(apart)?;
    }
    let mut grids = vec![Grid::new(mapping, known)?];
    grids.try_extend(others)?;
    Ok(grids)
}

/// The same numbering with the earliest of these values as its base, if it has it, and the place of
/// the old base in it. `next`: how many places there must be from there on.
fn back_to(mapping: Mapping, next: Index, earlier: impl Iterator<Item = i64>) -> (Mapping, Index) {
    let mut found = (mapping, Index::ZERO);
    // With stripes, an earlier base had others.
    for base in earlier.filter(|_| mapping.stripes.nodes <= 1) {
        let wider = Mapping { base, ..mapping };
        let fits = |place: &Index| place.saturating_add(next.0) < Index::MAX && *place > found.1;
        if let Some(place) = wider.index_of(mapping.base).filter(fits) {
            found = (wider, place);
        }
    }
    found
}
