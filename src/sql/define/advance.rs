//! `hilo_advance`: serves nothing up to a value any more.

use hilo_core::direction::Direction;

use crate::catalog::definitions::Sequence;
use crate::catalog::leases::Lease;
use crate::catalog::privileges::Privileges;
use crate::catalog::{missing, node, numbering};
use crate::errors::{HiloError, OrRaise};
use crate::session::slice_table;
use crate::sql::call::args::{Args, sql_functions};
use crate::sql::define::ddl_checks::{begin_with_name, lock_by_name, require};
use crate::sql::define::unserved::look;
use crate::sql::define::{ended, open_leases, renumber};
use crate::sql::draw::nextval;

sql_functions!(hilo_advance);

/// `hilo_advance(name, at_least)`. Returns the next value, or NULL if there is none left.
fn hilo_advance(args: Args) -> Option<i64> {
    let name = begin_with_name(args, c"hilo_advance()");
    require(args, 1, "at_least");
    let at_least = args.int8(1).unwrap_or(0);
    let found = missing::require(name).or_raise();
    check(&found).or_raise();
    is_beyond(&found, at_least).unwrap_or_else(|| {
        let locked = lock_by_name(name, check).or_raise();
        advance(&locked.ok_or_else(|| missing::to_use(name)).or_raise().sequence, at_least)
    })
}

fn check(sequence: &Sequence) -> Result<(), HiloError> {
    nextval::allow(sequence, Privileges::UPDATE)?;
    ended::refuse_source(sequence)?;
    match sequence.definition.cycle {
        true => Err(HiloError::AdvanceCycling(sequence.name.to_string())),
        false => Ok(()),
    }
}

/// Advances a locked sequence, unless another session has done so meanwhile.
fn advance(sequence: &Sequence, at_least: i64) -> Option<i64> {
    let open = open_leases::of(sequence).or_raise();
    open_leases::pass(sequence, &open, |lease| !starts_beyond(sequence, lease, at_least))
        .or_raise();
    is_beyond(sequence, at_least)
        .unwrap_or_else(|| renumber::advance(sequence, at_least).or_raise())
}

fn starts_beyond(sequence: &Sequence, lease: &Lease, at_least: i64) -> bool {
    Direction::of(sequence.definition.increment).is_beyond(lease.first_value, at_least)
}

/// The next value, if nothing up to `at_least` is yet to be served, nor could come back from a
/// lease. `Some(None)`: none is left at all.
fn is_beyond(sequence: &Sequence, at_least: i64) -> Option<Option<i64>> {
    slice_table::return_slices(|entry| entry.id == sequence.id);
    // A lease that comes back meanwhile was open before. One for which a range leaves memory is
    // open afterwards.
    let all_leased_beyond = || {
        let open = open_leases::of(sequence).or_raise();
        open.iter().all(|lease| starts_beyond(sequence, lease, at_least))
    };
    if !all_leased_beyond() {
        return None;
    }
    let unserved = look(sequence, node::Here::read().or_raise().id);
    numbering::check_moves(sequence, unserved.position.nodes, Some(at_least)).or_raise();
    if unserved.position.may_lack() {
        return None;
    }
    let direction = Direction::of(sequence.definition.increment);
    let held = unserved.held_ranges()?;
    let mapping = unserved.mapping.without_bounds();
    let mut firsts = held.iter().filter_map(|range| mapping.value(range.start));
    let all_beyond = unserved.continues_beyond(at_least)
        && firsts.all(|value| direction.is_beyond(value, at_least));
    (all_beyond && all_leased_beyond()).then(|| unserved.next())
}
