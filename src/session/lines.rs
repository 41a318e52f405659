//! This backend's lines of slices: which sequences it may hold more than one value of.

use std::cell::{Cell, RefCell};
use std::sync::atomic::Ordering::*;

use pgrx::pg_sys;

use hilo_core::mapping::Run;
use hilo_core::range::Range;

use super::Global;
use super::memo::Entry;
use crate::gucs;
use crate::shared::slices::{Counting, Slice, my_number};
use crate::shared::slot::DROPPED;
use crate::shared::{self, Shared};

/// Never holds anything: where the hot path looks while there is no slice.
struct Empty(Slice);
// SAFETY: a slice consists of atomics only.
unsafe impl Sync for Empty {}
static EMPTY: Empty = Empty(Slice::new());

pub fn empty() -> &'static Slice {
    &EMPTY.0
}

struct Lines {
    slices: &'static [Slice],
    /// Who holds each, and what was left in it when the clock hand last passed.
    owners: Vec<Option<(&'static Entry, i64)>>,
    hand: usize,
}

static LINES: Global<RefCell<Option<Lines>>> = Global::new(RefCell::new(None));
/// Draws from the pool so far: the clock by which an entry is found busy or idle.
static DRAWS: Global<Cell<u64>> = Global::new(Cell::new(0));

/// Enters this backend among the sessions of its database: the worker stays, and when the server stops it
/// waits until this one has given back what it holds, and has rolled back what keeps a row locked.
pub fn register_session(shared: &'static Shared) {
    let mut lines = LINES.borrow_mut();
    if lines.is_some() {
        return;
    }
    let backend = &shared.backends[my_number()];
    let slices = shared.slices_of(my_number());
    *lines = Some(Lines { slices, owners: vec![None; slices.len()], hand: 0 });
    // SAFETY: both are set in a connected backend.
    unsafe {
        backend.pid.store(pg_sys::MyProcPid, Relaxed);
        backend.database.store(pg_sys::MyDatabaseId.to_u32(), Release);
    }
}

/// Takes this backend out again; its lines have been let go. The database that it was in.
pub fn leave_session(shared: &'static Shared) -> Option<u32> {
    let lines = LINES.borrow_mut().take()?;
    let backend = &shared.backends[my_number()];
    // What was left behind stays to be seen.
    let used = lines.slices.iter().rposition(|line| !line.is_free()).map_or(0, |last| last + 1);
    backend.used.store(used as u32, Release);
    backend.pid.store(0, Relaxed);
    Some(backend.database.swap(0, AcqRel))
}

/// Whether this entry draws from the pool so often that a slice pays.
#[inline]
pub fn is_busy(entry: &Entry) -> bool {
    let before = entry.drawn_at.get();
    before != 0 && DRAWS.get() - before < 2 * gucs::max_backend_slices() as u64
}

/// Counts a draw from the pool.
#[inline]
pub fn count_draw(entry: &Entry) {
    DRAWS.set(DRAWS.get() + 1);
    entry.drawn_at.set(DRAWS.get());
}

/// Whether the entry has a line, with something in it or not.
#[inline]
pub fn has_line(entry: &Entry) -> bool {
    !std::ptr::eq(entry.slice.get(), empty())
}

/// The entry's line, or a new one for it; `None` while all are held by sequences that are busier.
pub fn line_of(entry: &'static Entry) -> Option<&'static Slice> {
    if has_line(entry) {
        return Some(entry.slice.get());
    }
    let at = free_line()?;
    let counting = entry.counting()?;
    let mut lines = LINES.borrow_mut();
    let lines = lines.as_mut()?;
    let backend = &shared::get().ok()?.backends[my_number()];
    lines.owners[at] = Some((entry, i64::MAX));
    let line = &lines.slices[at];
    line.assign(&counting);
    backend.used.fetch_max(at as u32 + 1, Release);
    entry.slice.set(line);
    Some(line)
}

/// A free line, made free if need be: the hand passes over a line whose slice has been used since it
/// came by last (the second-chance algorithm).
fn free_line() -> Option<usize> {
    const STEPS: usize = 2;
    let mut victim = None;
    {
        let mut lines = LINES.borrow_mut();
        let lines = lines.as_mut()?;
        // A line that nobody owns may still hold what was left behind.
        let free = |at: &usize| lines.owners[*at].is_none() && lines.slices[*at].is_free();
        if let Some(at) = (0..lines.slices.len()).find(free) {
            return Some(at);
        }
        for _ in 0..STEPS {
            let at = lines.hand;
            lines.hand = (at + 1) % lines.slices.len();
            let left = lines.slices[at].left.load(Relaxed);
            if let Some((entry, seen)) = &mut lines.owners[at] {
                if *seen == left {
                    victim = Some((at, *entry));
                    break;
                }
                *seen = left;
            }
        }
    }
    let (at, entry) = victim?;
    let_go(entry);
    LINES.borrow().as_ref()?.slices[at].is_free().then_some(at)
}

/// Gives back what this session holds of a sequence, and its line.
pub fn let_go(entry: &'static Entry) {
    let line = entry.slice.replace(empty());
    let Ok(shared) = shared::get() else { return };
    {
        let mut lines = LINES.borrow_mut();
        let Some(lines) = lines.as_mut() else { return };
        let found = lines.slices.iter().position(|other| std::ptr::eq(other, line));
        let Some(at) = found else { return };
        lines.owners[at] = None;
    }
    let rest = line.rest();
    if !rest.is_empty() && line.counting().epoch == entry.epoch.get() {
        entry.floor.set(rest.start);
    }
    if give_back(shared, &line.counting(), rest) {
        line.free();
    } else {
        leave_behind(shared, line);
    }
}

/// The worker takes to the catalog what has no place in memory.
fn leave_behind(shared: &'static Shared, line: &Slice) {
    shared.orphan(line);
    super::wait::wake(shared);
}

/// Gives back a range that was taken from the pool and cannot be served.
pub fn put_away(entry: &'static Entry, range: Range) {
    let (Some(counting), Ok(shared)) = (entry.counting(), shared::get()) else { return };
    let Some(at) = find_place(shared, &counting, range) else { return };
    let lines = LINES.borrow();
    let Some(line) = lines.as_ref().map(|lines| &lines.slices[at]) else { return };
    line.assign(&counting);
    line.load(range, Run { first: 0, count: range.len() });
    shared.backends[my_number()].used.fetch_max(at as u32 + 1, Release);
    leave_behind(shared, line);
}

/// A free line for a range that the pool has no place for; `None` once it has.
fn find_place(shared: &'static Shared, counting: &Counting, range: Range) -> Option<usize> {
    const TRIES: u32 = 5_000;
    for _ in 0..TRIES {
        if give_back(shared, counting, range) {
            return None;
        }
        if let Some(at) = free_line() {
            return Some(at);
        }
        // All lines were left behind: the worker frees them.
        super::wait::wake(shared);
        // SAFETY: it only sleeps, and no lock is held meanwhile.
        unsafe { pg_sys::pg_usleep(1_000) };
    }
    None
}

/// Puts a range back into its sequence's pool. `false`: there is no place for it; or, where it is empty,
/// the catalog has to be told that all was served.
pub fn give_back(shared: &'static Shared, counting: &Counting, rest: Range) -> bool {
    let Some(slot) = shared.find(&counting.key) else { return false };
    let number = shared.number_of(slot);
    let mut locked = shared.lock_slot(number);
    let kept = if locked.counts(counting) {
        rest.is_empty() || locked.give_back(rest)
    } else {
        // Under a later epoch it is worthless, which whoever has raised that has written down.
        let void = locked.epoch == DROPPED
            || (locked.node == counting.node && locked.epoch > counting.epoch);
        if void {
            locked.discard(rest);
        }
        void
    };
    let crowded = locked.pool.returned().is_crowded();
    drop(locked);
    slot.pins.fetch_sub(1, SeqCst);
    if crowded && shared.want(number) {
        shared.nudge(counting.key.database);
    }
    kept
}

/// The entries that hold a line.
pub fn holders() -> Vec<&'static Entry> {
    let lines = LINES.borrow();
    lines.iter().flat_map(|lines| lines.owners.iter().flatten()).map(|(entry, _)| *entry).collect()
}

/// Lets go of every slice of this backend that `chosen` picks.
pub fn let_go_where(chosen: impl Fn(&Entry) -> bool) {
    for entry in holders() {
        if chosen(entry) {
            let_go(entry);
        }
    }
}
