//! Read-ahead: the first blocks of sequences that sessions will probably use next.
//!
//! It pays where a session uses thousands of sequences for the first time, as after a start of the
//! server. Without it the session waits for a transaction of the worker each time. After four such
//! waits, each soon after the other, the worker fetches the four sequences that come next, then 16,
//! 64 and so on. Two of the four must have been for a sequence next to an earlier one. If a
//! partition owns the sequence, the sequences of the partitions behind it come next. Otherwise the
//! names that count on from its name come next, then those that follow in the alphabet. The first
//! sequence that is fetched is the trigger: its first use has more sequences fetched before a
//! session waits for them. It stops where the sequences end, where a session uses none of them, and
//! with `hilo.prefetch` off. When it was in vain, it begins again only after twice as many waits.
//! In docs/benchmarks.md a session waits for 172 of 9,000 first uses, and without it for each.
//!
//! The worker tells this module what has come of each plan ([`Worker::note_outcome`]). It asks for
//! the slots to fetch ([`Worker::read_ahead`]), and for the threshold of a slot, which is another
//! one for the trigger ([`Worker::threshold`]).

use std::collections::VecDeque;
use std::sync::atomic::Ordering::*;
use std::time::{Duration, Instant};

use hilo_core::numbers::SequenceId;

use crate::catalog::rows::catalog_tables;
use crate::catalog::sequence::definitions;
use crate::gucs;
use crate::shared::key::Key;
use crate::worker::Worker;
use crate::worker::plan::Plan;
use crate::worker::refill::BATCH;
use crate::worker::reserve::Outcome;
use crate::worker::transaction::{self, BRIEFLY};

/// The most sequences that are read ahead at once. With those that sessions want meanwhile, they
/// are one transaction.
const MAX_AHEAD: usize = BATCH - 16;

/// The number of waits, each within [`PAUSE`] of the one before, that precede the first read-ahead.
const FIRST: u32 = 4;
const PAUSE: Duration = Duration::from_secs(1);

/// How far two sequences in order may be apart to count as neighbours.
const NEAR: usize = 4;

/// How many of the last four waits must be for a neighbour of an earlier one. Otherwise the waits
/// are in no order, and nothing is read ahead.
const IN_ORDER: u32 = 2;
const LAST_FOUR: u32 = 0b1111;

/// After how many waits the next sequences are expected.
const SESSIONS: usize = 4;

/// The first uses that sessions have waited for.
#[derive(Default)]
pub struct FirstUses {
    /// How many waits came soon after the one before.
    waits: u32,
    /// When the last one came.
    at: Option<Instant>,
    /// The last sequence that was waited for, until something is read ahead of it.
    last: Option<SequenceId>,
    /// The neighbours of sequences that were waited for: several sessions may each go on in their
    /// own order.
    expected: VecDeque<Vec<SequenceId>>,
    /// Which waits were for an expected sequence: a bit for each, the last one lowest.
    in_order: u32,
    trigger: Option<Trigger>,
    /// Whether the next reservation fetches the sequences that were read ahead last.
    in_flight: bool,
    /// How often in a row a read-ahead was of no use.
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
    fn note(&mut self, sequence: SequenceId) {
        if self.at.is_none_or(|at| at.elapsed() > PAUSE) {
            (self.waits, self.misses, self.in_order) = (0, 0, 0);
        }
        self.waits = self.waits.saturating_add(1);
        self.at = Some(Instant::now());
        self.last = Some(sequence);
    }

    /// Notes that the first use of the trigger has come. Reading ahead goes on behind `end`.
    fn on_trigger(&mut self, end: SequenceId) {
        (self.waits, self.misses) = (self.waits.max(FIRST), 0);
        self.note(end);
        self.expect(vec![end]);
    }

    /// Notes the neighbours of a sequence that was waited for.
    fn expect(&mut self, next: Vec<SequenceId>) {
        if self.expected.len() == SESSIONS {
            self.expected.pop_front();
        }
        self.expected.push_back(next);
    }

    /// Whether the waits are in some order. The beginning or the end of an order does not count
    /// against it.
    fn are_in_order(&mut self, last: SequenceId) -> bool {
        let at = self.expected.iter().position(|next| next.contains(&last));
        let is_next = at.and_then(|at| self.expected.remove(at)).is_some();
        if !is_next {
            self.waits = self.waits.min(FIRST << self.misses);
        }
        self.in_order = (self.in_order << 1 | u32::from(is_next)) & LAST_FOUR;
        self.in_order.count_ones() >= IN_ORDER
    }

    /// Notes that a read-ahead was of no use. The next one comes after twice as many waits.
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

    fn is_trigger(&self, number: usize, sequence: SequenceId) -> bool {
        let trigger = self.trigger.as_ref();
        trigger.is_some_and(|it| it.number == number && it.sequence == sequence)
    }
}

impl Worker {
    /// The threshold of a slot that has `available` values now: `usual`, unless the slot is marked.
    pub(super) fn threshold(&self, key: &Key, number: usize, usual: i64, available: i64) -> i64 {
        match self.first_uses.is_trigger(number, key.sequence) {
            true => available.max(usual),
            false => usual,
        }
    }

    /// Notes what has come of a plan.
    pub(super) fn note_outcome(&mut self, plan: &Plan, outcome: &Outcome) {
        let (number, sequence) = (plan.number, plan.index_space.key.sequence);
        let is_trigger = self.first_uses.is_trigger(number, sequence);
        match outcome {
            Outcome::Reserved(reserved) => {
                if is_trigger && let Some(trigger) = &mut self.first_uses.trigger {
                    trigger.threshold = Some(reserved.taken.threshold);
                }
                if plan.is_first_use() {
                    self.first_uses.note(sequence);
                }
            }
            // The others are probably not this server's own either.
            Outcome::NotOurs if is_trigger => {
                self.first_uses.trigger = None;
                self.first_uses.on_miss();
            }
            _ => {}
        }
    }

    /// If the trigger is among the slots that ask for the worker, notes that, as a wait.
    fn note_trigger(&mut self, asking: &[usize]) {
        let reached =
            |trigger: &mut Trigger| trigger.threshold.is_some() && asking.contains(&trigger.number);
        let Some(trigger) = self.first_uses.trigger.take_if(reached) else { return };
        let locked = self.shared.lock_slot(trigger.number);
        if locked.key.database == self.database.to_u32() && locked.key.sequence == trigger.sequence
        {
            locked.slot.threshold.store(trigger.threshold.unwrap_or_default(), Relaxed);
            drop(locked);
            self.first_uses.on_trigger(trigger.end);
        }
    }

    /// Reads ahead of the first uses that have been noted since the last time. Called before a
    /// reservation with the slots that it is for: if the trigger is among them, returns the slots
    /// to fetch with these. Called after it with none.
    ///
    /// A sequence that is read ahead becomes an active one like any other. It takes no slot that
    /// others may need soon, and nothing that another server serves: see [`Outcome::NotOurs`].
    pub(super) fn read_ahead(&mut self, asking: &[usize]) -> Vec<usize> {
        let none = Vec::new();
        self.note_trigger(asking);
        let is_reason = self.first_uses.last.is_some() && asking.len() <= BATCH - MAX_AHEAD;
        if !asking.is_empty() && !is_reason {
            return none;
        }
        // Whoever waits now waits for a sequence that is already being fetched.
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
            // If the trigger is among these sequences, they have been read ahead already.
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
