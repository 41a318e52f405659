//! Takes the ranges that leave the server, and follows the transactions that lease them out.
//!
//! What a transaction has taken is pending in shared memory (`shared::pending`) until the transaction ends: after its
//! commit the row of `hilo.lease` owns the range; after a rollback, also of a savepoint, the worker writes it off. A
//! transaction that has itself defined the sequence takes from its own numbers, which nobody else holds.

use std::cell::RefCell;
use std::sync::atomic::Ordering::*;

use pgrx::pg_sys;

use hilo_core::mapping::{Mapping, Run};
use hilo_core::numbers::{Epoch, Index, SequenceId};
use hilo_core::policy::{self, Remaining};
use hilo_core::range::Range;
use hilo_core::rate::Demand;

use super::levels::Levels;
use super::memo::{Entry, Source};
use super::{lease_news, look_up, memo, slice_table, uncommitted, wait};
use crate::backend::Global;
use crate::catalog::catalog_oids;
use crate::catalog::definitions;
use crate::catalog::gaps::{self, Reason};
use crate::catalog::positions::{Position, Version};
use crate::catalog::privileges::Privileges;
use crate::errors::{HiloError, OrRaise};
use crate::ffi;
use crate::gucs;
use crate::memory;
use crate::shared::key::Key;
use crate::shared::pending::Held;
use crate::shared::slices::IndexSpace;
use crate::shared::slot::{Locked, Slot};
use crate::shared::{self, Shared};

/// A range that this transaction has taken.
#[derive(Clone, Copy)]
enum TakenFrom {
    /// A place of `shared::pending`.
    Pending(usize),
    /// Its own numbers.
    Own(Version, Range),
}

static OPEN: Global<RefCell<Levels<TakenFrom>>> = Global::new(RefCell::new(Levels::new()));

/// A range for a lease.
pub struct Taken {
    pub id: SequenceId,
    pub node: i32,
    pub epoch: Epoch,
    pub range: Range,
    pub run: Run,
    pub increment: i64,
    /// How many values to take the next time, by the rate of the whole server.
    pub suggested: i64,
}

/// The longest beginning of what follows `start` that a lease of `count` values can get: it ends at a bound or with
/// the stripe. `None`: `start` has no value, or only the last one of bigint: a holder that has used it could not say
/// so, because the value behind it does not exist.
fn part(mapping: &Mapping, start: Index, count: i64) -> Option<Range> {
    let run = mapping.run(Range::of(start, count))?;
    let last = run.last(mapping.increment);
    let count = run.count - i64::from(last.checked_add(mapping.increment).is_none());
    (count > 0).then(|| Range::of(start, count))
}

/// Takes up to `count` values that step evenly, for a lease that the caller adds to the catalog: what was returned, or
/// else the next `count`; fewer at a bound of the sequence or at the end of a stripe, and never more than a failover
/// skips.
///
/// # Errors
/// `LeaseOf` for a sequence that cycles, is ordered or gapless, `TooManyLeases`, `Exhausted`, and those of
/// [`look_up::look_up`] and of waiting.
pub fn take(name: &[u8], count: i64) -> Result<Taken, HiloError> {
    let shared = shared::get()?;
    // When the server stops, the worker waits for the end of this transaction, which may be a background worker's.
    slice_table::register_session(shared);
    let mut place = None;
    loop {
        pgrx::check_for_interrupts!();
        let (memo, entry) = look_up::look_up(name, Privileges::UPDATE)?;
        let terms = entry.terms.get();
        let refused = match entry.source.get() {
            Source::Gapless => Some("is gapless"),
            _ if terms.ordered => Some("is ordered"),
            _ if terms.mapping.cycle => Some("cycles"),
            _ => None,
        };
        if let Some(why) = refused {
            return Err(HiloError::LeaseOf { name: memo.name(), why });
        }
        let Some(slot) = entry.slot() else {
            let none = || HiloError::exhausted(memo.name(), &terms.mapping);
            let demand = Demand::default();
            let (epoch, range) =
                take_own(entry, count.min(most(entry, &demand)))?.ok_or_else(none)?;
            return Ok(taken(entry, epoch, range, suggested(entry, &demand)));
        };
        let Some(_pin) = wait::Pin::of(slot, memo) else {
            memo.forget();
            continue;
        };
        let count = count.min(most(entry, &demand(shared, slot)));
        let at = match place {
            Some(at) => at,
            None => *place.insert(allocate(shared)?),
        };
        let ready = |locked: &mut Locked| try_take(shared, locked, entry, count, at);
        match wait::until(shared, slot, &memo.name(), ready)? {
            Found::Range(range) => {
                prefetch(shared, slot, entry, count);
                let suggested = suggested(entry, &demand(shared, slot));
                return Ok(taken(entry, entry.epoch.get(), range, suggested));
            }
            Found::Outdated => memo.forget(),
            // The last values may be this session's.
            Found::Nothing if !entry.slice.get().rest().is_empty() => {
                slice_table::return_slice(entry)
            }
            Found::Nothing => return Err(HiloError::exhausted(memo.name(), &entry.mapping())),
        }
    }
}

fn taken(entry: &Entry, epoch: Epoch, range: Range, suggested: i64) -> Taken {
    let mapping = entry.mapping();
    let run = mapping.run(range).unwrap_or(Run { first: 0, count: 0 });
    let node = mapping.stripes.node as i32;
    let increment = mapping.increment;
    Taken { id: entry.id, node, epoch, range, run, increment, suggested }
}

/// A place for a range, which this transaction frees at its end.
fn allocate(shared: &'static Shared) -> Result<usize, HiloError> {
    OPEN.borrow_mut().make_room()?;
    let at = wait::for_place(shared)?;
    OPEN.borrow_mut().push(TakenFrom::Pending(at))?;
    Ok(at)
}

/// The same from the numbers of a sequence that this transaction has defined.
fn take_own(entry: &'static Entry, count: i64) -> Result<Option<(Epoch, Range)>, HiloError> {
    OPEN.borrow_mut().make_room()?;
    let Some(version) = uncommitted::version(entry) else { return Ok(None) };
    // A rollback gives up no more than this.
    uncommitted::make_room(version, OPEN.borrow().len() + 1)?;
    let mapping = entry.mapping();
    let claimed = uncommitted::claim(entry, |left| match left.is_empty() {
        true => None,
        false => part(&mapping, left.start, count),
    });
    let Some(range) = claimed else { return Ok(None) };
    OPEN.borrow_mut().push(TakenFrom::Own(version, range))?;
    Ok(Some((version.epoch, range)))
}

enum Found {
    Range(Range),
    /// The entry is out of date.
    Outdated,
    /// Nothing is left.
    Nothing,
}

/// `None`: the caller waits for more.
fn try_take(
    shared: &'static Shared,
    locked: &mut Locked,
    entry: &Entry,
    count: i64,
    place: usize,
) -> Option<Found> {
    if locked.serial() != entry.serial.get() || locked.terms().is_none() {
        return Some(Found::Outdated);
    }
    let mapping = entry.mapping();
    let returned = |run: Range| part(&mapping, run.start, count.min(run.len()));
    let mut missing = count;
    // Whether what comes next is beyond the bounds that this transaction has to keep, or no lease can have it.
    let mut none_for_leases = false;
    let mut found = locked.claim_returned(Index::ZERO, returned).or_else(|| {
        locked.claim(|run| {
            let whole = part(&mapping, run.start, count);
            none_for_leases |= whole.is_none();
            missing = whole?.end - run.end;
            whole.filter(|_| missing <= 0)
        })
    });
    if found.is_none() && locked.is_at_end() {
        // No run grows any more.
        found = locked.claim(|run| part(&mapping, run.start, count.min(run.len())));
    }
    if found.is_none() && (none_for_leases || locked.is_exhausted(Index::ZERO)) {
        return Some(Found::Nothing);
    }
    let Some(range) = found else {
        locked.slot.want_from(Index::ZERO);
        let wanted = locked.available().saturating_add(missing.max(1));
        locked.slot.demand.fetch_max(wanted, AcqRel);
        return None;
    };
    shared.pending[place].hold(&locked.index_space(), range);
    Some(Found::Range(range))
}

/// Has the worker keep as much ready as this lease took, so that the next one need not wait, and
/// reload what is free: leases use small ranges that sessions have served beyond.
fn prefetch(shared: &'static Shared, slot: &'static Slot, entry: &Entry, count: i64) {
    let ahead = policy::lease_ahead(count, whole(entry), &gucs::refill(None));
    slot.lease_ahead.fetch_max(ahead, AcqRel);
    let left = slot.cursor().peek().0.len() + slot.queued();
    let number = shared.number_of(slot);
    let wants = slot.is_low() || left < ahead || shared.lock_slot(number).is_bare();
    if wants && shared.want(number) {
        wait::wake(shared);
    }
}

/// What the whole server draws from a sequence.
fn demand(shared: &'static Shared, slot: &'static Slot) -> Demand {
    let locked = shared.lock_slot(shared.number_of(slot));
    locked.rate.demand(ffi::now(), locked.taken(), gucs::window().into())
}

fn whole(entry: &Entry) -> i64 {
    entry.mapping().limit() - Index::ZERO
}

/// The most values of one lease: what a failover skips. If that is 0, no standby lacks one.
fn most(entry: &Entry, demand: &Demand) -> i64 {
    let block_size = Some(entry.terms.get().block_size).filter(|size| *size > 0);
    let most = policy::failover_skip(whole(entry), demand.per_second, &gucs::refill(block_size));
    gucs::failover_skip().filter(|skip| *skip > 0).map_or(most, |skip| most.min(skip))
}

/// How many values a lease should have, by the rate of the whole server.
fn suggested(entry: &Entry, demand: &Demand) -> i64 {
    let whole = whole(entry);
    policy::lease_size(demand, Remaining { whole, left: whole }, &gucs::refill(None))
}

/// The ranges of an index space that this transaction has leased out.
pub fn own(index_space: &IndexSpace) -> Vec<Range> {
    let Ok(shared) = shared::get() else { return Vec::new() };
    let open = OPEN.borrow();
    let places = open.iter().filter_map(|taken| match taken {
        TakenFrom::Pending(at) => shared.pending_at(*at),
        TakenFrom::Own(..) => None,
    });
    places.filter(|held| held.index_space == *index_space).map(|held| held.range).collect()
}

fn has_place(open: &Levels<TakenFrom>, at: usize) -> bool {
    open.iter().any(|taken| matches!(taken, TakenFrom::Pending(own) if *own == at))
}

/// Ends the leases of a sequence whose transactions are open, except for this one's: they cannot
/// commit any more. Waits for those that are committing just now. Returns what nobody has then. The
/// caller has frozen the pool, and has locked the position.
///
/// # Errors
/// `OutOfMemory`
pub fn void(shared: &'static Shared, key: &Key) -> Result<Vec<Held>, HiloError> {
    loop {
        let committing = {
            let open = OPEN.borrow();
            let mine = |at| has_place(&open, at);
            shared.void_pending(key, mine)
        };
        let Err(shared::pending::Committing(transaction)) = committing else { break };
        // SAFETY: waits inside a transaction for the end of another one. No row is concerned.
        unsafe {
            pg_sys::XactLockTableWait(
                transaction,
                std::ptr::null_mut(),
                std::ptr::null_mut(),
                pg_sys::XLTW_Oper::XLTW_None,
            )
        };
    }
    let open = OPEN.borrow();
    let mine = |at| has_place(&open, at);
    memory::collected(
        shared.all_pending().filter(|held| held.index_space.key == *key && !mine(held.at)),
    )
}

/// Does the same at the end of a numbering, which `position` and `mapping` describe, and records
/// what it takes back as gaps. The worker knows that such a range is of an old numbering, and
/// leaves it alone.
///
/// # Errors
/// Those of writing to the catalog.
pub fn end_pending(position: &Position, mapping: &Mapping) -> Result<(), HiloError> {
    let (shared, ids) = (shared::get()?, catalog_oids()?);
    let key = memo::key_of(position.sequence)?;
    let index_space = IndexSpace { key, node: position.node, epoch: position.epoch };
    // What the worker has written off, while nobody else had the position's lock, is about to leave memory.
    shared.await_worker(&key);
    for held in void(shared, &key)?.iter().filter(|held| held.index_space == index_space) {
        gaps::record(&ids, position, mapping, held.range, Reason::Altered)?;
    }
    Ok(())
}

pub fn at_transaction(event: pg_sys::XactEvent::Type) {
    use pg_sys::XactEvent::*;
    lease_news::set_written(matches!(event, XACT_EVENT_PRE_COMMIT | XACT_EVENT_PRE_PREPARE));
    if OPEN.borrow().is_empty() && lease_news::is_empty() {
        return;
    }
    match event {
        // Any session could commit it, even after a restart, and the worker would not learn of it.
        XACT_EVENT_PRE_PREPARE if !OPEN.borrow().is_empty() || lease_news::concern_worker() => {
            HiloError::PrepareLease.raise()
        }
        XACT_EVENT_PRE_PREPARE => lease_news::write(None).or_raise(),
        XACT_EVENT_PREPARE => lease_news::forget(),
        XACT_EVENT_PRE_COMMIT => {
            // These may wait for other transactions; those wait for this one from the next step on.
            lease_news::write(None).or_raise();
            begin_commit();
        }
        XACT_EVENT_COMMIT => {
            let open = OPEN.borrow_mut().take();
            if let Ok(shared) = shared::get() {
                for taken in open {
                    if let TakenFrom::Pending(at) = taken {
                        shared.settle_pending(at);
                    }
                }
                lease_news::announce(shared);
            }
        }
        XACT_EVENT_ABORT => {
            lease_news::forget();
            abandon(1);
        }
        _ => {}
    }
}

/// From here on nobody can keep this transaction from committing what it has leased out.
fn begin_commit() {
    let Ok(shared) = shared::get() else { return };
    // SAFETY: reads the transaction state of this backend. A transaction with a lease has written its row.
    let transaction = unsafe { pg_sys::GetTopTransactionIdIfAny() };
    let open = OPEN.borrow();
    let void = open.iter().find_map(|taken| match *taken {
        TakenFrom::Pending(at) if !shared.pending[at].commit(transaction) => shared.pending_at(at),
        _ => None,
    });
    drop(open);
    if let Some(held) = void {
        let id = held.index_space.key.sequence;
        let ids = crate::catalog::catalog_oids().or_raise();
        let name = definitions::by_id(&ids, id).or_raise().map(|found| found.name.to_string());
        HiloError::LeaseVoid(name.unwrap_or_else(|| id.to_string())).raise();
    }
}

/// Leaves to the worker what was taken at `level`, which is rolled back, and inside it.
fn abandon(level: i32) {
    let Ok(shared) = shared::get() else { return };
    let mut open = OPEN.borrow_mut();
    let mut any = false;
    while let Some(taken) = open.pop_from(level) {
        match taken {
            TakenFrom::Pending(at) => any |= shared.abandon_pending(at),
            TakenFrom::Own(version, range) => uncommitted::give_up(version, range),
        }
    }
    drop(open);
    if any {
        wait::wake(shared);
    }
}

pub fn at_savepoint(event: pg_sys::SubXactEvent::Type, level: i32) {
    use pg_sys::SubXactEvent::*;
    match event {
        SUBXACT_EVENT_ABORT_SUB => {
            lease_news::roll_back(level);
            abandon(level);
        }
        SUBXACT_EVENT_COMMIT_SUB => {
            OPEN.borrow_mut().commit(level);
            lease_news::keep(level);
        }
        _ => {}
    }
}
