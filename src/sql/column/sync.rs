//! `hilo_sync`: moves a sequence beyond the values that a column holds, or beyond its keys.
//!
//! The aim is that no value of the column is served again. Most values that are yet to be served
//! lie beyond all that the column holds, or do so after the move. Others are held by sessions, or
//! are free: below the largest value of the column, but not in it. They stay as they are, so a
//! sequence that is in use loses nothing. A lease is its holder's; but if the column holds values
//! of it, nothing that comes back is served again.

use std::ffi::CStr;

use pgrx::pg_sys;
use pgrx::pg_sys::panic::ErrorReport;
use pgrx::prelude::*;

use hilo_core::range::Range;

use crate::catalog::columns::column_ref::ColumnRef;
use crate::catalog::lease::lease_id::LeaseId;
use crate::catalog::lease::leases::Lease;
use crate::catalog::rights::missing;
use crate::catalog::rights::privileges::{self, Privileges};
use crate::catalog::sequence::definitions::Sequence;
use crate::catalog::sequence::{node, numbering};
use crate::errors::HiloError;
use crate::gucs;
use crate::process::memory;
use crate::session::slice_table;
use crate::sql::call::border::Call;
use crate::sql::column::adopt::column_of;
use crate::sql::column::stored::Numbers;
use crate::sql::column::values::{self, Use, Values};
use crate::sql::define::ddl_checks;
use crate::sql::define::unserved::{self, Unserved};
use crate::sql::define::{open_leases, renumber};
use crate::sql::types::sequence_type::SequenceName;

/// `hilo_sync(name, relation, column_name)`. Returns the next value, or NULL if there is none left.
#[pg_extern(sql = false)]
fn hilo_sync(
    _call: Call,
    name: Option<SequenceName>,
    relation: Option<pg_sys::Oid>,
    column_name: Option<&CStr>,
) -> Result<Option<i64>, ErrorReport> {
    let name = ddl_checks::begin_with_name(name, c"hilo_sync()")?;
    let (relation, column) = column_of(relation, column_name)?;
    let allow = |found: &Sequence| privileges::allow(found, Privileges::UPDATE);
    allow(&missing::require(&name)?)?;
    values::find_column(relation, column, Use::Read)?;
    // Tables are locked before sequences, and what is read is what was checked.
    // SAFETY: any OID can be locked; the end of the transaction releases the lock.
    unsafe { pg_sys::LockRelationOid(relation, pg_sys::AccessShareLock as _) };
    let column = values::find_column(relation, column, Use::Read)?;
    let locked = ddl_checks::lock_by_name(&name, allow)?;
    let locked = locked.ok_or_else(|| missing::to_use(&name))?;
    Ok(sync(&locked.sequence, column)?)
}

/// Returns the next value; `None`: there is none left.
fn sync(sequence: &Sequence, place: ColumnRef) -> Result<Option<i64>, HiloError> {
    let definition = &sequence.definition;
    let frame =
        || definition.parsed_key_format().frame(&sequence.name, gucs::server_prefix_bytes());
    let column = &Values::all(place, Numbers::may_be_keys_in(place).then(frame))?;
    let others = column.other_keys()?;
    if others > 0 {
        let name = sequence.name.to_string();
        HiloError::NoKeys { column: place.describe(), others, name }.warn();
    }
    let furthest = column.furthest(definition.direction(), definition.last_bound())?;
    // Rows that Citus has distributed cannot be read here.
    numbering::check_moves(sequence, give_back_and_look(sequence)?.position.nodes, furthest)?;
    let passed = pass_leases(sequence, column, &[])?;
    // The values of a sequence that cycles come again in any case.
    let furthest = furthest.filter(|_| !definition.cycle);
    if let Some(taken) = furthest
        && serves_again(sequence, column, taken)?
    {
        return renumber::advance(sequence, taken);
    }
    // A range that has left memory for a lease since then was not leased before.
    pass_leases(sequence, column, &passed)?;
    Ok(give_back_and_look(sequence)?.next())
}

/// The values that the sequence is yet to serve here, after this session has returned its own.
fn give_back_and_look(sequence: &Sequence) -> Result<Unserved, HiloError> {
    let node = node::LocalNode::read()?.id;
    slice_table::return_slices(|entry| entry.id == sequence.id);
    unserved::unserved_ranges(sequence, node)
}

/// Makes sure that no value of the column comes back from a lease, besides those that are `known`.
/// Returns the leases that were looked at, sorted.
fn pass_leases(
    sequence: &Sequence,
    column: &Values,
    known: &[LeaseId],
) -> Result<Vec<LeaseId>, HiloError> {
    let mut open = open_leases::find(sequence)?;
    open.retain(|lease| known.binary_search(&lease.id).is_err());
    let suspects = column.within(memory::try_collect(open.iter().map(Lease::span))?)?;
    let holds_any = |lease: &Lease| {
        let (low, high) = lease.span();
        let first = suspects.partition_point(|value| *value < low);
        let mut within = suspects[first..].iter().take_while(|value| **value <= high);
        within.any(|value| lease.index_of(*value).is_some_and(|index| lease.range.contains(index)))
    };
    open_leases::pass(sequence, &open, holds_any)?;
    let mut seen = memory::try_collect(open.iter().map(|lease| lease.id))?;
    seen.sort_unstable();
    Ok(seen)
}

/// Whether the sequence is yet to serve a value in the column, whose furthest value is `taken`.
fn serves_again(sequence: &Sequence, column: &Values, taken: i64) -> Result<bool, HiloError> {
    let before = give_back_and_look(sequence)?;
    if !before.continues_beyond(taken) {
        return Ok(true);
    }
    let Some(held) = before.held_ranges() else { return Ok(true) };
    let suspects = column.within(spans(&before, &held)?)?;
    if suspects.is_empty() {
        return Ok(false);
    }
    // A value in the column that was served in between is not held any more.
    let after = give_back_and_look(sequence)?;
    let Some(held) = after.held_ranges() else { return Ok(true) };
    let held = Range::union(held);
    let is_held = |index| {
        let at = held.partition_point(|range| range.end <= index);
        held.get(at).is_some_and(|range| range.contains(index))
    };
    Ok(suspects.into_iter().any(|value| after.mapping.index_of(value).is_some_and(is_held)))
}

/// The values of ranges, each span from its lowest to its highest.
fn spans(unserved: &Unserved, held: &[Range]) -> Result<Vec<(i64, i64)>, HiloError> {
    let ends = |range: &Range| {
        let first = unserved.mapping.value(range.start)?;
        let last = unserved.mapping.value(range.last())?;
        Some((first.min(last), first.max(last)))
    };
    memory::try_collect(held.iter().filter_map(ends))
}
