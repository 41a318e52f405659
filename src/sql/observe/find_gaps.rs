//! `hilo_find_gaps`: the values of a sequence that a column lacks, and why.

use std::ffi::CStr;

use pgrx::pg_sys::panic::ErrorReport;
use pgrx::prelude::*;

use hilo_core::direction::Direction;
use hilo_core::numberings::{Numbering, examined, numberings};
use hilo_core::range::Range;

use crate::errors::{HiloError, OrRaise};
use crate::process::memory::{self, TryGrow};
use crate::sql::call::border::Call;
use crate::sql::call::stored_rows::{Rows, row};
use crate::sql::column::values::{self, Use, Values};
use crate::sql::observe::gap_reason::{Reason, UNKNOWN, known};
use crate::sql::types::sequence_type::SequenceName;

row! {
    struct Lacking {
        first: i64,
        last: i64,
        count: i64,
        reason: &'static str,
    }
}

/// `hilo_find_gaps(name, relation, column_name)`
#[pg_extern(sql = false)]
fn hilo_find_gaps(
    call: Call,
    name: SequenceName,
    relation: pg_sys::Oid,
    column_name: &CStr,
) -> Result<Rows<Lacking>, ErrorReport> {
    let (present, known) = known(name)?;
    let values = Values::by_select(values::find_column(relation, column_name, Use::Search)?)?;
    memory::check_available(known.len() << 10)?;
    let numberings = numberings(&present, &known, UNKNOWN);
    let (mut rows, mut other_steps) = (Rows::begin(call), Vec::new());
    for numbering in &numberings {
        each_absent(&values, numbering, |range| {
            for (part, (_, reason)) in examined(&numberings, numbering, range) {
                let mut place = part.start;
                for run in numbering.mapping.runs(part) {
                    let (first, count) = (run.first, run.count);
                    let last = run.last(numbering.mapping.increment);
                    let row = Lacking { first, last, count, reason };
                    match numbering.turn {
                        0 => rows.add(row),
                        turn => {
                            let at = (turn, place, numbering.mapping.base);
                            other_steps.try_push((at, row)).or_raise();
                        }
                    }
                    place += count;
                }
            }
        })?;
    }
    other_steps.sort_unstable_by_key(|(at, _)| *at);
    other_steps.into_iter().for_each(|(_, row)| rows.add(row));
    Ok(rows)
}

/// Visits the ranges of places, up to the last segment, whose values the column lacks.
fn each_absent(
    values: &Values,
    numbering: &Numbering<Reason>,
    mut visit: impl FnMut(Range),
) -> Result<(), HiloError> {
    let mapping = &numbering.mapping;
    let Range { start: mut first, end } = numbering.places();
    let (Some(one), Some(other)) = (mapping.value(first), mapping.value(end - 1)) else {
        return Ok(());
    };
    let mut add = |range: Range| {
        check_for_interrupts!();
        if !range.is_empty() {
            visit(range);
        }
    };
    let (ends, direction) =
        ((one.min(other), one.max(other)), Direction::from_increment(mapping.increment));
    values.in_order(ends, direction, |value| {
        if let Some(place) = mapping.index_of(value) {
            add(Range::new(first, place));
            first = first.max(place.next());
        }
    })?;
    add(Range::new(first, end));
    Ok(())
}
