//! Why a column may lack a value of a sequence: what memory and the catalog say.

use hilo_core::direction::Direction;
use hilo_core::mapping::Mapping;
use hilo_core::range::Range;

use crate::catalog::definitions::Sequence;
use crate::catalog::gaps::{self, GapRow};
use crate::catalog::leases;
use crate::catalog::positions::{self, Position};
use crate::catalog::takeover;
use crate::catalog::{ranges, sources};
use crate::errors::HiloError;
use crate::process::ffi;
use crate::process::memory::{self, TryGrow};
use crate::shared;
use crate::sql::observe::stat;

hilo_core::named! {
    /// Why a column lacks a value; if there are several reasons, the first of these. Memory has a
    /// tier, and the catalog a reason, of the same name.
    pub enum Reason {
        Slice = "slice",
        Current = "current",
        Standby = "standby",
        Returned = "returned",
        Leased = "leased",
        Free = "free",
        Crash = "crash",
        Discarded = "discarded",
        Altered = "altered",
        Expired = "expired",
        Revoked = "revoked",
        /// A source has brought values before and after it, at most.
        PerhapsUnreceived = "not received, rolled back, deleted or unknown",
        Unknown = "rolled back, deleted or unknown",
        /// The source has brought no value this far.
        Unreceived = "not received",
    }
}

impl Reason {
    pub fn from_name(name: &str) -> Reason {
        Reason::by_name(name).unwrap_or(Reason::Unknown)
    }
}

/// A range, with why a column may lack its values.
pub type Known = (Reason, Range);

/// The known reasons for the indexes of a position.
pub fn indexes(sequence: &Sequence, position: &Position) -> Result<Vec<Known>, HiloError> {
    let tiers = || {
        let held = stat::in_memory(sequence.id, position.epoch)?.into_iter();
        memory::try_collect(held.map(|(tier, range)| (Reason::from_name(tier.name()), range)))
    };
    // A range may move between memory and the catalog meanwhile. Memory is read before and after,
    // so that one of the readings sees it.
    let mut known: Vec<Known> = tiers()?;
    known.try_extend(ranges::free_of(position)?.into_iter().map(|r| (Reason::Free, r)))?;
    known.try_extend(lost_ranges(sequence, position)?)?;
    known.try_extend(tiers()?)?;
    Ok(known)
}

/// The reasons for the indexes `all` of which nothing else is known. It is not written down which
/// values a source has brought, only between which ones they lie, and how many they are.
pub fn unknown(
    sequence: &Sequence,
    position: &Position,
    all: Range,
) -> Result<Vec<Known>, HiloError> {
    if sequence.definition.source.is_none() {
        return Ok(vec![(Reason::Unknown, all)]);
    }
    let (supply, mapping) = (sources::of(position)?, position.mapping(&sequence.definition));
    let within = |ends: Option<(i64, i64)>| {
        ends.map_or(Range::EMPTY, |ends| span(&mapping, ends).intersection(&all))
    };
    let brought = (Reason::PerhapsUnreceived, within(supply.brought));
    Ok(vec![brought, (Reason::Unknown, within(supply.own)), (Reason::Unreceived, all)])
}

/// The places of a numbering whose values lie between two.
pub fn span(mapping: &Mapping, (first, last): (i64, i64)) -> Range {
    let turned = Direction::of(mapping.increment).is_beyond(first, last);
    let (near, far) = if turned { (last, first) } else { (first, last) };
    Range::new(mapping.first_index_from(near), mapping.first_index_beyond(far))
}

/// The ranges that were in memory when the server last went down and are not written off yet.
fn lost_ranges(sequence: &Sequence, position: &Position) -> Result<Vec<Known>, HiloError> {
    let (_, timeline) = positions::server();
    let life = shared::get().map_or(0, |shared| shared.life());
    if timeline == 0 || life == 0 || position.incarnation == 0 || position.incarnation == life {
        return Ok(Vec::new());
    }
    let reason = Reason::from_name(takeover::reason(position).name());
    let limit = position.mapping(&sequence.definition).limit();
    let unsettled = position.unsettled_range().until(limit);
    let leased = Range::union(leases::leased_ranges(position)?);
    let lost = ranges::lent_ranges(position)?.into_iter().chain([unsettled]);
    memory::try_collect(lost.flat_map(|lost| lost.without(&leased)).map(|range| (reason, range)))
}

/// The recorded gaps of a node, and what is leased or comes back from a lease.
pub fn gap_rows(
    sequence: &Sequence,
    position: Option<&Position>,
    node: i32,
) -> Result<Vec<GapRow>, HiloError> {
    let mut gaps = gaps::of_node(sequence.id, node)?;
    let now = ffi::now();
    for lease in leases::of_node(sequence.id, node)? {
        let numbered = position.map(|position| (sequence, position));
        let (part, lost, _) = lease.outcome(now, numbered);
        let reason = match lease.is_open(now) {
            true => Reason::Leased.name(),
            false => lost.map_or(Reason::Free.name(), gaps::Reason::name),
        };
        if !part.is_empty() {
            let ((first, last), reason) = (lease.ends(part), reason.to_owned());
            gaps.try_push(GapRow { first, last, count: part.len(), reason })?;
        }
    }
    Ok(gaps)
}
