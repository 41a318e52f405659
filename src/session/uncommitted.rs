//! A transaction that has created, set or restarted a sequence serves itself.
//!
//! It has written a position that no other session sees, so all indexes from `next_index` on are
//! its own. It counts in its own memory, and writes how far it came just before it commits. The
//! epoch and the (sub)transaction that wrote it identify a version of the row, so after a ROLLBACK
//! TO the count of the version that is in force again continues where it stood.
//!
//! A transaction that only advances the sequence, or changes the increment or whether it cycles,
//! continues the numbers that all sessions share. After its rollback they would be served again, so
//! it draws nothing until it commits. If it continues numbers of its own, it moves the version that
//! it continues past each number that is about to leave, so that no ROLLBACK TO brings one back.
//!
//! Numbers are its own only if the statement that wrote the version says so ([`Origin::New`]). A
//! version of which nothing is known serves nothing.

use std::cell::RefCell;
use std::collections::HashMap;

use hilo_core::mapping::{Mapping, Run};
use hilo_core::numbers::{Index, SequenceId, Serial};
use hilo_core::range::Range;

use crate::backend::Global;
use crate::catalog::catalog_oids;
use crate::catalog::definitions::{self, Sequence};
use crate::catalog::gaps::{self, Reason};
use crate::catalog::node;
use crate::catalog::positions::{self, Version};
use crate::errors::{HiloError, OrRaise};
use crate::process::memory::TryGrow;
use crate::session::memo::{Entry, Memo, Source};
use crate::session::slice_table;
use crate::shared::slices::Slice;

/// The most indexes loaded at a time. A large number loses nothing: what is not served is not
/// written as served.
const CHUNK: i64 = 1 << 20;

/// Where the numbers of a version come from.
#[derive(Clone, Copy, Debug)]
pub enum Origin {
    /// They are its own, and begin where a user says: only statements that ask for that may say
    /// this.
    New,
    /// They continue those of another version that this transaction has written, from where that
    /// version stands.
    Continues(Continued),
    /// They continue those that all sessions share, from where these stand.
    Shared,
    /// They continue those of a gapless sequence: of the version that this transaction has written,
    /// if it is one.
    Gapless(Option<Version>),
}

/// The version that another one continues.
#[derive(Clone, Copy, Debug)]
pub struct Continued {
    pub version: Version,
    pub mapping: Mapping,
    /// The first index that it had not served by then.
    pub next_index: Index,
}

struct Own {
    entry: &'static Entry,
    slice: &'static Slice,
    limit: Index,
    /// How many indexes to load at a time.
    chunk: i64,
}

impl Own {
    /// Moves past what a version that continues this one has served.
    fn rise_to(&self, floor: Index) {
        if floor > self.next() {
            self.slice.move_to(floor.min(self.limit));
        }
    }

    /// The first index that this version has not served.
    fn next(&self) -> Index {
        self.slice.rest().start
    }
}

#[derive(Default)]
struct State {
    served: HashMap<Version, Own>,
    origins: HashMap<Version, Origin>,
    /// The smallest index that a version may still serve.
    floors: HashMap<Version, Index>,
    /// What was skipped under a version, to reach what was asked for.
    passed: HashMap<Version, Vec<Range>>,
    /// The version of each sequence that is in force.
    current: HashMap<SequenceId, Version>,
}

impl State {
    fn floor(&self, version: &Version) -> Index {
        self.floors.get(version).copied().unwrap_or_default()
    }

    /// Notes that `run` is about to be served under `version`: the versions that it continues will
    /// not serve the same values, nor those before them.
    fn serve(&mut self, version: Version, run: Run, increment: i64) -> Result<(), HiloError> {
        let mut at = version;
        while let Some(Origin::Continues(before)) = self.origins.get(&at).copied() {
            let Continued { version, mapping, next_index } = before;
            let behind = |value| mapping.floor_behind(value);
            let floor = behind(run.first).max(behind(run.last(increment)));
            let served = self.served.get(&version);
            let from = self.floor(&version).max(next_index);
            let from = served.map_or(from, |own| own.next().max(from));
            let first = mapping.index_of(run.first).unwrap_or_else(|| behind(run.first));
            let passed = Range::new(from, first.min(floor));
            if let Some(own) = served {
                own.rise_to(floor);
            }
            self.floors.try_push((version, floor.max(from)))?;
            if !passed.is_empty() {
                self.pass(version)?.try_push(passed)?;
            }
            at = version;
        }
        Ok(())
    }

    /// The list of what was skipped under a version.
    fn pass(&mut self, version: Version) -> Result<&mut Vec<Range>, HiloError> {
        self.passed.try_reserve(1).map_err(|_| HiloError::OutOfMemory)?;
        Ok(self.passed.entry(version).or_default())
    }
}

static STATE: Global<RefCell<Option<State>>> = Global::new(RefCell::new(None));

/// Notes where the numbers of a version that this transaction has just written come from.
///
/// # Errors
/// `OutOfMemory`
pub fn wrote(version: Version, origin: Origin) -> Result<(), HiloError> {
    let mut state = STATE.borrow_mut();
    let state = state.get_or_insert_default();
    let origin_of = |before| state.origins.get(&before).copied();
    // A version that continues one with shared numbers has shared numbers too.
    let origin = match origin {
        Origin::Continues(before) => match origin_of(before.version) {
            Some(Origin::New | Origin::Continues(_)) => origin,
            inherited => inherited.unwrap_or(Origin::Shared),
        },
        Origin::Gapless(Some(before)) => match origin_of(before) {
            Some(inherited @ (Origin::Shared | Origin::Gapless(_))) => inherited,
            _ => origin,
        },
        _ => origin,
    };
    state.origins.try_push((version, origin))
}

/// Attaches the entry to this transaction's own count if the transaction, which has defined
/// something, has written the sequence's position. Returns whether it has.
///
/// # Errors
/// `Renumbered` if the version continues the numbers that all sessions share.
pub fn adopt(entry: &'static Entry, sequence: &Sequence) -> Result<bool, HiloError> {
    let found = positions::find_written(sequence.id, node::id()?)?;
    let Some((position, version)) = found else {
        if entry.slot().is_none() {
            entry.slice.set(Slice::empty());
        }
        return Ok(false);
    };
    slice_table::return_slice(entry);
    let terms = position.terms(sequence);
    let limit = terms.mapping.limit();
    let mut state = STATE.borrow_mut();
    let state = state.get_or_insert_default();
    // What is loaded counts as served in the version that this one continues, so no more is loaded
    // than is drawn.
    let chunk = match state.origins.get(&version) {
        Some(Origin::New) => CHUNK,
        Some(Origin::Continues(_)) => 1,
        // The next transaction gets the same numbers if this one rolls back.
        Some(Origin::Shared | Origin::Gapless(_)) | None => {
            return Err(HiloError::Renumbered(sequence.name.to_string()));
        }
    };
    let floor = state.floor(&version);
    state.served.try_reserve(1).map_err(|_| HiloError::OutOfMemory)?;
    state.current.try_push((sequence.id, version))?;
    let own = state.served.entry(version).or_insert_with(|| {
        let slice: &'static Slice = Box::leak(Box::new(Slice::new()));
        slice.move_to(position.next_index);
        Own { entry, slice, limit, chunk }
    });
    // The bounds may have changed since it was loaded.
    own.limit = limit;
    own.slice.move_to(own.next().max(floor));
    entry.source.set(Source::Own);
    entry.serial.set(Serial::default());
    entry.terms.set(terms);
    entry.slice.set(own.slice);
    Ok(true)
}

/// Refuses draws from a sequence that this transaction has made gapless. A rollback makes it an
/// ordinary one again, which would serve them once more.
///
/// # Errors
/// `Renumbered`
pub fn refuse_made_gapless(sequence: &Sequence) -> Result<(), HiloError> {
    let Some((_, version)) = positions::find_written(sequence.id, node::id()?)? else {
        return Ok(());
    };
    let state = STATE.borrow();
    match state.as_ref().and_then(|state| state.origins.get(&version)) {
        Some(Origin::Shared | Origin::Continues(_)) => {
            Err(HiloError::Renumbered(sequence.name.to_string()))
        }
        Some(Origin::New | Origin::Gapless(_)) | None => Ok(()),
    }
}

/// How far this transaction has served the version of a position row that it has written.
pub fn reached(version: &Version) -> Option<Index> {
    let state = STATE.borrow();
    let state = state.as_ref()?;
    let served = state.served.get(version).map(Own::next);
    served.into_iter().chain(state.floors.get(version).copied()).max()
}

/// What was skipped under a version, and not served.
pub fn passed(version: &Version) -> Vec<Range> {
    let state = STATE.borrow();
    state.as_ref().and_then(|state| state.passed.get(version)).cloned().unwrap_or_default()
}

/// Loads the next indexes of a sequence that this transaction serves itself. `None`: the caller
/// tries again.
///
/// # Errors
/// `Exhausted`.
pub fn more(memo: &'static Memo, entry: &'static Entry) -> Result<Option<i64>, HiloError> {
    let mut state = STATE.borrow_mut();
    let loaded = state.as_mut().and_then(|state| {
        let version = *state.current.get(&entry.id)?;
        let own = state.served.get_mut(&version)?;
        let mapping = entry.mapping();
        let next = own.next();
        let range = Range::of(next, own.chunk).until(own.limit);
        let Some(run) = mapping.run(range) else {
            return Some(Err(HiloError::exhausted(memo.name(), &mapping)));
        };
        // One run at a time, so that no other part of the range counts as served.
        own.slice.load(Range::of(next, run.count), run);
        Some(state.serve(version, run, mapping.increment).map(|()| None))
    });
    loaded.unwrap_or_else(|| {
        memo.forget();
        Ok(None)
    })
}

/// Takes the part that `fit` chooses of what is left of a sequence that this transaction serves
/// itself.
pub fn claim(entry: &'static Entry, fit: impl FnOnce(Range) -> Option<Range>) -> Option<Range> {
    let mut state = STATE.borrow_mut();
    let state = state.as_mut()?;
    let version = *state.current.get(&entry.id)?;
    let own = state.served.get(&version)?;
    let passed = own.next();
    let left = Range::new(passed, own.limit);
    let claimed = fit(left)?;
    own.rise_to(claimed.end);
    if passed < claimed.start {
        state.pass(version).and_then(|all| all.try_push(left.until(claimed.start))).or_raise();
    }
    let mapping = entry.mapping();
    mapping
        .runs(claimed)
        .try_for_each(|run| state.serve(version, run, mapping.increment))
        .or_raise();
    Some(claimed)
}

/// The version that [`claim`] takes from.
pub fn version(entry: &Entry) -> Option<Version> {
    STATE.borrow().as_ref()?.current.get(&entry.id).copied()
}

/// Makes room for [`give_up`] to be called `count` times for a version.
///
/// # Errors
/// `OutOfMemory`
pub fn make_room(version: Version, count: usize) -> Result<(), HiloError> {
    let mut state = STATE.borrow_mut();
    let Some(state) = state.as_mut() else { return Ok(()) };
    state.pass(version)?.try_reserve(count).map_err(|_| HiloError::OutOfMemory)
}

/// Takes note of a range that was claimed under a version and will not be used. A rollback calls
/// this, so the caller of [`claim`] has made room.
pub fn give_up(version: Version, range: Range) {
    let mut state = STATE.borrow_mut();
    if let Some(passed) = state.as_mut().and_then(|state| state.passed.get_mut(&version)) {
        passed.push(range);
    }
}

/// Writes how far each sequence was served. Called just before the commit.
pub fn write_back() {
    // A version keeps the node that it was written under, even if a reload has made this server
    // another node since.
    let mut served: HashMap<Version, Index> = HashMap::new();
    if let Some(state) = STATE.borrow().as_ref() {
        served.extend(&state.floors);
        for (version, own) in &state.served {
            let reached = served.entry(*version).or_default();
            *reached = own.next().max(*reached);
        }
    }
    // A later callback that draws would get numbers that are not written down, so nothing is left
    // to draw.
    for own in STATE.borrow_mut().iter_mut().flat_map(|state| state.served.values_mut()) {
        own.limit = own.next();
        own.slice.move_to(own.limit);
    }
    let passed = STATE.borrow_mut().as_mut().map(|state| std::mem::take(&mut state.passed));
    let passed = passed.unwrap_or_default();
    for (version, next) in served {
        let passed = passed.get(&version).map_or(&[][..], Vec::as_slice);
        if let Err(error) = advance(&version, next, passed) {
            error.raise();
        }
    }
}

/// Moves a version to `next`. What it has skipped is recorded as a gap: this session has already
/// been given later values.
fn advance(version: &Version, next: Index, passed: &[Range]) -> Result<(), HiloError> {
    let Some(position) = positions::advance(version, next)? else { return Ok(()) };
    if passed.is_empty() {
        return Ok(());
    }
    let ids = catalog_oids()?;
    let Some(sequence) = definitions::by_id(&ids, version.sequence)? else { return Ok(()) };
    gaps::record_all(&ids, &position, &sequence, passed, Reason::Discarded)
}

/// Discards this state when the transaction has ended: its sequences are served from their slots
/// from then on.
pub fn forget() {
    let Some(state) = STATE.borrow_mut().take() else { return };
    for own in state.served.into_values() {
        if own.entry.slot().is_none() {
            own.entry.slice.set(Slice::empty());
            own.entry.serial.set(Serial::default());
        }
        // SAFETY: `adopt` leaked it, and only its entry has pointed to it. An entry without a slot
        // has just dropped that reference; `adopt` has made one with a slot drop it before the slot
        // was set.
        drop(unsafe { Box::from_raw(std::ptr::from_ref(own.slice).cast_mut()) });
    }
}
