//! Leases: ranges that leave the server. Taking one and ending one are parts of the caller's transaction.

use pgrx::pg_sys;

use hilo_core::key_format;
use hilo_core::numbers::Timestamp;

use super::args::{Args, sql_functions};
use super::definer::{begin_write, required, required_name};
use super::nextval::record;
use crate::catalog::leases::{self, Ended, LeaseId, LockedLease, New, uuid_datum};
use crate::catalog::table::{LockWait, RowLock, text_datum};
use crate::catalog::{CatalogOids, catalog_oids, definitions, positions, privileges};
use crate::errors::{Closed, HiloError, OrRaise};
use crate::ffi;
use crate::gucs;
use crate::session::{lease, memo};

sql_functions!(hilo_lease, hilo_lease_return, hilo_lease_renew, hilo_lease_revoke);

/// The most values of one lease: more is a mistake, and would use up most sequences at once.
const MOST: i64 = 1_000_000_000;
/// The longest name of a holder, in bytes.
const LONGEST_HOLDER: usize = 255;

/// `hilo_lease(name, n, holder, ttl)`: up to n values that step evenly, which nobody else gets.
fn hilo_lease(args: Args) -> pg_sys::Datum {
    begin_write(c"hilo_lease()");
    let name = required_name(args);
    required(args, 1, "number of values to lease");
    let count = args.int8(1).unwrap_or(0);
    if !(1..=MOST).contains(&count) {
        HiloError::Argument(
            format!("number of values to lease must be from 1 to {MOST}: {count}"),
            "Take several leases if you need more values.",
        )
        .raise();
    }
    let holder = args.datum(2).map(|_| args.bytes(2));
    if holder.is_some_and(|holder| holder.len() > LONGEST_HOLDER) {
        HiloError::Argument(
            format!("name of a holder must be at most {LONGEST_HOLDER} bytes long"),
            "Choose a shorter name.",
        )
        .raise();
    }
    expiry(args, 3, ffi::now()); // refused before anything is taken
    let taken = lease::take(name, count).or_raise();
    // The holder has all of its time, however long it waited.
    let leased_at = ffi::now();
    let expires_at = expiry(args, 3, leased_at);
    let ids = catalog_oids().or_raise();
    let last = taken.run.last(taken.increment);
    let new = New {
        sequence: taken.id,
        node: taken.node,
        epoch: taken.epoch,
        range: taken.range,
        first_value: taken.run.first,
        last_value: last,
        increment: taken.increment,
        holder,
        role: ffi::current_user(),
        client_addr: client_addr(),
        leased_at,
        expires_at,
    };
    let id = leases::insert(&ids, &new).or_raise();
    lease::expires(expires_at).or_raise();
    let definition = definitions::by_id(&ids, taken.id).or_raise().map(|found| found.definition);
    let format = definition.and_then(|definition| definition.key_format);
    let format = format.as_deref().unwrap_or(key_format::DEFAULT);
    let values = [
        Some(uuid_datum(&id)),
        Some(taken.run.first.into()),
        Some(last.into()),
        Some(taken.increment.into()),
        Some(taken.run.count.into()),
        expires_at.map(|at| at.0.into()),
        Some(text_datum(format.as_bytes())),
        Some(text_datum(gucs::server_prefix_bytes())),
        Some(taken.suggested.into()),
    ];
    // SAFETY: the function is declared to return a record of these types.
    unsafe { record(args.raw(), &values) }
}

/// The address of the client, as core's function of the same name reports it.
fn client_addr() -> Option<pg_sys::Datum> {
    // SAFETY: core's function takes no arguments and reads the connection of this backend.
    unsafe { pgrx::direct_function_call_as_datum(pg_sys::inet_client_addr, &[]) }
}

/// The time that a ttl, which is argument `at`, ends at; `None` if it is NULL.
fn expiry(args: Args, at: usize, now: Timestamp) -> Option<Timestamp> {
    let ttl = args.datum(at)?;
    // SAFETY: core's function takes a timestamptz and an interval, and returns a timestamptz.
    let end = unsafe {
        pgrx::direct_function_call_as_datum(
            pg_sys::timestamptz_pl_interval,
            &[Some(now.0.into()), Some(ttl)],
        )
    };
    let end = end.map_or(now, |end| Timestamp(end.value() as i64));
    if end <= now {
        HiloError::Argument(
            "ttl of a lease must be positive".into(),
            "Omit it for a lease that does not expire.",
        )
        .raise();
    }
    Some(end)
}

/// The lease that argument 0 names.
fn lease_id(args: Args) -> LeaseId {
    let datum = required(args, 0, "lease");
    let mut id = [0; 16];
    // SAFETY: the argument is a uuid: 16 bytes, passed by reference.
    unsafe { std::ptr::copy_nonoverlapping(datum.cast_mut_ptr::<u8>(), id.as_mut_ptr(), 16) };
    id
}

fn display(id: &LeaseId) -> String {
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    [&id[..4], &id[4..6], &id[6..8], &id[8..10], &id[10..]].map(hex).join("-")
}

/// A time as SQL prints it.
fn printed(at: Timestamp) -> String {
    // SAFETY: it returns a C string in static memory, for any timestamp.
    unsafe { std::ffi::CStr::from_ptr(pg_sys::timestamptz_to_str(at.0)) }
        .to_string_lossy()
        .into_owned()
}

/// Locks an open lease that the current user may end.
///
/// # Errors
/// `LeaseNotOpen`, `LeaseDenied`.
fn lock_open(ids: &CatalogOids, id: &LeaseId) -> Result<LockedLease, HiloError> {
    let not_open = |since| HiloError::LeaseNotOpen { lease: display(id), since };
    let RowLock::Locked(locked) = leases::lock(ids, id, LockWait::Block)? else {
        return Err(not_open(Closed::Unknown));
    };
    if !may_end(ids, &locked.lease)? {
        return Err(HiloError::LeaseDenied(display(id)));
    }
    let lease = &locked.lease;
    let at = |at: Option<Timestamp>| at.map_or_else(String::new, printed);
    Err(not_open(match lease.ended {
        Some(Ended::Returned) => Closed::Returned(at(lease.ended_at)),
        Some(Ended::Revoked) => Closed::Revoked(at(lease.ended_at)),
        None if lease.is_expired(ffi::now()) => Closed::Expired(at(lease.expires_at)),
        None => return Ok(locked),
    }))
}

/// Whether the current user took the lease, owns its sequence, or is a superuser.
fn may_end(ids: &CatalogOids, lease: &leases::Lease) -> Result<bool, HiloError> {
    let user = ffi::current_user();
    if privileges::acts_as(user, lease.role) {
        return Ok(true);
    }
    let sequence = definitions::by_id(ids, lease.sequence)?;
    Ok(sequence.is_some_and(|sequence| privileges::acts_as(user, sequence.owner)))
}

/// `hilo_lease_return(lease, next)`: ends a lease, of which the values before `next` were used. Returns how many come
/// back to be served again.
fn hilo_lease_return(args: Args) -> i64 {
    begin_write(c"hilo_lease_return()");
    let id = lease_id(args);
    let ids = catalog_oids().or_raise();
    let locked = lock_open(&ids, &id).or_raise();
    let lease = locked.lease;
    let next = match args.int8(1) {
        None => lease.range.start,
        Some(next) => lease
            .index_of(next)
            .ok_or_else(|| HiloError::LeaseValue {
                lease: display(&id),
                next,
                first: lease.first_value,
                last: lease.value(lease.range.last()) as i64,
                increment: lease.increment,
            })
            .or_raise(),
    };
    locked.end(Ended::Returned, next);
    lease::ended(memo::key_of(lease.sequence).or_raise()).or_raise();
    let position = positions::find(&ids, lease.sequence, lease.node).or_raise();
    let sequence = definitions::by_id(&ids, lease.sequence).or_raise();
    match lease.lost(sequence.as_ref().zip(position.as_ref())) {
        None => lease.range.from(next).len(),
        Some(_) => 0,
    }
}

/// `hilo_lease_renew(lease, ttl)`: the lease expires so long after now; NULL: it does not. Returns when it does.
fn hilo_lease_renew(args: Args) -> pg_sys::Datum {
    begin_write(c"hilo_lease_renew()");
    let id = lease_id(args);
    let expires_at = expiry(args, 1, ffi::now());
    let locked = lock_open(&catalog_oids().or_raise(), &id).or_raise();
    locked.renew(expires_at);
    lease::expires(expires_at).or_raise();
    match expires_at {
        Some(at) => at.0.into(),
        None => args.null(),
    }
}

/// `hilo_lease_revoke(lease, holder)`: ends a lease, or the leases of a holder, that will not come back. Returns how
/// many.
fn hilo_lease_revoke(args: Args) -> i64 {
    begin_write(c"hilo_lease_revoke()");
    let ids = catalog_oids().or_raise();
    let holder = args.datum(1).map(|_| args.bytes(1));
    let revoke = |locked: &LockedLease| {
        locked.end(Ended::Revoked, locked.lease.range.start);
        lease::ended(memo::key_of(locked.lease.sequence).or_raise()).or_raise();
    };
    match (args.datum(0), holder) {
        (None, None) => HiloError::Argument(
            "either a lease or a holder is required".into(),
            "Name the lease, or the holder whose leases are to end.",
        )
        .raise(),
        (Some(_), _) => {
            let locked = lock_open(&ids, &lease_id(args)).or_raise();
            if holder.is_some_and(|holder| locked.holder() != Some(holder)) {
                return 0;
            }
            revoke(&locked);
            1
        }
        (None, Some(holder)) => {
            let mut count = 0;
            for found in leases::of_holder(&ids, holder).or_raise() {
                pgrx::check_for_interrupts!();
                if !may_end(&ids, &found).or_raise() {
                    continue;
                }
                // It may have ended meanwhile.
                if let RowLock::Locked(locked) =
                    leases::lock(&ids, &found.id, LockWait::Block).or_raise()
                    && locked.lease.is_open(ffi::now())
                {
                    revoke(&locked);
                    count += 1;
                }
            }
            count
        }
    }
}
