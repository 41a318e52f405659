//! Runs a piece of work in a subtransaction, which ends on every way out.

use std::panic::AssertUnwindSafe;

use pgrx::pg_sys::panic::{CaughtError, ErrorReportWithLevel as Report};
use pgrx::prelude::*;

use crate::errors::{HiloError, OrRaise};

/// The level of the innermost open subtransaction. The transaction itself is level 1, and a
/// savepoint or a block with exceptions is one level deeper.
pub fn level() -> i32 {
    // SAFETY: reads a static of xact.c.
    unsafe { pg_sys::GetCurrentTransactionNestLevel() }
}

/// Runs `work` in a subtransaction. If it returns, its effects stay. An error, be it Postgres's,
/// ours, a cancellation or a panic, undoes them and ends the subtransaction. The report of an error
/// that `catches` accepts is returned. Any other error goes on to the caller with all that core
/// knows of it. The transaction is then as core would have left it.
pub fn run<T>(
    catches: fn(&CaughtError) -> bool,
    work: impl FnOnce() -> Result<T, HiloError>,
) -> Result<T, Box<Report>> {
    end_with(|| work().or_raise(), pg_sys::ReleaseCurrentSubTransaction, catches)
}

/// Runs `work` in a subtransaction, and undoes what it has done even if it returns: only the result
/// stays. An error goes on to the caller.
pub fn try_out<T>(work: impl FnOnce() -> T) -> T {
    match end_with(work, pg_sys::RollbackAndReleaseCurrentSubTransaction, |_| false) {
        Ok(done) => done,
        Err(_) => unreachable!("no error is caught"),
    }
}

/// Core keeps an error until it is caught, and pgrx raises it again. So whether it is caught must
/// be decided before `execute` returns.
fn end_with<T>(
    work: impl FnOnce() -> T,
    end: unsafe fn(),
    catches: fn(&CaughtError) -> bool,
) -> Result<T, Box<Report>> {
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
            match catches(&error) {
                true => Err(Box::new(into_report(error))),
                false => error.rethrow(),
            }
        })
        .execute()
    }
}

/// The report of an error.
pub fn into_report(error: CaughtError) -> Report {
    let (CaughtError::PostgresError(report)
    | CaughtError::ErrorReport(report)
    | CaughtError::RustPanic { ereport: report, .. }) = error;
    report
}

/// The message with the detail.
pub fn message_with_detail(report: &Report) -> String {
    match report.detail() {
        Some(detail) => format!("{}: {detail}", report.message()),
        None => report.message().to_owned(),
    }
}

/// The SQLSTATE of an error.
pub fn sqlstate(error: &CaughtError) -> PgSqlErrorCode {
    let (CaughtError::PostgresError(report)
    | CaughtError::ErrorReport(report)
    | CaughtError::RustPanic { ereport: report, .. }) = error;
    report.sql_error_code()
}

/// Whether an error ends only the work that was tried, and not the session's statement or
/// transaction.
pub fn is_of_work(error: &CaughtError) -> bool {
    use PgSqlErrorCode::*;
    let class = |code: PgSqlErrorCode| code as i32 & 0xfff;
    ![ERRCODE_OPERATOR_INTERVENTION, ERRCODE_INSUFFICIENT_RESOURCES, ERRCODE_TRANSACTION_ROLLBACK]
        .map(class)
        .contains(&class(sqlstate(error)))
}
