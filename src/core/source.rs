//! Orders the ranges that a source has brought, and says which of them memory gets next.

use crate::error_table;
use crate::mapping::Mapping;
use crate::numbers::Index;
use crate::past::{Past, between};
use crate::range::Range;

error_table! {
    /// Why an answer of a source is refused.
    #[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
    pub enum AnswerError {
        #[error("the source has brought no values")]
        Empty,
        #[error("the source has brought {first} to {last}, which is not the direction of the \
                 sequence")]
        Backwards { first: i64, last: i64 },
        #[error("the source has brought {value}, which is not a value of the sequence")]
        #[detail("It lies beyond the bounds, or between two values.")]
        Unknown { value: i64 },
        #[error("the source has brought {first} to {last}, of which the sequence holds a part \
                 already")]
        Held { first: i64, last: i64 },
        #[error("the source has brought {first} to {last}, of which it has brought a part before")]
        Again { first: i64, last: i64 },
        #[error("the source has brought {first} to {last}, but the sequence may have served that \
                 before it had this source")]
        #[hint("Let the source continue beyond {end}: with hilo_advance if it is a sequence of \
                hilo, with setval if it is one of Postgres.")]
        Own { first: i64, last: i64, end: i64 },
    }
}

/// The values that a sequence has had before an answer.
#[derive(Clone, Copy, Debug)]
pub struct Known<'a> {
    pub mapping: &'a Mapping,
    /// The ranges that the sequence holds.
    pub held: &'a [Range],
    /// Values that it may have served before it had this source.
    pub own: &'a Past,
    /// Values that this source has brought.
    pub brought: &'a Past,
}

/// The values of an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Brought {
    /// The ranges that may be served, sorted and disjoint.
    pub ranges: Vec<Range>,
    /// Ranges that the sequence may have served before it had this source.
    pub barred: Vec<Range>,
}

/// The ranges of the values that a source has brought: `answer` has the first and the last value of
/// each.
///
/// # Errors
/// An error for the first range that cannot be served.
pub fn ranges(answer: &[(i64, i64)], known: &Known) -> Result<Brought, AnswerError> {
    let &[(first, last), ..] = answer else { return Err(AnswerError::Empty) };
    let Known { mapping, held, own, brought } = *known;
    let index = |value| mapping.index_of(value).ok_or(AnswerError::Unknown { value });
    let before = brought.certain(mapping);
    let mut new = Vec::new();
    for &(first, last) in answer {
        let range = Range::new(index(first)?, index(last)? + 1);
        if range.is_empty() {
            return Err(AnswerError::Backwards { first, last });
        }
        new.push(range);
    }
    check_disjoint(&new, mapping, held)?;
    for (range, &(first, last)) in new.iter().zip(answer) {
        if before.iter().any(|had| !had.intersection(range).is_empty()) {
            return Err(AnswerError::Again { first, last });
        }
    }
    let new = Range::union(new);
    let own = own.indexes(mapping);
    let ranges: Vec<Range> = new.iter().flat_map(|range| range.without(&own)).collect();
    let barred = new.iter().flat_map(|range| own.iter().map(|own| range.intersection(own)));
    let barred = barred.filter(|range| !range.is_empty()).collect();
    match ranges.is_empty() {
        true => {
            let end = known.own.around(last).map_or(last, |span| span.end(mapping.increment));
            Err(AnswerError::Own { first, last, end })
        }
        false => Ok(Brought { ranges, barred }),
    }
}

fn check_disjoint(new: &[Range], mapping: &Mapping, held: &[Range]) -> Result<(), AnswerError> {
    let mut all: Vec<(Range, bool)> = held.iter().map(|range| (*range, false)).collect();
    all.extend(new.iter().map(|range| (*range, true)));
    all.retain(|(range, _)| !range.is_empty());
    all.sort_unstable();
    let mut last = (Range::EMPTY, false);
    for (range, is_new) in all {
        if range.start < last.0.end && (is_new || last.1) {
            let twice = if is_new { range } else { last.0 };
            let value = |index| mapping.value(index).unwrap_or_default();
            return Err(AnswerError::Held {
                first: value(twice.start),
                last: value(twice.end - 1),
            });
        }
        // The range that reaches furthest may overlap a later one.
        if range.end > last.0.end {
            last = (range, is_new);
        }
    }
    Ok(())
}

/// The values of an answer that are not served and have to be recorded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lost {
    /// Values that the sequence has never had.
    pub new: Vec<Range>,
    /// Values that the sequence may have had.
    pub doubtful: Vec<Range>,
}

impl Known<'_> {
    /// The values of a refused answer that are lost. `recorded` has the lowest and the highest
    /// value of each gap.
    pub fn lost_of(&self, answer: &[(i64, i64)], recorded: &[(i64, i64)]) -> Lost {
        let between = |&(one, other): &(i64, i64)| between(self.mapping, one, other);
        let brought = Range::union(answer.iter().map(between).collect());
        self.lost(&brought, recorded)
    }

    /// How many values the source brings before those that the sequence has not served, if all of
    /// this answer may have been served. `None`: no more than that are left beyond them.
    pub fn to_pass(&self, answer: &[(i64, i64)]) -> Option<i64> {
        let last = answer.iter().filter_map(|(_, last)| self.mapping.index_of(*last)).max()?;
        let own = self.own.indexes(self.mapping);
        let around = own.iter().find(|range| range.start <= last && last < range.end)?;
        let (count, left) = (around.end - last - 1, self.mapping.limit() - around.end);
        (left > count).then_some(count)
    }

    /// The lost values of ranges that are sorted and disjoint.
    pub fn lost(&self, ranges: &[Range], recorded: &[(i64, i64)]) -> Lost {
        let Known { mapping, held, own, brought } = *self;
        let kept = recorded.iter().map(|(one, other)| between(mapping, *one, *other));
        let kept = kept.chain(held.iter().copied());
        let kept = kept.chain(own.certain(mapping)).chain(brought.certain(mapping));
        let kept = Range::union(kept.collect());
        let perhaps = own.indexes(mapping).into_iter().chain(brought.indexes(mapping));
        let perhaps = Range::union(perhaps.collect());
        let mut lost = Lost::default();
        for range in ranges.iter().flat_map(|range| range.without(&kept)) {
            let new = range.without(&perhaps);
            lost.doubtful.extend(range.without(&new));
            lost.new.extend(new);
        }
        lost
    }
}

/// The needs of memory, for [`choose`].
#[derive(Clone, Copy, Debug, Default)]
pub struct LendRequest {
    /// How many ranges below the position it has room for, and the index from which on they are of
    /// use.
    pub room: usize,
    pub from: Index,
    /// How many indexes beyond the position, in how many blocks at most.
    pub count: i64,
    pub places: usize,
    /// How many consecutive indexes a caller waits for; 0: none waits.
    pub need: i64,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LendPlan {
    /// Ranges below the position: sessions that have served beyond it cannot use them.
    pub returned: Vec<Range>,
    /// The next ranges in order.
    pub blocks: Vec<Range>,
    /// How many indexes are left beyond these blocks.
    pub left: i64,
    /// How many indexes callers wait for and find in none of these.
    pub unmet: i64,
}

/// Chooses what memory gets next of the free ranges, which are sorted and disjoint. All values in
/// order lie at `next` or beyond. A range too small for the waiting caller is skipped if another
/// one fits; it lies below the position then.
pub fn choose(free: &[Range], next: Index, request: &LendRequest) -> LendPlan {
    let mut plan = LendPlan::default();
    let fits = |range: &Range| range.from(next).len() >= request.need;
    let mut is_met = request.need <= 1 || !free.iter().any(fits);
    let mut count = request.count;
    for range in free {
        let below = range.until(next);
        if !below.is_empty() && below.end > request.from && plan.returned.len() < request.room {
            plan.returned.push(below);
        }
        let mut rest = range.from(next);
        if rest.is_empty() || plan.blocks.len() >= request.places || (!is_met && !fits(range)) {
            continue;
        }
        let block = rest.take(if is_met { count } else { count.max(request.need) }.max(0));
        is_met = true;
        count -= block.len();
        if !block.is_empty() {
            plan.blocks.push(block);
        }
    }
    let end = plan.blocks.last().map_or(next, |block| block.end);
    plan.left = free.iter().map(|range| range.from(end).len()).sum();
    let found = match request.need {
        0 => true,
        1 => !plan.blocks.is_empty() || !plan.returned.is_empty(),
        need => plan.blocks.iter().any(|block| block.len() >= need),
    };
    plan.unmet = if found { 0 } else { request.need };
    plan
}
