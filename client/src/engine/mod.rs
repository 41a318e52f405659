//! Decides what a client asks the server for, when, and what it gives back: without I/O, threads or
//! a clock of its own.
//!
//! An [`Engine`] knows the leases of all sequences of a client. Its caller takes values from them
//! and tells it when little is left ([`Engine::check`]). It carries out the statements that the
//! engine plans ([`Engine::plan`]), and reports their outcomes. A client does this against a
//! server; `tests/simulation.rs` does it on virtual time.
//!
//! Rate, threshold and the size of a lease are those of `hilo_core::policy`, with a pool that holds
//! twice the buffer. A refill begins when the buffer is left, so an outage as long as the buffer is
//! survived at any moment. Statements are paced, and each takes along the sequences that are near
//! their threshold.

mod outcome;
mod plan;
mod supply;

use std::collections::{HashMap, HashSet, VecDeque};

use hilo_core::backoff;
use hilo_core::numbers::{Micros, Monotonic};
use hilo_core::policy;
use uuid::Uuid;

use crate::lane;

pub use outcome::Failure;
pub use plan::{Ask, Plan, Purpose, Return};
pub use supply::Run;
use supply::Supply;

const SECOND: i64 = 1_000_000;
/// At no time.
pub const NEVER: Monotonic = Monotonic(i64::MAX);
/// At a time that nobody here knows.
const SOME_TIME: Monotonic = Monotonic(NEVER.0 - 1);
/// The shortest time between two statements while nobody waits: a sequence whose rate jumps up can
/// not wait for its turn.
const URGENT: i64 = SECOND / 50;
/// The most leases that one statement takes. A server has room for 16,384 in open transactions,
/// those of other clients included. After a failure it takes fewer, down to a single one.
const MOST_ASKS: usize = 1_000;
/// How many leases a statement returns or renews for each that it may take.
const ENDS_PER_ASK: usize = 10;

/// A sequence of an engine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Id(pub u32);

/// Values that this client may serve.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lease {
    /// The lease's name on the server.
    pub token: Uuid,
    /// The last value.
    pub last: i64,
    /// From one value to the next.
    pub increment: i64,
    /// How many values are left, the last one included.
    pub count: i64,
    /// When it expires, at the earliest; [`NEVER`] without a ttl.
    pub expires: Monotonic,
}

impl Lease {
    /// The first value that is left.
    pub fn first(&self) -> i64 {
        lane::value(self.last, self.increment, self.count as u32)
    }

    /// The first of the last `left` values, or the value after the last one. The server leases no
    /// value that has no successor.
    fn next(&self, left: i64) -> i64 {
        lane::value(self.last, self.increment, left as u32)
    }
}

/// How an engine behaves.
#[derive(Clone, Copy, Debug, Default)]
pub struct Settings {
    /// How long what is left lasts when a refill begins.
    pub buffer: Micros,
    /// The time between two statements while nobody waits.
    pub pace: Micros,
    /// The time over which rates are measured.
    pub window: Micros,
    /// How long a lease is open without being renewed.
    pub ttl: Option<Micros>,
    /// Least and greatest sizes. The engine sets its buffer.
    pub policy: policy::Settings,
}

impl Settings {
    /// The settings for a buffer: a statement every twelfth of it, but at least a fifth of a second
    /// and at most five seconds apart.
    pub fn new(buffer: Micros, ttl: Option<Micros>) -> Settings {
        let pace = (buffer.0 / 12).clamp(SECOND / 5, 5 * SECOND);
        let policy = policy::Settings { max_block: 1 << 24, ..policy::Settings::default() };
        Settings { buffer, pace: Micros(pace), window: Micros(60 * SECOND), ttl, policy }
    }

    /// The policy's settings. A pool reaches its threshold when what is left lasts for the buffer
    /// and until a statement may be sent.
    fn refill(&self) -> policy::Settings {
        let seconds = self.buffer.0.saturating_add(self.pace.0) as f64 / SECOND as f64;
        policy::Settings { buffer: 2.0 * seconds, ..self.policy }
    }
}

/// The state of one sequence.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Figures {
    /// Values served.
    pub taken: i64,
    /// Leases received.
    pub refills: u64,
    /// Values per second.
    pub rate: f64,
    /// Values that can be served.
    pub left: i64,
    /// Open leases.
    pub leases: usize,
}

/// See the module's documentation.
#[derive(Debug, Default)]
pub struct Engine {
    settings: Settings,
    supplies: Vec<Supply>,
    /// Places of sequences that were forgotten.
    vacant: Vec<Id>,
    /// Sequences below their threshold; a supply notes whether it is listed here.
    low: Vec<Id>,
    /// The most leases that the next statement takes.
    most_asks: usize,
    /// A sequence is asked for only if it was refused at most this often.
    most_refusals: u32,
    /// Sequences near their threshold, which are asked for together with low ones.
    near: Vec<Id>,
    /// Leases whose answer was lost: they are asked for by their names.
    again: Vec<Ask>,
    /// Ranges to ask for: of which sequence, how many values, and the caller's ticket.
    ranges: VecDeque<(Id, i64, u64)>,
    /// The lease of each caller who waits for a range, once it has come.
    tickets: HashMap<u64, Option<(Id, Lease)>>,
    last_ticket: u64,
    /// Leases to end, with any statement from now on, and the latest time for it.
    returns: Vec<Return>,
    /// Leases that have expired, and so are not returned.
    expired: Vec<Uuid>,
    ends_due: Monotonic,
    /// Leases whose return the server refuses for now: they are tried again later and later.
    held: Vec<Return>,
    held_due: Monotonic,
    held_attempt: u32,
    due: Monotonic,
    last_plan: Monotonic,
    in_flight: bool,
    /// Nothing is sent before this, because the last plan failed.
    not_before: Monotonic,
    attempt: u32,
    housekeeping: Monotonic,
    renewal: Monotonic,
    random: u64,
}

impl Engine {
    /// A new engine at `now`. `seed` makes its jitter differ from that of others.
    pub fn new(settings: Settings, now: Monotonic, seed: u64) -> Engine {
        let renewal = settings.ttl.map_or(NEVER, |ttl| after(now, Micros(ttl.0 / 2)));
        Engine {
            settings: Settings { policy: settings.refill(), ..settings },
            most_asks: MOST_ASKS,
            ends_due: NEVER,
            held_due: NEVER,
            due: NEVER,
            last_plan: Monotonic(i64::MIN / 2),
            not_before: now,
            housekeeping: after(now, settings.window),
            renewal,
            random: seed,
            ..Engine::default()
        }
    }

    /// Adds a sequence, in a [`vacant`](Self::vacant) place or in a new one. Nothing is asked for
    /// before it is used.
    pub fn register(&mut self, place: Option<Id>) -> Id {
        match place {
            Some(id) => {
                self.vacant.retain(|vacant| *vacant != id);
                *self.supply(id) = Supply::default();
                id
            }
            None => {
                self.supplies.push(Supply::default());
                Id(self.supplies.len() as u32 - 1)
            }
        }
    }

    /// The place of a sequence that was forgotten, if nothing is on its way for it.
    pub fn vacant(&self) -> Option<Id> {
        let is_quiet = !self.in_flight && self.again.is_empty();
        self.vacant.last().copied().filter(|_| is_quiet)
    }

    /// Forgets a sequence that nobody waits for.
    pub fn vacate(&mut self, id: Id) {
        self.low.retain(|low| *low != id);
        self.near.retain(|near| *near != id);
        self.vacant.push(id);
    }

    /// Moves the next lease of a sequence to a lane, from which its values are then taken.
    pub fn serve(&mut self, id: Id, lane: u16) -> Option<Lease> {
        self.supply(id).serve(lane)
    }

    /// Ends the lease of a lane, if it has one. `left` of its values are left, which nobody takes
    /// any more.
    pub fn finish(&mut self, id: Id, lane: u16, left: i64, now: Monotonic) {
        if let Some(lease) = self.supply(id).finish(lane, left) {
            self.give_back(lease, left, now);
        }
    }

    /// Takes `count` consecutive values from a lease that is in no lane.
    pub fn take_run(&mut self, id: Id, count: i64, now: Monotonic) -> Option<Run> {
        let (run, used_up) = self.supply(id).take_run(count)?;
        if let Some(lease) = used_up {
            self.give_back(lease, 0, now);
        }
        Some(run)
    }

    /// Ends a lease whose last `left` values were not used.
    pub fn give_back(&mut self, lease: Lease, left: i64, now: Monotonic) {
        // The server has written off an expired lease, and would refuse its return.
        if now < lease.expires {
            self.returns.push(Return { token: lease.token, next: lease.next(left), tried: false });
            self.ends_due = self.ends_due.min(after(now, self.settings.window));
        } else {
            self.expired.push(lease.token);
        }
    }

    /// The leases that expired before they could be returned, since the last call.
    pub fn take_expired(&mut self) -> Vec<Uuid> {
        std::mem::take(&mut self.expired)
    }

    /// The leases that are to be asked for again by their names.
    pub fn asked_again(&self) -> HashSet<Uuid> {
        self.again.iter().map(|ask| ask.token).collect()
    }

    /// Goes on with a lease that an earlier process has asked for, and perhaps got.
    pub fn resume_ask(&mut self, id: Id, count: i64, token: Uuid, now: Monotonic) {
        let (purpose, tried) = (Purpose::Stock, Some(now));
        self.supply(id).asked += 1;
        self.again.push(Ask { id, count, purpose, token, tried });
        self.due = self.due.min(now);
    }

    /// Returns a lease that an earlier process has used, perhaps for the second time.
    pub fn resume_return(&mut self, token: Uuid, next: i64, now: Monotonic) {
        self.returns.push(Return { token, next, tried: true });
        self.ends_due = self.ends_due.min(now);
    }

    /// When a lease of an earlier process is taken to expire: it is renewed at once. Without a ttl
    /// it then never expires. `expires`: it does so if it is not renewed.
    pub fn resumed_expiry(&mut self, expires: bool, now: Monotonic) -> Monotonic {
        if self.settings.ttl.is_none() && !expires {
            return NEVER;
        }
        self.renewal = self.renewal.min(now);
        self.settings.ttl.map_or(SOME_TIME, |ttl| after(now, Micros(ttl.0 / 2)))
    }

    /// Sets how many lanes a sequence is to be served from. From now on it takes a lease for each.
    pub fn set_lanes(&mut self, id: Id, lanes: u16) {
        self.supply(id).lanes = lanes;
    }

    /// Whether leases for several lanes of a sequence have come.
    pub fn is_spread(&self, id: Id) -> bool {
        self.supplies[id.0 as usize].is_spread()
    }

    /// A caller waits for one value, or (`more` false) does not wait any more.
    pub fn wait(&mut self, id: Id, more: bool) {
        let supply = self.supply(id);
        supply.waiting = if more { supply.waiting + 1 } else { supply.waiting - 1 };
    }

    /// A caller has found nothing, and does not wait.
    pub fn want(&mut self, id: Id) {
        self.supply(id).wanted = true;
    }

    /// A caller waits for a lease of its own of `count` values. Returns its ticket.
    pub fn wait_for_range(&mut self, id: Id, count: i64, now: Monotonic) -> u64 {
        self.last_ticket += 1;
        self.tickets.insert(self.last_ticket, None);
        self.ranges.push_back((id, count, self.last_ticket));
        self.due = self.due.min(self.retry_at(id, now));
        self.last_ticket
    }

    /// The lease of a ticket, if it has come. Its caller uses all of it.
    pub fn claim(&mut self, ticket: u64, now: Monotonic) -> Option<Lease> {
        let (id, lease) = self.tickets.get_mut(&ticket)?.take()?;
        self.supply(id).hand_over(lease.count);
        self.give_back(lease, 0, now);
        Some(lease)
    }

    /// Gives up a ticket, because its caller does not wait any more. Other callers get the lease,
    /// now or when it comes. Returns whether it has come.
    pub fn forget_range(&mut self, ticket: u64) -> bool {
        match self.tickets.remove(&ticket) {
            Some(Some((id, lease))) => {
                self.supply(id).stock(lease);
                true
            }
            Some(None) => {
                self.ranges.retain(|(_, _, waiting)| *waiting != ticket);
                false
            }
            None => false,
        }
    }

    /// Checks a sequence whose lanes hold `in_lanes` values. Returns at which number of values left
    /// it wants to check again; 0: when none is left.
    pub fn check(&mut self, id: Id, now: Monotonic, in_lanes: i64) -> i64 {
        let (pace, last_plan) = (self.settings.pace, self.last_plan);
        let settings = &self.settings;
        let supply = &mut self.supplies[id.0 as usize];
        let seen = supply.look(now, in_lanes, settings);
        if seen.low && !supply.is_low && supply.asked == 0 {
            supply.is_low = true;
            supply.due = NEVER;
            self.low.push(id);
        }
        if seen.near && !supply.is_near && !supply.is_low && supply.asked == 0 {
            supply.is_near = true;
            self.near.push(id);
        }
        if seen.low && supply.asked == 0 {
            let slot = after(last_plan, pace);
            // If the sequence would run dry before the turn after this one, it does not wait for
            // that.
            let at = match seen.lasts {
                _ if seen.awaited => now,
                lasts if after(now, lasts) < after(slot, Micros(SECOND)) => {
                    after(last_plan, Micros(URGENT))
                }
                _ => slot,
            };
            let retry = supply.not_before(now, settings.window, seen.awaited);
            supply.due = supply.due.min(at.max(retry));
            self.due = self.due.min(supply.due);
        }
        seen.mark
    }

    /// When [`plan`](Self::plan) has work; [`NEVER`] if there is none, and while a plan is being
    /// carried out.
    pub fn due(&self) -> Monotonic {
        match self.in_flight {
            true => NEVER,
            false => {
                let ends = self.ends_due.min(self.held_due);
                let all = self.due.min(ends).min(self.renewal).min(self.housekeeping);
                all.max(self.not_before)
            }
        }
    }

    /// Whether the last plan failed.
    pub fn is_cut_off(&self) -> bool {
        self.attempt > 0
    }

    /// The state of a sequence.
    pub fn figures(&self, id: Id, now: Monotonic, in_lanes: i64) -> Figures {
        self.supplies[id.0 as usize].figures(now, in_lanes, self.settings.window)
    }

    /// Ends every lease that is in no lane, because nothing is served any more.
    pub fn give_back_all(&mut self, now: Monotonic) {
        for (_, lease) in std::mem::take(&mut self.tickets).into_values().flatten() {
            self.give_back(lease, lease.count, now);
        }
        for number in 0..self.supplies.len() {
            self.give_back_stock(Id(number as u32), now);
        }
    }

    /// Ends every lease of a sequence that is in no lane.
    pub fn give_back_stock(&mut self, id: Id, now: Monotonic) {
        while let Some(lease) = self.supply(id).unstock() {
            self.give_back(lease, lease.count, now);
        }
    }

    fn supply(&mut self, id: Id) -> &mut Supply {
        &mut self.supplies[id.0 as usize]
    }

    fn random(&mut self) -> u32 {
        // splitmix64
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.random;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ (mixed >> 31)) >> 32) as u32
    }

    /// How long to wait after failed attempt number `attempt`.
    fn delay(&mut self, attempt: u32) -> Micros {
        backoff::delay_of_many(attempt, self.random()).into()
    }

    /// The most leases that the next statement returns, and the most that it renews.
    fn most_ends(&self) -> usize {
        self.most_asks * ENDS_PER_ASK
    }
}

fn after(at: Monotonic, span: Micros) -> Monotonic {
    Monotonic(at.0.saturating_add(span.0))
}
