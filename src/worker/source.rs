//! A process that asks sources. It makes the requests that the database's worker has written down.
//! They are for the sequences of one owner whose queries are the same, or begin with the same
//! comment. So the session is one owner's as long as it lives, and what holds up one query holds up
//! no other.
//!
//! A request is made in one transaction with what becomes of its answer. Until that is committed,
//! it is made again, with the same uuid.

use std::cell::Cell;
use std::collections::HashMap;
use std::sync::atomic::Ordering::Acquire;
use std::time::{Duration, Instant};

use pgrx::pg_sys;
use pgrx::prelude::*;

use hilo_core::backoff;
use hilo_core::numbers::SequenceId;

use crate::backend::Global;
use crate::catalog::definitions::{self, Sequence};
use crate::catalog::lock_for_reservation;
use crate::catalog::owned::{self, Owned};
use crate::catalog::positions::{self, LockedPosition};
use crate::catalog::source_query::{self, group_of};
use crate::catalog::sources::{self, Request, Supply};
use crate::catalog::table::{LockWait, RowLock};
use crate::catalog::{catalog_oids, node};
use crate::errors::{FaultKind, HiloError};
use crate::gucs;
use crate::process::time_limit::{Unfinished, within};
use crate::process::{connections, ffi};
use crate::shared::askers::{Group, Ticket};
use crate::shared::fault::Fault;
use crate::shared::key::Key;
use crate::shared::{self, Shared, databases, slices, wait_event};
use crate::worker::connect;
use crate::worker::sources::Errand;
use crate::worker::transaction::{self, Failure};

/// After so many failures in a row, the callers that wait learn of the error.
const TOLERATED: u32 = 3;

/// The error of one request, or of all requests of a sequence if their answers are refused.
struct Trouble {
    request: Option<Request>,
    failed: u32,
    again_at: Instant,
}

struct Source {
    shared: &'static Shared,
    ticket: Ticket,
    group: Group,
    trouble: HashMap<SequenceId, Trouble>,
    /// When it last logged a failure.
    complained_at: Option<Instant>,
}

/// The function in which Postgres starts the process. `argument` is the database's oid.
#[pg_guard]
#[unsafe(no_mangle)]
pub extern "C-unwind" fn hilo_source_main(argument: pg_sys::Datum) {
    let database = pg_sys::Oid::from_u32(argument.value() as u32);
    let Ok(shared) = shared::attach() else { return };
    let Errand { ticket, sequence } = Errand::ours();
    let Some(group) = shared.enter_asker(ticket, slices::my_number()) else { return };
    TICKET.set(Some(ticket));
    // SAFETY: the callback only changes our own shared memory, under our own locks, which the
    // process can still take then.
    unsafe { pg_sys::before_shmem_exit(Some(at_exit), pg_sys::Datum::null()) }
    connections::init();
    connect(database);
    // Its sequence may have changed since it was registered.
    let found = transaction::run_within(PATIENCE, c"hilo: finding requests", || {
        Ok(definitions::by_id(sequence)?.as_ref().and_then(group_of))
    });
    if found.is_ok_and(|found| found == Some(group)) {
        Source { shared, ticket, group, trouble: HashMap::new(), complained_at: None }.run();
    }
}

static TICKET: Global<Cell<Option<Ticket>>> = Global::new(Cell::new(None));

#[pg_guard]
unsafe extern "C-unwind" fn at_exit(_code: i32, _arg: pg_sys::Datum) {
    if let (Ok(shared), Some(ticket)) = (shared::attach(), TICKET.take()) {
        shared.leave_asker(ticket);
    }
}

/// How often a process in a database without sessions looks whether somebody waits for that.
const LOOK: Duration = Duration::from_millis(250);

/// How long a transaction waits for a lock that does not concern the query.
const PATIENCE: Duration = Duration::from_secs(1);

impl Source {
    fn run(mut self) {
        let mut busy_at = Instant::now();
        loop {
            self.interrupts();
            let told = self.shared.control.source_requests.load(Acquire);
            let found = self.open();
            if transaction::is_ending() {
                return;
            }
            // Requests that cannot be read now are looked for again.
            let again = found.is_err().then(|| Instant::now() + PATIENCE);
            let open = found.unwrap_or_default();
            let alone = self.shared.sessions_in(ffi::database()) == 0;
            if !open.is_empty() && !alone {
                busy_at = Instant::now();
            }
            let is_idle = busy_at.elapsed() >= gucs::worker_idle_timeout();
            self.trouble.retain(|id, trouble| {
                let is_open = open.iter().any(|(one, _, request)| {
                    one.id == *id && trouble.request.is_none_or(|failed| failed == *request)
                });
                is_open || (trouble.request.is_none() && trouble.again_at > Instant::now())
            });
            let is_due = |(sequence, ..): &&(Sequence, Supply, Request)| {
                let trouble = self.trouble.get(&sequence.id);
                trouble.is_none_or(|trouble| trouble.again_at <= Instant::now())
            };
            let due: Vec<_> = open.iter().filter(is_due).cloned().collect();
            // Somebody waits until nobody is connected.
            let in_the_way = alone && databases::is_wanted();
            let leaves = is_idle || in_the_way || self.is_crowded_out(due.is_empty());
            if leaves && self.shared.leave_asker_unless(self.ticket, told) {
                return;
            }
            if due.is_empty() {
                let end = again.unwrap_or(busy_at + gucs::worker_idle_timeout());
                self.sleep(told, if alone { end.min(Instant::now() + LOOK) } else { end });
            }
            for (sequence, supply, request) in due {
                self.ask(&sequence, &supply, request);
            }
        }
    }

    /// Whether this process makes room for another. The next process of this group asks what is
    /// left.
    fn is_crowded_out(&self, asks_nothing: bool) -> bool {
        (asks_nothing && self.shared.askers_wanted())
            || self.shared.askers_needed_by_another(self.group.owner)
    }

    fn interrupts(&self) {
        pgrx::check_for_interrupts!();
        crate::worker::reread_configuration();
    }

    /// Sleeps until a request may have come since `told` was read, a retry is due, or a signal
    /// comes, at most until `end`.
    fn sleep(&self, told: u64, end: Instant) {
        let again = self.trouble.values().map(|trouble| trouble.again_at);
        let until = again.fold(end, Instant::min);
        let control = self.shared.control;
        // Whoever is in the queue has its latch set by a broadcast.
        control.source_wanted.prepare();
        if control.source_requests.load(Acquire) == told {
            let left = until.saturating_duration_since(Instant::now()).as_millis() as i64 + 1;
            ffi::sleep(left, wait_event::code(c"HiloSourceMain"));
        }
        shared::Condition::cancel();
    }

    /// The requests of this group that have no answer.
    fn open(&self) -> Result<Vec<(Sequence, Supply, Request)>, Failure> {
        transaction::run_within(PATIENCE, c"hilo: finding requests", || {
            let mut open = Vec::new();
            for supply in sources::open(node::id())? {
                let sequence = definitions::by_id(supply.sequence)?;
                let ours = sequence.filter(|one| group_of(one) == Some(self.group));
                if let (Some(sequence), Some(request)) = (ours, supply.open_request()) {
                    open.push((sequence, supply, request));
                }
            }
            Ok(open)
        })
    }

    fn ask(&mut self, sequence: &Sequence, supply: &Supply, request: Request) {
        let limit = gucs::source_timeout();
        let shared = self.shared;
        let done = transaction::run_within(limit, c"hilo: asking the source of a sequence", || {
            receive(shared, sequence, supply, &request, limit)
        });
        source_query::release_locks();
        match done {
            Ok((key, None)) => {
                self.trouble.remove(&sequence.id);
                shared.reload(&key);
                shared.nudge(key.database);
            }
            Ok((key, Some(refused))) => {
                self.tell(sequence, supply, None, Some(key), refused.into());
                // The next request is written down where the worker finds that it is wanted.
                shared.reload(&key);
                shared.nudge(key.database);
            }
            Err(_) if transaction::is_ending() => {}
            Err(failure) => {
                let activity = c"hilo: noting that a source failed";
                let noted = transaction::run_within(PATIENCE, activity, || {
                    note(shared, sequence, supply.node, &request, &failure.in_full())
                });
                self.tell(sequence, supply, Some(request), noted.ok().flatten(), failure);
            }
        }
    }

    /// Tells the log and those who wait of a failure, and says when to try again: the same request,
    /// or the next one.
    fn tell(
        &mut self,
        sequence: &Sequence,
        supply: &Supply,
        request: Option<Request>,
        key: Option<Key>,
        failure: Failure,
    ) {
        // An earlier process may have tried.
        let before = self.trouble.get(&sequence.id).map_or(0, |trouble| trouble.failed);
        let before = before.max(supply.failures.max(0) as u32);
        let failed = before + 1;
        let wait = backoff::delay_of_many(failed, shared::random_id() as u32);
        let trouble = Trouble { request, failed, again_at: Instant::now() + wait };
        self.trouble.insert(sequence.id, trouble);
        let Failure { sqlstate, kind, message, .. } = failure;
        let kind = if kind == FaultKind::Other { FaultKind::Source } else { kind };
        const PAUSE: Duration = Duration::from_secs(60);
        if self.complained_at.is_none_or(|at| at.elapsed() > PAUSE) {
            self.complained_at = Some(Instant::now());
            log!("hilo sequence \"{}\" got no values from its source: {message}", sequence.name);
        }
        if let Some(key) = key {
            let message = format!("its source failed: {message}");
            let fault = Fault::new(sqlstate, kind, &message, ffi::now());
            self.shared.note_source_failure(&key, fault, failed >= TOLERATED);
        }
    }
}

/// Runs the query, and takes what it brings, in the current transaction. Returns why nothing of
/// that can be served.
fn receive(
    shared: &'static Shared,
    sequence: &Sequence,
    supply: &Supply,
    request: &Request,
    limit: Duration,
) -> Result<(Key, Option<HiloError>), HiloError> {
    let began = Instant::now();
    let answer = {
        let _cuttable = connections::Cuttable::begin();
        within(limit, || source_query::run(sequence, supply, request))
    };
    let answer = match answer {
        Ok(answer) => answer,
        Err(Unfinished::TooLate) => return Err(HiloError::SourceLate(limit.as_millis() as i64)),
        Err(Unfinished::Failed(error)) => error.rethrow(),
    };
    let took = began.elapsed().as_micros() as i64;
    if !lock_for_reservation()? {
        return Err(HiloError::SourceChanged);
    }
    with_request(shared, sequence, supply.node, request, |owned, supply| {
        owned.receive(supply, &answer, took)
    })?
    .ok_or(HiloError::SourceChanged)
}

/// Locks the position after the query. `None`: it is gone, or another transaction keeps it.
///
/// That transaction may wait for a lock of the query, if it has dropped the sequence and then drops
/// a counter. So this looks again and again, and waits in no deadlock.
fn lock_position(id: SequenceId, node: i32) -> Result<Option<LockedPosition>, HiloError> {
    const PAUSE: i64 = 10;
    let began = Instant::now();
    loop {
        match positions::lock(id, node, LockWait::Skip)? {
            RowLock::Locked(locked) => return Ok(Some(locked)),
            RowLock::Skipped if began.elapsed() < PATIENCE => {
                ffi::sleep(PAUSE, wait_event::code(c"HiloSourceMain"));
                check_for_interrupts!();
            }
            RowLock::Skipped | RowLock::Missing => return Ok(None),
        }
    }
}

/// Writes down that a request has failed, unless it is no longer open.
fn note(
    shared: &'static Shared,
    sequence: &Sequence,
    node: i32,
    request: &Request,
    message: &str,
) -> Result<Option<Key>, HiloError> {
    let note =
        |owned: &mut Owned, supply: &mut Supply| owned.note_failure(supply, message.to_owned());
    Ok(with_request(shared, sequence, node, request, note)?.map(|(key, ())| key))
}

/// Has `work` write what becomes of a request, under the lock of its position. `None`: the request
/// is no longer open, or the sequence has been altered since it was made.
fn with_request<T>(
    shared: &'static Shared,
    asked: &Sequence,
    node: i32,
    request: &Request,
    work: impl FnOnce(&mut Owned, &mut Supply) -> Result<T, HiloError>,
) -> Result<Option<(Key, T)>, HiloError> {
    let Some(locked) = lock_position(asked.id, node)? else { return Ok(None) };
    let same = |now: &Sequence| {
        (now.owner, &now.definition.source) == (asked.owner, &asked.definition.source)
            && locked.position.is_ours()
            && !locked.position.may_lack()
    };
    let Some(sequence) = definitions::by_id(asked.id)?.filter(same) else { return Ok(None) };
    owned::own(shared.life(), &sequence, &locked, |owned| {
        let mut supply = owned.supply()?;
        if supply.open_request() != Some(*request) {
            return Ok(None);
        }
        let done = work(owned, &mut supply)?;
        Ok(Some((Key::here(catalog_oids()?.extension, asked.id), done)))
    })
}
