//! The places of a sequence, and the values that a column lacks at them.

use pgrx::prelude::*;

use hilo_core::direction::Direction;
use hilo_core::mapping::Mapping;
use hilo_core::numbers::Index;
use hilo_core::range::Range;

use crate::catalog::table::text_datum;
use crate::errors::HiloError;
use crate::sql::call::args::Args;
use crate::sql::call::stored_rows::StoredRows;
use crate::sql::call::values::Values;
use crate::sql::observe::gap_reason::{Known, Why};

/// The result: values, in the order of serving.
pub struct Gaps {
    rows: StoredRows,
    /// The reasons by rank, as text datums.
    reasons: Vec<pg_sys::Datum>,
}

impl Gaps {
    pub fn begin(args: Args) -> Gaps {
        Gaps {
            rows: StoredRows::begin(args),
            reasons: Why::names().map(|name| text_datum(name.as_bytes())).collect(),
        }
    }

    pub fn add(&mut self, first: i64, last: i64, count: i64, rank: usize) {
        check_for_interrupts!();
        let values = [first.into(), last.into(), count.into(), self.reasons[rank]];
        // SAFETY: the function is declared to return three bigints and a text.
        unsafe { self.rows.add(values) };
    }
}

/// The places of a sequence among the numbers.
pub struct Grid {
    /// Maps a place to a value, without bounds.
    pub mapping: Mapping,
    /// The places before this one are examined.
    pub end: Index,
}

impl Grid {
    /// Adds the places that have a reason and that the column lacks, as values.
    pub fn missing(
        &self,
        values: &Values,
        known: &[Known],
        gaps: &mut Gaps,
    ) -> Result<(), HiloError> {
        if self.end == Index::ZERO {
            return Ok(());
        }
        let mut rest = known;
        let mut absent = |range: Range| {
            while let Some(((_, first), others)) = rest.split_first()
                && first.end <= range.start
            {
                rest = others;
            }
            for (rank, part) in rest.iter().take_while(|(_, part)| part.start < range.end) {
                for run in self.mapping.runs(part.intersection(&range)) {
                    gaps.add(run.first, run.last(self.mapping.increment), run.count, *rank);
                }
            }
        };
        let mut next = Index::ZERO;
        if let (Some(first), Some(last)) =
            (self.mapping.value(Index::ZERO), self.mapping.value(self.end - 1))
        {
            let ends = (first.min(last), first.max(last));
            values.in_order(ends, Direction::of(self.mapping.increment), |value| {
                let Some(place) = self.mapping.index_of(value) else { return };
                if place > next {
                    absent(Range::new(next, place));
                }
                next = next.max(place.next());
            })?;
        }
        if next < self.end {
            absent(Range::new(next, self.end));
        }
        Ok(())
    }

    /// Its first and its last value among those examined.
    pub fn ends(&self) -> Option<(i64, i64)> {
        Some((self.mapping.value(Index::ZERO)?, self.mapping.value(self.end - 1)?))
    }

    /// Whether the grid has a place for this value among those examined.
    pub fn covers(&self, value: i64) -> bool {
        self.mapping.index_of(value).is_some_and(|place| place < self.end)
    }
}
