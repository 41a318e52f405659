//! `hilo_sync`: moves a sequence beyond the values that a column holds.
//!
//! What counts is that no value of the column is served again. Most values that are yet to be served lie beyond
//! all that the column holds, or do so after the move. Others are held by sessions, or are free: below the
//! largest value of the column, but not in it. They stay as they are, so a sequence that is in use loses nothing.
//! What is leased is its holder's; but if the column holds values of it, nothing that comes back is served again.

use std::collections::HashSet;

use pgrx::pg_sys;

use hilo_core::direction::Direction;
use hilo_core::range::Range;

use super::adopt::column_name;
use super::column::{Column, Use};
use crate::catalog::definitions::{self, Sequence};
use crate::catalog::leases::Lease;
use crate::catalog::missing;
use crate::catalog::privileges::Privileges;
use crate::catalog::{node, numbering};
use crate::errors::OrRaise;
use crate::session::slice_table;
use crate::sql::args::{Args, sql_functions};
use crate::sql::definer::{self, By};
use crate::sql::unserved::{self, Unserved};
use crate::sql::{nextval, open_leases, renumber};

sql_functions!(hilo_sync);

/// `hilo_sync(name, relation, column_name)`. Returns the next value, or NULL if there is none left.
fn hilo_sync(args: Args) -> pg_sys::Datum {
    definer::begin_write(c"hilo_sync()");
    let name = definer::required_name(args);
    definer::required(args, 1, "relation");
    let relid = args.oid(1).unwrap_or(pg_sys::InvalidOid);
    let column_name = column_name(args, 2);
    let missing = || missing::to_use(name);
    let found = definitions::by_name(name).or_raise().ok_or_else(missing).or_raise();
    nextval::allow(&found, Privileges::UPDATE).or_raise();
    Column::find(relid, column_name, Use::Read).or_raise();
    // Tables are locked before sequences, and what is read is what was checked.
    // SAFETY: any OID can be locked; the end of the transaction releases the lock.
    unsafe { pg_sys::LockRelationOid(relid, pg_sys::AccessShareLock as _) };
    let column = Column::find(relid, column_name, Use::Read).or_raise();
    let locked = definer::lock_named(name, By::Anybody).or_raise().ok_or_else(missing).or_raise();
    let sequence = &locked.sequence;
    nextval::allow(sequence, Privileges::UPDATE).or_raise();
    let furthest =
        column.furthest(sequence.definition.direction(), sequence.definition.last_bound());
    // What Citus has distributed is not seen here.
    let nodes = unserved(sequence).position.nodes;
    numbering::check_moves(sequence, nodes, furthest).or_raise();
    pass_leases(sequence, &column);
    let next = match furthest {
        // The values of a sequence that cycles come again in any case.
        Some(taken) if !sequence.definition.cycle && serves_again(sequence, &column, taken) => {
            renumber::advance(sequence, taken).or_raise()
        }
        _ => unserved(sequence).next(),
    };
    match next {
        Some(next) => next.into(),
        None => args.null(),
    }
}

/// What the sequence is yet to serve here, after this session has returned what it holds.
fn unserved(sequence: &Sequence) -> Unserved {
    let node = node::Here::read().or_raise().id;
    slice_table::return_slices(|entry| entry.id == sequence.id);
    unserved::unserved(sequence, node)
}

/// Makes sure that no value of the column comes back from a lease.
fn pass_leases(sequence: &Sequence, column: &Column) {
    let open = open_leases::of(sequence).or_raise();
    let spans: Vec<(i64, i64)> = open.iter().map(Lease::span).collect();
    let suspects = column.values_within(&spans);
    let holds_any = |lease: &Lease| {
        suspects
            .iter()
            .any(|value| lease.index_of(*value).is_some_and(|index| lease.range.contains(index)))
    };
    open_leases::pass(sequence, holds_any).or_raise();
}

/// Whether the sequence is yet to serve a value that the column holds, of which `taken` is the furthest.
fn serves_again(sequence: &Sequence, column: &Column, taken: i64) -> bool {
    let before = unserved(sequence);
    let direction = Direction::of(sequence.definition.increment);
    if before.next().is_some_and(|next| !direction.is_beyond(next, taken)) {
        return true;
    }
    let Some(held) = before.all_held() else { return true };
    let suspects: HashSet<i64> = column.values_within(&spans(&before, &held)).into_iter().collect();
    if suspects.is_empty() {
        return false;
    }
    // A value that was served meanwhile and is in the column now is held no more.
    let after = unserved(sequence);
    let Some(held) = after.all_held() else { return true };
    suspects.into_iter().any(|value| {
        after
            .mapping
            .index_of(value)
            .is_some_and(|index| held.iter().any(|range| range.contains(index)))
    })
}

/// The values of ranges, each span from its lowest to its highest.
fn spans(unserved: &Unserved, held: &[Range]) -> Vec<(i64, i64)> {
    let ends = |range: &Range| {
        let first = unserved.mapping.value(range.start)?;
        let last = unserved.mapping.value(range.last())?;
        Some((first.min(last), first.max(last)))
    };
    held.iter().filter_map(ends).collect()
}
