//! The slices that this backend holds, and of which sequences.

use std::cell::{Cell, RefCell};
use std::sync::atomic::Ordering::*;

use pgrx::pg_sys;

use crate::backend::Global;
use crate::gucs;
use crate::session::names::Entry;
use crate::session::wait;
use crate::shared::slices::{Slice, my_number};
use crate::shared::{self, Shared};

struct SliceTable {
    slices: &'static [Slice],
    /// The entry that holds each slice, and what was left in the slice when the clock hand last
    /// passed.
    owners: Vec<Option<(&'static Entry, i64)>>,
    hand: usize,
}

static TABLE: Global<RefCell<Option<SliceTable>>> = Global::new(RefCell::new(None));
/// Draws from the pools so far: the clock that tells whether an entry is busy or idle.
static DRAWS: Global<Cell<u64>> = Global::new(Cell::new(0));

/// Registers this backend among the sessions of its database. The worker stays as long as they do.
/// When the server stops, the worker waits until each session has returned its values, and has
/// rolled back a transaction that keeps a row locked. A walsender stays outside: Postgres ends it
/// after all workers, so nobody could wait for it.
pub fn register_session(shared: &'static Shared) {
    let mut table = TABLE.borrow_mut();
    if table.is_some() {
        return;
    }
    let backend = &shared.backends[my_number()];
    let slices = shared.slices_of(my_number());
    *table = Some(SliceTable { slices, owners: vec![None; slices.len()], hand: 0 });
    // SAFETY: both statics are set in a connected backend.
    unsafe {
        backend.pid.store(pg_sys::MyProcPid, Relaxed);
        if !is_walsender() {
            backend.database.store(pg_sys::MyDatabaseId.to_u32(), Release);
        }
    }
}

/// Whether this backend serves a replication connection, over which SQL can be run too.
fn is_walsender() -> bool {
    // SAFETY: a static that is set when the process starts.
    unsafe { pg_sys::am_walsender }
}

/// Takes this backend out of the sessions again, after its slices were returned. Returns the
/// database that it was counted in.
pub fn leave_session(shared: &'static Shared) -> Option<u32> {
    let table = TABLE.borrow_mut().take()?;
    let backend = &shared.backends[my_number()];
    // Orphaned slices stay visible.
    let used = table.slices.iter().rposition(|slice| !slice.is_free()).map_or(0, |last| last + 1);
    backend.used.store(used as u32, Release);
    backend.pid.store(0, Relaxed);
    Some(backend.database.swap(0, AcqRel)).filter(|database| *database != 0)
}

/// Whether this entry draws from the pool so often that a slice pays.
#[inline]
pub fn is_busy(entry: &Entry) -> bool {
    let before = entry.drawn_at.get();
    let draws = DRAWS.get();
    before != 0
        && draws - before < 2 * gucs::max_backend_slices() as u64
        && draws >= entry.slices_from.get()
}

/// Counts a draw from the pool.
#[inline]
pub fn count_draw(entry: &Entry) {
    DRAWS.set(DRAWS.get() + 1);
    entry.drawn_at.set(DRAWS.get());
}

/// Whether the entry has a slice, be it empty or not.
#[inline]
pub fn has_slice(entry: &Entry) -> bool {
    !std::ptr::eq(entry.slice.get(), Slice::empty())
}

/// The entry's slice, or a new one for it; `None` while busier sequences hold all slices. A
/// walsender draws single values: it could return nothing when the server stops.
pub fn slice_of(entry: &'static Entry) -> Option<&'static Slice> {
    if has_slice(entry) {
        return Some(entry.slice.get());
    }
    if is_walsender() {
        return None;
    }
    let at = free_place()?;
    let index_space = entry.index_space()?;
    let mut table = TABLE.borrow_mut();
    let table = table.as_mut()?;
    let backend = &shared::get().ok()?.backends[my_number()];
    table.owners[at] = Some((entry, i64::MAX));
    let slice = &table.slices[at];
    slice.assign(&index_space);
    backend.used.fetch_max(at as u32 + 1, Release);
    entry.slice.set(slice);
    Some(slice)
}

/// A free slice, freed first if necessary by the second-chance algorithm: the hand skips a slice
/// that was used since it last came by.
fn free_place() -> Option<usize> {
    const STEPS: usize = 2;
    let mut victim = None;
    {
        let mut table = TABLE.borrow_mut();
        let table = table.as_mut()?;
        // A slice without an entry may be an orphaned one, with something left in it.
        let free = |at: &usize| table.owners[*at].is_none() && table.slices[*at].is_free();
        if let Some(at) = (0..table.slices.len()).find(free) {
            return Some(at);
        }
        for _ in 0..STEPS {
            let at = table.hand;
            table.hand = (at + 1) % table.slices.len();
            let left = table.slices[at].left.load(Relaxed);
            if let Some((entry, seen)) = &mut table.owners[at] {
                if *seen == left {
                    victim = Some((at, *entry));
                    break;
                }
                *seen = left;
            }
        }
    }
    let (at, entry) = victim?;
    return_slice(entry);
    TABLE.borrow().as_ref()?.slices[at].is_free().then_some(at)
}

/// Returns the rest of this session's slice of a sequence, and gives the slice up. A rest that
/// finds no room in the pool is orphaned where it is.
pub fn return_slice(entry: &'static Entry) {
    let slice = entry.slice.replace(Slice::empty());
    let Ok(shared) = shared::get() else { return };
    {
        let mut table = TABLE.borrow_mut();
        let Some(table) = table.as_mut() else { return };
        let found = table.slices.iter().position(|other| std::ptr::eq(other, slice));
        let Some(at) = found else { return };
        table.owners[at] = None;
    }
    let rest = slice.rest();
    if !rest.is_empty() && slice.index_space().epoch == entry.epoch.get() {
        entry.floor.set(rest.start);
    }
    if shared.return_range(&slice.index_space(), rest) {
        slice.free();
    } else {
        // The worker writes it to the catalog.
        shared.orphan(slice);
        wait::wake(shared);
    }
}

/// Returns the slice because a range does not fit into its rest. Sessions that have served beyond
/// that rest cannot use it. So this session draws without slices for a while, and for twice as long
/// the next time.
pub fn return_for_range(entry: &'static Entry) {
    /// Then it is about a million draws.
    const MAX_RESTS: u32 = 20;
    if !entry.slice.get().rest().is_empty() {
        entry.slices_from.set(DRAWS.get() + (1 << entry.rests.get()));
        entry.rests.set((entry.rests.get() + 1).min(MAX_RESTS));
    }
    return_slice(entry);
}

/// The entries that hold a slice.
pub fn holders() -> Vec<&'static Entry> {
    let table = TABLE.borrow();
    table.iter().flat_map(|table| table.owners.iter().flatten()).map(|(entry, _)| *entry).collect()
}

/// Returns every slice of this backend that `chosen` picks.
pub fn return_slices(chosen: impl Fn(&Entry) -> bool) {
    for entry in holders() {
        if chosen(entry) {
            return_slice(entry);
        }
    }
}
