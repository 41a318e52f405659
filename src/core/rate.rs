//! How fast a sequence is used: a sliding window over a counter that is read now and then.
//!
//! Marks (time and count), an eighth of the window apart, cover the window. The count at its far
//! edge is interpolated between the two marks around the edge (the sliding window counter of rate
//! limiters, on irregular samples). No sample is needed while nothing happens: a long gap is one
//! long interval.

use crate::numbers::{Micros, Timestamp};

/// Enough marks, an eighth of the window apart, for one to be older than the window.
const MARKS: usize = 9;
const PARTS: i64 = MARKS as i64 - 1;
const SECOND: i64 = 1_000_000;
/// A rate over a shorter time would be noise. µs
const LEAST_SPAN: i64 = SECOND;
/// The shortest time over which the rate since the last refill is measured. µs
const LEAST_REFILL_SPAN: i64 = 1_000;

#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
struct Mark {
    /// µs on the caller's clock
    at: i64,
    taken: i64,
}

/// The use of a sequence, as the policy needs to know it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Demand {
    /// values per second, the mean over the window
    pub per_second: f64,
    /// values per second since the last refill; 0 except at a refill
    pub recent: f64,
    /// the most values taken within a quarter of the window, if that is more than twice the mean;
    /// else 0
    pub burst: i64,
}

/// See the module's documentation. Made for shared memory: it has a fixed size and no pointers, and
/// all zeros are a new one. It has one writer at a time, under the caller's lock.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct Rate {
    /// oldest first
    marks: [Mark; MARKS],
    len: u64,
    last: Mark,
    refill: Mark,
}

impl Rate {
    /// Records that `taken` values had been taken by `now`. A clock or a counter that went back
    /// counts as standing still.
    pub fn sample(&mut self, now: Timestamp, taken: i64, window: Micros) {
        let seen = Mark { at: now.0, taken };
        if self.len == 0 {
            self.refill = seen;
        } else {
            self.go_back(now.0.saturating_sub(self.last.at), taken.saturating_sub(self.last.taken));
        }
        self.last = seen;
        let newest = self.marks().last().map(|mark| mark.at);
        if newest.is_none_or(|at| now.0.saturating_sub(at) >= window.0 / PARTS) {
            if self.len as usize == MARKS {
                self.marks.copy_within(1.., 0);
                self.len -= 1;
            }
            self.marks[self.len as usize] = seen;
            self.len += 1;
        }
    }

    /// Samples at the moment of a refill, as [`sample`](Self::sample) does. The demand includes
    /// what was taken since the refill before, so that growth need not wait for the window.
    pub fn refill(&mut self, now: Timestamp, taken: i64, window: Micros) -> Demand {
        self.sample(now, taken, window);
        let span = now.0.saturating_sub(self.refill.at).max(LEAST_REFILL_SPAN);
        let recent = per_second(taken.saturating_sub(self.refill.taken), span);
        self.refill = self.last;
        Demand { recent, ..self.demand(now, taken, window) }
    }

    /// The demand at `now`, without recording a sample.
    pub fn demand(&self, now: Timestamp, taken: i64, window: Micros) -> Demand {
        let per_second = self.per_second(now, taken, window);
        let burst = self.most_in_two_parts(now, taken, window);
        let mean = per_second * (window.0 / PARTS * 2) as f64 / SECOND as f64;
        Demand { per_second, recent: 0.0, burst: if burst as f64 > 2.0 * mean { burst } else { 0 } }
    }

    /// Values per second, the mean over the window until now.
    pub fn per_second(&self, now: Timestamp, taken: i64, window: Micros) -> f64 {
        let (now, taken) = (now.0.max(self.last.at), taken.max(self.last.taken));
        let Some(oldest) = self.marks().first() else { return 0.0 };
        let edge = now.saturating_sub(window.0).max(oldest.at);
        let span = now.saturating_sub(edge).max(LEAST_SPAN);
        let until = self.count_at(edge, Mark { at: now, taken });
        per_second(taken.saturating_sub(until), span)
    }

    /// How the count has risen, from the oldest moment to now. The moments are about an eighth of
    /// the window apart, each with the count at that time. Empty before the first sample. A moment
    /// just now is left out, since a rate over so short a time would be noise.
    pub fn history(&self, now: Timestamp, taken: i64) -> impl Iterator<Item = (Timestamp, i64)> {
        let end = Mark { at: now.0.max(self.last.at), taken: taken.max(self.last.taken) };
        let old = end.at.saturating_sub(LEAST_SPAN);
        let first = self.marks().first().copied();
        let others = self.marks().iter().skip(1).copied().filter(move |mark| mark.at <= old);
        let present = first.filter(|first| first.at < end.at).map(|_| end);
        let all = first.into_iter().chain(others).chain(present);
        all.map(|mark| (Timestamp(mark.at), mark.taken))
    }

    fn marks(&self) -> &[Mark] {
        // Torn or foreign memory must not cause a read outside of the array.
        &self.marks[..(self.len as usize).min(MARKS)]
    }

    /// The interpolated count at `time`, which is not before the oldest mark and not after `now`.
    fn count_at(&self, time: i64, now: Mark) -> i64 {
        let mut before = self.marks[0];
        for mark in self.marks()[1..].iter().chain([&self.last, &now]) {
            if mark.at > time {
                let part = (time as f64 - before.at as f64) / (mark.at as f64 - before.at as f64);
                let taken = mark.taken.saturating_sub(before.taken) as f64 * part;
                return before.taken.saturating_add(taken as i64);
            }
            before = *mark;
        }
        now.taken
    }

    /// The most values taken between a mark and the one after the next, so that a burst is not cut
    /// in two.
    fn most_in_two_parts(&self, now: Timestamp, taken: i64, window: Micros) -> i64 {
        let end = Mark { at: now.0.max(self.last.at), taken: taken.max(self.last.taken) };
        let mut most = 0;
        let mut before = [None, None];
        for mark in self.marks().iter().chain([&end]) {
            let is_recent = mark.at > end.at.saturating_sub(window.0);
            if let Some(start) = before[0].or(before[1]).filter(|_| is_recent) {
                most = most.max(mark.taken.saturating_sub(start));
            }
            before = [before[1], Some(mark.taken)];
        }
        most
    }

    /// Moves all marks along with a clock or a counter that jumped back.
    fn go_back(&mut self, time: i64, taken: i64) {
        let (time, taken) = (time.min(0), taken.min(0));
        if time == 0 && taken == 0 {
            return;
        }
        for mark in self.marks.iter_mut().chain([&mut self.refill]) {
            mark.at = mark.at.saturating_add(time);
            mark.taken = mark.taken.saturating_add(taken);
        }
    }
}

fn per_second(taken: i64, span: i64) -> f64 {
    taken.max(0) as f64 * SECOND as f64 / span as f64
}
