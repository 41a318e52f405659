//! The pool of a slot: how this session takes slices, single values and consecutive indexes from
//! it, and asks the worker for more.

use std::sync::atomic::Ordering::*;

use hilo_core::cursor::Taken;
use hilo_core::fit::Fit;
use hilo_core::numbers::Index;
use hilo_core::range::Range;
use hilo_core::slice::next_slice;

use crate::errors::HiloError;
use crate::gucs;
use crate::session::names::{CachedName, Entry};
use crate::session::{slice_table, wait};
use crate::shared;
use crate::shared::slices::Slice;
use crate::shared::slot::{Locked, Slot, Terms};

/// Takes a slice, of at least `least` values if that many are available at once, and serves its
/// first value. `None`: the caller tries again, because the cached name must be renewed or there
/// are values to take now.
pub fn draw(
    cached: &'static CachedName,
    entry: &'static Entry,
    slot: &'static Slot,
    least: i64,
) -> Result<Option<i64>, HiloError> {
    if next_run(entry) {
        return Ok(entry.slice.get().take(entry.increment()));
    }
    if !entry.slice.get().rest().is_empty() {
        // The bounds have just changed, and end before the slice does.
        slice_table::return_slice(entry);
    }
    let single = entry.terms.get().ordered || !cached.is_good();
    let want = if single { 1 } else { size(entry, slot).max(least) };
    let slice = if want > 1 { slice_table::slice_of(entry) } else { None };
    match take_into(entry, slot, slice, want) {
        Taken::Range { range, .. } => {
            if !entry.terms.get().ordered {
                slot.taking.slices.fetch_add(1, Relaxed);
            }
            return Ok(match slice {
                Some(slice) => slice.take(entry.increment()),
                None => entry.mapping().value(range.start),
            });
        }
        // The values lie beyond the bounds that this transaction has set and not committed.
        Taken::Unfit if slot.version.load(SeqCst) == cached.version() => {
            return Err(HiloError::exhaustion(cached.name(), &entry.mapping()));
        }
        // The bounds have just changed, and this session has not learned of it yet.
        Taken::Unfit => cached.forget(),
        Taken::Empty | Taken::OtherSerial(_) => match wait::Pin::for_name(slot, cached) {
            Some(_pin) => {
                let (serial, floor) = (entry.serial.get(), floor(entry));
                wait::for_block(shared::get()?, slot, serial, floor, &cached.name())?
            }
            None => cached.forget(),
        },
    }
    Ok(None)
}

/// Takes up to `want` indexes into `slice`, or a single one if there is no slice.
fn take_into(
    entry: &Entry,
    slot: &'static Slot,
    slice: Option<&'static Slice>,
    want: i64,
) -> Taken {
    let taken = match slice {
        None => take(entry, slot, 1),
        Some(slice) => {
            slice.begin_take();
            let taken = take(entry, slot, want);
            if let Taken::Range { range, .. } = taken {
                let filled = fill(entry, slice, range);
                debug_assert!(filled);
            }
            slice.end_take();
            taken
        }
    };
    if matches!(taken, Taken::Range { .. }) && slot.is_low() {
        want_block(slot);
    }
    taken
}

/// Moves the slice on to the next run of its range, if there is one.
fn next_run(entry: &Entry) -> bool {
    let slice = entry.slice.get();
    let rest = slice.rest();
    if rest.is_empty() || !slice_table::has_slice(entry) {
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

/// Takes from the returned ranges, else from the cursor. A range stays where it is if its first
/// value lies beyond the bounds that this session knows. There may be no way back for it.
fn take(entry: &Entry, slot: &'static Slot, want: i64) -> Taken {
    let mapping = entry.mapping();
    let fits = |range: Range| mapping.value(range.start).is_some();
    let mut taken = Taken::Empty;
    if slot.has_returned() && !entry.terms.get().ordered {
        taken = take_returned(entry, slot, want, fits);
    }
    if taken == Taken::Empty {
        taken = slot.cursor().take(want, entry.serial.get(), fits);
    }
    if let Taken::Range { range, .. } = taken {
        entry.floor.set(range.start);
    }
    taken
}

/// The smallest index that this session may get: it lies beyond all that the session was served,
/// and within the bounds that the session knows.
fn floor(entry: &Entry) -> Index {
    entry.floor.get().max(entry.mapping().indexes().start)
}

fn take_returned(
    entry: &Entry,
    slot: &'static Slot,
    want: i64,
    fits: impl FnOnce(Range) -> bool,
) -> Taken {
    let Ok(shared) = shared::get() else { return Taken::Empty };
    let mut locked = shared.lock_slot(shared.number_of(slot));
    match locked.serial() == entry.serial.get() {
        true => locked.pool.take_returned(want, floor(entry), fits),
        false => Taken::OtherSerial(locked.serial()),
    }
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
pub(super) unsafe extern "C-unwind" fn want_block_guarded(slot: &'static Slot) {
    want_block(slot);
}

/// The first of `count` values from this session's slice if they fit there. Otherwise they come
/// straight from the pool, so that nothing of a slice is left over. Handles the usual case only.
pub fn take_at_once(
    cached: &'static CachedName,
    entry: &'static Entry,
    slot: &'static Slot,
    count: i64,
) -> Option<i64> {
    let mapping = entry.mapping();
    if !cached.is_good() || entry.terms.get().ordered {
        return None;
    }
    if let Some(first) = entry.slice.get().take_many(count, mapping.increment) {
        return Some(first);
    }
    if mapping.cycle || mapping.stripes.nodes > 1 {
        return None;
    }
    slice_table::return_for_range(entry);
    let mut first = None;
    let fits = |range: Range| {
        first = mapping.run(range).filter(|run| run.count == count).map(|run| run.first);
        first.is_some()
    };
    let taken = slot.cursor().take_exactly(count, entry.serial.get(), fits);
    let Taken::Range { range, .. } = taken else { return None };
    entry.floor.set(range.end);
    if slot.is_low() {
        want_block(slot);
    }
    first
}

/// The result of a claim.
pub enum Claim {
    Here(Range),
    /// The entry is out of date.
    Outdated,
    /// Something is left, but it does not fit.
    Never,
    /// Nothing is left.
    Exhausted,
}

/// Claims from the pool, and waits for more if something that fits can still come.
pub fn claim(
    cached: &'static CachedName,
    entry: &'static Entry,
    slot: &'static Slot,
    fit: &mut impl FnMut(&Terms, Range) -> Fit<Range>,
) -> Result<Claim, HiloError> {
    // The slice of this session lies before the range, and is returned for the other sessions.
    slice_table::return_for_range(entry);
    let shared = shared::get()?;
    let Some(_pin) = wait::Pin::for_name(slot, cached) else { return Ok(Claim::Outdated) };
    let mut floor = floor(entry);
    let ready = |locked: &mut Locked| try_claim(locked, entry, &mut floor, fit);
    wait::until(shared, slot, &cached.name(), ready)
}

/// `None`: the caller waits for more.
fn try_claim(
    locked: &mut Locked,
    entry: &Entry,
    floor: &mut Index,
    fit: &mut impl FnMut(&Terms, Range) -> Fit<Range>,
) -> Option<Claim> {
    if locked.serial() != entry.serial.get() || locked.terms().is_none() {
        return Some(Claim::Outdated);
    }
    let terms = entry.terms.get();
    let mut missing = None;
    let mut impossible = false;
    let mut any = false;
    let claimed = locked.claim(|run| {
        any = true;
        match fit(&terms, run) {
            Fit::Here(range) => return Some(range),
            // Only the last run can grow.
            Fit::Needs(end) => missing = Some(end - run.end),
            Fit::Never => impossible = true,
        }
        None
    });
    if let Some(range) = claimed {
        return Some(Claim::Here(range));
    }
    if impossible || locked.is_at_end() {
        // Nothing more comes in order. Only returned ranges are left, and of these only what is not
        // below the values that this session was served. The worker reloads a few at a time of
        // those in the catalog.
        let mut seen = *floor;
        let fits = |run: Range| {
            seen = seen.max(run.end);
            match fit(&terms, run) {
                Fit::Here(range) => Some(range),
                _ => None,
            }
        };
        let returned = (!terms.ordered).then(|| locked.pool.claim_returned(*floor, fits)).flatten();
        if let Some(range) = returned {
            return Some(Claim::Here(range));
        }
        *floor = seen;
        if impossible || locked.is_exhausted(seen) {
            return Some(if any { Claim::Never } else { Claim::Exhausted });
        }
        locked.slot.want_from(seen);
        return None;
    }
    let more = if any { missing.unwrap_or(1) } else { 1 };
    let wanted = locked.available().saturating_add(more.max(1));
    locked.slot.demand.fetch_max(wanted, AcqRel);
    None
}
