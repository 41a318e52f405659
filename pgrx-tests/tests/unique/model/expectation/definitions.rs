//! The effects of statements on definitions.

use std::collections::HashSet;

use super::{
    Changes, Counter, HELD, Line, Model, Sequence, Verdict, expect_refusal, expect_success,
    is_refused, must,
};
use crate::model::statement::{Answer, Create, Name, Statement, WIDE};

impl Line {
    fn new(first: i64, increment: i64) -> Line {
        Line {
            seen: HashSet::new(),
            counter: Counter::default(),
            first: Some(first),
            behind: None,
            grid: Some((first, increment)),
            furthest: None,
            floor: None,
            order: None,
            laps: false,
            moved: false,
            lost: 0,
        }
    }
}

impl Model {
    fn line(&mut self, first: i64, increment: i64) -> usize {
        self.lines.push(Line::new(first, increment));
        self.lines.len() - 1
    }

    /// A line of the transaction's own: it serves that.
    fn own_line(&mut self, who: usize, id: u32, first: i64, increment: i64) -> usize {
        let line = self.line(first, increment);
        if let Some(transaction) = &mut self.sessions[who].transaction {
            transaction.own.insert(line);
            transaction.barred.remove(&id);
            transaction.perhaps_barred.remove(&id);
        }
        line
    }

    /// A name stands for something else, or nothing, from now on.
    pub(super) fn set(&mut self, who: usize, name: Name, sequence: Option<Sequence>) {
        let before = self.find(who, name);
        let mut changes = Changes::default();
        changes.locked.extend(before.iter().chain(&sequence).map(|sequence| sequence.id));
        // The line is another one, or the name: so is what it serves. A gapless one always waits.
        let line =
            |sequence: &Option<Sequence>| sequence.as_ref().map(|found| (found.id, found.line));
        let gapless = before.iter().chain(&sequence).any(|sequence| sequence.gapless);
        if line(&before) != line(&sequence) || gapless {
            changes.closed.clone_from(&changes.locked);
        }
        self.sessions[who].unpreparable = true;
        changes.names.insert(name, sequence);
        self.apply(who, |known| {
            known.names.append(&mut changes.names);
            known.locked.append(&mut changes.locked);
            known.closed.append(&mut changes.closed);
        });
    }

    /// The numbers of a line continue in another way.
    fn renumber(&mut self, who: usize, sequence: &Sequence, altered: &mut Sequence) {
        let increment = altered.increment;
        let mut counter = self.counter(who, altered.line);
        counter.next = match (counter.moved, counter.last) {
            (true, _) => None,
            (false, Some(last)) => Some(last + increment),
            (false, None) => counter.next,
        };
        if increment.signum() != sequence.increment.signum() {
            // A number that the other way serves is spent for this one, if that is rolled back.
            self.lines[sequence.line].first = None;
            altered.line = self.line(0, increment);
            self.lines[altered.line].first = None;
        }
        if altered.gapless {
            self.apply(who, |changes| {
                changes.counters.insert(altered.line, counter);
            });
        }
        let moved = self.has_moved(who, sequence.line);
        let line = &mut self.lines[altered.line];
        line.grid = None;
        line.laps |= altered.cycle || sequence.cycle;
        line.first = line.first.filter(|_| !moved);
        line.first = line.first.map(|first| line.behind.map_or(first, |value| value + increment));
        self.apply(who, |changes| changes.closed.extend([sequence.id]));
        self.bar(who, sequence, altered);
    }

    /// Who continues everybody's numbers in another way draws nothing until the commit.
    fn bar(&mut self, who: usize, sequence: &Sequence, altered: &Sequence) {
        let Some(transaction) = &mut self.sessions[who].transaction else { return };
        let toggled = sequence.gapless != altered.gapless;
        if transaction.own.contains(&sequence.line) {
            transaction.own.insert(altered.line);
            if toggled {
                transaction.perhaps_barred.insert(sequence.id);
            }
        } else if toggled || !sequence.gapless {
            transaction.barred.insert(sequence.id);
        }
    }

    /// Changes the bounds.
    fn judge_bounds(
        &mut self,
        who: usize,
        sequence: Sequence,
        name: Name,
        (min, max): (i64, i64),
        answer: &Answer,
    ) -> Verdict {
        let values = (max as i128 - min as i128) / sequence.increment.abs() as i128 + 1;
        let line = &self.lines[sequence.line];
        let furthest = match sequence.gapless {
            true => self.counter(who, sequence.line).last,
            false => line.furthest,
        };
        let last = furthest.or(line.first);
        let moved = line.moved || self.has_moved(who, sequence.line);
        let out = |value: i64| value < min || value > max;
        if min >= max
            || out(sequence.start)
            || values < sequence.block.unwrap_or(1) as i128
            || (!line.laps && !moved && furthest.is_some_and(out))
        {
            return expect_refusal(answer, &["22023"]);
        }
        // A range that is reserved or held somewhere is not known here.
        let lost = HELD + line.lost;
        let sure = !line.laps
            && !moved
            && !sequence.gapless
            && last.is_some_and(|last| {
                let bound = if sequence.increment > 0 { max } else { min };
                !out(last) && (bound - last).abs() / sequence.increment.abs() > lost
            });
        if !sure && matches!(answer, Answer::Refused(_)) {
            return expect_refusal(answer, &["22023"]);
        }
        expect_success(answer)?;
        let mut altered = Sequence { min, max, ..sequence.clone() };
        if sequence.cycle && (min, max) != (sequence.min, sequence.max) {
            self.renumber(who, &sequence, &mut altered);
        }
        self.set(who, name, Some(altered));
        Ok(())
    }

    /// The bounds of what a session may be served: of shared numbers, those of before as well.
    pub(super) fn bounds(&self, who: usize, sequence: &Sequence) -> (i64, i64) {
        let own = self.sessions[who].transaction.as_ref();
        if own.is_none_or(|own| own.own.contains(&sequence.line)) {
            return (sequence.min, sequence.max);
        }
        let (min, max) = self.committed_bounds(sequence);
        (min.max(sequence.min), max.min(sequence.max))
    }

    /// The bounds that all see, if all see the sequence.
    fn committed_bounds(&self, sequence: &Sequence) -> (i64, i64) {
        let before = self.committed.values().find(|before| before.id == sequence.id);
        before.map_or((sequence.min, sequence.max), |before| (before.min, before.max))
    }

    /// A gapless sequence begins like this.
    fn stand(&mut self, who: usize, line: usize, next: i64, last: Option<i64>) {
        let counter = Counter { next: Some(next), last, moved: false };
        self.apply(who, |changes| {
            changes.counters.insert(line, counter);
        });
    }

    /// A sequence that begins with a value of its own.
    fn begin(&mut self, who: usize, name: Name, first: i64, created: Sequence) {
        self.ids += 1;
        let id = self.ids;
        let line = self.own_line(who, id, first, created.increment);
        self.stand(who, line, first, None);
        self.set(who, name, Some(Sequence { id, line, ..created }));
    }

    fn create(&mut self, who: usize, create: &Create, answer: &Answer) -> Verdict {
        expect_success(answer)?;
        let Create { name, start, increment, ordered, .. } = *create;
        let (min, max) = create.bounds();
        let created = Sequence {
            block: create.block.then_some(2),
            ordered,
            gapless: create.gapless,
            ..plain(start, increment, (min, max))
        };
        self.begin(who, name, start, created);
        Ok(())
    }

    /// A column takes its default from a new sequence.
    fn appear(&mut self, who: usize, statement: &Statement, answer: &Answer) -> Verdict {
        expect_success(answer)?;
        let own = Some(self.tables);
        match *statement {
            Statement::Adopt { name, start, increment } => {
                let adopted = plain(start, increment, (-WIDE, WIDE));
                self.begin(who, name, start, Sequence { own, ..adopted });
            }
            Statement::CreateMissing { name, largest } => {
                let next = largest + 1;
                must(
                    matches!(answer, Answer::Values(values) if *values == [next]),
                    format!("{answer:?}, not {next}"),
                )?;
                self.begin(who, name, next, Sequence { own, ..plain(1, 1, (1, i64::MAX)) });
            }
            _ => unreachable!("{statement:?} creates nothing"),
        }
        Ok(())
    }

    pub(super) fn judge_definition(
        &mut self,
        who: usize,
        statement: &Statement,
        answer: &Answer,
    ) -> Verdict {
        use Statement::*;
        if let Truncate { table } = statement {
            return self.truncate(who, *table, answer);
        }
        let takes_all = matches!(statement, CreateMissing { .. } | Alter { by_document: true, .. })
            || matches!(statement, Create(create) if create.by_document);
        if takes_all {
            self.apply(who, |changes| changes.alone = true);
        }
        let found = self.find(who, statement.names()[0]);
        match (statement, found) {
            (Create(_) | Adopt { .. } | CreateMissing { .. }, Some(_)) => {
                expect_refusal(answer, &["42710"])
            }
            (Create(create), None) => self.create(who, create, answer),
            (Adopt { .. } | CreateMissing { .. }, None) => self.appear(who, statement, answer),
            (_, None) => expect_refusal(answer, &["42704"]),
            (Alter { .. } | Cycle { .. } | Gapless { .. }, Some(found)) => {
                self.judge_alteration(who, statement, found, answer)
            }
            (Restart { .. } | Setval { .. }, Some(found)) => {
                self.judge_restart(who, statement, found, answer)
            }
            (Bound { name, largest, value }, Some(found)) => {
                let bounds = if *largest { (found.min, *value) } else { (*value, found.max) };
                self.judge_bounds(who, found, *name, bounds, answer)
            }
            (_, Some(found)) => self.judge_redefinition(who, statement, found, answer),
        }
    }

    /// Alterations that may change what an index stands for.
    fn judge_alteration(
        &mut self,
        who: usize,
        statement: &Statement,
        sequence: Sequence,
        answer: &Answer,
    ) -> Verdict {
        use Statement::*;
        let mut altered = sequence.clone();
        let Sequence { min, max, .. } = sequence;
        match *statement {
            // A document that asks for no change locks nothing.
            Alter { increment, by_document: true, .. } if increment == sequence.increment => {
                return expect_success(answer);
            }
            Alter { increment, .. } => {
                let values = (max as i128 - min as i128) / increment.abs() as i128 + 1;
                if values < sequence.block.unwrap_or(1) as i128 {
                    return expect_refusal(answer, &["22023"]);
                }
                altered.increment = increment;
            }
            Cycle { yes: true, .. } if sequence.gapless => {
                return expect_refusal(answer, &["0A000"]);
            }
            Cycle { yes, .. } => altered.cycle = yes,
            Gapless { yes: true, .. } if sequence.block.is_some() || sequence.cycle => {
                return expect_refusal(answer, &["22023", "0A000"]);
            }
            Gapless { yes, .. } => altered.gapless = yes,
            _ => unreachable!("{statement:?} renumbers nothing"),
        }
        // Values that others hold, or have drawn since, may be beyond bounds that are not
        // committed.
        if self.bounds(who, &sequence) != self.committed_bounds(&sequence)
            && is_refused(answer, &["22023"])
        {
            return Ok(());
        }
        expect_success(answer)?;
        if altered.gapless != sequence.gapless {
            self.toggle(who, &mut altered);
        }
        let same = (altered.increment, altered.cycle, altered.gapless)
            == (sequence.increment, sequence.cycle, sequence.gapless);
        if !same {
            self.renumber(who, &sequence, &mut altered);
        }
        self.set(who, statement.names()[0], Some(altered));
        Ok(())
    }

    /// A gapless sequence becomes an ordinary one, or the other way.
    fn toggle(&mut self, who: usize, sequence: &mut Sequence) {
        let Sequence { line, increment, .. } = *sequence;
        if sequence.gapless {
            let moved = self.has_moved(who, line);
            let known = &self.lines[line];
            let next = known.first.filter(|_| !known.laps && !moved);
            let last = known.behind.filter(|_| next.is_some());
            let counter = Counter { next, last, moved: next.is_none() };
            self.apply(who, |changes| {
                changes.counters.insert(line, counter);
            });
            return;
        }
        let Counter { next, last, moved } = self.counter(who, line);
        if let Some(next) = next {
            sequence.line = self.line(next, increment);
            let line = &mut self.lines[sequence.line];
            line.behind = last.filter(|_| !moved);
            line.moved = moved;
            line.floor = Some(next - increment);
        }
    }

    /// The caller says where numbers begin.
    fn judge_restart(
        &mut self,
        who: usize,
        statement: &Statement,
        sequence: Sequence,
        answer: &Answer,
    ) -> Verdict {
        let (name, value, called, code) = match *statement {
            Statement::Setval { name, value, called } => (name, value, called, "22003"),
            Statement::Restart { name, with } => (name, with, false, "22023"),
            _ => unreachable!("{statement:?} restarts nothing"),
        };
        if !sequence.is_within(value) {
            return expect_refusal(answer, &[code]);
        }
        expect_success(answer)?;
        self.restart(who, name, sequence, value, called);
        Ok(())
    }

    fn restart(&mut self, who: usize, name: Name, sequence: Sequence, value: i64, called: bool) {
        let Sequence { id, increment, .. } = sequence;
        let first = value + if called { increment } else { 0 };
        let line = self.own_line(who, id, first, increment);
        self.lines[line].laps = sequence.cycle;
        if called {
            self.lines[line].behind = Some(value);
            self.sessions[who].current.insert(id, Some(value));
        }
        self.stand(who, line, first, called.then_some(value));
        self.set(who, name, Some(Sequence { line, ..sequence }));
    }

    /// All sequences that columns of the table own restart.
    fn truncate(&mut self, who: usize, table: u8, answer: &Answer) -> Verdict {
        expect_success(answer)?;
        self.apply(who, |changes| {
            changes.homes.insert(table);
        });
        for name in 0..3 {
            if let Some(found) = self.find(who, name).filter(|found| found.home == Some(table)) {
                let start = found.start;
                self.restart(who, name, found, start, false);
            }
        }
        Ok(())
    }

    /// A change that leaves each number its place.
    fn judge_redefinition(
        &mut self,
        who: usize,
        statement: &Statement,
        sequence: Sequence,
        answer: &Answer,
    ) -> Verdict {
        use Statement::*;
        let name = statement.names()[0];
        match *statement {
            Tune { block, .. } => {
                let values = (sequence.max as i128 - sequence.min as i128)
                    / sequence.increment.abs() as i128
                    + 1;
                if values < block as i128 || sequence.gapless {
                    return expect_refusal(answer, &["22023"]);
                }
                expect_success(answer)?;
                self.set(who, name, Some(Sequence { block: Some(block), ..sequence }));
            }
            Ordered { yes, .. } => {
                expect_success(answer)?;
                self.set(who, name, Some(Sequence { ordered: yes, ..sequence }));
            }
            Own { table, .. } => {
                expect_success(answer)?;
                self.apply(who, |changes| {
                    changes.homes.insert(table);
                });
                self.set(who, name, Some(Sequence { home: Some(table), ..sequence }));
            }
            Rename { to, .. } => {
                if self.find(who, to).is_some() {
                    return expect_refusal(answer, &["42710"]);
                }
                expect_success(answer)?;
                self.set(who, name, None);
                self.set(who, to, Some(sequence));
            }
            Drop { .. } => {
                expect_success(answer)?;
                self.set(who, name, None);
            }
            Unadopt { .. } => return self.judge_release(who, name, sequence, answer),
            _ => unreachable!("{statement:?} defines nothing"),
        }
        Ok(())
    }

    /// Core's sequence continues with a number that was not served.
    fn judge_release(
        &mut self,
        who: usize,
        name: Name,
        sequence: Sequence,
        answer: &Answer,
    ) -> Verdict {
        let line = &self.lines[sequence.line];
        match answer {
            Answer::Values(values) => {
                let fresh = line.laps || !values.iter().any(|value| line.seen.contains(value));
                must(values.len() == 1 && fresh, format!("{values:?}"))?;
                self.set(who, name, None);
                Ok(())
            }
            // Nothing is left for core's sequence either, or it steps otherwise.
            _ if self.may_be_gone(who).1 && is_refused(answer, &["42704"]) => Ok(()),
            _ => expect_refusal(answer, &["2200H", "55000", "0A000", "22023"]),
        }
    }
}

/// A sequence as hilo_create makes it without further options.
fn plain(start: i64, increment: i64, (min, max): (i64, i64)) -> Sequence {
    Sequence {
        id: 0,
        line: 0,
        increment,
        min,
        max,
        block: None,
        start,
        cycle: false,
        ordered: false,
        gapless: false,
        home: None,
        own: None,
    }
}
