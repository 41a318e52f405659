//! Tests of refusals, for leases that an earlier process has left in a state file.

use std::collections::HashSet;

use tokio_postgres::error::SqlState;

use super::*;
use crate::store::tests::{Temporary, ask, kill, serve, take};
use crate::vectors::{NoServer, shared};

/// A client that has asked for the leases in a state file.
fn resumed(file: &Temporary) -> (Driver, Plan) {
    let (store, left) = file.open();
    let shared = shared();
    shared.resume(store, left);
    let plan = shared.lock().engine.plan(shared.now(), |_| 0).expect("it asks for them");
    (Driver::new(shared, Arc::new(NoServer)), plan)
}

/// The server refuses all of a plan.
fn refuse(driver: &mut Driver, plan: Plan, code: &SqlState) {
    let (code, message) = (Some(code.clone()), "refused".to_owned());
    let why = Arc::new(Report { code, message, detail: None, hint: None });
    let (answer, now) = (vec![Err(why); plan.len()], driver.shared.now());
    driver.accept(plan, answer, now);
}

/// However many there are of a sequence.
#[test]
fn what_is_refused_for_now_is_asked_for_again() {
    let file = Temporary::new("for-now");
    let store = Arc::new(file.open().0);
    let tokens = HashSet::from([serve(&store, 10).0, ask(&store, 10), ask(&store, 10)]);
    kill(store);
    let (mut driver, plan) = resumed(&file);
    assert_eq!(plan.asks.len(), 3);
    refuse(&mut driver, plan, &SqlState::LOCK_NOT_AVAILABLE);
    assert_eq!(driver.shared.lock().engine.asked_again(), tokens);
    drop(driver);
    assert_eq!(file.open().1.len(), 3, "all are still in the file");
}

/// Its sequence was renamed, for example. Nobody knows whether a lease was given that was only
/// asked for.
#[test]
fn what_is_refused_for_good_is_returned() {
    let refusals =
        [SqlState::UNDEFINED_OBJECT, SqlState::DUPLICATE_OBJECT, SqlState::INSUFFICIENT_PRIVILEGE];
    for code in &refusals {
        let file = Temporary::new("for-good");
        let store = Arc::new(file.open().0);
        let (begun, lane) = serve(&store, 10);
        take(&lane, 4);
        let unused = ask(&store, 20);
        store.hold(&unused, (130, 1, 20), None);
        ask(&store, 10);
        kill(store);
        let (mut driver, plan) = resumed(&file);
        refuse(&mut driver, plan, code);
        let returns = driver.shared.lock().engine.plan_returns().returns;
        let returns: Vec<(Uuid, i64)> =
            returns.iter().map(|back| (back.token, back.next)).collect();
        assert_eq!(returns, [(begun, 5), (unused, 111)], "{code:?}");
        drop(driver);
        assert_eq!(file.open().1.len(), 2, "they are in the file until they are back");
    }
}
