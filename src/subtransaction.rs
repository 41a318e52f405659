//! A subtransaction around a piece of work, ended whatever becomes of it.

use std::panic::AssertUnwindSafe;

use pgrx::pg_sys::panic::CaughtError;
use pgrx::prelude::*;

/// Runs `work` in a subtransaction. What it has done stays if it returns; an error, be it Postgres's, ours,
/// a cancellation or a panic, undoes it, ends the subtransaction and is given back. Who does not mean
/// to catch it rethrows it, and the caller's transaction is as core would have left it.
pub fn run<T>(work: impl FnOnce() -> T) -> Result<T, Box<CaughtError>> {
    // SAFETY: as PL/pgSQL does for a block with exceptions. Both ends of the subtransaction are here and
    // one of them is reached on every way out; context and resource owner are put back behind either,
    // before anybody else can run.
    unsafe {
        let (context, owner) = (pg_sys::CurrentMemoryContext, pg_sys::CurrentResourceOwner);
        let put_back = || {
            pg_sys::MemoryContextSwitchTo(context);
            pg_sys::CurrentResourceOwner = owner;
        };
        pg_sys::BeginInternalSubTransaction(std::ptr::null());
        // What the work leaves in memory is the caller's.
        pg_sys::MemoryContextSwitchTo(context);
        PgTryBuilder::new(AssertUnwindSafe(|| {
            let done = work();
            pg_sys::ReleaseCurrentSubTransaction();
            put_back();
            Ok(done)
        }))
        .catch_others(|error| {
            // By now nothing of the work's frames is left, and the error is a copy of Rust's.
            pg_sys::MemoryContextSwitchTo(context);
            pg_sys::RollbackAndReleaseCurrentSubTransaction();
            put_back();
            Err(Box::new(error))
        })
        .execute()
    }
}

/// The SQLSTATE of an error that was caught.
pub fn sqlstate(error: &CaughtError) -> PgSqlErrorCode {
    match error {
        CaughtError::PostgresError(report)
        | CaughtError::ErrorReport(report)
        | CaughtError::RustPanic { ereport: report, .. } => report.sql_error_code(),
    }
}
