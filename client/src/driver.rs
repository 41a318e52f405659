//! The task of a client: it carries out what the engine plans.

use std::sync::Arc;
use std::time::Duration;

use hilo_core::backoff;
use hilo_core::numbers::{Micros, Monotonic};
use tokio::time::{sleep, sleep_until, timeout};
use tracing::Instrument;

use crate::Error;
use crate::engine::{Ask, Failure, NEVER, Parts, Plan};
use crate::refusal::{is_gone, is_lack, is_overload, is_refusal, is_transient};
use crate::server::{Answer, Connector, Link, Terms};
use crate::shared::{Core, Life, MAX_WAIT, Shared};
use crate::stats::Returned;

/// How long after a statement of unknown outcome the server may still be at work on it.
const UNKNOWN: Micros = Micros(60_000_000);
/// How long the server may wait for a sequence that somebody holds, and where that is known.
const RESERVE: Duration = Duration::from_secs(1);
const TRIAL: Duration = Duration::from_millis(100);
/// How long canceling a statement may take.
const CANCEL: Duration = Duration::from_secs(2);

/// How often a lock is looked for in the parts of what a statement takes, which finds one of a
/// thousand sequences, and of what it ends.
const LACKS: (u32, u32) = (11, 16);

pub struct Driver {
    pub shared: Arc<Shared>,
    connector: Connector,
    link: Option<Link>,
    /// Nobody knows what became of a statement: how often to look for leases that nobody has heard
    /// of, and when next.
    unknown: u32,
    look_at: Monotonic,
    /// There may be open leases that only their holder's name can find.
    pub unsure: bool,
    pub returned: Returned,
    /// What the server lacked last.
    pub lack: Option<Arc<tokio_postgres::Error>>,
    _over: Over,
}

/// What was tried to carry out a plan that was refused.
#[derive(Default)]
struct Tries {
    attempt: u32,
    lacks: u32,
    /// Which leases have ended was looked up.
    looked: bool,
}

/// A part, and what is left to do after it.
fn with_rest(mut part: Plan, mut parts: Parts) -> Plan {
    part.extend(parts.rest());
    part
}

/// What became of a part of a plan.
enum Outcome {
    Done(Answer),
    /// The server refuses, and has changed nothing.
    Refused(tokio_postgres::Error),
    /// Anything may have happened.
    Unknown(Option<tokio_postgres::Error>),
}

impl Driver {
    pub fn new(shared: Arc<Shared>, connector: Connector, link: Link) -> Driver {
        let look_at = shared.now();
        shared.lock().counts.connects += 1;
        let returned = Returned::default();
        let (link, _over) = (Some(link), Over(shared.clone()));
        let (unknown, unsure, lack) = (0, false, None);
        Driver { shared, connector, link, unknown, look_at, unsure, returned, lack, _over }
    }

    /// Works until the client is closed, and no longer than patience after that.
    pub async fn run(mut self) {
        let shared = self.shared.clone();
        let overdue = async {
            shared.closed.notified().await;
            sleep(shared.options.patience.min(MAX_WAIT)).await;
        };
        let result = tokio::select! {
            result = self.work() => result,
            () = overdue => Err(Error::Unreachable { source: shared.lock().trouble.clone() }),
        };
        shared.result.send_replace(Some(result));
    }

    async fn work(&mut self) -> Result<Returned, Error> {
        loop {
            let (life, plan, due) = {
                let now = self.shared.now();
                let mut core = self.shared.lock();
                let Core { engine, seats, life, .. } = &mut *core;
                let plan = match life {
                    Life::Serving => engine.plan(now, |id| seats[id.0 as usize].hot.left()),
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
            return self.shared.poke.notified().await;
        }
        tokio::select! {
            () = self.shared.poke.notified() => {}
            () = sleep_until(self.shared.at(due).into()) => {}
        }
    }

    /// Returns what is left, until nothing is.
    async fn return_all(&mut self) -> Result<Returned, Error> {
        // What was returned while it served does not count.
        self.returned = Returned::default();
        // There may be leases of which nothing is known; all that is known goes back first.
        self.unsure = true;
        // How often in a row nothing has gone back.
        let mut attempt = 0;
        loop {
            let mut plan = {
                let mut core = self.shared.lock();
                core.engine.give_back_all(self.shared.now());
                core.engine.plan_returns()
            };
            self.unsure |= std::mem::take(&mut self.unknown) > 0;
            plan.sweep = plan.is_empty() && self.unsure;
            if plan.is_empty() {
                return Ok(self.returned);
            }
            if attempt > 0 {
                sleep(backoff::delay_of_many(attempt - 1, self.random())).await;
            }
            let before = self.returned.leases;
            self.carry_out(plan).await;
            attempt = if self.returned.leases > before { 0 } else { attempt + 1 };
        }
    }

    async fn carry_out(&mut self, plan: Plan) {
        let (asks, returns, renewals) = (plan.asks.len(), plan.returns.len(), plan.renewals.len());
        let span = tracing::debug_span!("hilo_statement", asks, returns, renewals);
        self.carry_out_parts(plan).instrument(span).await
    }

    /// Does a plan in one statement. If the server refuses that, does it in parts, until what it
    /// refuses is found.
    async fn carry_out_parts(&mut self, plan: Plan) {
        if let Err(error) = self.connect(&plan).await {
            let source = match error {
                Error::Unreachable { source } => source,
                other => {
                    tracing::warn!(error = %other, "the server has no leases");
                    None
                }
            };
            return self.failed(plan, Failure::Unsent, source);
        }
        let mut parts = Parts::new(plan);
        let mut tries = Tries::default();
        while let Some(part) = parts.take() {
            let sent = self.shared.now();
            match self.send(&part, tries.lacks > 0).await {
                Outcome::Done(answer) => {
                    self.accept(part, answer, sent);
                    parts.accepted();
                }
                Outcome::Unknown(error) => {
                    return self.cut_off(with_rest(part, parts), error, sent);
                }
                Outcome::Refused(error) if self.has_no_room(&part, &error) => {
                    let error = Some(Arc::new(error));
                    return self.failed(with_rest(part, parts), Failure::NoRoom, error);
                }
                Outcome::Refused(error) => {
                    if let Err((part, error)) = self.part(part, error, &mut parts, &mut tries).await
                    {
                        return self.cut_off(with_rest(part, parts), error, sent);
                    }
                }
            }
        }
        let mut core = self.shared.lock();
        core.engine.done();
        core.connected = true;
        core.trouble = self.lack.take();
    }

    /// Whether the server refuses a part because it has no room for all of it.
    fn has_no_room(&self, part: &Plan, error: &tokio_postgres::Error) -> bool {
        is_overload(error) && self.shared.lock().engine.can_be_smaller(part)
    }

    /// The server refuses a part: tries it again, or halves of it, or takes no for an answer. Fails
    /// with what is left of the part if the server was lost meanwhile.
    async fn part(
        &mut self,
        mut part: Plan,
        error: tokio_postgres::Error,
        parts: &mut Parts,
        tries: &mut Tries,
    ) -> Result<(), (Plan, Option<tokio_postgres::Error>)> {
        if is_transient(&error) && tries.attempt < backoff::ATTEMPTS {
            tracing::debug!(%error, tries.attempt, "trying again");
            sleep(backoff::delay(tries.attempt, self.random())).await;
            tries.attempt += 1;
            parts.again(part);
            return Ok(());
        }
        if is_gone(&error) && part.asks.is_empty() && part.len() > 1 && !tries.looked {
            // Where one has ended, thousands may have.
            tries.looked = true;
            part = self.without_ended(part).await?;
            parts.again(part);
            return Ok(());
        }
        tries.lacks += u32::from(is_lack(&error));
        let most = if part.asks.is_empty() { LACKS.1 } else { LACKS.0 };
        if part.len() > 1 && !(is_lack(&error) && tries.lacks > most) {
            parts.halve(part);
        } else {
            self.refused(part, error, parts);
            parts.found();
        }
        Ok(())
    }

    /// Nobody knows what the server has done of `rest`, which was sent at `sent` at the earliest.
    fn cut_off(&mut self, rest: Plan, error: Option<tokio_postgres::Error>, sent: Monotonic) {
        self.link = None;
        self.unknown = 2;
        self.look_at = sent;
        self.failed(rest, Failure::Unknown, error.map(Arc::new));
    }

    /// Leaves out the leases that have ended. What the role may no longer see may be among them.
    async fn without_ended(
        &mut self,
        mut part: Plan,
    ) -> Result<Plan, (Plan, Option<tokio_postgres::Error>)> {
        let Some(link) = &self.link else { return Err((part, None)) };
        let options = &self.shared.options;
        let open = match timeout(options.timeout, link.leases_of(&options.holder)).await {
            Ok(Ok(open)) => open,
            failed => return Err((part, failed.ok().and_then(Result::err))),
        };
        self.unsure = true;
        part.returns.retain(|back| open.contains(&back.token));
        let mut core = self.shared.lock();
        part.renewals.retain(|(id, token)| {
            let is_open = open.contains(token);
            if !is_open {
                core.engine.not_renewed(*id, *token);
            }
            is_open
        });
        Ok(part)
    }

    fn random(&self) -> u32 {
        uuid::Uuid::new_v4().as_u128() as u32
    }

    /// Connects if there is no connection, to carry `plan` out.
    async fn connect(&mut self, plan: &Plan) -> Result<(), Error> {
        if self.link.as_ref().is_none_or(Link::is_closed) {
            self.link = None;
            let connecting = timeout(self.shared.options.timeout, (self.connector)());
            let silent = |_| Error::Unreachable { source: None };
            self.link = Some(connecting.await.map_err(silent)??);
            self.shared.lock().counts.connects += 1;
            tracing::info!("connected again");
        }
        if self.unknown > 0 && self.shared.now() >= self.look_at {
            self.find_lost(plan).await?;
        }
        Ok(())
    }

    /// Revokes the leases of statements whose answer was lost. Nothing was served of them.
    async fn find_lost(&mut self, plan: &Plan) -> Result<(), Error> {
        let Some(link) = &self.link else { return Ok(()) };
        let asked =
            timeout(self.shared.options.timeout, link.leases_of(&self.shared.options.holder));
        let found = match asked.await {
            Ok(Ok(found)) => found,
            failed => {
                self.link = None;
                let source = failed.ok().and_then(Result::err).map(Arc::new);
                return Err(Error::Unreachable { source });
            }
        };
        self.unknown -= 1;
        self.look_at = Monotonic(self.shared.now().0 + UNKNOWN.0);
        let lost = self.shared.lock().engine.revoke_lost(found, plan);
        tracing::info!(leases = lost, "looked for leases whose answer was lost");
        Ok(())
    }

    async fn send(&self, part: &Plan, is_locked: bool) -> Outcome {
        let Some(link) = &self.link else { return Outcome::Unknown(None) };
        let options = &self.shared.options;
        let (names, is_trial): (Vec<Arc<str>>, bool) = {
            let mut core = self.shared.lock();
            core.counts.statements += 1;
            let seat = |ask: &Ask| &core.seats[ask.id.0 as usize];
            let is_lone = part.asks.len() == 1 && seat(&part.asks[0]).lack.is_some();
            let is_trial = is_locked || is_lone;
            (part.asks.iter().map(|ask| seat(ask).hot.name.clone()).collect(), is_trial)
        };
        let terms = Terms {
            holder: &options.holder,
            ttl: options.ttl.as_ref().map(Duration::as_secs_f64),
            reserve_timeout: (if is_trial { TRIAL } else { RESERVE }).min(options.timeout / 2),
        };
        match timeout(options.timeout, link.carry_out(part, &names, terms)).await {
            Err(_) => {
                // It must not go on without this client, perhaps for as long as somebody holds a
                // lock.
                let _ = timeout(options.timeout.min(CANCEL), link.cancel()).await;
                Outcome::Unknown(None)
            }
            Ok(Ok(answer)) if answer.fits(part) => Outcome::Done(answer),
            Ok(Ok(_)) => Outcome::Unknown(None),
            Ok(Err(error)) if is_refusal(&error) => Outcome::Refused(error),
            Ok(Err(error)) => Outcome::Unknown(Some(error)),
        }
    }
}

/// However the task ends, and if it never begins, nobody waits for it any more.
struct Over(Arc<Shared>);

impl Drop for Over {
    fn drop(&mut self) {
        if self.0.check_process().is_err() {
            return;
        }
        self.0.close(Life::Over);
        let mut core = self.0.lock();
        core.life = Life::Over;
        let hots: Vec<_> = core.seats.iter().map(|seat| seat.hot.clone()).collect();
        drop(core);
        hots.iter().for_each(|hot| hot.changed.notify_waiters());
        self.0.result.send_if_modified(|result| {
            let is_open = result.is_none();
            if is_open {
                *result = Some(Err(Error::Closed));
            }
            is_open
        });
    }
}
