//! Putting back what a pool holds: the position is lowered where it is the top of what was reserved,
//! the rest becomes free ranges in the catalog.

use std::cell::RefCell;
use std::sync::atomic::Ordering::*;

use hilo_core::pool::{ALL, Ranges};
use hilo_core::range::Range;

use super::Worker;
use super::refill;
use super::reserve::{self, Plan, lowest_in_memory};
use super::transaction::{self, Failure};
use crate::catalog::positions::Position;
use crate::catalog::ranges::{self, Reason};
use crate::catalog::table::Table;
use crate::catalog::{self, Ids};
use crate::errors::HiloError;
use crate::ffi::{self, HoldInterrupts};
use crate::session::Global;
use crate::shared::{Shared, slot};

/// The most slots in one transaction.
const BATCH: usize = 512;

/// What was taken out of a pool to be put back.
#[derive(Clone)]
struct Held {
    number: usize,
    sequence: i64,
    epoch: i64,
    serial: i64,
    reserved_to: Option<i64>,
    ranges: Vec<Range>,
}

/// What is neither in a pool nor in the catalog: a termination of this process in the middle of a
/// transaction leaves it here for [`rescue`].
static IN_FLIGHT: Global<RefCell<Vec<Held>>> = Global::new(RefCell::new(Vec::new()));

/// Notes ranges of `plan`'s slot that are on their way, of `epoch`.
pub(super) fn in_flight(plan: &Plan, epoch: i64, serial: i64, ranges: Vec<Range>) {
    if !ranges.is_empty() {
        let (number, sequence) = (plan.number, plan.sequence);
        IN_FLIGHT.borrow_mut().push(Held {
            number,
            sequence,
            epoch,
            serial,
            reserved_to: None,
            ranges,
        });
    }
}

/// What was on its way from or to a slot has arrived.
pub(super) fn arrived(number: usize) {
    IN_FLIGHT.borrow_mut().retain(|held| held.number != number);
}

/// At exit: puts back what was on its way, each in a transaction of its own.
pub(super) fn rescue(shared: &'static Shared) {
    for held in IN_FLIGHT.take() {
        put_back_taken(shared, vec![held]);
    }
}

impl Worker {
    /// Puts back all that this database's slots hold and frees them. Whether all are free.
    pub(super) fn put_back_all(&mut self) -> bool {
        let slots = self.slots();
        let idle: Vec<usize> =
            slots.iter().copied().filter(|&number| self.is_idle(number)).collect();
        let all = idle.len() == slots.len();
        self.put_back(&idle) && all
    }

    fn is_idle(&self, number: usize) -> bool {
        let slot = &self.shared.slots[number];
        slot.pins.load(SeqCst) == 0 && slot.holders.load(SeqCst) == 0
    }

    /// Puts back and frees. Whether all were freed.
    fn put_back(&mut self, numbers: &[usize]) -> bool {
        let mut all = true;
        for batch in numbers.chunks(BATCH) {
            self.put_back_batch(batch);
            for &number in batch {
                all &= self.shared.free(number);
            }
        }
        if self.shared.control.slots_wanted.swap(0, AcqRel) != 0 {
            self.shared.control.slot_freed.broadcast();
        }
        all
    }

    /// Puts back what one slot holds, for a session that is about to change the sequence.
    pub(super) fn recall(&mut self, number: usize) {
        self.put_back_batch(&[number]);
        let slot = &self.shared.slots[number];
        slot.recall.store(0, Release);
        slot.refilled.broadcast();
    }

    /// Puts back the slots that leaving sessions find full.
    pub(super) fn make_way(&mut self) {
        let wanted: Vec<usize> =
            self.slots().into_iter().filter(|&number| self.shared.take_want(number)).collect();
        if !wanted.is_empty() {
            self.put_back_batch(&wanted);
        }
    }

    /// Where sessions wait for a slot, or soon would, the longest idle ones are put back.
    pub(super) fn make_room(&mut self) {
        let slots = self.shared.slots.len();
        let wanted = self.shared.control.slots_wanted.load(Acquire) != 0;
        if !wanted && self.shared.free_slots() > slots / 64 {
            return;
        }
        let mut idle: Vec<(i64, usize)> = self
            .slots()
            .into_iter()
            .filter(|&number| self.is_idle(number) && !self.shared.is_wanted(number))
            .map(|number| (self.last_active(number), number))
            .collect();
        idle.sort_unstable();
        idle.truncate((slots / 32).max(1));
        let numbers: Vec<usize> = idle.into_iter().map(|(_, number)| number).collect();
        if !numbers.is_empty() {
            self.put_back(&numbers);
        }
    }

    /// When a slot was last seen to be used, in microseconds.
    fn last_active(&self, number: usize) -> i64 {
        let mut locked = self.shared.lock_slot(number);
        locked.see_activity(ffi::now());
        locked.active_at
    }

    /// Puts back what these slots hold. From when it is taken out of them until it is written down or
    /// given again, it is nowhere else than here: interrupts are held, so that a termination waits.
    pub(super) fn put_back_batch(&mut self, numbers: &[usize]) {
        let mut held = Vec::new();
        let mut hold = None;
        let done = transaction::run(c"hilo: putting back", || {
            let ids = catalog::ids()?;
            // Waiting for these locks can be interrupted; after this there is nothing to wait for.
            let _tables = [
                Table::write(ids.position)?,
                Table::write(ids.free_range)?,
                Table::write(ids.gap)?,
                Table::read(ids.sequence)?,
            ];
            hold = Some(HoldInterrupts::new());
            held.extend(numbers.iter().filter_map(|&number| self.take_out(number)));
            held.iter()
                .map(|held| put_back_one(&ids, self.shared, held))
                .collect::<Result<Vec<_>, _>>()
        });
        conclude(self.shared, &held, done);
        drop(hold);
    }

    /// Stops a pool and takes out what it holds. A caller that finds it empty asks for a block, and is
    /// served after this.
    fn take_out(&self, number: usize) -> Option<Held> {
        let mut locked = self.shared.lock_slot(number);
        if locked.slot.database.load(Relaxed) != self.database.to_u32()
            || locked.epoch == slot::DROPPED
        {
            return None;
        }
        locked.terms()?;
        if refill::disown_other(&mut locked) {
            return None;
        }
        let ranges: Ranges<ALL> = locked.drain();
        let (sequence, epoch, serial) = (locked.key.sequence, locked.epoch, locked.serial());
        let reserved_to = locked.reserved_to;
        drop(locked);
        let ranges = ranges.as_slice().to_vec();
        Some(Held { number, sequence, epoch, serial, reserved_to, ranges })
    }
}

/// Puts back what was taken out before.
fn put_back_taken(shared: &'static Shared, held: Vec<Held>) {
    let done = transaction::run(c"hilo: putting back", || {
        let ids = catalog::ids()?;
        held.iter().map(|held| put_back_one(&ids, shared, held)).collect::<Result<Vec<_>, _>>()
    });
    conclude(shared, &held, done);
}

fn conclude(shared: &'static Shared, held: &[Held], done: Result<Vec<Put>, Failure>) {
    let done = done.unwrap_or_else(|_| held.iter().map(|_| Put::Held).collect());
    for (held, done) in held.iter().zip(done) {
        match done {
            Put::Held => give_again(shared, held),
            Put::Back(next_index) => {
                let mut locked = shared.lock_slot(held.number);
                if locked.serial() == held.serial {
                    locked.reserved_to = Some(next_index);
                }
            }
            Put::Outdated => {}
        }
    }
}

/// What became of what one pool held.
enum Put {
    /// It is in the catalog; the position is here now.
    Back(i64),
    /// Its row is held by another transaction.
    Held,
    /// The sequence was numbered anew: whoever did that has written it off.
    Outdated,
}

/// Writes down what one pool held.
fn put_back_one(ids: &Ids, shared: &'static Shared, held: &Held) -> Result<Put, HiloError> {
    let Some((locked, sequence)) = reserve::with_sequence(ids, held.sequence)? else {
        return Ok(Put::Held);
    };
    let mut position = locked.position;
    if position.epoch != held.epoch || position.incarnation != shared.control.incarnation {
        return Ok(Put::Outdated);
    }
    let free = lower(ids, &mut position, held, sequence.definition.ordered)?;
    if sequence.definition.ordered {
        let mapping = position.mapping(&sequence.definition);
        for range in &free {
            ranges::record_gap(ids, &position, &mapping, *range, Reason::Discarded)?;
        }
    } else {
        ranges::put_free(ids, &position, &free)?;
    }
    match lowest_in_memory(shared, held.number) {
        Some(i64::MAX) => {
            position.settled_index = position.next_index;
            position.incarnation = 0;
        }
        Some(lowest) => position.settled_index = lowest.min(position.next_index),
        None => position.settled_index = position.settled_index.min(position.next_index),
    }
    if position != locked.position {
        locked.update(&position);
    }
    Ok(Put::Back(position.next_index))
}

/// Lowers the position as far as what is free reaches down from it, and returns the other free ranges.
fn lower(
    ids: &Ids,
    position: &mut Position,
    held: &Held,
    ordered: bool,
) -> Result<Vec<Range>, HiloError> {
    let mut free = held.ranges.clone();
    if let Some(reserved_to) = held.reserved_to {
        free.push(Range::new(reserved_to, position.next_index));
    }
    if !ordered {
        free.extend(ranges::take_free(ids, position, usize::MAX)?);
        catalog::table::next_command();
    }
    free.retain(|range| !range.is_empty());
    free.sort_unstable();
    let mut merged: Vec<Range> = Vec::with_capacity(free.len());
    for range in free {
        match merged.last_mut().and_then(|last| last.joined(&range).map(|joined| (last, joined))) {
            Some((last, joined)) => *last = joined,
            None => merged.push(range),
        }
    }
    if merged.last().is_some_and(|last| last.end == position.next_index)
        && let Some(top) = merged.pop()
    {
        position.next_index = top.start;
    }
    Ok(merged)
}

/// It could not be put back: it goes into the pool again. Returned ranges and blocks are not told apart
/// here, so all are returned ones: a session takes only what lies beyond its last value.
fn give_again(shared: &'static Shared, held: &Held) {
    let mut locked = shared.lock_slot(held.number);
    if locked.serial() != held.serial {
        return;
    }
    for range in &held.ranges {
        let kept = match locked.terms() {
            Some((terms, _)) if terms.ordered => locked.publish(held.epoch, *range),
            _ => locked.restore(*range),
        };
        if !kept {
            locked.lost += range.len();
        }
    }
}
