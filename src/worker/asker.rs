//! A process that asks the sources of one owner's sequences, and of nobody else's: its session is
//! that owner's as long as it lives. It makes the requests that the database's worker has written
//! down, one after the other. A request that has failed less often comes first.
//!
//! One transaction makes a request and stores its answer. Until one has committed, the request is
//! made again with the same uuid. Its row says how often it has failed, and so when the next try is
//! due.

use std::cell::Cell;
use std::collections::HashMap;
use std::sync::atomic::Ordering::Acquire;
use std::time::{Duration, Instant};

use pgrx::pg_sys;
use pgrx::prelude::*;

use hilo_core::numbers::{Micros, SequenceId};
use hilo_core::policy;

use crate::backend::Global;
use crate::catalog::numbers::owned_position::{self, Kind, SourcedPosition};
use crate::catalog::numbers::source_query;
use crate::catalog::numbers::sources::{self, Open, Request, SourceState};
use crate::catalog::rows::catalog_tables::{catalog_oids, lock_for_reservation};
use crate::catalog::rows::table::{LockWait, RowLock};
use crate::catalog::sequence::definitions::{self, Sequence};
use crate::catalog::sequence::node;
use crate::catalog::sequence::positions::{self, LockedPosition};
use crate::errors::{FaultKind, HiloError};
use crate::gucs;
use crate::process::time_limit::{TooLate, within_unless};
use crate::process::{connections, ffi, subtransaction};
use crate::shared::askers::{Found, Owner, Ticket};
use crate::shared::fault::Fault;
use crate::shared::key::Key;
use crate::shared::wait_event::WaitEvent;
use crate::shared::{self, Shared, databases, slices};
use crate::worker::connect;
use crate::worker::transaction::{self, Failure};

/// After so many failures in a row, the callers that wait learn of the error.
const TOLERATED: u32 = 3;

/// The message of `_hilo.hilo_remote` where a centre has seen a later request of this name.
const COPIED: &str = "a copy of this server has asked by its name";

struct Asker {
    shared: &'static Shared,
    ticket: Ticket,
    owner: Owner,
    /// Until when requests rest, if their failure could not be written down.
    rests: HashMap<SequenceId, Instant>,
    /// When it last logged a failure.
    complained_at: Option<Instant>,
}

/// The function in which Postgres starts the process. `argument` is the database's oid.
#[pg_guard]
#[unsafe(no_mangle)]
pub extern "C-unwind" fn hilo_source_main(argument: pg_sys::Datum) {
    let database = pg_sys::Oid::from_u32(argument.value() as u32);
    let Ok(shared) = shared::attach() else { return };
    let ticket = Ticket::ours();
    let Some(owner) = shared.enter_asker(ticket, slices::my_number()) else { return };
    PLACE.set(Some((shared, ticket)));
    // SAFETY: the callback only changes our own shared memory, under our own locks, which the
    // process can still take then.
    unsafe { pg_sys::before_shmem_exit(Some(at_exit), pg_sys::Datum::null()) }
    connections::init();
    connect(database);
    Asker { shared, ticket, owner, rests: HashMap::new(), complained_at: None }.run();
}

/// The place of this process.
static PLACE: Global<Cell<Option<(&'static Shared, Ticket)>>> = Global::new(Cell::new(None));
/// The sequence whose source this process is asking.
static ASKING: Global<Cell<Option<Key>>> = Global::new(Cell::new(None));

#[pg_guard]
unsafe extern "C-unwind" fn at_exit(_code: i32, _arg: pg_sys::Datum) {
    if let Some((shared, ticket)) = PLACE.take() {
        if let Some(key) = ASKING.take() {
            let ended = HiloError::AskerEnded;
            let fault = fault(ended.sqlstate(), FaultKind::SourceEnded, &ended.to_string());
            shared.note_source_failure(&key, fault, false);
        }
        shared.leave_asker(ticket);
    }
}

/// Whether others wait, and the query has had its time. It may run in a signal handler.
fn is_query_over() -> bool {
    PLACE.get().is_some_and(|(shared, ticket)| shared.is_query_over(ticket))
}

/// How often a process in a database without sessions checks whether somebody waits for the
/// database.
const LOOK: Duration = Duration::from_millis(250);

/// How long a transaction waits for a lock that does not concern the query.
const PATIENCE: Duration = Duration::from_secs(1);

impl Asker {
    fn run(mut self) {
        let mut busy_at = Instant::now();
        loop {
            self.interrupts();
            let told = self.shared.control.source_requests.load(Acquire);
            let found = self.open();
            let asked = found.as_deref().is_ok_and(|open| self.ask_due(open, told));
            if transaction::is_ending() {
                return;
            }
            if self.shared.is_asker_wanted(self.ticket) {
                return self.make_room();
            }
            let alone = self.shared.sessions_in(ffi::database()) == 0;
            if found.as_ref().is_ok_and(|open| !open.is_empty()) && !alone {
                busy_at = Instant::now();
            }
            let is_idle = busy_at.elapsed() >= gucs::worker_idle_timeout();
            // Somebody waits until nobody is connected.
            let in_the_way = alone && databases::is_wanted();
            // Another one has nothing to ask.
            let is_spare = !asked && self.shared.find_asker(self.owner) == Found::Resting;
            let leaves = is_idle || in_the_way || is_spare;
            if leaves && self.shared.leave_asker_unless(self.ticket, told) {
                return;
            }
            if !asked {
                let end = busy_at + gucs::worker_idle_timeout();
                let end = if alone { end.min(Instant::now() + LOOK) } else { end };
                self.sleep(told, self.next_due(&found).fold(end, Instant::min));
            }
        }
    }

    fn interrupts(&self) {
        pgrx::check_for_interrupts!();
        crate::worker::reread_configuration();
    }

    /// The requests of this owner that have no answer. They are in the order of how often they have
    /// failed, and then of their age.
    fn open(&self) -> Result<Vec<Open>, Failure> {
        transaction::run_within(PATIENCE, c"hilo: finding requests", || {
            let mut open = sources::open(node::id(), self.owner.role())?;
            open.iter().try_for_each(|one| note_end(self.shared, one))?;
            open.sort_by_key(|one| (one.state.failures, one.request.at));
            Ok(open)
        })
    }

    /// When a request is to be made.
    fn due(&self, one: &Open) -> Instant {
        let now = Instant::now();
        let noted = now + one.state.rests(ffi::now());
        self.rests.get(&one.sequence.id).map_or(noted, |until| noted.max(*until))
    }

    /// When requests are due, and when requests that could not be read are looked for again.
    fn next_due(&self, found: &Result<Vec<Open>, Failure>) -> impl Iterator<Item = Instant> {
        let again = found.is_err().then(|| Instant::now() + PATIENCE);
        let open = found.iter().flatten().map(|one| self.due(one));
        again.into_iter().chain(open)
    }

    /// Makes the requests that are due, until its place is wanted. `told` was read before the
    /// requests. Returns whether there were any that no other process makes.
    fn ask_due(&mut self, open: &[Open], told: u64) -> bool {
        let mut any = false;
        for one in open {
            if self.due(one) > Instant::now() {
                continue;
            }
            let Open { ref sequence, ref state, .. } = *one;
            let patience = policy::patience(state.failures.max(0) as u32, state.latency);
            if !self.shared.begin_asking(self.ticket, sequence.id, Micros(patience)) {
                continue;
            }
            any = true;
            let answered = self.ask(one);
            self.shared.end_asking(self.ticket);
            self.interrupts();
            let news = self.shared.control.source_requests.load(Acquire) != told;
            let is_wanted = self.shared.is_asker_wanted(self.ticket);
            if transaction::is_ending() || is_wanted || (news && !answered) {
                break;
            }
        }
        any
    }

    /// Leaves the place to another owner, and has the worker see to the requests that are left.
    fn make_room(&self) {
        self.shared.leave_asker(self.ticket);
        let extension = transaction::run_within(PATIENCE, c"hilo: leaving requests", || {
            Ok(catalog_oids()?.extension)
        });
        let Ok(extension) = extension else { return };
        for one in self.open().unwrap_or_default() {
            self.shared.reload(&Key::here(extension, one.sequence.id));
        }
        self.shared.wake_all_workers();
    }

    /// Sleeps until a request may have come since `told` was read, or a signal comes, at most until
    /// `end`.
    fn sleep(&self, told: u64, end: Instant) {
        let control = self.shared.control;
        // Whoever is in the queue has its latch set by a broadcast.
        control.source_wanted.prepare();
        self.shared.rest_asker(self.ticket, true);
        if control.source_requests.load(Acquire) == told {
            let left = end.saturating_duration_since(Instant::now()).as_millis() as i64 + 1;
            ffi::sleep(left, WaitEvent::SOURCE_MAIN.code());
        }
        self.shared.rest_asker(self.ticket, false);
        shared::Condition::cancel();
    }

    /// Makes a request. Returns whether it has been answered.
    fn ask(&mut self, one: &Open) -> bool {
        let Open { ref sequence, ref state, ref request } = *one;
        let limit = gucs::source_timeout();
        let shared = self.shared;
        let done = transaction::run_within(limit, c"hilo: asking the source of a sequence", || {
            // Another process has made it.
            if !sources::is_open(sequence.id, state.node, request)? {
                return Ok(None);
            }
            if is_kept(sequence.id, state.node)? {
                return Err(HiloError::SourceChanged);
            }
            receive(shared, sequence, state, request, limit).map(Some)
        });
        source_query::release_locks();
        if done.is_ok() || !transaction::is_ending() {
            ASKING.set(None);
        }
        match done {
            Ok(None) => return true,
            Ok(Some((key, refused))) => {
                let answered = refused.is_none();
                if let Some(refused) = refused {
                    self.tell(one, Some(key), refused.into());
                }
                // A next request is written down where the worker finds that it is wanted.
                shared.reload(&key);
                shared.wake_worker(key.database);
                return answered;
            }
            Err(_) if transaction::is_ending() => {}
            Err(failure)
                if failure.message == COPIED && state.may_part() && part(sequence, request) =>
            {
                shared.wake_worker(ffi::database().to_u32());
            }
            Err(failure) => self.fail(one, failure),
        }
        false
    }

    /// Notes that a request has failed, and gives it up if it would always fail.
    fn fail(&mut self, one: &Open, failure: Failure) {
        let Open { ref sequence, ref state, ref request } = *one;
        let (shared, message) = (self.shared, failure.in_full());
        let ends = is_refused(&failure, state.failures + 1);
        let noted = transaction::run_within(PATIENCE, c"hilo: noting that a source failed", || {
            note(shared, sequence, state.node, request, (&message, ends))
        });
        let noted = noted.ok().flatten();
        if noted.is_none() {
            let now = Instant::now();
            self.rests.retain(|_, until| *until > now);
            self.rests.insert(sequence.id, now + LOOK);
        }
        self.tell(one, noted, failure);
        if let Some(key) = noted.filter(|_| ends) {
            shared.reload(&key);
            shared.wake_worker(key.database);
        }
    }

    /// Reports a failure to the log and to the waiting sessions.
    fn tell(&mut self, one: &Open, key: Option<Key>, failure: Failure) {
        let Failure { sqlstate, kind, message, advice } = failure;
        let kind = if kind == FaultKind::Other { FaultKind::Source } else { kind };
        const PAUSE: Duration = Duration::from_secs(60);
        if self.complained_at.is_none_or(|at| at.elapsed() > PAUSE) {
            self.complained_at = Some(Instant::now());
            let (name, message) = (one.sequence.name.to_string(), message.clone());
            HiloError::SourceFailed { name, message, advice }.report(PgLogLevel::LOG);
        }
        if let Some(key) = key {
            let fault = fault(sqlstate, kind, &message);
            let failed = one.state.failures.max(0) as u32 + 1;
            self.shared.note_source_failure(&key, fault, failed >= TOLERATED);
        }
    }
}

/// A failure of a source, as the waiting sessions are told of it.
fn fault(sqlstate: i32, kind: FaultKind, message: &str) -> Fault {
    Fault::new(sqlstate, kind, &format!("its source failed: {message}"), ffi::now())
}

/// Runs the query, and stores its answer, in the current transaction. Returns why nothing of the
/// answer can be served.
fn receive(
    shared: &'static Shared,
    sequence: &Sequence,
    state: &SourceState,
    request: &Request,
    limit: Duration,
) -> Result<(Key, Option<HiloError>), HiloError> {
    let began = Instant::now();
    ASKING.set(Some(Key::here(catalog_oids()?.extension, sequence.id)));
    let answer = {
        let _cuttable = connections::Cuttable::begin();
        within_unless(limit, is_query_over, || source_query::run(sequence, state, request))
    };
    let answer = match answer {
        Ok(answer) => answer,
        Err(TooLate) if began.elapsed() < limit => {
            return Err(HiloError::SourceCut(began.elapsed().as_millis() as i64));
        }
        Err(TooLate) => return Err(HiloError::SourceLate(limit.as_millis() as i64)),
    };
    let took = began.elapsed().as_micros() as i64;
    if !lock_for_reservation()? {
        return Err(HiloError::SourceChanged);
    }
    with_request(shared, sequence, state.node, request, |position, state| {
        position.receive(state, &answer, took)
    })?
    .ok_or(HiloError::SourceChanged)
}

/// Whether the position is gone, or another transaction keeps it locked: a source that counts would
/// bring values that cannot be stored.
fn is_kept(id: SequenceId, node: i32) -> Result<bool, HiloError> {
    subtransaction::try_out(|| Ok(lock_position(id, node)?.is_none()))
}

/// Locks the position. `None`: it is gone, or another transaction keeps it.
///
/// That transaction may wait for a lock of the query before, if it has dropped the sequence and
/// then drops a counter. So this looks again and again, and waits in no deadlock.
fn lock_position(id: SequenceId, node: i32) -> Result<Option<LockedPosition>, HiloError> {
    const PAUSE: i64 = 10;
    let began = Instant::now();
    loop {
        match positions::lock(id, node, LockWait::Skip)? {
            RowLock::Locked(locked) => return Ok(Some(locked)),
            RowLock::Skipped if began.elapsed() < PATIENCE => {
                ffi::sleep(PAUSE, WaitEvent::SOURCE_MAIN.code());
                check_for_interrupts!();
            }
            RowLock::Skipped | RowLock::Missing => return Ok(None),
        }
    }
}

/// Whether a source that has failed like this must not be asked the same again. It has refused the
/// request, or has not answered in time so often (`failed`) that the size may be the cause. A lost
/// connection tells nothing: the answer may be waiting.
fn is_refused(failure: &Failure, failed: i32) -> bool {
    use PgSqlErrorCode::*;
    let class = |code: i32| code & 0xfff;
    let passing = [
        ERRCODE_CONNECTION_EXCEPTION,
        ERRCODE_TRANSACTION_ROLLBACK,
        ERRCODE_INSUFFICIENT_RESOURCES,
        ERRCODE_OPERATOR_INTERVENTION,
    ];
    let late = [ERRCODE_LOCK_NOT_AVAILABLE, ERRCODE_QUERY_CANCELED];
    match late.map(|code| code as i32).contains(&failure.sqlstate) {
        true => failed >= TOLERATED as i32,
        false => !passing.map(|code| class(code as i32)).contains(&class(failure.sqlstate)),
    }
}

/// Takes a new name for the requests of a sequence. Returns whether that is done.
fn part(sequence: &Sequence, request: &Request) -> bool {
    let done = transaction::run_within(PATIENCE, c"hilo: taking a new name", || {
        source_query::take_new_name(sequence, request);
        Ok(())
    });
    if done.is_ok() {
        HiloError::Copied(sequence.name.to_string()).warn();
    }
    done.is_ok()
}

/// Writes down that a request has failed, and whether it ends with that, unless it is no longer
/// open.
fn note(
    shared: &'static Shared,
    sequence: &Sequence,
    node: i32,
    request: &Request,
    (message, ends): (&str, bool),
) -> Result<Option<Key>, HiloError> {
    let note = |position: &mut SourcedPosition, state: &mut SourceState| {
        if ends {
            state.give_up();
        }
        position.note_failure(state, message.to_owned())
    };
    Ok(with_request(shared, sequence, node, request, note)?.map(|(key, ())| key))
}

/// Does the same if an earlier process has ended while it made the request.
fn note_end(shared: &'static Shared, one: &Open) -> Result<(), HiloError> {
    let Open { sequence, state, request } = one;
    let key = Key::here(catalog_oids()?.extension, sequence.id);
    let known = state.last_error_at.map_or(request.at, |at| at.max(request.at));
    if shared.source_ended_at(&key).is_some_and(|at| at > known) {
        let failure = Failure::from(HiloError::AskerEnded);
        let ends = is_refused(&failure, state.failures + 1);
        note(shared, sequence, state.node, request, (&failure.in_full(), ends))?;
    }
    Ok(())
}

/// Has `work` write the outcome of a request, under the lock of its position. `None`: the request
/// is no longer open, or the sequence has been altered since it was made.
fn with_request<T>(
    shared: &'static Shared,
    asked: &Sequence,
    node: i32,
    request: &Request,
    work: impl FnOnce(&mut SourcedPosition, &mut SourceState) -> Result<T, HiloError>,
) -> Result<Option<(Key, T)>, HiloError> {
    let Some(locked) = lock_position(asked.id, node)? else { return Ok(None) };
    let same = |now: &Sequence| {
        (now.owner, &now.definition.source) == (asked.owner, &asked.definition.source)
            && locked.position.is_ours()
            && !locked.position.may_lack()
    };
    let Some(sequence) = definitions::by_id(asked.id)?.filter(same) else { return Ok(None) };
    owned_position::with_position(shared.life(), &sequence, &locked, |owned| {
        let Kind::Sourced(mut position) = owned.kind() else { return Ok(None) };
        let mut state = position.state()?;
        if state.open_request() != Some(*request) {
            return Ok(None);
        }
        let done = work(&mut position, &mut state)?;
        Ok(Some((Key::here(catalog_oids()?.extension, asked.id), done)))
    })
}
