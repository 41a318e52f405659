//! `_hilo.hilo_unserved_values`: what a column holds of the values that its sequence is yet to
//! serve.

use hilo_core::mapping::Mapping;
use hilo_core::numbers::SequenceId;
use hilo_core::range::Range;

use crate::catalog::column_ref::ColumnRef;
use crate::catalog::column_values::Verdict;
use crate::catalog::definitions::{self, Sequence};
use crate::catalog::stored;
use crate::catalog::table::text_datum;
use crate::catalog::{node, privileges};
use crate::errors::OrRaise;
use crate::process::ffi;
use crate::process::subtransaction;
use crate::session::invalidation;
use crate::sql::call::args::{Args, sql_functions};
use crate::sql::call::stored_rows::StoredRows;
use crate::sql::call::values;
use crate::sql::define::unserved::look;

sql_functions!(hilo_unserved_values);

/// `_hilo.hilo_unserved_values(relation, number, sequence)`: the furthest value that a column holds
/// and this node is yet to serve. Checks that only if an index shows it at once. It never waits for
/// a lock, and never runs anything that a user has put into an index.
fn hilo_unserved_values(args: Args) -> Option<()> {
    let mut rows = StoredRows::begin(args);
    let column = ColumnRef { relid: args.oid(0)?, attnum: args.datum(1)?.value() as i16 };
    let sequence = definitions::by_id(SequenceId(args.int8(2)?)).or_raise()?;
    let definition = &sequence.definition;
    if definition.cycle || invalidation::in_progress() {
        return None;
    }
    let before = Reach::of(&sequence);
    // Values beyond the bounds are never served.
    let (direction, bound) = (definition.direction(), definition.last_bound());
    let judge = |value| before.judge(value);
    let search = || stored::search(column, direction, bound, judge).or_raise();
    let (value, failure) = match subtransaction::run(search) {
        Ok(value) => (Some(value?), None),
        // A damaged index or file keeps hilo_check only from this column.
        Err(error) if !subtransaction::is_final(&error) => {
            (None, Some(subtransaction::message(&error)))
        }
        Err(error) => error.rethrow(),
    };
    // Meanwhile sessions may have got the value and inserted it. It is seen to be served now.
    if value.is_some_and(|value| !matches!(Reach::of(&sequence).judge(value), Verdict::Found)) {
        return None;
    }
    // PUBLIC has USAGE of _hilo: anybody can call the function, without the conditions of
    // `_hilo.hilo_finding`.
    let hidden = !values::may_select(column) || values::has_policies(column.relid);
    if hidden && !privileges::reads_all(ffi::current_user()) {
        return None;
    }
    let value = value.filter(|_| !hidden).map(Into::into);
    // SAFETY: the function is declared to return a bigint and a text.
    unsafe { rows.add_some([value, failure.map(|failure| text_datum(failure.as_bytes()))]) };
    None
}

/// How far this node has come with a sequence.
struct Reach {
    mapping: Mapping,
    /// Yet to be served.
    ranges: Vec<Range>,
}

impl Reach {
    fn of(sequence: &Sequence) -> Reach {
        let found = look(sequence, node::id());
        Reach { ranges: found.ranges(), mapping: found.mapping }
    }

    /// Whether `value` is yet to be served, or how to continue the search for one that is.
    fn judge(&self, value: i64) -> Verdict {
        let beyond = self.mapping.first_index_beyond(value);
        // The ranges before this one end with indexes whose values come before `value`, or are it.
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
