//! The accidents that happen to the server during a run: one at a time. The server is running after
//! each.

pub mod alterations;
pub mod databases;
pub mod full_disk;
pub mod memory;
pub mod relations;
pub mod signals;
pub mod snapshots;
pub mod stops;

use std::thread;
use std::time::Duration;

use fastrand::Rng;

use super::Torture;

/// Causes an accident, and returns its name.
pub type Accident = fn(&Torture, &mut Rng) -> &'static str;

/// Accidents with their weights.
pub type Choices = &'static [(u32, Accident)];

/// The accidents of any server.
pub const ANYWHERE: Choices = &[
    (4, stops::kill_backend),
    (2, stops::kill_worker),
    (2, stops::kill_postmaster),
    (2, stops::immediate),
    (2, stops::fast),
    (1, stops::smart),
    (2, stops::without_worker),
    (2, signals::terminate_worker),
    (1, signals::terminate_session),
    (1, signals::cancel_statement),
    (2, signals::cancel_often),
    (2, memory::refuse),
    (2, relations::rewrite),
    (2, signals::stand_still),
    (1, signals::hold_positions),
    (3, alterations::leave_open),
    (1, snapshots::hold_or_end),
    (2, stops::choose_indexes),
];

/// With databases that are dropped and created.
pub const MIXED: Choices =
    &[(25, anywhere), (2, databases::recreate_one), (1, databases::extension)];
pub const DATABASES: Choices = &[(4, anywhere), (2, databases::recreate_a_dozen)];
pub const DISK: Choices = &[(1, anywhere), (1, full_disk::fill)];

/// For servers whose sequences are not altered.
pub const LASTING: Choices = &[
    (4, stops::kill_backend),
    (2, stops::kill_worker),
    (2, stops::kill_postmaster),
    (2, stops::immediate),
    (2, stops::fast),
    (1, stops::without_worker),
    (2, signals::terminate_worker),
    (2, signals::cancel_often),
    (2, signals::stand_still),
    (2, memory::refuse),
    (1, relations::rewrite),
    (1, snapshots::hold_or_end),
    (1, stops::choose_indexes),
];

fn anywhere(torture: &Torture, rng: &mut Rng) -> &'static str {
    choose(ANYWHERE, rng)(torture, rng)
}

fn choose(choices: Choices, rng: &mut Rng) -> Accident {
    let mut at = rng.u32(..choices.iter().map(|(weight, _)| weight).sum::<u32>());
    let found = choices.iter().find(|(weight, _)| {
        let here = at < *weight;
        at = at.saturating_sub(*weight);
        here
    });
    found.expect("it is below the sum").1
}

/// Accidents until the time is up.
pub fn run(torture: &Torture, choices: Choices, mut rng: Rng) {
    while !torture.is_over() {
        thread::sleep(Duration::from_millis(rng.u64(200..torture.pause.max(201))));
        if !torture.is_over() {
            let what = choose(choices, &mut rng)(torture, &mut rng);
            torture.ledger.figures.accident(what);
        }
    }
}
