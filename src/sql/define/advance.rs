//! `hilo_advance`: serves nothing up to a value any more.

use pgrx::pg_sys::panic::ErrorReport;
use pgrx::prelude::*;

use hilo_core::direction::Direction;

use crate::catalog::lease::leases::Lease;
use crate::catalog::rights::missing;
use crate::catalog::rights::privileges::{self, Privileges};
use crate::catalog::sequence::definitions::Sequence;
use crate::catalog::sequence::{node, numbering};
use crate::errors::HiloError;
use crate::session::slice_table;
use crate::sql::call::border::Call;
use crate::sql::define::ddl_checks::{begin_with_name, lock_by_name, require};
use crate::sql::define::unserved::unserved_ranges;
use crate::sql::define::{numbering_change, open_leases, renumber};
use crate::sql::types::sequence_type::SequenceName;

/// `hilo_advance(name, at_least)`. Returns the next value, or NULL if there is none left.
#[pg_extern(sql = false)]
fn hilo_advance(
    _call: Call,
    name: Option<SequenceName>,
    at_least: Option<i64>,
) -> Result<Option<i64>, ErrorReport> {
    let name = begin_with_name(name, c"hilo_advance()")?;
    let at_least = require(at_least, "at_least")?;
    let found = missing::require(&name)?;
    check(&found)?;
    if let Some(next) = is_beyond(&found, at_least)? {
        return Ok(next);
    }
    let locked = lock_by_name(&name, check)?.ok_or_else(|| missing::to_use(&name))?;
    Ok(advance(&locked.sequence, at_least)?)
}

fn check(sequence: &Sequence) -> Result<(), HiloError> {
    privileges::allow(sequence, Privileges::UPDATE)?;
    numbering_change::refuse_source(sequence)?;
    match sequence.definition.cycle {
        true => Err(HiloError::AdvanceCycling(sequence.name.to_string())),
        false => Ok(()),
    }
}

/// Advances a locked sequence, unless another session has done so by now.
fn advance(sequence: &Sequence, at_least: i64) -> Result<Option<i64>, HiloError> {
    let open = open_leases::find(sequence)?;
    open_leases::pass(sequence, &open, |lease| !starts_beyond(sequence, lease, at_least))?;
    match is_beyond(sequence, at_least)? {
        Some(next) => Ok(next),
        None => renumber::advance(sequence, at_least),
    }
}

fn starts_beyond(sequence: &Sequence, lease: &Lease, at_least: i64) -> bool {
    Direction::from_increment(sequence.definition.increment).is_beyond(lease.first_value, at_least)
}

/// The next value, if no value up to `at_least` is yet to be served or could come back from a
/// lease. `Some(None)`: none is left at all.
fn is_beyond(sequence: &Sequence, at_least: i64) -> Result<Option<Option<i64>>, HiloError> {
    slice_table::return_slices(|entry| entry.id == sequence.id);
    // A lease that comes back now was open before. A lease for which a range leaves memory now is
    // open afterwards.
    let all_leased_beyond = || {
        let open = open_leases::find(sequence)?;
        Ok::<_, HiloError>(open.iter().all(|lease| starts_beyond(sequence, lease, at_least)))
    };
    if !all_leased_beyond()? {
        return Ok(None);
    }
    let unserved = unserved_ranges(sequence, node::LocalNode::read()?.id)?;
    numbering::check_moves(sequence, unserved.position.nodes, Some(at_least))?;
    if unserved.position.may_lack() {
        return Ok(None);
    }
    let direction = Direction::from_increment(sequence.definition.increment);
    let Some(held) = unserved.held_ranges() else { return Ok(None) };
    let mapping = unserved.mapping.without_bounds();
    let mut firsts = held.iter().filter_map(|range| mapping.value(range.start));
    let all_beyond = unserved.continues_beyond(at_least)
        && firsts.all(|value| direction.is_beyond(value, at_least));
    Ok((all_beyond && all_leased_beyond()?).then(|| unserved.next()))
}
