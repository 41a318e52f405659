//! The background task of a client: it sends the server the statements that the engine plans.

use std::sync::Arc;
use std::time::Duration;

use hilo_core::backoff;
use hilo_core::numbers::Monotonic;
use tokio::time::{sleep, sleep_until, timeout};
use tracing::Instrument;

use crate::Error;
use crate::engine::{Ask, Failure, NEVER, Plan};
use crate::refusal::{Report, is_refusal, report};
use crate::server::{Answer, Connector, Link};
use crate::shared::{Core, Life, MAX_WAIT, Shared};
use crate::stats::Returned;

/// How long canceling a statement may take.
const CANCEL: Duration = Duration::from_secs(2);

pub struct Driver {
    pub shared: Arc<Shared>,
    connector: Arc<dyn Connector>,
    link: Option<Link>,
    pub returned: Returned,
    /// The results of a shutdown.
    result: Result<Returned, Error>,
}

/// Leases that could not be written down, and why.
type Unwritten = Vec<(Ask, Arc<Report>)>;

/// Why a statement has no result.
enum Fault {
    /// The server has refused it, and has changed nothing.
    Refused(Arc<Report>),
    /// Nobody knows what the server has done.
    Unknown(Option<Arc<Report>>),
}

impl Driver {
    pub fn new(shared: Arc<Shared>, connector: Arc<dyn Connector>) -> Driver {
        let (returned, result) = (Returned::default(), Err(Error::Closed));
        Driver { shared, connector, link: None, returned, result }
    }

    /// Works until the client is closed, and no longer than patience after that.
    pub async fn run(mut self) {
        let shared = self.shared.clone();
        let overdue = async {
            shared.closed.notified().await;
            sleep(shared.options.patience.min(MAX_WAIT)).await;
        };
        self.result = tokio::select! {
            result = self.work() => result,
            () = overdue => Err(Error::Unreachable { source: shared.lock().trouble.clone() }),
        };
    }

    async fn work(&mut self) -> Result<Returned, Error> {
        loop {
            let (life, plan, due) = {
                let now = self.shared.now();
                let mut core = self.shared.lock();
                let Core { engine, states, life, .. } = &mut *core;
                let plan = match life {
                    Life::Serving => engine.plan(now, |id| states[id.0 as usize].hot.remaining()),
                    _ => None,
                };
                (*life, plan, engine.due())
            };
            match (life, plan) {
                (Life::Over, _) => return Err(Error::Closed),
                (Life::Closing, _) => return self.return_all().await,
                (Life::Serving, Some(plan)) => self.carry_out(plan).await,
                (Life::Serving, None) => self.pause(due).await,
            }
        }
    }

    /// Waits until `due`, or until somebody needs something.
    async fn pause(&self, due: Monotonic) {
        if due == NEVER {
            return self.shared.wake_driver.notified().await;
        }
        tokio::select! {
            () = self.shared.wake_driver.notified() => {}
            () = sleep_until(self.shared.at(due).into()) => {}
        }
    }

    /// Returns what is left, until nothing is. Then revokes the holder's other open leases: the
    /// client has never got an answer about them.
    async fn return_all(&mut self) -> Result<Returned, Error> {
        // Values returned while it served do not count.
        self.returned = Returned::default();
        // How often in a row nothing could be returned.
        let mut attempt = 0;
        loop {
            let plan = {
                let mut core = self.shared.lock();
                core.engine.give_back_all(self.shared.now());
                core.engine.plan_returns()
            };
            if plan.is_empty() && self.revoke_rest().await {
                return Ok(self.returned);
            }
            if attempt > 0 {
                sleep(backoff::delay_of_many(attempt - 1, self.random())).await;
            }
            let before = self.returned.leases;
            if !plan.is_empty() {
                self.carry_out(plan).await;
            }
            attempt = if self.returned.leases > before { 0 } else { attempt + 1 };
        }
    }

    /// Whether no lease is left, or the rest was revoked. A lease whose return the server refuses
    /// for good stays open.
    async fn revoke_rest(&mut self) -> bool {
        let error = match self.connect().await {
            Err(Error::Unreachable { source }) => source,
            Err(_) => None,
            Ok(()) => {
                // It may be late, and must not end what the next process takes.
                if let Some(store) = &self.shared.lock().store {
                    store.clear();
                }
                let holder = &self.shared.options.holder;
                let revoking = self.link.as_ref().map(|link| link.revoke(holder));
                match self.within_timeout(revoking).await {
                    Ok(()) => return true,
                    Err(Fault::Refused(refusal)) if !refusal.is_lack() => {
                        tracing::warn!(error = %refusal, "leases that are unknown stay open");
                        return true;
                    }
                    Err(Fault::Refused(refusal)) => Some(refusal),
                    Err(Fault::Unknown(error)) => {
                        self.link = None;
                        error
                    }
                }
            }
        };
        self.shared.lock().trouble = error;
        false
    }

    /// Carries out a plan in one statement. Calls that the server refuses for now are repeated
    /// later.
    async fn carry_out(&mut self, plan: Plan) {
        let (asks, returns, renewals) = (plan.asks.len(), plan.returns.len(), plan.renewals.len());
        let span = tracing::debug_span!("hilo_statement", asks, returns, renewals);
        self.try_to_carry_out(plan).instrument(span).await
    }

    async fn try_to_carry_out(&mut self, mut plan: Plan) {
        if let Err(error) = self.connect().await {
            let source = match error {
                Error::Unreachable { source } => source,
                other => Some(Report::own(&other, None, None)),
            };
            return self.fail_plan(plan, Failure::Unsent, source);
        }
        let (names, unwritten) = match self.write_down(&mut plan) {
            Ok(written) => written,
            Err(why) => {
                let why = Report::own(&why, None, None);
                return self.fail_plan(plan, Failure::Unsent, Some(why));
            }
        };
        let outcome = self.send_until_done(&plan, &names).await;
        // The unwritten were not asked for, as if the server had refused them.
        let (asks, reasons): (Vec<Ask>, Vec<Arc<Report>>) = unwritten.into_iter().unzip();
        plan.asks.extend(asks);
        match outcome {
            Ok((mut answer, sent)) => {
                answer.extend(reasons.into_iter().map(Err));
                self.accept(plan, answer, sent);
            }
            Err((why, error)) => self.fail_plan(plan, why, error),
        }
    }

    /// Sends a plan, again while it meets other transactions. Returns also when it was sent.
    async fn send_until_done(
        &mut self,
        plan: &Plan,
        names: &[Arc<str>],
    ) -> Result<(Answer, Monotonic), (Failure, Option<Arc<Report>>)> {
        let mut attempt = 0;
        loop {
            let sent = self.shared.now();
            if plan.is_empty() {
                return Ok((Answer::new(), sent));
            }
            match self.send(plan, names).await {
                Ok(answer) => return Ok((answer, sent)),
                Err(Fault::Unknown(error)) => {
                    self.link = None;
                    return Err((Failure::Unknown, error));
                }
                Err(Fault::Refused(refusal))
                    if refusal.is_overload() && self.shared.lock().engine.can_be_smaller(plan) =>
                {
                    return Err((Failure::NoRoom, Some(refusal)));
                }
                // A lease may have ended, or a sequence been renumbered, until the commit.
                Err(Fault::Refused(refusal))
                    if (refusal.is_transient() || refusal.is_gone())
                        && attempt < backoff::ATTEMPTS =>
                {
                    tracing::debug!(error = %refusal, attempt, "trying again");
                    sleep(backoff::delay(attempt, self.random())).await;
                    attempt += 1;
                }
                Err(Fault::Refused(refusal)) => {
                    return Ok((vec![Err(refusal); plan.len()], sent));
                }
            }
        }
    }

    fn random(&self) -> u32 {
        uuid::Uuid::new_v4().as_u128() as u32
    }

    /// Connects if there is no connection.
    pub async fn connect(&mut self) -> Result<(), Error> {
        if self.link.as_ref().is_none_or(|link| link.client.is_closed()) {
            self.link = None;
            let connecting = timeout(self.shared.options.timeout, Link::open(&*self.connector));
            let silent = |_| Error::Unreachable { source: None };
            let link = connecting.await.map_err(silent)??;
            let store = self.shared.lock().store.clone();
            if let Some(store) = store {
                let meeting = timeout(self.shared.options.timeout, link.meet(&store));
                meeting.await.map_err(silent)??;
            }
            self.link = Some(link);
            self.shared.lock().counts.connects += 1;
            tracing::info!("connected");
        }
        Ok(())
    }

    /// Writes a plan to the store, if there is one, and returns the names of its sequences. Leases
    /// for which the disk has no room are not part of it any more.
    fn write_down(&self, plan: &mut Plan) -> Result<(Vec<Arc<str>>, Unwritten), Error> {
        let core = self.shared.lock();
        let (mut names, mut unwritten) = (Vec::new(), Unwritten::new());
        if let Some(store) = &core.store {
            let returned = store.write_returns(&plan.returns);
            returned.map_err(|error| store.error(Report::own(&error, None, None)))?;
        }
        plan.asks.retain(|ask| {
            let name = &core.states[ask.id.0 as usize].hot.name;
            let written = core.store.as_ref().map_or(Ok(()), |store| store.write_ask(ask, name));
            match &written {
                Ok(()) => names.push(name.clone()),
                Err(error) => unwritten.push((*ask, Report::own(error, None, None))),
            }
            written.is_ok()
        });
        Ok((names, unwritten))
    }

    async fn send(&self, plan: &Plan, names: &[Arc<str>]) -> Result<Answer, Fault> {
        self.shared.lock().counts.statements += 1;
        let link = self.link.as_ref();
        let sending = link.map(|link| link.carry_out(plan, names, &self.shared.options));
        self.within_timeout(sending).await?.ok_or(Fault::Unknown(None))
    }

    /// Waits for a statement of the link, as long as one may take.
    async fn within_timeout<T>(
        &self,
        statement: Option<impl Future<Output = Result<T, tokio_postgres::Error>>>,
    ) -> Result<T, Fault> {
        let (Some(statement), Some(link)) = (statement, &self.link) else {
            return Err(Fault::Unknown(None));
        };
        let limit = self.shared.options.timeout;
        match timeout(limit, statement).await {
            Ok(Ok(done)) => Ok(done),
            Ok(Err(error)) if is_refusal(&error) => Err(Fault::Refused(report(&error))),
            Ok(Err(error)) => Err(Fault::Unknown(Some(report(&error)))),
            Err(_) => {
                // The statement must not go on without this client, perhaps for as long as somebody
                // holds a lock.
                let canceling = self.connector.cancel(link.client.cancel_token());
                let _ = timeout(limit.min(CANCEL), canceling).await;
                Err(Fault::Unknown(None))
            }
        }
    }
}

/// However the task ends, and even if it never begins, callers stop waiting for it.
impl Drop for Driver {
    fn drop(&mut self) {
        if self.shared.check_process().is_ok() {
            self.shared.close(Life::Over);
            if let Some(store) = &self.shared.lock().store {
                store.release(self.result.is_ok());
            }
            self.shared.result.send_replace(Some(self.result.clone()));
        }
    }
}
