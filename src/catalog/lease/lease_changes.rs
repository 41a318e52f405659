//! The changes that a transaction makes to leases: returns, renewals, revocations. Their rows are
//! written just before the commit, so an open transaction keeps no other one from revoking a lease.

use hilo_core::numbers::{Index, SequenceId, Timestamp};

use crate::catalog::lease::lease_id::LeaseId;
use crate::catalog::lease::leases::{Ended, LockedLease, due_at_end, lock, lock_as, not_open};
use crate::catalog::rows::columns::lease as column;
use crate::catalog::rows::table::{LockWait, RowLock, Strength, text_datum};
use crate::catalog::sequence::definitions;
use crate::errors::{Closed, HiloError};
use crate::process::ffi;
use crate::process::subtransaction;

/// The change that a transaction makes to a lease when it commits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeaseChange {
    /// The holder has used the indexes before this one.
    Return(Index),
    Revoke,
    /// The lease expires at this time, or never.
    Renew(Option<Timestamp>),
    /// The sequence was moved beyond values of its range.
    Pass,
}

impl LeaseChange {
    /// How the change ends the lease; `None`: it does not.
    pub fn ends(self) -> Option<Ended> {
        match self {
            LeaseChange::Return(_) => Some(Ended::Returned),
            LeaseChange::Revoke => Some(Ended::Revoked),
            LeaseChange::Renew(_) | LeaseChange::Pass => None,
        }
    }
}

impl LockedLease {
    /// Writes a change of an open lease. A lease that has ended is left for the worker to file.
    fn change(&self, change: LeaseChange) {
        let end = |how: Ended, next: Index| {
            self.update(&[
                (column::NEXT_INDEX, Some(next.0.into())),
                (column::ENDED, Some(text_datum(how.name().as_bytes()))),
                (column::ENDED_AT, Some(ffi::now().0.into())),
                (column::DUE_AT, Some(due_at_end().0.into())),
            ]);
        };
        match change {
            LeaseChange::Return(next) => end(Ended::Returned, next),
            LeaseChange::Revoke => end(Ended::Revoked, self.lease.range.start),
            LeaseChange::Renew(expires_at) => {
                let at = expires_at.map(|at| at.0.into());
                self.update(&[(column::EXPIRES_AT, at), (column::DUE_AT, at)]);
            }
            LeaseChange::Pass => self.update(&[(column::PASSED, Some(true.into()))]),
        }
    }
}

/// Until this transaction ends, nobody returns the lease, and the worker does not file it; it can
/// still be revoked. `false`: the lease is not open.
pub fn keep(id: &LeaseId) -> Result<bool, HiloError> {
    let locked = lock_as(id, LockWait::Block, Strength::Shared)?;
    Ok(matches!(locked, RowLock::Locked(locked) if locked.lease.ended.is_none()))
}

/// Waits for the transactions that [`keep`] the lease, so that its return need not wait at the
/// commit. Locks nothing.
pub fn wait_for_keepers(id: &LeaseId) -> Result<(), HiloError> {
    subtransaction::try_out(|| lock(id, LockWait::Block).map(drop))
}

/// Writes the change that the transaction, which is about to commit, makes to a lease. Only a
/// return waits for transactions that [`keep`] the lease.
///
/// # Errors
/// `LeaseNotOpen` if the lease has ended, so that it cannot be returned or renewed.
pub fn write(sequence: SequenceId, id: &LeaseId, change: LeaseChange) -> Result<(), HiloError> {
    let strength = match change {
        LeaseChange::Return(_) => Strength::Alone,
        _ => Strength::Changing,
    };
    let since = match lock_as(id, LockWait::Block, strength)? {
        RowLock::Locked(locked) => match locked.lease.ended {
            None => {
                locked.change(change);
                return Ok(());
            }
            Some(_) => locked.lease.closed_reason(ffi::now()).unwrap_or(Closed::Unknown),
        },
        _ => Closed::Unknown,
    };
    // Nothing is left to revoke or to pass, or the sequence has gone.
    let is_moot = matches!(change, LeaseChange::Revoke | LeaseChange::Pass)
        || definitions::by_id(sequence)?.is_none();
    if is_moot { Ok(()) } else { Err(not_open(id, since)) }
}
