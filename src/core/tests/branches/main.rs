//! A centre and its branches in every order of their steps, crashes, promotions and copies: no
//! value has two owners, and none has no owner.
//!
//! `hilo_transfer` gives a value away by request, and the branch writes a request down before it
//! makes it. Requests and answers are lost, and come twice or late. The writes of one transaction
//! show together, so a step is a commit, a message or a step in memory. A crash may lie between any
//! two. Each transfer is of one value.
//!
//! `cargo test -p hilo-core --test branches`
#![cfg(not(loom))]

#[path = "../checker/mod.rs"]
mod checker;
mod state;
mod steps;

use stateright::{Model, Property};

use checker::holds;
use state::{Asked, Branch, LATE, LIMIT, REQUESTS, SERVERS, State};
use steps::{Action, Fault, Protocol};

impl Model for Protocol {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        let mut state = State::default();
        for (server, branch) in state.branches[..self.branches].iter_mut().enumerate() {
            (branch.is_up, branch.is_ready) = (true, true);
            branch.books.name = server as u8;
        }
        vec![state]
    }

    fn actions(&self, _: &State, actions: &mut Vec<Action>) {
        use Action::*;
        for server in 0..SERVERS {
            actions.extend(
                [WriteDown, Ask, Receive, GiveUp, Lend, Serve, TakeOver, Answer, Crash]
                    .map(|action| action(server)),
            );
            actions.extend((0..LATE).map(|at| AnswerLate(server, at)));
        }
        actions.extend([Draw, RollBack, CutOff, Promote, Copy, Restore, Clone]);
    }

    fn next_state(&self, state: &State, action: Action) -> Option<State> {
        use Action::*;
        match action {
            Answer(_) | AnswerLate(..) | Draw => self.centre(*state, action),
            RollBack | CutOff | Promote | Crash(_) | Copy | Restore | Clone => {
                self.fail(*state, action)
            }
            WriteDown(server) | Ask(server) | Receive(server) | GiveUp(server) | Lend(server)
            | Serve(server) | TakeOver(server) => self.branch(*state, server, action),
        }
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("nothing twice", |_, state: &State| !state.twice),
            Property::always("one owner each", |_, state: &State| state.has_one_owner_each()),
            Property::always("an owner each", |_, state: &State| state.has_an_owner_each()),
            // It is not all true because nothing happens.
            Property::sometimes("all is used", |_, state: &State| state.used == (1 << LIMIT) - 1),
            Property::sometimes(
                "a late request finds a later one",
                |model: &Self, state: &State| {
                    let later = |late: &Asked| {
                        let lease = state.centre.leases[late.name as usize];
                        lease.is_some_and(|(request, _)| late.request < request)
                    };
                    model.refuses
                        || state
                            .branches
                            .iter()
                            .flat_map(|one| one.late)
                            .flatten()
                            .any(|one| later(&one))
                },
            ),
            Property::sometimes("a branch gets the last that it asks for", |_, state: &State| {
                state.branches.iter().any(|branch| branch.books.answered >> 1 == REQUESTS)
            }),
            Property::sometimes("a copied one gets more", |model: &Self, state: &State| {
                let gets_more = |branch: &Branch| branch.has_parted && branch.books.answered != 0;
                !model.twins || state.branches.iter().any(gets_more)
            }),
        ]
    }
}

const CRASHES: Protocol = Protocol {
    branches: 2,
    failures: 1,
    promotions: false,
    copies: false,
    twins: false,
    gives_up: true,
    refuses: false,
    fault: Fault::None,
};
const PROMOTIONS: Protocol = Protocol { promotions: true, gives_up: false, ..CRASHES };
const COPIES: Protocol =
    Protocol { branches: 1, failures: 2, copies: true, gives_up: false, ..CRASHES };
/// A copy of a branch, and a promotion of the centre.
const BOTH: Protocol = Protocol { promotions: true, ..COPIES };
/// A copy that cannot tell that it is one.
const TWINS: Protocol = Protocol { twins: true, gives_up: true, failures: 1, ..COPIES };
const REFUSALS: Protocol = Protocol { branches: 1, failures: 2, refuses: true, ..CRASHES };

/// Fails unless `promise` is found to be broken where there is such a fault.
fn breaks(protocol: Protocol, fault: Fault, promise: &'static str) {
    checker::breaks(Protocol { fault, ..protocol }, promise);
}

#[test]
fn crashes_and_lost_messages_repeat_nothing_and_lose_nothing() {
    holds(CRASHES);
}

#[test]
fn a_promoted_centre_that_lags_repeats_nothing_and_loses_nothing() {
    holds(PROMOTIONS);
}

#[test]
fn a_copy_of_a_branch_repeats_nothing_and_loses_nothing() {
    holds(COPIES);
}

/// Values that both had in their books when the copy was made may come twice, and no others.
#[test]
fn a_twin_of_a_branch_repeats_nothing_that_came_later_and_loses_nothing() {
    holds(TWINS);
}

#[test]
#[ignore = "millions of states"]
fn a_twin_that_crashes_or_gives_up_repeats_nothing_that_came_later_and_loses_nothing() {
    holds(Protocol { failures: 2, ..TWINS });
}

#[test]
fn a_branch_goes_on_when_a_request_is_refused_for_ever() {
    holds(REFUSALS);
}

#[test]
#[ignore = "18 million states take a minute and 2 GB"]
fn a_copy_and_a_promoted_centre_repeat_nothing_and_lose_nothing() {
    holds(BOTH);
}

#[test]
fn each_fault_is_found_where_servers_are_copied_and_promoted() {
    for (fault, promise) in [
        (Fault::AnswerForgotten, "an owner each"),
        (Fault::LateAnswered, "an owner each"),
        (Fault::NothingSkipped, "nothing twice"),
        (Fault::RequestCopied, "nothing twice"),
        (Fault::FreeCopied, "nothing twice"),
    ] {
        breaks(BOTH, fault, promise);
    }
}

#[test]
fn a_centre_that_forgets_or_mistakes_requests_is_found() {
    breaks(CRASHES, Fault::AnswerForgotten, "an owner each");
    breaks(CRASHES, Fault::LateAnswered, "an owner each");
    breaks(PROMOTIONS, Fault::NothingSkipped, "nothing twice");
}

#[test]
fn a_centre_that_mistakes_what_was_given_up_is_found() {
    breaks(CRASHES, Fault::GivenUpCounted, "an owner each");
    breaks(TWINS, Fault::GivenUpCounted, "an owner each");
    breaks(TWINS, Fault::GivenUpReturned, "nothing twice");
}

#[test]
fn a_copy_that_goes_on_as_its_original_is_found() {
    breaks(COPIES, Fault::RequestCopied, "nothing twice");
    breaks(COPIES, Fault::FreeCopied, "nothing twice");
}
