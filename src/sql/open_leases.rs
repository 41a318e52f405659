//! The open leases of a sequence on this node, whose rests may be served when they come back.

use pgrx::check_for_interrupts;

use crate::catalog::definitions::Sequence;
use crate::catalog::leases::{self, Lease};
use crate::catalog::table::{LockWait, RowLock};
use crate::catalog::{catalog_oids, node, positions};
use crate::errors::HiloError;

pub(super) fn of(sequence: &Sequence) -> Result<Vec<Lease>, HiloError> {
    let ids = catalog_oids()?;
    match positions::find(&ids, sequence.id, node::Here::read()?.id)? {
        Some(position) => leases::open_of(&ids, &position),
        None => Ok(Vec::new()),
    }
}

/// Makes sure that nothing which comes back from those of `open` that `picks` picks is served
/// again. Waits for transactions that end one of them.
pub(super) fn pass(open: &[Lease], picks: impl Fn(&Lease) -> bool) -> Result<(), HiloError> {
    let ids = catalog_oids()?;
    for lease in open.iter().filter(|lease| picks(lease)) {
        check_for_interrupts!();
        // One that has ended meanwhile is yet to be served, or was filed.
        if let RowLock::Locked(locked) = leases::lock(&ids, &lease.id, LockWait::Block)?
            && locked.lease.ended.is_none()
        {
            locked.pass();
        }
    }
    Ok(())
}
