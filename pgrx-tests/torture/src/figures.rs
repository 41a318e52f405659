//! The counters of a run, and its findings.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// How many findings are kept: more of them say nothing new.
const MAX_FINDINGS: usize = 20;

/// No statement of a session takes longer, whatever happens to the server. It waits for hilo up to
/// hilo.reserve_timeout, and for others as long as their transactions are open.
const PATIENCE: Duration = Duration::from_secs(30);

#[derive(Default)]
pub struct Figures {
    pub values: AtomicU64,
    pub statements: AtomicU64,
    pub sessions: AtomicU64,
    pub transactions_rolled_back: AtomicU64,
    pub renumbered: AtomicU64,
    /// Calls of hilo_advance and hilo_sync.
    pub moves: AtomicU64,
    pub lives: AtomicU64,
    pub lost_statements: AtomicU64,
    pub duplicates: AtomicU64,
    /// Values that a copy of a branch without recovery and its original both served.
    pub by_copies: AtomicU64,
    pub checked: AtomicU64,
    /// Leases that were taken, and values that came back from them.
    pub leases: AtomicU64,
    pub returned: AtomicU64,
    pub gaps: AtomicU64,
    pub gap_values: AtomicU64,
    pub free_values: AtomicU64,
    pub in_lost_statements: AtomicU64,
    pub unexplained: AtomicU64,
    pub recoveries: AtomicU64,
    /// How many recoveries were expected, because processes were killed or the server left without
    /// a clean stop.
    pub expected_recoveries: AtomicU64,
    /// Committed values of gapless sequences that were audited.
    pub gapless: AtomicU64,
    /// How often all sequences were audited.
    pub audits: AtomicU64,
    /// Sequences that no worker could flush at a clean stop.
    pub left: AtomicU64,
    /// How long old snapshots were held.
    pub snapshot_seconds: AtomicU64,
    /// How long the longest statement of a session took.
    pub longest_statement: AtomicU64,
    scenes: Mutex<BTreeMap<&'static str, u64>>,
    accidents: Mutex<BTreeMap<&'static str, u64>>,
    refusals: Mutex<BTreeMap<String, u64>>,
    wrong: Mutex<Vec<String>>,
}

pub fn add(figure: &AtomicU64, count: u64) {
    figure.fetch_add(count, Relaxed);
}

impl Figures {
    /// A scene has ended.
    pub fn scene(&self, name: &'static str) {
        *self.scenes.lock().unwrap().entry(name).or_default() += 1;
    }

    pub fn accident(&self, what: &'static str) {
        *self.accidents.lock().unwrap().entry(what).or_default() += 1;
    }

    /// A statement was refused with an error that is allowed.
    pub fn note_refusal(&self, sqlstate: &str) {
        *self.refusals.lock().unwrap().entry(sqlstate.to_owned()).or_default() += 1;
    }

    /// A session's statement has ended.
    pub fn took(&self, sql: &str, time: Duration) {
        self.longest_statement.fetch_max(time.as_millis() as u64, Relaxed);
        if time > PATIENCE {
            let sql = sql.get(..120).unwrap_or(sql);
            self.wrong(format!("{sql}: took {} seconds", time.as_secs()));
        }
    }

    /// A violation of what hilo promises.
    pub fn wrong(&self, what: String) {
        let mut wrong = self.wrong.lock().unwrap();
        if wrong.len() < MAX_FINDINGS {
            eprintln!("WRONG: {what}");
            wrong.push(what);
        }
    }

    /// The accidents in which processes were killed without a chance to clean up.
    pub fn crashes(&self) -> u64 {
        let accidents = self.accidents.lock().unwrap();
        let crash = |what: &str| what.contains("kill -9") || what.ends_with("immediate stop");
        accidents.iter().filter(|(what, _)| crash(what)).map(|(_, count)| count).sum()
    }

    /// A scene's server has ended, and had recovered so many times. Others of the scene may have
    /// been killed since.
    pub fn recovered(&self, times: usize) {
        let times = self.recoveries.fetch_add(times as u64, Relaxed) + times as u64;
        let expected = self.expected_recoveries.load(Relaxed);
        if times > expected {
            self.wrong(format!("{times} recoveries of servers, and {expected} were expected"));
        }
    }

    pub fn findings(&self) -> Vec<String> {
        self.wrong.lock().unwrap().clone()
    }
}

/// The output of a run; docs/reliability.md has the most of it for the longest run.
impl fmt::Display for Figures {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scenes = self.scenes.lock().unwrap();
        let scenes: Vec<String> =
            scenes.iter().map(|(name, count)| format!("{name} {count}")).collect();
        writeln!(out, "| scenes | {} |", scenes.join(", "))?;
        let mut row =
            |name: &str, count: u64| writeln!(out, "| {name} | {} |", group_digits(count));
        row("values seen by clients", self.values.load(Relaxed))?;
        row("statements", self.statements.load(Relaxed))?;
        row("sessions", self.sessions.load(Relaxed))?;
        row("transactions rolled back", self.transactions_rolled_back.load(Relaxed))?;
        row("lives of sequences", self.lives.load(Relaxed))?;
        row("setval, restart, drop, alter", self.renumbered.load(Relaxed))?;
        row("advance, sync", self.moves.load(Relaxed))?;
        for (what, count) in self.accidents.lock().unwrap().iter() {
            row(what, *count)?;
        }
        row("**crashes**", self.crashes())?;
        row("recoveries", self.recoveries.load(Relaxed))?;
        row("seconds with an old snapshot", self.snapshot_seconds.load(Relaxed))?;
        row("longest statement in milliseconds", self.longest_statement.load(Relaxed))?;
        row("**values seen twice**", self.duplicates.load(Relaxed))?;
        row("values of copies without recovery, served by both", self.by_copies.load(Relaxed))?;
        row("audits at a clean stop", self.audits.load(Relaxed))?;
        row("sequences that no worker flushed at a clean stop", self.left.load(Relaxed))?;
        row("numbers below a position that were audited", self.checked.load(Relaxed))?;
        row("committed values of gapless sequences that were audited", self.gapless.load(Relaxed))?;
        row("leases", self.leases.load(Relaxed))?;
        row("values that came back from leases", self.returned.load(Relaxed))?;
        row("gaps in `_hilo.hilo_gap`", self.gaps.load(Relaxed))?;
        row("numbers in these gaps that no client saw", self.gap_values.load(Relaxed))?;
        row("numbers in `_hilo.hilo_free_range`", self.free_values.load(Relaxed))?;
        row("statements whose result was lost", self.lost_statements.load(Relaxed))?;
        row("numbers explained by these alone", self.in_lost_statements.load(Relaxed))?;
        row("**numbers unexplained**", self.unexplained.load(Relaxed))?;
        row("**other violations**", self.wrong.lock().unwrap().len() as u64)?;
        let refusals = self.refusals.lock().unwrap();
        let refusals: Vec<String> = refusals
            .iter()
            .map(|(state, count)| format!("{state} {}", group_digits(*count)))
            .collect();
        writeln!(out, "| statements refused, by SQLSTATE | {} |", refusals.join(", "))
    }
}

fn group_digits(count: u64) -> String {
    let digits = count.to_string();
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}
