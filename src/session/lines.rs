//! This backend's lines of slices: which sequences it may hold more than one value of.

use std::cell::{Cell, RefCell};
use std::sync::atomic::Ordering::*;

use pgrx::pg_sys;

use super::memo::Entry;
use super::{Global, draw};
use crate::gucs;
use crate::shared::Shared;
use crate::shared::slices::{Slice, my_number};

/// Never holds anything: where the hot path looks while there is no slice.
struct Empty(Slice);
// SAFETY: atomics.
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

/// Enters this backend among the sessions of its database, so that the worker stays.
pub fn register_session(shared: &'static Shared) {
    let mut lines = LINES.borrow_mut();
    if lines.is_some() {
        return;
    }
    let backend = &shared.backends[my_number()];
    let slices = shared.slices_of(my_number());
    *lines = Some(Lines { slices, owners: vec![None; slices.len()], hand: 0 });
    backend.used.store(0, Relaxed);
    // SAFETY: both are set in a connected backend.
    unsafe {
        backend.pid.store(pg_sys::MyProcPid, Relaxed);
        backend.database.store(pg_sys::MyDatabaseId.to_u32(), Release);
    }
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
    let slot = entry.slot.get()?;
    let mut lines = LINES.borrow_mut();
    let lines = lines.as_mut()?;
    lines.owners[at] = Some((entry, i64::MAX));
    let line = &lines.slices[at];
    slot.holders.fetch_add(1, SeqCst);
    // From here on the slot stays; that it is still ours, the serial tells when something is taken.
    line.free();
    line.slot.store(crate::shared::get().ok()?.number_of(slot) as u32 + 1, Release);
    // SAFETY: set when the session was registered.
    let backend = &crate::shared::get().ok()?.backends[my_number()];
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
        if let Some(at) = lines.owners.iter().position(Option::is_none) {
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
    draw::let_go(entry);
    Some(at)
}

/// The entry's line is free again; what was in it has been given back.
pub fn release(entry: &'static Entry) {
    let line = entry.slice.replace(empty());
    let mut lines = LINES.borrow_mut();
    let Some(lines) = lines.as_mut() else { return };
    if let Some(at) = lines.slices.iter().position(|other| std::ptr::eq(other, line)) {
        lines.owners[at] = None;
        line.free();
        if let Some(slot) = entry.slot.get() {
            slot.holders.fetch_sub(1, SeqCst);
        }
    }
}

/// The entries that hold a line.
pub fn holders() -> Vec<&'static Entry> {
    let lines = LINES.borrow();
    lines.iter().flat_map(|lines| lines.owners.iter().flatten()).map(|(entry, _)| *entry).collect()
}

/// Whether this backend has been entered among the sessions.
pub fn is_registered() -> bool {
    LINES.borrow().is_some()
}
