//! [`Client`], where the use of this crate begins, and the [`Builder`] that sets it up.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use hilo_core::numbers::Monotonic;
use tokio::time::timeout;
use tokio_postgres::config::TargetSessionAttrs;
use tokio_postgres::tls::{MakeTlsConnect, TlsConnect};
use tokio_postgres::{Config, NoTls, Socket};

use crate::driver::Driver;
use crate::engine::{self, Engine};
use crate::fork::{self, only_here};
use crate::sequence::Sequence;
use crate::server::{Connector, Direct, unreachable};
use crate::shared::{Handle, Life, MAX_WAIT, Options, Shared};
use crate::stats::{Returned, SequenceStats, Stats};
use crate::store::Store;
use crate::waiting::Waiter;
use crate::{Error, Unavailable};

/// The shortest time until a lease expires: it must be longer than a round trip.
const LEAST_TTL: Duration = Duration::from_secs(1);

/// How to make a [`Client`]; see [`Client::builder`].
#[derive(Clone, Debug)]
#[must_use]
pub struct Builder {
    config: Config,
    /// Its holder has no random part yet.
    options: Options,
    buffer: Duration,
    least: i64,
    most: i64,
    state: Option<PathBuf>,
    sync_every: Option<u32>,
}

impl Builder {
    /// The holder of the leases in `hilo_leases`: this name, `/`, and a random part that tells this
    /// client from others. At most 221 bytes. Default: `hilo-client`.
    pub fn name(mut self, name: impl Into<String>) -> Builder {
        self.options.holder = name.into();
        self
    }

    /// How long an outage of the server may last until a caller has to wait, at the rate of the
    /// last minute. Between one and two buffers of values are in memory. At most a year. Default:
    /// 30 s.
    pub fn buffer(mut self, buffer: Duration) -> Builder {
        self.buffer = buffer;
        self
    }

    /// How long a lease is open without a renewal. Then the server writes it off, so that nobody
    /// has to revoke the leases of a client that crashed. The client renews its leases when half of
    /// the time has passed. It may go on serving an expired lease, because nobody else gets its
    /// values, but can no longer return the rest. The time is at least a second and at most a year,
    /// and should be several times [`timeout`](Self::timeout). Default: leases do not expire.
    pub fn ttl(mut self, ttl: Duration) -> Builder {
        self.options.ttl = Some(ttl.clamp(LEAST_TTL, MAX_WAIT));
        self
    }

    /// How long a caller waits for a value, a warm-up for all of its values, and a shutdown for the
    /// server. Default: 30 s.
    pub fn patience(mut self, patience: Duration) -> Builder {
        self.options.patience = patience;
        self
    }

    /// How long callers wait if memory has no value for them while the server cannot be reached.
    /// Default: as long as [`patience`](Self::patience) says.
    pub fn unavailable(mut self, unavailable: Unavailable) -> Builder {
        self.options.unavailable = unavailable;
        self
    }

    /// How long a statement, or making a connection, may take until it counts as failed. Default:
    /// 10 s.
    pub fn timeout(mut self, timeout: Duration) -> Builder {
        self.options.timeout = timeout;
        self
    }

    /// The fewest and the most values of one lease. Default: 32 and 16,777,216.
    pub fn lease_size(mut self, least: i64, most: i64) -> Builder {
        self.least = least.clamp(1, 1_000_000_000);
        self.most = most.clamp(self.least, 1_000_000_000);
        self
    }

    /// Keeps the leases in this file, and how far each is used. A process that is killed, and
    /// started again with the same file, goes on with them: it loses no value, and repeats none.
    /// The file is for one process at a time, on a local file system of Linux.
    /// `docs/leases.md` says what it promises. Default: none; the leases of a process that is
    /// killed stay open.
    pub fn state(mut self, path: impl Into<PathBuf>) -> Builder {
        self.state = Some(path.into());
        self
    }

    /// Goes on with the leases of the file of [`state`](Self::state) after a crash of the machine
    /// too. At most this many values of each lease are lost; 0 is the same as 1. The client then
    /// waits for the disk once for each such number of values. No clone of the machine may have its
    /// id (`/etc/machine-id`). Default: the leases are given up.
    pub fn sync_every(mut self, values: u32) -> Builder {
        self.sync_every = Some(values);
        self
    }

    /// Connects without TLS. From then on the current runtime does the client's work.
    ///
    /// # Errors
    /// [`Error::Unreachable`] if there is no connection, [`Error::NotInstalled`], [`Error::Watch`].
    pub async fn connect(self) -> Result<Client, Error> {
        self.connect_with(NoTls).await
    }

    /// Connects with a TLS connector of tokio-postgres.
    ///
    /// # Errors
    /// As for [`connect`](Self::connect).
    pub async fn connect_with<T>(self, tls: T) -> Result<Client, Error>
    where
        T: MakeTlsConnect<Socket> + Clone + Send + Sync + 'static,
        T::Stream: Send,
        T::TlsConnect: Send,
        <T::TlsConnect as TlsConnect<Socket>>::Future: Send,
    {
        let mut config = self.config.clone();
        if config.get_target_session_attrs() == TargetSessionAttrs::Any {
            // If there are several hosts, only the primary has leases.
            config.target_session_attrs(TargetSessionAttrs::ReadWrite);
        }
        if config.get_application_name().is_none() {
            config.application_name(&self.options.holder);
        }
        let generation = fork::watch()?;
        self.connect_through(Direct { config, tls, generation }).await
    }

    /// Takes its connections from elsewhere, such as a pool.
    ///
    /// # Errors
    /// As for [`connect`](Self::connect).
    pub async fn connect_through(self, connector: impl Connector) -> Result<Client, Error> {
        let generation = fork::watch()?;
        only_here(generation, self.connect_in(generation, Arc::new(connector))).await?
    }

    /// Connects in the process of this generation.
    async fn connect_in(
        self,
        generation: u32,
        connector: Arc<dyn Connector>,
    ) -> Result<Client, Error> {
        if self.options.holder.contains('\0') {
            return Err(Error::Name(self.options.holder.into()));
        }
        let identity = uuid::Uuid::new_v4();
        let mut options = self.options;
        let open = |path: &PathBuf| Store::open(path, &options.holder, self.sync_every);
        let store = self.state.as_ref().map(open).transpose()?;
        options.holder = match &store {
            Some((store, _)) => store.holder().to_owned(),
            None => format!("{}/{}", options.holder, identity.simple()),
        };
        let ttl = options.ttl.map(Into::into);
        let mut settings = engine::Settings::new(self.buffer.min(MAX_WAIT).into(), ttl);
        settings.policy.min_block = self.least;
        settings.policy.max_block = self.most;
        let seed = identity.as_u128() as u64;
        let engine = Engine::new(settings, Monotonic(0), seed);
        let shared = Arc::new(Shared::new(engine, options, generation));
        if let Some((store, left)) = store {
            shared.resume(store, left);
        }
        let mut driver = Driver::new(shared.clone(), connector);
        driver.connect().await?;
        tokio::spawn(only_here(generation, driver.run()));
        Ok(Client { handle: Arc::new(Handle { shared }) })
    }
}

/// Takes leases from a server, and serves their values from memory.
///
/// It is cheap to clone. When the last clone and the last [`Sequence`] are dropped, it stops, and
/// its leases stay open until they expire or are revoked. Call [`shutdown`](Self::shutdown) first,
/// which returns them.
#[derive(Clone)]
pub struct Client {
    handle: Arc<Handle>,
}

impl Client {
    /// Connects to a server and database, such as `postgresql://app@db/shop`, with default
    /// settings.
    ///
    /// # Errors
    /// As for [`Builder::connect`]; [`Error::Unreachable`] also for a text that is no address.
    pub async fn connect(url: &str) -> Result<Client, Error> {
        let config = url.parse().map_err(|wrong: tokio_postgres::Error| unreachable(&wrong))?;
        Client::builder(config).connect().await
    }

    /// Begins to make a client of the server, and database, that `config` names.
    pub fn builder(config: Config) -> Builder {
        Builder {
            config,
            options: Options {
                holder: "hilo-client".into(),
                ttl: None,
                patience: Duration::from_secs(30),
                unavailable: Unavailable::Wait,
                timeout: Duration::from_secs(10),
            },
            buffer: Duration::from_secs(30),
            least: 32,
            most: 1 << 24,
            state: None,
            sync_every: None,
        }
    }

    /// The sequence `name`. The server is asked for nothing before the sequence is used. The client
    /// remembers every name until it is told to [`forget`](Self::forget) it.
    pub fn sequence(&self, name: &str) -> Sequence {
        Sequence { hot: self.shared().sequence(name), handle: self.handle.clone() }
    }

    /// Forgets a sequence: the rest of its leases is returned with the next statement. `false`:
    /// somebody has a [`Sequence`] of this name, or nobody has asked for one.
    pub fn forget(&self, name: &str) -> bool {
        self.shared().check_process().is_ok() && self.shared().forget(name)
    }

    /// Takes the first leases of several sequences together, so that their first callers need not
    /// wait. It waits as long as one caller does, however many sequences there are.
    ///
    /// # Errors
    /// The first error of a sequence; see [`Sequence::next`].
    pub async fn warm_up(&self, names: &[&str]) -> Result<(), Error> {
        self.shared().check_process()?;
        let deadline = self.shared().deadline();
        let sequences: Vec<Sequence> = names.iter().map(|name| self.sequence(name)).collect();
        let waiters = self.register(&sequences)?;
        for (sequence, waiter) in sequences.iter().zip(waiters) {
            sequence.warm_up(waiter, deadline).await?;
        }
        Ok(())
    }

    fn register<'a>(&'a self, sequences: &'a [Sequence]) -> Result<Vec<Waiter<'a>>, Error> {
        let mut core = self.shared().lock();
        let register =
            |sequence: &'a Sequence| Waiter::register(self.shared(), &sequence.hot, &mut core);
        let waiters: Vec<_> = sequences.iter().map(register).collect();
        // A waiter takes the lock when it is dropped.
        drop(core);
        waiters.into_iter().collect()
    }

    /// The name of this client's holder in `hilo_leases`.
    pub fn holder(&self) -> &str {
        &self.shared().options.holder
    }

    /// Stops serving, and then returns what is left to the server. From the call on, nobody gets a
    /// value; callers get [`Error::Closed`].
    ///
    /// # Errors
    /// [`Error::Unreachable`] if the server cannot be reached, or somebody holds the leases, as
    /// long as [`Builder::patience`] says; they are then left open. [`Error::Closed`] if the
    /// runtime has ended, [`Error::Forked`].
    pub async fn shutdown(&self) -> Result<Returned, Error> {
        let shared = self.shared();
        let closing = async {
            let mut result = shared.result.subscribe();
            shared.close(Life::Closing);
            // The task itself keeps to patience, unless its runtime stands still.
            let options = &shared.options;
            let bound = options.patience.saturating_add(options.timeout).min(MAX_WAIT);
            match timeout(bound, result.wait_for(Option::is_some)).await {
                Ok(result) => {
                    result.ok().and_then(|seen| seen.clone()).unwrap_or(Err(Error::Closed))
                }
                Err(_) => Err(Error::Unreachable { source: None }),
            }
        };
        only_here(shared.generation, closing).await?
    }

    /// The client's counters so far; nothing in a fork of its process.
    pub fn stats(&self) -> Stats {
        let shared = self.shared();
        if shared.check_process().is_err() {
            return Stats::default();
        }
        let now = shared.now();
        let core = shared.lock();
        let mut stats = Stats {
            sequences: core.states.len() as u64,
            statements: core.counts.statements,
            failures: core.counts.failures,
            overloads: core.counts.overloads,
            connects: core.counts.connects,
            connected: core.connected,
            ..Stats::default()
        };
        for one in core.states.iter().map(|state| core.stats(state, now)) {
            stats.hits += one.hits;
            stats.refills += one.refills;
            stats.waits += one.waits;
            stats.errors += one.errors;
            stats.rate += one.rate;
            stats.left += one.left;
            stats.leases += one.leases;
        }
        stats
    }

    /// The counters of each sequence, in the order in which they were first named.
    pub fn sequence_stats(&self) -> Vec<SequenceStats> {
        let shared = self.shared();
        if shared.check_process().is_err() {
            return Vec::new();
        }
        let now = shared.now();
        let core = shared.lock();
        core.states.iter().map(|state| core.stats(state, now)).collect()
    }

    fn shared(&self) -> &Shared {
        &self.handle.shared
    }
}

impl std::fmt::Debug for Client {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Client").field("holder", &self.holder()).finish_non_exhaustive()
    }
}
