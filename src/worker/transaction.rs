//! Runs the worker's own transactions, and turns an error in one into a [`Failure`]. This file also
//! has the worker's handler of SIGTERM, which first ends what a transaction waits for and then,
//! between two transactions, the worker.

use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicBool, Ordering::*};
use std::time::Duration;

use pgrx::pg_sys;
use pgrx::pg_sys::panic::CaughtError;
use pgrx::prelude::*;

use crate::errors::{FaultKind, HiloError, in_full};
use crate::process::{connections, ffi, subtransaction};

/// Whether this process has been told to end.
static ENDING: AtomicBool = AtomicBool::new(false);
/// Whether this process does its last work: transactions run again.
static AT_END: AtomicBool = AtomicBool::new(false);
/// Whether a transaction is running, so that a cancel is caught.
static RUNNING: AtomicBool = AtomicBool::new(false);

/// The work of the handler of SIGTERM. The first signal cuts short what a transaction waits for: a
/// lock, or the synchronous standby. A later signal does not cut short what the worker does at its
/// end. It may run at any moment: it only stores to flags of this process and sets its latch.
pub fn request_end() {
    // SAFETY: core's own handlers set these flags, and the latch is this process's own.
    unsafe {
        if !ENDING.swap(true, Relaxed) && RUNNING.load(Relaxed) {
            (&raw mut pg_sys::QueryCancelPending).write_volatile(1);
            (&raw mut pg_sys::InterruptPending).write_volatile(1);
        }
        connections::cut();
        ffi::set_latch(pg_sys::MyLatch);
    }
}

/// Whether this process has been told to end. The signal cuts short the wait for the synchronous
/// standby, so nothing that was committed since may be served before another commit.
pub fn is_ending() -> bool {
    ENDING.load(Relaxed)
}

/// Lets transactions run from here on, although this process has been told to end.
pub fn begin_end() {
    AT_END.store(true, Relaxed);
}

/// The SQLSTATE of a failure to get a lock in time.
pub const LOCKED: i32 = PgSqlErrorCode::ERRCODE_LOCK_NOT_AVAILABLE as i32;

/// The SQLSTATE of a name that another transaction has taken first.
pub const TAKEN: i32 = PgSqlErrorCode::ERRCODE_UNIQUE_VIOLATION as i32;

/// Why a transaction failed.
#[derive(Clone, Debug)]
pub struct Failure {
    pub sqlstate: i32,
    pub kind: FaultKind,
    pub message: String,
    /// Its DETAIL and its HINT.
    pub advice: [Option<String>; 2],
}

impl Failure {
    /// The message, then its DETAIL and its HINT.
    pub fn in_full(&self) -> String {
        in_full(&self.message, &self.advice)
    }
}

impl From<HiloError> for Failure {
    fn from(error: HiloError) -> Failure {
        let (sqlstate, kind, message) = (error.sqlstate(), error.kind(), error.to_string());
        Failure { sqlstate, kind, message, advice: [error.detail(), error.hint()] }
    }
}

/// How far a commit has come. Only [`run`] makes one, and nothing is published without it.
#[derive(Clone, Copy)]
pub struct Commit {
    acknowledged: bool,
}

impl Commit {
    /// Whether what was written is on disk, and the synchronous standby has it if there is one.
    /// Else this process was told to end while it waited for the standby, or its postmaster has
    /// died.
    pub fn is_acknowledged(self) -> bool {
        self.acknowledged
    }

    fn now() -> Commit {
        // SAFETY: reads a flag of this process. Core sets it where the postmaster has died during
        // the wait.
        let orphaned = unsafe { (&raw const pg_sys::ProcDiePending).read_volatile() != 0 };
        Commit { acknowledged: !is_ending() && !orphaned }
    }
}

/// Runs `work` in a transaction and commits it; an error rolls it back. `work` waits no longer than
/// `patience` for a lock of another transaction, since meanwhile the worker serves no other
/// session; `None`: it waits for none.
pub fn run<T>(
    patience: Option<Duration>,
    activity: &std::ffi::CStr,
    work: impl FnOnce() -> Result<T, HiloError>,
) -> Result<(T, Commit), Failure> {
    let work = AssertUnwindSafe(work);
    // From here on the handler cancels; an earlier signal is seen below.
    RUNNING.store(true, SeqCst);
    let result = if is_ending() && !AT_END.load(Relaxed) {
        let sqlstate = PgSqlErrorCode::ERRCODE_ADMIN_SHUTDOWN as i32;
        Err(Failure {
            sqlstate,
            kind: FaultKind::Other,
            message: "the worker is shutting down".into(),
            advice: [None, None],
        })
    } else {
        patience.inspect(|patience| heed_cancels(*patience));
        PgTryBuilder::new(AssertUnwindSafe(move || attempt(activity, work)))
            .catch_others(|error| Err(failure(error)))
            .execute()
    };
    ignore_cancels();
    let result = result.map(|made| (made, Commit::now()));
    RUNNING.store(false, Relaxed);
    // SAFETY: a flag of this process; outside of a transaction nothing is left to be cancelled.
    unsafe { (&raw mut pg_sys::QueryCancelPending).write_volatile(0) };
    report();
    result
}

/// Runs `work` like [`run`], where nothing is published.
pub fn run_within<T>(
    patience: Duration,
    activity: &std::ffi::CStr,
    work: impl FnOnce() -> Result<T, HiloError>,
) -> Result<T, Failure> {
    run(Some(patience), activity, work).map(|(made, _)| made)
}

/// A lock timeout is a cancel.
fn heed_cancels(patience: Duration) {
    // SAFETY: these are core's own handler and variable, set on this process's one thread.
    unsafe {
        ffi::set_handler(pg_sys::SIGINT, ffi::cancel());
        pg_sys::LockTimeout = patience.as_millis().max(1) as i32;
    }
}

/// From here on no cancel ends a wait for the synchronous standby as if that had answered; only
/// [`request_end`] does.
fn ignore_cancels() {
    // SAFETY: as above.
    unsafe {
        pg_sys::LockTimeout = 0;
        ffi::set_handler(pg_sys::SIGINT, ffi::ignore());
        (&raw mut pg_sys::QueryCancelPending).write_volatile(0);
        if is_ending() && !AT_END.load(Relaxed) {
            // That was the signal to end.
            (&raw mut pg_sys::QueryCancelPending).write_volatile(1);
        }
    }
}

/// How long a transaction that can be repeated waits for a lock.
pub const BRIEFLY: Duration = Duration::from_millis(20);

fn attempt<T>(
    activity: &std::ffi::CStr,
    work: AssertUnwindSafe<impl FnOnce() -> Result<T, HiloError>>,
) -> Result<T, Failure> {
    // SAFETY: the worker is connected and outside a transaction, so it may start one and then push
    // its snapshot.
    unsafe {
        pg_sys::SetCurrentStatementStartTimestamp();
        pg_sys::StartTransactionCommand();
        pg_sys::pgstat_report_activity(pg_sys::BackendState::STATE_RUNNING, activity.as_ptr());
        pg_sys::PushActiveSnapshot(pg_sys::GetTransactionSnapshot());
    }
    let result = work.0();
    // SAFETY: ends what was begun above. Nothing after the commit can fail; otherwise what is
    // committed would be taken for rolled back.
    unsafe {
        match result {
            Ok(_) => {
                ignore_cancels();
                pg_sys::PopActiveSnapshot();
                pg_sys::CommitTransactionCommand();
            }
            Err(_) => pg_sys::AbortCurrentTransaction(),
        }
    }
    result.map_err(Failure::from)
}

/// Reports to the statistics. A failure of that has no consequence.
fn report() {
    PgTryBuilder::new(|| {
        // SAFETY: both may be called outside a transaction.
        unsafe {
            pg_sys::pgstat_report_stat(false);
            pg_sys::pgstat_report_activity(pg_sys::BackendState::STATE_IDLE, std::ptr::null());
        }
    })
    .catch_others(|_| {})
    .execute();
}

fn failure(error: CaughtError) -> Failure {
    // SAFETY: pgrx has copied the error, and core aborts a session's transaction while it still has
    // the error too.
    unsafe { pg_sys::AbortCurrentTransaction() };
    let report = subtransaction::into_report(error);
    Failure {
        sqlstate: report.sql_error_code() as i32,
        kind: FaultKind::Other,
        message: report.message().to_string(),
        advice: [report.detail(), report.hint()]
            .map(|text| text.filter(|text| !text.is_empty()).map(str::to_owned)),
    }
}
