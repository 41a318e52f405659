//! The values that may come. A *line* is a numbering of a sequence. None of its values may come
//! twice, and each session sees them in order, whatever is committed or rolled back. A definition
//! is seen by others when it is committed. A session that touches one that another session has not
//! yet committed must wait, here without success.
//!
//! Who alters what leaves each number its place draws from the pool meanwhile, as everybody does:
//! within the old bounds and the new ones. Who changes the increment, or a lap, or moves the
//! sequence ahead, draws nothing until the commit, unless the numbers are the transaction's own.
//!
//! A gapless sequence is counted exactly, and a rollback takes its values back.

mod definitions;
mod draws;
mod leases;
mod moves;

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use crate::model::statement::{Answer, Given, Name, Statement};
use leases::{Fate, Lease};
use moves::Move;

#[derive(Clone, Debug)]
struct Sequence {
    id: u32,
    line: usize,
    increment: i64,
    min: i64,
    max: i64,
    /// Values in a block, where that is fixed.
    block: Option<i64>,
    start: i64,
    cycle: bool,
    ordered: bool,
    gapless: bool,
    /// The table `home…` whose column owns it.
    home: Option<u8>,
    /// The table `own…` whose column draws from it.
    own: Option<u32>,
}

/// Where a gapless sequence stands; `None` where that is not known.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Counter {
    next: Option<i64>,
    last: Option<i64>,
    /// Whether `last` is not what an alteration continues.
    moved: bool,
}

#[derive(Debug)]
struct Line {
    seen: HashSet<i64>,
    /// While the sequence is gapless.
    counter: Counter,
    /// The first value, while no session has tried to draw one.
    first: Option<i64>,
    /// The value behind which it begins, where setval has said so.
    behind: Option<i64>,
    /// Where all values lie in steps from, unless it was altered.
    grid: Option<(i64, i64)>,
    /// The last one in its direction that anybody has seen.
    furthest: Option<i64>,
    /// Nothing up to here may come any more.
    floor: Option<i64>,
    /// The value last served in order, since the sequence is ordered.
    order: Option<i64>,
    /// Whether it may come round.
    laps: bool,
    /// Whether it was moved, so that nobody knows what an alteration continues.
    moved: bool,
    /// How many values crashes may have lost.
    lost: i64,
}

/// The changes of a transaction: the names, and the sequences that it has locked.
#[derive(Clone, Debug, Default)]
struct Changes {
    names: BTreeMap<Name, Option<Sequence>>,
    /// Whose definition no other session can change.
    locked: BTreeSet<u32>,
    /// Sequences of which no other session can be served anything.
    closed: BTreeSet<u32>,
    /// Which it may have locked or closed.
    touched: BTreeSet<u32>,
    /// Sequences of which this transaction draws nothing: it continues the numbers of everybody.
    barred: BTreeSet<u32>,
    /// Sequences of which it may be unable to draw.
    perhaps_barred: BTreeSet<u32>,
    /// The lines that it has begun itself.
    own: BTreeSet<usize>,
    /// How it has counted lines.
    counters: BTreeMap<usize, Counter>,
    /// How it has moved lines.
    moves: Vec<Move>,
    /// Its changes to leases.
    leases: BTreeMap<usize, Fate>,
    /// The tables `home…` that it may have locked.
    homes: BTreeSet<u8>,
    /// Whether it keeps others from defining anything.
    alone: bool,
}

#[derive(Debug, Default)]
struct Session {
    transaction: Option<Changes>,
    savepoints: Vec<Changes>,
    /// Whether the transaction has ever defined something, or done something with leases.
    unpreparable: bool,
    /// The leases of its transaction that a commit of another session may have made void.
    void: BTreeSet<usize>,
    /// The gapless sequences that the transaction has counted.
    counted: BTreeSet<u32>,
    /// By sequence; `None` where it is not known what the client would see.
    current: HashMap<u32, Option<i64>>,
    /// By line.
    latest: HashMap<usize, i64>,
}

#[derive(Debug, Default)]
pub struct Model {
    committed: BTreeMap<Name, Sequence>,
    lines: Vec<Line>,
    leases: Vec<Lease>,
    sessions: [Session; 2],
    prepared: Option<Changes>,
    ids: u32,
    tables: u32,
}

/// Whether a statement has to wait for another transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Wait {
    No,
    Perhaps,
    Yes,
}

/// This many values may be held without being served to any session.
const HELD: i64 = 2_000;

/// How a statement is refused that waits for another transaction, or sees half of what it does.
const IN_THE_WAY: &[&str] = &["55P03", "42710", "42704", "22003", "22023", "0A000", "2BP01"];

type Verdict = Result<(), String>;

fn must(holds: bool, why: impl Into<String>) -> Verdict {
    if holds { Ok(()) } else { Err(why.into()) }
}

fn expect_success(answer: &Answer) -> Verdict {
    must(matches!(answer, Answer::Done | Answer::Values(_)), format!("{answer:?}"))
}

fn is_refused(answer: &Answer, codes: &[&str]) -> bool {
    matches!(answer, Answer::Refused(code) if codes.contains(&code.as_str()))
}

/// The refusal is one of these.
fn expect_refusal(answer: &Answer, codes: &[&str]) -> Verdict {
    must(is_refused(answer, codes), format!("{answer:?}, not one of {codes:?}"))
}

/// Whether a value comes after another one.
fn beyond(value: i64, other: i64, increment: i64) -> bool {
    if increment > 0 { value > other } else { value < other }
}

/// The later one of two values.
fn later(one: Option<i64>, other: Option<i64>, increment: i64) -> Option<i64> {
    one.into_iter().chain(other).reduce(|a, b| if beyond(a, b, increment) { a } else { b })
}

impl Sequence {
    fn is_within(&self, value: i64) -> bool {
        (self.min..=self.max).contains(&value)
    }

    /// The bound that it runs to.
    fn end(&self) -> i64 {
        if self.increment > 0 { self.max } else { self.min }
    }
}

impl Model {
    pub fn is_open(&self, who: usize) -> bool {
        self.sessions[who].transaction.is_some()
    }

    /// Whether the statement can be made sense of now.
    pub fn allows(&self, who: usize, statement: &Statement) -> bool {
        use Statement::*;
        let open = self.is_open(who);
        match statement {
            Begin => !open,
            Commit | Rollback | Savepoint => open,
            RollbackTo | Release => !self.sessions[who].savepoints.is_empty(),
            Prepare => open && self.prepared.is_none(),
            CommitPrepared | RollbackPrepared => !open && self.prepared.is_some(),
            Unadopt { name } => self.find(who, *name).is_some_and(|found| found.own.is_some()),
            CreateMissing { name, .. } => self.find(who, *name).is_none(),
            // A document leaves out default bounds, which another direction changes.
            Alter { name, by_document: true, .. } => {
                let found = self.find(who, *name);
                found.is_none_or(|found| found.min != 1 && found.max != i64::MAX)
            }
            Create(create) => !create.by_document || self.find(who, create.name).is_none(),
            Return { .. } | Renew { .. } | Revoke { .. } => !self.leases.is_empty(),
            Expire => self.sessions.iter().all(|session| session.transaction.is_none()),
            _ => true,
        }
    }

    /// The facts that the statement needs.
    pub fn facts(&mut self, who: usize, statement: &Statement) -> Given {
        use Statement::*;
        match statement {
            Return { lease, used } => self.lease_facts(*lease, *used),
            Renew { lease, .. } | Revoke { lease } => self.lease_facts(*lease, 0),
            Unadopt { name } => {
                let own = self.find(who, *name).and_then(|found| found.own);
                Given { table: own.expect("it is allowed"), ..Given::default() }
            }
            Adopt { .. } | CreateMissing { .. } => {
                self.tables += 1;
                Given { table: self.tables, ..Given::default() }
            }
            _ => Given::default(),
        }
    }

    fn find(&self, who: usize, name: Name) -> Option<Sequence> {
        let changed = self.sessions[who].transaction.as_ref().and_then(|t| t.names.get(&name));
        changed.cloned().unwrap_or_else(|| self.committed.get(&name).cloned())
    }

    /// Where a line of a gapless sequence stands for a session.
    fn counter(&self, who: usize, line: usize) -> Counter {
        let own = self.sessions[who].transaction.as_ref();
        let own = own.and_then(|own| own.counters.get(&line));
        own.copied().unwrap_or(self.lines[line].counter)
    }

    /// The changes of other transactions.
    fn others(&self, who: usize) -> impl Iterator<Item = &Changes> {
        self.sessions[1 - who].transaction.iter().chain(&self.prepared)
    }

    /// Whether another transaction has changed one of the names, or what they stand for, so that
    /// this statement has to wait for it.
    pub fn waits(&self, who: usize, statement: &Statement) -> Wait {
        self.others(who)
            .map(|others| self.waits_for(others, who, statement))
            .max()
            .unwrap_or(Wait::No)
    }

    fn waits_for(&self, others: &Changes, who: usize, statement: &Statement) -> Wait {
        use Statement::*;
        let draws = statement.draws() || matches!(statement, Currval { .. });
        if *statement == Commit {
            return self.commit_waits(others, who);
        }
        if statement.is_control() {
            return Wait::No;
        }
        if statement.ends_lease() {
            return self.lease_waits(others, who, statement);
        }
        let mut wait = Wait::No;
        for name in statement.names() {
            let found = self.find(who, name).map(|sequence| sequence.id);
            wait = wait.max(match found {
                None if others.names.contains_key(&name) => Wait::Yes,
                None => Wait::No,
                Some(id) if draws && others.closed.contains(&id) => Wait::Yes,
                Some(id) if others.touched.contains(&id) => Wait::Perhaps,
                Some(_) if draws => Wait::No,
                Some(id) if others.locked.contains(&id) || others.names.contains_key(&name) => {
                    Wait::Yes
                }
                Some(id) if self.leases_of(others, id) => Wait::Perhaps,
                Some(_) => Wait::No,
            });
        }
        let busy = !others.locked.is_empty() || !others.touched.is_empty();
        let takes_all = match statement {
            Create(create) => create.by_document,
            Alter { by_document, .. } => *by_document,
            CreateMissing { .. } => true,
            _ => false,
        };
        let crowded = match statement {
            Truncate { table } | Own { table, .. } if others.homes.contains(table) => true,
            Truncate { .. } => busy,
            _ => !draws && (others.alone || (takes_all && busy)),
        };
        // Whoever looks first reads what it might have to wait for, and may find nothing to do.
        let looks = matches!(statement, Advance { .. } | Alter { by_document: true, .. })
            && wait == Wait::Yes;
        match (crowded, looks) {
            (_, true) => Wait::Perhaps,
            (true, _) => wait.max(Wait::Perhaps),
            _ => wait,
        }
    }

    /// Holds an answer against what may come, and takes it in.
    pub fn check(&mut self, who: usize, statement: &Statement, answer: &Answer) -> Verdict {
        use Statement::*;
        match statement {
            Begin
            | Rollback
            | Savepoint
            | RollbackTo
            | Release
            | Discard
            | Reconnect
            | CommitPrepared
            | RollbackPrepared
            | Crash { .. }
            | Stop => {
                must(matches!(answer, Answer::Done), format!("{answer:?}"))?;
                self.control(who, statement);
                return Ok(());
            }
            Commit => return self.committing(who, answer),
            Prepare => return self.preparing(who, answer),
            Expire => {
                self.expire();
                return Ok(());
            }
            Currval { name } => return self.current(who, *name, answer),
            _ if statement.draws() => return self.judge_draw(who, statement, answer),
            _ => {}
        }
        match self.waits(who, statement) {
            Wait::Yes => return expect_refusal(answer, IN_THE_WAY),
            Wait::Perhaps if is_refused(answer, IN_THE_WAY) => return Ok(()),
            _ => {}
        }
        match statement {
            Return { .. } | Renew { .. } | Revoke { .. } | RevokeAll { .. } => {
                self.judge_end(who, statement, answer)
            }
            Advance { .. } | Sync { .. } => self.judge_move(who, statement, answer),
            _ => self.judge_definition(who, statement, answer),
        }
    }

    fn control(&mut self, who: usize, statement: &Statement) {
        use Statement::*;
        let session = &mut self.sessions[who];
        match statement {
            Begin => {
                session.transaction = Some(Changes::default());
                session.void.clear();
            }
            Savepoint => session.savepoints.extend(session.transaction.clone()),
            RollbackTo => {
                session.transaction = session.savepoints.last().cloned();
                session.forget_counted();
            }
            Release => drop(session.savepoints.pop()),
            Discard => session.current.clear(),
            CommitPrepared => {
                let changes = self.prepared.take().unwrap_or_default();
                self.commit(changes);
            }
            RollbackPrepared => self.prepared = None,
            Crash { .. } | Stop => {
                self.sessions = Default::default();
                if *statement != Stop {
                    self.lines.iter_mut().for_each(Line::crash);
                }
            }
            Rollback => drop(session.end(true)),
            _ => *session = Session::default(),
        }
    }

    /// A lease whose sequence was renumbered meanwhile keeps its transaction from committing, and so
    /// does one that has ended.
    fn committing(&mut self, who: usize, answer: &Answer) -> Verdict {
        let ((void, perhaps_void), (gone, perhaps_gone)) = (self.void(who), self.may_be_gone(who));
        let waits = self.waits(who, &Statement::Commit) != Wait::No;
        if perhaps_void && is_refused(answer, &["40001"])
            || perhaps_gone && is_refused(answer, &["42704"])
            || waits && is_refused(answer, IN_THE_WAY)
        {
            self.sessions[who].end(true);
            return Ok(());
        }
        must(
            matches!(answer, Answer::Done) && !void && !gone,
            format!("{answer:?}, void: {void}, gone: {gone}"),
        )?;
        let changes = self.sessions[who].end(false);
        self.commit(changes);
        Ok(())
    }

    /// A transaction's definitions and leases are in its session's memory; but not that
    /// it has dropped or renamed sequences.
    fn preparing(&mut self, who: usize, answer: &Answer) -> Verdict {
        let session = &mut self.sessions[who];
        let own = session.transaction.as_ref();
        let known = |found: &Sequence| {
            self.committed.values().any(|known| (known.id, known.line) == (found.id, found.line))
        };
        let defines = own
            .is_some_and(|own| !own.leases.is_empty() || !own.names.values().flatten().all(known));
        if is_refused(answer, &["0A000"]) && (defines || session.unpreparable) {
            session.end(true);
            return Ok(());
        }
        must(matches!(answer, Answer::Done) && !defines, format!("{answer:?}"))?;
        let changes = session.end(false);
        self.note_renumbering(&changes.closed);
        self.prepared = Some(changes);
        Ok(())
    }

    fn commit(&mut self, changes: Changes) {
        self.note_renumbering(&changes.closed);
        self.note_renumbering(&changes.touched);
        for (name, sequence) in changes.names {
            match sequence {
                Some(sequence) => {
                    let before = self.committed.values().find(|before| before.id == sequence.id);
                    if before.is_some_and(|before| before.ordered != sequence.ordered) {
                        self.lines[sequence.line].order = None;
                    }
                    self.committed.insert(name, sequence)
                }
                None => self.committed.remove(&name),
            };
        }
        for (line, counter) in changes.counters {
            self.lines[line].counter = counter;
        }
        changes.moves.into_iter().for_each(|moved| self.settle_move(&moved));
        changes.leases.into_iter().for_each(|(at, fate)| self.settle_lease(at, fate));
    }

    /// Takes in what a statement has changed.
    fn apply(&mut self, who: usize, change: impl FnOnce(&mut Changes)) {
        match &mut self.sessions[who].transaction {
            Some(transaction) => change(transaction),
            None => {
                let mut changes = Changes::default();
                change(&mut changes);
                self.commit(changes);
            }
        }
    }
}

impl Session {
    /// Its transaction ends.
    fn end(&mut self, undone: bool) -> Changes {
        self.savepoints.clear();
        self.unpreparable = false;
        self.void.clear();
        if undone {
            self.forget_counted();
        }
        self.counted.clear();
        self.transaction.take().unwrap_or_default()
    }

    /// A rollback takes back what a gapless sequence has served.
    fn forget_counted(&mut self) {
        for id in &self.counted {
            self.current.insert(*id, None);
        }
    }
}

impl Line {
    /// All that the server held is lost.
    fn crash(&mut self) {
        self.first = None;
        self.lost += HELD;
    }
}
