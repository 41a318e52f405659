//! `hilo_find_gaps`: the values of a sequence that a column lacks, and why.
//!
//! All ranges are of *places*: the values of a sequence counted from its first one, in the order of
//! serving, without those of other nodes. First the function reads what the catalog and the pool
//! know, with the extension's own rights. Then it reads the column in order, as SELECT would show
//! it. The places between neighbours are split by the reasons and go to the result at once.

use std::ffi::CStr;

use pgrx::prelude::*;

use hilo_core::mapping::Mapping;
use hilo_core::numbers::Index;
use hilo_core::range::Range;

use crate::catalog::column_ref::ColumnRef;
use crate::catalog::definitions::Sequence;
use crate::catalog::gaps::GapRow;
use crate::catalog::name::escape_for_message;
use crate::catalog::positions::{self, Position};
use crate::catalog::privileges::Privileges;
use crate::catalog::stored::Numbers;
use crate::catalog::{catalog_oids, missing, node};
use crate::errors::{HiloError, OrRaise};
use crate::process::memory::{self, TryGrow};
use crate::sql::call::args::{Args, sql_functions};
use crate::sql::call::spi;
use crate::sql::call::values::{self, Values};
use crate::sql::column::adopt::column_name;
use crate::sql::observe::gap_reason::{Known, Why, gaps, in_catalog, in_memory};
use crate::sql::observe::gaps_off_grid::{self, Series};
use crate::sql::observe::grid::{Gaps, Grid};

sql_functions!(hilo_find_gaps);

/// `hilo_find_gaps(name, relation, column_name)`
fn hilo_find_gaps(args: Args) {
    let sequence = readable(args.name(0));
    if sequence.definition.cycle {
        HiloError::Cycles(sequence.name.to_string()).raise();
    }
    let column = column(args.oid(1).unwrap_or(pg_sys::InvalidOid), column_name(args, 2));
    let values = Values::as_selected(column).or_raise();
    let (grid, known, off_grid) = gather(&sequence).or_raise();
    let known = make_disjoint(known).or_raise();
    let mut gaps = Gaps::begin(args);
    grid.missing(&values, &known, &mut gaps).or_raise();
    gaps_off_grid::missing(&values, &grid, &off_grid, &mut gaps).or_raise();
}

fn readable(name: &[u8]) -> Sequence {
    let sequence = missing::required(name).or_raise();
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
    let Some(found) = ColumnRef::named(relation, name) else {
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

/// All that is known without reading the column: the grid, the places with a known reason, and the
/// recorded gaps that do not lie on the grid.
fn gather(sequence: &Sequence) -> Result<(Grid, Vec<Known>, Vec<GapRow>), HiloError> {
    let ids = catalog_oids()?;
    let node = node::id()?;
    // A range may move between memory and the catalog meanwhile. Memory is read before and after,
    // so that one of the readings sees it.
    let before = positions::find(&ids, sequence.id, node)?;
    let mut indexes = Vec::new();
    if let Some(position) = &before {
        in_memory(sequence.id, position.epoch, &mut indexes)?;
        in_catalog(&ids, sequence, position, &mut indexes)?;
        in_memory(sequence.id, position.epoch, &mut indexes)?;
    }
    let gaps = gaps(&ids, sequence, before.as_ref(), node)?;
    lay_out(sequence, before.unwrap_or_else(|| Position::first(sequence, node)), indexes, gaps)
}

/// Chooses the grid so that it covers the sequence from its start to its position, and those gaps
/// recorded earlier that lie on it.
fn lay_out(
    sequence: &Sequence,
    position: Position,
    indexes: Vec<Known>,
    gaps: Vec<GapRow>,
) -> Result<(Grid, Vec<Known>, Vec<GapRow>), HiloError> {
    let definition = &sequence.definition;
    let unbounded = Mapping {
        min_value: i64::MIN,
        max_value: i64::MAX,
        cycle: false,
        ..position.mapping(definition)
    };
    let limit = position.mapping(definition).limit();
    let next = position.next_index.min(limit);
    if unbounded.stripes.nodes > 1 {
        return on_stripes(unbounded, next, indexes, gaps);
    }
    let increment = definition.increment as i128;
    let place = |value: i64| {
        let distance = value as i128 - position.base as i128;
        (distance % increment == 0).then(|| distance / increment)
    };
    let (mut low, mut high) = (0, next.0 as i128);
    let mut stretch = |first: i128, end: i128| {
        let (wider_low, wider_high) = (low.min(first), high.max(end));
        let fits = wider_high - wider_low < i64::MAX as i128;
        if fits {
            (low, high) = (wider_low, wider_high);
        }
        fits
    };
    let start = place(definition.start_value)
        .filter(|start| *start <= 0 && stretch(*start, 0))
        .unwrap_or(0);
    let mut known = vec![(Why::Unknown.rank(), start, next.0 as i128)];
    let mut off_grid = Vec::new();
    for gap in gaps {
        let why = Why::recorded(&gap.reason);
        let whole = match (place(gap.first), place(gap.last)) {
            // If it is more than the gap's, gaps became one row, and lie anywhere between its ends.
            (Some(first), Some(last)) if last - first >= (gap.count - 1) as i128 => {
                Some((first, last + 1))
            }
            _ => None,
        };
        let on_grid =
            whole.or_else(|| Series::of(&gap)?.on_grid(position.base, definition.increment));
        // The sequence has gone back since: what comes next is yet to be served.
        let comes = matches!(why, Why::Gap(_)) && position.next_index < limit;
        let most = if comes { next.0 as i128 } else { i128::MAX };
        let on_grid = on_grid.map(|(first, end)| (first, end.min(most)));
        let fits = on_grid.filter(|(first, end)| first >= end || stretch(*first, *end));
        if let Some((first, end)) = fits.filter(|(first, end)| first < end) {
            known.try_push((why.rank(), first, end))?;
        }
        if whole.is_none() || fits.is_none() {
            off_grid.try_push(gap)?;
        }
    }
    for (rank, range) in indexes {
        let end = range.end.min(next).max(range.start);
        known.try_push((rank, range.start.0 as i128, end.0 as i128))?;
    }
    let base = (position.base as i128 + increment * low) as i64;
    let end = Index((high - low) as i64);
    Ok((Grid { mapping: Mapping { base, ..unbounded }, end }, shifted(known, low)?, off_grid))
}

/// Places counted from `low`.
fn shifted(known: Vec<(usize, i128, i128)>, low: i128) -> Result<Vec<Known>, HiloError> {
    let at = |place: i128| Index((place - low) as i64);
    let of = |(rank, first, end)| (rank, Range::new(at(first), at(end)));
    memory::try_collect(known.into_iter().map(of))
}

/// The same with stripes, but only from the current base on, because an earlier base had other
/// stripes.
fn on_stripes(
    mapping: Mapping,
    next: Index,
    indexes: Vec<Known>,
    gaps: Vec<GapRow>,
) -> Result<(Grid, Vec<Known>, Vec<GapRow>), HiloError> {
    let mut known = vec![(Why::Unknown.rank(), Range::below(next))];
    for (rank, range) in indexes {
        known.try_push((rank, range.until(next)))?;
    }
    let mut end = next;
    let mut off_grid = Vec::new();
    for gap in gaps {
        match (mapping.index_of(gap.first), mapping.index_of(gap.last)) {
            (Some(first), Some(last)) if last - first >= gap.count - 1 => {
                known.try_push((
                    Why::recorded(&gap.reason).rank(),
                    Range::new(first, last.next()),
                ))?;
                end = end.max(last.next());
            }
            _ => off_grid.try_push(gap)?,
        }
    }
    Ok((Grid { mapping, end }, known, off_grid))
}

/// What a reason does at a place. In this order, one ends before the next begins.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Edge {
    Ends,
    Begins,
}

/// Splits the ranges so that they are disjoint and in order, each with the first reason that knows
/// it. Neighbours with the same reason become one range.
fn make_disjoint(known: Vec<Known>) -> Result<Vec<Known>, HiloError> {
    // The places at which a reason begins and ends to apply.
    let mut edges: Vec<(Index, usize, Edge)> = Vec::new();
    for (rank, range) in known.into_iter().filter(|(_, range)| !range.is_empty()) {
        edges.try_push((range.start, rank, Edge::Begins))?;
        edges.try_push((range.end, rank, Edge::Ends))?;
    }
    edges.sort_unstable();
    let mut open = [0usize; Why::UNKNOWN + 1];
    let mut all: Vec<Known> = Vec::new();
    let mut from = Index::ZERO;
    for (place, rank, edge) in edges {
        if place > from
            && let Some(first) = open.iter().position(|count| *count > 0)
        {
            match all.last_mut() {
                Some((rank, range)) if *rank == first && range.end == from => range.end = place,
                _ => all.try_push((first, Range::new(from, place)))?,
            }
        }
        from = place;
        match edge {
            Edge::Begins => open[rank] += 1,
            Edge::Ends => open[rank] -= 1,
        }
    }
    Ok(all)
}
