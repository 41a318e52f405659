//! Read-ahead. A session that uses one sequence after the other for the first time would wait for a
//! transaction of the worker each time. So if a few were waited for, and they follow each other,
//! the worker also fetches those that will probably be next. Each further one that is waited for
//! means more of them, as the read-ahead of a file system does. The first of those that are read
//! ahead is marked. Its first use has the next ones fetched, before a session waits for them.

use std::collections::VecDeque;
use std::sync::atomic::Ordering::*;
use std::time::{Duration, Instant};

use hilo_core::numbers::SequenceId;

use crate::catalog::rows::catalog_tables;
use crate::catalog::sequence::definitions;
use crate::gucs;
use crate::shared::key::Key;
use crate::worker::Worker;
use crate::worker::refill::MAX_AHEAD;
use crate::worker::transaction::{self, BRIEFLY};

/// So many waits within [`PAUSE`] of each other come before the first read-ahead.
const FIRST: u32 = 4;
const PAUSE: Duration = Duration::from_secs(1);

/// A sequence is next to another if there are at most so many minus one between them.
const NEAR: usize = 4;

/// So many of the last four waits are for a sequence next to an earlier one. Else they are in no
/// order, and nothing is read ahead.
const IN_ORDER: u32 = 2;
const LAST_FOUR: u32 = 0b1111;

/// After how many waits the next sequences are expected.
const SESSIONS: usize = 4;

/// The first uses that sessions have waited for.
#[derive(Default)]
pub struct FirstUses {
    /// How many came one soon after the other.
    waits: u32,
    /// When the last one came.
    at: Option<Instant>,
    /// The last one, until something is read ahead of it.
    last: Option<SequenceId>,
    /// The sequences next to some that were waited for: several sessions may go on in their own
    /// order.
    expected: VecDeque<Vec<SequenceId>>,
    /// Which waits were for an expected one: a bit for each, the last one lowest.
    in_order: u32,
    trigger: Option<Trigger>,
    /// Whether those that were read ahead last are fetched by the next reservation.
    in_flight: bool,
    /// How often in a row nothing has come of reading ahead.
    misses: u32,
}

/// A sequence that was read ahead. With a threshold above what the pool has, the first take asks
/// for the worker.
struct Trigger {
    number: usize,
    sequence: SequenceId,
    /// The threshold that it gets back, once its block is there.
    threshold: Option<i64>,
    /// The last one that was read ahead with it.
    end: SequenceId,
}

impl FirstUses {
    /// Notes that a session has waited for this sequence, whose first block it now has.
    pub fn note(&mut self, sequence: SequenceId) {
        if self.at.is_none_or(|at| at.elapsed() > PAUSE) {
            (self.waits, self.misses, self.in_order) = (0, 0, 0);
        }
        self.waits = self.waits.saturating_add(1);
        self.at = Some(Instant::now());
        self.last = Some(sequence);
    }

    /// Notes that the first use of the marked one has come. Reading ahead goes on behind `end`.
    fn on_trigger(&mut self, end: SequenceId) {
        (self.waits, self.misses) = (self.waits.max(FIRST), 0);
        self.note(end);
        self.expect(vec![end]);
    }

    /// Notes which sequences are next to one that was waited for.
    fn expect(&mut self, next: Vec<SequenceId>) {
        if self.expected.len() == SESSIONS {
            self.expected.pop_front();
        }
        self.expected.push_back(next);
    }

    /// Whether the waits are in some order, of which this one is the last. It is not held against
    /// them that an order begins, or ends.
    fn are_in_order(&mut self, last: SequenceId) -> bool {
        let at = self.expected.iter().position(|next| next.contains(&last));
        let is_next = at.and_then(|at| self.expected.remove(at)).is_some();
        if !is_next {
            self.waits = self.waits.min(FIRST << self.misses);
        }
        self.in_order = (self.in_order << 1 | u32::from(is_next)) & LAST_FOUR;
        self.in_order.count_ones() >= IN_ORDER
    }

    /// Notes that nothing has come of reading ahead. The next time comes after twice as many waits.
    fn on_miss(&mut self) {
        const MOST_MISSES: u32 = 8;
        (self.waits, self.misses) = (0, (self.misses + 1).min(MOST_MISSES));
    }

    /// How many sequences to read ahead: 4, 16, 64 and so on.
    fn due(&self) -> usize {
        match self.waits.checked_sub(FIRST << self.misses) {
            None => 0,
            Some(more) => 4_usize.checked_pow(more + 1).unwrap_or(MAX_AHEAD).min(MAX_AHEAD),
        }
    }

    fn is_mark(&self, number: usize, sequence: SequenceId) -> bool {
        self.trigger
            .as_ref()
            .is_some_and(|trigger| trigger.number == number && trigger.sequence == sequence)
    }
}

impl Worker {
    /// The threshold of a slot that has so many values now: `usual`, unless the slot is marked.
    pub(super) fn threshold(&self, key: &Key, number: usize, usual: i64, available: i64) -> i64 {
        match self.first_uses.is_mark(number, key.sequence) {
            true => available.max(usual),
            false => usual,
        }
    }

    /// Notes that the block of a slot has been published, and which threshold is usual.
    pub(super) fn set_mark(&mut self, key: &Key, number: usize, usual: i64) {
        if self.first_uses.is_mark(number, key.sequence)
            && let Some(trigger) = &mut self.first_uses.trigger
        {
            trigger.threshold = Some(usual);
        }
    }

    /// If a slot that asks for the worker is the marked one, notes that, as a wait.
    pub(super) fn pass_mark(&mut self, number: usize) {
        let reached =
            |trigger: &mut Trigger| trigger.number == number && trigger.threshold.is_some();
        let Some(trigger) = self.first_uses.trigger.take_if(reached) else { return };
        let locked = self.shared.lock_slot(number);
        if locked.key.database == self.database.to_u32() && locked.key.sequence == trigger.sequence
        {
            locked.slot.threshold.store(trigger.threshold.unwrap_or_default(), Relaxed);
            drop(locked);
            self.first_uses.on_trigger(trigger.end);
        }
    }

    /// Notes that a sequence that was read ahead is not this server's own. If it is the marked one,
    /// the others are probably none either.
    pub(super) fn drop_mark(&mut self, key: &Key, number: usize) {
        if self.first_uses.is_mark(number, key.sequence) {
            self.first_uses.trigger = None;
            self.first_uses.on_miss();
        }
    }

    /// Whether the marked slot has asked for the worker since the last time.
    pub(super) fn has_passed_mark(&self) -> bool {
        self.first_uses.last.is_some()
    }

    /// Reads ahead of the first uses that have been noted since the last time. Returns the slots
    /// that it wants.
    ///
    /// A sequence that is read ahead becomes an active one like any other. It takes no slot that
    /// others may need soon, and nothing that another server serves: see
    /// [`Outcome::NotOurs`](crate::worker::reserve::Outcome::NotOurs).
    pub(super) fn read_ahead(&mut self) -> Vec<usize> {
        let none = Vec::new();
        // A session that waits meanwhile waits for one of those.
        let in_flight = std::mem::take(&mut self.first_uses.in_flight);
        let Some(last) = self.first_uses.last.take().filter(|_| !in_flight) else { return none };
        let shared = self.shared;
        let spare = shared.free_slots().saturating_sub(shared.slots.len() / 4);
        if spare == 0 || !gucs::refill(None).prefetch {
            return none;
        }
        let most = match self.first_uses.are_in_order(last) {
            true => self.first_uses.due().min(spare),
            false => 0,
        };
        let add = |extension, sequence| {
            let pinned = shared.add(&Key::here(extension, sequence))?;
            let number = shared.number_of(pinned.slot());
            shared.wanted.set(number);
            Some((number, sequence))
        };
        let (mut ahead, mut known, mut expected) = (Vec::new(), false, Vec::new());
        let count = if most > 0 { MAX_AHEAD + NEAR } else { NEAR };
        // By name only if no sibling is left to be read ahead.
        for next in [definitions::of_siblings, definitions::following] {
            let next = transaction::run_within(BRIEFLY, c"hilo: reading ahead", || {
                Ok((catalog_tables::catalog_oids()?.extension, next(last, count)?))
            });
            // If this fails, each is fetched when it is used.
            let Ok((extension, next)) = next else { continue };
            ahead = next.iter().filter_map(|id| add(extension, *id)).take(most).collect();
            expected.extend(next.iter().take(NEAR));
            if let Some(&(_, end)) = ahead.last() {
                expected.extend(next.iter().skip_while(|id| **id != end).skip(1).take(NEAR));
            }
            // If the trigger is among them, they have been read ahead already.
            known = self.first_uses.trigger.as_ref().is_some_and(|it| next.contains(&it.sequence));
            if most > 0 && (known || !ahead.is_empty()) {
                break;
            }
        }
        self.first_uses.expect(expected);
        if most == 0 {
            return none;
        }
        if let (Some(&(number, sequence)), Some(&(_, end))) = (ahead.first(), ahead.last()) {
            self.first_uses.trigger = Some(Trigger { number, sequence, threshold: None, end });
            self.first_uses.in_flight = true;
        } else if !known {
            self.first_uses.on_miss();
        }
        ahead.into_iter().map(|(number, _)| number).collect()
    }
}
