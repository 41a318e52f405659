//! A limit to how long this session waits for other servers.

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, Ordering::*};
use std::time::Duration;

use pgrx::pg_sys;

use crate::backend::Global;
use crate::errors::HiloError;
use crate::process::{connections, ffi, subtransaction};

/// The work did not end in time.
pub struct TooLate;

/// Set by the handler of the timeout.
static LATE: AtomicBool = AtomicBool::new(false);

/// The numbers of our timeouts, as Postgres has registered them. The second timeout asks again and
/// again whether the work is to end before its limit.
static TIMEOUT: Global<Cell<Option<i32>>> = Global::new(Cell::new(None));
static LOOK: Global<Cell<Option<i32>>> = Global::new(Cell::new(None));

/// The question that the second timeout asks, and how often, in milliseconds.
static IS_OVER: Global<Cell<Option<Look>>> = Global::new(Cell::new(None));
type Look = fn() -> bool;
const EVERY: i32 = 100;

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

/// # Safety
/// It may run at any moment, if the question may.
unsafe extern "C-unwind" fn on_look() {
    if !LATE.load(Relaxed) && IS_OVER.get().is_some_and(|is_over| is_over()) {
        // SAFETY: as above.
        unsafe { on_expiry() };
    }
}

/// Runs `work` in a subtransaction, for no longer than `limit`. An error goes on to the caller.
pub fn within<T>(
    limit: Duration,
    work: impl FnOnce() -> Result<T, HiloError>,
) -> Result<T, TooLate> {
    limited(limit, None, work)
}

/// Runs `work` like [`within`], and ends it early if `is_over` says so. A signal handler asks
/// `is_over` again and again.
pub fn within_unless<T>(
    limit: Duration,
    is_over: Look,
    work: impl FnOnce() -> Result<T, HiloError>,
) -> Result<T, TooLate> {
    limited(limit, Some(is_over), work)
}

/// The number of a timeout, which is registered for the life of the process.
fn registered(at: &Cell<Option<i32>>, handler: unsafe extern "C-unwind" fn()) -> i32 {
    // SAFETY: the handler stays loaded as long, and may run at any moment.
    let register = || unsafe { ffi::RegisterTimeout(ffi::USER_TIMEOUT, Some(handler)) };
    let id = at.get().unwrap_or_else(register);
    at.set(Some(id));
    id
}

/// The timeouts of a piece of work. Dropping this ends them.
struct Running {
    limit: i32,
    look: Option<i32>,
}

impl Running {
    fn begin(limit: Duration, is_over: Option<Look>) -> Running {
        let running = Running {
            limit: registered(&TIMEOUT, on_expiry),
            look: is_over.map(|_| registered(&LOOK, on_look)),
        };
        IS_OVER.set(is_over);
        LATE.store(false, Relaxed);
        // SAFETY: both are registered, and disabled on every way out.
        unsafe {
            ffi::enable_timeout_after(running.limit, limit.as_millis() as i32);
            if let Some(look) = running.look {
                ffi::enable_timeout_every(look, ffi::now().0 + i64::from(EVERY) * 1000, EVERY);
            }
        }
        running
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // SAFETY: it may disable what is not running any more, and raises no error.
        unsafe {
            ffi::disable_timeout(self.limit, false);
            if let Some(look) = self.look {
                ffi::disable_timeout(look, false);
            }
            if LATE.load(Relaxed) {
                // A cancellation may have come at the very end.
                (&raw mut pg_sys::QueryCancelPending).write_volatile(0);
            }
        }
    }
}

fn limited<T>(
    limit: Duration,
    is_over: Option<Look>,
    work: impl FnOnce() -> Result<T, HiloError>,
) -> Result<T, TooLate> {
    let _running = Running::begin(limit, is_over);
    // An interrupted call may report the interruption in words of its own.
    subtransaction::run(|_| LATE.load(Relaxed), work).map_err(|_| TooLate)
}
