//! A lease that its caller has named: the same call again finds it. A caller that takes the lease
//! holds the lock of its name until the row is there. A later caller waits for the transaction that
//! has written the row. So two calls at once get one lease, and a transaction that takes thousands
//! holds no lock for each.

use pgrx::pg_sys;

use crate::catalog::lease::lease_id::LeaseId;
use crate::catalog::rows::catalog_tables::{self, CatalogTable};
use crate::catalog::rows::columns::lease as column;
use crate::catalog::rows::object_lock::ObjectLock;
use crate::catalog::rows::scan::Match;
use crate::catalog::rows::table::{Snapshot, is_own_transaction};
use crate::errors::HiloError;
use crate::process::ffi;

/// The lock of a name. While it lives, nobody else takes a lease of this name.
pub struct LockedName(ObjectLock);

impl Drop for LockedName {
    fn drop(&mut self) {
        // After an error the transaction's abort releases it.
        if !std::thread::panicking() {
            self.0.release(pg_sys::ExclusiveLock);
        }
    }
}

/// Locks a name, after all other transactions that have a lease of it have ended.
pub fn lock(id: &LeaseId) -> Result<LockedName, HiloError> {
    let bits = u128::from_ne_bytes(*id);
    loop {
        let name =
            LockedName(ObjectLock::new(CatalogTable::Lease.oid()?, (bits ^ (bits >> 64)) as u64));
        name.0.acquire(pg_sys::ExclusiveLock, false);
        let Some(writer) = writer_at_work(id)? else { return Ok(name) };
        drop(name);
        ffi::await_transaction(writer);
    }
}

/// The transaction that is writing the row of a lease, if it is not this one.
fn writer_at_work(id: &LeaseId) -> Result<Option<pg_sys::TransactionId>, HiloError> {
    let mut found = None;
    let keys = [(column::LEASE, Match::Uuid(id))];
    CatalogTable::Lease.read()?.seeing(Snapshot::Any).scan(
        catalog_tables::LEASE_PKEY,
        &keys,
        |row| {
            let writer = row.writer();
            // SAFETY: only compares a number with the transactions that run; any number will do.
            let at_work = unsafe { pg_sys::TransactionIdIsInProgress(writer) };
            found = Some(writer).filter(|writer| at_work && !is_own_transaction(*writer));
            row.free();
            Ok(found.is_none())
        },
    )?;
    Ok(found)
}
