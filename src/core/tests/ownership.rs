//! The catalog's ownership protocol in every order of sessions, worker, crashes and promotions, for one small sequence:
//! each index has one owner, no value is handed out twice, and each loss is one row.
//!
//! The rows that one transaction writes show together, so a step lies between two moments at which others see something.
//! The worker's transactions have three: it locks the position and reads what memory holds, it commits, and memory learns of
//! it. Sessions, a crash or a promotion come between any two. Each action names the functions that it stands for. Renumbering
//! is not here, because a new epoch has indexes of its own.
//!
//! `cargo test -p hilo-core --release --test ownership`
#![cfg(not(any(debug_assertions, loom)))]

use stateright::{Checker, HasDiscoveries, Model, Property};

/// So many indexes the sequence has, a block has, and a promotion skips.
const LIMIT: u8 = 3;
const BLOCK: u8 = 2;
const SKIP: u8 = 2;

/// A set of indexes.
type Set = u8;

fn range(start: u8, end: u8) -> Set {
    (0..LIMIT).filter(|at| (start..end).contains(at)).map(|at| 1 << at).sum()
}

fn lowest(set: Set) -> Set {
    set & set.wrapping_neg()
}

/// The parts of `set` without an index between them, as the rows of a table.
fn rows(set: Set) -> impl Iterator<Item = Set> {
    let starts = (0..LIMIT).filter(move |&at| set & !(set << 1) & range(at, at + 1) != 0);
    starts.map(move |start| {
        let end = (start..LIMIT).find(|&at| set & range(at, at + 1) == 0).unwrap_or(LIMIT);
        range(start, end)
    })
}

// what there is

/// `hilo.position`, of one node and epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Position {
    next: u8,
    settled: u8,
    /// The life whose memory may hold what is lent, and what lies from `settled` to `next`; 0: none.
    life: u8,
    timeline: u8,
}

/// A row of `hilo.lease`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Lease {
    range: Set,
    /// What its holder says that it has not used.
    rest: Set,
    ended: Option<Ended>,
    timeline: u8,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Ended {
    Returned,
    /// Or expired.
    Revoked,
}

/// What is committed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Catalog {
    position: Position,
    /// `hilo.free_range`: the rows of no life, and those of one.
    free: Set,
    lent: Set,
    /// `hilo.gap`: how many rows have each index.
    gaps: [u8; LIMIT as usize],
    lease: Option<Lease>,
}

/// What an open transaction has leased (`shared::pending`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Pending {
    None,
    Open(Set),
    /// It has committed, and has not freed its place yet.
    Committed(Set),
    /// It was rolled back.
    Dead(Set),
}

/// Shared memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Memory {
    life: u8,
    /// The server's.
    timeline: u8,
    /// The pool: what nobody has taken yet, and what came back.
    block: Set,
    returned: Set,
    frozen: bool,
    leaving: Set,
    /// The slices of sessions, and those without one.
    slices: Set,
    orphans: Set,
    pending: Pending,
    /// A session has locked the row of the lease, for example to renew it.
    lease_locked: bool,
}

/// A transaction of the worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Work {
    /// What the catalog becomes, but for the lease, which is another's row unless it is filed.
    writes: Catalog,
    files: bool,
    to: Effect,
}

/// What memory learns of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Effect {
    Reserved { block: Set, lent: Set, left: Set },
    Flushed(Set),
    WroteOrphans(Set),
    WroteOff(Set),
    Filed,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Worker {
    Idle,
    Begun(Work),
    Committed { to: Effect, acknowledged: bool },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct State {
    catalog: Catalog,
    /// What the standby has, since it hears nothing any more; `None`: all.
    standby: Option<Catalog>,
    memory: Memory,
    worker: Worker,
    /// What clients have used, or may have.
    used: Set,
    /// There is one lease in all.
    leased: bool,
    /// What its holder has given back. It says the same again if it hears no answer.
    said: Option<Set>,
    /// Whether a client got what a client had used.
    twice: bool,
    failures: u8,
}

// what the catalog is told

impl Memory {
    fn new(life: u8, timeline: u8) -> Memory {
        Memory {
            life,
            timeline,
            block: 0,
            returned: 0,
            frozen: false,
            leaving: 0,
            slices: 0,
            orphans: 0,
            pending: Pending::None,
            lease_locked: false,
        }
    }

    fn pending(&self) -> Set {
        match self.pending {
            Pending::None => 0,
            Pending::Open(set) | Pending::Committed(set) | Pending::Dead(set) => set,
        }
    }

    /// What may still be served.
    fn unserved(&self) -> Set {
        self.block | self.returned | self.leaving | self.slices | self.orphans
    }

    /// `Shared::in_memory`
    fn held(&self) -> Set {
        self.unserved() | self.pending()
    }
}

impl Catalog {
    /// `gaps::record`: one row.
    fn write_off(&mut self, lost: Set) {
        for at in 0..LIMIT {
            self.gaps[at as usize] += u8::from(lost & range(at, at + 1) != 0);
        }
    }

    fn leased(&self) -> Set {
        self.lease.map_or(0, |lease| lease.range)
    }

    /// What the memory of the position's life may hold, for all that the catalog knows.
    fn in_memory(&self) -> Set {
        let Position { settled, next, life, .. } = self.position;
        let held = if life == 0 { 0 } else { self.lent | range(settled, next) };
        held & !self.free & !self.leased()
    }

    /// `Owned::take_over` with `ranges::write_off_memory`, `ranges::write_off` and `takeover::skip`
    fn take_over(&mut self, memory: &Memory, skip: u8) {
        let lacks = self.position.timeline != memory.timeline;
        if self.position.life != memory.life {
            self.write_off(self.in_memory());
            self.lent = 0;
            if lacks && skip > 0 {
                self.write_off(self.free);
                self.free = 0;
            }
            self.position.life = memory.life;
            self.position.settled = self.position.next;
        }
        if lacks {
            let end = (self.position.next + skip).min(LIMIT);
            self.write_off(range(self.position.next, end));
            (self.position.next, self.position.settled) = (end, end);
            self.position.timeline = memory.timeline;
        }
    }

    /// `Owned::account`; `always` is `LentRows::Always`.
    fn account(&mut self, held: Set, untaken: Set, always: bool) {
        let Position { next, settled, .. } = self.position;
        let start = |set: Set| if set == 0 { next } else { set.trailing_zeros() as u8 };
        let taken_to = start(untaken).min(next).max(settled);
        let lowest = start(held & range(settled, next));
        let held_back = lowest == settled && lowest < taken_to;
        if always || held_back {
            self.position.settled = taken_to;
            self.lent = held & range(0, taken_to);
        } else {
            self.position.settled = lowest;
            self.lent = rows(self.lent).filter(|row| row & held != 0).sum();
        }
    }

    /// `ranges::lower`
    fn lower(&mut self) {
        if let Some(top) = rows(self.free).find(|row| {
            row & range(0, self.position.next) == *row
                && row & range(self.position.next.wrapping_sub(1), self.position.next) != 0
        }) {
            self.free &= !top;
            self.position.next = top.trailing_zeros() as u8;
            self.position.settled = self.position.settled.min(self.position.next);
        }
    }
}

// what can happen

/// What is wrong with the protocol, to see that the checker finds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    None,
    /// A worker that takes a position over and files nothing does not write the position.
    TakeoverWithoutPosition,
    /// A reservation whose wait for the standby was cut short is published.
    PublishedUnacknowledged,
}

struct Protocol {
    /// The standby is synchronous, and `hilo.failover_skip` 0. Else it may lag by [`SKIP`].
    synchronous: bool,
    failures: u8,
    promotions: bool,
    fault: Fault,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Action {
    // Sessions.
    Take,
    Serve,
    Return,
    Orphan,
    Lease,
    CommitLease,
    SettleLease,
    RollBackLease,
    LockLease,
    UnlockLease,
    ReturnLease(Set),
    RevokeLease,
    // The worker.
    Reserve,
    Flush,
    WriteOrphans,
    WriteOffDead,
    File,
    Abort,
    Commit,
    Conclude,
    // Accidents, and the standby.
    CutOff,
    Crash,
    Promote,
}

impl Protocol {
    fn skip(&self) -> u8 {
        if self.synchronous { 0 } else { SKIP }
    }

    /// `worker::reserve::reserve` and `take`
    fn reserve(&self, state: &State) -> Option<Work> {
        let memory = &state.memory;
        if memory.block | memory.returned != 0 && memory.leaving == 0 {
            return None;
        }
        let mut writes = state.catalog;
        writes.take_over(memory, self.skip());
        let left = memory.leaving;
        writes.free |= left;
        writes.account(memory.held() & !left, memory.block & !left, left != 0);
        let lent = writes.free;
        (writes.free, writes.lent) = (0, writes.lent | lent);
        let start = writes.position.next;
        if lent == 0 {
            writes.position.next = (start + BLOCK).min(LIMIT);
        }
        let block = range(start, writes.position.next);
        Some(Work { writes, files: false, to: Effect::Reserved { block, lent, left } })
    }

    /// `worker::evict::write`: `left` goes to the catalog. `None`: nothing of this life is there.
    fn write(&self, state: &State, left: Set, to: Effect) -> Option<Work> {
        let memory = &state.memory;
        if state.catalog.position.life != memory.life {
            return None;
        }
        let mut writes = state.catalog;
        match to {
            Effect::WroteOff(_) => writes.write_off(left),
            _ => writes.free |= left,
        }
        if matches!(to, Effect::Flushed(_)) {
            writes.lower();
        }
        let held = memory.held() & !left;
        writes.account(held, memory.block & !left, true);
        if held == 0 {
            writes.position.life = 0;
        }
        Some(Work { writes, files: false, to })
    }

    /// `worker::leases::file` and `settle`
    fn file(&self, state: &State) -> Option<Work> {
        let memory = &state.memory;
        let lease = state.catalog.lease?;
        let ended = lease.ended?;
        let mut writes = state.catalog;
        writes.take_over(memory, self.skip());
        let files = !memory.lease_locked && memory.pending() & lease.range == 0;
        if files {
            let lost = lease.timeline != memory.timeline && self.skip() > 0;
            match ended {
                Ended::Revoked => writes.write_off(lease.range),
                Ended::Returned if lost => writes.write_off(lease.rest),
                Ended::Returned => writes.free |= lease.rest,
            }
            writes.account(memory.held(), memory.block, true);
            if memory.held() == 0 {
                writes.position.life = 0;
            }
        } else if self.fault == Fault::TakeoverWithoutPosition {
            writes.position = state.catalog.position;
        }
        (files || writes != state.catalog).then_some(Work { writes, files, to: Effect::Filed })
    }

    fn begin(&self, state: &State, action: Action) -> Option<Work> {
        let memory = &state.memory;
        let pool = memory.block | memory.returned | memory.leaving;
        match (action, memory.pending) {
            (Action::Reserve, _) => self.reserve(state),
            (Action::Flush, _) if pool != 0 || memory.held() == 0 => {
                self.write(state, pool, Effect::Flushed(pool))
            }
            (Action::WriteOrphans, _) if memory.orphans != 0 => {
                self.write(state, memory.orphans, Effect::WroteOrphans(memory.orphans))
            }
            (Action::WriteOffDead, Pending::Dead(set)) => {
                self.write(state, set, Effect::WroteOff(set))
            }
            (Action::File, _) => self.file(state),
            _ => None,
        }
    }

    /// `Worker::publish`, and what memory gives up within the commit (`worker::leaving`).
    fn conclude(&self, memory: &mut Memory, to: Effect, acknowledged: bool) {
        match to {
            Effect::Reserved { block, lent, left } => {
                memory.leaving &= !left;
                if acknowledged || self.fault == Fault::PublishedUnacknowledged {
                    memory.block |= block;
                    memory.returned |= lent;
                } else {
                    memory.leaving |= block | lent;
                }
            }
            Effect::Flushed(left) => {
                memory.block &= !left;
                memory.returned &= !left;
                memory.leaving &= !left;
                memory.frozen = false;
            }
            Effect::WroteOrphans(left) => memory.orphans &= !left,
            Effect::WroteOff(_) => memory.pending = Pending::None,
            Effect::Filed => {}
        }
    }

    /// The steps of the worker. `None`: this one is not possible now.
    fn work(&self, mut next: State, action: Action) -> Option<State> {
        match (action, next.worker) {
            (Action::Abort, Worker::Begun(_)) => {
                next.worker = Worker::Idle;
                next.memory.frozen = false;
            }
            (Action::Commit, Worker::Begun(work)) => {
                let acknowledged = !self.synchronous || next.standby.is_none();
                let lease = if work.files { None } else { next.catalog.lease };
                next.catalog = Catalog { lease, ..work.writes };
                next.worker = Worker::Committed { to: work.to, acknowledged };
                // What no slot stands for leaves memory at once.
                if let Effect::WroteOrphans(_) | Effect::WroteOff(_) | Effect::Filed = work.to {
                    self.conclude(&mut next.memory, work.to, true);
                    next.worker = Worker::Idle;
                }
            }
            (Action::Conclude, Worker::Committed { to, acknowledged }) => {
                self.conclude(&mut next.memory, to, acknowledged);
                next.worker = Worker::Idle;
            }
            (_, Worker::Idle) => {
                next.worker = Worker::Begun(self.begin(&next, action)?);
                next.memory.frozen = action == Action::Flush;
            }
            _ => return None,
        }
        Some(next)
    }

    /// The steps of sessions and of those who hold leases.
    fn draw(&self, mut next: State, action: Action) -> Option<State> {
        let State { memory, catalog, used, leased, said, twice, .. } = &mut next;
        let pool = if memory.frozen { 0 } else { memory.block | memory.returned };
        // What came back is taken first.
        let first =
            lowest(if memory.returned != 0 { memory.returned } else { memory.block }) & pool;
        match (action, memory.pending) {
            // `session::draw` and `Locked::promote`: from the pool to a slice, from there to a client, and back.
            (Action::Take, _) if first != 0 && memory.slices | memory.orphans == 0 => {
                memory.slices |= first;
                memory.block &= !first;
                memory.returned &= !first;
            }
            (Action::Serve, _) if memory.slices != 0 => {
                *twice |= memory.slices & *used != 0;
                *used |= memory.slices;
                memory.slices = 0;
            }
            (Action::Return, _) if memory.slices != 0 => {
                memory.returned |= memory.slices;
                memory.slices = 0;
            }
            (Action::Orphan, _) if memory.slices != 0 => {
                memory.orphans |= memory.slices;
                memory.slices = 0;
            }
            // `session::lease`: the client sees the values at once, and may use them.
            (Action::Lease, Pending::None) if first != 0 && !*leased => {
                let second = lowest(memory.block & pool & !first) & (first << 1);
                let taken = first | second;
                memory.block &= !taken;
                memory.returned &= !taken;
                memory.pending = Pending::Open(taken);
                *twice |= taken & *used != 0;
                *used |= taken;
                *leased = true;
            }
            (Action::CommitLease, Pending::Open(range)) if catalog.lease.is_none() => {
                let timeline = memory.timeline;
                catalog.lease = Some(Lease { range, rest: range, ended: None, timeline });
                memory.pending = Pending::Committed(range);
            }
            (Action::SettleLease, Pending::Committed(_)) => memory.pending = Pending::None,
            (Action::RollBackLease, Pending::Open(range)) => memory.pending = Pending::Dead(range),
            (Action::LockLease, _)
                if catalog.lease.is_some_and(|lease| lease.ended.is_some())
                    && !memory.lease_locked =>
            {
                memory.lease_locked = true;
            }
            (Action::UnlockLease, _) if memory.lease_locked => memory.lease_locked = false,
            // `LockedLease::end`
            (Action::ReturnLease(rest), _) => {
                let lease = catalog.lease.as_mut().filter(|lease| lease.ended.is_none())?;
                if said.is_some_and(|said| said != rest) {
                    return None;
                }
                (lease.ended, lease.rest) = (Some(Ended::Returned), rest);
                if said.is_none() {
                    (*used, *said) = (*used & !rest, Some(rest));
                }
            }
            (Action::RevokeLease, _) => {
                let lease = catalog.lease.as_mut().filter(|lease| lease.ended.is_none())?;
                lease.ended = Some(Ended::Revoked);
            }
            _ => return None,
        }
        Some(next)
    }

    /// Accidents, and what the standby hears.
    fn fail(&self, mut next: State, action: Action) -> Option<State> {
        let Memory { life, timeline, .. } = next.memory;
        match action {
            Action::CutOff if self.promotions && next.standby.is_none() => {
                next.standby = Some(next.catalog);
                return Some(next);
            }
            Action::Crash if !self.promotions => next.memory = Memory::new(life + 1, timeline),
            Action::Promote => {
                let standby = next.standby.take()?;
                let lag = next.catalog.position.next.saturating_sub(standby.position.next);
                if lag > self.skip() && !self.synchronous {
                    return None;
                }
                next.catalog = standby;
                next.memory = Memory::new(life + 1, timeline + 1);
            }
            _ => return None,
        }
        next.failures += 1;
        next.worker = Worker::Idle;
        (next.failures <= self.failures).then_some(next)
    }
}

// what must hold

impl State {
    /// Each index below the position is owned by the catalog, by memory or by a client, and by one of them. The others are
    /// nobody's. A value that was seen can be a gap as well, since a crash loses what tells them apart.
    fn has_one_owner_each(&self) -> bool {
        let State { catalog, memory, .. } = self;
        if let Worker::Committed { .. } = self.worker {
            // Memory is about to learn of it.
            return true;
        }
        let pending = match memory.pending {
            Pending::Open(set) | Pending::Dead(set) => set,
            // Its row is there.
            Pending::Committed(_) | Pending::None => 0,
        };
        // What an earlier life held, until its position is taken over.
        let is_ours = catalog.position.life == memory.life;
        let lost = if is_ours { 0 } else { catalog.in_memory() };
        (0..LIMIT).all(|at| {
            let index = range(at, at + 1);
            let in_catalog = [catalog.free, catalog.leased(), memory.unserved(), pending, lost];
            let owners = in_catalog.iter().filter(|set| *set & index != 0).count()
                + usize::from(catalog.gaps[at as usize] > 0);
            match at < catalog.position.next {
                true => owners == 1 || (owners == 0 && self.used & index != 0),
                false => owners == 0,
            }
        })
    }

    /// Nothing that may be served was used. What a promoted standby finds free is not served before the takeover.
    fn serves_nothing_used(&self) -> bool {
        let taken_over = self.catalog.position.timeline == self.memory.timeline;
        let free = if taken_over { self.catalog.free } else { 0 };
        (self.memory.unserved() | free) & self.used == 0
    }
}

impl Model for Protocol {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        let position = Position { next: 0, settled: 0, life: 0, timeline: 1 };
        let catalog =
            Catalog { position, free: 0, lent: 0, gaps: [0; LIMIT as usize], lease: None };
        vec![State {
            catalog,
            standby: None,
            memory: Memory::new(1, 1),
            worker: Worker::Idle,
            used: 0,
            leased: false,
            said: None,
            twice: false,
            failures: 0,
        }]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        use Action::*;
        actions.extend([Take, Serve, Return, Orphan, Lease, CommitLease, SettleLease]);
        actions.extend([RollBackLease, LockLease, UnlockLease, RevokeLease]);
        // All of it, the last value, nothing.
        let leased = state.catalog.leased();
        let last = leased & !lowest(leased);
        actions.extend([leased, last, 0].map(ReturnLease));
        actions.extend([Reserve, Flush, WriteOrphans, WriteOffDead, File, Abort, Commit, Conclude]);
        actions.extend([CutOff, Crash, Promote]);
    }

    fn next_state(&self, state: &State, action: Action) -> Option<State> {
        use Action::*;
        match action {
            Reserve | Flush | WriteOrphans | WriteOffDead | File | Abort | Commit | Conclude => {
                self.work(*state, action)
            }
            CutOff | Crash | Promote => self.fail(*state, action),
            _ => self.draw(*state, action),
        }
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("nothing twice", |_, state: &State| !state.twice),
            Property::always("one row a loss", |_, state: &State| {
                state.catalog.gaps.iter().all(|rows| *rows <= 1)
            }),
            Property::always("one owner each", |_, state: &State| state.has_one_owner_each()),
            Property::always("nothing used is served", |_, state: &State| {
                state.serves_nothing_used()
            }),
            // It is not all true because nothing happens.
            Property::sometimes("all is used", |_, state: &State| state.used == range(0, LIMIT)),
            Property::sometimes("a lease is filed after a failure", |_, state: &State| {
                matches!(state.worker, Worker::Begun(Work { files: true, .. }))
                    && state.failures > 0
            }),
        ]
    }
}

const CRASHES: Protocol =
    Protocol { synchronous: false, failures: 2, promotions: false, fault: Fault::None };
const LAGGING: Protocol = Protocol { failures: 1, promotions: true, ..CRASHES };
const SYNCHRONOUS: Protocol = Protocol { synchronous: true, ..LAGGING };

/// Fails unless all promises hold in every state that there can be.
fn holds(protocol: Protocol) {
    protocol.checker().threads(2).spawn_bfs().join().assert_properties();
}

/// Fails unless `promise` is found to be broken.
fn breaks(protocol: Protocol, promise: &'static str) {
    let found = HasDiscoveries::AllOf([promise].into());
    let checker = protocol.checker().threads(2).finish_when(found).spawn_bfs().join();
    checker.assert_any_discovery(promise);
}

#[test]
fn crashes_at_any_step_repeat_nothing_and_lose_nothing_without_a_row() {
    holds(CRASHES);
}

#[test]
fn a_promoted_standby_that_lags_repeats_nothing() {
    holds(LAGGING);
}

#[test]
fn a_promoted_synchronous_standby_repeats_nothing_and_skips_nothing() {
    holds(SYNCHRONOUS);
}

#[test]
fn a_takeover_without_its_position_is_found() {
    let fault = Fault::TakeoverWithoutPosition;
    breaks(Protocol { fault, ..CRASHES }, "one row a loss");
    breaks(Protocol { fault, ..LAGGING }, "one row a loss");
}

#[test]
fn a_block_that_is_published_before_the_standby_has_it_is_found() {
    breaks(Protocol { fault: Fault::PublishedUnacknowledged, ..SYNCHRONOUS }, "nothing twice");
}
