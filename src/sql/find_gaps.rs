//! `hilo_find_gaps`: the values of a sequence that a column lacks, and why.
//!
//! All ranges are of *places*: the values of a sequence counted from its first one, in the order of serving,
//! without those of other nodes. First the function reads what the catalog and the pool know, with the
//! extension's own rights. Then one query, with the caller's rights, reads the column in order. The places
//! between neighbours are split by the reasons and go to the result at once. The query names the relation and
//! nothing else, so the relation may be of any kind, even distributed among servers.

use std::ffi::CStr;

use pgrx::prelude::*;

use hilo_core::mapping::Mapping;
use hilo_core::numbers::Index;
use hilo_core::range::Range;

use super::args::{Args, sql_functions};
use super::gaps_off_grid::{self as off_grid, Series};
use super::missing_because::{Known, Why, gaps, in_catalog, in_memory};
use super::spi;
use super::stored_rows::StoredRows;
use crate::catalog::definitions::Sequence;
use crate::catalog::gaps::GapRow;
use crate::catalog::positions::{self, Position};
use crate::catalog::privileges::Privileges;
use crate::catalog::table::text_datum;
use crate::catalog::{catalog_oids, missing, node};
use crate::errors::{HiloError, OrRaise};
use crate::memory::Grow;

sql_functions!(hilo_find_gaps);

/// The result: values, in the order of serving.
pub(super) struct Gaps {
    rows: StoredRows,
    /// The reasons by rank, as text datums.
    reasons: Vec<pg_sys::Datum>,
}

impl Gaps {
    fn begin(args: Args) -> Gaps {
        Gaps {
            rows: StoredRows::begin(args),
            reasons: Why::names().map(|name| text_datum(name.as_bytes())).collect(),
        }
    }

    pub fn add(&mut self, first: i64, last: i64, count: i64, rank: usize) {
        check_for_interrupts!();
        let values = [first.into(), last.into(), count.into(), self.reasons[rank]];
        // SAFETY: the function is declared to return three bigints and a text.
        unsafe { self.rows.add(values) };
    }
}

/// `hilo_find_gaps(name, relation, column_name)`
fn hilo_find_gaps(args: Args) {
    let sequence = readable(args.name(0));
    if sequence.definition.cycle {
        HiloError::Cycles(sequence.name.to_string()).raise();
    }
    let column = Column::find(args.oid(1).unwrap_or(pg_sys::InvalidOid), column_name(args));
    let (grid, known, strange) = gather(&sequence).or_raise();
    let known = apart(known).or_raise();
    let mut gaps = Gaps::begin(args);
    grid.missing(&column, &known, &mut gaps);
    off_grid::missing(&column, &grid, &strange, &mut gaps).or_raise();
}

fn readable(name: &[u8]) -> Sequence {
    let sequence = missing::required(name).or_raise();
    super::nextval::allow(&sequence, Privileges::ALL).or_raise();
    sequence
}

fn column_name(args: Args) -> String {
    let datum = args.datum(2).unwrap_or(pg_sys::Datum::null());
    // SAFETY: the argument is of type name, which ends with a zero byte, and not null because the function is
    // strict.
    unsafe { CStr::from_ptr(datum.cast_mut_ptr::<pg_sys::NameData>().cast()) }
        .to_string_lossy()
        .into_owned()
}

/// The column that is searched.
pub(super) struct Column {
    pub relation: String,
    pub name: String,
    /// Whether its numbers must be compared as numeric.
    pub numeric: bool,
}

impl Column {
    fn find(relation: pg_sys::Oid, name: String) -> Column {
        let found = spi::rows(
            &format!(
                "SELECT pg_catalog.format('%I.%I', n.nspname, c.relname), a.atttypid,
                        pg_catalog.has_column_privilege(c.oid, a.attnum, 'SELECT')
                   FROM pg_catalog.pg_class c
                   JOIN pg_catalog.pg_namespace n ON n.oid OPERATOR(pg_catalog.=) c.relnamespace
                   LEFT JOIN pg_catalog.pg_attribute a ON a.attrelid OPERATOR(pg_catalog.=) c.oid
                        AND a.attname OPERATOR(pg_catalog.=) {} AND a.attnum OPERATOR(pg_catalog.>) 0 AND NOT a.attisdropped
                  WHERE c.oid OPERATOR(pg_catalog.=) {}::pg_catalog.oid",
                pgrx::spi::quote_literal(&name),
                relation.to_u32(),
            ),
            |row| (row.text(1), row.oid(2), row.bool(3)),
        );
        let Some((relation_name, type_oid, allowed)) = found.into_iter().next() else {
            HiloError::NoSuchRelation(relation.to_u32()).raise()
        };
        if type_oid == pg_sys::InvalidOid {
            HiloError::NoSuchColumn { column: name, relation: relation_name }.raise();
        }
        if !allowed {
            HiloError::NoSelect { column: name, relation: relation_name }.raise();
        }
        // SAFETY: a catalog look-up inside a transaction.
        let numeric = match unsafe { pg_sys::getBaseType(type_oid) } {
            pg_sys::INT2OID | pg_sys::INT4OID | pg_sys::INT8OID => false,
            pg_sys::NUMERICOID => true,
            _ => HiloError::NotANumber { column: name, relation: relation_name }.raise(),
        };
        Column { relation: relation_name, name, numeric }
    }
}

/// The places of a sequence among the numbers.
pub(super) struct Grid {
    /// Maps a place to a value, without bounds.
    mapping: Mapping,
    /// The places before this one are examined.
    end: Index,
}

/// All that is known without reading the column: the grid, the places with a known reason, and the recorded
/// gaps that do not lie on the grid.
fn gather(sequence: &Sequence) -> Result<(Grid, Vec<Known>, Vec<GapRow>), HiloError> {
    let ids = catalog_oids()?;
    let node = node::id()?;
    // A range may move between memory and the catalog meanwhile. Memory is read before and after, so that one
    // of the readings sees it.
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

/// Chooses the grid so that it covers the sequence from its start to its position, and those gaps recorded
/// earlier that lie on it.
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
    let mut strange = Vec::new();
    for gap in gaps {
        let steps = gap.last as i128 - gap.first as i128 == (gap.count - 1) as i128 * increment;
        let why = Why::recorded(&gap.reason);
        let first = place(gap.first).filter(|_| steps);
        let on_grid = match first {
            Some(first) => Some((first, first + gap.count as i128)),
            None => Series::of(&gap).on_grid(position.base, definition.increment),
        };
        // The sequence has gone back since: what comes next is yet to be served.
        let comes = matches!(why, Why::Gap(_)) && position.next_index < limit;
        let on_grid = on_grid.map(|(first, end)| match comes {
            true => (first, end.min(next.0 as i128)),
            false => (first, end),
        });
        let fits = on_grid.filter(|(first, end)| first >= end || stretch(*first, *end));
        if let Some((first, end)) = fits.filter(|(first, end)| first < end) {
            known.grow((why.rank(), first, end))?;
        }
        if first.is_none() || fits.is_none() {
            strange.grow(gap)?;
        }
    }
    let at = |place: i128| Index((place - low) as i64);
    let shifted = |first: i128, end: i128| Range::new(at(first), at(end));
    let mut all: Vec<Known> = Vec::new();
    for (rank, first, end) in known {
        all.grow((rank, shifted(first, end)))?;
    }
    for (rank, range) in indexes {
        let end = range.end.min(next).max(range.start);
        all.grow((rank, shifted(range.start.0 as i128, end.0 as i128)))?;
    }
    let base = (position.base as i128 + increment * low) as i64;
    Ok((Grid { mapping: Mapping { base, ..unbounded }, end: at(high) }, all, strange))
}

/// The same with stripes, but only from the current base on, because an earlier base had other stripes.
fn on_stripes(
    mapping: Mapping,
    next: Index,
    indexes: Vec<Known>,
    gaps: Vec<GapRow>,
) -> Result<(Grid, Vec<Known>, Vec<GapRow>), HiloError> {
    let mut known = vec![(Why::Unknown.rank(), Range::below(next))];
    for (rank, range) in indexes {
        known.grow((rank, range.until(next)))?;
    }
    let mut end = next;
    let mut strange = Vec::new();
    for gap in gaps {
        match (mapping.index_of(gap.first), mapping.index_of(gap.last)) {
            (Some(first), Some(last)) if last - first == gap.count - 1 => {
                known.grow((Why::recorded(&gap.reason).rank(), Range::new(first, last.next())))?;
                end = end.max(last.next());
            }
            _ => strange.grow(gap)?,
        }
    }
    Ok((Grid { mapping, end }, known, strange))
}

/// What a reason does at a place. In this order, one ends before the next begins.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Edge {
    Ends,
    Begins,
}

/// Splits the ranges so that they are disjoint and in order, each with the first reason that knows it.
/// Neighbours with the same reason become one range.
fn apart(known: Vec<Known>) -> Result<Vec<Known>, HiloError> {
    // The places at which a reason begins and ends to apply.
    let mut edges: Vec<(Index, usize, Edge)> = Vec::new();
    for (rank, range) in known.into_iter().filter(|(_, range)| !range.is_empty()) {
        edges.grow((range.start, rank, Edge::Begins))?;
        edges.grow((range.end, rank, Edge::Ends))?;
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
                _ => all.grow((first, Range::new(from, place)))?,
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

impl Grid {
    /// Adds the places that have a reason and that the column lacks, as values.
    fn missing(&self, column: &Column, known: &[Known], gaps: &mut Gaps) {
        if self.end == Index::ZERO {
            return;
        }
        let mut rest = known;
        let mut absent = |range: Range| {
            while let Some(((_, first), others)) = rest.split_first()
                && first.end <= range.start
            {
                rest = others;
            }
            for (rank, part) in rest.iter().take_while(|(_, part)| part.start < range.end) {
                for run in self.mapping.runs(part.intersection(&range)) {
                    gaps.add(run.first, run.last(self.mapping.increment), run.count, *rank);
                }
            }
        };
        let mut next = Index::ZERO;
        spi::for_each(&self.query(column), |row| {
            let place = Index(row.int8(1).unwrap_or(0));
            if place > next {
                absent(Range::new(next, place));
            }
            next = next.max(place.next());
        });
        if next < self.end {
            absent(Range::new(next, self.end));
        }
    }

    /// The query for the places that the column has, in order.
    fn query(&self, column: &Column) -> String {
        let Places { place, condition, order } = self.places(column);
        format!(
            "SELECT {place} FROM {} AS t WHERE {condition} ORDER BY t.{} {order}",
            column.relation,
            spi::quoted(&column.name),
        )
    }

    /// The expressions that tell whether the column's value `t.…` is on the grid, and its place there.
    fn places(&self, column: &Column) -> Places {
        let mapping = &self.mapping;
        let rising = mapping.increment > 0;
        let (Some(first), Some(last)) = (mapping.value(Index::ZERO), mapping.value(self.end - 1))
        else {
            return Places { place: "0".into(), condition: "false".into(), order: "" };
        };
        let step = (mapping.increment as i128).unsigned_abs();
        let (low, high) = if rising { (first, last) } else { (last, first) };
        let reach = (last as i128 - mapping.base as i128).abs();
        let wide = column.numeric || reach > i64::MAX as i128;
        let kind = if wide { "numeric" } else { "int8" };
        let number = |number: i128| format!("'{number}'::pg_catalog.{kind}");
        let operate =
            |a: &str, sign: &str, b: &str| format!("({a} OPERATOR(pg_catalog.{sign}) {b})");
        let divide = |a: &str, by: i128| match wide {
            true => format!("pg_catalog.div({a}, {})", number(by)),
            false => operate(a, "/", &number(by)),
        };
        let value = format!("t.{}::pg_catalog.{kind}", spi::quoted(&column.name));
        let distance = if rising {
            operate(&value, "-", &number(mapping.base as i128))
        } else {
            operate(&number(mapping.base as i128), "-", &value)
        };
        // The column is compared without a cast, so that an index on it can be used.
        let name = format!("t.{}", spi::quoted(&column.name));
        let mut conditions = vec![
            operate(
                &name,
                ">=",
                &format!("'{low}'::pg_catalog.{}", if column.numeric { "numeric" } else { "int8" }),
            ),
            operate(
                &name,
                "<=",
                &format!(
                    "'{high}'::pg_catalog.{}",
                    if column.numeric { "numeric" } else { "int8" }
                ),
            ),
        ];
        if step != 1 || column.numeric {
            let rest = operate(&distance, "%", &number(step as i128));
            conditions.push(operate(&rest, "=", &number(0)));
        }
        let global = if step == 1 { distance } else { divide(&distance, step as i128) };
        let stripes = mapping.stripes;
        let place = if stripes.nodes > 1 {
            let size = stripes.size.max(1) as i128;
            let round = (size * stripes.nodes as i128).min(i64::MAX as i128);
            let turn = operate(&divide(&global, size), "%", &number(stripes.nodes as i128));
            conditions.push(operate(&turn, "=", &number(stripes.node as i128)));
            let whole = operate(&divide(&global, round), "*", &number(size));
            operate(&whole, "+", &operate(&global, "%", &number(size)))
        } else {
            global
        };
        Places {
            place: format!("{place}::pg_catalog.int8"),
            condition: conditions.join(" AND "),
            order: if rising { "" } else { "DESC" },
        }
    }

    /// Its first and its last value among those examined.
    pub fn ends(&self) -> Option<(i64, i64)> {
        Some((self.mapping.value(Index::ZERO)?, self.mapping.value(self.end - 1)?))
    }

    /// Whether the grid has a place for this value among those examined.
    pub fn covers(&self, value: i64) -> bool {
        self.mapping.index_of(value).is_some_and(|place| place < self.end)
    }
}

struct Places {
    place: String,
    condition: String,
    order: &'static str,
}
