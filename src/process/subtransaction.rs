//! Runs a piece of work in a subtransaction, which ends on every way out.

use std::panic::AssertUnwindSafe;

use pgrx::pg_sys::panic::{CaughtError, ErrorReportWithLevel};
use pgrx::prelude::*;

/// The level that is open. The transaction itself is level 1, and a savepoint or a block with
/// exceptions is one level deeper.
pub fn level() -> i32 {
    // SAFETY: reads a static of xact.c.
    unsafe { pg_sys::GetCurrentTransactionNestLevel() }
}

/// Runs `work` in a subtransaction. If it returns, what it has done stays. An error, be it
/// Postgres's, ours, a cancellation or a panic, undoes it, ends the subtransaction and is returned.
/// A caller that does not mean to catch the error rethrows it, and the transaction is then as core
/// would have left it.
pub fn run<T>(work: impl FnOnce() -> T) -> Result<T, Box<CaughtError>> {
    end_with(work, pg_sys::ReleaseCurrentSubTransaction)
}

/// Runs `work` in a subtransaction, and undoes what it has done even if it returns: only the result
/// stays. An error goes on to the caller.
pub fn try_out<T>(work: impl FnOnce() -> T) -> T {
    end_with(work, pg_sys::RollbackAndReleaseCurrentSubTransaction)
        .unwrap_or_else(|error| error.rethrow())
}

fn end_with<T>(work: impl FnOnce() -> T, end: unsafe fn()) -> Result<T, Box<CaughtError>> {
    // SAFETY: this is what PL/pgSQL does for a block with exceptions. Both ends of the
    // subtransaction are here, and one of them is reached on every way out. After either, the
    // memory context and the resource owner are restored before any other code runs.
    unsafe {
        let (context, owner) = (pg_sys::CurrentMemoryContext, pg_sys::CurrentResourceOwner);
        let put_back = || {
            pg_sys::MemoryContextSwitchTo(context);
            pg_sys::CurrentResourceOwner = owner;
        };
        pg_sys::BeginInternalSubTransaction(std::ptr::null());
        // Memory that the work allocates belongs to the caller.
        pg_sys::MemoryContextSwitchTo(context);
        PgTryBuilder::new(AssertUnwindSafe(|| {
            let done = work();
            pg_sys::MemoryContextSwitchTo(context);
            end();
            put_back();
            Ok(done)
        }))
        .catch_others(|error| {
            // None of the work's frames is left by now, and the error is a copy in Rust's memory.
            pg_sys::MemoryContextSwitchTo(context);
            pg_sys::RollbackAndReleaseCurrentSubTransaction();
            put_back();
            Err(Box::new(error))
        })
        .execute()
    }
}

/// The report of an error that was caught.
pub fn report(error: &CaughtError) -> &ErrorReportWithLevel {
    match error {
        CaughtError::PostgresError(report)
        | CaughtError::ErrorReport(report)
        | CaughtError::RustPanic { ereport: report, .. } => report,
    }
}

/// The message of an error that was caught.
pub fn message(error: &CaughtError) -> String {
    report(error).message().to_string()
}

/// The message with the detail.
pub fn message_with_detail(error: &CaughtError) -> String {
    match report(error).detail() {
        Some(detail) => format!("{}: {detail}", message(error)),
        None => message(error),
    }
}

/// The SQLSTATE of an error that was caught.
pub fn sqlstate(error: &CaughtError) -> PgSqlErrorCode {
    report(error).sql_error_code()
}

/// Whether an error ends the session's statement or transaction, and not only what was tried.
pub fn is_final(error: &CaughtError) -> bool {
    use PgSqlErrorCode::*;
    let class = |code: PgSqlErrorCode| code as i32 & 0xfff;
    [ERRCODE_OPERATOR_INTERVENTION, ERRCODE_INSUFFICIENT_RESOURCES, ERRCODE_TRANSACTION_ROLLBACK]
        .map(class)
        .contains(&class(sqlstate(error)))
}
