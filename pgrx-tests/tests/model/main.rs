//! Random statements in two sessions that take turns, on a real server, compared with a model of what may be
//! returned: which values, in which order, which errors. `HILO_SEED` changes the starting point, `HILO_SECONDS`
//! the duration.

mod expectation;
mod statement;

use std::time::{Duration, Instant};

use proptest::collection::vec;
use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestRng, TestRunner};

use expectation::Model;
use hilo_tests::{ClientExt, Cluster};
use statement::{Answer, Statement, Step, ask, step};

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| text.parse().expect("a number"))
}

/// Plays steps from a clean start; the error says what came that may not.
fn play(cluster: &Cluster, steps: &[Step]) -> Result<(), TestCaseError> {
    cluster.connect("postgres").run("SELECT hilo_drop(name) FROM hilo_sequences");
    let connect = || {
        let mut client = cluster.connect("postgres");
        client.run("SET hilo.reserve_timeout = '20s'; SET lock_timeout = '20s'");
        client
    };
    let mut clients = [connect(), connect()];
    let mut model = Model::default();
    for (at, Step { session, statement }) in steps.iter().enumerate() {
        let who = *session as usize;
        if !model.allows(who, statement) {
            continue;
        }
        let client = &mut clients[who];
        // A session that has to wait does so without success: the other session stands still.
        let patience = if model.is_contested(who, statement) { "60ms" } else { "20s" };
        client.run(&format!(
            "SET hilo.reserve_timeout = '{patience}'; SET lock_timeout = '{patience}'"
        ));
        let answer = if *statement == Statement::Reconnect {
            let pid = client.backend_pid();
            *client = connect();
            cluster.wait_until_gone(pid);
            Answer::Done
        } else {
            ask(client, &statement.sql(), model.is_open(who))
        };
        model.check(who, statement, &answer).map_err(|why| {
            TestCaseError::fail(format!("step {at}, session {who}: {}: {why}", statement.sql()))
        })?;
    }
    Ok(())
}

#[test]
fn what_comes_is_what_may_come() {
    let cluster = Cluster::with_hilo();
    let (seed, seconds) = (number("HILO_SEED", 2), number("HILO_SECONDS", 15));
    let end = Instant::now() + Duration::from_secs(seconds);
    let mut cases = 0;
    while Instant::now() < end {
        cases += 1;
        let mut bytes = [0; 32];
        bytes[..8].copy_from_slice(&seed.to_le_bytes());
        bytes[8..16].copy_from_slice(&u64::to_le_bytes(cases));
        let config = Config {
            cases: 1,
            max_shrink_iters: 300,
            failure_persistence: None,
            ..Config::default()
        };
        let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &bytes);
        let mut runner = TestRunner::new_with_rng(config, rng);
        if let Err(error) = runner.run(&vec(step(), 1..120), |steps| play(&cluster, &steps)) {
            panic!("seed {seed}, case {cases}: {error}");
        }
    }
    assert!(cases >= 5, "only {cases} cases in {seconds} s");
    eprintln!("{cases} cases from seed {seed}");
    cluster.finish();
}
