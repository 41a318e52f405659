//! Places: the values of one numbering, counted from its first one, and those that a column lacks.

use pgrx::prelude::*;

use hilo_core::direction::Direction;
use hilo_core::mapping::{Mapping, Stripes};
use hilo_core::numbers::Index;
use hilo_core::range::Range;

use crate::catalog::gaps::GapRow;
use crate::catalog::table::text_datum;
use crate::errors::HiloError;
use crate::process::memory::{self, TryGrow};
use crate::sql::call::args::Args;
use crate::sql::call::stored_rows::StoredRows;
use crate::sql::call::values::Values;
use crate::sql::observe::gap_reason::{Known, Reason, span};

/// The result: values, in the order of serving.
pub struct Gaps {
    rows: StoredRows,
    /// The names of the reasons, as text datums.
    reasons: Vec<pg_sys::Datum>,
    /// The last places, which may go on.
    open: Option<Known>,
}

impl Gaps {
    pub fn begin(args: Args) -> Gaps {
        let names = Reason::ALL.iter().map(|reason| text_datum(reason.name().as_bytes()));
        Gaps { rows: StoredRows::begin(args), reasons: names.collect(), open: None }
    }

    fn add(&mut self, mapping: &Mapping, (reason, range): Known) {
        match &mut self.open {
            Some((last, open)) if *last == reason && open.end == range.start => {
                open.end = range.end;
            }
            _ => {
                self.flush(mapping);
                self.open = Some((reason, range));
            }
        }
    }

    fn flush(&mut self, mapping: &Mapping) {
        let Some((reason, range)) = self.open.take() else { return };
        for run in mapping.runs(range) {
            check_for_interrupts!();
            let (last, reason) = (run.last(mapping.increment), self.reasons[reason as usize]);
            let values = [run.first.into(), last.into(), run.count.into(), reason];
            // SAFETY: the function is declared to return three bigints and a text.
            unsafe { self.rows.add(values) };
        }
    }
}

/// A numbering, and the places in it that are examined.
pub struct Grid {
    /// Maps a place to a value, without bounds.
    mapping: Mapping,
    /// Disjoint and in order.
    known: Vec<Known>,
}

impl Grid {
    /// Each place has the first of the reasons that know it.
    pub fn new(mapping: Mapping, known: Vec<Known>) -> Result<Grid, HiloError> {
        let (mut taken, mut all) = (Vec::new(), Vec::new());
        for &reason in Reason::ALL {
            let own = known.iter().filter(|(other, _)| *other == reason).map(|(_, range)| *range);
            let own = Range::union(memory::try_collect(own)?);
            for range in &own {
                all.try_extend(range.without(&taken).into_iter().map(|part| (reason, part)))?;
            }
            taken.try_extend(own)?;
            taken = Range::union(taken);
        }
        all.sort_unstable_by_key(|(_, range)| *range);
        Ok(Grid { mapping, known: all })
    }

    /// The values of a gap by themselves, whatever numbering they were of. `None`: gaps became one
    /// row, so its values are not evenly spaced.
    pub fn of(gap: &GapRow) -> Option<Grid> {
        let (way, steps) = (gap.last as i128 - gap.first as i128, (gap.count as i128 - 1).max(1));
        let increment = if way == 0 { 1 } else { i64::try_from(way / steps).ok()? };
        let mapping = Mapping {
            base: gap.first,
            increment,
            min_value: i64::MIN,
            max_value: i64::MAX,
            cycle: false,
            stripes: Stripes::ALL,
        };
        let places = Range::of(Index::ZERO, gap.count);
        let known = vec![(Reason::from_name(&gap.reason), places)];
        (way % steps == 0 && !places.is_empty()).then_some(Grid { mapping, known })
    }

    /// The first and the last value among those examined.
    fn ends(&self) -> Option<(i64, i64)> {
        let ((_, first), (_, last)) = (self.known.first()?, self.known.last()?);
        Some((self.mapping.value(first.start)?, self.mapping.value(last.last())?))
    }

    /// The places of another numbering whose values lie between the ends of this one.
    pub fn span_on(&self, other: &Mapping) -> Range {
        self.ends().map_or(Range::EMPTY, |ends| span(other, ends))
    }

    /// Whether this one examines every value that another numbering has between the ends.
    pub fn includes(&self, other: &Mapping) -> bool {
        let Mapping { base, increment, stripes, .. } = self.mapping;
        let is_step = |way: i128| way % increment as i128 == 0;
        self.known.len() == 1
            && stripes.nodes <= 1
            && is_step(other.increment.into())
            && is_step(other.base as i128 - base as i128)
    }

    fn examines(&self, value: i64) -> bool {
        self.mapping.index_of(value).is_some_and(|place| {
            let after = self.known.partition_point(|(_, range)| range.start <= place);
            self.known[..after].last().is_some_and(|(_, range)| range.contains(place))
        })
    }

    /// Adds the values that the column lacks, but for those that grids before this one examine.
    pub fn missing(
        &self,
        values: &Values,
        before: &[Grid],
        gaps: &mut Gaps,
    ) -> Result<(), HiloError> {
        let Some((first, last)) = self.ends() else { return Ok(()) };
        let mut rest = &self.known[..];
        let mut absent = |range: Range| {
            while let Some(((_, known), others)) = rest.split_first()
                && known.end <= range.start
            {
                rest = others;
            }
            for (reason, part) in rest.iter().take_while(|(_, part)| part.start < range.end) {
                let mut add = |range| gaps.add(&self.mapping, (*reason, range));
                self.add_new(part.intersection(&range), before, &mut add);
            }
        };
        let mut next = Index::ZERO;
        let ends = (first.min(last), first.max(last));
        values.in_order(ends, Direction::of(self.mapping.increment), |value| {
            let Some(place) = self.mapping.index_of(value) else { return };
            absent(Range::new(next, place));
            next = next.max(place.next());
        })?;
        absent(Range::new(next, Index::MAX));
        gaps.flush(&self.mapping);
        Ok(())
    }

    /// The parts of `range` whose values none of the grids before this one examines.
    fn add_new(&self, range: Range, before: &[Grid], add: &mut dyn FnMut(Range)) {
        check_for_interrupts!();
        if range.is_empty() {
            return;
        }
        let Some((other, before)) = before.split_first() else { return add(range) };
        let near = other.span_on(&self.mapping).intersection(&range);
        if near.is_empty() {
            return self.add_new(range, before, add);
        }
        self.add_new(range.until(near.start), before, add);
        let mut place = if other.includes(&self.mapping) { near.end } else { near.start };
        while place < near.end {
            if !self.mapping.value(place).is_some_and(|value| other.examines(value)) {
                self.add_new(Range::of(place, 1), before, add);
            }
            place = place.next();
        }
        self.add_new(range.from(near.end), before, add);
    }
}
