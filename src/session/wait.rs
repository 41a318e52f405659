//! Waiting: for a free slot, for the worker to read a sequence's terms, for a block.

use std::cell::Cell;
use std::sync::atomic::Ordering::*;
use std::time::{Duration, Instant};

use hilo_core::numbers::{Epoch, Index, Micros, Serial, Timestamp};

use crate::backend::Global;
use crate::catalog::rights::privileges;
use crate::errors::{Cause, HiloError, NameGuess};
use crate::gucs;
use crate::process::ffi;
use crate::session::names::CachedName;
use crate::shared::fault::Fault;
use crate::shared::key::Key;
use crate::shared::pin::Pinned;
use crate::shared::slot::{DROPPED, Locked, Slot, Terms};
use crate::shared::wait_event::WaitEvent;
use crate::shared::workers::{self, Wake};
use crate::shared::{self, Condition, Shared, databases};

/// The slot that this backend has pinned, and the slot that it waits at. An ERROR drops the guards;
/// a FATAL error does not, and leaves them to [`leave`].
static PINNED: Global<Cell<Option<Pinned>>> = Global::new(Cell::new(None));
static WAITING: Global<Cell<Option<&'static Slot>>> = Global::new(Cell::new(None));

/// Keeps a slot from being reused, until it is dropped.
pub struct Pin(());

impl Pin {
    /// Keeps the pin of a slot that was found.
    pub fn keep(pinned: Pinned) -> Pin {
        let before = PINNED.replace(Some(pinned));
        debug_assert!(before.is_none());
        Pin(())
    }

    /// Pins the slot of a cached name, and only then compares its version. `None`: the slot is no
    /// longer what the cached name says.
    pub fn for_name(slot: &'static Slot, cached: &CachedName) -> Option<Pin> {
        let pin = Pin::keep(Pinned::new(slot));
        (slot.version.load(SeqCst) == cached.version()).then_some(pin)
    }
}

impl Drop for Pin {
    fn drop(&mut self) {
        drop(PINNED.take());
    }
}

/// Counts this backend among those that wait for a block.
struct Waiting(());

impl Waiting {
    fn at(slot: &'static Slot) -> Waiting {
        slot.waiting.fetch_add(1, SeqCst);
        WAITING.set(Some(slot));
        Waiting(())
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        if let Some(slot) = WAITING.take() {
            slot.waiting.fetch_sub(1, SeqCst);
        }
    }
}

/// Releases at exit the pin and the queue that an interrupted wait has left.
pub fn leave() {
    drop(Waiting(()));
    drop(Pin(()));
}

/// How long to sleep before checking whether the worker is still running.
const NAP: Duration = Duration::from_millis(100);

/// One wait: how long it may last, and why it lasts, as far as is known.
struct Deadline {
    began: Instant,
    timeout: Duration,
    /// Whether there is no worker, and none can be registered.
    no_worker: bool,
    /// Whether there was no worker, and none could be registered, at some point of the wait.
    starved: bool,
}

impl Deadline {
    fn new() -> Deadline {
        Deadline {
            began: Instant::now(),
            timeout: gucs::reserve_timeout(),
            no_worker: false,
            starved: false,
        }
    }

    fn is_over(&self) -> bool {
        self.began.elapsed() >= self.timeout
    }

    /// Wakes the database's worker, or registers one.
    fn wake(&mut self, shared: &'static Shared) {
        self.no_worker = !wake(shared);
        self.starved |= self.no_worker;
    }

    /// Sleeps until `condition` is broadcast, or for a while.
    fn sleep(&self, condition: &Condition, event: WaitEvent) {
        let nap = if self.no_worker { NAP / 5 } else { NAP };
        let ms = self.timeout.saturating_sub(self.began.elapsed()).min(nap).as_millis();
        condition.sleep(ms as i64 + 1, event);
    }
}

/// Wakes the worker of this database, or registers one. `false`: there is none, and none could be
/// registered.
pub fn wake(shared: &'static Shared) -> bool {
    let database = ffi::database();
    let registered = match shared.wake(database) {
        Wake::Woken => true,
        Wake::Register(place) => {
            let registered = workers::register(database);
            if !registered {
                shared.unregister(place);
            }
            registered
        }
        Wake::Full => false,
    };
    if !registered {
        shared.control.worker_wanted_by.store(database.to_u32(), Relaxed);
        shared.control.workers_wanted_at.store(ffi::monotonic().0, Relaxed);
        shared.wake_all_workers();
    }
    registered
}

/// Makes sure, once, that the database has a worker when this backend is about to hold numbers for
/// the first time. At a stop, memory is flushed only if there is one. A worker that is running is
/// not woken, as it stays while there are sessions.
pub fn ensure_worker(shared: &'static Shared) {
    static ENSURED: Global<Cell<bool>> = Global::new(Cell::new(false));
    if !ENSURED.replace(true) && !shared.has_worker_process(ffi::database()) {
        wake(shared);
    }
}

/// Calls `look` until it has found something that other processes free or, when its time is over,
/// returns an error. Wakes all workers in between.
fn poll<T>(
    shared: &'static Shared,
    freed: &Condition,
    event: WaitEvent,
    look: impl Fn(bool) -> Option<Result<T, HiloError>>,
) -> Result<T, HiloError> {
    let mut deadline = Deadline::new();
    freed.prepare();
    let found = loop {
        if let Some(found) = look(deadline.is_over()) {
            break found;
        }
        deadline.wake(shared);
        shared.wake_all_workers();
        deadline.sleep(freed, event);
    };
    Condition::cancel();
    found
}

/// The slot of a sequence, pinned. If all slots are taken, waits until one becomes free.
pub fn for_slot(shared: &'static Shared, key: &Key) -> Result<(&'static Slot, Pin), HiloError> {
    let found = |pinned: Pinned| (pinned.slot(), Pin::keep(pinned));
    if let Some(pinned) = shared.find_or_add(key) {
        return Ok(found(pinned));
    }
    shared.free_dropped_databases(databases::exists);
    poll(shared, &shared.control.slot_freed, WaitEvent::SLOT, |is_over| {
        if let Some(pinned) = shared.find_or_add(key) {
            return Some(Ok(found(pinned)));
        }
        shared.control.slots_wanted.store(1, Release);
        is_over.then(|| Err(HiloError::DirectoryFull(gucs::max_sequences())))
    })
}

/// A place for a range that this transaction leases. If all are taken, waits for those of
/// transactions that were rolled back, which the workers write off.
pub fn for_place(shared: &'static Shared) -> Result<usize, HiloError> {
    if let Some(at) = shared.allocate_pending() {
        return Ok(at);
    }
    shared.free_dropped_databases(databases::exists);
    poll(shared, &shared.control.pending_freed, WaitEvent::LEASE, |is_over| {
        // Counted first, so that places which are freed after that are found.
        let dead = shared.control.pending_dead.load(Acquire) as usize;
        let full = || Err(HiloError::TooManyLeases { most: shared.pending.len(), dead });
        let place = shared.allocate_pending().map(Ok);
        place.or_else(|| (dead == 0 || is_over).then(full))
    })
}

/// The terms of a sequence, as the worker has read them.
pub struct Learned {
    pub terms: Terms,
    pub epoch: Epoch,
    pub serial: Serial,
    pub version: u64,
}

impl Learned {
    /// `None`: the worker has not read the rows yet, or the sequence was dropped.
    pub fn from_locked(locked: &Locked) -> Option<Learned> {
        let (terms, serial) = locked.terms()?;
        let version = locked.slot.version.load(Relaxed);
        (locked.epoch != DROPPED).then_some(Learned { terms, epoch: locked.epoch, serial, version })
    }
}

/// The terms of a pinned slot, once the worker has read them.
pub fn for_terms(
    shared: &'static Shared,
    slot: &'static Slot,
    name: &str,
) -> Result<Learned, HiloError> {
    let read = |locked: &mut Locked| {
        if locked.epoch == DROPPED {
            return Some(None);
        }
        Learned::from_locked(locked).map(Some)
    };
    until(shared, slot, name, read)?
        .ok_or_else(|| HiloError::NoSuchSequence { name: name.into(), meant: NameGuess::New })
}

/// Waits until a pinned slot has something to take under `serial`, or has another serial or no
/// terms. The caller may be served no index below `floor`.
///
/// # Errors
/// `Exhausted` when nothing is left, `Fault` when the worker has given up, `Timeout`.
pub fn for_block(
    shared: &'static Shared,
    slot: &'static Slot,
    serial: Serial,
    floor: Index,
    name: &str,
) -> Result<(), HiloError> {
    let exhausted = until(shared, slot, name, |locked| {
        let Some((terms, found)) = locked.terms() else { return Some(None) };
        let returned = !terms.ordered && locked.pool.has_returned(floor);
        if found != serial || returned || locked.promote() {
            return Some(None);
        }
        if !locked.is_exhausted(floor) {
            slot.want_from(floor);
            return None;
        }
        Some(Some(terms.mapping))
    })?;
    match exhausted {
        Some(mapping) => Err(HiloError::exhaustion(name.into(), &mapping)),
        None => Ok(()),
    }
}

/// Asks the worker for a change of the slot, and waits until `ready` finds it. `ready` runs under
/// the slot's lock.
pub fn until<T>(
    shared: &'static Shared,
    slot: &'static Slot,
    name: &str,
    mut ready: impl FnMut(&mut Locked) -> Option<T>,
) -> Result<T, HiloError> {
    let number = shared.number_of(slot);
    if let Some(done) = ready(&mut shared.lock_slot(number)) {
        return Ok(done);
    }
    let mut deadline = Deadline::new();
    let faults = slot.faults.load(Acquire);
    let waiting = Waiting::at(slot);
    slot.refilled.prepare();
    let done = loop {
        if let Some(done) = ready(&mut shared.lock_slot(number)) {
            break Ok(done);
        }
        let has_failed = slot.faults.load(Acquire) != faults;
        if has_failed || deadline.is_over() {
            break Err(has_failed);
        }
        shared.wanted.set(number);
        deadline.wake(shared);
        deadline.sleep(&slot.refilled, WaitEvent::BLOCK);
    };
    Condition::cancel();
    drop(waiting);
    slot.count_wait(deadline.began.elapsed().as_micros() as u64);
    done.map_err(|has_failed| match has_failed {
        true => failure(shared, number, name),
        false => match cause(shared, number, &deadline) {
            Ok(cause) => HiloError::Timeout { name: name.into(), cause },
            Err(error) => error,
        },
    })
}

/// The last failure of a slot, and the owner of its sequence if he alone may see what it says.
fn fault(shared: &'static Shared, number: usize) -> Result<(Fault, Option<String>), HiloError> {
    let locked = shared.lock_slot(number);
    let (fault, id) = (locked.fault, locked.key.sequence);
    drop(locked);
    let owner = if fault.kind.is_of_source() { privileges::other_owner(id)? } else { None };
    Ok((fault, owner))
}

fn failure(shared: &'static Shared, number: usize, name: &str) -> HiloError {
    let name = name.into();
    match fault(shared, number) {
        Ok((Fault { sqlstate, .. }, Some(owner))) => {
            HiloError::OwnersFault { name, sqlstate, owner }
        }
        Ok((fault, None)) => {
            let Fault { sqlstate, kind, .. } = fault;
            HiloError::Fault { name, sqlstate, kind, message: fault.message().to_owned() }
        }
        Err(error) => error,
    }
}

fn cause(shared: &'static Shared, number: usize, deadline: &Deadline) -> Result<Cause, HiloError> {
    if deadline.starved {
        return Ok(Cause::NoWorker);
    }
    let asked = shared.lock_slot(number).catalog.asked_at.0 != 0;
    let began = Timestamp(ffi::now().0 - Micros::from(deadline.began.elapsed()).0);
    Ok(match fault(shared, number)? {
        (Fault { sqlstate, at, .. }, Some(owner)) if at >= began => {
            Cause::OwnersFault { sqlstate, owner }
        }
        (fault, _) if fault.at >= began => {
            let Fault { sqlstate, kind, .. } = fault;
            Cause::Fault { sqlstate, kind, message: fault.message().to_string() }
        }
        _ if asked => Cause::Source,
        _ if shared.has_worker_process(ffi::database()) => Cause::Slow,
        _ => shared::other_version().map_or(Cause::Slow, |version| Cause::OtherLibrary { version }),
    })
}
