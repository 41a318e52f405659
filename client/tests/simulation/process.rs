//! One process: an engine, and what callers have taken from its leases.
//!
//! Draws are a Poisson process. Nobody needs to know of each. The moment that empties a lane, or
//! goes below a mark, is drawn at random, and the others are spread evenly between.

use fastrand::Rng;
use hilo_client::engine::{Engine, Id, Settings};
use hilo_core::numbers::{Micros, Monotonic};

const SECOND: f64 = 1e6;
pub const NONE: u32 = u32::MAX;

/// A counter as one process uses it.
pub struct Pair {
    pub counter: u32,
    /// Values in its lane at `at`.
    left: i64,
    at: i64,
    /// So many draws later it is `until`.
    draws: i64,
    until: i64,
    /// Events of another version are out of date.
    pub version: u32,
    /// Since when a caller waits; `None`: nobody does.
    pub waiting: Option<i64>,
    pub used: bool,
}

pub struct Process {
    pub engine: Engine,
    pub pairs: Vec<Pair>,
    /// The pair of each counter.
    pub of: Vec<u32>,
    /// Its life: events of an earlier one are out of date.
    pub life: u32,
    pub plan_at: i64,
    pub statement: u32,
}

impl Process {
    pub fn new(counters: usize, buffer: f64, now: Monotonic, life: u32, rng: &mut Rng) -> Process {
        let settings = Settings::new(Micros((buffer * SECOND) as i64), None);
        Process {
            engine: Engine::new(settings, now, rng.u64(..)),
            pairs: Vec::new(),
            of: vec![NONE; counters],
            life,
            plan_at: i64::MAX,
            statement: 0,
        }
    }

    /// The pair of a counter, which begins with its first draw.
    pub fn pair(&mut self, counter: u32, now: Monotonic) -> Id {
        let of = &mut self.of[counter as usize];
        if *of == NONE {
            *of = self.pairs.len() as u32;
            self.engine.register(None);
            self.pairs.push(Pair {
                counter,
                left: 0,
                at: now.0,
                draws: 1,
                until: now.0,
                version: 0,
                waiting: None,
                used: false,
            });
        }
        Id(*of)
    }

    pub fn remaining(&self, id: Id, now: Monotonic) -> i64 {
        self.pairs[id.0 as usize].remaining_at(now)
    }

    /// The draws that are due at `now` have been made. Returns how many they were, and whether the
    /// last one found nothing.
    pub fn draw(&mut self, id: Id, now: Monotonic) -> (i64, bool) {
        let pair = &mut self.pairs[id.0 as usize];
        pair.at = now.0;
        if pair.left == 0 {
            pair.waiting = Some(now.0);
            pair.version += 1;
            self.engine.wait(id, true);
            self.engine.check(id, now, 0);
            return (0, true);
        }
        let draws = pair.draws;
        pair.left -= draws;
        (draws, false)
    }

    /// Looks at a pair: serves the next lease if the last one is used up. Returns the draw to look
    /// at next, and how many have been made until then; none while a caller waits.
    pub fn look(&mut self, id: Id, now: Monotonic, rate: f64, rng: &mut Rng) -> Option<i64> {
        let pair = &mut self.pairs[id.0 as usize];
        pair.left = pair.remaining_at(now);
        pair.at = now.0;
        pair.version += 1;
        if pair.left == 0 {
            self.engine.finish(id, 0, 0, now);
            pair.left = self.engine.serve(id, 0).map_or(0, |lease| lease.count);
        }
        if pair.left > 0 && pair.waiting.take().is_some() {
            self.engine.wait(id, false);
            pair.left -= 1;
            if pair.left == 0 {
                self.engine.finish(id, 0, 0, now);
                pair.left = self.engine.serve(id, 0).map_or(0, |lease| lease.count);
            }
        }
        let mark = self.engine.check(id, now, pair.left);
        if pair.waiting.is_some() {
            pair.until = i64::MAX;
            return None;
        }
        let total = self.engine.figures(id, now, pair.left).left;
        pair.draws = (total - mark + 1).clamp(1, pair.left.max(1));
        pair.until = now.0 + arrival(pair.draws, rate, rng);
        Some(pair.until)
    }

    /// How many values it holds.
    pub fn holding(&self, now: Monotonic) -> i64 {
        let of = |number| {
            let id = Id(number as u32);
            self.engine.figures(id, now, self.remaining(id, now)).left
        };
        (0..self.pairs.len()).map(of).sum()
    }
}

impl Pair {
    pub fn remaining_at(&self, now: Monotonic) -> i64 {
        let span = self.until.saturating_sub(self.at);
        if self.until == i64::MAX || span <= 0 {
            return self.left;
        }
        let part = (now.0 - self.at) as f64 / span as f64;
        // The last draw of these is made when its event comes.
        let made = ((self.draws as f64 * part) as i64).clamp(0, (self.draws - 1).max(0));
        (self.left - made).max(0)
    }
}

/// µs until the `draws`th event of a Poisson process.
fn arrival(draws: i64, rate: f64, rng: &mut Rng) -> i64 {
    let mean = draws as f64;
    let events = if draws <= 12 {
        (0..draws).map(|_| -(1.0 - rng.f64()).ln()).sum()
    } else {
        // The sum of twelve uniform numbers is nearly normal.
        let normal = (0..12).map(|_| rng.f64()).sum::<f64>() - 6.0;
        (mean + mean.sqrt() * normal).max(0.0)
    };
    ((events / rate * SECOND) as i64).max(1)
}
