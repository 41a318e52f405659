//! Leases: ranges that leave the server. Taking one and ending one are parts of the caller's
//! transaction. An end is written when the transaction commits (`session::own_leases`): until
//! then it locks nothing, so nobody who revokes a lease waits for its holder.

use pgrx::Uuid;
use pgrx::pg_sys;
use pgrx::pg_sys::panic::ErrorReport;
use pgrx::prelude::*;

use hilo_core::key_format;
use hilo_core::numbers::Timestamp;
use hilo_core::policy::MAX_LEASE_SIZE;

use crate::catalog::lease::lease_changes::{self, LeaseChange};
use crate::catalog::lease::lease_id::{self, LeaseId};
use crate::catalog::lease::lease_name;
use crate::catalog::lease::leases::{self, Ended, Lease};
use crate::catalog::rights::{missing, privileges};
use crate::catalog::sequence::{definitions, positions};
use crate::errors::{Closed, HiloError, check_argument};
use crate::gucs;
use crate::process::ffi;
use crate::session::{lease, names, own_leases};
use crate::sql::call::border::Call;
use crate::sql::call::stored_rows::{Record, row};
use crate::sql::call::text::{Text, Written};
use crate::sql::define::ddl_checks::{begin_with_name, begin_write, require};
use crate::sql::types::sequence_type::SequenceName;

/// The longest name of a holder, in bytes.
const LONGEST_HOLDER: usize = 255;

row! {
    struct Leased {
        lease: LeaseId,
        first: i64,
        last: i64,
        increment: i64,
        count: i64,
        expires_at: Option<Timestamp>,
        key_format: String,
        server_prefix: Written,
        suggested: i64,
    }
}

/// `hilo_lease(name, n, holder, ttl, lease)`: up to n evenly spaced values, which nobody else gets.
#[pg_extern(sql = false)]
fn hilo_lease(
    _call: Call,
    name: Option<SequenceName>,
    n: Option<i64>,
    holder: Option<Text>,
    ttl: Option<Interval>,
    lease: Option<Uuid>,
) -> Result<Record<Leased>, ErrorReport> {
    let name = begin_with_name(name, c"hilo_lease()")?;
    let count = require(n, "number of values to lease")?;
    let fits = (1..=MAX_LEASE_SIZE).contains(&count);
    let message =
        || format!("number of values to lease must be from 1 to {MAX_LEASE_SIZE}: {count}");
    check_argument(fits, message, "Take several leases if you need more values.")?;
    let fits = holder.is_none_or(|holder| holder.len() <= LONGEST_HOLDER);
    let message = || format!("name of a holder must be at most {LONGEST_HOLDER} bytes long");
    check_argument(fits, message, "Choose a shorter name.")?;
    expiry(ttl, ffi::now())?; // refused before anything is taken
    let request = Request { name: &name, count, holder: holder.map(Text::bytes), ttl };
    let Some(id) = lease.map(|lease| *lease.as_bytes()) else {
        return Ok(row(take(&request, lease_id::random())?)?);
    };
    let locked = lease_name::lock(&id)?;
    let granted = match find_repeat(&id, &name, count)? {
        Some(granted) => granted,
        None => take(&request, id)?,
    };
    drop(locked);
    Ok(row(granted)?)
}

/// A range that a caller wants to lease.
struct Request<'a> {
    name: &'a [u8],
    count: i64,
    holder: Option<&'a [u8]>,
    ttl: Option<Interval>,
}

/// A lease, and how many values to take the next time.
type Granted = (Lease, i64);

/// Takes up to the requested number of values, and writes the lease's row.
fn take(request: &Request, id: LeaseId) -> Result<Granted, HiloError> {
    let (mut lease, suggested) = lease::take(request.name, request.count)?;
    // The time begins now, however long the call has waited.
    let leased_at = ffi::now();
    (lease.id, lease.expires_at) = (id, expiry(request.ttl, leased_at)?);
    leases::insert(&lease, leased_at, request.holder, client_addr())?;
    own_leases::note_expiry(lease.expires_at);
    Ok((lease, suggested))
}

/// The lease of this name, if the same call has taken it before.
///
/// # Errors
/// `LeaseTaken` if the name belongs to another lease or one that has ended, `NoSuchSequence`.
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

fn row((lease, suggested): Granted) -> Result<Record<Leased>, HiloError> {
    let sequence = definitions::by_id(lease.sequence)?;
    let format = sequence.and_then(|sequence| sequence.definition.key_format);
    let (first, last) = lease.ends(lease.range);
    Ok(Record(Leased {
        lease: lease.id,
        first,
        last,
        increment: lease.increment,
        count: lease.range.len(),
        expires_at: lease.expires_at,
        key_format: format.unwrap_or_else(|| key_format::DEFAULT.to_owned()),
        server_prefix: Written(gucs::server_prefix_bytes().to_vec()),
        suggested,
    }))
}

/// The address of the client, as core's function of the same name reports it.
fn client_addr() -> Option<pg_sys::Datum> {
    // SAFETY: core's function takes no arguments and reads the connection of this backend.
    unsafe { pgrx::direct_function_call_as_datum(pg_sys::inet_client_addr, &[]) }
}

/// When a lease with this ttl expires.
fn expiry(ttl: Option<Interval>, now: Timestamp) -> Result<Option<Timestamp>, HiloError> {
    let Some(ttl) = ttl else { return Ok(None) };
    // SAFETY: core's function takes a timestamptz and an interval, and returns a timestamptz.
    let end = unsafe {
        pgrx::direct_function_call_as_datum(
            pg_sys::timestamptz_pl_interval,
            &[Some(now.0.into()), ttl.into_datum()],
        )
    };
    let end = end.map_or(now, |end| Timestamp(end.value() as i64));
    let message = || "ttl of a lease must be positive".into();
    check_argument(end > now, message, "Omit it for a lease that does not expire.")?;
    Ok(Some(end))
}

/// Why a lease is not open; `None`: it is open. The changes of this transaction count.
fn closed_reason(lease: &Lease) -> Option<Closed> {
    let now = ffi::now();
    let own = own_leases::end_of(&lease.id).map(|how| match how {
        Ended::Returned => Closed::Returned(leases::time_text(now)),
        Ended::Revoked => Closed::Revoked(leases::time_text(now)),
    });
    own.or_else(|| lease.closed_reason(now))
}

/// An open lease that the current user may end, and whether surely nobody has locked it.
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

/// Notes the change that this transaction makes to a lease when it commits.
fn change(lease: &Lease, change: LeaseChange) -> Result<(), HiloError> {
    own_leases::change(lease, names::key_of(lease.sequence)?, change)
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

/// `hilo_lease_return(lease, next)`: ends a lease whose values before `next` were used. Returns how
/// many values will be served again.
#[pg_extern(sql = false)]
fn hilo_lease_return(
    _call: Call,
    lease: Option<Uuid>,
    next: Option<i64>,
) -> Result<i64, ErrorReport> {
    begin_write(c"hilo_lease_return()")?;
    let id = *require(lease, "lease")?.as_bytes();
    let (mut lease, is_untouched) = open(&id)?;
    if !is_untouched {
        lease_changes::wait_for_keepers(&id)?;
        (lease, _) = open(&id)?;
    }
    let next = match next {
        None => lease.range.start,
        Some(next) => lease.index_of(next).ok_or_else(|| HiloError::LeaseValue {
            lease: lease_id::display(&id),
            next,
            first: lease.first_value,
            last: lease.value(lease.range.last()) as i64,
            increment: lease.increment,
        })?,
    };
    change(&lease, LeaseChange::Return(next))?;
    let position = positions::find(lease.sequence, lease.node)?;
    let sequence = definitions::by_id(lease.sequence)?;
    Ok(match lease.loss_reason(sequence.as_ref().zip(position.as_ref())) {
        None => lease.range.from(next).len(),
        Some(_) => 0,
    })
}

/// `hilo_lease_renew(lease, ttl)`: the lease expires this long after now; NULL: never. Returns when
/// it expires.
#[pg_extern(sql = false)]
fn hilo_lease_renew(
    _call: Call,
    lease: Option<Uuid>,
    ttl: Option<Interval>,
) -> Result<Option<TimestampWithTimeZone>, ErrorReport> {
    begin_write(c"hilo_lease_renew()")?;
    let id = *require(lease, "lease")?.as_bytes();
    let expires_at = expiry(ttl, ffi::now())?;
    let (lease, _) = open(&id)?;
    change(&lease, LeaseChange::Renew(expires_at))?;
    // Core's addition has refused results that are out of range.
    Ok(expires_at.and_then(|at| at.0.try_into().ok()))
}

/// `hilo_lease_revoke(lease, holder)`: ends a lease, or the leases of a holder, that will not come
/// back. Returns how many.
#[pg_extern(sql = false)]
fn hilo_lease_revoke(
    _call: Call,
    lease: Option<Uuid>,
    holder: Option<Text>,
) -> Result<i64, ErrorReport> {
    begin_write(c"hilo_lease_revoke()")?;
    let message = || "either a lease or a holder is required".into();
    let advice = "Name the lease, or the holder whose leases are to end.";
    check_argument(lease.is_some() || holder.is_some(), message, advice)?;
    let named = lease.map(|lease| open(lease.as_bytes())).transpose()?.map(|(lease, _)| lease);
    let found = match (holder, &named) {
        (Some(holder), _) => leases::of_holder(&holder)?,
        (None, named) => named.iter().cloned().collect(),
    };
    let mut count = 0;
    for lease in found {
        pgrx::check_for_interrupts!();
        let picked = match &named {
            Some(named) => named.id == lease.id,
            None => own_leases::end_of(&lease.id).is_none() && may_end(&lease)?,
        };
        if picked {
            change(&lease, LeaseChange::Revoke)?;
            count += 1;
        }
    }
    Ok(count)
}
