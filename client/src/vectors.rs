//! The examples of `clients/vectors.json`: what this client makes of the server's answers.

use std::sync::Arc;
use std::time::Duration;

use hilo_core::numbers::{Micros, Monotonic};
use hilo_core::protocol::{Done, Lease, Row};
use serde::Deserialize;
use tokio_postgres::CancelToken;
use uuid::Uuid;

use crate::driver::Driver;
use crate::engine::{Engine, Plan, Return, Settings};
use crate::server::{ConnectError, Connecting, Connection, Connector, outcome};
use crate::shared::{Handle, Life, Options, Shared};
use crate::{Error, Sequence, Unavailable, fork};

#[derive(Deserialize)]
struct Vector {
    name: String,
    returns: Vec<Back>,
    renewals: Vec<String>,
    leases: Vec<Asked>,
    rows: Vec<Row>,
    client: Vec<Then>,
}

#[derive(Deserialize)]
struct Back {
    lease: String,
    next: i64,
}

#[derive(Deserialize)]
struct Asked {
    name: String,
}

/// The reaction of the client to a row.
#[derive(Deserialize)]
#[serde(tag = "then", rename_all = "lowercase")]
enum Then {
    Serves { values: Vec<i64>, keys: Vec<String>, next: i64 },
    Fails,
    Waits,
    Forgets,
    Sends,
    Keeps,
}

pub struct NoServer;

impl Connector for NoServer {
    fn connect(&self) -> Connecting<'_, Connection, ConnectError> {
        Box::pin(async { Err("there is no server".into()) })
    }

    fn cancel(&self, _: CancelToken) -> Connecting<'_, (), tokio_postgres::Error> {
        Box::pin(async { Ok(()) })
    }
}

/// A client that has sent the call of a vector, and got its rows.
struct Answered {
    /// It closes the client when it goes.
    _driver: Driver,
    handle: Arc<Handle>,
    sequences: Vec<Sequence>,
}

fn token(lease: &str) -> Uuid {
    lease.parse().expect("a uuid")
}

/// The state of a client that has no server.
pub fn shared() -> Arc<Shared> {
    let settings = Settings::new(Micros(60_000_000), None);
    let options = Options {
        holder: "vectors".into(),
        ttl: None,
        patience: Duration::from_secs(1),
        unavailable: Unavailable::Wait,
        timeout: Duration::from_secs(1),
    };
    let engine = Engine::new(settings, Monotonic(0), 1);
    Arc::new(Shared::new(engine, options, fork::generation()))
}

fn answered(vector: &Vector) -> Answered {
    let shared = shared();
    let handle = Arc::new(Handle { shared: shared.clone() });
    let sequence =
        |asked: &Asked| Sequence { hot: shared.sequence(&asked.name), handle: handle.clone() };
    let sequences: Vec<Sequence> = vector.leases.iter().map(sequence).collect();
    for sequence in &sequences {
        assert_eq!(sequence.try_next().expect("it waits"), None, "{}", vector.name);
    }
    let mut plan = match sequences.is_empty() {
        true => Plan::default(),
        false => shared.lock().engine.plan(shared.now(), |_| 0).expect("leases are wanted"),
    };
    assert_eq!(plan.asks.len(), sequences.len(), "{}", vector.name);
    plan.asks.sort_by_key(|ask| sequences.iter().position(|one| one.hot.id == ask.id));
    plan.returns = vector
        .returns
        .iter()
        .map(|back| Return { token: token(&back.lease), next: back.next, tried: false })
        .collect();
    let other = shared.sequence("renewed").id;
    plan.renewals = vector.renewals.iter().map(|lease| (other, token(lease))).collect();
    let rows = vector.rows.iter().cloned();
    let answer = rows.map(|row| outcome(row).expect("the row is complete")).collect();
    let mut driver = Driver::new(shared.clone(), Arc::new(NoServer));
    driver.accept(plan, answer, shared.now());
    Answered { _driver: driver, handle, sequences }
}

impl Answered {
    /// The returns that are yet to be sent, once it closes.
    fn returns(&self) -> Vec<Return> {
        self.handle.shared.close(Life::Closing);
        self.handle.shared.lock().engine.plan_returns().returns
    }

    /// The error that callers of a sequence get, and why they wait.
    fn refusal(&self, at: usize) -> (Option<Error>, bool) {
        let mut core = self.handle.shared.lock();
        let state = core.state(self.sequences[at].hot.id);
        (state.refusal.clone(), state.lack.is_some())
    }
}

/// Takes all that is in memory.
fn drain<T>(mut take: impl FnMut() -> Result<Option<T>, Error>) -> Vec<T> {
    std::iter::from_fn(|| take().expect("values")).collect()
}

#[test]
fn each_answer_is_understood() {
    let text = include_str!("../../clients/vectors.json");
    let vectors: Vec<Vector> = serde_json::from_str(text).expect("the vectors");
    for vector in &vectors {
        let about = &vector.name;
        assert_eq!(vector.rows.len(), vector.client.len(), "{about}");
        let (by_value, by_key) = (answered(vector), answered(vector));
        let first = vector.rows.len() - vector.leases.len();
        let mut nexts = Vec::new();
        for row in &vector.rows {
            // Such a row of hilo_refill is one of hilo_lease too.
            if let Some(Ok(Done::Leased(lease))) = row.clone().outcome() {
                let of_lease = serde_json::to_string(row).expect("a row");
                let of_lease: Lease = serde_json::from_str(&of_lease).expect(about);
                assert_eq!(of_lease, lease, "{about}");
            }
        }
        for (at, then) in vector.client.iter().enumerate() {
            let sequence = |one: &Answered| one.sequences[at - first].clone();
            match then {
                Then::Serves { values, keys, next } => {
                    let (one, other) = (sequence(&by_value), sequence(&by_key));
                    assert_eq!(drain(|| one.try_next()), *values, "{about}");
                    assert_eq!(drain(|| other.take_key()), *keys, "{about}");
                    nexts.push(*next);
                }
                Then::Fails => {
                    let (refusal, _) = by_value.refusal(at - first);
                    let code = refusal.as_ref().and_then(|refusal| refusal.code());
                    let code = code.map(|code| code.code().to_owned());
                    assert_eq!(code, vector.rows[at].sqlstate, "{about}");
                }
                Then::Waits => assert!(by_value.refusal(at - first).0.is_none(), "{about}"),
                Then::Sends => nexts.push(vector.returns[at].next),
                Then::Forgets | Then::Keeps => {}
            }
        }
        let mut returned: Vec<i64> = by_value.returns().iter().map(|back| back.next).collect();
        returned.sort_unstable();
        nexts.sort_unstable();
        assert_eq!(returned, nexts, "{about}");
    }
}
