//! Random statements in two sessions that take turns, on a real server, return no wrong value. A
//! model says what may be returned: which values, in which order, which errors. `HILO_SEED` changes
//! the starting point, `HILO_FROM` the first case, `HILO_SECONDS` the duration.

mod expectation;
mod functions;
mod random;
mod server;
mod statement;

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use proptest::collection::vec;
use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestError, TestRng, TestRunner};

use expectation::{Model, Wait};
use functions::{IDLE, PLAYED};
use hilo_tests::{ClientExt, Cluster};
use random::{statement, step};
use server::{Stage, cluster};
use statement::{Given, Step};

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| text.parse().expect("a number"))
}

/// The choices of a case: the same for the same numbers.
fn runner(seed: u64, case: u64) -> TestRunner {
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    bytes[8..16].copy_from_slice(&case.to_le_bytes());
    let config = Config {
        cases: 1,
        max_shrink_iters: 300,
        max_shrink_time: 60_000,
        failure_persistence: None,
        ..Config::default()
    };
    TestRunner::new_with_rng(config, TestRng::from_seed(RngAlgorithm::ChaCha, &bytes))
}

/// Plays steps from a clean start; the error says what was played, and what came that may not.
fn play(cluster: &Cluster, steps: &[Step]) -> Result<(), TestCaseError> {
    let mut stage = Stage::new(cluster);
    let mut model = Model::default();
    let mut played = Vec::new();
    for Step { session, statement } in steps {
        let who = *session as usize;
        if !model.allows(who, statement) {
            continue;
        }
        let given = model.facts(who, statement);
        // A session that has to wait does so without success: the other session stands still.
        let patience = if model.waits(who, statement) == Wait::No { "20s" } else { "60ms" };
        stage.set_patience(who, patience);
        let answer = stage.ask(who, statement, &given, model.is_open(who));
        played.push(format!("{who}: {} -> {answer:?}", statement.sql(who, &given)));
        model
            .check(who, statement, &answer)
            .map_err(|why| TestCaseError::fail(format!("{why}, after\n{}\n", played.join("\n"))))?;
    }
    Ok(())
}

#[test]
fn what_comes_is_what_may_come() {
    let cluster = cluster();
    let (seed, seconds) = (number("HILO_SEED", 2), number("HILO_SECONDS", 20));
    let end = Instant::now() + Duration::from_secs(seconds);
    let mut cases = number("HILO_FROM", 1) - 1;
    while Instant::now() < end {
        cases += 1;
        let steps = vec(step(), 1..120);
        match runner(seed, cases).run(&steps, |steps| play(&cluster, &steps)) {
            Ok(()) => {}
            Err(TestError::Fail(why, _)) => panic!("HILO_SEED={seed} HILO_FROM={cases}: {why}"),
            Err(error) => panic!("HILO_SEED={seed} HILO_FROM={cases}: {error}"),
        }
    }
    assert!(cases >= 5, "only {cases} cases in {seconds} s");
    eprintln!("{cases} cases from seed {seed}");
    cluster.finish();
}

/// A function that serves, moves, lends or alters numbers cannot be forgotten here.
#[test]
fn each_function_is_played_or_has_a_reason_not_to_be() {
    let cluster = Cluster::with_hilo();
    let functions: Vec<String> = cluster.connect("postgres").all(
        "SELECT DISTINCT p.proname::text FROM pg_proc p
           JOIN pg_depend d ON d.classid = 'pg_proc'::regclass AND d.objid = p.oid
           JOIN pg_extension e ON d.refclassid = 'pg_extension'::regclass AND d.refobjid = e.oid
          WHERE d.deptype = 'e' AND e.extname = 'hilo'",
    );
    let there: BTreeSet<&str> = functions.iter().map(String::as_str).collect();
    let idle = || IDLE.iter().flat_map(|(_, functions)| functions.iter().copied());
    let known: BTreeSet<&str> =
        PLAYED.iter().map(|(function, _)| *function).chain(idle()).collect();
    let unknown: Vec<_> = there.difference(&known).collect();
    assert!(unknown.is_empty(), "the model neither plays these nor says why not: {unknown:?}");
    let gone: Vec<_> = known.difference(&there).collect();
    assert!(gone.is_empty(), "the model knows functions that are not there: {gone:?}");

    let mut runner = runner(1, 1);
    let mut text = || {
        let statement = statement().new_tree(&mut runner).expect("a statement").current();
        statement.sql(0, &Given::default())
    };
    let texts: Vec<String> = (0..10_000).map(|_| text()).collect();
    for (function, call) in PLAYED {
        assert!(texts.iter().any(|sql| sql.contains(call)), "{function} is never played");
    }
    cluster.finish();
}
