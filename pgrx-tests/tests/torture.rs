//! A short torture. `make torture MINUTES=15` is the long one: see docs/reliability.md.

use std::time::Duration;

use hilo_tests::torture::{Plan, torture};

/// Crashes, stops, recreated databases and changed sequences under load: no value twice within a life,
/// each session strictly rising, ordered sequences in order, every number below the position accounted
/// for.
#[test]
fn nothing_twice_and_nothing_unexplained() {
    let verdict = torture(&Plan {
        time: Duration::from_secs(45),
        sessions: 12,
        seed: 1,
        batch: 500,
        pause: 2_000,
    });
    println!("{}", verdict.table());
    let findings = verdict.findings();
    assert!(findings.is_empty(), "{findings:#?}");
    assert!(verdict.values() > 10_000 && verdict.crashes() > 0, "\n{}", verdict.table());
}
