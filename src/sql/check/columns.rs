//! `hilo.unserved_values`: what a column holds of the values that its sequence is yet to serve.

use pgrx::pg_sys::panic::CaughtError;
use pgrx::prelude::PgSqlErrorCode;

use hilo_core::mapping::Mapping;
use hilo_core::numbers::SequenceId;
use hilo_core::range::Range;

use crate::advice;
use crate::catalog::column_ref::ColumnRef;
use crate::catalog::column_values::Verdict;
use crate::catalog::definitions::{self, Sequence};
use crate::catalog::positions::{self, Position};
use crate::catalog::stored;
use crate::catalog::table::text_datum;
use crate::catalog::{node, privileges};
use crate::errors::{HiloError, OrRaise};
use crate::process::ffi;
use crate::process::memory::TryGrow;
use crate::process::subtransaction;
use crate::session::invalidation;
use crate::sql::call::args::{Args, sql_functions};
use crate::sql::call::spi;
use crate::sql::call::stored_rows::StoredRows;
use crate::sql::call::values;
use crate::sql::define::unserved::look;

sql_functions!(hilo_unserved_values);

/// `hilo.unserved_values(relation, number, sequence)`: the furthest value that a column holds and
/// this node is yet to serve. Then that of the first other node, of those whose positions
/// replication brings. Checks that only if an index shows it at once. It never waits for a lock,
/// and never runs anything that a user has put into an index.
fn hilo_unserved_values(args: Args) -> Option<()> {
    let mut rows = StoredRows::begin(args);
    let column = ColumnRef { relid: args.oid(0)?, attnum: args.datum(1)?.value() as i16 };
    let sequence = definitions::by_id(SequenceId(args.int8(2)?)).or_raise()?;
    if sequence.definition.cycle || invalidation::in_progress() {
        return None;
    }
    let here = node::id();
    let text = |text: String| text_datum(text.as_bytes());
    let look = || Reach::all(&sequence, here).or_raise();
    for before in look() {
        let Position { node, nodes, .. } = before.position;
        let (value, failure) = match before.search(&sequence, column) {
            Ok(None) => continue,
            // Meanwhile sessions may have got values and inserted them. These are seen to be served
            // now.
            Ok(Some(value)) if !look().iter().any(|after| after.is_later(&before, value)) => {
                continue;
            }
            Ok(value) => (value, None),
            // A fault is reported where this node's own values are looked for.
            Err(_) if node != here => continue,
            Err(error) => (None, Some(unreadable(*error))),
        };
        // In schema hilo the users of the extension can call the function themselves, without the
        // conditions of `hilo.finding`.
        let hidden = !values::may_select(column) || values::has_policies(column.relid);
        if hidden && !privileges::reads_all(ffi::current_user()) {
            return None;
        }
        let value = value.filter(|_| !hidden);
        let pass = |value| text(advice::pass(&sequence.name.to_string(), value));
        let advice = value.filter(|_| nodes > 1).map(pass);
        let of_other = (node != here).then_some(node.into());
        // SAFETY: the function is declared to return an integer, a bigint and two texts.
        unsafe { rows.add_some([of_other, value.map(Into::into), failure.map(text), advice]) };
        if node != here {
            return None;
        }
    }
    None
}

/// How far a node has come with a sequence.
struct Reach {
    position: Position,
    mapping: Mapping,
    /// Yet to be served.
    ranges: Vec<Range>,
}

impl Reach {
    /// This node, and the others whose positions replication has brought, if they number the
    /// sequence as this one.
    fn all(sequence: &Sequence, here: i32) -> Result<Vec<Reach>, HiloError> {
        let own = look(sequence, here);
        let (ranges, position) = (own.ranges(), own.position);
        let mut all = vec![Reach { mapping: own.mapping, position, ranges }];
        for position in positions::of_other_nodes(sequence.id, here)? {
            if position.is_replicated() && position.numbering() == all[0].position.numbering() {
                let mapping = position.mapping(&sequence.definition);
                let ranges = vec![Range::new(position.next_index, mapping.limit())];
                all.try_push(Reach { position, mapping, ranges })?;
            }
        }
        // While tables are being copied, one may be ahead of another.
        let copying = "SELECT 1 FROM pg_subscription_rel WHERE srsubstate <> 'r' LIMIT 1";
        if all.len() > 1 && !spi::look_up(copying, |_| ()).is_empty() {
            all.truncate(1);
        }
        Ok(all)
    }

    fn search(
        &self,
        Sequence { definition, .. }: &Sequence,
        column: ColumnRef,
    ) -> Result<Option<i64>, Box<CaughtError>> {
        // Values beyond the bounds are never served.
        let (direction, bound) = (definition.direction(), definition.last_bound());
        subtransaction::run(|| {
            stored::search(column, direction, bound, |value| self.judge(value)).or_raise()
        })
    }

    /// Whether this is what became of another look, and `value` is yet to be served.
    fn is_later(&self, before: &Reach, value: i64) -> bool {
        let known = |of: &Reach| (of.position.node, of.position.numbering(), of.position.epoch);
        known(self) == known(before) && matches!(self.judge(value), Verdict::Found)
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

/// A damaged index or file keeps hilo_check only from this column. A cancellation ends hilo_check,
/// and so does an error of the session rather than of the table.
fn unreadable(error: CaughtError) -> String {
    use PgSqlErrorCode::*;
    match &error {
        CaughtError::PostgresError(report)
            if matches!(
                report.sql_error_code(),
                ERRCODE_DATA_CORRUPTED
                    | ERRCODE_INDEX_CORRUPTED
                    | ERRCODE_IO_ERROR
                    | ERRCODE_UNDEFINED_FILE
            ) =>
        {
            report.message().to_string()
        }
        _ => error.rethrow(),
    }
}
