//! A client that connects, runs random statements, disconnects, and connects again.

use std::thread;
use std::time::{Duration, Instant};

use fastrand::Rng;
use postgres::{Client, Error, Row};

use hilo_tests::{LONG, came_true};

use super::Torture;
use super::figures::add;
use super::ledger::{Last, Ledger, Sequence, SequenceKind, Ticket};

/// Why a statement returned nothing.
pub enum Failure {
    /// The connection is gone.
    Gone,
    Refused(String),
}

pub type Outcome<T> = Result<T, Failure>;

/// The errors that a server may raise during these accidents.
const ALLOWED: [&str; 22] = [
    "0A000", // a lease of a sequence that has become ordered
    "40001", // a lease of a sequence that is being renumbered
    "2200H", // a small sequence is used up
    "25P02", // after another error in the same transaction
    "2BP01", // a default depends on it
    "3D000", "3F000", "42883", "42P01", "42704", // dropped, with its extension or database
    "40P01", // DROP EXTENSION against a definition
    "42710", // another session created it
    "53100", // the disk is full, in the scene that fills it
    "53200", // memory was refused
    "53300", "53400", // the server is full
    "55006", // the database is in use
    "55P03", // a position row was held for longer than hilo.reserve_timeout
    "57014", // cancelled
    "57P01", "57P02", "57P03", // shutting down, or starting
];

pub struct ClientSession<'a> {
    torture: &'a Torture,
    ledger: &'a Ledger,
    client: Client,
    last: Last,
    /// The database's sequences.
    sequences: Vec<&'a Sequence>,
}

/// Connects and disconnects until the time is up.
pub fn run(torture: &Torture, mut rng: Rng) {
    while !torture.is_over() {
        let others = torture.databases.len();
        let database =
            torture.databases[if rng.f32() < torture.favourite { 0 } else { rng.usize(..others) }];
        let Some(_registration) = torture.register() else {
            thread::sleep(Duration::from_millis(10));
            continue;
        };
        let Ok(client) = torture.cluster.try_connect("postgres", database) else {
            thread::sleep(Duration::from_millis(10));
            continue;
        };
        add(&torture.ledger.figures.sessions, 1);
        let mut session = ClientSession::new(torture, database, client);
        if session.sequences.is_empty() {
            continue;
        }
        let statements = if rng.f32() < 0.3 { 1 } else { rng.usize(2..400) };
        for _ in 0..statements {
            if torture.is_over() || !torture.allows_sessions() {
                break;
            }
            if let Err(Failure::Gone) = session.act(&mut rng) {
                break;
            }
        }
    }
}

impl<'a> ClientSession<'a> {
    pub fn new(torture: &'a Torture, database: &str, client: Client) -> ClientSession<'a> {
        let sequences = torture.sequences_of(database);
        ClientSession { torture, ledger: &torture.ledger, client, last: Last::default(), sequences }
    }
}

/// How a transaction ends if nothing in it fails.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum End {
    Commit,
    RollBack,
}

impl End {
    pub fn any(rng: &mut Rng) -> End {
        if rng.bool() { End::Commit } else { End::RollBack }
    }
}

impl ClientSession<'_> {
    fn act(&mut self, rng: &mut Rng) -> Outcome<()> {
        let sequence = self.sequences[rng.usize(..self.sequences.len())];
        match rng.u32(..1000) {
            ..20 if sequence.mutable => self.define(sequence, rng),
            20..30 => self.run("DISCARD ALL"),
            30..36 => self.look(rng),
            36..40 => self.check_currval(sequence),
            40..60 => self.take_turns(sequence, rng),
            60..100 => self.gapless(rng),
            100..160 => self.lease(sequence, rng),
            160..340 => self.transaction(rng),
            _ => self.draw(sequence, rng),
        }
    }

    /// Some draws with savepoints between them, then a commit or a rollback.
    fn transaction(&mut self, rng: &mut Rng) -> Outcome<()> {
        let begin =
            ["", " READ ONLY", " ISOLATION LEVEL REPEATABLE READ", " ISOLATION LEVEL SERIALIZABLE"];
        let read_only = rng.usize(..begin.len());
        self.run(&format!("BEGIN{}", begin[read_only]))?;
        let body = self.draws(rng, read_only == 1);
        self.finish(body, End::any(rng))
    }

    fn draws(&mut self, rng: &mut Rng, read_only: bool) -> Outcome<()> {
        for _ in 0..rng.usize(1..5) {
            let sequence = self.sequences[rng.usize(..self.sequences.len())];
            let savepoint = rng.f32() < 0.2;
            if savepoint {
                self.run("SAVEPOINT s")?;
            }
            // A draw from the sequence of the table may be an INSERT.
            if !read_only || !sequence.inserted {
                self.draw(sequence, rng)?;
            }
            if savepoint {
                self.run(if rng.bool() { "ROLLBACK TO s" } else { "RELEASE s" })?;
            }
        }
        Ok(())
    }

    /// Commits or rolls back; always rolls back what has failed.
    pub(super) fn finish(&mut self, body: Outcome<()>, end: End) -> Outcome<()> {
        match body {
            Ok(()) if end == End::Commit => self.run("COMMIT"),
            Err(Failure::Gone) => body,
            _ => {
                add(&self.ledger.figures.transactions_rolled_back, 1);
                self.run("ROLLBACK")?;
                body
            }
        }
    }

    fn draw(&mut self, sequence: &Sequence, rng: &mut Rng) -> Outcome<()> {
        let Ok(_alone) = sequence.lock_alone() else { return Ok(()) };
        let count = match (sequence.kind, rng.u32(..10)) {
            (_, ..2) => 1,
            (SequenceKind::Small(_), _) => rng.i64(1..20),
            (_, 2..4) => rng.i64(1..20),
            _ => rng.i64(20..self.torture.batch),
        };
        let ticket = self.ledger.ticket(sequence);
        let name = ticket.name.as_str();
        let values = match rng.u32(..10) {
            0 if sequence.hi_block.is_some() => return self.next_hi(sequence, &ticket),
            0 if !matches!(sequence.kind, SequenceKind::Cycle(_)) => self.next_range(name, count),
            1..4 => self.values(&format!("SELECT hilo_nextvals('{name}', {count})")),
            4 if sequence.inserted => self.values(&format!(
                "INSERT INTO inserted (n) SELECT generate_series(1, {}) RETURNING value",
                count.min(50)
            )),
            _ => self
                .values(&format!("SELECT hilo_nextval('{name}') FROM generate_series(1, {count})")),
        };
        match values {
            Ok(values) => {
                self.ledger.saw(sequence, &ticket, &mut self.last, &values, true);
                Ok(())
            }
            Err(failure) => {
                self.ledger.note_lost(sequence, count as u64);
                if matches!(&failure, Failure::Refused(state) if state == "2200H") {
                    self.succeed(sequence, &ticket)?;
                }
                Err(failure)
            }
        }
    }

    fn next_range(&mut self, name: &str, count: i64) -> Outcome<Vec<i64>> {
        let rows = self.query(&format!(
            "SELECT first, last, increment, count FROM hilo_nextrange('{name}', {count})"
        ))?;
        let [first, last, increment, got] =
            [0, 1, 2, 3].map(|column| rows[0].get::<_, i64>(column));
        let values: Vec<i64> = (0..got).map(|n| first + n * increment).collect();
        if got != count || values.last() != Some(&last) {
            self.ledger
                .figures
                .wrong(format!("{name}: {first} … {last} by {increment} is not {count} values"));
        }
        Ok(values)
    }

    fn next_hi(&mut self, sequence: &Sequence, ticket: &Ticket) -> Outcome<()> {
        let block = sequence.hi_block.unwrap_or(1);
        match self.values(&format!("SELECT hilo_next_hi('{}')", ticket.name)) {
            Ok(his) => {
                let first = sequence.start_value() + his[0] * block;
                let values: Vec<i64> = (first..first + block).collect();
                self.ledger.saw(sequence, ticket, &mut self.last, &values, false);
                Ok(())
            }
            Err(failure) => {
                self.ledger.note_lost(sequence, 2 * block as u64);
                Err(failure)
            }
        }
    }

    /// Ranges and values in turn: what one call leaves over serves the next.
    fn take_turns(&mut self, sequence: &Sequence, rng: &mut Rng) -> Outcome<()> {
        if sequence.kind != SequenceKind::Wide {
            return Ok(());
        }
        let count = rng.i64(2..80);
        for _ in 0..rng.usize(5..60) {
            let ticket = self.ledger.ticket(sequence);
            let name = ticket.name.as_str();
            let range = self.next_range(name, count);
            let values = range.and_then(|mut values| {
                values.extend(self.values(&format!("SELECT hilo_nextval('{name}')"))?);
                Ok(values)
            });
            match values {
                Ok(values) => self.ledger.saw(sequence, &ticket, &mut self.last, &values, true),
                Err(failure) => {
                    self.ledger.note_lost(sequence, count as u64 + 1);
                    return Err(failure);
                }
            }
        }
        Ok(())
    }

    /// A small sequence is used up: creates the one that replaces it.
    fn succeed(&mut self, sequence: &Sequence, ticket: &Ticket) -> Outcome<()> {
        let SequenceKind::Small(_) = sequence.kind else { return Ok(()) };
        let Ok(_definer) = sequence.definer.try_lock() else { return Ok(()) };
        if sequence.name().0 != ticket.name {
            return Ok(());
        }
        // It may be in a transaction that has just failed.
        self.run("ROLLBACK")?;
        let left = self.values(&format!("SELECT hilo_nextval('{}')", ticket.name));
        match left {
            // Values are left, only fewer than the statement asked for.
            Ok(values) => {
                self.ledger.saw(sequence, ticket, &mut self.last, &values, true);
                return Ok(());
            }
            Err(Failure::Refused(state)) if state == "2200H" => {}
            Err(failure) => {
                self.ledger.note_lost(sequence, 1);
                return Err(failure);
            }
        }
        let life = self.ledger.begin_life(sequence);
        let stem = ticket.name.rsplit_once('-').map_or(ticket.name.as_str(), |(stem, _)| stem);
        let name = format!("{stem}-{}", life.key);
        let sql = sequence.create(&name, &life);
        loop {
            let created = self.run(&sql);
            if matches!(&created, Ok(()))
                || matches!(&created, Err(Failure::Refused(state)) if state == "42710")
            {
                break;
            }
            self.reconnect();
        }
        life.committed.store(true, std::sync::atomic::Ordering::SeqCst);
        sequence.set_name(name, life.key);
        Ok(())
    }

    fn look(&mut self, rng: &mut Rng) -> Outcome<()> {
        let views = [
            "hilo_sequences",
            "hilo_stat_sequences",
            "hilo_stat_backends",
            "hilo_blocks",
            "hilo_gaps",
            "hilo_leases",
        ];
        self.run(&format!(
            "SELECT count(*) FROM (SELECT * FROM {} OFFSET 0) v",
            views[rng.usize(..views.len())]
        ))
    }

    /// hilo_currval and hilo_lastval return what the session was served last, while nobody drops the sequence.
    fn check_currval(&mut self, sequence: &Sequence) -> Outcome<()> {
        let Ok(_definer) = sequence.definer.try_lock() else { return Ok(()) };
        let Ok(_alone) = sequence.lock_alone() else { return Ok(()) };
        let ticket = self.ledger.ticket(sequence);
        let sql =
            format!("SELECT hilo_nextval('{0}'), hilo_currval('{0}'), hilo_lastval()", ticket.name);
        match self.query(&sql) {
            Ok(rows) => {
                let values = [0, 1, 2].map(|column| rows[0].get::<_, i64>(column));
                self.ledger.saw(sequence, &ticket, &mut self.last, &values[..1], true);
                if values[0] != values[1] || values[0] != values[2] {
                    self.ledger
                        .figures
                        .wrong(format!("{}: nextval, currval, lastval: {values:?}", ticket.name));
                }
                Ok(())
            }
            Err(failure) => {
                self.ledger.note_lost(sequence, 1);
                Err(failure)
            }
        }
    }

    fn values(&mut self, sql: &str) -> Outcome<Vec<i64>> {
        Ok(self.query(sql)?.iter().map(|row| row.get(0)).collect())
    }

    pub(super) fn query(&mut self, sql: &str) -> Outcome<Vec<Row>> {
        add(&self.ledger.figures.statements, 1);
        let since = Instant::now();
        let result = self.client.query(sql, &[]);
        self.ledger.figures.took(sql, since.elapsed());
        result.map_err(|error| classify(self.ledger, sql, &error))
    }

    pub(super) fn run(&mut self, sql: &str) -> Outcome<()> {
        add(&self.ledger.figures.statements, 1);
        let since = Instant::now();
        let result = self.client.batch_execute(sql);
        self.ledger.figures.took(sql, since.elapsed());
        result.map_err(|error| classify(self.ledger, sql, &error))
    }

    /// Connects again as soon as the server allows it, even while a smart stop waits for sessions to leave.
    pub(super) fn reconnect(&mut self) {
        let database = self.sequences[0].database;
        let deadline = Instant::now() + Duration::from_secs(120);
        self.last.clear();
        while Instant::now() < deadline {
            thread::sleep(Duration::from_millis(10));
            if let Ok(client) = self.torture.cluster.try_connect("postgres", database) {
                self.client = client;
                return;
            }
        }
        self.ledger.figures.wrong(format!("cannot connect to {database}"));
    }

    /// Runs a statement that must be refused with SQLSTATE `state`.
    pub(super) fn must_refuse(&mut self, sql: &str, state: &str) -> Outcome<()> {
        add(&self.ledger.figures.statements, 1);
        match self.client.batch_execute(sql) {
            Ok(()) => self.ledger.figures.wrong(format!("{sql}: not refused")),
            Err(error) if error.code().is_some_and(|code| code.code() == state) => {
                self.ledger.figures.note_refusal(state);
            }
            Err(error) => return Err(classify(self.ledger, sql, &error)),
        }
        Ok(())
    }

    /// The value that a statement returns; `None` if it is refused with SQLSTATE `state`.
    pub(super) fn value_or_refusal(&mut self, sql: &str, state: &str) -> Outcome<Option<i64>> {
        add(&self.ledger.figures.statements, 1);
        match self.client.query(sql, &[]) {
            Ok(rows) => Ok(Some(rows[0].get(0))),
            Err(error) if error.code().is_some_and(|code| code.code() == state) => {
                self.ledger.figures.note_refusal(state);
                Ok(None)
            }
            Err(error) => Err(classify(self.ledger, sql, &error)),
        }
    }

    pub(super) fn draw_some(&mut self, sequence: &Sequence, rng: &mut Rng) -> Outcome<()> {
        (0..rng.usize(..3)).try_for_each(|_| self.draw(sequence, rng))
    }

    pub(super) fn torture(&self) -> &Torture {
        self.torture
    }

    pub(super) fn ledger(&self) -> &Ledger {
        self.ledger
    }
}

pub fn classify(ledger: &Ledger, sql: &str, error: &Error) -> Failure {
    let Some(report) = error.as_db_error() else { return Failure::Gone };
    let state = report.code().code();
    ledger.figures.note_refusal(state);
    let timeout = report.message().contains("statement timeout");
    // Another session was between DROP EXTENSION and CREATE EXTENSION.
    let dropped = report.message().contains("is not installed in this database");
    if dropped {
        return Failure::Refused(state.to_owned());
    }
    if !ALLOWED.contains(&state) || timeout {
        let sql = sql.get(..120).unwrap_or(sql);
        ledger.figures.wrong(format!("{sql}: {state} {} {:?}", report.message(), report.detail()));
    }
    if error.is_closed()
        || ["FATAL", "PANIC"].contains(&report.severity())
        || state.starts_with("57P")
    {
        return Failure::Gone;
    }
    Failure::Refused(state.to_owned())
}

/// Repeats a statement that other sessions block for a moment, or that deadlocks with them.
pub fn repeat(torture: &Torture, client: &mut Client, sql: &str) {
    let mut reason = String::new();
    let done = came_true(LONG, || match client.batch_execute(sql) {
        Ok(()) => true,
        Err(error) => {
            reason = format!("{error:?}");
            client.is_closed()
        }
    });
    if !done || client.is_closed() {
        torture.ledger.figures.wrong(format!("{sql}: {reason}"));
    }
}
