//! The open leases of a sequence on this node, whose rests may be served when they come back.

use pgrx::check_for_interrupts;

use crate::catalog::lease::lease_changes::{self, LeaseChange};
use crate::catalog::lease::leases::{self, Lease};
use crate::catalog::sequence::definitions::Sequence;
use crate::catalog::sequence::{node, positions};
use crate::errors::HiloError;
use crate::session::{names, own_leases};

pub fn find(sequence: &Sequence) -> Result<Vec<Lease>, HiloError> {
    let Some(position) = positions::find(sequence.id, node::LocalNode::read()?.id)? else {
        return Ok(Vec::new());
    };
    let mut open = leases::open_of(&position)?;
    open.retain(|lease| !own_leases::passes(&lease.id));
    Ok(open)
}

/// Makes sure that no value is served again that comes back from one of the `open` leases that
/// `picks` picks. Waits for transactions that are returning one of them; nobody returns one until
/// this transaction ends.
pub fn pass(
    sequence: &Sequence,
    open: &[Lease],
    picks: impl Fn(&Lease) -> bool,
) -> Result<(), HiloError> {
    for lease in open.iter().filter(|lease| picks(lease)) {
        check_for_interrupts!();
        // A lease that has ended in between is about to be served again, or was filed.
        if lease_changes::keep(&lease.id)? {
            own_leases::change(lease, names::key_of(sequence.id)?, LeaseChange::Pass)?;
        }
    }
    Ok(())
}
