//! A transaction of the worker's own, and what becomes of an error in it.

use std::panic::AssertUnwindSafe;

use pgrx::pg_sys;
use pgrx::pg_sys::panic::CaughtError;
use pgrx::prelude::*;

use crate::errors::HiloError;
use crate::ffi;

/// Why a transaction failed.
#[derive(Clone, Debug)]
pub struct Failure {
    pub sqlstate: i32,
    pub message: String,
}

impl From<HiloError> for Failure {
    fn from(error: HiloError) -> Failure {
        Failure { sqlstate: error.sqlstate(), message: error.to_string() }
    }
}

/// Runs `work` in a transaction and commits it; with an error it is rolled back. When this returns
/// `Ok`, what was written is flushed, and acknowledged by the synchronous standby if there is one,
/// unless [`is_ending`].
pub fn run<T>(
    activity: &std::ffi::CStr,
    work: impl FnOnce() -> Result<T, HiloError>,
) -> Result<T, Failure> {
    let work = AssertUnwindSafe(work);
    PgTryBuilder::new(AssertUnwindSafe(move || attempt(activity, work)))
        .catch_others(|error| Err(failure(error)))
        .catch_rust_panic(|error| Err(failure(error)))
        .execute()
}

/// The same, without waiting for somebody's lock for long: meanwhile nobody else is served.
pub fn patiently<T>(
    activity: &std::ffi::CStr,
    work: impl FnOnce() -> Result<T, HiloError>,
) -> Result<T, Failure> {
    const PATIENCE_MS: i32 = 20;
    // The timeout is a cancel, which is ignored elsewhere. None must be left over for a reservation's
    // wait for the synchronous standby.
    // SAFETY: core's own handler and variables, on this process's one thread.
    unsafe {
        ffi::set_handler(pg_sys::SIGINT, ffi::StatementCancelHandler);
        pg_sys::LockTimeout = PATIENCE_MS;
    }
    let result = run(activity, work);
    // SAFETY: as above.
    unsafe {
        pg_sys::LockTimeout = 0;
        ffi::set_handler(pg_sys::SIGINT, ffi::ignore_signal);
        (&raw mut pg_sys::QueryCancelPending).write_volatile(0);
    }
    result
}

/// Whether this process is to end. A termination cuts the wait for the synchronous standby short, so
/// nothing that was committed may be served any more.
pub fn is_ending() -> bool {
    // SAFETY: a flag that core's signal handler sets on this process's one thread.
    unsafe { (&raw const pg_sys::ProcDiePending).read_volatile() != 0 }
}

fn attempt<T>(
    activity: &std::ffi::CStr,
    work: AssertUnwindSafe<impl FnOnce() -> Result<T, HiloError>>,
) -> Result<T, Failure> {
    // SAFETY: the worker is connected and outside a transaction. No snapshot is pushed: the tables are
    // read with the newest one each time.
    unsafe {
        pg_sys::SetCurrentStatementStartTimestamp();
        pg_sys::StartTransactionCommand();
        pg_sys::pgstat_report_activity(pg_sys::BackendState::STATE_RUNNING, activity.as_ptr());
        pg_sys::PushActiveSnapshot(pg_sys::GetTransactionSnapshot());
    }
    let result = work.0();
    // SAFETY: ends what was begun above. Interrupts are not looked at behind the commit: what it has
    // reserved must first arrive somewhere.
    unsafe {
        match result {
            Ok(_) => {
                pg_sys::PopActiveSnapshot();
                pg_sys::CommitTransactionCommand();
            }
            Err(_) => pg_sys::AbortCurrentTransaction(),
        }
        pg_sys::pgstat_report_stat(false);
        pg_sys::pgstat_report_activity(pg_sys::BackendState::STATE_IDLE, std::ptr::null());
    }
    result.map_err(Failure::from)
}

fn failure(error: CaughtError) -> Failure {
    // SAFETY: the error was copied and the error state flushed when it was caught.
    unsafe {
        pg_sys::AbortCurrentTransaction();
        pg_sys::pgstat_report_activity(pg_sys::BackendState::STATE_IDLE, std::ptr::null());
    }
    match error {
        CaughtError::PostgresError(report)
        | CaughtError::ErrorReport(report)
        | CaughtError::RustPanic { ereport: report, .. } => Failure {
            sqlstate: report.sql_error_code() as i32,
            message: report.message().to_string(),
        },
    }
}
