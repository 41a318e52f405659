//! The catalog's ownership protocol in every order of sessions, worker, crashes, promotions and
//! ends of the database, for one small sequence. Each index has one owner, no value is handed out
//! twice, and each loss is one row.
//!
//! The rows that one transaction writes show together, so a step lies between two moments at which
//! others see something. The worker's transactions have three: it locks the position and reads what
//! memory holds, it commits, and memory learns of it. Sessions, a crash or a promotion come between
//! any two. Each action names the functions that it stands for. Renumbering is not here, because a
//! new epoch has indexes of its own.
//!
//! `cargo test -p hilo-core --test ownership`
#![cfg(not(loom))]

mod catalog;
#[path = "../checker/mod.rs"]
mod checker;
mod steps;

use stateright::{Model, Property};

use catalog::{Catalog, LIMIT, Memory, Pending, Position, State, Work, Worker, lowest, range};
use checker::{breaks, holds};
use steps::{Action, Fault, Protocol};

impl State {
    /// Each index below the position is owned by the catalog, by memory or by a client, and by one
    /// of them. The others are nobody's. A value that was seen can be a gap as well, since a crash
    /// loses what tells them apart.
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
        // The memory of an earlier life, until its position is taken over.
        let is_ours = catalog.position.life == memory.life;
        let lost = if is_ours { 0 } else { catalog.in_memory() };
        (0..LIMIT).all(|at| {
            let index = range(at, at + 1);
            let in_catalog = [catalog.free, catalog.lease_set(), memory.may_serve(), pending, lost];
            let owners = in_catalog.iter().filter(|set| *set & index != 0).count()
                + usize::from(catalog.gaps[at as usize] > 0);
            match at < catalog.position.next {
                true => owners == 1 || (owners == 0 && self.used & index != 0),
                false => owners == 0,
            }
        })
    }

    /// Nothing that may be served was used. A range that a promoted standby finds free is not
    /// served before the takeover.
    fn serves_nothing_used(&self) -> bool {
        let taken_over = self.catalog.position.timeline == self.memory.timeline;
        let free = if taken_over { self.catalog.free } else { 0 };
        (self.memory.may_serve() | free) & self.used == 0
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
            copied: None,
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
        let leased = state.catalog.lease_set();
        let last = leased & !lowest(leased);
        actions.extend([leased, last, 0].map(ReturnLease));
        actions.extend([
            Reserve,
            Flush,
            WriteOrphans,
            WriteOffDead,
            File,
            Abort,
            Commit,
            Conclude,
            Interrupt,
        ]);
        actions.extend([CutOff, Crash, Promote, Copy, Recreate]);
    }

    fn next_state(&self, state: &State, action: Action) -> Option<State> {
        use Action::*;
        match action {
            Reserve | Flush | WriteOrphans | WriteOffDead | File | Abort | Commit | Conclude
            | Interrupt => self.work(*state, action),
            CutOff | Crash | Promote | Copy | Recreate => self.fail(*state, action),
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

const CRASHES: Protocol = Protocol {
    synchronous: false,
    failures: 2,
    promotions: false,
    drops: false,
    fault: Fault::None,
};
const DROPS: Protocol = Protocol { failures: 1, drops: true, ..CRASHES };
const LAGGING: Protocol = Protocol { failures: 1, promotions: true, ..CRASHES };
const SYNCHRONOUS: Protocol = Protocol { synchronous: true, ..LAGGING };

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
fn a_database_made_again_from_its_copy_under_its_oid_repeats_nothing() {
    holds(DROPS);
}

#[test]
fn memory_that_outlives_its_database_is_found() {
    breaks(Protocol { fault: Fault::MemoryOfTheDead, ..DROPS }, "one owner each");
    breaks(Protocol { fault: Fault::MemoryOfTheDead, ..DROPS }, "nothing twice");
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
