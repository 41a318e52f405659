//! The positions that this server's life serves, and what is written about their ranges.
//!
//! Every index below `settled_index` is served, free, leased, recorded as a gap, or in a row of
//! `_hilo.hilo_free_range` that says whose memory holds it. From there to `next_index`, any index
//! may be in the memory of the life that `incarnation` names. So after a crash the catalog alone
//! says what to write off, each index once. This needs those rows and the position to change in one
//! transaction. Therefore [`with_position`] is the worker's only way to all of them, and it writes
//! the position last. A session that renumbers the sequence writes off all ranges and then the
//! position.

mod counted;
mod sourced;

pub use counted::CountedPosition;
pub use sourced::SourcedPosition;

use std::ops::Deref;

use pgrx::pg_sys;

use hilo_core::range::Range;

use crate::catalog::numbers::range_rows::RangeRows;
use crate::catalog::numbers::ranges;
use crate::catalog::sequence::definitions::Sequence;
use crate::catalog::sequence::gaps::{self, Reason};
use crate::catalog::sequence::node;
use crate::catalog::sequence::positions::{self, LockedPosition, Position};
use crate::catalog::sequence::takeover::{discards_free, reason, skip};
use crate::errors::HiloError;
use crate::shared::inventory::HeldRanges;
use crate::shared::totals::Totals;

/// When a range in memory gets a row of its own in the catalog.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum LentRows {
    Always,
    /// If a range that a session keeps for long holds `settled_index` back.
    IfHeldBack,
}

/// A position, by where its numbers come from.
pub enum Kind<'o, 's> {
    Counted(CountedPosition<'o, 's>),
    Sourced(SourcedPosition<'o, 's>),
}

/// A locked position of this server, for the life whose memory has its ranges.
pub struct OwnedPosition<'s> {
    sequence: &'s Sequence,
    position: Position,
    /// The transaction that wrote the position.
    writer: pg_sys::TransactionId,
    /// Whether the row is written even if it has not changed.
    write_forced: bool,
    /// The rows of ranges below the position; `None`: they have not been read yet.
    rows: Option<RangeRows>,
}

/// Makes a locked position this server's, for the life `life`, and has `work` write what happens to
/// its ranges. Then the position is written, whatever value `work` returns: what a takeover writes
/// off without its position would be written off again.
///
/// # Errors
/// `NodeUnset`, those of `work`, and those of writing to the catalog. The transaction has to be
/// rolled back then.
pub fn with_position<T>(
    life: i64,
    sequence: &Sequence,
    locked: &LockedPosition,
    work: impl FnOnce(&mut OwnedPosition) -> Result<T, HiloError>,
) -> Result<T, HiloError> {
    let mut owned = OwnedPosition::new(sequence, locked.position, locked.version().writer);
    let done = owned.hold(life, work)?;
    // Whoever remembers the rows tells by the version of the position whether they have changed.
    let rewritten = owned.rows.as_ref().is_some_and(RangeRows::are_written);
    if owned.write_forced || rewritten || owned.position != locked.position {
        locked.update(&owned.position);
        owned.writer = positions::writer();
    }
    owned.keep_rows();
    Ok(done)
}

/// Does the same for the position of a sequence that this transaction has added, whose row is
/// written for the first time.
///
/// # Errors
/// As for [`with_position`].
pub fn with_new_position<T>(
    life: i64,
    sequence: &Sequence,
    position: Position,
    work: impl FnOnce(&mut OwnedPosition) -> Result<T, HiloError>,
) -> Result<T, HiloError> {
    let mut owned = OwnedPosition::new(sequence, position, positions::writer());
    let done = owned.hold(life, work)?;
    positions::insert(&owned.position)?;
    owned.keep_rows();
    Ok(done)
}

impl Deref for OwnedPosition<'_> {
    type Target = Position;
    fn deref(&self) -> &Position {
        &self.position
    }
}

impl<'s> OwnedPosition<'s> {
    fn new(
        sequence: &'s Sequence,
        position: Position,
        writer: pg_sys::TransactionId,
    ) -> OwnedPosition<'s> {
        OwnedPosition { sequence, position, writer, write_forced: false, rows: None }
    }

    /// It, by where its numbers come from.
    pub fn kind(&mut self) -> Kind<'_, 's> {
        match self.has_source() {
            false => Kind::Counted(CountedPosition(self)),
            true => Kind::Sourced(SourcedPosition(self)),
        }
    }

    fn has_source(&self) -> bool {
        self.sequence.definition.source.is_some()
    }

    /// Whether another server may have reserved beyond this position. A source gives the values
    /// that it gives from now on to no other server.
    fn may_lack_reservations(&self) -> bool {
        self.position.may_lack() && !self.has_source()
    }

    /// The rows of ranges below the position, in its epoch.
    fn rows(&mut self) -> Result<(&mut RangeRows, &mut Position), HiloError> {
        let rows = match self.rows {
            Some(ref mut rows) => rows,
            ref mut none => none.insert(RangeRows::recall(&self.position, self.writer)?),
        };
        Ok((rows, &mut self.position))
    }

    fn keep_rows(&mut self) {
        if let Some(rows) = self.rows.take() {
            rows.keep(self.writer);
        }
    }

    /// Takes the position over, and does `work`.
    fn hold<T>(
        &mut self,
        life: i64,
        work: impl FnOnce(&mut Self) -> Result<T, HiloError>,
    ) -> Result<T, HiloError> {
        self.take_over(life)?;
        let done = work(self)?;
        if self.has_source() {
            // With a source every range in memory has a row of its own, so nothing is unsettled.
            self.position.settled_index = self.next_index;
        }
        Ok(done)
    }

    /// Writes off the ranges that an earlier life had in memory, and skips the ranges that another
    /// server may have reserved beyond the position.
    fn take_over(&mut self, life: i64) -> Result<(), HiloError> {
        let (sequence, position) = (self.sequence, self.position);
        let (system_id, timeline) = positions::server();
        if self.may_lack_reservations() {
            node::check_no_clone()?;
        }
        if !position.is_ours() {
            node::check_set(position.nodes)?;
        }
        if position.incarnation != life {
            if position.incarnation != 0 {
                self.write_off_memory(reason(&position))?;
            }
            if discards_free(&position, &sequence.definition) {
                self.write_off_all(Reason::Restored)?;
            }
            if position.is_replicated() {
                // The other server's values belong to the old epoch, so this server continues under
                // a new one.
                (self.position.epoch, self.rows) = (position.epoch.next(), None);
            }
            self.position.incarnation = life;
            self.position.settled_index = position.next_index;
        }
        if self.may_lack_reservations() {
            skip(sequence, &mut self.position)?;
        }
        (self.position.system_id, self.position.timeline) = (system_id, timeline);
        Ok(())
    }

    /// Writes off what an earlier memory held: see [`ranges::write_off_memory`].
    fn write_off_memory(&mut self, reason: Reason) -> Result<(), HiloError> {
        let mapping = self.mapping(&self.sequence.definition);
        let (rows, position) = self.rows()?;
        ranges::write_off_memory(rows, position, &mapping, &[], reason)
    }

    /// Writes off what is free: see [`ranges::write_off`].
    fn write_off_all(&mut self, reason: Reason) -> Result<(), HiloError> {
        let definition = &self.sequence.definition;
        let (rows, position) = self.rows()?;
        ranges::write_off(rows, position, definition, Vec::new(), reason)
    }

    /// Whether nothing has been reserved in this epoch, so that no row of a range exists, and
    /// memory holds nothing. A new slot could not tell: it would have to look at the slices of all
    /// sessions.
    pub fn is_unused(&self) -> bool {
        !self.has_source() && !self.position.has_reserved()
    }

    /// Whether there are rows of ranges below the position. Most sequences have none.
    fn has_rows(&mut self) -> Result<bool, HiloError> {
        Ok(!self.is_unused() && !self.rows()?.0.is_empty())
    }

    /// Has the row written even if it does not change, so that the commit waits for the standby.
    pub fn force_write(&mut self) {
        self.write_forced = true;
    }

    /// Brings the catalog up to date with what memory holds.
    pub fn record_held_ranges(
        &mut self,
        held: &HeldRanges,
        rows: LentRows,
    ) -> Result<(), HiloError> {
        match self.kind() {
            Kind::Counted(mut counted) => counted.record_held_ranges(held, rows),
            Kind::Sourced(mut sourced) => sourced.record_held_ranges(held, rows),
        }
    }

    /// Writes ranges that leave memory: they become free. An ordered sequence never goes back, so
    /// its ranges are written off.
    pub fn store_free(&mut self, leaving: &[Range]) -> Result<(), HiloError> {
        if leaving.is_empty() {
            return Ok(());
        }
        if self.sequence.definition.ordered {
            return self.write_off(leaving);
        }
        let mapping = self.position.mapping(&self.sequence.definition);
        let (rows, position) = self.rows()?;
        ranges::put_free(rows, position, &mapping, leaving)
    }

    /// Writes the ranges that leave memory with the pool, and lowers the position by those at its
    /// top.
    pub fn store_free_and_truncate(&mut self, leaving: &[Range]) -> Result<(), HiloError> {
        match self.kind() {
            Kind::Counted(mut counted) => counted.store_free_and_truncate(leaving),
            Kind::Sourced(mut sourced) => sourced.store_free_and_truncate(leaving),
        }
    }

    /// Records ranges that had no other owner as lost.
    pub fn write_off(&self, lost: &[Range]) -> Result<(), HiloError> {
        let lost = Range::union(lost.to_vec());
        gaps::record(self, &self.mapping(&self.sequence.definition), &lost, Reason::Discarded)
    }

    /// Notes what was counted.
    pub fn count(&mut self, totals: Totals) {
        self.position.totals = Totals { served: totals.served.max(0), ..totals };
    }

    /// Corrects how many values were served.
    pub fn correct_served(&mut self, by: i64) {
        let totals = self.position.totals;
        self.count(Totals { served: totals.served + by, ..totals });
    }

    /// Notes that no memory holds anything.
    pub fn release(&mut self) {
        self.position.incarnation = 0;
    }
}
