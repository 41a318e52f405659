//! Postgres functions that the hot path calls without pgrx's guard.
//!
//! A guard costs a `sigsetjmp`. Leaving it out is sound for a function that can never raise an
//! error. It is also sound for one whose error jumps (`longjmp`) only past frames that have nothing
//! to drop.

use hilo_core::numbers::{Monotonic, Timestamp};
use pgrx::pg_sys;

mod raw {
    use pgrx::pg_sys;
    // SAFETY: miscadmin.h, latch.h and timestamp.h declare them like this.
    unsafe extern "C" {
        pub fn GetUserId() -> pg_sys::Oid;
        pub fn SetLatch(latch: *mut pg_sys::Latch);
        pub fn GetCurrentTimestamp() -> pg_sys::TimestampTz;
    }
    // SAFETY: palloc.h declares it like this.
    unsafe extern "C-unwind" {
        pub fn palloc(size: usize) -> *mut std::ffi::c_void;
    }
}

/// The current role, as changed by SET ROLE and SECURITY DEFINER.
#[inline(always)]
pub fn current_user() -> pg_sys::Oid {
    // SAFETY: it returns a static of miscinit.c. Its only check is an assertion, which a connected
    // backend fulfils.
    unsafe { raw::GetUserId() }
}

/// The database that this process is connected to.
pub fn database() -> pg_sys::Oid {
    // SAFETY: a static that is set when the process connects.
    unsafe { pg_sys::MyDatabaseId }
}

/// Wakes the owner of `latch`.
///
/// # Safety
/// `latch` must point to a latch in shared memory.
pub unsafe fn set_latch(latch: *mut pg_sys::Latch) {
    // SAFETY: the caller passes a latch in shared memory. The function stores a flag and sends a
    // signal, and never raises an error.
    unsafe { raw::SetLatch(latch) }
}

/// Allocates memory of the current context.
///
/// # Safety
/// When memory is out, the error jumps past the caller, whose frame must have nothing to drop.
#[inline(always)]
pub unsafe fn palloc(size: usize) -> *mut std::ffi::c_void {
    // SAFETY: neither this frame nor, as required, the caller's has anything to drop when an error
    // jumps past it.
    unsafe { raw::palloc(size) }
}

/// The first result of `look`, which is called up to `tries` times, so many microseconds apart.
pub fn poll<T>(tries: u32, micros: i64, mut look: impl FnMut() -> Option<T>) -> Option<T> {
    (0..tries).find_map(|_| {
        let found = look();
        if found.is_none() {
            // SAFETY: it only sleeps.
            unsafe { pg_sys::pg_usleep(micros) };
        }
        found
    })
}

/// Sleeps until this process's latch is set, or for so many milliseconds; -1: without end.
pub fn sleep(ms: i64, wait_event: u32) {
    let limit = if ms < 0 { 0 } else { pg_sys::WL_TIMEOUT };
    let events = pg_sys::WL_LATCH_SET | pg_sys::WL_EXIT_ON_PM_DEATH | limit;
    // SAFETY: only the owner may wait on a latch and reset it, and MyLatch is this process's own.
    unsafe {
        pg_sys::WaitLatch(pg_sys::MyLatch, events as i32, ms as _, wait_event);
        pg_sys::ResetLatch(pg_sys::MyLatch);
    }
}

/// Waits inside a transaction for the end of another one, without naming a row in the wait.
pub fn await_transaction(other: pg_sys::TransactionId) {
    let (none, no_place) = (std::ptr::null_mut(), std::ptr::null_mut());
    // SAFETY: any number will do.
    unsafe { pg_sys::XactLockTableWait(other, none, no_place, pg_sys::XLTW_Oper::XLTW_None) }
}

/// The cells of a list of pointers.
///
/// # Safety
/// `list` must be null or a list of pointers of this type, for as long as the result is used.
pub unsafe fn cells<T>(list: *const pg_sys::List) -> impl Iterator<Item = *mut T> {
    // SAFETY: as the caller guarantees. A list has as many cells as it says.
    let cells: &[pg_sys::ListCell] = unsafe {
        match list.as_ref() {
            Some(list) => std::slice::from_raw_parts(list.elements, list.length as usize),
            None => &[],
        }
    };
    // SAFETY: the cells hold pointers.
    cells.iter().map(|cell| unsafe { cell.ptr_value }.cast())
}

/// The commands of an ALTER TABLE.
///
/// # Safety
/// `statement` must be an ALTER TABLE, and must live as long as the result is used.
pub unsafe fn commands(
    statement: *mut pg_sys::AlterTableStmt,
) -> impl Iterator<Item = *mut pg_sys::AlterTableCmd> {
    // SAFETY: the list is one of AlterTableCmd nodes.
    unsafe { cells((*statement).cmds) }
}

/// Microseconds since 2000-01-01, as Postgres counts.
pub fn now() -> Timestamp {
    // SAFETY: it reads the clock and nothing else.
    Timestamp(unsafe { raw::GetCurrentTimestamp() })
}

/// When the current transaction, or the one that has just ended, began.
pub fn transaction_start() -> Timestamp {
    // SAFETY: it returns a static of this process.
    Timestamp(unsafe { pg_sys::GetCurrentTransactionStartTimestamp() })
}

/// Microseconds since some moment in the past, on a clock that cannot be set back and is the same
/// for all processes of the machine. Never 0.
pub fn monotonic() -> Monotonic {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: it fills `time`, and the clock exists wherever Postgres runs.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut time) };
    Monotonic((time.tv_sec * 1_000_000 + time.tv_nsec / 1_000).max(1))
}

/// The first number of a timeout that core leaves to extensions.
#[cfg(any(feature = "pg15", feature = "pg16"))]
pub const USER_TIMEOUT: i32 = 12;
#[cfg(not(any(feature = "pg15", feature = "pg16")))]
pub const USER_TIMEOUT: i32 = 13;

// SAFETY: tcopprot.h, interrupt.h, tablecmds.h and timeout.h declare them like this; a TimeoutId is
// an int.
unsafe extern "C-unwind" {
    pub fn RegisterTimeout(id: i32, handler: Option<unsafe extern "C-unwind" fn()>) -> i32;
    pub fn enable_timeout_after(id: i32, delay_ms: i32);
    pub fn enable_timeout_every(id: i32, at: pg_sys::TimestampTz, delay_ms: i32);
    pub fn disable_timeout(id: i32, keep_indicator: bool);
    /// Core's check that the current user owns a relation, before the relation is locked.
    pub fn RangeVarCallbackOwnsRelation(
        range: *const pg_sys::RangeVar,
        relation: pg_sys::Oid,
        before: pg_sys::Oid,
        arg: *mut std::ffi::c_void,
    );
}

/// The tables that inherit from a table that exists. Locks none of them.
pub fn children(table: pg_sys::Oid) -> *mut pg_sys::List {
    // SAFETY: pg_inherits.h declares it like this.
    unsafe extern "C-unwind" {
        fn find_inheritance_children(
            table: pg_sys::Oid,
            mode: pg_sys::LOCKMODE,
        ) -> *mut pg_sys::List;
    }
    // SAFETY: it reads a catalog inside a transaction, and the guard turns a Postgres error into a
    // panic.
    unsafe {
        pg_sys::ffi::pg_guard_ffi_boundary(|| find_inheritance_children(table, pg_sys::NoLock as _))
    }
}

/// The column of a descriptor with this number, counted from 1.
///
/// # Safety
/// The descriptor must have the column, and must live as long as the result is used.
pub unsafe fn attribute<'a>(
    columns: pg_sys::TupleDesc,
    number: pg_sys::AttrNumber,
) -> &'a pg_sys::FormData_pg_attribute {
    let at = i32::from(number) - 1;
    // SAFETY: the caller guarantees that there are as many.
    unsafe {
        #[cfg(any(feature = "pg15", feature = "pg16", feature = "pg17"))]
        return &*(*columns).attrs.as_ptr().add(at as usize);
        #[cfg(not(any(feature = "pg15", feature = "pg16", feature = "pg17")))]
        return &*pg_sys::TupleDescAttr(columns, at);
    }
}

/// A signal handler. From PostgreSQL 19 on, it is told who sent the signal.
#[cfg(any(feature = "pg15", feature = "pg16", feature = "pg17", feature = "pg18"))]
pub type Handler = unsafe extern "C-unwind" fn(std::ffi::c_int);
#[cfg(not(any(feature = "pg15", feature = "pg16", feature = "pg17", feature = "pg18")))]
pub type Handler = unsafe extern "C-unwind" fn(std::ffi::c_int, *const pg_sys::pg_signal_info);

/// Makes a [`Handler`] of a function without arguments.
macro_rules! handler {
    ($function:expr) => {{
        unsafe extern "C-unwind" fn handle(
            _signal: std::ffi::c_int,
            #[cfg(not(any(
                feature = "pg15",
                feature = "pg16",
                feature = "pg17",
                feature = "pg18"
            )))]
            _sender: *const pgrx::pg_sys::pg_signal_info,
        ) {
            $function()
        }
        handle as $crate::process::ffi::Handler
    }};
}
pub(crate) use handler;

mod handlers {
    // SAFETY: tcopprot.h and interrupt.h declare them as signal handlers. They are not called here.
    unsafe extern "C-unwind" {
        pub fn StatementCancelHandler();
        pub fn SignalHandlerForConfigReload();
    }
}

/// One of core's handlers.
fn of_core(handler: unsafe extern "C-unwind" fn()) -> Handler {
    // SAFETY: it is one, as declared above without its arguments.
    unsafe { std::mem::transmute(handler) }
}

/// Core's handler of SIGINT for backends.
pub fn cancel() -> Handler {
    of_core(handlers::StatementCancelHandler)
}

/// Core's handler of SIGHUP for background processes.
pub fn reload() -> Handler {
    of_core(handlers::SignalHandlerForConfigReload)
}

/// A handler that does nothing.
pub fn ignore() -> Handler {
    handler!(|| ())
}

#[cfg(any(feature = "pg15", feature = "pg16", feature = "pg17"))]
use pg_sys::pqsignal;
#[cfg(not(any(feature = "pg15", feature = "pg16", feature = "pg17")))]
use pg_sys::pqsignal_be as pqsignal;

/// Sets the handler of a signal.
///
/// # Safety
/// The handler must be safe to run at any moment.
pub unsafe fn set_handler(signal: u32, handler: Handler) {
    // SAFETY: the caller guarantees that the handler is safe to run at any moment.
    unsafe { pqsignal(signal as i32, Some(handler)) };
}
