//! The next value: from this session's slice, else from the pool, else from the worker.

use std::sync::atomic::Ordering::*;

use hilo_core::cursor::Taken;
use hilo_core::numbers::Index;
use hilo_core::range::Range;
use hilo_core::slice::next_slice;

use crate::catalog::rights::privileges::Privileges;
use crate::errors::HiloError;
use crate::gucs;
use crate::session::memo::{CachedName, Entry, Source};
use crate::session::{gapless, look_up, slice_table, uncommitted, wait};
use crate::shared;
use crate::shared::slices::Slice;
use crate::shared::slot::Slot;

/// The value of a hit: the memo is good and its slice is not used up, or the cursor has a single
/// value for it. Callers may be outside pgrx's guard. Whatever may fail in here has a guard of its
/// own, and no frame between the two has a destructor.
#[inline(always)]
pub fn hit(memo: &'static CachedName) -> Option<i64> {
    let entry = memo.entry()?;
    if !memo.is_good() || !memo.allows(Privileges::DRAW) {
        return None;
    }
    let value = match entry.slice.get().take(entry.increment()) {
        Some(value) => value,
        None => take_one(entry)?,
    };
    memo.note_value(entry, value);
    Some(value)
}

/// Takes one value straight from the pool, for an ordered sequence or one that this session draws
/// from too seldom to hold a slice. Handles the usual case only.
#[inline(always)]
fn take_one(entry: &'static Entry) -> Option<i64> {
    // SAFETY: the terms are in a `Cell` of this thread, and nothing below sets them.
    let terms = unsafe { &*entry.terms.as_ptr() };
    let slot = entry.slot()?;
    if !terms.ordered
        && (slice_table::has_slice(entry) || slice_table::is_busy(entry) || slot.has_returned())
    {
        return None;
    }
    let Taken::Range { range, left } = slot.cursor().take_exactly(1, entry.serial.get()) else {
        return None;
    };
    entry.floor.set(range.start);
    if !terms.ordered {
        entry.grown.set(1);
        slice_table::count_draw(entry);
        slot.taking.slices.fetch_add(1, Relaxed);
    }
    if left + slot.queue_len() < slot.threshold.load(Relaxed) {
        // SAFETY: its guard turns a panic into a Postgres error, which may jump over these frames.
        unsafe { want_block_guarded(slot) };
    }
    let value = terms.mapping.value(range.start);
    if value.is_none() {
        // The bounds have just changed, and this session has not learned of it yet.
        // SAFETY: as for `want_block_guarded`.
        unsafe { put_away(entry, range.start) };
    }
    value
}

#[pgrx::pg_guard]
#[cold]
unsafe extern "C-unwind" fn put_away(entry: &'static Entry, index: Index) {
    slice_table::return_range(entry, Range::of(index, 1));
}

/// The next value of a sequence.
///
/// # Errors
/// The errors of [`look_up::look_up`] and [`wait::for_block`].
#[cold]
pub fn next(name: &[u8]) -> Result<(&'static CachedName, i64), HiloError> {
    next_of_many(name, 1)
}

/// The next value, when `count` values will be drawn one after the other.
///
/// # Errors
/// The errors of [`next`].
#[cold]
pub fn next_of_many(name: &[u8], count: i64) -> Result<(&'static CachedName, i64), HiloError> {
    /// The most values that a slice takes for such a caller.
    const MAX_VALUES: i64 = 65_536;
    loop {
        pgrx::check_for_interrupts!();
        let (memo, entry) = look_up::look_up(name, Privileges::DRAW)?;
        if let Some(value) = hit(memo) {
            return Ok((memo, value));
        }
        if let Some(value) = draw(memo, entry, count.min(MAX_VALUES))? {
            memo.note_value(entry, value);
            return Ok((memo, value));
        }
    }
}

/// Takes a slice, of at least `least` values if that many are available at once, and serves its
/// first value. `None`: the caller tries again, because the memo must be renewed or there are
/// values to take now.
pub fn draw(
    memo: &'static CachedName,
    entry: &'static Entry,
    least: i64,
) -> Result<Option<i64>, HiloError> {
    if next_run(entry) {
        return Ok(entry.slice.get().take(entry.increment()));
    }
    match entry.source.get() {
        Source::Gapless => gapless::more(memo, entry),
        Source::Own => uncommitted::next(memo, entry),
        Source::Pool(slot) => from_pool(memo, entry, slot, least),
    }
}

fn from_pool(
    memo: &'static CachedName,
    entry: &'static Entry,
    slot: &'static Slot,
    least: i64,
) -> Result<Option<i64>, HiloError> {
    if !entry.slice.get().rest().is_empty() {
        // The bounds have just changed, and end before the slice does.
        slice_table::return_slice(entry);
    }
    let single = entry.terms.get().ordered || !memo.is_good();
    let want = if single { 1 } else { size(entry, slot).max(least) };
    let slice = if want > 1 { slice_table::slice_of(entry) } else { None };
    let Some(range) = take_into(entry, slot, slice, want) else {
        match wait::Pin::of(slot, memo) {
            Some(_pin) => {
                let (serial, floor) = (entry.serial.get(), entry.floor.get());
                wait::for_block(shared::get()?, slot, serial, floor, &memo.name())?
            }
            None => memo.forget(),
        }
        return Ok(None);
    };
    if !entry.terms.get().ordered {
        slot.taking.slices.fetch_add(1, Relaxed);
    }
    if let Some(slice) = slice {
        return Ok(slice.take(entry.increment()));
    }
    let value = entry.mapping().value(range.start);
    if value.is_none() {
        // The value lies beyond the bounds that this transaction has set and not committed.
        slice_table::return_range(entry, range);
        if slot.version.load(SeqCst) != memo.version() {
            memo.forget();
            return Ok(None);
        }
        return Err(HiloError::exhaustion(memo.name(), &entry.mapping()));
    }
    Ok(value)
}

/// Takes up to `want` indexes into `slice`, or a single one if there is no slice. A range that the
/// slice cannot serve is returned.
fn take_into(
    entry: &'static Entry,
    slot: &'static Slot,
    slice: Option<&'static Slice>,
    want: i64,
) -> Option<Range> {
    let (taken, fits) = match slice {
        None => (take(entry, slot, 1), true),
        Some(slice) => {
            slice.begin_take();
            let taken = take(entry, slot, want);
            let fits = taken.is_some_and(|range| fill(entry, slice, range));
            slice.end_take();
            (taken, fits)
        }
    };
    if taken.is_some() && slot.is_low() {
        want_block(slot);
    }
    match taken {
        Some(range) if !fits => {
            slice_table::return_range(entry, range);
            None
        }
        taken => taken,
    }
}

/// Moves the slice on to the next run of its range, if there is one.
fn next_run(entry: &Entry) -> bool {
    let slice = entry.slice.get();
    let rest = slice.rest();
    if rest.is_empty() || entry.slot().is_none() || !slice_table::has_slice(entry) {
        return false;
    }
    slice.begin_take();
    let filled = fill(entry, slice, rest);
    slice.end_take();
    filled
}

fn fill(entry: &Entry, slice: &Slice, range: Range) -> bool {
    let run = entry.mapping().run(range);
    if let Some(run) = run {
        slice.load(range, run);
    }
    run.is_some()
}

/// How many values to take: twice as many as last time, up to the limit. But no more than a quarter
/// of what the pool has for all sessions.
fn size(entry: &Entry, slot: &Slot) -> i64 {
    let terms = entry.terms.get();
    let busy = slice_table::is_busy(entry);
    slice_table::count_draw(entry);
    let most = if terms.slice_size > 0 { terms.slice_size } else { gucs::max_slice_size() };
    let grown = if busy { next_slice(entry.grown.get(), most) } else { 1 };
    entry.grown.set(grown);
    if grown == 1 {
        return 1;
    }
    let there = slot.cursor().peek().0.len() + slot.queue_len();
    (grown as i64).min(there / 4).max(1)
}

/// Takes from the returned ranges, else from the cursor.
fn take(entry: &Entry, slot: &'static Slot, want: i64) -> Option<Range> {
    if slot.has_returned() && !entry.terms.get().ordered {
        let taken = take_returned(entry, slot, want);
        if taken.is_some() {
            return taken;
        }
    }
    match slot.cursor().take(want, entry.serial.get()) {
        Taken::Range { range, .. } => {
            entry.floor.set(range.start);
            Some(range)
        }
        Taken::Empty | Taken::OtherSerial(_) => None,
    }
}

fn take_returned(entry: &Entry, slot: &'static Slot, want: i64) -> Option<Range> {
    let shared = shared::get().ok()?;
    let mut locked = shared.lock_slot(shared.number_of(slot));
    if locked.serial() != entry.serial.get() {
        return None;
    }
    let range = locked.pool.take_returned(want, entry.floor.get())?;
    entry.floor.set(range.start);
    Some(range)
}

/// Tells the worker that a slot is running low.
#[cold]
pub(super) fn want_block(slot: &'static Slot) {
    if let Ok(shared) = shared::get()
        && shared.wanted.set(shared.number_of(slot))
    {
        wait::wake(shared);
    }
}

#[pgrx::pg_guard]
#[cold]
unsafe extern "C-unwind" fn want_block_guarded(slot: &'static Slot) {
    want_block(slot);
}
