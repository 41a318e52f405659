//! A short torture. `make torture MINUTES=30` runs a long one: see docs/reliability.md.

use std::time::Duration;

use hilo_torture::{Plan, Scene, Verdict, torture};

fn play(scene: Scene, seconds: u64) -> Verdict {
    let time = Duration::from_secs(seconds);
    let plan = Plan {
        time,
        sessions: 12,
        seed: 1,
        batch: 500,
        pause: 2_000,
        refuse_memory: std::env::var("REFUSE_MEMORY").as_deref() != Ok("no"),
        scene: Some(scene),
    };
    let verdict = torture(&plan);
    println!("{}", verdict.table());
    let findings = verdict.findings();
    assert!(findings.is_empty(), "{findings:#?}");
    assert!(verdict.values() > 1_000, "\n{}", verdict.table());
    verdict
}

/// Crashes, stops, recreated databases and changed sequences under load. No value comes twice
/// within a life, each session rises strictly, ordered sequences stay in order, and every number
/// below the position is accounted for.
#[test]
fn nothing_twice_and_nothing_unexplained() {
    let verdict = play(Scene::Mixed, 20);
    assert!(verdict.values() > 10_000 && verdict.crashes() > 0, "\n{}", verdict.table());
}

/// The same with fewer places in memory than sequences.
#[test]
fn nor_without_places() {
    play(Scene::Crowd, 6);
}

/// With databases that come and go by the dozen.
#[test]
fn nor_with_many_databases() {
    play(Scene::Databases, 6);
}

/// With a disk that is full when the worker ends.
#[test]
fn nor_without_space() {
    play(Scene::Disk, 6);
}

/// On several servers.
#[test]
fn nor_on_several_nodes() {
    play(Scene::Nodes, 6);
}

/// On a standby that has lagged behind.
#[test]
fn nor_after_promotions() {
    play(Scene::Promotions, 6);
}

/// On a centre, its branches and their copies, and beside counters of others.
#[test]
fn nor_with_branches() {
    play(Scene::Branches, 10);
}
