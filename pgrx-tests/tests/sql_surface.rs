//! What each function and view answers, and what each refuses, as an SQL client sees it.

use std::path::Path;

use hilo_tests::{Cases, Cluster};

/// The cases in `regress/`, one session each.
#[test]
fn answers_as_expected() {
    let cluster = Cluster::builder().preload(true).start();
    cluster.run_cases(Cases::Regress, &Path::new(env!("CARGO_MANIFEST_DIR")).join("regress"));
    cluster.finish();
}

/// The cases in `isolation/`: sessions whose transactions overlap.
#[test]
fn transactions_see_and_wait_as_expected() {
    let cluster = Cluster::builder().preload(true).start();
    cluster.run_cases(Cases::Isolation, &Path::new(env!("CARGO_MANIFEST_DIR")).join("isolation"));
    cluster.finish();
}
