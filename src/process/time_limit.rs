//! A limit to how long this session waits for other servers.

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, Ordering::*};
use std::time::Duration;

use pgrx::pg_sys;
use pgrx::pg_sys::panic::CaughtError;
use pgrx::prelude::*;

use crate::backend::Global;
use crate::process::{connections, ffi, subtransaction};

/// Why the work has not come to its end.
pub enum Unfinished {
    TooLate,
    Failed(Box<CaughtError>),
}

/// Set by the handler of the timeout.
static LATE: AtomicBool = AtomicBool::new(false);

/// The number of our timeout, as Postgres has registered it.
static TIMEOUT: Global<Cell<Option<i32>>> = Global::new(Cell::new(None));

/// Cancels what is running, as statement_timeout does, unless somebody else has just cancelled it.
///
/// # Safety
/// It may run at any moment: it only stores to flags of this process and sets its latch.
unsafe extern "C-unwind" fn on_expiry() {
    // SAFETY: core's own handlers set these flags, and the latch is this process's own.
    unsafe {
        if (&raw mut pg_sys::QueryCancelPending).read_volatile() == 0 {
            LATE.store(true, Relaxed);
        }
        (&raw mut pg_sys::QueryCancelPending).write_volatile(1);
        (&raw mut pg_sys::InterruptPending).write_volatile(1);
        ffi::set_latch(pg_sys::MyLatch);
        connections::cut();
    }
}

/// Runs `work` in a subtransaction, for no longer than `limit`. A cancellation that somebody asks
/// for, and the end of the session, are raised again.
pub fn within<T>(limit: Duration, work: impl FnOnce() -> T) -> Result<T, Unfinished> {
    // SAFETY: the handler stays loaded for the life of the process. The timeout is disabled on
    // every way out: `subtransaction::run` returns after each error.
    let result = unsafe {
        let register = || ffi::RegisterTimeout(ffi::USER_TIMEOUT, Some(on_expiry));
        let id = TIMEOUT.get().unwrap_or_else(register);
        TIMEOUT.set(Some(id));
        LATE.store(false, Relaxed);
        ffi::enable_timeout_after(id, limit.as_millis() as i32);
        let result = subtransaction::run(work);
        ffi::disable_timeout(id, false);
        if LATE.load(Relaxed) {
            // It may have come at the very end.
            (&raw mut pg_sys::QueryCancelPending).write_volatile(0);
        }
        result
    };
    result.map_err(|error| match subtransaction::sqlstate(&error) {
        // An interrupted call may say so in words of its own.
        _ if LATE.load(Relaxed) => Unfinished::TooLate,
        PgSqlErrorCode::ERRCODE_QUERY_CANCELED | PgSqlErrorCode::ERRCODE_ADMIN_SHUTDOWN => {
            error.rethrow()
        }
        _ => Unfinished::Failed(error),
    })
}
