//! Leases: ranges that leave the server. Taking one and ending one are parts of the caller's
//! transaction. An end is written when the transaction commits (`session::lease_news`): until then
//! it locks nothing, so nobody who revokes a lease waits for its holder.

use pgrx::pg_sys;

use hilo_core::key_format;
use hilo_core::numbers::Timestamp;
use hilo_core::policy::MAX_LEASE_SIZE;

use crate::catalog::lease_changes::{self, LeaseChange};
use crate::catalog::lease_id::{self, LeaseId, id_of, uuid_datum};
use crate::catalog::lease_name;
use crate::catalog::leases::{self, Ended, Lease};
use crate::catalog::table::text_datum;
use crate::catalog::{definitions, missing, positions, privileges};
use crate::errors::{Closed, HiloError, OrRaise, check_argument};
use crate::gucs;
use crate::process::ffi;
use crate::session::{lease, lease_news, memo};
use crate::sql::call::args::{Args, sql_functions};
use crate::sql::define::ddl_checks::{begin_with_name, begin_write, require};
use crate::sql::draw::nextval::record;

sql_functions!(hilo_lease, hilo_lease_return, hilo_lease_renew, hilo_lease_revoke);

/// The longest name of a holder, in bytes.
const LONGEST_HOLDER: usize = 255;

/// `hilo_lease(name, n, holder, ttl, lease)`: up to n values that step evenly, which nobody else
/// gets.
fn hilo_lease(args: Args) -> pg_sys::Datum {
    let name = begin_with_name(args, c"hilo_lease()");
    require(args, 1, "number of values to lease");
    let count = args.int8(1).unwrap_or(0);
    let fits = (1..=MAX_LEASE_SIZE).contains(&count);
    let message =
        || format!("number of values to lease must be from 1 to {MAX_LEASE_SIZE}: {count}");
    check_argument(fits, message, "Take several leases if you need more values.");
    let holder = args.datum(2).map(|_| args.bytes(2));
    let fits = holder.is_none_or(|holder| holder.len() <= LONGEST_HOLDER);
    let message = || format!("name of a holder must be at most {LONGEST_HOLDER} bytes long");
    check_argument(fits, message, "Choose a shorter name.");
    expiry(args, 3, ffi::now()); // refused before anything is taken
    let Some(id) = args.datum(4).map(id_of) else {
        return row(args, take(args, (name, count, holder), lease_id::random()));
    };
    let locked = lease_name::lock(&id).or_raise();
    let granted = match find_repeat(&id, name, count).or_raise() {
        Some(granted) => granted,
        None => take(args, (name, count, holder), id),
    };
    drop(locked);
    row(args, granted)
}

/// A lease, and how many values to take the next time.
type Granted = (Lease, i64);

/// Takes up to so many values of the sequence of a name for a holder, and writes the lease's row.
fn take(args: Args, (name, count, holder): (&[u8], i64, Option<&[u8]>), id: LeaseId) -> Granted {
    let (mut lease, suggested) = lease::take(name, count).or_raise();
    // The holder has all of its time, however long it waited.
    let leased_at = ffi::now();
    (lease.id, lease.expires_at) = (id, expiry(args, 3, leased_at));
    leases::insert(&lease, leased_at, holder, client_addr()).or_raise();
    lease_news::expires(lease.expires_at);
    (lease, suggested)
}

/// The lease of this name, if the same call has taken it before.
///
/// # Errors
/// `LeaseTaken` if it is another one or has ended, `NoSuchSequence`.
fn find_repeat(id: &LeaseId, name: &[u8], count: i64) -> Result<Option<Granted>, HiloError> {
    let Some((lease, _)) = leases::find(id)? else { return Ok(None) };
    let sequence = missing::require(name)?;
    let epoch = || positions::find(sequence.id, lease.node).map(|at| at.map(|at| at.epoch));
    let why = if lease.role != ffi::current_user() {
        "Another role took it.".into()
    } else if let Some(closed) = closed_reason(&lease) {
        closed.to_string()
    } else if lease.sequence != sequence.id || lease.range.len() > count {
        "It is a lease of another sequence, or of more values.".into()
    } else if !epoch()?.is_some_and(|epoch| epoch.continues(lease.epoch)) {
        "The sequence has been renumbered since.".into()
    } else {
        return Ok(Some((lease, count)));
    };
    Err(HiloError::LeaseTaken { lease: lease_id::display(id), why })
}

fn row(args: Args, (lease, suggested): Granted) -> pg_sys::Datum {
    let sequence = definitions::by_id(lease.sequence).or_raise();
    let format = sequence.and_then(|sequence| sequence.definition.key_format);
    let format = format.as_deref().unwrap_or(key_format::DEFAULT);
    let (first, last) = lease.ends(lease.range);
    let values = [
        Some(uuid_datum(&lease.id)),
        Some(first.into()),
        Some(last.into()),
        Some(lease.increment.into()),
        Some(lease.range.len().into()),
        lease.expires_at.map(|at| at.0.into()),
        Some(text_datum(format.as_bytes())),
        Some(text_datum(gucs::server_prefix_bytes())),
        Some(suggested.into()),
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
    let message = || "ttl of a lease must be positive".into();
    check_argument(end > now, message, "Omit it for a lease that does not expire.");
    Some(end)
}

/// The lease that argument 0 names.
fn lease_id(args: Args) -> LeaseId {
    id_of(require(args, 0, "lease"))
}

/// Why a lease is not open, if it is not. The changes of this transaction count.
fn closed_reason(lease: &Lease) -> Option<Closed> {
    let now = ffi::now();
    let own = lease_news::end_of(&lease.id).map(|how| match how {
        Ended::Returned => Closed::Returned(leases::time_text(now)),
        Ended::Revoked => Closed::Revoked(leases::time_text(now)),
    });
    own.or_else(|| lease.closed_reason(now))
}

/// An open lease that the current user may end, and whether nobody has locked it, for sure.
///
/// # Errors
/// `LeaseNotOpen`, `LeaseDenied`.
fn open(id: &LeaseId) -> Result<(Lease, bool), HiloError> {
    let Some((lease, is_untouched)) = leases::find(id)? else {
        return Err(leases::not_open(id, Closed::Unknown));
    };
    if !may_end(&lease)? {
        return Err(HiloError::LeaseDenied(lease_id::display(id)));
    }
    match closed_reason(&lease) {
        Some(since) => Err(leases::not_open(id, since)),
        None => Ok((lease, is_untouched)),
    }
}

/// Notes what becomes of a lease when this transaction commits.
fn change(lease: &Lease, change: LeaseChange) {
    lease_news::change(lease, memo::key_of(lease.sequence).or_raise(), change).or_raise();
}

/// Whether the current user took the lease, owns its sequence, or is a superuser.
fn may_end(lease: &Lease) -> Result<bool, HiloError> {
    let user = ffi::current_user();
    if privileges::acts_as(user, lease.role) {
        return Ok(true);
    }
    let sequence = definitions::by_id(lease.sequence)?;
    Ok(sequence.is_some_and(|sequence| privileges::acts_as(user, sequence.owner)))
}

/// `hilo_lease_return(lease, next)`: ends a lease, of which the values before `next` were used.
/// Returns how many come back to be served again.
fn hilo_lease_return(args: Args) -> i64 {
    begin_write(c"hilo_lease_return()");
    let id = lease_id(args);
    let (mut lease, is_untouched) = open(&id).or_raise();
    if !is_untouched {
        lease_changes::wait_for_keepers(&id);
        (lease, _) = open(&id).or_raise();
    }
    let next = match args.int8(1) {
        None => lease.range.start,
        Some(next) => lease
            .index_of(next)
            .ok_or_else(|| HiloError::LeaseValue {
                lease: lease_id::display(&id),
                next,
                first: lease.first_value,
                last: lease.value(lease.range.last()) as i64,
                increment: lease.increment,
            })
            .or_raise(),
    };
    change(&lease, LeaseChange::Return(next));
    let position = positions::find(lease.sequence, lease.node).or_raise();
    let sequence = definitions::by_id(lease.sequence).or_raise();
    match lease.loss_reason(sequence.as_ref().zip(position.as_ref())) {
        None => lease.range.from(next).len(),
        Some(_) => 0,
    }
}

/// `hilo_lease_renew(lease, ttl)`: the lease expires so long after now; NULL: it does not. Returns
/// when it does.
fn hilo_lease_renew(args: Args) -> Option<i64> {
    begin_write(c"hilo_lease_renew()");
    let id = lease_id(args);
    let expires_at = expiry(args, 1, ffi::now());
    let (lease, _) = open(&id).or_raise();
    change(&lease, LeaseChange::Renew(expires_at));
    expires_at.map(|at| at.0)
}

/// `hilo_lease_revoke(lease, holder)`: ends a lease, or the leases of a holder, that will not come
/// back. Returns how many.
fn hilo_lease_revoke(args: Args) -> i64 {
    begin_write(c"hilo_lease_revoke()");
    let holder = args.datum(1).map(|_| args.bytes(1));
    let message = || "either a lease or a holder is required".into();
    let advice = "Name the lease, or the holder whose leases are to end.";
    check_argument(args.datum(0).or(args.datum(1)).is_some(), message, advice);
    let named = args.datum(0).map(|_| open(&lease_id(args)).or_raise().0);
    let found = match (holder, &named) {
        (Some(holder), _) => leases::of_holder(holder).or_raise(),
        (None, named) => named.iter().cloned().collect(),
    };
    let mut count = 0;
    for lease in found {
        pgrx::check_for_interrupts!();
        let picked = match &named {
            Some(named) => named.id == lease.id,
            None => lease_news::end_of(&lease.id).is_none() && may_end(&lease).or_raise(),
        };
        if picked {
            change(&lease, LeaseChange::Revoke);
            count += 1;
        }
    }
    count
}
