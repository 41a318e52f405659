//! A client's state file in every order of its steps and of accidents. Its process is killed
//! between any two writes, or the machine crashes with any part of them on the disk. The file is
//! copied, and leases expire meanwhile. No value is served twice, and none is lost but one that was
//! on its way to a caller.
//!
//! A write of a word is a step, and so is a message. A hit lowers the lane's word, and then the
//! caller gets the value. Others draw from the same sequence.
//!
//! `cargo test -p hilo-core --test store`
#![cfg(not(loom))]

#[path = "../checker/mod.rs"]
mod checker;
mod state;
mod steps;

use stateright::{Model, Property};

use checker::holds;
use state::{FILES, LIMIT, NAMES, State};
use steps::{Action, Fault, Protocol};

impl Model for Protocol {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        vec![State::default()]
    }

    fn actions(&self, _: &State, actions: &mut Vec<Action>) {
        use Action::*;
        for file in 0..if self.copies { FILES } else { 1 } {
            actions.extend([Open, OpenOtherwise, WriteDown, GoOn, Take, Hand].map(|one| one(file)));
            actions.extend([Release, Close, Kill, Revoke].map(|one| one(file)));
            actions.push(AnswerRevocation(file));
            for record in 0..self.records {
                let steps = [Ask, Receive, Fill, Return, SendBack, Free];
                actions.extend(steps.map(|one| one(file, record)));
            }
        }
        for name in 0..NAMES {
            actions.extend([Answer, AnswerLate, End, EndLate, Expire, File].map(|one| one(name)));
        }
        actions.extend((0..self.records).map(WriteBack));
        actions.extend([Draw, Crash, Copy, RevokeLate(0), RevokeLate(1)]);
    }

    fn next_state(&self, state: &State, action: Action) -> Option<State> {
        use Action::*;
        match action {
            Answer(_) | AnswerLate(_) | End(_) | EndLate(_) | AnswerRevocation(_)
            | RevokeLate(_) | Expire(_) | File(_) | Draw => self.server(*state, action),
            Kill(_) | Crash | WriteBack(_) | Copy => self.fail(*state, action),
            Open(at)
            | OpenOtherwise(at)
            | WriteDown(at)
            | Revoke(at)
            | GoOn(at)
            | Take(at)
            | Hand(at)
            | Release(at)
            | Close(at)
            | Ask(at, _)
            | Receive(at, _)
            | Fill(at, _)
            | Return(at, _)
            | SendBack(at, _)
            | Free(at, _) => self.process(*state, at, action),
        }
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("nothing twice", |_, state: &State| !state.twice),
            Property::always("nothing lost", |_, state: &State| state.loses_nothing()),
            Property::always("an owner each", |_, state: &State| state.has_an_owner_each()),
            Property::always("few skipped", |_, state: &State| !state.too_many_skipped),
            // A clone ends the leases of the machine that goes on.
            Property::always("nothing cut off", |model: &Self, state: &State| {
                model.clones || !state.cut_off
            }),
            Property::always("no lease without a record", |model: &Self, state: &State| {
                !model.prompt || state.has_no_lease_without_a_record()
            }),
            // It is not all true because nothing happens.
            Property::sometimes("all is used", |_, state: &State| state.used == (1 << LIMIT) - 1),
            Property::sometimes("a process goes on", |model: &Self, state: &State| {
                model.copies || state.went_on
            }),
        ]
    }
}

const KILLS: Protocol = Protocol {
    failures: 2,
    records: 1,
    names: 2,
    syncs: false,
    mixes: false,
    crashes: false,
    copies: false,
    clones: false,
    prompt: false,
    fault: Fault::None,
};
const CRASHES: Protocol = Protocol { crashes: true, failures: 1, ..KILLS };
const PROMPT: Protocol = Protocol { prompt: true, ..KILLS };
/// A crash, and a kill of the process that revokes what was left.
const LATE: Protocol = Protocol { failures: 2, names: 1, ..CRASHES };
const SYNCS: Protocol = Protocol { syncs: true, ..CRASHES };
const MIXES: Protocol = Protocol { mixes: true, failures: 2, names: 1, ..SYNCS };
const COPIES: Protocol = Protocol { copies: true, failures: 1, names: 1, ..KILLS };
const CLONES: Protocol = Protocol { clones: true, ..COPIES };

/// Fails unless `promise` is found to be broken where there is such a fault.
fn breaks(protocol: Protocol, fault: Fault, promise: &'static str) {
    checker::breaks(Protocol { fault, ..protocol }, promise);
}

#[test]
fn a_process_that_is_killed_repeats_nothing_and_loses_nothing() {
    holds(KILLS);
}

#[test]
#[ignore = "ten million states take a minute and a half"]
fn crashes_of_the_machine_and_kills_repeat_nothing() {
    holds(Protocol { failures: 2, ..CRASHES });
    holds(Protocol { failures: 2, ..SYNCS });
}

#[test]
fn a_crash_of_the_machine_repeats_nothing() {
    holds(CRASHES);
}

/// A question that is late may take a lease that no file knows: another process has used and
/// returned the lease of that name. Nothing else takes one.
#[test]
fn no_lease_is_forgotten_unless_a_question_is_late() {
    holds(PROMPT);
}

#[test]
fn a_late_revocation_ends_no_lease_that_a_process_uses() {
    holds(LATE);
}

#[test]
fn a_crash_of_the_machine_costs_what_was_not_synced() {
    holds(SYNCS);
}

#[test]
fn a_process_without_sync_every_goes_on_after_one_with_it() {
    holds(MIXES);
}

#[test]
fn a_copy_of_a_file_repeats_nothing_and_loses_nothing() {
    holds(COPIES);
}

/// Without `sync_every`, whatever looks like a start of the machine gives all leases up.
#[test]
fn a_clone_of_the_machine_repeats_nothing() {
    holds(CLONES);
}

#[test]
fn each_fault_is_found() {
    for (protocol, fault, promise) in [
        (KILLS, Fault::HandedFirst, "nothing twice"),
        (KILLS, Fault::ReturnedUnwritten, "nothing twice"),
        (KILLS, Fault::FilledUnwritten, "nothing twice"),
        (KILLS, Fault::ClosedUnwritten, "nothing lost"),
        (COPIES, Fault::CopyGoesOn, "nothing twice"),
        (SYNCS, Fault::HeldUnsynced, "few skipped"),
        (SYNCS, Fault::FilledUnsynced, "nothing twice"),
        (SYNCS, Fault::ServedUnsynced, "nothing twice"),
        (SYNCS, Fault::ReturnedUnsynced, "nothing twice"),
        (MIXES, Fault::FloorStays, "nothing twice"),
        (LATE, Fault::NameStays, "nothing cut off"),
        // With `sync_every`, nobody can tell a clone from a start.
        (Protocol { syncs: true, ..CLONES }, Fault::None, "nothing twice"),
    ] {
        breaks(protocol, fault, promise);
    }
}
