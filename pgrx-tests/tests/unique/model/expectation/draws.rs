//! The values that draws may return.

use super::{
    Counter, HELD, Model, Sequence, Verdict, Wait, beyond, expect_refusal, is_refused, later, must,
};
use crate::model::statement::{Answer, Name, Statement};

impl Model {
    pub(super) fn current(&self, who: usize, name: Name, answer: &Answer) -> Verdict {
        let Some(sequence) = self.find(who, name) else {
            return expect_refusal(answer, &["42704"]);
        };
        match (self.sessions[who].current.get(&sequence.id), answer) {
            (None, _) => expect_refusal(answer, &["55000"]),
            (Some(None), _) => Ok(()),
            (Some(Some(value)), Answer::Values(values)) if *values == [*value] => Ok(()),
            (Some(Some(value)), _) => Err(format!("{answer:?}, not {value}")),
        }
    }

    pub(super) fn judge_draw(
        &mut self,
        who: usize,
        statement: &Statement,
        answer: &Answer,
    ) -> Verdict {
        let name = statement.names()[0];
        let wait = self.waits(who, statement);
        let Some(sequence) = self.find(who, name) else {
            // It looks no name up for no values.
            let none = matches!(statement, Statement::Nextvals { count: 0, .. });
            return if none { Ok(()) } else { expect_refusal(answer, &["42704"]) };
        };
        if let Statement::Nextvals { count: 0, .. } = statement {
            return must(matches!(answer, Answer::Values(values) if values.is_empty()), "values");
        }
        if wait != Wait::No && is_refused(answer, &["55P03"]) {
            return self.note_lost(who, &sequence, statement);
        }
        if self.is_unfit(who, &sequence, statement, answer)? {
            return Ok(());
        }
        let transaction = self.sessions[who].transaction.as_ref();
        let barred = transaction.map(|own| {
            let shared = !own.own.contains(&sequence.line);
            let moved = own.moves.iter().filter(|moved| shared && moved.line == sequence.line);
            let surely =
                moved.clone().any(|moved| moved.surely) || own.barred.contains(&sequence.id);
            (surely, moved.count() > 0 || own.perhaps_barred.contains(&sequence.id))
        });
        match barred {
            Some((true, _)) => return expect_refusal(answer, &["55000"]),
            Some((_, true)) if is_refused(answer, &["55000"]) => return Ok(()),
            _ => {}
        }
        if sequence.gapless {
            return self.judge_gapless(who, sequence, statement, answer);
        }
        match answer {
            Answer::Values(values) => self.judge_values(who, &sequence, statement, values),
            Answer::Leased(token, values) => {
                self.judge_values(who, &sequence, statement, values)?;
                self.judge_lease(who, &sequence, statement, token, values);
                Ok(())
            }
            Answer::Refused(code) => self.judge_exhausted(who, &sequence, statement, code),
            Answer::Done => Err("no values".into()),
        }
    }

    /// Whether the sequence refuses such draws at all.
    fn is_unfit(
        &self,
        who: usize,
        sequence: &Sequence,
        statement: &Statement,
        answer: &Answer,
    ) -> Result<bool, String> {
        let before = self.committed.values().find(|before| before.id == sequence.id);
        let before = before.filter(|_| self.is_open(who)).unwrap_or(sequence);
        let any = |unfit: &dyn Fn(&Sequence) -> bool, codes: &[&str]| {
            let (one, other) = (unfit(sequence), unfit(before));
            match one || other {
                true if is_refused(answer, codes) => Ok(true),
                true if one && other => Err(format!("{answer:?}, not one of {codes:?}")),
                _ => Ok(false),
            }
        };
        match statement {
            Statement::Lease { .. } => {
                any(&|found| found.gapless || found.ordered || found.cycle, &["0A000", "55000"])
            }
            Statement::NextHi { .. } => {
                any(&|found| found.gapless || found.block.is_none(), &["0A000", "22023", "55000"])
            }
            _ => Ok(false),
        }
    }

    /// How many values the statement asks for: at least, and at most.
    fn bounds_of_count(sequence: &Sequence, statement: &Statement) -> (i64, i64) {
        use Statement::*;
        match statement {
            Nextvals { count, .. } | Nextrange { count, .. } => (*count, *count),
            NextHi { .. } => (sequence.block.unwrap_or(1), i64::MAX),
            Lease { count, .. } => (1, *count),
            _ => (1, 1),
        }
    }

    /// A gapless sequence serves exactly the next ones.
    fn judge_gapless(
        &mut self,
        who: usize,
        sequence: Sequence,
        statement: &Statement,
        answer: &Answer,
    ) -> Verdict {
        let Sequence { id, increment, .. } = sequence;
        let (count, _) = Self::bounds_of_count(&sequence, statement);
        let next = self.counter(who, sequence.line).next;
        let Answer::Values(values) = answer else {
            self.sessions[who].counted.insert(id);
            self.sessions[who].current.insert(id, None);
            let left = next.map(|next| match beyond(next, sequence.end(), increment) {
                true => 0,
                false => (sequence.end() - next) / increment + 1,
            });
            expect_refusal(answer, &["2200H"])?;
            return must(left.is_none_or(|left| left < count), format!("{left:?} are left"));
        };
        must(values.len() as i64 == count, format!("{} values", values.len()))?;
        let line = &self.lines[sequence.line];
        let after = later(line.furthest, line.floor, increment).filter(|_| !line.laps);
        let first = next.unwrap_or(values[0]);
        must(
            next.is_some() || after.is_none_or(|after| beyond(first, after, increment)),
            format!("{first} after {after:?}"),
        )?;
        for (at, value) in values.iter().enumerate() {
            let due = first + at as i64 * increment;
            must(*value == due, format!("{value}, not {due}"))?;
            must(sequence.is_within(*value), format!("{value} is out of bounds"))?;
            must(line.laps || !line.seen.contains(value), format!("{value} came before"))?;
        }
        let last = values.last().copied();
        let next = last.map(|last| last + increment);
        self.sessions[who].current.insert(id, last);
        self.sessions[who].counted.insert(id);
        self.count(who, &sequence, Counter { next, last, moved: false });
        Ok(())
    }

    /// A gapless sequence stands elsewhere; others wait until that is committed.
    pub(super) fn count(&mut self, who: usize, sequence: &Sequence, counter: Counter) {
        let Sequence { id, line, .. } = *sequence;
        self.apply(who, |changes| {
            changes.counters.insert(line, counter);
            changes.closed.insert(id);
            changes.touched.insert(id);
        });
    }

    /// Nothing up to here may come.
    fn floor(&self, who: usize, sequence: &Sequence) -> Option<i64> {
        let own = self.sessions[who].transaction.iter().flat_map(|own| &own.moves);
        let own = own.filter(|moved| moved.whole && moved.line == sequence.line);
        own.fold(self.lines[sequence.line].floor, |floor, moved| {
            later(floor, Some(moved.value), sequence.increment)
        })
    }

    fn judge_values(
        &mut self,
        who: usize,
        sequence: &Sequence,
        statement: &Statement,
        values: &[i64],
    ) -> Verdict {
        let Sequence { id, increment, .. } = *sequence;
        let (least, most) = Self::bounds_of_count(sequence, statement);
        let got = values.len() as i64;
        must((least..=most).contains(&got), format!("{got} values"))?;
        let expected = self.first(who, sequence);
        let floor = self.floor(who, sequence);
        let (min, max) = self.bounds(who, sequence);
        let in_order = !matches!(statement, Statement::NextHi { .. } | Statement::Lease { .. });
        let before = self.committed.values().find(|before| before.id == id);
        let ordered = in_order
            && sequence.ordered
            && before.is_some_and(|before| before.ordered && before.line == sequence.line);
        let line = &mut self.lines[sequence.line];
        line.first = None;
        let hi = matches!(statement, Statement::NextHi { .. });
        must(
            hi || expected.is_none_or(|first| values[0] == first),
            format!("{values:?}, not {expected:?}"),
        )?;
        let session = &mut self.sessions[who];
        for value in values {
            must((min..=max).contains(value), format!("{value} is out of {min} to {max}"))?;
            if line.laps {
                session.latest.insert(sequence.line, *value);
                continue;
            }
            let is_after =
                |other: Option<i64>| other.is_none_or(|other| beyond(*value, other, increment));
            must(line.seen.insert(*value), format!("{value} came before"))?;
            must(is_after(floor), format!("{value} is not beyond {floor:?}"))?;
            if in_order {
                let latest = session.latest.insert(sequence.line, *value);
                must(is_after(latest), format!("{value} after {latest:?}"))?;
            }
            if ordered {
                must(is_after(line.order), format!("{value} after {:?}", line.order))?;
                line.order = Some(*value);
            }
            // A block of classic Hi/Lo lies in steps from the start value.
            must(
                hi || line.grid.is_none_or(|(first, step)| (value - first) % step == 0),
                format!("{value} is between the steps"),
            )?;
            line.furthest = later(line.furthest, Some(*value), increment);
        }
        if in_order {
            session.current.insert(id, values.last().copied());
        } else if hi {
            session.current.insert(id, None);
        }
        Ok(())
    }

    /// The values of a statement may have been drawn although it failed.
    fn note_lost(&mut self, who: usize, sequence: &Sequence, statement: &Statement) -> Verdict {
        if matches!(statement, Statement::Nextvals { .. }) {
            self.lines[sequence.line].first = None;
            self.sessions[who].current.insert(sequence.id, None);
        }
        Ok(())
    }

    fn judge_exhausted(
        &mut self,
        who: usize,
        sequence: &Sequence,
        statement: &Statement,
        code: &str,
    ) -> Verdict {
        use Statement::*;
        let Sequence { increment, cycle, .. } = *sequence;
        let (min, max) = self.bounds(who, sequence);
        let (count, _) = Self::bounds_of_count(sequence, statement);
        let bound = if increment > 0 { max } else { min };
        let first = self.first(who, sequence);
        let there = first.map(|first| (bound - first) / increment + 1);
        let line = &self.lines[sequence.line];
        let floor = self.floor(who, sequence);
        let reached = later(line.furthest, floor, increment);
        // Others may hold the last ones.
        let far = |last: i64| (bound - last) / increment - count > HELD + line.lost;
        let moved = line.moved || self.has_moved(who, sequence.line);
        let left = !line.laps && !moved && reached.is_some_and(far);
        self.note_lost(who, sequence, statement)?;
        match code {
            "55000" if cycle && matches!(statement, Nextrange { .. }) => Ok(()),
            "2200H" if matches!(statement, NextHi { .. }) => Ok(()),
            "2200H" => must(
                !left && there.is_none_or(|there| there < count),
                format!("there should be values: {there:?}, behind {reached:?}"),
            ),
            _ => Err(code.to_owned()),
        }
    }

    /// The first value for this session, while nobody has tried to draw one.
    fn first(&self, who: usize, sequence: &Sequence) -> Option<i64> {
        let line = &self.lines[sequence.line];
        let first = line.first.filter(|_| !line.laps)?;
        let own = self.sessions[who].transaction.iter().flat_map(|own| &own.moves);
        let mut own = own.filter(|moved| moved.line == sequence.line);
        own.try_fold(first, |first, moved| moved.first(first))
    }
}
