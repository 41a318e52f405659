//! Why a column may lack a value of a sequence: what memory and the catalog say of its indexes.

use hilo_core::numbers::{Epoch, SequenceId};
use hilo_core::range::Range;

use crate::catalog::definitions::Sequence;
use crate::catalog::gaps::{self, GapRow, Reason};
use crate::catalog::leases;
use crate::catalog::positions::{self, Position};
use crate::catalog::ranges;
use crate::catalog::{CatalogOids, takeover};
use crate::errors::HiloError;
use crate::process::ffi;
use crate::process::memory::TryGrow;
use crate::shared;
use crate::shared::content::Tier;
use crate::sql::observe::stat;

/// Why a column lacks a value.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Why {
    Memory(Tier),
    Free,
    Gap(Reason),
    Unknown,
}

/// What the catalog keeps to serve it.
const FREE: &str = "free";

impl Why {
    const FREE: usize = Tier::ALL.len();
    pub const UNKNOWN: usize = Self::FREE + 1 + Reason::ALL.len();

    /// The order of precedence: a value gets the first reason that knows it.
    pub fn rank(self) -> usize {
        match self {
            Why::Memory(tier) => tier as usize,
            Why::Free => Self::FREE,
            Why::Gap(reason) => Self::FREE + 1 + reason as usize,
            Why::Unknown => Self::UNKNOWN,
        }
    }

    /// The names of all reasons, by rank.
    pub fn names() -> impl Iterator<Item = &'static str> {
        let tiers = Tier::ALL.iter().map(|tier| tier.name());
        let reasons = Reason::ALL.iter().map(|reason| reason.name());
        tiers.chain([FREE]).chain(reasons).chain(["rolled back, deleted or unknown"])
    }

    /// The reason of a row that [`gaps`] returns.
    pub fn recorded(reason: &str) -> Why {
        match reason {
            FREE => Why::Free,
            _ if reason == Tier::Leased.name() => Why::Memory(Tier::Leased),
            _ => Reason::by_name(reason).map_or(Why::Unknown, Why::Gap),
        }
    }
}

/// The recorded gaps of a node, and what is leased or comes back from a lease.
pub fn gaps(
    ids: &CatalogOids,
    sequence: &Sequence,
    position: Option<&Position>,
    node: i32,
) -> Result<Vec<GapRow>, HiloError> {
    let mut gaps = gaps::of_node(ids, sequence.id, node)?;
    let now = ffi::now();
    for lease in leases::of_node(ids, sequence.id, node)? {
        let numbered = position.map(|position| (sequence, position));
        let (part, lost, _) = lease.outcome(now, numbered);
        let reason = match lease.is_open(now) {
            true => Tier::Leased.name(),
            false => lost.map_or(FREE, Reason::name),
        };
        if !part.is_empty() {
            let ((first, last), reason) = (lease.ends(part), reason.to_owned());
            gaps.try_push(GapRow { first, last, count: part.len(), reason })?;
        }
    }
    Ok(gaps)
}

/// A range of places, with the rank of its reason first.
pub type Known = (usize, Range);

/// The ranges of indexes that memory holds.
pub fn in_memory(id: SequenceId, epoch: Epoch, known: &mut Vec<Known>) -> Result<(), HiloError> {
    let held = stat::in_memory(id, epoch)?.into_iter();
    held.map(|(tier, range)| (Why::Memory(tier).rank(), range))
        .try_for_each(|item| known.try_push(item))
}

/// The free ranges, and what was in memory when the server last went down and is not written off
/// yet.
pub fn in_catalog(
    ids: &CatalogOids,
    sequence: &Sequence,
    position: &Position,
    known: &mut Vec<Known>,
) -> Result<(), HiloError> {
    for range in ranges::free_of(ids, position)? {
        known.try_push((Why::Free.rank(), range))?;
    }
    let (_, timeline) = positions::server();
    let life = shared::get().map_or(0, |shared| shared.life());
    if timeline == 0 || life == 0 || position.incarnation == 0 || position.incarnation == life {
        return Ok(());
    }
    let reason = Why::Gap(takeover::reason(position));
    let limit = position.mapping(&sequence.definition).limit();
    let unsettled = position.unsettled().until(limit);
    let lent = ranges::lent(ids, position)?;
    let leased = Range::union(leases::leased(ids, position)?);
    let lost = lent.into_iter().chain([unsettled]).flat_map(|lost| lost.without(&leased));
    known.try_extend(lost.map(|range| (reason.rank(), range)))
}
