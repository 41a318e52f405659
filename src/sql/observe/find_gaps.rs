//! `hilo_find_gaps`: the values of a sequence that a column lacks, and why.

use std::ffi::CStr;

use pgrx::pg_sys::panic::ErrorReport;
use pgrx::prelude::*;

use hilo_core::direction::Direction;
use hilo_core::numberings::{Known, MOST_SINGLE_PLACES, Part, Present, numberings, parts};
use hilo_core::range::Range;

use crate::errors::HiloError;
use crate::process::memory;
use crate::process::scratch::Scratch;
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
    memory::check_available(memory_of(&present, &known))?;
    let numberings = numberings(&present, &known, UNKNOWN);
    let mut rows = Rows::begin(call);
    // A query or a scan leaves something of each part.
    let mut scratch = Scratch::new("hilo find gaps");
    for part in parts(&numberings) {
        // SAFETY: the rows are in memory of their own, and nothing else is kept of a part.
        unsafe { scratch.round(|| add_lacking(&mut rows, &values, &part)) }?;
    }
    Ok(rows)
}

/// How many bytes the numberings of these values take at most.
fn memory_of(present: &Present, known: &[Known<Reason>]) -> usize {
    const OF_ONE: usize = 1 << 10;
    const OF_PLACE: usize = 1 << 8;
    let places = |one: &Known<Reason>| match one.step == present.mapping.increment {
        true => 0,
        false => one.count.min(MOST_SINGLE_PLACES) as usize,
    };
    known.iter().map(|one| OF_ONE + OF_PLACE * places(one)).sum()
}

/// Adds the values of a part that the column lacks.
fn add_lacking(
    rows: &mut Rows<Lacking>,
    values: &Values,
    part: &Part<'_, Reason>,
) -> Result<(), HiloError> {
    each_absent(values, part, |absent| {
        for (range, (_, reason)) in part.examined(absent) {
            check_for_interrupts!();
            for run in part.mapping.runs(range) {
                let (first, count) = (run.first, run.count);
                rows.add(Lacking { first, last: run.last(part.mapping.increment), count, reason });
            }
        }
    })
}

/// Visits the ranges of places of a part whose values the column lacks.
fn each_absent(
    values: &Values,
    part: &Part<'_, Reason>,
    mut visit: impl FnMut(Range),
) -> Result<(), HiloError> {
    let mapping = &part.mapping;
    let Range { start: mut first, end } = part.places;
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
