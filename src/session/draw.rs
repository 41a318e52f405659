//! The next value: from this session's slice, else from the pool, else from the worker.

use std::sync::atomic::Ordering::*;

use hilo_core::cursor::Taken;
use hilo_core::mapping::Mapping;
use hilo_core::numbers::Index;

use crate::catalog::rights::privileges::Privileges;
use crate::errors::HiloError;
use crate::session::names::{CachedName, Entry};
use crate::session::{look_up, pool, slice_table};

/// The value of a hit: the name is good and its slice is not used up, or the cursor has a single
/// value for it. Callers may be outside pgrx's guard. Whatever may fail in here has a guard of its
/// own, and no frame between the two has a destructor.
#[inline(always)]
pub fn hit(cached: &'static CachedName) -> Option<i64> {
    let entry = cached.entry()?;
    if !cached.is_good() || !cached.allows(Privileges::DRAW) {
        return None;
    }
    let value = match entry.slice.get().take(entry.increment()) {
        Some(value) => value,
        None => take_one(entry)?,
    };
    cached.note_value(entry, value);
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
    let taken = slot.cursor().take_exactly(1, entry.serial.get(), |_| true);
    let Taken::Range { range, left } = taken else { return None };
    entry.floor.set(range.start);
    if !terms.ordered {
        entry.grown.set(1);
        slice_table::count_draw(entry);
        slot.taking.slices.fetch_add(1, Relaxed);
    }
    if left + slot.queue_len() < slot.threshold.load(Relaxed) {
        // SAFETY: its guard turns a panic into a Postgres error, which may jump over these frames.
        unsafe { pool::want_block_guarded(slot) };
    }
    terms.mapping.value(range.start).or_else(|| value_beyond(&terms.mapping, range.start))
}

/// The value of an index beyond the bounds that this session knows. They have just been widened:
/// the pool serves nothing beyond the present ones, and each index keeps its value.
#[cold]
fn value_beyond(mapping: &Mapping, index: Index) -> Option<i64> {
    mapping.without_bounds().value(index)
}

/// The next value of a sequence.
///
/// # Errors
/// The errors of [`look_up::look_up`] and of waiting.
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
        let (cached, entry) = look_up::look_up(name, Privileges::DRAW)?;
        if let Some(value) = hit(cached) {
            return Ok((cached, value));
        }
        let supply = entry.supply.get();
        if let Some(value) = supply.draw(cached, entry, count.min(MAX_VALUES))? {
            cached.note_value(entry, value);
            return Ok((cached, value));
        }
    }
}
