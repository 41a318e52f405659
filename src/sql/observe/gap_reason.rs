//! Why a column may lack a value of a sequence: what memory and the catalog say.

use hilo_core::direction::Direction;
use hilo_core::mapping::Mapping;
use hilo_core::numberings::{Known, Present};
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
use crate::sql::define::unserved::index_space;
use crate::sql::types::sequence_type::SequenceName;

/// Which of the reasons of `hilo_find_gaps` it is, and its name. The first one counts where a value
/// has several.
pub type Reason = (usize, &'static str);

const FREE: Reason = (Tier::ALL.len(), "free");
const fn lost(reason: gaps::Reason) -> Reason {
    (FREE.0 + 1 + reason as usize, reason.name())
}
const UNCERTAIN: usize = FREE.0 + 1 + gaps::Reason::ALL.len();
const PERHAPS_RECEIVED: Reason = (UNCERTAIN, "not received, rolled back, deleted or unknown");
/// It was served.
pub const UNKNOWN: Reason = (UNCERTAIN + 1, "rolled back, deleted or unknown");
const NOT_RECEIVED: Reason = (UNCERTAIN + 2, "not received");

const fn held(tier: Tier) -> Reason {
    (tier as usize, tier.name())
}

/// How a sequence is numbered on this node, and the values that a column may lack of it.
pub fn known(name: SequenceName) -> Result<(Present, Vec<Known<Reason>>), HiloError> {
    let sequence = missing::require_allowed(&name, Privileges::ALL)?;
    let definition = &sequence.definition;
    if definition.cycle {
        return Err(HiloError::Cycles(sequence.name.to_string()));
    }
    let node = node::id();
    let found = positions::find(sequence.id, node)?;
    let position = found.unwrap_or_else(|| Position::first(&sequence, node));
    let mapping = position.mapping(definition);
    let next = position.next_index.min(mapping.limit());
    let present = Present {
        mapping: mapping.without_bounds(),
        next,
        has_next: next < mapping.limit(),
        start_value: definition.start_value,
    };
    let mut known = Vec::new();
    for (reason, range) in indexes(&sequence, &position, Range::below(next))? {
        let range = range.until(next);
        let ends = (present.mapping.value(range.start), present.mapping.value(range.last()));
        if let (false, (Some(first), Some(last))) = (range.is_empty(), ends) {
            known.try_push(Known {
                first,
                last,
                count: range.len(),
                step: definition.increment,
                reason,
                is_leased: reason == held(Tier::Leased),
            })?;
        }
    }
    known.try_extend(gaps_and_leases(&sequence, found.as_ref(), node)?)?;
    Ok((present, known))
}

/// Indexes, and why a column may lack their values.
type Part = (Reason, Range);

/// The reasons for the reserved indexes `all` of a position.
fn indexes(sequence: &Sequence, position: &Position, all: Range) -> Result<Vec<Part>, HiloError> {
    // A range may move between memory and the catalog now, either way. Memory is read before and
    // after the catalog, so that one of the readings sees the range.
    let index_space = index_space(position)?;
    let tiers = || {
        let in_memory = match shared::get() {
            Ok(shared) => shared.in_memory_soon(&index_space)?.unwrap_or_default(),
            Err(_) => HeldRanges::default(),
        };
        Ok::<_, HiloError>(in_memory.tiers.into_iter().map(|(tier, range)| (held(tier), range)))
    };
    let mut known: Vec<Part> = memory::try_collect(tiers()?)?;
    let free = ranges::free_of(&RangeRows::read(position)?)?;
    known.try_extend(free.into_iter().map(|range| (FREE, range)))?;
    known.try_extend(lost_ranges(sequence, position)?)?;
    known.try_extend(tiers()?)?;
    known.try_extend(unknown(sequence, position, all)?)?;
    Ok(known)
}

/// The reasons for the indexes `all`, of which nothing else is known. The catalog does not have
/// which values a source has brought, only between which ones they lie, and how many they are.
fn unknown(sequence: &Sequence, position: &Position, all: Range) -> Result<Vec<Part>, HiloError> {
    if sequence.definition.source.is_none() {
        return Ok(vec![(UNKNOWN, all)]);
    }
    let (state, mapping) = (sources::read(position)?, position.mapping(&sequence.definition));
    let within = |ends: Option<(i64, i64)>| {
        ends.map_or(Range::EMPTY, |ends| span(&mapping, ends).intersection(&all))
    };
    let brought = (PERHAPS_RECEIVED, within(state.brought.bounds()));
    Ok(vec![brought, (UNKNOWN, within(state.own.bounds())), (NOT_RECEIVED, all)])
}

/// The places of a numbering whose values lie between two.
fn span(mapping: &Mapping, (first, last): (i64, i64)) -> Range {
    let turned = Direction::from_increment(mapping.increment).is_beyond(first, last);
    let (near, far) = if turned { (last, first) } else { (first, last) };
    Range::new(mapping.first_index_from(near), mapping.first_index_beyond(far))
}

/// The ranges that were in memory when the server last went down and are not written off yet.
fn lost_ranges(sequence: &Sequence, position: &Position) -> Result<Vec<Part>, HiloError> {
    let (_, timeline) = positions::server();
    let life = shared::get().map_or(0, |shared| shared.life());
    if timeline == 0 || life == 0 || position.incarnation == 0 || position.incarnation == life {
        return Ok(Vec::new());
    }
    let reason = lost(takeover::reason(position));
    let limit = position.mapping(&sequence.definition).limit();
    let unsettled = position.unsettled_range().until(limit);
    let leased = Range::union(leases::leased_ranges(position)?);
    let lent = ranges::lent_ranges(&RangeRows::read(position)?)?;
    let held = lent.into_iter().chain([unsettled]);
    memory::try_collect(held.flat_map(|held| held.without(&leased)).map(|range| (reason, range)))
}

/// The recorded gaps of a node, and what is leased or comes back from a lease.
fn gaps_and_leases(
    sequence: &Sequence,
    position: Option<&Position>,
    node: i32,
) -> Result<Vec<Known<Reason>>, HiloError> {
    let gaps = gaps::of_node(sequence.id, node)?.into_iter().map(|gap| Known {
        first: gap.first,
        last: gap.last,
        count: gap.count,
        step: gap.increment,
        reason: lost(gaps::Reason::ALL[gap.reason]),
        is_leased: false,
    });
    let mut known = memory::try_collect(gaps.filter(|gap| gap.count > 0))?;
    let now = ffi::now();
    for lease in leases::of_node(sequence.id, node)? {
        let numbered = position.map(|position| (sequence, position));
        let (part, gone, _) = lease.outcome(now, numbered);
        let is_leased = lease.is_open(now);
        let reason = match is_leased {
            true => held(Tier::Leased),
            false => gone.map_or(FREE, lost),
        };
        if !part.is_empty() {
            let ((first, last), step) = (lease.ends(part), lease.increment);
            known.try_push(Known { first, last, count: part.len(), step, reason, is_leased })?;
        }
    }
    Ok(known)
}
