//! A sequence altered without a restart goes on where it stood, in its own transaction at first. Should
//! that roll back, the old line must not serve again what was drawn meanwhile: before such values leave,
//! the smallest index behind them is noted as the *floor* of the old line, in this session where that
//! line is the transaction's own too, else in its slot, where the worker heeds it.
//!
//! A floor is in memory only until the worker's next reservation, so it does not outlive a crash of the
//! server in between.

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::atomic::Ordering::*;

use hilo_core::mapping::{Mapping, Run};

use super::{Global, memo};
use crate::catalog::positions::Position;
use crate::errors::HiloError;
use crate::shared;
use crate::shared::slot::Slot;

/// A sequence's numbering: its id and epoch.
type Line = (i64, i64);

struct Origin {
    epoch: i64,
    mapping: Mapping,
    /// Held until the transaction ends; `None` where that line is the transaction's own.
    slot: Option<&'static Slot>,
}

#[derive(Default)]
struct State {
    origins: HashMap<Line, Origin>,
    floors: HashMap<Line, i64>,
}

static STATE: Global<RefCell<Option<State>>> = Global::new(RefCell::new(None));

/// The line of `epoch` goes on from the one at `old`.
pub fn goes_on(old: &Position, mapping: Mapping, epoch: i64, own: bool) -> Result<(), HiloError> {
    let slot = if own { None } else { hold(old.sequence)? };
    let mut state = STATE.borrow_mut();
    let origins = &mut state.get_or_insert_default().origins;
    let origin = Origin { epoch: old.epoch, mapping, slot };
    if let Some(before) = origins.insert((old.sequence, epoch), origin) {
        release(&before);
    }
    Ok(())
}

/// The line of `epoch` begins anew: what it serves is not the old line's.
pub fn begins_anew(id: i64, epoch: i64) {
    if let Some(state) = STATE.borrow_mut().as_mut()
        && let Some(before) = state.origins.remove(&(id, epoch))
    {
        release(&before);
    }
}

/// Whether a line goes on from another.
pub fn is_continued(id: i64, epoch: i64) -> bool {
    STATE.borrow().as_ref().is_some_and(|state| state.origins.contains_key(&(id, epoch)))
}

/// The smallest index that a line may still serve, by what this transaction knows and by what one that
/// was rolled back has left in the slot.
pub fn floor_of(old: &Position) -> Result<i64, HiloError> {
    let (id, epoch) = (old.sequence, old.epoch);
    let shared = shared::get()?;
    let Some(slot) = shared.find(&memo::key_of(id)?) else { return Ok(floor(id, epoch)) };
    let locked = shared.lock_slot(shared.number_of(slot));
    let left = if locked.floor_epoch == epoch { locked.floor } else { 0 };
    drop(locked);
    slot.pins.fetch_sub(1, SeqCst);
    Ok(left.max(floor(id, epoch)))
}

/// The smallest index that a line may still serve, by what this transaction knows.
pub fn floor(id: i64, epoch: i64) -> i64 {
    STATE.borrow().as_ref().and_then(|state| state.floors.get(&(id, epoch)).copied()).unwrap_or(0)
}

/// These values are about to leave under `epoch`.
pub fn serve(id: i64, epoch: i64, run: Run, increment: i64) {
    let mut state = STATE.borrow_mut();
    let Some(State { origins, floors }) = state.as_mut() else { return };
    let mut line = (id, epoch);
    while let Some(origin) = origins.get(&line) {
        let behind = |value| origin.mapping.floor_behind(value);
        let floor = behind(run.first).max(behind(run.last(increment)));
        line = (id, origin.epoch);
        let noted = floors.entry(line).or_insert(0);
        *noted = floor.max(*noted);
        if let (Some(slot), Ok(shared)) = (origin.slot, shared::get()) {
            shared.lock_slot(shared.number_of(slot)).raise_floor(origin.epoch, floor);
        }
    }
}

/// The transaction has ended.
pub fn end() {
    let Some(state) = STATE.borrow_mut().take() else { return };
    state.origins.values().for_each(release);
}

/// Keeps the slot of a sequence, so that its floor stays. `None`: no slot is free.
fn hold(id: i64) -> Result<Option<&'static Slot>, HiloError> {
    let Some(slot) = shared::get()?.find_or_add(&memo::key_of(id)?) else { return Ok(None) };
    slot.holders.fetch_add(1, SeqCst);
    slot.pins.fetch_sub(1, SeqCst);
    Ok(Some(slot))
}

/// Lets go of the slot, and has the worker write its floor down.
fn release(origin: &Origin) {
    let (Some(slot), Ok(shared)) = (origin.slot, shared::get()) else { return };
    slot.holders.fetch_sub(1, SeqCst);
    if shared.want(shared.number_of(slot)) {
        shared.nudge(slot.database.load(Relaxed));
    }
}
