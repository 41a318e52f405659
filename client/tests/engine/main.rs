//! The requests of an engine, their times, and what it gives back.

mod plans;
mod refusals;

use hilo_client::engine::{Ask, Engine, Failure, Id, Lease, NEVER, Plan, Purpose, Settings};
use hilo_core::numbers::{Micros, Monotonic};
use uuid::Uuid;

const SECOND: i64 = 1_000_000;

fn at(seconds: f64) -> Monotonic {
    Monotonic((seconds * SECOND as f64) as i64)
}

/// A lease to serve from.
fn stock(id: u32, count: i64) -> Ask {
    Ask::new(Id(id), count, Purpose::Stock)
}

/// An engine, and how many values each of its sequences has in its lane.
struct World {
    engine: Engine,
    lanes: Vec<i64>,
    next: i64,
}

impl World {
    fn new(sequences: usize, ttl: Option<i64>) -> World {
        World::with_seed(sequences, ttl, 1)
    }

    fn with_seed(sequences: usize, ttl: Option<i64>, seed: u64) -> World {
        let settings = Settings::new(Micros(60 * SECOND), ttl.map(|ttl| Micros(ttl * SECOND)));
        let mut engine = Engine::new(settings, at(0.0), seed);
        for _ in 0..sequences {
            engine.register(None);
        }
        World { engine, lanes: vec![0; sequences], next: 1 }
    }

    fn plan(&mut self, now: Monotonic) -> Option<Plan> {
        let lanes = &self.lanes;
        self.engine.plan(now, |id| lanes[id.0 as usize])
    }

    /// Carries a plan out as the server would.
    fn carry_out(&mut self, plan: &Plan, now: Monotonic) {
        for ask in &plan.asks {
            let lease = self.lease(ask.count, self.engine.expiry(now));
            self.engine.accept_lease(*ask, lease, 0);
        }
        for (id, token) in &plan.renewals {
            self.engine.note_renewal(*id, *token, now);
        }
        self.engine.finish_plan();
        for number in 0..self.lanes.len() {
            self.fill(number, now);
        }
    }

    fn lease(&mut self, count: i64, expires: Monotonic) -> Lease {
        self.next += count;
        let token = Uuid::from_u128(self.next as u128);
        Lease { token, last: self.next - 1, increment: 1, count, expires }
    }

    fn fill(&mut self, number: usize, now: Monotonic) {
        let id = Id(number as u32);
        if self.lanes[number] == 0 {
            self.engine.finish(id, 0, 0, now);
            if let Some(lease) = self.engine.serve(id, 0) {
                self.lanes[number] = lease.count;
            }
        }
        self.engine.check(id, now, self.lanes[number]);
    }

    /// Takes values from the lane and the queue, as callers do.
    fn take(&mut self, number: usize, mut count: i64, now: Monotonic) {
        while count > 0 {
            let taken = count.min(self.lanes[number]);
            assert!(taken > 0, "it has run dry");
            self.lanes[number] -= taken;
            count -= taken;
            self.fill(number, now);
        }
        self.engine.check(Id(number as u32), now, self.lanes[number]);
    }

    /// Has all sequences begin, in one plan.
    fn begin(&mut self, now: Monotonic) {
        for number in 0..self.lanes.len() {
            self.engine.want(Id(number as u32));
            self.engine.check(Id(number as u32), now, 0);
        }
        let plan = self.plan(now).expect("they are wanted");
        assert_eq!(plan.asks.len(), self.lanes.len());
        self.carry_out(&plan, now);
    }

    fn remaining(&self, number: usize, now: Monotonic) -> i64 {
        self.engine.figures(Id(number as u32), now, self.lanes[number]).left
    }
}
