//! A process that asks sources. It makes the requests that the database's worker has written down.
//! They are for the sequences of one owner whose queries are the same, or begin with the same
//! comment. So nothing that the query of an owner leaves in it reaches another's, and what holds up
//! one query holds up no other.
//!
//! A request is made in one transaction with what becomes of its answer. Until that is committed,
//! it is made again, with the same uuid.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::atomic::Ordering::Acquire;
use std::time::{Duration, Instant};

use pgrx::pg_sys;
use pgrx::prelude::*;

use hilo_core::backoff;
use hilo_core::numbers::SequenceId;

use crate::catalog::definitions::{self, Sequence};
use crate::catalog::lock_for_reservation;
use crate::catalog::owned::{self, Owned};
use crate::catalog::positions::{self, LockedPosition};
use crate::catalog::sources::{self, Request, Supply};
use crate::catalog::table::{LockWait, RowLock};
use crate::catalog::{catalog_oids, node, source_query};
use crate::errors::{FaultKind, HiloError};
use crate::gucs;
use crate::process::time_limit::{Unfinished, within};
use crate::process::{connections, ffi};
use crate::shared::fault::Fault;
use crate::shared::key::Key;
use crate::shared::{self, Shared, wait_event};
use crate::worker::connect;
use crate::worker::transaction::{self, Failure};

/// After so many failures in a row, the callers that wait learn of the error.
const TOLERATED: u32 = 3;

/// The sequences of one owner that have the same query.
#[derive(PartialEq, Eq, Hash)]
struct Group {
    owner: u32,
    query: String,
}

/// The error of one request, or of all requests of a sequence if their answers are refused.
struct Trouble {
    request: Option<Request>,
    failed: u32,
    again_at: Instant,
}

struct Source {
    shared: &'static Shared,
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
    let mut first = [0; 8];
    // SAFETY: Postgres has set this for a background worker; `sources::register` has filled it in.
    let extra = unsafe { &(*pg_sys::MyBgworkerEntry).bgw_extra };
    first.iter_mut().zip(extra).for_each(|(to, from)| *to = *from as u8);
    connections::init();
    connect(database);
    let group = transaction::run_within(PATIENCE, c"hilo: finding requests", || {
        let sequence = definitions::by_id(SequenceId(i64::from_ne_bytes(first)))?;
        let group = sequence.as_ref().and_then(group_of);
        Ok(group.filter(|group| group.is_ours_alone()))
    });
    if let Ok(Some(group)) = group {
        Source { shared, group, trouble: HashMap::new(), complained_at: None }.run();
    }
}

/// How long a transaction waits for a lock that does not concern the query.
const PATIENCE: Duration = Duration::from_secs(1);

fn group_of(sequence: &Sequence) -> Option<Group> {
    let query = source_query::common_part(sequence.definition.source.as_deref()?).to_owned();
    Some(Group { owner: sequence.owner.to_u32(), query })
}

impl Group {
    /// Takes a lock that one process for these sequences holds as long as it lives. Without it a
    /// request could be made twice at the same time, and one answer would be thrown away.
    fn is_ours_alone(&self) -> bool {
        /// Core's functions for advisory locks use 1 and 2.
        const OURS: u16 = 3;
        let mut hasher = DefaultHasher::new();
        self.hash(&mut hasher);
        let hash = hasher.finish();
        let tag = pg_sys::LOCKTAG {
            locktag_field1: ffi::database().to_u32(),
            locktag_field2: (hash >> 32) as u32,
            locktag_field3: hash as u32,
            locktag_field4: OURS,
            locktag_type: pg_sys::LockTagType::LOCKTAG_ADVISORY as u8,
            locktag_lockmethodid: pg_sys::USER_LOCKMETHOD as u8,
        };
        // SAFETY: inside a transaction; the lock is the session's, and does not wait.
        let got = unsafe { pg_sys::LockAcquire(&tag, pg_sys::ExclusiveLock as i32, true, true) };
        got != pg_sys::LockAcquireResult::LOCKACQUIRE_NOT_AVAIL
    }
}

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
            } else if busy_at.elapsed() >= gucs::worker_idle_timeout() {
                return;
            }
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
            if due.is_empty() {
                self.sleep(told, again.unwrap_or(busy_at + gucs::worker_idle_timeout()));
            }
            for (sequence, supply, request) in due {
                self.ask(&sequence, &supply, request);
            }
        }
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
                let ours = sequence.filter(|one| group_of(one).as_ref() == Some(&self.group));
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
        match done {
            Ok((key, None)) => {
                self.trouble.remove(&sequence.id);
                shared.reload(&key);
                shared.nudge(key.database);
            }
            Ok((key, Some(refused))) => {
                self.tell(sequence, None, Some(key), refused.into());
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
                self.tell(sequence, Some(request), noted.ok().flatten(), failure);
            }
        }
    }

    /// Tells the log and those who wait of a failure, and says when to try again: the same request,
    /// or the next one.
    fn tell(
        &mut self,
        sequence: &Sequence,
        request: Option<Request>,
        key: Option<Key>,
        failure: Failure,
    ) {
        let before = self.trouble.get(&sequence.id).map_or(0, |trouble| trouble.failed);
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
