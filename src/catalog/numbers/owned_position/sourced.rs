//! A position whose numbers a source brings: what the source has brought is free until memory gets
//! it, and rows say what memory has.

use std::ops::Deref;

use hilo_core::past::Span;
use hilo_core::range::Range;
use hilo_core::source::{self, AnswerError, Known, LendPlan, LendRequest, Lost};

use crate::catalog::lease::leases;
use crate::catalog::numbers::owned_position::{LentRows, OwnedPosition};
use crate::catalog::numbers::ranges;
use crate::catalog::numbers::source_query::Answer;
use crate::catalog::numbers::sources::{self, SourceState};
use crate::catalog::sequence::gaps::{self, Reason};
use crate::catalog::sequence::positions::Position;
use crate::errors::HiloError;
use crate::process::ffi;
use crate::process::memory::TryGrow;
use crate::shared::inventory::HeldRanges;

pub struct SourcedPosition<'o, 's>(pub(super) &'o mut OwnedPosition<'s>);

impl<'s> Deref for SourcedPosition<'_, 's> {
    type Target = OwnedPosition<'s>;
    fn deref(&self) -> &OwnedPosition<'s> {
        self.0
    }
}

impl SourcedPosition<'_, '_> {
    /// Cuts the rows of ranges in memory down to what memory still has.
    pub(super) fn record_held_ranges(
        &mut self,
        held: &HeldRanges,
        rows: LentRows,
    ) -> Result<(), HiloError> {
        // In a copy of the database, the rows are about the memory of the original.
        self.state()?;
        ranges::trim_lent(self.0.rows()?.0, &held.ranges, rows == LentRows::Always)
    }

    pub(super) fn store_free_and_truncate(&mut self, leaving: &[Range]) -> Result<(), HiloError> {
        self.0.store_free(leaving)?;
        // Ranges above the position are not reserved, and free already.
        let (rows, position) = self.0.rows()?;
        ranges::lower_into(rows, position);
        Ok(())
    }

    /// The known state of the source. In a copy of the database, the values that the source has
    /// brought belong to the original: they are written off.
    pub fn state(&mut self) -> Result<SourceState, HiloError> {
        let mut state = sources::read(self)?;
        let before = state.database;
        if state.take_over() {
            if ![0, state.database].contains(&before) {
                self.0.write_off_memory(Reason::Restored)?;
                self.0.write_off_all(Reason::Restored)?;
            }
            sources::write(self, &state)?;
        }
        Ok(state)
    }

    /// Notes that the source has failed.
    pub fn note_failure(&self, state: &mut SourceState, error: String) -> Result<(), HiloError> {
        if state.failures == 0 {
            state.failing_since = Some(ffi::now());
        }
        state.failures = state.failures.saturating_add(1);
        (state.last_error, state.last_error_at) = (Some(error), Some(ffi::now()));
        sources::write(self, state)
    }

    /// Lends to memory the next ranges that the source has brought. The position moves to their
    /// end.
    pub fn lend_received(&mut self, request: &LendRequest) -> Result<LendPlan, HiloError> {
        let (rows, position) = self.0.rows()?;
        let (next, life) = (position.next_index, position.incarnation);
        let plan = ranges::lend_chosen(rows, next, life, request)?;
        if let Some(last) = plan.blocks.last() {
            position.next_index = last.end;
        }
        Ok(plan)
    }

    /// Asks the source for `wanted` values, unless that is 0 or a request is open: another process
    /// makes the request once it is committed. Returns whether a request is open then.
    pub fn request(&self, state: &mut SourceState, wanted: i64) -> Result<bool, HiloError> {
        if state.open_request().is_some() {
            return Ok(true);
        }
        if wanted > 0 {
            state.ask(wanted);
            sources::write(self, state)?;
        }
        Ok(wanted > 0)
    }

    /// Ends the open request with its answer, which took so many microseconds: the ranges become
    /// free. Returns why an answer is refused. A repeated request would bring the same answer, so
    /// its ranges are recorded as lost. So is a part that may have been served before.
    pub fn receive(
        &mut self,
        state: &mut SourceState,
        answer: &Answer,
        took: i64,
    ) -> Result<Option<HiloError>, HiloError> {
        let mapping = self.mapping(&self.sequence.definition);
        let (rows, position) = self.0.rows()?;
        let mut held = ranges::free_of(rows)?;
        held.try_extend(ranges::lent_ranges(rows)?)?;
        held.try_extend(leases::leased_ranges(position)?)?;
        let Position { sequence, node, .. } = *position;
        let asked = state.request.map_or(1, |request| request.wanted);
        state.end_answered();
        let known =
            Known { mapping: &mapping, held: &held, own: &state.own, brought: &state.brought };
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
                    Some(count) => state.ask_beyond(count, asked),
                    None => state.ask_for_one(),
                }
                self.note_failure(state, refused.in_full())?;
                return Ok(Some(refused));
            }
        };
        let (rows, position) = self.0.rows()?;
        ranges::put_free(rows, position, &mapping.without_bounds(), &brought)?;
        let value = |index| mapping.value(index).unwrap_or(position.base);
        for range in &brought {
            let (first, last) = (value(range.start), value(range.last()));
            state.brought.add(Span::new(first, last, mapping.increment));
        }
        let count: i64 = brought.iter().map(Range::len).sum();
        state.received = state.received.saturating_add(count);
        (state.latency, state.failures) = (took.max(0), 0);
        state.ask_for_more();
        sources::write(position, state)?;
        Ok(None)
    }

    /// Records the lost parts of an answer.
    fn record_lost(&self, lost: &Lost) -> Result<(), HiloError> {
        self.write_off(&lost.new)?;
        let mapping = self.mapping(&self.sequence.definition);
        gaps::record(self, &mapping, &lost.doubtful, Reason::Altered)
    }
}
