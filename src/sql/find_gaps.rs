//! `hilo_find_gaps`: the values of a sequence that a column lacks, and why.
//!
//! All sets are multiranges of *places*: the values of a sequence counted from its first one, in the
//! order of serving, with those of other nodes left out. What the catalog and the pool know is read
//! first, with the extension's own rights; then one query, with the caller's, walks through the column
//! in order, keeps the ranges between neighbours, and cuts them with each reason's.

use std::collections::BTreeSet;
use std::ffi::CStr;

use pgrx::pg_sys;
use pgrx::prelude::*;

use hilo_core::mapping::Mapping;
use hilo_core::range::Range;

use super::args::Args;
use super::{inspect, query};
use crate::catalog::definitions::{self, Sequence};
use crate::catalog::positions::{self, Position};
use crate::catalog::privileges::Privileges;
use crate::catalog::ranges::{self, GapRow};
use crate::catalog::{Ids, ids};
use crate::errors::{HiloError, OrRaise};
use crate::gucs;
use crate::shared;

/// In the order in which they are tried: a value is of the first that knows it.
const REASONS: [&str; 9] =
    ["slice", "current", "standby", "returned", "free", "crash", "discarded", "altered", UNKNOWN];
const UNKNOWN: &str = "rolled back, deleted or unknown";

fn rank(reason: &str) -> usize {
    REASONS.iter().position(|known| *known == reason).unwrap_or(REASONS.len() - 1)
}

/// A range of places and the rank of its reason.
type Known = (usize, Range);

/// A row of the result: values, in the order of serving.
#[derive(Clone, Copy)]
struct Gap {
    first: i64,
    last: i64,
    count: i64,
    rank: usize,
}

#[pg_extern(sql = false)]
#[allow(clippy::type_complexity)]
fn hilo_find_gaps(
    fcinfo: pg_sys::FunctionCallInfo,
) -> TableIterator<
    'static,
    (name!(first, i64), name!(last, i64), name!(count, i64), name!(reason, String)),
> {
    // SAFETY: called by Postgres, with the three arguments that the function is declared with.
    let args = unsafe { Args::new(fcinfo) };
    let sequence = readable(args.name(0));
    if sequence.definition.cycle {
        HiloError::Cycles(sequence.name.to_string()).raise();
    }
    let column = Column::find(args.oid(1).unwrap_or(pg_sys::InvalidOid), column_name(args));
    let (grid, known, strange) = gather(&sequence).or_raise();
    let mut gaps = grid.missing(&column, &known);
    gaps.extend(missing_one_by_one(&column, &grid, &strange));
    TableIterator::new(
        gaps.into_iter().map(|gap| (gap.first, gap.last, gap.count, REASONS[gap.rank].to_string())),
    )
}

fn readable(name: &[u8]) -> Sequence {
    let sequence = definitions::existing(name).or_raise();
    super::serve::allow(&sequence, Privileges::ALL).or_raise();
    sequence
}

fn column_name(args: Args) -> String {
    let datum = args.datum(2).unwrap_or(pg_sys::Datum::null());
    // SAFETY: an argument of type name, not null since the function is strict.
    unsafe { CStr::from_ptr(datum.cast_mut_ptr::<pg_sys::NameData>().cast()) }
        .to_string_lossy()
        .into_owned()
}

/// The column that is looked through.
struct Column {
    relation: String,
    name: String,
    /// Its numbers have to be compared as numeric.
    numeric: bool,
}

impl Column {
    fn find(relation: pg_sys::Oid, name: String) -> Column {
        let found = query::rows(
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
        // SAFETY: a catalog look-up.
        let numeric = match unsafe { pg_sys::getBaseType(type_oid) } {
            pg_sys::INT2OID | pg_sys::INT4OID | pg_sys::INT8OID => false,
            pg_sys::NUMERICOID => true,
            _ => HiloError::NotANumber { column: name, relation: relation_name }.raise(),
        };
        Column { relation: relation_name, name, numeric }
    }
}

/// Where the places of a sequence lie among the numbers.
struct Grid {
    /// From place to value, without bounds.
    mapping: Mapping,
    /// How many places are looked at.
    end: i64,
}

/// All that is known without looking at the column: the grid, which places are whose, and the recorded
/// gaps that do not lie on the grid.
fn gather(sequence: &Sequence) -> Result<(Grid, Vec<Known>, Vec<GapRow>), HiloError> {
    let ids = ids()?;
    let node = gucs::node().0;
    // A range that changes hands while this looks is seen before or after.
    let before = positions::find(&ids, sequence.id, node)?;
    let mut indexes = Vec::new();
    if let Some(position) = &before {
        indexes.extend(in_memory(sequence.id, position.epoch)?);
        indexes.extend(in_catalog(&ids, sequence, position)?);
        indexes.extend(in_memory(sequence.id, position.epoch)?);
    }
    let gaps = ranges::gaps_of(&ids, sequence.id, node)?;
    Ok(lay_out(sequence, before.unwrap_or_else(|| Position::first(sequence)), indexes, gaps))
}

fn in_memory(id: i64, epoch: i64) -> Result<impl Iterator<Item = Known>, HiloError> {
    Ok(inspect::held(id, epoch)?.into_iter().map(|(tier, range)| (rank(tier), range)))
}

/// Free ranges, and what was in memory when the server last went down and is not yet written off.
fn in_catalog(
    ids: &Ids,
    sequence: &Sequence,
    position: &Position,
) -> Result<Vec<Known>, HiloError> {
    let mut known: Vec<Known> =
        ranges::free_of(ids, position)?.into_iter().map(|range| (rank("free"), range)).collect();
    // SAFETY: reads shared memory that every backend is attached to; the timeline is asked for on a
    // primary only.
    let (recovering, system_id) =
        unsafe { (pg_sys::RecoveryInProgress(), pg_sys::GetSystemIdentifier() as i64) };
    let life = shared::get().map_or(0, |shared| shared.control.incarnation);
    if recovering || life == 0 || position.incarnation == 0 || position.incarnation == life {
        return Ok(known);
    }
    // SAFETY: as above.
    let timeline = unsafe { pg_sys::GetWALInsertionTimeLine() as i32 };
    let same = position.system_id == system_id && position.timeline == timeline;
    let reason = if same { "crash" } else { "discarded" };
    let limit = position.mapping(&sequence.definition).limit();
    known.push((rank(reason), Range::new(position.settled_index, position.next_index.min(limit))));
    Ok(known)
}

/// Chooses the grid so that it covers the sequence from its start to its position, and the gaps that
/// were recorded earlier as far as they lie on it.
fn lay_out(
    sequence: &Sequence,
    position: Position,
    indexes: Vec<Known>,
    gaps: Vec<GapRow>,
) -> (Grid, Vec<Known>, Vec<GapRow>) {
    let definition = &sequence.definition;
    let unbounded = Mapping {
        min_value: i64::MIN,
        max_value: i64::MAX,
        cycle: false,
        ..position.mapping(definition)
    };
    let next = position.next_index.min(position.mapping(definition).limit());
    if unbounded.stripes.nodes > 1 {
        return on_stripes(unbounded, next, indexes, gaps);
    }
    let increment = definition.increment as i128;
    let place = |value: i64| {
        let distance = value as i128 - position.base as i128;
        (distance % increment == 0).then(|| distance / increment)
    };
    let (mut low, mut high) = (0, next as i128);
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
    let mut known = vec![(rank(UNKNOWN), start, next as i128)];
    let mut strange = Vec::new();
    for gap in gaps {
        let steps = gap.last as i128 - gap.first as i128 == (gap.count - 1) as i128 * increment;
        match place(gap.first) {
            Some(first) if steps && stretch(first, first + gap.count as i128) => {
                known.push((rank(&gap.reason), first, first + gap.count as i128));
            }
            _ => strange.push(gap),
        }
    }
    let shifted = |first: i128, end: i128| Range::new((first - low) as i64, (end - low) as i64);
    let mut all: Vec<Known> =
        known.into_iter().map(|(rank, first, end)| (rank, shifted(first, end))).collect();
    all.extend(indexes.into_iter().map(|(rank, range)| {
        let end = range.end.min(next).max(range.start);
        (rank, shifted(range.start as i128, end as i128))
    }));
    let base = (position.base as i128 + increment * low) as i64;
    (Grid { mapping: Mapping { base, ..unbounded }, end: (high - low) as i64 }, all, strange)
}

/// The same with stripes: from the base of now on only, since an earlier one had stripes of its own.
fn on_stripes(
    mapping: Mapping,
    next: i64,
    indexes: Vec<Known>,
    gaps: Vec<GapRow>,
) -> (Grid, Vec<Known>, Vec<GapRow>) {
    let mut known = vec![(rank(UNKNOWN), Range::new(0, next))];
    known.extend(
        indexes
            .into_iter()
            .map(|(rank, range)| (rank, Range::new(range.start, range.end.min(next)))),
    );
    let mut end = next;
    let mut strange = Vec::new();
    for gap in gaps {
        match (mapping.index_of(gap.first), mapping.index_of(gap.last)) {
            (Some(first), Some(last)) if last - first == gap.count - 1 => {
                known.push((rank(&gap.reason), Range::new(first, last + 1)));
                end = end.max(last + 1);
            }
            _ => strange.push(gap),
        }
    }
    (Grid { mapping, end }, known, strange)
}

impl Grid {
    /// The places that the column lacks, each range with its reason, as values.
    fn missing(&self, column: &Column, known: &[Known]) -> Vec<Gap> {
        if self.end == 0 {
            return Vec::new();
        }
        let found = query::rows(&self.query(column, known), |row| {
            let range = Range::new(row.int8(2).unwrap_or(0), row.int8(3).unwrap_or(0));
            (row.int4(1).unwrap_or(0) as usize, range)
        });
        let gaps = found.into_iter().flat_map(|(rank, range)| {
            let increment = self.mapping.increment;
            self.mapping.runs(range).map(move |run| Gap {
                first: run.first,
                last: run.last(increment),
                count: run.count,
                rank,
            })
        });
        gaps.collect()
    }

    fn query(&self, column: &Column, known: &[Known]) -> String {
        let known: Vec<&Known> = known.iter().filter(|(_, range)| !range.is_empty()).collect();
        let list = |of: &dyn Fn(&Known) -> i64| {
            known.iter().map(|item| of(item).to_string()).collect::<Vec<_>>().join(",")
        };
        let Places { place, condition, order } = self.places(column);
        format!(
            "WITH known AS (
                 SELECT k.rank, pg_catalog.range_agg(pg_catalog.int8range(k.first, k.behind)) AS places
                   FROM ROWS FROM (pg_catalog.unnest('{{{ranks}}}'::pg_catalog.int4[]),
                                   pg_catalog.unnest('{{{starts}}}'::pg_catalog.int8[]),
                                   pg_catalog.unnest('{{{ends}}}'::pg_catalog.int8[])) AS k (rank, first, behind)
                  GROUP BY k.rank
             ), apart AS (
                 SELECT k.rank,
                        pg_catalog.multirange_minus(k.places, COALESCE(
                            pg_catalog.range_agg(k.places)
                                OVER (ORDER BY k.rank ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING),
                            '{{}}'::pg_catalog.int8multirange)) AS places
                   FROM known k
             ), present AS (
                 SELECT v.place,
                        pg_catalog.lag(v.place, 1, '-1'::pg_catalog.int8) OVER (ORDER BY v.value {order}) AS before
                   FROM (SELECT t.{column} AS value, {place} AS place FROM {relation} AS t WHERE {condition}) v
             ), absent AS (
                 SELECT pg_catalog.multirange_union(
                            COALESCE(pg_catalog.range_agg(pg_catalog.int8range(p.before OPERATOR(pg_catalog.+) 1, p.place))
                                         FILTER (WHERE p.place OPERATOR(pg_catalog.>) (p.before OPERATOR(pg_catalog.+) 1)),
                                     '{{}}'::pg_catalog.int8multirange),
                            pg_catalog.int8multirange(pg_catalog.int8range(
                                COALESCE(pg_catalog.max(p.place) OPERATOR(pg_catalog.+) 1, 0), {end}))) AS places
                   FROM present p
             )
             SELECT apart.rank, pg_catalog.lower(r.r), pg_catalog.upper(r.r)
               FROM apart, absent,
                    pg_catalog.unnest(pg_catalog.multirange_intersect(absent.places, apart.places)) AS r (r)
              ORDER BY 2",
            ranks = list(&|item| item.0 as i64),
            starts = list(&|item| item.1.start),
            ends = list(&|item| item.1.end),
            column = query::quoted(&column.name),
            relation = column.relation,
            end = self.end,
        )
    }

    /// How to tell from the column's value `t.…` whether it is on the grid, and its place there.
    fn places(&self, column: &Column) -> Places {
        let mapping = &self.mapping;
        let rising = mapping.increment > 0;
        let (Some(first), Some(last)) = (mapping.value(0), mapping.value(self.end - 1)) else {
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
        let value = format!("t.{}::pg_catalog.{kind}", query::quoted(&column.name));
        let distance = if rising {
            operate(&value, "-", &number(mapping.base as i128))
        } else {
            operate(&number(mapping.base as i128), "-", &value)
        };
        // Compared as it is, so that an index on the column serves.
        let name = format!("t.{}", query::quoted(&column.name));
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

    /// Whether the grid has a place for this value among those looked at.
    fn covers(&self, value: i64) -> bool {
        self.mapping.index_of(value).is_some_and(|place| place < self.end)
    }
}

struct Places {
    place: String,
    condition: String,
    order: &'static str,
}

/// Gaps that were recorded when the sequence had another increment or other stripes: the few values
/// that they hold are looked up one by one.
fn missing_one_by_one(column: &Column, grid: &Grid, gaps: &[GapRow]) -> Vec<Gap> {
    let mut missing: Vec<Gap> = Vec::new();
    let mut seen = BTreeSet::new();
    for gap in gaps {
        let steps = (gap.count - 1).max(1);
        let step = (gap.last as i128 - gap.first as i128) / steps as i128;
        let Ok(step) = i64::try_from(if step == 0 { 1 } else { step }) else { continue };
        let sql = format!(
            "SELECT v.v FROM pg_catalog.generate_series('{}'::pg_catalog.int8, '{}'::pg_catalog.int8, '{step}'::pg_catalog.int8) AS v (v)
              WHERE NOT EXISTS (SELECT FROM {} AS t WHERE t.{} OPERATOR(pg_catalog.=) v.v)",
            gap.first,
            gap.last,
            column.relation,
            query::quoted(&column.name),
        );
        let rank = rank(&gap.reason);
        let before = missing.len();
        let mut values = query::rows(&sql, |row| row.int8(1).unwrap_or(0));
        values.sort_unstable_by_key(
            |value| if step > 0 { *value as i128 } else { -(*value as i128) },
        );
        for value in values {
            if grid.covers(value) || !seen.insert(value) {
                continue;
            }
            match missing[before..].last_mut() {
                Some(Gap { last, count, .. }) if last.checked_add(step) == Some(value) => {
                    *last = value;
                    *count += 1;
                }
                _ => missing.push(Gap { first: value, last: value, count: 1, rank }),
            }
        }
    }
    missing
}
