//! How the rate of each active sequence has changed over the window, as far as its slot knows.

use hilo_core::numbers::Timestamp;
use hilo_core::rate::Rate;
use pgrx::datum::TimestampWithTimeZone;
use pgrx::prelude::*;

use crate::errors::OrRaise;
use crate::process::ffi;
use crate::process::memory::{self, TryGrow};
use crate::shared;
use crate::sql::call::args::{Args, sql_functions};
use crate::sql::call::stored_rows::StoredRows;
use crate::sql::observe::stat::each_slot;
use crate::sql::observe::visibility::Visible;

sql_functions!(stat_rates);

const SECOND: f64 = 1_000_000.0;

/// `hilo.stat_rates()`: one row for each sequence that has a slot, with the intervals between its
/// samples, oldest first. Each has the begin, the end, and the values per second.
fn stat_rates(args: Args) {
    shared::get().or_raise();
    let sampled = each_slot(|_, locked| {
        Some((locked.key.sequence, locked.rate, ffi::now(), locked.taken_count()))
    });
    let (mut visible, mut rows) = (Visible::of_caller(), StoredRows::begin(args));
    for (id, rate, now, taken) in sampled.into_iter().filter(|(id, ..)| visible.contains(*id)) {
        let history = rate_history(&rate, now, taken);
        let times = |at: usize| {
            let times = history.iter().filter_map(|interval| {
                TimestampWithTimeZone::try_from([interval.0, interval.1][at].0).ok()
            });
            memory::try_collect(times).or_raise().into_datum()
        };
        let rates = memory::try_collect(history.iter().map(|interval| interval.2)).or_raise();
        let row = [Some(id.0.into()), times(0), times(1), rates.into_datum()];
        // SAFETY: the function is declared to return a bigint and three arrays of these types.
        unsafe { rows.add_some(row) };
    }
}

/// The intervals between samples: when each begins and ends, and the values per second in it.
fn rate_history(rate: &Rate, now: Timestamp, taken: i64) -> Vec<(Timestamp, Timestamp, f64)> {
    let mut before: Option<(Timestamp, i64)> = None;
    let mut intervals = Vec::new();
    for (at, taken) in rate.history(now, taken) {
        if let Some((since, taken_before)) = before.filter(|(since, _)| since.0 < at.0) {
            let seconds = at.0.saturating_sub(since.0) as f64 / SECOND;
            let count = taken.saturating_sub(taken_before).max(0) as f64;
            intervals.try_push((since, at, count / seconds)).or_raise();
        }
        before = Some((at, taken));
    }
    intervals
}
