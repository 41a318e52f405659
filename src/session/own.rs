//! The transaction that defined a sequence serves itself.
//!
//! A position row that this transaction has written is locked until it ends, so nobody else can
//! reserve from it: all indexes from `next_index` on are this transaction's. It counts in its own
//! memory and writes how far it came just before it commits. A row version is known by its epoch and
//! the (sub)transaction that wrote it, so after a ROLLBACK TO the count of the version that is in force
//! again goes on where it stood.

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::atomic::Ordering::*;

use pgrx::pg_sys;

use hilo_core::range::Range;

use super::memo::{Entry, Memo};
use super::{Global, change, draw, going_on, lines};
use crate::catalog::definitions::Sequence;
use crate::catalog::positions::{self, Position};
use crate::errors::HiloError;
use crate::gucs;
use crate::shared::slices::Slice;
use crate::shared::slot::Terms;

/// Indexes loaded at a time. Nothing is lost by a large number: the rest is written back.
const CHUNK: i64 = 1 << 20;

/// A version of a position row: sequence, epoch, writing transaction.
type Version = (i64, i64, pg_sys::TransactionId);

struct Own {
    entry: &'static Entry,
    slice: &'static Slice,
    position: Position,
    limit: i64,
    /// How many indexes to load next.
    chunk: i64,
}

impl Own {
    /// Goes past what a line that went on from this one has served before it was rolled back.
    fn rise_to(&self, floor: i64) {
        if floor > self.next() {
            let floor = floor.min(self.limit);
            self.slice.left.store(0, Relaxed);
            self.slice.run_end.store(floor, Relaxed);
            self.slice.range_end.store(floor, Relaxed);
        }
    }

    /// The first index that it has not served.
    fn next(&self) -> i64 {
        self.slice.rest().start
    }
}

static OWN: Global<RefCell<Option<HashMap<Version, Own>>>> = Global::new(RefCell::new(None));

/// How a sequence is dealt, from its rows.
pub fn terms(sequence: &Sequence, position: &Position) -> Terms {
    let definition = &sequence.definition;
    Terms {
        mapping: position.mapping(definition),
        start_value: definition.start_value,
        ordered: definition.ordered,
        slice_size: definition.slice_size.unwrap_or(0),
        block_size: definition.block_size.unwrap_or(0),
    }
}

/// Takes a sequence over if this transaction has written its position; else gives it back to the
/// pool's care. Whether it is ours.
pub fn adopt(entry: &'static Entry, sequence: &Sequence) -> Result<bool, HiloError> {
    if !change::in_progress() {
        return Ok(false);
    }
    let found = positions::find_written(sequence.id, gucs::node().0)?;
    let Some((position, writer)) = found else {
        if entry.slot.get().is_none() {
            entry.slice.set(lines::empty());
        }
        return Ok(false);
    };
    draw::let_go(entry);
    let terms = terms(sequence, &position);
    let mut all = OWN.borrow_mut();
    let own = all
        .get_or_insert_default()
        .entry((sequence.id, position.epoch, writer))
        .or_insert_with(|| {
            let slice: &'static Slice = Box::leak(Box::new(Slice::new()));
            slice.run_end.store(position.next_index, Relaxed);
            slice.range_end.store(position.next_index, Relaxed);
            // What is loaded counts as served by a line that this one goes on from: no more than is
            // likely to be drawn.
            let chunk = if going_on::is_continued(sequence.id, position.epoch) { 1 } else { CHUNK };
            Own { entry, slice, position, limit: terms.mapping.limit(), chunk }
        });
    own.rise_to(going_on::floor(sequence.id, position.epoch));
    entry.slot.set(None);
    entry.serial.set(position.epoch);
    entry.terms.set(terms);
    entry.slice.set(own.slice);
    Ok(true)
}

/// How far this transaction has served the version of a position row that it has written.
pub fn reached(position: &Position, writer: pg_sys::TransactionId) -> Option<i64> {
    let all = OWN.borrow();
    Some(all.as_ref()?.get(&(position.sequence, position.epoch, writer))?.next())
}

/// Loads the next indexes of a sequence that is ours. `None`: there are some now.
///
/// # Errors
/// `Exhausted`.
pub fn more(memo: &'static Memo, entry: &'static Entry) -> Result<Option<i64>, HiloError> {
    let mut all = OWN.borrow_mut();
    let slice = entry.slice.get();
    let own =
        all.iter_mut().flat_map(HashMap::values_mut).find(|own| std::ptr::eq(own.slice, slice));
    let Some(own) = own else {
        memo.forget();
        return Ok(None);
    };
    let mapping = entry.mapping();
    let next = own.next();
    let range = Range::new(next, next.saturating_add(own.chunk).min(own.limit));
    own.chunk = (own.chunk * 2).min(CHUNK);
    match mapping.run(range) {
        Some(run) => {
            going_on::serve(entry.id, entry.serial.get(), run, mapping.increment);
            slice.load(entry.serial.get(), range, run);
            Ok(None)
        }
        None => Err(HiloError::exhausted(memo.name(), &mapping)),
    }
}

/// Takes the part that `fit` chooses of what is left of a sequence that is ours.
pub fn claim(entry: &'static Entry, fit: impl FnOnce(Range) -> Option<Range>) -> Option<Range> {
    let mut all = OWN.borrow_mut();
    let slice = entry.slice.get();
    let own =
        all.iter_mut().flat_map(HashMap::values_mut).find(|own| std::ptr::eq(own.slice, slice))?;
    let claimed = fit(Range::new(own.next(), own.limit))?;
    let mapping = entry.mapping();
    mapping
        .runs(claimed)
        .for_each(|run| going_on::serve(entry.id, entry.serial.get(), run, mapping.increment));
    own.rise_to(claimed.end);
    Some(claimed)
}

/// Before the commit: writes how far each sequence was served.
pub fn write_back() {
    // Its node is the one that it began as, whatever a reload has made of this server meanwhile.
    let served: Vec<(Version, i32, i64)> = OWN
        .borrow()
        .iter()
        .flatten()
        .filter(|(_, own)| own.next() != own.position.next_index)
        .map(|(version, own)| (*version, own.position.node, own.next()))
        .collect();
    // Whoever draws after this, in a later callback, would draw what is not written down.
    for own in OWN.borrow_mut().iter_mut().flat_map(HashMap::values_mut) {
        let next = own.next();
        own.limit = next;
        own.slice.left.store(0, Relaxed);
        own.slice.run_end.store(next, Relaxed);
        own.slice.range_end.store(next, Relaxed);
    }
    for (version, node, next) in served {
        if let Err(error) = positions::advance(version, node, next) {
            error.raise();
        }
    }
}

/// The transaction has ended: what was ours is everybody's.
pub fn forget() {
    let Some(all) = OWN.borrow_mut().take() else { return };
    for own in all.into_values() {
        if own.entry.slot.get().is_none() {
            own.entry.slice.set(lines::empty());
            own.entry.serial.set(0);
        }
        // SAFETY: leaked by `adopt`; the entry, which alone pointed to it, has just let go of it.
        drop(unsafe { Box::from_raw(std::ptr::from_ref(own.slice).cast_mut()) });
    }
}
