//! A position that counts: it reserves the indexes that come next.

use std::ops::Deref;

use hilo_core::numbers::Index;
use hilo_core::range::Range;

use crate::catalog::numbers::owned_position::{LentRows, OwnedPosition};
use crate::catalog::numbers::ranges;
use crate::errors::HiloError;
use crate::shared::inventory::HeldRanges;

pub struct CountedPosition<'o, 's>(pub(super) &'o mut OwnedPosition<'s>);

impl<'s> Deref for CountedPosition<'_, 's> {
    type Target = OwnedPosition<'s>;
    fn deref(&self) -> &OwnedPosition<'s> {
        self.0
    }
}

impl CountedPosition<'_, '_> {
    /// `settled_index` follows the lowest range that is held. A range that a session keeps for long
    /// would hold it back, and a crash would then write off all values that were served since. In
    /// that case `settled_index` rises to the first index that no session has taken from the pool.
    /// Each held range below it gets a row of its own. With [`LentRows::Always`] this is done in
    /// any case.
    pub(super) fn record_held_ranges(
        &mut self,
        held: &HeldRanges,
        rows: LentRows,
    ) -> Result<(), HiloError> {
        let has_rows = self.0.has_rows()?;
        let position = &mut self.0.position;
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
            let (rows, position) = self.0.rows()?;
            return ranges::write_lent(rows, position, &held.ranges);
        }
        position.settled_index = lowest.min(end);
        if has_rows {
            ranges::forget_lent(self.0.rows()?.0, &held.ranges)?;
        }
        Ok(())
    }

    pub(super) fn store_free_and_truncate(&mut self, leaving: &[Range]) -> Result<(), HiloError> {
        let mut rest = Range::union(leaving.to_vec());
        if let Some(top) = rest.pop_if(|last| last.end == self.position.next_index) {
            self.0.position.lower(top.start);
        }
        self.0.store_free(&rest)?;
        // An ordered sequence never goes back to the ranges that remain.
        if !self.sequence.definition.ordered && self.0.has_rows()? {
            let (rows, position) = self.0.rows()?;
            ranges::lower(rows, position);
        }
        Ok(())
    }

    /// Lends free ranges to memory: see [`ranges::lend`].
    pub fn lend(&mut self, limit: usize, from: Index) -> Result<Vec<Range>, HiloError> {
        if self.sequence.definition.ordered || !self.0.has_rows()? {
            return Ok(Vec::new());
        }
        let (rows, position) = self.0.rows()?;
        ranges::lend(rows, position.incarnation, limit, from)
    }

    /// The end of the highest free range; zero if there is none.
    pub fn free_end(&mut self) -> Result<Index, HiloError> {
        Ok(ranges::free_end(self.0.rows()?.0))
    }

    /// Reserves a block at the position. `skip` is how many values a server skips that now takes
    /// over from a copy of the row.
    pub fn reserve(&mut self, block: Range, skip: i64) {
        self.0.position.next_index = block.end.max(self.next_index);
        if !block.is_empty() {
            // After a restart the rate is not known yet, so the number falls only by what is
            // reserved.
            self.0.position.skip = skip.max(self.skip - block.len());
        }
    }
}
