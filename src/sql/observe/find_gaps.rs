//! Which values of a numbering a column lacks. The rest of `hilo_find_gaps` is in sql/gaps.sql.

use pgrx::prelude::*;

use hilo_core::direction::Direction;
use hilo_core::numbers::Index;
use hilo_core::range::Range;

use crate::errors::OrRaise;
use crate::sql::call::args::{Args, sql_functions};
use crate::sql::call::stored_rows::StoredRows;
use crate::sql::call::values::{self, Use, Values};
use crate::sql::column::adopt::column_name;
use crate::sql::observe::value_at::mapping;

sql_functions!(hilo_absent);

/// `_hilo.hilo_absent(relation, column_name, first, next, numbering …)`: the places of a numbering,
/// from `first` to the one before `next`, whose values the column lacks.
fn hilo_absent(args: Args) {
    let relation = args.oid(0).unwrap_or(pg_sys::InvalidOid);
    let column = values::find_column(relation, column_name(args, 1), Use::Search).or_raise();
    let values = Values::by_select(column).or_raise();
    let [mut first, next] = [2, 3].map(|at| Index(args.int8(at).unwrap_or(0)));
    let mapping = mapping(args, 4);
    let mut rows = StoredRows::begin(args);
    let (Some(one), Some(other)) = (mapping.value(first), mapping.value(next - 1)) else { return };
    let mut add = |range: Range| {
        check_for_interrupts!();
        if !range.is_empty() {
            // SAFETY: the function is declared to return two bigints.
            unsafe { rows.add([range.start.0.into(), range.end.0.into()]) };
        }
    };
    let (ends, direction) = ((one.min(other), one.max(other)), Direction::of(mapping.increment));
    let visit = |value| {
        if let Some(place) = mapping.index_of(value) {
            add(Range::new(first, place));
            first = first.max(place.next());
        }
    };
    values.in_order(ends, direction, visit).or_raise();
    add(Range::new(first, next));
}
