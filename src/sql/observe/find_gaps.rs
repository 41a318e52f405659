//! Which values of a numbering a column lacks. The rest of `hilo_find_gaps` is in sql/gaps.sql.

use std::ffi::CStr;

use pgrx::pg_sys::panic::ErrorReport;
use pgrx::prelude::*;

use hilo_core::direction::Direction;
use hilo_core::mapping::Mapping;
use hilo_core::numbers::Index;
use hilo_core::range::Range;

use crate::sql::call::border::Call;
use crate::sql::call::stored_rows::{Rows, row};
use crate::sql::column::values::{self, Use, Values};
use crate::sql::observe::value_at::stripes;

row! {
    struct Absent {
        absent_first: i64,
        absent_next: i64,
    }
}

/// `_hilo.hilo_absent(relation, column_name, first, next, numbering …)`: the places of a numbering
/// from `first` to before `next` whose values the column lacks.
#[pg_extern(sql = false)]
#[expect(clippy::too_many_arguments, reason = "SQL has an argument for each column")]
fn hilo_absent(
    call: Call,
    relation: pg_sys::Oid,
    column_name: &CStr,
    first: i64,
    next: i64,
    base: i64,
    increment: i64,
    min_value: i64,
    max_value: i64,
    cycle: bool,
    node: i32,
    nodes: i32,
    stripe: i64,
) -> Result<Rows<Absent>, ErrorReport> {
    let column = values::find_column(relation, column_name, Use::Search)?;
    let values = Values::by_select(column)?;
    let (mut first, next) = (Index(first), Index(next));
    let stripes = stripes(node, nodes, stripe);
    let mapping = Mapping { base, increment, min_value, max_value, cycle, stripes };
    let mut rows = Rows::begin(call);
    let (Some(one), Some(other)) = (mapping.value(first), mapping.value(next - 1)) else {
        return Ok(rows);
    };
    let mut add = |range: Range| {
        check_for_interrupts!();
        if !range.is_empty() {
            rows.add(Absent { absent_first: range.start.0, absent_next: range.end.0 });
        }
    };
    let (ends, direction) =
        ((one.min(other), one.max(other)), Direction::from_increment(mapping.increment));
    let visit = |value| {
        if let Some(place) = mapping.index_of(value) {
            add(Range::new(first, place));
            first = first.max(place.next());
        }
    };
    values.in_order(ends, direction, visit)?;
    add(Range::new(first, next));
    Ok(rows)
}
