//! What may come. A *line* is a numbering of a sequence: none of its values may come twice, and each session
//! sees them in order, whatever is committed or rolled back. A definition is seen by others when it is
//! committed; a session that touches one that another session has not yet committed must wait,
//! here without success.
//!
//! Who alters what leaves each number its place draws from the pool meanwhile, as everybody does: within
//! the old bounds and the new ones. Who changes the increment, or a lap, draws nothing until the commit,
//! unless the numbers are the transaction's own.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use crate::statement::{Answer, Name, Statement};

#[derive(Clone, Debug)]
struct Sequence {
    id: u32,
    line: usize,
    increment: i64,
    min: i64,
    max: i64,
    /// Values in a block, where it is fixed.
    block: i64,
    start: i64,
    cycle: bool,
}

#[derive(Debug)]
struct Line {
    seen: HashSet<i64>,
    /// The first value, while no session has tried to draw one.
    first: Option<i64>,
    /// The value behind which it begins, where setval has said so.
    behind: Option<i64>,
    /// Where all values lie in steps from, unless it was altered.
    grid: Option<(i64, i64)>,
    /// The last one in its direction that anybody has seen.
    furthest: Option<i64>,
    /// Whether it may come round.
    laps: bool,
}

/// What a transaction has changed: the names, and the sequences that it has locked.
#[derive(Clone, Debug, Default)]
struct Changes {
    names: BTreeMap<Name, Option<Sequence>>,
    /// Whose definition no other session can change.
    locked: BTreeSet<u32>,
    /// Of which no other session can be served anything.
    closed: BTreeSet<u32>,
    /// Of which this transaction draws nothing: it continues the numbers of everybody.
    barred: BTreeSet<u32>,
    /// The lines that it has begun itself.
    own: BTreeSet<usize>,
}

#[derive(Debug, Default)]
struct Session {
    transaction: Option<Changes>,
    savepoints: Vec<Changes>,
    /// By sequence; `None` where values were drawn that the client has not seen.
    current: HashMap<u32, Option<i64>>,
    /// By line.
    latest: HashMap<usize, i64>,
}

#[derive(Debug, Default)]
pub struct Model {
    committed: BTreeMap<Name, Sequence>,
    lines: Vec<Line>,
    sessions: [Session; 2],
    ids: u32,
}

/// This many values may be held without being served to any session.
const HELD: i64 = 2_000;

type Verdict = Result<(), String>;

fn must(holds: bool, why: impl Into<String>) -> Verdict {
    if holds { Ok(()) } else { Err(why.into()) }
}

/// The refusal is one of these.
fn refused(answer: &Answer, codes: &[&str]) -> Verdict {
    let as_said = matches!(answer, Answer::Refused(code) if codes.contains(&code.as_str()));
    must(as_said, format!("{answer:?}, not one of {codes:?}"))
}

impl Model {
    pub fn is_open(&self, who: usize) -> bool {
        self.sessions[who].transaction.is_some()
    }

    /// Whether the statement can be made sense of now.
    pub fn allows(&self, who: usize, statement: &Statement) -> bool {
        let session = &self.sessions[who];
        match statement {
            Statement::Begin => session.transaction.is_none(),
            Statement::Commit | Statement::Rollback | Statement::Savepoint => self.is_open(who),
            Statement::RollbackTo | Statement::Release => !session.savepoints.is_empty(),
            _ => true,
        }
    }

    fn find(&self, who: usize, name: Name) -> Option<Sequence> {
        let changed = self.sessions[who].transaction.as_ref().and_then(|t| t.names.get(&name));
        changed.cloned().unwrap_or_else(|| self.committed.get(&name).cloned())
    }

    /// Whether the other session has changed one of the names, or what they stand for, so that this
    /// statement has to wait for it.
    pub fn is_contested(&self, who: usize, statement: &Statement) -> bool {
        use Statement::*;
        let Some(others) = &self.sessions[1 - who].transaction else { return false };
        let draws = matches!(
            statement,
            Nextval { .. } | Nextvals { .. } | Nextrange { .. } | Currval { .. }
        );
        statement.names().iter().any(|name| {
            let Some(id) = self.find(who, *name).map(|sequence| sequence.id) else {
                return others.names.contains_key(name);
            };
            if draws {
                return others.closed.contains(&id);
            }
            others.locked.contains(&id) || others.names.contains_key(name)
        })
    }

    /// Holds an answer against what may come, and takes it in.
    pub fn check(&mut self, who: usize, statement: &Statement, answer: &Answer) -> Verdict {
        use Statement::*;
        match statement {
            Begin | Commit | Rollback | Savepoint | RollbackTo | Release | Discard | Reconnect => {
                must(matches!(answer, Answer::Done), format!("{answer:?}"))?;
                self.control(who, statement);
                Ok(())
            }
            Nextval { name } => self.drawn(who, *name, 1, statement, answer),
            Nextvals { name, count } => self.drawn(who, *name, *count as i64, statement, answer),
            Nextrange { name, count } => self.drawn(who, *name, *count, statement, answer),
            Currval { name } => self.current(who, *name, answer),
            _ if self.is_contested(who, statement) => {
                refused(answer, &["55P03", "42710", "42704", "22003", "22023"])
            }
            _ => self.defined(who, statement, answer),
        }
    }

    fn control(&mut self, who: usize, statement: &Statement) {
        let session = &mut self.sessions[who];
        match statement {
            Statement::Begin => session.transaction = Some(Changes::default()),
            Statement::Savepoint => {
                session.savepoints.extend(session.transaction.clone());
            }
            Statement::RollbackTo => session.transaction = session.savepoints.last().cloned(),
            Statement::Release => {
                session.savepoints.pop();
            }
            Statement::Discard => session.current.clear(),
            _ => {
                let changes = session.transaction.take().unwrap_or_default();
                session.savepoints.clear();
                match statement {
                    Statement::Commit => self.commit(changes),
                    Statement::Reconnect => self.sessions[who] = Session::default(),
                    _ => {}
                }
            }
        }
    }

    fn commit(&mut self, changes: Changes) {
        for (name, sequence) in changes.names {
            match sequence {
                Some(sequence) => self.committed.insert(name, sequence),
                None => self.committed.remove(&name),
            };
        }
    }

    /// A name stands for something else, or nothing, from now on.
    fn set(&mut self, who: usize, name: Name, sequence: Option<Sequence>) {
        let before = self.find(who, name);
        let mut changes = Changes::default();
        changes.locked.extend(before.iter().chain(&sequence).map(|sequence| sequence.id));
        // The line is another one, or the name: so is what it serves.
        let line =
            |sequence: &Option<Sequence>| sequence.as_ref().map(|found| (found.id, found.line));
        if line(&before) != line(&sequence) {
            changes.closed.clone_from(&changes.locked);
        }
        changes.names.insert(name, sequence);
        match &mut self.sessions[who].transaction {
            Some(transaction) => {
                transaction.names.append(&mut changes.names);
                transaction.locked.append(&mut changes.locked);
                transaction.closed.append(&mut changes.closed);
            }
            None => self.commit(changes),
        }
    }

    fn line(&mut self, first: i64, increment: i64) -> usize {
        self.lines.push(Line {
            seen: HashSet::new(),
            first: Some(first),
            behind: None,
            grid: Some((first, increment)),
            furthest: None,
            laps: false,
        });
        self.lines.len() - 1
    }

    /// A line of the transaction's own: it serves that.
    fn own_line(&mut self, who: usize, id: u32, first: i64, increment: i64) -> usize {
        let line = self.line(first, increment);
        if let Some(transaction) = &mut self.sessions[who].transaction {
            transaction.own.insert(line);
            transaction.barred.remove(&id);
        }
        line
    }

    /// The numbers of a line continue in another way.
    fn renumber(&mut self, who: usize, sequence: &Sequence, altered: &mut Sequence) {
        if altered.increment.signum() != sequence.increment.signum() {
            // What the other way serves is spent for this one, if that is rolled back.
            self.lines[sequence.line].first = None;
            altered.line = self.line(0, altered.increment);
            self.lines[altered.line].first = None;
        }
        let increment = altered.increment;
        let line = &mut self.lines[altered.line];
        line.grid = None;
        line.laps |= altered.cycle || sequence.cycle;
        line.first = line.first.map(|first| line.behind.map_or(first, |value| value + increment));
        if let Some(transaction) = &mut self.sessions[who].transaction {
            transaction.closed.insert(sequence.id);
            if transaction.own.contains(&sequence.line) {
                transaction.own.insert(altered.line);
            } else {
                transaction.barred.insert(sequence.id);
            }
        }
    }

    /// Changes the bounds.
    fn bound(
        &mut self,
        who: usize,
        sequence: Sequence,
        name: Name,
        (min, max): (i64, i64),
        answer: &Answer,
    ) -> Verdict {
        let values = (max as i128 - min as i128) / sequence.increment.abs() as i128 + 1;
        let line = &self.lines[sequence.line];
        let last = line.furthest.or(line.first);
        let out = |value: i64| value < min || value > max;
        if min >= max
            || out(sequence.start)
            || values < sequence.block as i128
            || (!line.laps && line.furthest.is_some_and(out))
        {
            return refused(answer, &["22023"]);
        }
        // What is reserved or held somewhere is not known here.
        let sure = !line.laps
            && last.is_some_and(|last| {
                let bound = if sequence.increment > 0 { max } else { min };
                !out(last) && (bound - last).abs() / sequence.increment.abs() > HELD
            });
        if !sure && matches!(answer, Answer::Refused(_)) {
            return refused(answer, &["22023"]);
        }
        must(matches!(answer, Answer::Done), format!("{answer:?}"))?;
        let mut altered = Sequence { min, max, ..sequence.clone() };
        if sequence.cycle && (min, max) != (sequence.min, sequence.max) {
            self.renumber(who, &sequence, &mut altered);
        }
        self.set(who, name, Some(altered));
        Ok(())
    }

    /// The bounds of what a session may be served: of shared numbers, those of before as well.
    fn bounds(&self, who: usize, sequence: &Sequence) -> (i64, i64) {
        let own = self.sessions[who].transaction.as_ref();
        if own.is_none_or(|own| own.own.contains(&sequence.line)) {
            return (sequence.min, sequence.max);
        }
        let before = self.committed.values().find(|before| before.id == sequence.id);
        before.map_or((sequence.min, sequence.max), |before| {
            (before.min.max(sequence.min), before.max.min(sequence.max))
        })
    }

    fn defined(&mut self, who: usize, statement: &Statement, answer: &Answer) -> Verdict {
        use Statement::*;
        let found = self.find(who, statement.names()[0]);
        let sequence = match (statement, found) {
            (Create { .. }, Some(_)) => return refused(answer, &["42710"]),
            (Create { name, start, increment, count, block, .. }, None) => {
                must(matches!(answer, Answer::Done), format!("{answer:?}"))?;
                let (min, max) = count.map_or((-1_000_000, 1_000_000), |count| {
                    let last = start + increment * (count - 1);
                    (last.min(*start), last.max(*start))
                });
                self.ids += 1;
                let id = self.ids;
                let line = self.own_line(who, id, *start, *increment);
                let (increment, start) = (*increment, *start);
                let block = if *block { 2 } else { 1 };
                let cycle = false;
                let created = Sequence { id, line, increment, min, max, block, start, cycle };
                self.set(who, *name, Some(created));
                return Ok(());
            }
            (_, None) => return refused(answer, &["42704"]),
            (_, Some(sequence)) => sequence,
        };
        let Sequence { id, min, max, increment, .. } = sequence;
        match statement {
            Alter { name, increment: new } => {
                let values = (max - min) / new.abs() + 1;
                if values < sequence.block {
                    return refused(answer, &["22023"]);
                }
                must(matches!(answer, Answer::Done), format!("{answer:?}"))?;
                let mut altered = Sequence { increment: *new, ..sequence.clone() };
                if *new != increment {
                    self.renumber(who, &sequence, &mut altered);
                }
                self.set(who, *name, Some(altered));
            }
            Cycle { name, yes } => {
                must(matches!(answer, Answer::Done), format!("{answer:?}"))?;
                let mut altered = Sequence { cycle: *yes, ..sequence.clone() };
                if *yes != sequence.cycle {
                    self.renumber(who, &sequence, &mut altered);
                }
                self.set(who, *name, Some(altered));
            }
            Bound { name, largest, value } => {
                let bounds = if *largest { (min, *value) } else { (*value, max) };
                return self.bound(who, sequence, *name, bounds, answer);
            }
            Tune { name, block } => {
                if (max - min) / increment.abs() + 1 < *block {
                    return refused(answer, &["22023"]);
                }
                must(matches!(answer, Answer::Done), format!("{answer:?}"))?;
                self.set(who, *name, Some(Sequence { block: *block, ..sequence }));
            }
            Restart { with: value, .. } | Setval { value, .. } if *value < min || *value > max => {
                let is_setval = matches!(statement, Setval { .. });
                return refused(answer, &[if is_setval { "22003" } else { "22023" }]);
            }
            Restart { name, with: value } | Setval { name, value, .. } => {
                must(matches!(answer, Answer::Done), format!("{answer:?}"))?;
                let called = matches!(statement, Setval { called: true, .. });
                let first = value + if called { increment } else { 0 };
                let line = self.own_line(who, id, first, increment);
                self.lines[line].laps = sequence.cycle;
                if called {
                    self.lines[line].behind = Some(*value);
                    self.sessions[who].current.insert(id, Some(*value));
                }
                self.set(who, *name, Some(Sequence { line, ..sequence }));
            }
            Rename { name, to } => {
                if self.find(who, *to).is_some() {
                    return refused(answer, &["42710"]);
                }
                must(matches!(answer, Answer::Done), format!("{answer:?}"))?;
                self.set(who, *name, None);
                self.set(who, *to, Some(sequence));
            }
            Drop { name } => {
                must(matches!(answer, Answer::Done), format!("{answer:?}"))?;
                self.set(who, *name, None);
            }
            _ => unreachable!("{statement:?} defines nothing"),
        }
        Ok(())
    }

    fn current(&self, who: usize, name: Name, answer: &Answer) -> Verdict {
        let Some(sequence) = self.find(who, name) else { return refused(answer, &["42704"]) };
        match (self.sessions[who].current.get(&sequence.id), answer) {
            (None, _) => refused(answer, &["55000"]),
            (Some(None), _) => Ok(()),
            (Some(Some(value)), Answer::Values(values)) if *values == [*value] => Ok(()),
            (Some(Some(value)), _) => Err(format!("{answer:?}, not {value}")),
        }
    }

    fn drawn(
        &mut self,
        who: usize,
        name: Name,
        count: i64,
        statement: &Statement,
        answer: &Answer,
    ) -> Verdict {
        if count == 0 {
            return must(matches!(answer, Answer::Values(values) if values.is_empty()), "values");
        }
        let contested = self.is_contested(who, statement);
        let Some(sequence) = self.find(who, name) else { return refused(answer, &["42704"]) };
        let Sequence { id, increment, cycle, .. } = sequence;
        let barred = |session: &Session| {
            session.transaction.as_ref().is_some_and(|own| own.barred.contains(&id))
        };
        if barred(&self.sessions[who]) {
            return refused(answer, &["55000"]);
        }
        let (min, max) = self.bounds(who, &sequence);
        let line = &mut self.lines[sequence.line];
        let first = line.first.filter(|_| !line.laps);
        let beyond = |value: i64, other: i64| (value - other) * increment > 0;
        match answer {
            Answer::Done => Err("no values".into()),
            Answer::Values(values) => {
                line.first = None;
                must(values.len() as i64 == count, format!("{} values", values.len()))?;
                must(
                    first.is_none_or(|first| values[0] == first),
                    format!("{values:?}, not {first:?}"),
                )?;
                let session = &mut self.sessions[who];
                for value in values {
                    let latest = session.latest.insert(sequence.line, *value);
                    must((min..=max).contains(value), format!("{value} is out of {min} to {max}"))?;
                    if line.laps {
                        continue;
                    }
                    if line.furthest.is_none_or(|furthest| beyond(*value, furthest)) {
                        line.furthest = Some(*value);
                    }
                    must(line.seen.insert(*value), format!("{value} came before"))?;
                    must(
                        latest.is_none_or(|latest| beyond(*value, latest)),
                        format!("{value} after {latest:?}"),
                    )?;
                    must(
                        line.grid.is_none_or(|(first, step)| (value - first) % step == 0),
                        format!("{value} is between the steps"),
                    )?;
                }
                session.current.insert(id, values.last().copied());
                Ok(())
            }
            Answer::Refused(code) => {
                if matches!(statement, Statement::Nextvals { .. }) {
                    line.first = None;
                    self.sessions[who].current.insert(id, None);
                }
                let bound = if increment > 0 { max } else { min };
                let there = first.map(|first| (bound - first) / increment + 1);
                // Others may hold the last ones.
                let far = |last: i64| (bound - last) / increment - count > HELD;
                let left = !line.laps && line.furthest.is_some_and(far);
                match code.as_str() {
                    "55P03" => must(contested, "nobody was in the way"),
                    "55000" if cycle && matches!(statement, Statement::Nextrange { .. }) => Ok(()),
                    "2200H" => must(
                        !left && there.is_none_or(|there| there < count),
                        format!("there should be values: {there:?}, behind {:?}", line.furthest),
                    ),
                    _ => Err(code.clone()),
                }
            }
        }
    }
}
