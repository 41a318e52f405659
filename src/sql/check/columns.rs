//! `_hilo.hilo_unserved_values`: what a column holds of the values that its sequence is yet to
//! serve.

use pgrx::pg_sys::panic::ErrorReport;
use pgrx::prelude::*;

use hilo_core::mapping::Mapping;
use hilo_core::numbers::SequenceId;
use hilo_core::range::Range;

use crate::catalog::columns::column_ref::ColumnRef;
use crate::catalog::rights::privileges;
use crate::catalog::sequence::definitions::{self, Sequence};
use crate::catalog::sequence::node;
use crate::errors::HiloError;
use crate::process::ffi;
use crate::process::subtransaction;
use crate::session::invalidation;
use crate::sql::call::border::Call;
use crate::sql::call::stored_rows::{Rows, row};
use crate::sql::column::column_values::Verdict;
use crate::sql::column::stored;
use crate::sql::column::values;
use crate::sql::define::unserved::unserved_ranges;

row! {
    struct Unserved {
        value: Option<i64>,
        partly: bool,
        failure: Option<String>,
    }
}

/// `_hilo.hilo_unserved_values(relation, number, sequence)`: the furthest value in a column that
/// this node is yet to serve. An index shows it at once; without one, only the last pages of the
/// table are read (`partly`). It never waits for a lock, and never runs code that a user has put
/// into an index.
#[pg_extern(sql = false)]
fn hilo_unserved_values(
    call: Call,
    relation: pg_sys::Oid,
    number: i16,
    sequence: i64,
) -> Result<Rows<Unserved>, ErrorReport> {
    let mut rows = Rows::begin(call);
    let column = ColumnRef { relid: relation, attnum: number };
    if let Some(found) = find(column, SequenceId(sequence))? {
        rows.add(found);
    }
    Ok(rows)
}

fn find(column: ColumnRef, sequence: SequenceId) -> Result<Option<Unserved>, HiloError> {
    let Some(sequence) = definitions::by_id(sequence)? else { return Ok(None) };
    let definition = &sequence.definition;
    if definition.cycle || invalidation::in_progress() {
        return Ok(None);
    }
    // PUBLIC has USAGE of _hilo: anybody can call the function, without the conditions of
    // `_hilo.hilo_finding`.
    let hidden = !values::may_select(column)? || values::has_policies(column.relid);
    if hidden && !privileges::reads_all(ffi::current_user()) {
        return Ok(None);
    }
    let before = RemainingRange::find(&sequence)?;
    // Values beyond the bounds are never served.
    let (direction, bound) = (definition.direction(), definition.last_bound());
    let judge = |value| before.judge(value);
    let search = || stored::search(column, direction, bound, judge);
    let (found, failure) = match subtransaction::run(subtransaction::is_of_work, search) {
        Ok(None) => return Ok(None),
        Ok(found) => (found, None),
        // A damaged index or file hides only this column from hilo_check.
        Err(report) => (None, Some(report.message().to_owned())),
    };
    // Sessions may have drawn the value and inserted it since. Then it counts as served now.
    if let Some(found) = found
        && !matches!(RemainingRange::find(&sequence)?.judge(found.value), Verdict::Found)
    {
        return Ok(None);
    }
    let partly = found.is_some_and(|found| found.partly);
    let value = found.filter(|_| !hidden).map(|found| found.value);
    Ok(Some(Unserved { value, partly, failure }))
}

/// The ranges that this node is yet to serve of a sequence.
struct RemainingRange {
    mapping: Mapping,
    /// Yet to be served.
    ranges: Vec<Range>,
}

impl RemainingRange {
    fn find(sequence: &Sequence) -> Result<RemainingRange, HiloError> {
        let found = unserved_ranges(sequence, node::id())?;
        Ok(RemainingRange { ranges: found.ranges(), mapping: found.mapping })
    }

    /// Whether `value` is yet to be served, or how to continue the search for one that is.
    fn judge(&self, value: i64) -> Verdict {
        let beyond = self.mapping.first_index_beyond(value);
        // The ranges before this one end with indexes whose values are `value`, or come before it.
        let after = self.ranges.partition_point(|range| range.start < beyond);
        let Some(range) = self.ranges[..after].last() else { return Verdict::Stop };
        if self.mapping.index_of(value).is_some_and(|index| range.contains(index)) {
            return Verdict::Found;
        }
        // The value has been served, or lies between two of this node's values, or in another
        // node's stripe.
        self.mapping.value(range.until(beyond).last()).map_or(Verdict::Stop, Verdict::SeekTo)
    }
}
