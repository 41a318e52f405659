//! hilo_advance and hilo_sync: numbers are left out, and nothing comes again.

use super::{Counter, Line, Model, Sequence, Verdict, beyond, expect_refusal, later, must};
use crate::model::statement::{Answer, Statement, TAKEN};

/// A transaction has moved a line.
#[derive(Clone, Debug)]
pub struct Move {
    pub line: usize,
    pub value: i64,
    /// Nothing up to the value may come, rather than just the value.
    pub whole: bool,
    /// Whether there was something to move, so that the transaction cannot draw.
    pub surely: bool,
    increment: i64,
    /// The value that was said to come next.
    next: Option<i64>,
}

impl Move {
    /// The first value after it, where nobody has drawn; `None`: not known, or there is none.
    pub fn first(&self, first: i64) -> Option<i64> {
        if beyond(first, self.value, self.increment) { Some(first) } else { self.next }
    }
}

impl Model {
    /// Whether a line was moved, here or for all.
    pub(super) fn has_moved(&self, who: usize, line: usize) -> bool {
        let own = self.sessions[who].transaction.iter().flat_map(|own| &own.moves);
        self.lines[line].moved || own.into_iter().any(|moved| moved.line == line)
    }

    pub(super) fn settle_move(&mut self, moved: &Move) {
        let Line { first, floor, seen, moved: was_moved, .. } = &mut self.lines[moved.line];
        *was_moved = true;
        *first = first.and_then(|first| moved.first(first));
        match moved.whole {
            true => *floor = later(*floor, Some(moved.value), moved.increment),
            false => drop(seen.insert(moved.value)),
        }
    }

    pub(super) fn judge_move(
        &mut self,
        who: usize,
        statement: &Statement,
        answer: &Answer,
    ) -> Verdict {
        let (name, value, whole) = match *statement {
            Statement::Advance { name, at_least } => (name, at_least, true),
            Statement::Sync { name, column } => (name, TAKEN[column], false),
            _ => unreachable!("{statement:?} moves nothing"),
        };
        let Some(sequence) = self.find(who, name) else {
            return expect_refusal(answer, &["42704"]);
        };
        let Sequence { id, increment, cycle, line, .. } = sequence;
        if cycle && whole {
            return expect_refusal(answer, &["0A000"]);
        }
        self.sessions[who].unpreparable = true;
        self.apply(who, |changes| {
            changes.touched.insert(id);
        });
        let Answer::Values(values) = answer else { return Err(format!("{answer:?}")) };
        let next = values.first().copied();
        // A value that a column holds beyond the last bound is in nobody's way.
        let is_in_the_way = whole || !beyond(value, sequence.end(), increment);
        if sequence.gapless && self.counter(who, line).next.is_some() {
            return self.count_on(who, &sequence, (value, is_in_the_way), next);
        }
        if self.lines[line].laps || cycle || !is_in_the_way {
            return Ok(());
        }
        must(
            next.is_none_or(|next| beyond(next, value, increment) && sequence.is_within(next)),
            format!("{next:?} is not beyond {value}"),
        )?;
        let fresh = !sequence.gapless && !self.has_moved(who, line);
        let first = self.lines[line].first.filter(|_| fresh);
        let surely = first.is_some_and(|first| {
            !beyond(first, value, increment) && !beyond(first, sequence.end(), increment)
        });
        if let Some(first) = first {
            let due = next_of(first, increment, value);
            let due = Some(due).filter(|due| sequence.is_within(*due));
            must(next == due, format!("{next:?}, not {due:?}"))?;
        }
        let moved = Move { line, value, whole, surely, increment, next };
        self.apply(who, |changes| changes.moves.push(moved));
        Ok(())
    }

    /// A gapless sequence stands exactly there.
    fn count_on(
        &mut self,
        who: usize,
        sequence: &Sequence,
        (value, is_in_the_way): (i64, bool),
        said: Option<i64>,
    ) -> Verdict {
        let counter = self.counter(who, sequence.line);
        let due = match counter.next {
            Some(next) if is_in_the_way => Some(next_of(next, sequence.increment, value)),
            known => known,
        };
        let within = due.filter(|due| sequence.is_within(*due));
        must(said == within, format!("{said:?}, not {within:?}"))?;
        let steps_over = |last| is_in_the_way && beyond(value, last, sequence.increment);
        if due == counter.next && !counter.last.is_some_and(steps_over) {
            return Ok(());
        }
        self.count(who, sequence, Counter { next: due, moved: true, ..counter });
        if let Some(transaction) = &mut self.sessions[who].transaction {
            transaction.perhaps_barred.insert(sequence.id);
        }
        Ok(())
    }
}

/// The first value beyond another one, in steps from `first`.
fn next_of(first: i64, increment: i64, value: i64) -> i64 {
    if beyond(first, value, increment) {
        return first;
    }
    first + ((value - first) / increment + 1) * increment
}
