//! Takes the ranges that leave the server as leases. `own_leases` follows them to the end of the
//! transaction.

use std::sync::atomic::Ordering::*;

use hilo_core::mapping::Mapping;
use hilo_core::numbers::{Epoch, Index};
use hilo_core::policy::{self, Remaining};
use hilo_core::range::Range;
use hilo_core::rate::Demand;

use crate::catalog::lease::leases::Lease;
use crate::catalog::rights::privileges::Privileges;
use crate::errors::{HiloError, Unleasable};
use crate::gucs;
use crate::process::ffi;
use crate::session::names::{Entry, Own, Supply};
use crate::session::pool::Claim;
use crate::session::{look_up, own_leases, slice_table, uncommitted, wait};
use crate::shared::slot::{Locked, Slot};
use crate::shared::{self, Shared};

/// The longest run from `start` that a lease of `count` values can have: it ends at a bound or with
/// the stripe. `None`: `start` has no value, or only the last bigint. A holder reports use by the
/// next value, which would not exist.
fn leasable_prefix(mapping: &Mapping, start: Index, count: i64) -> Option<Range> {
    let run = mapping.run(Range::with_len(start, count))?;
    let last = run.last(mapping.increment);
    let count = run.count - i64::from(last.checked_add(mapping.increment).is_none());
    (count > 0).then(|| Range::with_len(start, count))
}

/// Takes up to `count` values that step evenly, for a lease that the caller adds to the catalog.
/// They are a returned range, or else the next `count`. They are fewer at a bound of the sequence
/// or at the end of a stripe, and never more than a failover skips.
///
/// # Errors
/// `LeaseUnsupported` for a sequence that cycles, is ordered or gapless, `TooManyLeases`,
/// `Exhausted`, and those of [`look_up::look_up`] and of waiting.
pub fn take(name: &[u8], count: i64) -> Result<(Lease, i64), HiloError> {
    let shared = shared::get()?;
    // When the server stops, the worker waits for the end of this transaction, which may be a
    // background worker's.
    slice_table::register_session(shared);
    let mut place = None;
    loop {
        pgrx::check_for_interrupts!();
        let (cached, entry) = look_up::look_up(name, Privileges::TAKE_LEASE)?;
        if let Some(why) = unleasable(entry) {
            return Err(HiloError::LeaseUnsupported { name: cached.name(), why });
        }
        let Supply::Pool(slot) = entry.supply.get() else {
            let none = || HiloError::exhaustion(cached.name(), &entry.mapping());
            let demand = Demand::default();
            let (epoch, range) =
                take_own(entry, count.min(max_lease_len(entry, &demand)))?.ok_or_else(none)?;
            return Ok((lease_of(entry, epoch, range), suggestion(entry, &demand)));
        };
        let Some(_pin) = wait::Pin::for_name(slot, cached) else {
            cached.forget();
            continue;
        };
        let count = count.min(max_lease_len(entry, &demand(shared, slot)));
        let at = match place {
            Some(at) => at,
            None => *place.insert(own_leases::allocate(shared)?),
        };
        let ready = |locked: &mut Locked| try_take(shared, locked, entry, count, at);
        match wait::until(shared, slot, &cached.name(), ready)? {
            Claim::Here(range) => {
                prefetch(shared, slot, entry, count);
                let suggested = suggestion(entry, &demand(shared, slot));
                return Ok((lease_of(entry, entry.epoch.get(), range), suggested));
            }
            Claim::Outdated => cached.forget(),
            // This session may hold the last values.
            Claim::Exhausted if !entry.slice.get().rest().is_empty() => {
                slice_table::return_slice(entry)
            }
            Claim::Never | Claim::Exhausted => {
                return Err(HiloError::exhaustion(cached.name(), &entry.mapping()));
            }
        }
    }
}

/// Why nothing of a sequence can be leased, if so.
fn unleasable(entry: &Entry) -> Option<Unleasable> {
    let terms = entry.terms.get();
    match entry.supply.get() {
        Supply::Own(Own::Gapless) => Some(Unleasable::Gapless),
        _ if terms.ordered => Some(Unleasable::Ordered),
        _ if terms.mapping.cycle => Some(Unleasable::Cycles),
        _ => None,
    }
}

fn lease_of(entry: &Entry, epoch: Epoch, range: Range) -> Lease {
    let mapping = entry.mapping();
    let of = (entry.id, mapping.stripes.node as i32, epoch);
    Lease::new(of, range, mapping.value(range.start).unwrap_or_default(), mapping.increment)
}

/// Takes values from the numbers of a sequence that this transaction has defined.
fn take_own(entry: &'static Entry, count: i64) -> Result<Option<(Epoch, Range)>, HiloError> {
    let Some(version) = uncommitted::version(entry) else { return Ok(None) };
    own_leases::make_room(version)?;
    let left = uncommitted::rest(entry).filter(|left| !left.is_empty());
    let range = left.and_then(|left| leasable_prefix(&entry.mapping(), left.start, count));
    let Some(range) = range else { return Ok(None) };
    uncommitted::take(entry, range)?;
    own_leases::note_own(version, range)?;
    Ok(Some((version.epoch, range)))
}

/// `None`: the caller waits for more.
fn try_take(
    shared: &'static Shared,
    locked: &mut Locked,
    entry: &Entry,
    count: i64,
    place: usize,
) -> Option<Claim> {
    if locked.serial() != entry.serial.get() || locked.terms().is_none() {
        return Some(Claim::Outdated);
    }
    let mapping = entry.mapping();
    let returned = |run: Range| leasable_prefix(&mapping, run.start, count.min(run.len()));
    let mut missing = count;
    // Whether the next values are beyond the bounds that this transaction has to keep, or no lease
    // can have them.
    let mut none_for_leases = false;
    let mut found = locked.pool.claim_returned(Index::ZERO, returned).or_else(|| {
        locked.claim(|run| {
            let whole = leasable_prefix(&mapping, run.start, count);
            none_for_leases |= whole.is_none();
            missing = whole?.end - run.end;
            whole.filter(|_| missing <= 0)
        })
    });
    if found.is_none() && locked.is_at_end() {
        // All runs have their final length.
        found = locked.claim(|run| leasable_prefix(&mapping, run.start, count.min(run.len())));
    }
    if found.is_none() && (none_for_leases || locked.is_exhausted(Index::ZERO)) {
        return Some(Claim::Exhausted);
    }
    let Some(range) = found else {
        locked.slot.want_from(Index::ZERO);
        let wanted = locked.available().saturating_add(missing.max(1));
        locked.slot.demand.fetch_max(wanted, AcqRel);
        return None;
    };
    shared.pending[place].hold(&locked.index_space(), range);
    // The worker counts what is used of it, once the lease has ended.
    locked.counts.taken_before += range.len();
    Some(Claim::Here(range))
}

/// Makes the worker keep as many values ready as this lease took, so that the next one need not
/// wait. Also makes it reload free ranges: leases use small ranges that sessions have passed.
fn prefetch(shared: &'static Shared, slot: &'static Slot, entry: &Entry, count: i64) {
    let ahead = policy::lease_ahead(count, total_indexes(entry), &gucs::refill(None));
    slot.lease_ahead.fetch_max(ahead, AcqRel);
    let left = slot.cursor().peek().0.len() + slot.queue_len();
    let number = shared.number_of(slot);
    let wants = slot.is_low() || left < ahead || shared.lock_slot(number).is_bare();
    if wants && shared.wanted.set(number) {
        wait::wake(shared);
    }
}

/// The demand of the whole server for a sequence.
fn demand(shared: &'static Shared, slot: &'static Slot) -> Demand {
    let locked = shared.lock_slot(shared.number_of(slot));
    locked.pace.rate.demand(ffi::now(), locked.taken_count(), gucs::window().into())
}

fn total_indexes(entry: &Entry) -> i64 {
    entry.mapping().limit() - Index::ZERO
}

/// The most values of one lease: what a failover skips. If that is 0, no standby lacks one.
fn max_lease_len(entry: &Entry, demand: &Demand) -> i64 {
    let block_size = Some(entry.terms.get().block_size).filter(|size| *size > 0);
    let most =
        policy::failover_skip(total_indexes(entry), demand.per_second, &gucs::refill(block_size));
    gucs::failover_skip().filter(|skip| *skip > 0).map_or(most, |skip| most.min(skip))
}

/// How many values a lease should have, by the rate of the whole server.
fn suggestion(entry: &Entry, demand: &Demand) -> i64 {
    let whole = total_indexes(entry);
    policy::lease_size(demand, Remaining { whole, left: whole }, &gucs::refill(None))
}
