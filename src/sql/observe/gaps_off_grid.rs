//! The part of `hilo_find_gaps` for gaps that do not lie on the grid: they were recorded when the
//! sequence had another increment or other stripes.

use std::collections::VecDeque;

use pgrx::check_for_interrupts;

use hilo_core::direction::Direction;

use crate::catalog::gaps::GapRow;
use crate::errors::HiloError;
use crate::process::memory;
use crate::sql::call::values::Values;
use crate::sql::observe::gap_reason::Why;
use crate::sql::observe::grid::{Gaps, Grid};

/// The values of such a gap.
#[derive(Clone, Copy)]
pub struct Series {
    first: i128,
    step: i128,
    count: i128,
}

impl Series {
    /// `None`: gaps became one row, so its values are not evenly spaced.
    pub fn of(gap: &GapRow) -> Option<Series> {
        let (first, count) = (gap.first as i128, gap.count as i128);
        let (way, steps) = (gap.last as i128 - first, (count - 1).max(1));
        let step = if way == 0 { 1 } else { way / steps };
        (count > 0 && way % steps == 0).then_some(Series { first, step, count })
    }

    fn value(&self, at: i128) -> i64 {
        (self.first + at * self.step) as i64
    }

    /// The first of `count` values that end with `last`.
    fn before(&self, last: i64, count: i64) -> i64 {
        (last as i128 - (count - 1) as i128 * self.step) as i64
    }

    /// The places of a grid between its ends, if it has all values that the grid has there.
    pub fn on_grid(&self, base: i64, increment: i64) -> Option<(i128, i128)> {
        let (base, increment) = (base as i128, increment as i128);
        if increment % self.step != 0 || (base - self.first) % self.step != 0 {
            return None;
        }
        let last = self.first + (self.count - 1) * self.step;
        let [one, other] = [self.first, last].map(|value| (value - base) * increment.signum());
        let (low, high, step) = (one.min(other), one.max(other), increment.abs());
        let first = (low + step - 1).div_euclid(step);
        let end = high.div_euclid(step) + 1;
        (first < end).then_some((first, end))
    }

    /// The places whose values lie between two values.
    fn between(&self, (one, other): (i64, i64)) -> (i128, i128) {
        let place = |value: i64| (value as i128 - self.first).div_euclid(self.step);
        let (one, other) = (place(one), place(other));
        // One place more at either end, as the values may lie between two of the series.
        (one.min(other).max(0), (one.max(other) + 2).min(self.count))
    }

    fn index_of(&self, value: i64) -> Option<i128> {
        let way = value as i128 - self.first;
        let at = way / self.step;
        (way % self.step == 0 && (0..self.count).contains(&at)).then_some(at)
    }
}

/// The missing values of one gap, of which neighbours become one range.
struct Missing<'a> {
    series: Series,
    rank: usize,
    grid: &'a Grid,
    earlier: &'a [GapRow],
    /// Where the grid or an earlier gap may cover places of the series: from the first to the end
    /// of each, in order and apart, those that are still to come.
    near: VecDeque<(i128, i128)>,
    /// The last value and the count of a range that may go on.
    run: Option<(i64, i64)>,
    gaps: &'a mut Gaps,
}

impl Missing<'_> {
    fn is_told(&self, value: i64) -> bool {
        let mut earlier = self.earlier.iter();
        let has = |gap: &GapRow| Series::of(gap).is_some_and(|one| one.index_of(value).is_some());
        self.grid.covers(value) || earlier.any(has)
    }

    /// Adds these places, but for those that the grid or an earlier gap covers.
    fn absent(&mut self, from: i128, end: i128) {
        let mut at = from;
        while let Some((start, stop)) = self.near.front().copied().filter(|near| near.0 < end) {
            self.add(at, start);
            at = at.max(start);
            while at < stop.min(end) {
                check_for_interrupts!();
                if !self.is_told(self.series.value(at)) {
                    self.add(at, at + 1);
                }
                at += 1;
            }
            if stop > end {
                break;
            }
            self.near.pop_front();
        }
        self.add(at, end);
    }

    fn add(&mut self, from: i128, end: i128) {
        if from >= end {
            return;
        }
        let (first, last) = (self.series.value(from), self.series.value(end - 1));
        let count = (end - from) as i64;
        self.run = match self.run {
            Some((before, so_far)) if before as i128 + self.series.step == first as i128 => {
                Some((last, so_far + count))
            }
            _ => {
                self.flush();
                Some((last, count))
            }
        };
    }

    fn flush(&mut self) {
        if let Some((last, count)) = self.run.take() {
            self.gaps.add(self.series.before(last, count), last, count, self.rank);
        }
    }
}

/// Adds the values of these gaps that the column lacks, each once, without those that the grid
/// covers.
pub fn missing(
    values: &Values,
    grid: &Grid,
    strange: &[GapRow],
    gaps: &mut Gaps,
) -> Result<(), HiloError> {
    for (at, gap) in strange.iter().enumerate() {
        let Some(series) = Series::of(gap) else { continue };
        let earlier = &strange[..at];
        let others = earlier.iter().map(|gap| (gap.first, gap.last)).chain(grid.ends());
        let mut near = memory::try_collect(others.map(|ends| series.between(ends)))?;
        near.sort_unstable();
        near.dedup_by(|next, last| {
            let touches = next.0 <= last.1;
            if touches {
                last.1 = last.1.max(next.1);
            }
            touches
        });
        let near = near.into();
        let rank = Why::recorded(&gap.reason).rank();
        let missing = Missing { series, rank, grid, earlier, near, run: None, gaps: &mut *gaps };
        look_up(values, missing)?;
    }
    Ok(())
}

/// Reads what the column has of a gap, in order.
fn look_up(values: &Values, mut missing: Missing) -> Result<(), HiloError> {
    let series = missing.series;
    let (one, other) = (series.value(0), series.value(series.count - 1));
    let direction = if series.step > 0 { Direction::Rising } else { Direction::Falling };
    let mut next = 0;
    values.in_order((one.min(other), one.max(other)), direction, |value| {
        if let Some(at) = series.index_of(value) {
            missing.absent(next, at);
            next = next.max(at + 1);
        }
    })?;
    missing.absent(next, series.count);
    missing.flush();
    Ok(())
}
