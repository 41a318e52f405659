//! Why a column may lack a value of a sequence: what memory and the catalog say.

use hilo_core::range::Range;

use crate::catalog::definitions::Sequence;
use crate::catalog::gaps::{self, GapRow};
use crate::catalog::leases;
use crate::catalog::positions::{self, Position};
use crate::catalog::ranges;
use crate::catalog::takeover;
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
        Unknown = "rolled back, deleted or unknown",
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
