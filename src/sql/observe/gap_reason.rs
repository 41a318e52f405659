//! Why a column may lack a value of a sequence: what memory and the catalog say.

use pgrx::pg_sys::panic::ErrorReport;
use pgrx::prelude::*;

use hilo_core::direction::Direction;
use hilo_core::mapping::Mapping;
use hilo_core::range::Range;

use crate::catalog::lease::leases;
use crate::catalog::numbers::range_rows::RangeRows;
use crate::catalog::numbers::{ranges, sources};
use crate::catalog::rights::missing;
use crate::catalog::rights::privileges::Privileges;
use crate::catalog::sequence::definitions::Sequence;
use crate::catalog::sequence::positions::{self, Position};
use crate::catalog::sequence::{gaps, node, takeover};
use crate::errors::HiloError;
use crate::process::ffi;
use crate::process::memory::{self, TryGrow};
use crate::shared;
use crate::shared::content::Tier;
use crate::shared::inventory::HeldRanges;
use crate::sql::call::border::Call;
use crate::sql::call::stored_rows::{Rows, row};
use crate::sql::define::unserved::index_space;
use crate::sql::types::sequence_type::SequenceName;

row! {
    struct Known {
        base: i64,
        increment: i64,
        node: i32,
        nodes: i32,
        stripe: i64,
        next: i64,
        goes_on: bool,
        start_value: i64,
        first: i64,
        last: i64,
        count: i64,
        step: i64,
        reason: &'static str,
    }
}

/// `_hilo.hilo_known(name)`: values of a sequence that a column may lack, and why. Each row begins
/// with the numbering, and has the first value, the last, how many there are, and their step.
#[pg_extern(sql = false)]
fn hilo_known(call: Call, name: SequenceName) -> Result<Rows<Known>, ErrorReport> {
    let sequence = missing::require_allowed(&name, Privileges::ALL)?;
    let definition = &sequence.definition;
    if definition.cycle {
        return Err(HiloError::Cycles(sequence.name.to_string()).into());
    }
    let node = node::id();
    let found = positions::find(sequence.id, node)?;
    let position = found.unwrap_or_else(|| Position::first(&sequence, node));
    let mapping = position.mapping(definition);
    let next = position.next_index.min(mapping.limit());
    let indexes = indexes(&sequence, &position, Range::below(next))?;
    let mut rows = Rows::begin(call);
    let mut add = |first, last, count, step, reason| {
        rows.add(Known {
            base: position.base,
            increment: definition.increment,
            node: position.node,
            nodes: position.nodes,
            stripe: position.stripe,
            next: next.0,
            goes_on: next < mapping.limit(),
            start_value: definition.start_value,
            first,
            last,
            count,
            step,
            reason,
        });
    };
    let value = |index| mapping.without_bounds().value(index).unwrap_or(mapping.base);
    for (reason, range) in indexes {
        let range = range.until(next);
        let (first, last) = (value(range.start), value(range.last()));
        add(first, last, range.len(), definition.increment, reason);
    }
    each_gap(&sequence, found.as_ref(), node, add)?;
    Ok(rows)
}

/// Indexes, and why a column may lack their values.
type Reason = (&'static str, Range);

const UNKNOWN: &str = "rolled back, deleted or unknown";

/// The reasons for the reserved indexes `all` of a position.
fn indexes(sequence: &Sequence, position: &Position, all: Range) -> Result<Vec<Reason>, HiloError> {
    // A range may move between memory and the catalog now, either way. Memory is read before and
    // after the catalog, so that one of the readings sees the range.
    let index_space = index_space(position)?;
    let tiers = || {
        let held = match shared::get() {
            Ok(shared) => shared.in_memory_soon(&index_space)?.unwrap_or_default(),
            Err(_) => HeldRanges::default(),
        };
        Ok::<_, HiloError>(held.tiers.into_iter().map(|(tier, range)| (tier.name(), range)))
    };
    let mut known: Vec<Reason> = memory::try_collect(tiers()?)?;
    let free = ranges::free_of(&RangeRows::read(position)?)?;
    known.try_extend(free.into_iter().map(|range| ("free", range)))?;
    known.try_extend(lost_ranges(sequence, position)?)?;
    known.try_extend(tiers()?)?;
    known.try_extend(unknown(sequence, position, all)?)?;
    Ok(known)
}

/// The reasons for the indexes `all`, of which nothing else is known. The catalog does not have
/// which values a source has brought, only between which ones they lie, and how many they are.
fn unknown(sequence: &Sequence, position: &Position, all: Range) -> Result<Vec<Reason>, HiloError> {
    if sequence.definition.source.is_none() {
        return Ok(vec![(UNKNOWN, all)]);
    }
    let (state, mapping) = (sources::read(position)?, position.mapping(&sequence.definition));
    let within = |ends: Option<(i64, i64)>| {
        ends.map_or(Range::EMPTY, |ends| span(&mapping, ends).intersection(&all))
    };
    let brought = ("not received, rolled back, deleted or unknown", within(state.brought.bounds()));
    Ok(vec![brought, (UNKNOWN, within(state.own.bounds())), ("not received", all)])
}

/// The places of a numbering whose values lie between two.
fn span(mapping: &Mapping, (first, last): (i64, i64)) -> Range {
    let turned = Direction::from_increment(mapping.increment).is_beyond(first, last);
    let (near, far) = if turned { (last, first) } else { (first, last) };
    Range::new(mapping.first_index_from(near), mapping.first_index_beyond(far))
}

/// The ranges that were in memory when the server last went down and are not written off yet.
fn lost_ranges(sequence: &Sequence, position: &Position) -> Result<Vec<Reason>, HiloError> {
    let (_, timeline) = positions::server();
    let life = shared::get().map_or(0, |shared| shared.life());
    if timeline == 0 || life == 0 || position.incarnation == 0 || position.incarnation == life {
        return Ok(Vec::new());
    }
    let reason = takeover::reason(position).name();
    let limit = position.mapping(&sequence.definition).limit();
    let unsettled = position.unsettled_range().until(limit);
    let leased = Range::union(leases::leased_ranges(position)?);
    let lent = ranges::lent_ranges(&RangeRows::read(position)?)?;
    let lost = lent.into_iter().chain([unsettled]);
    memory::try_collect(lost.flat_map(|lost| lost.without(&leased)).map(|range| (reason, range)))
}

/// Visits the recorded gaps of a node, and the values that are leased or come back from a lease.
/// Each has its first value, the last, how many there are, the step, and the reason.
fn each_gap(
    sequence: &Sequence,
    position: Option<&Position>,
    node: i32,
    mut visit: impl FnMut(i64, i64, i64, i64, &'static str),
) -> Result<(), HiloError> {
    for gap in gaps::of_node(sequence.id, node)? {
        let reason = gaps::Reason::ALL[gap.reason].name();
        visit(gap.first, gap.last, gap.count, gap.increment, reason);
    }
    let now = ffi::now();
    for lease in leases::of_node(sequence.id, node)? {
        let numbered = position.map(|position| (sequence, position));
        let (part, lost, _) = lease.outcome(now, numbered);
        let reason = match lease.is_open(now) {
            true => Tier::Leased.name(),
            false => lost.map_or("free", gaps::Reason::name),
        };
        if !part.is_empty() {
            let (first, last) = lease.ends(part);
            visit(first, last, part.len(), lease.increment, reason);
        }
    }
    Ok(())
}
