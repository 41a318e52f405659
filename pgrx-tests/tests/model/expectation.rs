//! What may come. A *line* is a numbering of a sequence: none of its values may come twice, and each session
//! sees them in order, whatever is committed or rolled back. A definition is seen by others when it is
//! committed; who touches one that another session has not yet committed must wait, in vain here.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use crate::statement::{Answer, Name, Statement};

#[derive(Clone, Debug)]
struct Sequence {
    id: u32,
    line: usize,
    increment: i64,
    min: i64,
    max: i64,
    block: bool,
}

#[derive(Debug)]
struct Line {
    seen: HashSet<i64>,
    /// The first value, while nobody has tried to draw one.
    first: Option<i64>,
    /// The value behind which it begins, where setval has said so.
    behind: Option<i64>,
    /// Where all values lie in steps from, unless it was altered.
    grid: Option<(i64, i64)>,
}

/// What a transaction has changed: the names, and the sequences that it has locked.
#[derive(Clone, Debug, Default)]
struct Changes {
    names: BTreeMap<Name, Option<Sequence>>,
    locked: BTreeSet<u32>,
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

    /// Whether the other session has changed one of the names, or what they stand for.
    pub fn is_contested(&self, who: usize, statement: &Statement) -> bool {
        let Some(others) = &self.sessions[1 - who].transaction else { return false };
        statement.names().iter().any(|name| {
            let id = self.find(who, *name).map(|sequence| sequence.id);
            others.names.contains_key(name) || id.is_some_and(|id| others.locked.contains(&id))
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
        changes.names.insert(name, sequence);
        match &mut self.sessions[who].transaction {
            Some(transaction) => {
                transaction.names.append(&mut changes.names);
                transaction.locked.append(&mut changes.locked);
            }
            None => self.commit(changes),
        }
    }

    fn line(&mut self, first: i64, increment: i64) -> usize {
        let grid = Some((first, increment));
        self.lines.push(Line { seen: HashSet::new(), first: Some(first), behind: None, grid });
        self.lines.len() - 1
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
                let line = self.line(*start, *increment);
                let (id, increment, block) = (self.ids, *increment, *block);
                self.set(who, *name, Some(Sequence { id, line, increment, min, max, block }));
                return Ok(());
            }
            (_, None) => return refused(answer, &["42704"]),
            (_, Some(sequence)) => sequence,
        };
        let Sequence { id, min, max, increment, .. } = sequence;
        match statement {
            Alter { name, increment: new } => {
                let values = (max - min) / new.abs() + 1;
                if sequence.block && values < 2 {
                    return refused(answer, &["22023"]);
                }
                must(matches!(answer, Answer::Done), format!("{answer:?}"))?;
                let mut altered = Sequence { increment: *new, ..sequence };
                if new.signum() != increment.signum() {
                    // What the other way serves is spent for this one, if that is rolled back.
                    self.lines[sequence.line].first = None;
                    altered.line = self.line(0, *new);
                    self.lines[altered.line].first = None;
                }
                let line = &mut self.lines[altered.line];
                if *new != increment {
                    line.grid = None;
                }
                line.first = line.first.map(|first| line.behind.map_or(first, |value| value + new));
                self.set(who, *name, Some(altered));
            }
            Restart { with: value, .. } | Setval { value, .. } if *value < min || *value > max => {
                let is_setval = matches!(statement, Setval { .. });
                return refused(answer, &[if is_setval { "22003" } else { "22023" }]);
            }
            Restart { name, with: value } | Setval { name, value, .. } => {
                must(matches!(answer, Answer::Done), format!("{answer:?}"))?;
                let called = matches!(statement, Setval { called: true, .. });
                let line = self.line(value + if called { increment } else { 0 }, increment);
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
        let Sequence { id, increment, min, max, .. } = sequence;
        let line = &mut self.lines[sequence.line];
        let first = line.first;
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
                    must((min..=max).contains(value), format!("{value} is out of bounds"))?;
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
                let wide = max - min > 1_000_000;
                match code.as_str() {
                    "55P03" => must(contested, "nobody was in the way"),
                    "2200H" => must(
                        !wide && there.is_none_or(|there| there < count),
                        format!("there should be {there:?} values"),
                    ),
                    _ => Err(code.clone()),
                }
            }
        }
    }
}
