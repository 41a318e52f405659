//! A transaction that has created, set or restarted a sequence serves itself.
//!
//! It has written a position that no other session sees, so all indexes from `next_index` on are
//! its own. It counts in its own memory, and writes how far it came just before it commits. The
//! epoch and the (sub)transaction that wrote it identify a version of the row. So after a ROLLBACK
//! TO the count of the version that is in force again continues where it stood.
//!
//! A transaction that only advances the sequence, or changes the increment or whether it cycles,
//! continues the numbers that all sessions share. After its rollback they would be served again, so
//! it draws nothing until it commits. If it continues numbers of its own, it moves the version that
//! it continues past each number that is about to leave. So no ROLLBACK TO brings one back.
//!
//! Only a version that was written with [`Origin::New`] may serve values. An unknown version
//! serves none.

use std::cell::RefCell;
use std::collections::HashMap;

use hilo_core::mapping::{Mapping, Run};
use hilo_core::numbers::{Index, SequenceId, Serial};
use hilo_core::range::Range;

use crate::backend::Global;
use crate::catalog::sequence::definitions::{self, Sequence};
use crate::catalog::sequence::gaps::{self, Reason};
use crate::catalog::sequence::node;
use crate::catalog::sequence::positions::{self, Version};
use crate::errors::HiloError;
use crate::process::memory::TryGrow;
use crate::session::names::{CachedName, Entry, Own, Supply};
use crate::session::{CLOSING, slice_table};
use crate::shared::slices::Slice;

/// Where the numbers of a version come from.
#[derive(Clone, Copy, Debug)]
pub enum Origin {
    /// The numbers are the transaction's own, and begin where a user says. Only statements that set
    /// them may use this.
    New,
    /// The numbers continue those of another version that this transaction has written, from where
    /// that version stands.
    Continues(Continued),
    /// The numbers continue those that all sessions share, from where these stand.
    Shared,
    /// The numbers continue those of a gapless sequence: of the version that this transaction has
    /// written, if it is one.
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

/// The state of a version.
#[derive(Default)]
struct Served {
    origin: Option<Origin>,
    /// The indexes that it has not served, if it has been in force since it was written.
    left: Option<Range>,
    /// The smallest index that it may still serve, if another version continues it.
    floor: Option<Index>,
    /// The ranges that were skipped to reach a claimed range.
    passed: Vec<Range>,
}

impl Served {
    /// The first index that it has not served.
    fn progress(&self) -> Option<Index> {
        self.left.map(|left| left.start).into_iter().chain(self.floor).max()
    }

    /// Moves past the indexes that it, or a version that continues it, has served.
    fn rise_to(&mut self, floor: Index) {
        self.left = self.left.map(|left| left.from(floor.min(left.end)));
    }
}

#[derive(Default)]
struct OwnVersions {
    versions: HashMap<Version, Served>,
    /// The version of each sequence that is in force.
    current: HashMap<SequenceId, Version>,
}

impl OwnVersions {
    fn served(&mut self, version: Version) -> Result<&mut Served, HiloError> {
        self.versions.try_reserve(1).map_err(|_| HiloError::OutOfMemory)?;
        Ok(self.versions.entry(version).or_default())
    }

    fn origin(&self, version: &Version) -> Option<Origin> {
        self.versions.get(version)?.origin
    }

    /// Notes that `run` is about to be served under `version`. The versions that it continues will
    /// not serve the same values, nor earlier ones.
    fn serve(&mut self, version: Version, run: Run, increment: i64) -> Result<(), HiloError> {
        let mut at = version;
        while let Some(Origin::Continues(before)) = self.origin(&at) {
            let Continued { version, mapping, next_index } = before;
            let behind = |value| mapping.floor_behind(value);
            let floor = behind(run.first).max(behind(run.last(increment)));
            let served = self.served(version)?;
            let from = served.progress().unwrap_or_default().max(next_index);
            let first = mapping.index_of(run.first).unwrap_or_else(|| behind(run.first));
            let passed = Range::new(from, first.min(floor));
            served.rise_to(floor);
            served.floor = Some(floor.max(from));
            if !passed.is_empty() {
                served.passed.try_push(passed)?;
            }
            at = version;
        }
        Ok(())
    }
}

static STATE: Global<RefCell<Option<OwnVersions>>> = Global::new(RefCell::new(None));

/// Notes where the numbers of a version that this transaction has just written come from.
///
/// # Errors
/// `OutOfMemory`
pub fn note_origin(version: Version, origin: Origin) -> Result<(), HiloError> {
    let mut state = STATE.borrow_mut();
    let state = state.get_or_insert_default();
    // A version that continues one with shared numbers has shared numbers too.
    let origin = match origin {
        Origin::Continues(before) => match state.origin(&before.version) {
            Some(Origin::New | Origin::Continues(_)) => origin,
            inherited => inherited.unwrap_or(Origin::Shared),
        },
        Origin::Gapless(Some(before)) => match state.origin(&before) {
            Some(inherited @ (Origin::Shared | Origin::Gapless(_))) => inherited,
            _ => origin,
        },
        _ => origin,
    };
    state.served(version)?.origin = Some(origin);
    Ok(())
}

/// Attaches the entry to this transaction's own count if the transaction, which has defined
/// something, has written the sequence's position. Returns whether it has.
///
/// # Errors
/// `Renumbered` if the version continues the numbers that all sessions share.
pub fn adopt(entry: &'static Entry, sequence: &Sequence) -> Result<bool, HiloError> {
    let found = positions::find_own_write(sequence.id, node::id())?;
    let Some((position, version)) = found else {
        if let Supply::Own(_) = entry.supply.get() {
            entry.slice.set(Slice::empty());
        }
        return Ok(false);
    };
    slice_table::return_slice(entry);
    let terms = position.terms(sequence);
    let mut state = STATE.borrow_mut();
    let state = state.get_or_insert_default();
    // The next transaction gets the same numbers if this one rolls back.
    let Some(Origin::New | Origin::Continues(_)) = state.origin(&version) else {
        if sequence.definition.source.is_some() {
            return Err(HiloError::SourceUncommitted(sequence.name.to_string()));
        }
        return Err(HiloError::Renumbered(sequence.name.to_string()));
    };
    state.current.try_push((sequence.id, version))?;
    let served = state.served(version)?;
    // The bounds may have changed since it was in force.
    let from = served.left.map_or(position.next_index, |left| left.start);
    let from = from.max(served.floor.unwrap_or_default());
    // A callback that draws after all is written back finds nothing left.
    let end = if CLOSING.get() { from } else { terms.mapping.limit() };
    served.left = Some(Range::new(from, end));
    entry.supply.set(Supply::Own(Own::Defined));
    entry.serial.set(Serial::default());
    entry.terms.set(terms);
    Ok(true)
}

/// Refuses draws from a sequence that this transaction has made gapless. A rollback makes it an
/// ordinary one again, which would serve the same values.
///
/// # Errors
/// `Renumbered`
pub fn refuse_made_gapless(sequence: &Sequence) -> Result<(), HiloError> {
    let Some((_, version)) = positions::find_own_write(sequence.id, node::id())? else {
        return Ok(());
    };
    let state = STATE.borrow();
    match state.as_ref().and_then(|state| state.origin(&version)) {
        Some(Origin::Shared | Origin::Continues(_)) => {
            Err(HiloError::Renumbered(sequence.name.to_string()))
        }
        Some(Origin::New | Origin::Gapless(_)) | None => Ok(()),
    }
}

/// How far this transaction has served the version of a position row that it has written.
pub fn progress(version: &Version) -> Option<Index> {
    STATE.borrow().as_ref()?.versions.get(version)?.progress()
}

/// The ranges that were skipped under a version, and not served.
pub fn skips(version: &Version) -> Vec<Range> {
    let state = STATE.borrow();
    let served = state.as_ref().and_then(|state| state.versions.get(version));
    served.map(|served| served.passed.clone()).unwrap_or_default()
}

/// The rest of a sequence that this transaction serves itself. `None`: the cached name is out of
/// date.
pub fn rest(entry: &Entry) -> Option<Range> {
    let state = STATE.borrow();
    let state = state.as_ref()?;
    state.versions.get(state.current.get(&entry.id)?)?.left
}

/// Takes a part of the [`rest`]. The part before it is skipped.
///
/// # Errors
/// `OutOfMemory`
pub fn take(entry: &Entry, range: Range) -> Result<(), HiloError> {
    let mut state = STATE.borrow_mut();
    let state = state.get_or_insert_default();
    let Some(version) = state.current.get(&entry.id).copied() else { return Ok(()) };
    let served = state.served(version)?;
    let skipped = served.left.map_or(Range::EMPTY, |left| left.until(range.start));
    served.rise_to(range.end);
    if !skipped.is_empty() {
        served.passed.try_push(skipped)?;
    }
    let mapping = entry.mapping();
    mapping.runs(range).try_for_each(|run| state.serve(version, run, mapping.increment))
}

/// The next value. `None`: the caller looks the name up again.
///
/// # Errors
/// `Exhausted`.
pub fn next(cached: &'static CachedName, entry: &'static Entry) -> Result<Option<i64>, HiloError> {
    let Some(left) = rest(entry) else {
        cached.forget();
        return Ok(None);
    };
    let mapping = entry.mapping();
    let run = mapping.run(left).ok_or_else(|| HiloError::exhaustion(cached.name(), &mapping))?;
    take(entry, Range::with_len(left.start, 1))?;
    Ok(Some(run.first))
}

/// The version that [`take`] takes from.
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
    state.served(version)?.passed.try_reserve(count).map_err(|_| HiloError::OutOfMemory)
}

/// Notes a range that was claimed under a version and will not be used. A rollback calls this, so
/// the caller of [`take`] has made room.
pub fn give_up(version: Version, range: Range) {
    let mut state = STATE.borrow_mut();
    if let Some(served) = state.as_mut().and_then(|state| state.versions.get_mut(&version)) {
        served.passed.push(range);
    }
}

/// Writes how far each sequence was served. Called just before the commit.
pub fn write_back() -> Result<(), HiloError> {
    // A version keeps the node that it was written under, even if a reload has made this server
    // another node since.
    let mut written = Vec::new();
    if let Some(state) = STATE.borrow_mut().as_mut() {
        for (version, served) in &mut state.versions {
            let Some(reached) = served.progress() else { continue };
            // A later callback that draws would get numbers that are not written down, so nothing
            // is left to draw.
            served.left = served.left.map(|left| left.until(left.start));
            written.push((*version, reached, std::mem::take(&mut served.passed)));
        }
    }
    written.into_iter().try_for_each(|(version, next, passed)| advance(&version, next, &passed))
}

/// Moves a version to `next`. The skipped part is recorded as a gap: this session has already been
/// given later values.
fn advance(version: &Version, next: Index, passed: &[Range]) -> Result<(), HiloError> {
    let Some(position) = positions::advance(version, next)? else { return Ok(()) };
    if passed.is_empty() {
        return Ok(());
    }
    let Some(sequence) = definitions::by_id(version.sequence)? else { return Ok(()) };
    gaps::record(&position, &position.mapping(&sequence.definition), passed, Reason::Discarded)
}

/// Discards this state when the transaction has ended: its sequences are served from their slots
/// from then on.
pub fn forget() {
    STATE.take();
}
