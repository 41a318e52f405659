//! Takeover: using a position that another life of this server, or another server, wrote.

use std::cell::Cell;

use hilo_core::numbers::Index;
use hilo_core::options::Definition;
use hilo_core::policy;
use hilo_core::range::Range;

use crate::backend::Global;
use crate::catalog::sequence::definitions::Sequence;
use crate::catalog::sequence::gaps::{self, Reason};
use crate::catalog::sequence::positions::{self, Position};
use crate::errors::HiloError;
use crate::gucs;

/// Whether a takeover writes off the free ranges in the catalog, because the other server may have
/// taken and served them. Values from a source may have been served since the dump, because other
/// users of the source go on.
pub fn discards_free(position: &Position, definition: &Definition) -> bool {
    position.is_replicated()
        || (position.may_lack() && gucs::failover_skip() != Some(0))
        || (definition.source.is_some() && position.incarnation == positions::RESTORED)
}

/// The reason that gaps get for what an earlier life had in memory.
pub fn reason(position: &Position) -> Reason {
    let same_server = (position.system_id, position.timeline) == positions::server();
    match same_server && position.incarnation != positions::RESTORED {
        true => Reason::Crash,
        false => Reason::Restored,
    }
}

/// Moves a position past the reservations that may be missing from it, and records what it skips as
/// a gap.
///
/// # Errors
/// The errors of writing to the catalog.
pub fn skip(sequence: &Sequence, position: &mut Position) -> Result<(), HiloError> {
    let mapping = position.mapping(&sequence.definition);
    let skipped = missing(sequence, position);
    warn(sequence, position, skipped.len());
    gaps::record(position, &mapping, &[skipped], Reason::Restored)?;
    position.next_index = skipped.end.max(position.next_index);
    position.settled_index = position.next_index;
    Ok(())
}

/// The reservations that may be missing from a position.
fn missing(sequence: &Sequence, position: &Position) -> Range {
    let limit = position.mapping(&sequence.definition).limit();
    let settings = gucs::refill(sequence.definition.block_size);
    let most = policy::failover_skip(limit - Index::ZERO, 0.0, &settings).max(position.skip);
    // A server that was promoted in between may have skipped as many values, and its row may be
    // lost too.
    let skip = gucs::failover_skip().unwrap_or(most).saturating_mul(promotions(position));
    Range::with_len(position.next_index, skip).until(limit)
}

/// The position that this server would have as another node, with the reservations that may be
/// missing from it.
pub fn at_most(sequence: &Sequence, position: &Position) -> Position {
    match position.may_lack() && !position.is_replicated() {
        true => {
            let next_index = missing(sequence, position).end.max(position.next_index);
            Position { next_index, ..*position }
        }
        false => *position,
    }
}

/// How often a server has been promoted since a position was written, at least 1. Each promotion
/// raises the timeline.
fn promotions(position: &Position) -> i64 {
    let (system_id, timeline) = positions::server();
    let since = match position.system_id == system_id && !position.is_replicated() {
        true => timeline - position.timeline,
        false => 1,
    };
    i64::from(since.max(1))
}

/// Warns once in each process, because after a failover the same is true of every sequence.
fn warn(sequence: &Sequence, position: &Position, skipped: i64) {
    static WARNED: Global<Cell<bool>> = Global::new(Cell::new(false));
    if WARNED.replace(true) {
        return;
    }
    let from = match position.is_replicated() {
        true => "was reserved by another server, of which this server is a replica",
        false => "was reserved before this server was promoted, restored or copied",
    };
    let (name, node) = (sequence.name.to_string(), position.node);
    HiloError::Skipping { name, node, skipped, from }.warn();
}
