//! Orders the ranges that a source has brought, and says which of them memory gets next.

use crate::error_table;
use crate::mapping::Mapping;
use crate::numbers::Index;
use crate::range::Range;

error_table! {
    /// Why nothing is served of what a source has brought.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub enum AnswerError {
        Empty = "the source has brought no values";
        Backwards { first: i64, last: i64 }
            = "the source has brought {first} to {last}, which is not the direction of the \
               sequence";
        Unknown { value: i64 }
            = "the source has brought {value}, which is not a value of the sequence"
            => detail "It lies beyond the bounds, or between two values.";
        Held { first: i64, last: i64 }
            = "the source has brought {first} to {last}, of which the sequence holds a part \
               already";
        Own { first: i64, last: i64 }
            = "the source has brought {first} to {last}, but the sequence may have served a part \
               before it had this source";
    }
}

/// The ranges of the values that a source has brought, sorted and disjoint: `answer` are the first
/// and the last value of each. `held` are the ranges that the sequence has, and `barred` the lowest
/// and the highest of the values that it may have served before.
///
/// # Errors
/// Says what is wrong with the first that cannot be served.
pub fn ranges(
    answer: &[(i64, i64)],
    mapping: &Mapping,
    held: &[Range],
    barred: Option<(i64, i64)>,
) -> Result<Vec<Range>, AnswerError> {
    if answer.is_empty() {
        return Err(AnswerError::Empty);
    }
    let index = |value| mapping.index_of(value).ok_or(AnswerError::Unknown { value });
    let mut brought = Vec::new();
    for &(first, last) in answer {
        let range = Range::new(index(first)?, index(last)? + 1);
        if range.is_empty() {
            return Err(AnswerError::Backwards { first, last });
        }
        let (low, high) = (first.min(last), first.max(last));
        if barred.is_some_and(|(from, to)| low <= to && from <= high) {
            return Err(AnswerError::Own { first, last });
        }
        brought.push(range);
    }
    let mut all: Vec<(Range, bool)> = held.iter().map(|range| (*range, false)).collect();
    all.extend(brought.iter().map(|range| (*range, true)));
    all.retain(|(range, _)| !range.is_empty());
    all.sort_unstable();
    let mut last = (Range::EMPTY, false);
    for (range, new) in all {
        if range.start < last.0.end && (new || last.1) {
            let twice = if new { range } else { last.0 };
            let value = |index| mapping.value(index).unwrap_or_default();
            return Err(AnswerError::Held {
                first: value(twice.start),
                last: value(twice.end - 1),
            });
        }
        // The range that reaches furthest may overlap what comes later.
        if range.end > last.0.end {
            last = (range, new);
        }
    }
    Ok(Range::union(brought))
}

/// The ranges of the values in a refused answer that are lost. They are the sequence's, which
/// neither holds them nor may have served them before. `answer`, `mapping` and `held` are those of
/// [`ranges`]. `known` are the lowest and the highest of values that it has had, by each way.
pub fn lost(
    answer: &[(i64, i64)],
    mapping: &Mapping,
    held: &[Range],
    known: &[(i64, i64)],
) -> Vec<Range> {
    let between = |&(one, other): &(i64, i64)| {
        let (low, high) = (one.min(other), one.max(other));
        let (first, last) = if mapping.increment > 0 { (low, high) } else { (high, low) };
        Range::new(mapping.first_index_from(first), mapping.first_index_beyond(last))
            .intersection(&mapping.indexes())
    };
    let kept = held.iter().copied().chain(known.iter().map(between));
    let kept = Range::union(kept.collect());
    let brought = Range::union(answer.iter().map(between).collect());
    brought.iter().flat_map(|range| range.without(&kept)).collect()
}

/// The part of the free ranges that memory is to get.
#[derive(Clone, Copy, Debug, Default)]
pub struct Wish {
    /// How many ranges below the position, and from which index on they are of use.
    pub room: usize,
    pub from: Index,
    /// How many indexes beyond the position, in how many blocks at most.
    pub count: i64,
    pub places: usize,
    /// How many consecutive indexes a caller waits for; 0: none waits.
    pub need: i64,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Chosen {
    /// Ranges below the position: sessions that have served beyond it cannot use them.
    pub returned: Vec<Range>,
    /// The next ranges in order.
    pub blocks: Vec<Range>,
    /// How many indexes are left beyond that.
    pub left: i64,
    /// The ranges that callers wait for and find in none of these.
    pub unmet: i64,
}

/// Chooses of the free ranges, which are sorted and disjoint, what memory gets next. All values in
/// order lie at `next` or beyond. A range too small for the caller who waits is skipped, if another
/// fits; it lies below the position then.
pub fn choose(free: &[Range], next: Index, wish: &Wish) -> Chosen {
    let mut chosen = Chosen::default();
    let fits = |range: &Range| range.from(next).len() >= wish.need;
    let mut is_met = wish.need <= 1 || !free.iter().any(fits);
    let mut count = wish.count;
    for range in free {
        let below = range.until(next);
        if !below.is_empty() && below.end > wish.from && chosen.returned.len() < wish.room {
            chosen.returned.push(below);
        }
        let mut rest = range.from(next);
        if rest.is_empty() || chosen.blocks.len() >= wish.places || (!is_met && !fits(range)) {
            continue;
        }
        let block = rest.take(if is_met { count } else { count.max(wish.need) }.max(0));
        is_met = true;
        count -= block.len();
        if !block.is_empty() {
            chosen.blocks.push(block);
        }
    }
    let end = chosen.blocks.last().map_or(next, |block| block.end);
    chosen.left = free.iter().map(|range| range.from(end).len()).sum();
    let found = match wish.need {
        0 => true,
        1 => !chosen.blocks.is_empty() || !chosen.returned.is_empty(),
        need => chosen.blocks.iter().any(|block| block.len() >= need),
    };
    chosen.unmet = if found { 0 } else { wish.need };
    chosen
}
