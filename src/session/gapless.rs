//! Draws from a gapless sequence. The first draw of a transaction locks the sequence's position
//! until the transaction ends. From then on the transaction counts in its own memory, and writes
//! how far it came just before it commits or prepares.
//!
//! A rolled-back savepoint takes its values back: before a level of nesting draws for the first
//! time, the count is saved (`hilo_core::nested`). To notice that first draw, each level begins
//! with empty slices. If the lock was taken within the savepoint, Postgres releases it too, and the
//! next draw locks and reads again.
//!
//! currval and lastval follow: after a rollback they are what they were before, because the value
//! may be another transaction's by then.

use std::cell::{Cell, RefCell};

use pgrx::pg_sys;

use hilo_core::nested::Nested;
use hilo_core::numbers::{Epoch, Index, SequenceId};
use hilo_core::range::Range;

use crate::backend::{Global, forget_names};
use crate::catalog::rows::table;
use crate::catalog::sequence::definitions::{self, Sequence};
use crate::catalog::sequence::gapless::{self, Counter, Locked};
use crate::catalog::sequence::positions::Position;
use crate::errors::HiloError;
use crate::gucs;
use crate::process::memory::TryGrow;
use crate::process::subtransaction;
use crate::session::names::{CachedName, Entry, Last, Own, Supply};
use crate::session::{CLOSING, slice_table};
use crate::shared;
use crate::shared::slices::Slice;
use crate::shared::slot::Terms;

/// How far this transaction has counted a sequence.
#[derive(Clone, Copy)]
struct Count {
    counter: Counter,
    next: Index,
    terms: Terms,
}

/// The state of a sequence that this transaction has drawn from.
#[derive(Clone, Copy)]
struct Counted {
    entry: &'static Entry,
    /// `None`: the transaction has renumbered the sequence since, so the row must be read again.
    count: Option<Count>,
    /// The currval and lastval before the transaction drew, and those when this was saved.
    first: Last,
    last: Last,
}

struct Counters {
    held: Nested<SequenceId, Counted>,
    /// The entries whose slices may be filled: their draws are hits.
    filled: Vec<&'static Entry>,
}

static STATE: Global<RefCell<Counters>> =
    Global::new(RefCell::new(Counters { held: Nested::empty(), filled: Vec::new() }));
/// Whether this transaction has drawn from a gapless sequence.
static ACTIVE: Global<Cell<bool>> = Global::new(Cell::new(false));

fn with<T>(work: impl FnOnce(&mut Counters) -> T) -> T {
    work(&mut STATE.borrow_mut())
}

impl Counters {
    /// Empties the slices, and notes how far each was served.
    fn empty(&mut self) {
        while let Some(entry) = self.filled.pop() {
            self.empty_one(entry);
        }
    }

    fn empty_one(&mut self, entry: &Entry) {
        if !entry.has_own_slice() {
            return;
        }
        let slice = entry.slice.replace(Slice::empty());
        if let Some(Counted { count: Some(count), .. }) = self.held.get_mut(&entry.id) {
            count.next = slice.rest().start;
        }
    }

    /// Notes that an entry's slice is about to be filled.
    fn fills(&mut self, entry: &'static Entry) -> Result<(), HiloError> {
        /// An entry can be noted several times.
        const MAX_FILLED: usize = 4096;
        if self.filled.len() >= MAX_FILLED {
            self.empty();
        }
        self.filled.try_push(entry)
    }

    /// The count of a sequence, saved so that a rollback of `level` restores it.
    fn save(&mut self, entry: &'static Entry, level: i32) -> Result<Option<Count>, HiloError> {
        let Some(held) = self.held.get_mut(&entry.id) else { return Ok(None) };
        let count = held.count;
        if !self.held.is_saved(level, &entry.id) {
            let held = Counted { entry, count, ..*self.held.get(&entry.id).expect("just found") };
            self.set(level, Counted { last: Last::for_entry(entry), ..held })?;
        }
        Ok(count)
    }

    fn set(&mut self, level: i32, held: Counted) -> Result<(), HiloError> {
        let id = held.entry.id;
        if let Some(known) = self.held.get_mut(&id) {
            known.last = held.last;
        }
        self.held.set(level, id, held).map_err(|_| HiloError::OutOfMemory)
    }
}

/// Attaches an entry to a sequence that is gapless: nothing of it is in shared memory.
pub fn attach(entry: &'static Entry, sequence: &Sequence) {
    if !entry.has_own_slice() {
        slice_table::return_slice(entry);
        // Where the numbering begins is read when the position is locked.
        entry.terms.set(Position::first(sequence, 0).terms(sequence));
    }
    entry.supply.set(Supply::Own(Own::Gapless));
    entry.epoch.set(Epoch::default());
}

/// The indexes that are left for this transaction, which has locked the sequence's position.
/// `None`: the memo is out of date.
///
/// # Errors
/// 25006 in a read-only transaction; `GaplessInParallelMode` for the first draw; 55P03, 57014 and
/// 40P01 if the wait for another transaction ends without the lock; `NoPosition`.
pub fn rest(cached: &CachedName, entry: &'static Entry) -> Result<Option<Range>, HiloError> {
    // SAFETY: raises an error or does nothing; the name is a C string.
    unsafe { pg_sys::PreventCommandIfReadOnly(c"hilo_nextval()".as_ptr()) };
    let level = subtransaction::level();
    let known = with(|state| {
        state.empty_one(entry);
        state.save(entry, level)
    })?;
    let count = match known {
        Some(count) => count,
        None => {
            let Some(count) = lock(cached, entry)? else { return Ok(None) };
            let last = Last::for_entry(entry);
            ACTIVE.set(true);
            with(|state| {
                let first = state.held.get(&entry.id).map_or(last, |held| held.first);
                state.set(level, Counted { entry, count: Some(count), first, last })
            })?;
            count
        }
    };
    entry.terms.set(count.terms);
    Ok(Some(Range::new(count.next, count.terms.mapping.limit())))
}

/// Locks the position, and reads what its indexes mean if this session does not know.
fn lock(cached: &CachedName, entry: &Entry) -> Result<Option<Count>, HiloError> {
    // SAFETY: reads a static.
    if unsafe { pg_sys::IsInParallelMode() } {
        return Err(HiloError::GaplessInParallelMode(cached.name()));
    }
    let locked = gapless::lock(entry.id, entry.epoch.get(), entry.root.get())?;
    let Some(Locked { counter, sequence, root }) = locked else {
        let found = definitions::by_id(entry.id)?;
        if found.is_some_and(|sequence| sequence.definition.gapless) {
            return Err(match gucs::node_count() {
                1 => HiloError::NoPosition(cached.name()),
                nodes => HiloError::GaplessNodes { name: cached.name(), nodes },
            });
        }
        cached.forget();
        return Ok(None);
    };
    let position = counter.position;
    entry.root.set(root);
    if let Some(sequence) = sequence {
        // A version that this transaction wrote may be rolled back, and another one get the same
        // epoch.
        let epoch = if counter.own { Epoch::default() } else { position.epoch };
        entry.terms.set(position.terms(&sequence));
        entry.epoch.set(epoch);
    }
    Ok(Some(Count { counter, next: position.next_index, terms: entry.terms.get() }))
}

/// Takes indexes of the [`rest`], up to the end of `range`.
pub fn take(entry: &'static Entry, range: Range) -> Result<(), HiloError> {
    let count = with(|state| {
        let count = state.held.get_mut(&entry.id)?.count.as_mut()?;
        count.next = range.end;
        CLOSING.get().then_some(count.counter)
    });
    match count {
        Some(counter) => write(entry.id, counter, range.end),
        None => Ok(()),
    }
}

/// Fills the slice with all indexes that are left, so that the next draws are hits. `None`: the
/// caller tries again.
///
/// # Errors
/// `Exhausted`, and those of [`rest`].
pub fn more(cached: &'static CachedName, entry: &'static Entry) -> Result<Option<i64>, HiloError> {
    let Some(range) = rest(cached, entry)? else { return Ok(None) };
    let mapping = entry.mapping();
    let run = mapping.run(range).ok_or_else(|| HiloError::exhaustion(cached.name(), &mapping))?;
    if CLOSING.get() {
        take(entry, Range::with_len(range.start, 1))?;
        return Ok(Some(run.first));
    }
    with(|state| state.fills(entry))?;
    let slice = entry.own_slice()?;
    // Values that are not served are not written as served.
    slice.load(Range::with_len(range.start, run.count), run);
    entry.slice.set(slice);
    Ok(None)
}

/// How far this transaction has counted a sequence, if it has drawn from it.
pub fn progress(id: SequenceId) -> Option<Index> {
    with(|state| {
        state.empty();
        state.held.get(&id)?.count.map(|count| count.next)
    })
}

/// Notes that this transaction has renumbered a sequence: its next draw reads the position again.
pub fn note_renumbering(id: SequenceId) -> Result<(), HiloError> {
    let level = subtransaction::level();
    with(|state| {
        state.empty();
        let Some(entry) = state.held.get(&id).map(|held| held.entry) else { return Ok(()) };
        state.save(entry, level)?;
        if let Some(held) = state.held.get_mut(&id) {
            held.count = None;
        }
        Ok(())
    })
}

/// Writes how far each sequence was counted.
fn write_all() -> Result<(), HiloError> {
    let counts = with(|state| {
        state.empty();
        let mut counts = Vec::new();
        for held in state.held.values_mut() {
            if let Counted { entry, count: Some(count), .. } = held
                && count.next > count.counter.position.next_index
            {
                counts.try_push((entry.id, count.counter, count.next))?;
            }
        }
        Ok::<_, HiloError>(counts)
    });
    counts?.into_iter().try_for_each(|(id, counter, next)| write(id, counter, next))
}

fn write(id: SequenceId, mut counter: Counter, next: Index) -> Result<(), HiloError> {
    counter.write(next)?;
    table::next_command();
    with(|state| {
        if let Some(Counted { count: Some(count), .. }) = state.held.get_mut(&id) {
            count.counter = counter;
        }
    });
    Ok(())
}

pub fn at_transaction(event: pg_sys::XactEvent::Type) -> Result<(), HiloError> {
    use pg_sys::XactEvent::*;
    if !ACTIVE.get() {
        return Ok(());
    }
    match event {
        XACT_EVENT_PRE_COMMIT | XACT_EVENT_PRE_PREPARE => write_all()?,
        XACT_EVENT_COMMIT | XACT_EVENT_PREPARE => end(),
        XACT_EVENT_ABORT => {
            roll_back(1);
            end();
        }
        _ => {}
    }
    Ok(())
}

/// Begins a level of the transaction.
pub fn begin_savepoint() {
    with(Counters::empty);
}

/// Ends one.
pub fn end_level(level: i32, commits: bool) {
    if commits { with(|state| state.held.commit(level)) } else { roll_back(level) }
}

fn roll_back(level: i32) {
    with(|state| {
        state.empty();
        state.held.abort(level, |was, is| match is {
            Some(held) => held.last.bring_back(held.entry),
            None => was.first.bring_back(was.entry),
        });
    });
}

fn end() {
    ACTIVE.set(false);
    with(|state| {
        state.empty();
        state.held.clear();
    });
    if shared::get().is_err() {
        // Without shared memory nobody tells this session of changes.
        forget_names();
    }
}
