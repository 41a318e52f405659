//! The positions that this server's life serves, and what is written about their ranges.
//!
//! Every index below `settled_index` is served, free, leased, recorded as a gap, or in a row of
//! `_hilo.hilo_free_range` that says whose memory holds it. From there to `next_index`, any index
//! may be in the memory of the life that `incarnation` names. So after a crash the catalog alone
//! says what to write off, each index once. This needs those rows and the position to change in one
//! transaction. Therefore [`with_position`] is the worker's only way to all of them, and it writes
//! the position last. A session that renumbers the sequence writes off all ranges and then the
//! position.

use std::ops::Deref;

use pgrx::pg_sys;

use hilo_core::numbers::Index;
use hilo_core::past::Span;
use hilo_core::range::Range;
use hilo_core::source::{self, AnswerError, Known, LendPlan, LendRequest, Lost};

use crate::catalog::lease::leases;
use crate::catalog::numbers::range_rows::RangeRows;
use crate::catalog::numbers::ranges;
use crate::catalog::numbers::source_query::Answer;
use crate::catalog::numbers::sources::{self, SourceState};
use crate::catalog::sequence::definitions::Sequence;
use crate::catalog::sequence::gaps::{self, Reason};
use crate::catalog::sequence::node;
use crate::catalog::sequence::positions::{self, LockedPosition, Position};
use crate::catalog::sequence::takeover::{discards_free, reason, skip};
use crate::errors::HiloError;
use crate::process::ffi;
use crate::process::memory::TryGrow;
use crate::shared::inventory::HeldRanges;
use crate::shared::totals::Totals;

/// When a range in memory gets a row of its own in the catalog.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum LentRows {
    Always,
    /// If a range that a session keeps for long holds `settled_index` back.
    IfHeldBack,
}

/// A locked position of this server, for the life whose memory has its ranges.
pub struct OwnedPosition<'a> {
    sequence: &'a Sequence,
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
    let mut owned = OwnedPosition::of(sequence, locked.position, locked.version().writer);
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
    let mut owned = OwnedPosition::of(sequence, position, positions::writer());
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

impl OwnedPosition<'_> {
    fn of(
        sequence: &Sequence,
        position: Position,
        writer: pg_sys::TransactionId,
    ) -> OwnedPosition<'_> {
        OwnedPosition { sequence, position, writer, write_forced: false, rows: None }
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
        if self.sequence.definition.source.is_some() {
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
        if position.may_lack() && sequence.definition.source.is_none() {
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
        let position = &mut self.position;
        // Another server has not got the values that the source gives from now on.
        if position.may_lack() && sequence.definition.source.is_none() {
            skip(sequence, position)?;
        }
        (position.system_id, position.timeline) = (system_id, timeline);
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
        self.sequence.definition.source.is_none() && !self.position.has_reserved()
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
    ///
    /// `settled_index` follows the lowest range that is held. A range that a session keeps for long
    /// would hold it back, and a crash would then write off all values that were served since. In
    /// that case `settled_index` rises to the first index that no session has taken from the pool.
    /// Each held range below it gets a row of its own. With [`LentRows::Always`] this is done in
    /// any case.
    pub fn record_held_ranges(
        &mut self,
        held: &HeldRanges,
        rows: LentRows,
    ) -> Result<(), HiloError> {
        if self.sequence.definition.source.is_some() {
            // In a copy of the database, the rows are about the memory of the original.
            self.supply()?;
            let exact = rows == LentRows::Always;
            return ranges::trim_lent(self.rows()?.0, &held.ranges, exact);
        }
        let has_rows = self.has_rows()?;
        let position = &mut self.position;
        let end = position.next_index;
        let taken_to = held.first_untaken.unwrap_or(end).min(end).max(position.settled_index);
        let lowest = held
            .ranges
            .iter()
            .filter(|range| range.end > position.settled_index)
            .map(|range| range.start.max(position.settled_index))
            .min()
            .unwrap_or(end);
        let held_back = lowest == position.settled_index && lowest < taken_to;
        if rows == LentRows::Always || held_back {
            position.settled_index = taken_to;
            let (rows, position) = self.rows()?;
            return ranges::write_lent(rows, position, &held.ranges);
        }
        position.settled_index = lowest.min(end);
        if has_rows {
            ranges::forget_lent(self.rows()?.0, &held.ranges)?;
        }
        Ok(())
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
        if self.sequence.definition.source.is_some() {
            self.store_free(leaving)?;
            // Ranges above the position are not reserved, and free already.
            let (rows, position) = self.rows()?;
            ranges::lower_into(rows, position);
            return Ok(());
        }
        let mut rest = Range::union(leaving.to_vec());
        if let Some(top) = rest.pop_if(|last| last.end == self.position.next_index) {
            self.position.lower(top.start);
        }
        self.store_free(&rest)?;
        // An ordered sequence never goes back to the ranges that remain.
        if !self.sequence.definition.ordered && self.has_rows()? {
            let (rows, position) = self.rows()?;
            ranges::lower(rows, position);
        }
        Ok(())
    }

    /// Records ranges that had no other owner as lost.
    pub fn write_off(&self, lost: &[Range]) -> Result<(), HiloError> {
        let lost = Range::union(lost.to_vec());
        gaps::record(self, &self.mapping(&self.sequence.definition), &lost, Reason::Discarded)
    }

    /// Lends free ranges to memory: see [`ranges::lend`].
    pub fn lend(&mut self, limit: usize, from: Index) -> Result<Vec<Range>, HiloError> {
        if self.sequence.definition.ordered || !self.has_rows()? {
            return Ok(Vec::new());
        }
        let (rows, position) = self.rows()?;
        ranges::lend(rows, position.incarnation, limit, from)
    }

    /// The end of the highest free range; zero if there is none.
    pub fn free_end(&mut self) -> Result<Index, HiloError> {
        Ok(ranges::free_end(self.rows()?.0))
    }

    /// The known state of the source. In a copy of the database, the values that the source has
    /// brought belong to the original: they are written off.
    pub fn supply(&mut self) -> Result<SourceState, HiloError> {
        let mut supply = sources::of(self)?;
        let before = supply.database;
        if supply.take_over() {
            if ![0, supply.database].contains(&before) {
                self.write_off_memory(Reason::Restored)?;
                self.write_off_all(Reason::Restored)?;
            }
            sources::write(self, &supply)?;
        }
        Ok(supply)
    }

    /// Notes that the source has failed.
    pub fn note_failure(&self, supply: &mut SourceState, error: String) -> Result<(), HiloError> {
        if supply.failures == 0 {
            supply.failing_since = Some(ffi::now());
        }
        supply.failures = supply.failures.saturating_add(1);
        (supply.last_error, supply.last_error_at) = (Some(error), Some(ffi::now()));
        sources::write(self, supply)
    }

    /// Lends to memory the next ranges that the source has brought. The position moves to their
    /// end.
    pub fn lend_received(&mut self, request: &LendRequest) -> Result<LendPlan, HiloError> {
        let (rows, position) = self.rows()?;
        let (next, life) = (position.next_index, position.incarnation);
        let plan = ranges::lend_chosen(rows, next, life, request)?;
        if let Some(last) = plan.blocks.last() {
            position.next_index = last.end;
        }
        Ok(plan)
    }

    /// Asks the source for `wanted` values, unless that is 0 or a request is open: another process
    /// makes the request once it is committed. Returns whether a request was added.
    pub fn request(&self, supply: &mut SourceState, wanted: i64) -> Result<bool, HiloError> {
        if supply.open_request().is_some() {
            return Ok(true);
        }
        if wanted > 0 {
            supply.ask(wanted);
            sources::write(self, supply)?;
        }
        Ok(wanted > 0)
    }

    /// Ends the open request with its answer, which took so many microseconds: the ranges become
    /// free. Returns why an answer is refused. A repeated request would bring the same answer, so
    /// its ranges are recorded as lost. So is a part that may have been served before.
    pub fn receive(
        &mut self,
        supply: &mut SourceState,
        answer: &Answer,
        took: i64,
    ) -> Result<Option<HiloError>, HiloError> {
        let mapping = self.mapping(&self.sequence.definition);
        let (rows, position) = self.rows()?;
        let mut held = ranges::free_of(rows)?;
        held.try_extend(ranges::lent_ranges(rows)?)?;
        held.try_extend(leases::leased_ranges(position)?)?;
        let Position { sequence, node, .. } = *position;
        let asked = supply.request.map_or(1, |request| request.wanted);
        supply.end_answered();
        let known =
            Known { mapping: &mapping, held: &held, own: &supply.own, brought: &supply.brought };
        let brought = match source::ranges(&answer.rows, &known) {
            _ if answer.has_null => Err(HiloError::AnswerType),
            brought => brought.map_err(HiloError::from),
        };
        // An answer may come again after it was refused: each value becomes a gap once.
        let gaps = || -> Result<Vec<_>, HiloError> {
            let gaps = gaps::of_node(sequence, node)?;
            Ok(gaps.iter().map(|gap| (gap.first, gap.last)).collect())
        };
        let brought = match brought {
            Ok(brought) if brought.barred.is_empty() => brought.ranges,
            Ok(brought) => {
                self.record_lost(&known.lost(&brought.barred, &gaps()?))?;
                brought.ranges
            }
            Err(refused) => {
                self.record_lost(&known.lost_of(&answer.rows, &gaps()?))?;
                let barred = matches!(refused, HiloError::Answer(AnswerError::Own { .. }));
                match known.to_pass(&answer.rows).filter(|_| barred) {
                    Some(count) => supply.ask_beyond(count, asked),
                    None => supply.ask_for_one(),
                }
                self.note_failure(supply, refused.in_full())?;
                return Ok(Some(refused));
            }
        };
        let (rows, position) = self.rows()?;
        ranges::put_free(rows, position, &mapping.without_bounds(), &brought)?;
        let value = |index| mapping.value(index).unwrap_or(position.base);
        for range in &brought {
            let (first, last) = (value(range.start), value(range.last()));
            supply.brought.add(Span::new(first, last, mapping.increment));
        }
        let count: i64 = brought.iter().map(Range::len).sum();
        supply.received = supply.received.saturating_add(count);
        (supply.latency, supply.failures) = (took.max(0), 0);
        supply.ask_for_more();
        sources::write(position, supply)?;
        Ok(None)
    }

    /// Records the lost parts of an answer.
    fn record_lost(&self, lost: &Lost) -> Result<(), HiloError> {
        self.write_off(&lost.new)?;
        let mapping = self.mapping(&self.sequence.definition);
        gaps::record(self, &mapping, &lost.doubtful, Reason::Altered)
    }

    /// Reserves a block at the position. `skip` is how many values a server skips that now takes
    /// over from a copy of the row.
    pub fn reserve(&mut self, block: Range, skip: i64) {
        self.position.next_index = block.end.max(self.next_index);
        if !block.is_empty() {
            // After a restart the rate is not known yet, so the number falls only by what is
            // reserved.
            self.position.skip = skip.max(self.skip - block.len());
        }
    }

    /// Writes the sequence's totals.
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
