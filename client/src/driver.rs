//! The task of a client: it carries out what the engine plans.

use std::sync::Arc;
use std::time::Duration;

use hilo_core::backoff;
use hilo_core::numbers::{Micros, Monotonic};
use tokio::time::{sleep, sleep_until, timeout};
use tokio_postgres::error::{Severity, SqlState};
use tracing::Instrument;

use crate::engine::{Ask, Lease, NEVER, Plan, Purpose};
use crate::hot::Hot;
use crate::sequence::keys;
use crate::server::{Answer, Connector, Granted, Link};
use crate::shared::{Core, Life, Shared};
use crate::stats::Returned;
use crate::{Error, Unavailable};

/// How long after a statement of unknown outcome the server may still be at work on it.
const UNKNOWN: Micros = Micros(60_000_000);

pub struct Driver {
    shared: Arc<Shared>,
    connector: Connector,
    link: Option<Link>,
    /// Nobody knows what became of a statement: how often to look for leases that nobody has heard of, and when next.
    unknown: u32,
    look_at: Monotonic,
    returned: Returned,
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
        Driver { shared, connector, link: Some(link), unknown: 0, look_at, returned }
    }

    /// Works until the client is closed.
    pub async fn run(mut self) {
        let _over = Over(self.shared.clone());
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
                (Life::Over, _) => return,
                (Life::Closing, _) => break,
                (Life::Serving, Some(plan)) => self.carry_out(plan).await,
                (Life::Serving, None) => self.pause(due).await,
            }
        }
        let result = self.return_all().await;
        self.shared.result.send_replace(Some(result));
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

    /// Returns what is left, until all is returned or patience has ended.
    async fn return_all(&mut self) -> Result<Returned, Error> {
        let patience: Micros = self.shared.options.patience.into();
        let deadline = Monotonic(self.shared.now().0.saturating_add(patience.0));
        self.look_at = self.shared.now();
        loop {
            let (plan, due) = {
                let mut core = self.shared.lock();
                core.engine.give_back_all(self.shared.now());
                (core.engine.plan_returns(), core.engine.due())
            };
            if plan.is_empty() && self.unknown == 0 {
                return Ok(self.returned);
            }
            self.carry_out(plan).await;
            let (cut_off, trouble) = {
                let core = self.shared.lock();
                (core.engine.is_cut_off(), core.trouble.clone())
            };
            if !cut_off {
                // What was lost meanwhile has been found by now.
                self.unknown = 0;
            } else if self.shared.now() >= deadline {
                return Err(Error::Unreachable { source: trouble });
            } else {
                sleep_until(self.shared.at(due.min(deadline)).into()).await;
            }
        }
    }

    async fn carry_out(&mut self, plan: Plan) {
        let (asks, returns, renewals) = (plan.asks.len(), plan.returns.len(), plan.renewals.len());
        let span = tracing::debug_span!("hilo_statement", asks, returns, renewals);
        self.carry_out_parts(plan).instrument(span).await
    }

    /// Does a plan in one statement. If the server refuses that, does it in halves, until what it refuses is found.
    async fn carry_out_parts(&mut self, plan: Plan) {
        if let Err(error) = self.connect(&plan).await {
            let source = match error {
                Error::Unreachable { source } => source,
                other => {
                    tracing::warn!(error = %other, "the server has no leases");
                    None
                }
            };
            return self.lost(plan, source);
        }
        let mut parts = vec![plan];
        let mut attempt = 0;
        while let Some(part) = parts.pop() {
            let sent = self.shared.now();
            match self.send(&part).await {
                Outcome::Done(answer) => self.accept(part, answer, sent),
                Outcome::Refused(error) if is_transient(&error) && attempt < backoff::ATTEMPTS => {
                    tracing::debug!(%error, attempt, "trying again");
                    sleep(backoff::delay(attempt, self.random())).await;
                    attempt += 1;
                    parts.push(part);
                }
                Outcome::Refused(error) if part.len() == 1 => self.refused(part, error),
                Outcome::Refused(_) => {
                    let (first, second) = part.halves();
                    parts.push(second);
                    parts.push(first);
                }
                Outcome::Unknown(error) => {
                    let mut rest = part;
                    for part in parts.into_iter().rev() {
                        rest.asks.extend(part.asks);
                        rest.returns.extend(part.returns);
                        rest.renewals.extend(part.renewals);
                    }
                    self.link = None;
                    self.unknown = 2;
                    self.look_at = sent;
                    return self.lost(rest, error.map(Arc::new));
                }
            }
        }
        let mut core = self.shared.lock();
        core.engine.done();
        core.connected = true;
        core.trouble = None;
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

    async fn send(&self, part: &Plan) -> Outcome {
        let Some(link) = &self.link else { return Outcome::Unknown(None) };
        let options = &self.shared.options;
        let names: Vec<Arc<str>> = {
            let mut core = self.shared.lock();
            core.counts.statements += 1;
            part.asks.iter().map(|ask| core.seats[ask.id.0 as usize].hot.name.clone()).collect()
        };
        let ttl = options.ttl.as_ref().map(Duration::as_secs_f64);
        let answer = link.carry_out(part, &names, &options.holder, ttl);
        match timeout(options.timeout, answer).await {
            Err(_) => Outcome::Unknown(None),
            Ok(Ok(answer)) if answer.granted.len() == part.asks.len() => Outcome::Done(answer),
            Ok(Ok(_)) => Outcome::Unknown(None),
            Ok(Err(error)) if is_refusal(&error) => Outcome::Refused(error),
            Ok(Err(error)) => Outcome::Unknown(Some(error)),
        }
    }

    /// A part has been committed.
    fn accept(&mut self, part: Plan, answer: Answer, sent: Monotonic) {
        tracing::debug!(leases = answer.granted.len(), returned = answer.returned, "done");
        self.returned.leases += part.returns.len() as u64;
        self.returned.values += answer.returned as u64;
        let now = self.shared.now();
        let mut core = self.shared.lock();
        for (id, token) in &part.renewals {
            core.engine.renewed(*id, *token, sent);
        }
        let mut changed: Vec<Arc<Hot>> = Vec::new();
        for granted in answer.granted {
            let Some(&ask) = part.asks.get(granted.ask) else { continue };
            let hot = core.seats[ask.id.0 as usize].hot.clone();
            learn_keys(&hot, &granted);
            let lease = Lease {
                token: granted.token,
                last: granted.last,
                increment: granted.increment,
                count: granted.count,
                expires: core.engine.expiry(sent),
            };
            grant(&mut core, ask, lease, granted.suggested, now);
            changed.push(hot);
        }
        let serving = core.life == Life::Serving;
        for hot in changed {
            if serving {
                core.fill(&hot, 0, now);
                core.check(&hot, now);
            }
            hot.changed.notify_waiters();
        }
    }

    /// The server refuses a part of one call.
    fn refused(&mut self, part: Plan, source: tokio_postgres::Error) {
        let now = self.shared.now();
        let mut core = self.shared.lock();
        for back in part.returns {
            // It ended then, although the answer was lost.
            if !back.tried {
                tracing::warn!(lease = %back.token, error = %source, "a lease cannot be returned");
            }
        }
        for (id, token) in part.renewals {
            tracing::warn!(lease = %token, error = %source, "a lease cannot be renewed");
            core.engine.not_renewed(id, token);
        }
        let lack = is_lack(&source);
        let source = Arc::new(source);
        for ask in part.asks {
            let hot = core.seats[ask.id.0 as usize].hot.clone();
            let error = Error::Refused { sequence: hot.name.clone(), source: source.clone() };
            tracing::warn!(sequence = %hot.name, error = %source, "no lease");
            core.seat(ask.id).errors += 1;
            match ask.purpose {
                Purpose::Range(ticket) => {
                    if let Some(caller) = core.tickets.remove(&ticket) {
                        let _ = caller.send(Err(error));
                    }
                }
                Purpose::Stock => {
                    core.engine.refused(ask.id, now);
                    if lack {
                        core.seat(ask.id).lack = Some(source.clone());
                    } else {
                        let seat = core.seat(ask.id);
                        seat.refusal = Some(error);
                        seat.refusals += 1;
                    }
                    core.check(&hot, now);
                    hot.changed.notify_waiters();
                }
            }
        }
    }

    /// The server was not reached, or nobody knows what it did.
    fn lost(&mut self, plan: Plan, trouble: Option<Arc<tokio_postgres::Error>>) {
        let why = trouble.as_ref().map(|error| error.to_string()).unwrap_or_default();
        tracing::warn!(error = why, "cannot reach the server");
        let now = self.shared.now();
        let mut core = self.shared.lock();
        core.connected = false;
        core.trouble = trouble.or(core.trouble.take());
        core.counts.failures += 1;
        core.engine.lost(plan, now);
        if self.shared.options.unavailable == Unavailable::Fail {
            let error = Error::Unreachable { source: core.trouble.clone() };
            for (ticket, caller) in std::mem::take(&mut core.tickets) {
                core.engine.forget_range(ticket);
                let _ = caller.send(Err(error.clone()));
            }
            for seat in core.seats.iter().filter(|seat| core.engine.is_awaited(seat.hot.id)) {
                seat.hot.changed.notify_waiters();
            }
        }
    }
}

/// Gives a lease to whom it was asked for.
fn grant(core: &mut Core, ask: Ask, lease: Lease, suggested: i64, now: Monotonic) {
    match ask.purpose {
        Purpose::Stock => {
            core.seat(ask.id).lack = None;
            core.engine.granted(ask, lease, suggested);
        }
        Purpose::Range(ticket) => {
            let caller = core.tickets.remove(&ticket);
            match caller.is_some_and(|caller| caller.send(Ok(lease)).is_ok()) {
                true => core.engine.hand_over(ask, lease, now),
                // Nobody waits for it any more.
                false => core.engine.stock(ask.id, lease),
            }
        }
    }
}

fn learn_keys(hot: &Hot, granted: &Granted) {
    let mut known = hot.keys.write().unwrap_or_else(|poisoned| poisoned.into_inner());
    let (format, prefix) = (&granted.key_format, &granted.server_prefix);
    if known.as_ref().is_none_or(|keys| keys.format != *format || keys.prefix != *prefix) {
        // The bounds are the server's; a negative value among these says enough.
        let first = hilo_core::lane::value(granted.last, granted.increment, granted.count as u32);
        let least = first.min(granted.last);
        *known = Some(Arc::new(keys(&hot.name, format, prefix, least)));
    }
}

/// Whether the server has refused and rolled back. A FATAL error can come after a commit, and one of the connection
/// says nothing about the transaction.
fn is_refusal(error: &tokio_postgres::Error) -> bool {
    let Some(report) = error.as_db_error() else { return false };
    let code = report.code();
    report.parsed_severity() == Some(Severity::Error)
        && !code.code().starts_with("08")
        && *code != SqlState::READ_ONLY_SQL_TRANSACTION
}

/// Whether the same statement may succeed a moment later: it met another transaction, or was canceled.
fn is_transient(error: &tokio_postgres::Error) -> bool {
    let code = error.code().map_or("", SqlState::code);
    code.starts_with("40") || code == "57014"
}

/// Whether the server would lease values if it could: callers wait on. A lock, or a lack of resources.
fn is_lack(error: &tokio_postgres::Error) -> bool {
    let code = error.code().map_or("", SqlState::code);
    code.starts_with("53") || ["55P03", "54000"].contains(&code)
}

/// However the task ends, nobody waits for it any more.
struct Over(Arc<Shared>);

impl Drop for Over {
    fn drop(&mut self) {
        self.0.close(Life::Over);
        let mut core = self.0.lock();
        core.life = Life::Over;
        core.tickets.clear();
        for seat in &core.seats {
            seat.hot.changed.notify_waiters();
        }
        self.0.result.send_if_modified(|result| match result {
            Some(_) => false,
            None => {
                *result = Some(Err(Error::Closed));
                true
            }
        });
    }
}
