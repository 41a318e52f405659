//! One sequence: its leases, its rate, and how much of it to hold.

use std::collections::VecDeque;

use hilo_core::backoff::{self, ATTEMPTS};
use hilo_core::numbers::{Micros, Monotonic, Timestamp};
use hilo_core::policy::{self, Remaining};
use hilo_core::rate::{Demand, Rate};
use uuid::Uuid;

use super::{Figures, Lease, SECOND, Settings};

/// A client does not know the bounds of a sequence: a lease at a bound has fewer values.
const ROOM: Remaining = Remaining { whole: i64::MAX, left: i64::MAX };
/// A sequence is asked for together with others if it is near its threshold: at most a quarter of
/// the way to its full size.
const NEAR: i64 = 4;
/// When a supply has more than this many times its full size, the rest is given back.
const SURPLUS: i64 = 2;
/// How many standard deviations above the mean a buffer covers.
const DEVIATIONS: f64 = 4.0;
/// µs of use until the rate counts.
const YOUTH: i64 = 10 * SECOND;

#[derive(Debug, Default)]
pub(super) struct Supply {
    rate: Rate,
    /// The size of the last block, as the policy counts.
    block: i64,
    /// The size that the server suggests for the next block.
    guess: i64,
    /// Leases that are in no lane.
    queue: VecDeque<Lease>,
    queued: i64,
    /// The leases in lanes.
    serving: Vec<(u16, Lease)>,
    /// Values received, less those given back.
    granted: i64,
    refills: u64,
    /// When the sequence was first seen to be used.
    began: Option<Monotonic>,
    /// When the sequence was last checked, and how many values had been taken.
    seen: Option<(Monotonic, i64)>,
    /// When it was last refilled, and how many values had been taken.
    refilled: Option<(Monotonic, i64)>,
    /// How many lanes it is to be served from; 0 is 1.
    pub(super) lanes: u16,
    /// Leases that a plan asks for.
    pub(super) asked: u16,
    /// How many callers wait.
    pub(super) waiting: i64,
    /// Whether a caller has found nothing, and did not wait.
    pub(super) wanted: bool,
    pub(super) is_low: bool,
    /// When a low sequence is to be asked for.
    pub(super) due: Monotonic,
    pub(super) is_near: bool,
    /// How often in a row the server has refused it.
    pub(super) refused: u32,
    retry: Monotonic,
}

/// Consecutive values of a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// The first value.
    pub first: i64,
    /// The distance from one value to the next.
    pub increment: i64,
    /// The lease that the values are from.
    pub token: Uuid,
    /// How many values of the lease are left.
    pub left: i64,
}

/// The result of checking a supply.
pub(super) struct Seen {
    /// Whether somebody waits for more than is there.
    pub awaited: bool,
    pub low: bool,
    pub near: bool,
    /// How long the values that are left last.
    pub lasts: Micros,
    pub mark: i64,
}

impl Supply {
    pub fn serve(&mut self, lane: u16) -> Option<Lease> {
        let lease = self.queue.pop_front()?;
        self.queued -= lease.count;
        if self.serving.is_empty() {
            // Most sequences have one lane.
            self.serving.reserve_exact(1);
        }
        self.serving.push((lane, lease));
        Some(lease)
    }

    pub fn finish(&mut self, lane: u16, left: i64) -> Option<Lease> {
        let at = self.serving.iter().position(|(serving, _)| *serving == lane)?;
        self.granted -= left;
        Some(self.serving.swap_remove(at).1)
    }

    /// A lease has come.
    pub fn stock(&mut self, lease: Lease) {
        self.granted += lease.count;
        self.queued += lease.count;
        self.refills += 1;
        if self.queue.is_empty() {
            self.queue.reserve_exact(1);
        }
        self.queue.push_back(lease);
    }

    /// Counts values that did not go through the queue.
    pub fn hand_over(&mut self, count: i64) {
        self.granted += count;
        self.refills += 1;
    }

    /// Takes a lease out of the queue, unused.
    pub fn unstock(&mut self) -> Option<Lease> {
        let lease = self.queue.pop_back()?;
        self.queued -= lease.count;
        self.granted -= lease.count;
        Some(lease)
    }

    /// `count` values of a lease in the queue, and the lease if it is used up now.
    pub fn take_run(&mut self, count: i64) -> Option<(Run, Option<Lease>)> {
        let at = self.queue.iter().position(|lease| lease.count >= count)?;
        let lease = &mut self.queue[at];
        let (first, increment, token) = (lease.first(), lease.increment, lease.token);
        lease.count -= count;
        let run = Run { first, increment, token, left: lease.count };
        self.queued -= count;
        let used_up = lease.count == 0;
        Some((run, if used_up { self.queue.remove(at) } else { None }))
    }

    /// Whether leases for several lanes have come.
    pub fn is_spread(&self) -> bool {
        self.lanes > 1 && self.queue.len() > 1
    }

    /// Whether the server has never leased values of the sequence.
    pub fn is_new(&self) -> bool {
        self.refills == 0
    }

    pub fn remaining(&self, in_lanes: i64) -> i64 {
        in_lanes + self.queued
    }

    fn taken_count(&self, in_lanes: i64) -> i64 {
        self.granted - self.remaining(in_lanes)
    }

    pub fn leases(&self) -> impl Iterator<Item = &Lease> {
        self.serving.iter().map(|(_, lease)| lease).chain(&self.queue)
    }

    pub fn leases_mut(&mut self) -> impl Iterator<Item = &mut Lease> {
        self.serving.iter_mut().map(|(_, lease)| lease).chain(&mut self.queue)
    }

    /// Counts the values that were taken, and returns what there is to do.
    pub fn look(&mut self, now: Monotonic, in_lanes: i64, settings: &Settings) -> Seen {
        let (left, taken) = (self.remaining(in_lanes), self.taken_count(in_lanes));
        self.rate.sample(clock(now), taken, settings.window);
        let recent = self.seen.map_or(0.0, |(at, before)| {
            (taken - before) as f64 * SECOND as f64 / now.since(at).0.max(1_000) as f64
        });
        self.seen = Some((now, taken));
        if taken > 0 {
            self.began.get_or_insert(now);
        }
        let demand = self.demand(now, taken, settings.window);
        let threshold = policy::threshold(self.block, &demand, ROOM, &settings.policy);
        let near = threshold + threshold / NEAR;
        let mean = demand.per_second;
        let speed = if recent > 2.0 * mean { recent } else { mean };
        let lasts = Micros((left as f64 / speed.max(1e-6) * SECOND as f64) as i64);
        // Nothing is asked for in advance for a sequence that nobody has used yet.
        let active = !self.is_new();
        let awaited = self.waiting > left || self.wanted && left == 0;
        let low = awaited || active && left < threshold;
        let mark = match () {
            // Takes above the threshold are checked too: the rate may have jumped.
            () if left < threshold => left / 2,
            () if left < near => threshold,
            () => near,
        };
        Seen { awaited, low, near: active && left < near, lasts, mark }
    }

    /// The mean rate, and as much more as random variation adds within a buffer.
    fn demand(&self, now: Monotonic, taken: i64, window: Micros) -> Demand {
        self.widen(self.rate.demand(clock(now), taken, window), now, window)
    }

    fn widen(&self, demand: Demand, now: Monotonic, window: Micros) -> Demand {
        // One value makes no rate. If many follow it, that is seen soon enough.
        let age = self.began.map_or(0, |began| now.since(began).0).max(SECOND);
        let mean = demand.per_second * (age as f64 / YOUTH as f64).min(1.0);
        let seconds = window.0 as f64 / SECOND as f64;
        Demand { per_second: mean + DEVIATIONS * (mean / seconds).sqrt(), ..demand }
    }

    /// How many values to ask for now; at least 1.
    pub fn size(&mut self, now: Monotonic, in_lanes: i64, settings: &Settings) -> i64 {
        let Settings { window, policy, .. } = *settings;
        let (left, taken) = (self.remaining(in_lanes), self.taken_count(in_lanes));
        let mut demand = self.rate.refill(clock(now), taken, window);
        demand = self.widen(demand, now, window);
        let (at, before) = self.refilled.replace((now, taken)).unwrap_or((now, taken));
        // A burst of less than a second is not a rate.
        let span = now.since(at).0.max(SECOND);
        demand.recent = (taken - before) as f64 * SECOND as f64 / span as f64;
        let previous = self.block.max(std::mem::take(&mut self.guess));
        self.block = policy::next_block(previous, &demand, ROOM, &policy);
        // A sequence that is asked for together with others needs its full size, whatever is left.
        let need = left + self.waiting.max(1);
        policy::reservation_size(left, need, self.block, &demand, ROOM, &policy)
            .clamp(1, policy.max_block)
    }

    /// How many values the server advises, by what all clients take together: the second lease need
    /// not begin small.
    pub fn suggest(&mut self, suggested: i64) {
        if self.is_new() {
            self.guess = suggested;
        }
    }

    /// How many values too many it holds, if nobody has used them for long.
    pub fn surplus(&mut self, now: Monotonic, in_lanes: i64, settings: &Settings) -> i64 {
        let Settings { window, policy, .. } = *settings;
        let (left, taken) = (self.remaining(in_lanes), self.taken_count(in_lanes));
        self.rate.sample(clock(now), taken, window);
        let demand = self.demand(now, taken, window);
        self.block = policy::shrunk_block(self.block, &demand, ROOM, &policy);
        let threshold = policy::threshold(self.block, &demand, ROOM, &policy);
        left - SURPLUS * (2 * threshold + policy.min_block)
    }

    /// The last lease, if it has at most `surplus` values.
    pub fn unstock_surplus(&mut self, surplus: i64) -> Option<Lease> {
        let fits = self.queue.back().is_some_and(|lease| lease.count <= surplus);
        if fits { self.unstock() } else { None }
    }

    /// The server has refused the sequence. Other sequences must not wait for it, and it must not
    /// be asked for all the time.
    pub fn refuse(&mut self, now: Monotonic, random: u32) {
        let delay = backoff::delay(self.refused, random);
        self.refused = self.refused.saturating_add(1);
        self.retry = super::after(now, delay.into());
    }

    /// The earliest time at which it may be asked for. A lease that is always refused is asked for
    /// once in a `window`, unless somebody waits.
    pub fn not_before(&self, now: Monotonic, window: Micros, awaited: bool) -> Monotonic {
        match self.refused {
            0 => now,
            ATTEMPTS.. if !awaited => super::after(self.retry, window),
            _ => self.retry,
        }
    }

    pub fn figures(&self, now: Monotonic, in_lanes: i64, window: Micros) -> Figures {
        let taken = self.taken_count(in_lanes);
        Figures {
            taken,
            refills: self.refills,
            rate: self.rate.per_second(clock(now), taken, window),
            left: self.remaining(in_lanes),
            leases: self.serving.len() + self.queue.len(),
        }
    }
}

/// The rate only needs a clock that counts microseconds.
fn clock(now: Monotonic) -> Timestamp {
    Timestamp(now.0)
}
