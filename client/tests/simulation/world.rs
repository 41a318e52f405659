//! Processes, a server, and what happens when.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use fastrand::Rng;
use hilo_client::engine::{Failure, Id, Lease, NEVER, Plan};
use hilo_core::numbers::Monotonic;
use uuid::Uuid;

use crate::process::{NONE, Process};
use crate::server::{Answer, CALL, Granted, Server};

const SECOND: f64 = 1e6;
/// µs until a process cancels a statement.
const TIMEOUT: i64 = 10_000_000;
/// By which power of its rank a counter is drawn less.
const SKEW: f64 = 1.2;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// A counter is drawn for the first time in this life of a process.
    First {
        process: u32,
        life: u32,
        counter: u32,
    },
    Draw {
        process: u32,
        life: u32,
        pair: u32,
        version: u32,
    },
    Plan {
        process: u32,
        life: u32,
    },
    Answer {
        process: u32,
        life: u32,
        statement: u32,
    },
}

/// The events in a span of time.
#[derive(Clone, Debug, Default)]
pub struct Phase {
    pub name: String,
    pub seconds: f64,
    pub drawn: i64,
    pub leases: u64,
    /// Statements, and those of them that took no first lease.
    pub statements: i64,
    pub refills: i64,
    pub worker: i64,
    /// The most commits in a second.
    pub peak: u32,
    /// Values that no process will serve or return.
    pub lost: i64,
    /// Callers who waited for the first value of a counter in a life of a process.
    pub first_uses: u64,
    pub waits: u64,
    /// Statements for which the server had no room, those that took too long, and the values that
    /// these had taken.
    pub full: u64,
    pub late: u64,
    pub discarded: i64,
    /// µs
    pub longest_wait: i64,
}

impl Phase {
    pub fn per_second(&self, count: i64) -> f64 {
        count as f64 / self.seconds
    }
}

/// A statement that is on its way, and what the server says to it; `None`: there is no server.
type Sent = (Plan, Option<Answer>);

pub struct World {
    processes: Vec<Process>,
    sent: Vec<Option<Sent>>,
    server: Server,
    /// How often each counter is drawn in a second by each process.
    rates: Vec<f64>,
    events: BinaryHeap<Reverse<(i64, Event)>>,
    now: i64,
    /// Until when first draws are planned.
    planned: i64,
    buffer: f64,
    phase: Phase,
    /// The draws of processes that are no more.
    past: i64,
    tokens: u128,
    rng: Rng,
}

impl World {
    pub fn new(processes: usize, counters: usize, rate: f64, buffer: f64) -> World {
        let weights: Vec<f64> = (1..=counters).map(|rank| (rank as f64).powf(-SKEW)).collect();
        let sum: f64 = weights.iter().sum();
        let mut rng = Rng::with_seed(1);
        let new = |_| Process::new(counters, buffer, Monotonic(0), 0, &mut rng);
        World {
            processes: (0..processes).map(new).collect(),
            sent: (0..processes).map(|_| None).collect(),
            server: Server::new(counters),
            rates: weights.into_iter().map(|weight| rate * weight / sum).collect(),
            events: BinaryHeap::new(),
            now: 0,
            planned: 0,
            buffer,
            phase: Phase::default(),
            past: 0,
            tokens: 0,
            rng,
        }
    }

    /// Lets `seconds` pass.
    pub fn run(&mut self, name: &str, seconds: f64) -> Phase {
        let (began, drawn) = (self.now, self.draw_count());
        let until = began + (seconds * SECOND) as i64;
        self.phase.name = name.to_owned();
        self.phase.seconds = seconds;
        for process in 0..self.processes.len() {
            self.plan_first(process as u32, self.planned.max(began), until);
        }
        self.planned = until;
        while let Some(Reverse((at, event))) = self.events.peek().copied() {
            if at >= until {
                break;
            }
            self.events.pop();
            self.now = self.now.max(at);
            self.happen(event);
        }
        self.now = until;
        let mut phase = std::mem::take(&mut self.phase);
        phase.drawn = self.draw_count() - drawn;
        let (from, to) = ((began as f64 / SECOND) as usize, (until as f64 / SECOND) as usize);
        for second in from..to {
            let of = |commits: &[u32]| commits.get(second).copied().unwrap_or(0);
            let (statements, worker) = (of(&self.server.statements), of(&self.server.worker));
            phase.statements += i64::from(statements);
            phase.worker += i64::from(worker);
            phase.peak = phase.peak.max(statements + worker);
        }
        phase
    }

    /// First draws of all counters that a process has not drawn yet, between two times.
    fn plan_first(&mut self, process: u32, from: i64, until: i64) {
        let of = &self.processes[process as usize];
        let life = of.life;
        for (counter, rate) in self.rates.iter().enumerate() {
            if of.of[counter] == NONE {
                let wait = -(1.0 - self.rng.f64()).ln() / rate * SECOND;
                let at = from.saturating_add(wait as i64);
                if at < until {
                    let event = Event::First { process, life, counter: counter as u32 };
                    self.events.push(Reverse((at, event)));
                }
            }
        }
    }

    fn happen(&mut self, event: Event) {
        let (process, life) = match event {
            Event::First { process, life, .. }
            | Event::Draw { process, life, .. }
            | Event::Plan { process, life }
            | Event::Answer { process, life, .. } => (process, life),
        };
        if self.processes[process as usize].life != life {
            return;
        }
        let now = Monotonic(self.now);
        let of = &mut self.processes[process as usize];
        match event {
            Event::First { counter, .. } => {
                let id = of.pair(counter, now);
                self.draw(process, id);
            }
            Event::Draw { pair, version, .. } => {
                if of.pairs[pair as usize].version == version {
                    self.draw(process, Id(pair));
                }
            }
            Event::Plan { .. } => {
                of.plan_at = i64::MAX;
                self.plan(process);
            }
            Event::Answer { statement, .. } => {
                if of.statement == statement {
                    self.answer(process);
                }
            }
        }
        self.schedule(process);
    }

    fn draw(&mut self, process: u32, id: Id) {
        let now = Monotonic(self.now);
        let of = &mut self.processes[process as usize];
        let (_, waits) = of.draw(id, now);
        if waits {
            match of.pairs[id.0 as usize].used {
                true => self.phase.waits += 1,
                false => self.phase.first_uses += 1,
            }
        } else {
            self.look(process, id);
        }
    }

    fn look(&mut self, process: u32, id: Id) {
        let of = &mut self.processes[process as usize];
        let pair = &of.pairs[id.0 as usize];
        let (rate, waiting, used) = (self.rates[pair.counter as usize], pair.waiting, pair.used);
        let until = of.look(id, Monotonic(self.now), rate, &mut self.rng);
        let pair = &mut of.pairs[id.0 as usize];
        if let (Some(since), None) = (waiting, pair.waiting) {
            if used {
                self.phase.longest_wait = self.phase.longest_wait.max(self.now - since);
            }
            pair.used = true;
        }
        if let Some(at) = until {
            let (life, version) = (of.life, pair.version);
            let event = Event::Draw { process, life, pair: id.0, version };
            self.events.push(Reverse((at, event)));
        }
    }

    /// Has the engine plan when it wants to.
    fn schedule(&mut self, process: u32) {
        let of = &mut self.processes[process as usize];
        let due = of.engine.due();
        if due < NEVER && due.0 < of.plan_at {
            of.plan_at = due.0.max(self.now);
            let event = Event::Plan { process, life: of.life };
            self.events.push(Reverse((of.plan_at, event)));
        }
    }

    fn plan(&mut self, process: u32) {
        let now = Monotonic(self.now);
        let of = &mut self.processes[process as usize];
        let Process { engine, pairs, .. } = of;
        let left = |id: Id| pairs[id.0 as usize].remaining_at(now);
        let Some(plan) = engine.plan(now, left) else { return };
        of.statement += 1;
        let asks: Vec<(u32, i64)> =
            plan.asks.iter().map(|ask| (pairs[ask.id.0 as usize].counter, ask.count)).collect();
        let (at, answer) = match self.server.up {
            true => {
                let others = plan.returns.len() + plan.renewals.len();
                let deadline = Monotonic(now.0 + TIMEOUT);
                let (at, answer) = self.server.carry_out(now, deadline, asks.into_iter(), others);
                (at.0, Some(answer))
            }
            false => (now.0 + 1_000, None),
        };
        let new = |id: Id| engine.figures(id, now, 0).refills == 0;
        match answer {
            Some(Answer::Full(lost)) => {
                self.phase.full += 1;
                self.phase.discarded += lost;
            }
            Some(Answer::Late(lost)) => {
                self.phase.late += 1;
                self.phase.discarded += lost;
            }
            Some(Answer::Done(_)) if !plan.asks.iter().any(|ask| new(ask.id)) => {
                self.phase.refills += 1;
            }
            _ => {}
        }
        let event = Event::Answer { process, life: of.life, statement: of.statement };
        self.sent[process as usize] = Some((plan, answer));
        self.events.push(Reverse((at, event)));
    }

    fn answer(&mut self, process: u32) {
        let now = Monotonic(self.now);
        let Some((plan, answer)) = self.sent[process as usize].take() else { return };
        let engine = &mut self.processes[process as usize].engine;
        let leases = match answer {
            None => return engine.fail_plan(plan, Failure::Unsent, now),
            Some(Answer::Late(_)) => return engine.fail_plan(plan, Failure::Unknown, now),
            Some(Answer::Full(_)) => return engine.fail_plan(plan, Failure::NoRoom, now),
            Some(Answer::Done(leases)) => leases,
        };
        let mut ids: Vec<Id> = Vec::with_capacity(leases.len());
        for (ask, Granted { last, count }) in plan.asks.iter().zip(leases) {
            self.tokens += 1;
            let token = Uuid::from_u128(self.tokens);
            let lease = Lease { token, last, increment: 1, count, expires: NEVER };
            engine.accept_lease(*ask, lease, 0);
            self.phase.leases += 1;
            ids.push(ask.id);
        }
        engine.finish_plan();
        for id in ids {
            self.look(process, id);
        }
    }

    fn draw_count(&self) -> i64 {
        let now = Monotonic(self.now);
        let of = |process: &Process| -> i64 {
            (0..process.pairs.len() as u32)
                .map(|number| {
                    let id = Id(number);
                    process.engine.figures(id, now, process.remaining(id, now)).taken
                })
                .sum()
        };
        self.past + self.processes.iter().map(of).sum::<i64>()
    }

    /// A process ends, and another one takes its place.
    fn replace(&mut self, process: usize) {
        let counters = self.rates.len();
        let before = &self.processes[process];
        let now = Monotonic(self.now);
        let taken = (0..before.pairs.len() as u32).map(|number| {
            before.engine.figures(Id(number), now, before.remaining(Id(number), now)).taken
        });
        self.past += taken.sum::<i64>();
        let life = before.life + 1;
        self.processes[process] = Process::new(counters, self.buffer, now, life, &mut self.rng);
        self.sent[process] = None;
    }

    /// Every process ends, returns what it has, and begins again at the same moment, with the
    /// counters that it used before.
    pub fn restart_all(&mut self) {
        let now = Monotonic(self.now);
        for process in 0..self.processes.len() {
            let of = &mut self.processes[process];
            for number in 0..of.pairs.len() as u32 {
                let left = of.remaining(Id(number), now);
                of.engine.finish(Id(number), 0, left, now);
            }
            of.engine.give_back_all(now);
            let mut returned = 0;
            // The values that a statement under way brings go back, too.
            if let Some((plan, answer)) = self.sent[process].take() {
                returned += plan.returns.len() + leases(&answer).len();
            }
            loop {
                let plan = of.engine.plan_returns();
                if plan.is_empty() {
                    break;
                }
                returned += plan.returns.len();
            }
            let kept = |number| of.engine.figures(Id(number), now, 0).left;
            self.phase.lost += (0..of.pairs.len() as u32).map(kept).sum::<i64>();
            self.server.carry_out(now, NEVER, std::iter::empty(), returned);
            let counters: Vec<u32> = of.pairs.iter().map(|pair| pair.counter).collect();
            self.replace(process);
            self.warm_up(process as u32, &counters);
        }
    }

    /// Has a process take the first leases of these counters together. Its callers have not begun
    /// to draw.
    fn warm_up(&mut self, process: u32, counters: &[u32]) {
        let now = Monotonic(self.now);
        let of = &mut self.processes[process as usize];
        for counter in counters {
            let id = of.pair(*counter, now);
            of.pairs[id.0 as usize].used = true;
            of.engine.want(id);
            of.engine.check(id, now, 0);
        }
        self.schedule(process);
    }

    /// Every `part`th process ends without a word. Returns how many values it held.
    pub fn crash(&mut self, part: usize) -> i64 {
        let mut held = 0;
        for process in (0..self.processes.len()).step_by(part) {
            held += self.processes[process].holding(Monotonic(self.now));
            if let Some((_, answer)) = &self.sent[process] {
                held += leases(answer).iter().map(|lease| lease.count).sum::<i64>();
            }
            self.replace(process);
        }
        self.phase.lost += held;
        held
    }

    /// Says how many leases can be in open transactions.
    pub fn set_places(&mut self, places: usize) {
        self.server.places = places;
    }

    /// Says how many times as long as usual the server takes for a lease.
    pub fn set_slowness(&mut self, times: i64) {
        self.server.call = CALL * times;
    }

    /// How many counters have nothing to serve, in all processes.
    pub fn dry(&self) -> usize {
        let now = Monotonic(self.now);
        let of = |process: &Process| {
            let pairs = 0..process.pairs.len() as u32;
            let left = |id| process.engine.figures(id, now, process.remaining(id, now)).left;
            pairs.filter(|number| left(Id(*number)) == 0).count()
        };
        self.processes.iter().map(of).sum()
    }

    pub fn stop_server(&mut self) {
        self.server.up = false;
    }

    pub fn start_server(&mut self) {
        self.server.up = true;
    }

    /// How many counters the processes have drawn from, each for itself.
    pub fn pairs(&self) -> usize {
        self.processes.iter().map(|process| process.pairs.len()).sum()
    }
}

/// The leases of a statement.
fn leases(answer: &Option<Answer>) -> &[Granted] {
    match answer {
        Some(Answer::Done(leases)) => leases,
        _ => &[],
    }
}
