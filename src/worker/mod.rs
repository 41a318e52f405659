//! The worker of one database: it reserves blocks in its own transactions, and flushes what is
//! left.
//!
//! The first session that needs the worker registers it. The worker sleeps on its latch while
//! nothing happens, and leaves when the last session has gone and everything is flushed.

mod asker;
pub mod askers;
mod auto_create;
mod evict;
mod exhaustion_warning;
mod leases;
mod orphans;
mod outbound;
mod plan;
mod publish;
mod read_ahead;
mod refill;
mod reserve;
mod retries;
mod role_sync;
mod sample;
mod shutdown;
mod transaction;

use std::sync::atomic::Ordering::*;
use std::time::{Duration, Instant};

use pgrx::pg_sys;
use pgrx::prelude::*;

use hilo_core::numbers::SequenceId;

use crate::errors::OrRaise;
use crate::gucs;
use crate::process::ffi;
use crate::shared::wait_event::WaitEvent;
use crate::shared::workers::Place;
use crate::shared::{self, Shared, databases, slices};

/// The worker's own state.
pub struct Worker {
    shared: &'static Shared,
    database: pg_sys::Oid,
    place: Place,
    retries: retries::Retries,
    runs: read_ahead::Runs,
    came_at: Instant,
    /// Since when the database has had no session.
    alone_since: Option<Instant>,
    /// How many sessions had ended at the last look.
    departures: u64,
    /// When it last tried to flush everything without success.
    kept_at: Option<Instant>,
    /// When values were last taken or wanted.
    busy_at: Instant,
    sampled_at: Instant,
    active: bool,
    leases: leases::Due,
    askers: askers::Askers,
    /// When it last logged that leases or leftovers could not be written.
    complained_at: Option<Instant>,
    /// When it last looked which databases exist.
    reaped_at: Option<Instant>,
    /// Whether [`Worker::record_roles`] has run.
    roles_recorded: bool,
}

/// How long a worker that could not flush everything waits before it tries again.
const AGAIN: Duration = Duration::from_secs(1);

/// How often a worker without a session looks whether somebody waits for its database: at first,
/// and when it has been without one for long.
const LOOK_SOON: Duration = Duration::from_millis(10);
const LOOK_AT_LEAST: Duration = Duration::from_secs(1);

/// How long a worker stays at least while other databases wait for one: what it came for is done by
/// then.
const TURN: Duration = Duration::from_millis(100);

/// The function in which Postgres starts the worker. `argument` is the database's oid.
#[pg_guard]
#[unsafe(no_mangle)]
pub extern "C-unwind" fn hilo_worker_main(argument: pg_sys::Datum) {
    let database = pg_sys::Oid::from_u32(argument.value() as u32);
    let Ok(shared) = shared::attach() else { return };
    let Some(place) = shared.enter(database, slices::my_number()) else { return };
    // The exit callback is registered before the connection is made, so that it runs after core has
    // cleaned up the connection.
    shutdown::init(place);
    connect(database);
    outbound::init();
    Worker::new(shared, database, place).run();
}

/// Connects this background process to its database, as the bootstrap superuser, and arrives there.
/// It does so also if new connections are no longer allowed: the existing ones continue to draw.
fn connect(database: pg_sys::Oid) {
    signals();
    // SAFETY: this is how every background worker connects; it is registered as one that does.
    unsafe {
        pg_sys::BackgroundWorkerInitializeConnectionByOid(
            database,
            pg_sys::InvalidOid,
            pg_sys::BGWORKER_BYPASS_ALLOWCONN,
        )
    };
    settings();
    crate::catalog::rows::catalog_tables::init_process();
    // SAFETY: no transaction is open. An error ends the process.
    unsafe {
        pg_sys::StartTransactionCommand();
        shared::get().or_raise();
        pg_sys::CommitTransactionCommand();
    }
}

fn signals() {
    // A cancel would end a wait for the synchronous standby as if it had answered, so SIGINT is
    // ignored. SAFETY: each handler may run at any moment: it sets flags and the latch of this
    // process, or does nothing.
    unsafe {
        ffi::set_handler(pg_sys::SIGTERM, ffi::handler!(transaction::request_end));
        ffi::set_handler(pg_sys::SIGHUP, ffi::reload());
        ffi::set_handler(pg_sys::SIGINT, ffi::ignore());
        pg_sys::BackgroundWorkerUnblockSignals();
    }
}

/// Overrides those settings of the database and of the server that must not reach the worker's
/// transactions.
fn settings() {
    for (name, value) in [
        (c"search_path", c"pg_catalog"),
        // A reservation is on disk, and acknowledged by the synchronous standby, before its block
        // is served.
        (c"synchronous_commit", c"on"),
        (c"default_transaction_read_only", c"off"),
        (c"default_transaction_isolation", c"read committed"),
        (c"default_transaction_deferrable", c"off"),
        (c"statement_timeout", c"0"),
        (c"lock_timeout", c"0"),
        #[cfg(not(any(feature = "pg15", feature = "pg16")))]
        (c"transaction_timeout", c"0"),
        // The worker must be able to catch errors, and acts with no other role's privileges.
        (c"exit_on_error", c"off"),
        (c"role", c"none"),
    ] {
        // SAFETY: the strings are literals, and each setting exists in every version that it is
        // compiled for.
        unsafe {
            pg_sys::SetConfigOption(
                name.as_ptr(),
                value.as_ptr(),
                pg_sys::GucContext::PGC_SUSET,
                pg_sys::GucSource::PGC_S_OVERRIDE,
            );
        }
    }
}

/// Reads the files of the configuration again if they have changed. Returns whether they have.
fn reread_configuration() -> bool {
    // SAFETY: the flag is set by core's SIGHUP handler on this process's one thread.
    unsafe {
        let changed = (&raw const pg_sys::ConfigReloadPending).read_volatile() != 0;
        if changed {
            pg_sys::ConfigReloadPending = 0;
            pg_sys::ProcessConfigFile(pg_sys::GucContext::PGC_SIGHUP);
            settings();
        }
        changed
    }
}

impl Worker {
    fn new(shared: &'static Shared, database: pg_sys::Oid, place: Place) -> Worker {
        let now = Instant::now();
        Worker {
            shared,
            database,
            place,
            retries: retries::Retries::default(),
            runs: read_ahead::Runs::default(),
            came_at: now,
            alone_since: None,
            departures: shared.departures(place),
            kept_at: None,
            busy_at: now,
            sampled_at: now,
            active: true,
            leases: leases::Due::default(),
            askers: askers::Askers::default(),
            complained_at: None,
            reaped_at: None,
            roles_recorded: false,
        }
    }

    fn run(mut self) {
        loop {
            self.interrupts();
            if transaction::is_ending() {
                return self.end();
            }
            let worked = self.work();
            self.sample();
            self.record_roles();
            if self.leave() {
                return;
            }
            // `work` may have reset the latch for a later request, so look before sleeping.
            if !worked && self.due_slots().is_empty() {
                self.sleep();
            }
        }
    }

    /// Does the work that sessions have asked for. Returns whether there was any.
    fn work(&mut self) -> bool {
        self.shared.answer(self.place);
        self.adopt_leftovers(transaction::BRIEFLY);
        // Returned ranges are served before a new block. The first look at the leases holds up no
        // caller.
        let worked = match self.leases.is_known() {
            true => {
                self.file_leases();
                self.serve()
            }
            false => {
                let worked = self.serve();
                self.file_leases();
                worked
            }
        };
        self.find_askers();
        if worked {
            self.busy_at = Instant::now();
            self.active = true;
        }
        worked
    }

    fn interrupts(&mut self) {
        pgrx::check_for_interrupts!();
        if reread_configuration() {
            self.sample_all();
        }
    }

    /// The numbers of the slots of this database.
    fn slots(&self) -> Vec<usize> {
        let database = self.database.to_u32();
        let ours = self.shared.slots.iter().enumerate();
        ours.filter(|(_, slot)| slot.database.load(Acquire) == database).map(|(at, _)| at).collect()
    }

    /// Makes room, and leaves when it is time. Returns whether this worker has left.
    fn leave(&mut self) -> bool {
        self.make_room();
        // A session may have come and gone since the last look.
        let departures = self.shared.departures(self.place);
        let alone = self.shared.sessions_in(self.database) == 0;
        if !alone || std::mem::replace(&mut self.departures, departures) != departures {
            self.alone_since = None;
        }
        let since = *self.alone_since.get_or_insert_with(Instant::now);
        // A transaction that drops, renames or copies the database waits until nobody is connected
        // to it.
        let in_the_way = alone && databases::is_wanted();
        if in_the_way {
            self.shared.end_askers(self.database.to_u32());
        }
        // It ends the processes that ask sources if somebody waits for them.
        let rested = since.elapsed() >= gucs::worker_idle_timeout()
            && !self.shared.has_askers(self.database.to_u32());
        let idle = alone && (rested || in_the_way);
        let crowded_out = self.is_crowded_out();
        let kept = self.kept_at.is_some_and(|at| at.elapsed() < AGAIN);
        if kept || !(idle || crowded_out) {
            return false;
        }
        let empty = self.adopt_leftovers(self.patience()) & self.evict_all();
        // A worker that others wait for leaves even if something stays in memory: its database gets
        // a worker again when it needs one. A session that has come meanwhile relies on this
        // worker, and may have left numbers in memory.
        let relied_on = || {
            self.shared.sessions_in(self.database) > 0
                || self.shared.departures(self.place) != departures
        };
        let wanted = || self.is_wanted() || (!crowded_out && relied_on());
        let left = (empty || crowded_out) && self.shared.leave_unless(self.place, wanted);
        self.kept_at = (!left && !empty).then(Instant::now);
        left
    }

    /// Whether another database waits for a worker, and this one has had its turn and is not
    /// wanted.
    fn is_crowded_out(&self) -> bool {
        self.shared.is_contended_by_others(self.database)
            && self.came_at.elapsed() >= TURN
            && !self.is_wanted()
    }

    fn is_wanted(&self) -> bool {
        let database = self.database.to_u32();
        self.shared
            .wanted
            .iter()
            .any(|number| self.shared.slots[number].database.load(Acquire) == database)
    }

    /// How long a transaction that flushes ranges waits for a lock on the tables.
    fn patience(&self) -> Duration {
        Duration::from_millis(if transaction::is_ending() { 200 } else { 1_000 })
    }

    /// Logs, once in a minute, a failure that concerns a sequence.
    fn complain(&mut self, what: &str, sequence: SequenceId, failure: &transaction::Failure) {
        const PAUSE: Duration = Duration::from_secs(60);
        if self.complained_at.is_none_or(|at| at.elapsed() > PAUSE) {
            self.complained_at = Some(Instant::now());
            log!("hilo could not {what} of sequence {sequence}: {}", failure.message);
        }
    }

    /// Sleeps until something is wanted, a sample is due, a retry is due, or it is time to leave.
    fn sleep(&self) {
        let mut due: Option<Duration> = self.retries.next();
        let mut at = |wait: Duration| due = Some(due.map_or(wait, |due| due.min(wait)));
        if self.active {
            at(gucs::sample_interval().saturating_sub(self.sampled_at.elapsed()));
        }
        if self.shared.sessions_in(self.database) == 0
            && let Some(since) = self.alone_since
        {
            let again =
                self.kept_at.map_or(Duration::ZERO, |at| AGAIN.saturating_sub(at.elapsed()));
            let rest = gucs::worker_idle_timeout().saturating_sub(since.elapsed());
            // Core waits five seconds for a database, and looks ten times in each.
            let look = (since.elapsed() / 8).clamp(LOOK_SOON, LOOK_AT_LEAST);
            at(rest.max(again).max(LOOK_SOON).min(look));
        }
        if self.has_leftovers() {
            at(AGAIN / 5);
        }
        if let Some(wait) = self.lease_due_in() {
            at(wait);
        }
        if let Some(wait) = self.askers.next() {
            at(wait);
        }
        self.nap(due);
    }

    /// Sleeps until the worker is woken, or for as long as `due` says.
    fn nap(&self, due: Option<Duration>) {
        let ms = due.map_or(-1, |due| due.as_millis() as i64 + 1);
        ffi::sleep(ms, WaitEvent::WORKER_MAIN.code());
    }
}
