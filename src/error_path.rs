//! The way of an error through pgrx, when the system refuses memory. This file needs nothing of
//! hilo's but what [`init`] is given, so that pgrx could have it.
//!
//! * pgrx's guard around core's functions copies the report of an error into the memory context
//!   that is current. If that context is full, the copy fails with an error of its own, which the
//!   guard copies in the same way. Postgres ends such a recursion with a PANIC of the server.
//!   [`copy`] prevents this.
//! * pgrx's guard around our functions raises an error of Rust's with texts that it allocates in
//!   that context. An error on the way unwinds into core's frames, and the process aborts.
//!   [`start`] prevents this. An error of core's needs no memory there: pgrx raises again the one
//!   that core has kept.
//! * Where a collection cannot grow and nobody has foreseen it, the standard library aborts the
//!   process, and all sessions of the server end with it. [`end`] ends this session alone.
//!
//! Without any one of them, `each_allocation_may_fail` fails (`durable/refused_memory.rs`), as the
//! server ends. Without the first it does so at an error of PL/pgSQL with a long message, without
//! the second at one of hilo's. Without the third it does so at a long argument.
//!
//! The copies and texts are made in memory that is set aside when the library is loaded. The
//! linker's option `--wrap` (see `build.rs`) puts these functions in the place of those that pgrx
//! and the standard library call, in this library alone. That is one place for every call of
//! core's, present and future, for errors of every kind. It costs nothing until there is an error.
//! An entry on core's `error_context_stack` that frees a reserve would have to be pushed wherever
//! core calls us. It would see errors only while the reserve is there, and would depend on the
//! system's allocator.

use std::ffi::{c_char, c_int};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering::Relaxed};

use pgrx::pg_sys;
use pgrx::prelude::*;

/// The library's part, for [`init`].
pub struct Limits {
    /// The most bytes of a message, a DETAIL or a HINT. Longer texts are cut.
    pub longest: usize,
    /// Whether the system has just refused memory to Rust's allocator.
    pub is_short: fn() -> bool,
}

static LIMITS: OnceLock<Limits> = OnceLock::new();
/// In bytes. A message, a DETAIL and a HINT of the greatest length fit several times.
const ROOM: usize = 128 << 10;
/// The memory context that is set aside. It is empty unless an error is being passed on.
static PLACE: AtomicPtr<pg_sys::MemoryContextData> = AtomicPtr::new(std::ptr::null_mut());
/// Whether [`copy`] is running.
static COPYING: AtomicBool = AtomicBool::new(false);

mod raw {
    use super::*;
    // SAFETY: memutils.h, elog.h and stdlib.h declare them like this. `__real_` is the linker's
    // name for the function that it replaces.
    unsafe extern "C-unwind" {
        pub fn AllocSetContextCreateInternal(
            parent: pg_sys::MemoryContext,
            name: *const c_char,
            least: usize,
            first: usize,
            most: usize,
        ) -> pg_sys::MemoryContext;
        pub fn MemoryContextReset(context: pg_sys::MemoryContext);
        pub fn palloc0(size: usize) -> *mut std::ffi::c_void;
        pub fn pfree(piece: *mut std::ffi::c_void);
        pub fn pstrdup(text: *const c_char) -> *mut c_char;
        pub fn pg_mbcliplen(text: *const c_char, length: c_int, limit: c_int) -> c_int;
        pub fn __real_CopyErrorData() -> *mut pg_sys::ErrorData;
        pub fn errcode(sqlstate: c_int) -> c_int;
        pub fn errmsg(format: *const c_char, ...) -> c_int;
        pub fn errfinish(file: *const c_char, line: c_int, function: *const c_char);
        pub fn __real_abort() -> !;
        pub fn __real_errstart(level: c_int, domain: *const c_char) -> bool;
    }
}

/// Sets the memory aside. Called once, from `_PG_init`, before anything that may fail in Rust. When
/// a session loads the library, libc and the standard library make memory of their own for the
/// thread, or abort.
pub fn init(limits: Limits) {
    LIMITS.get_or_init(|| limits);
    // SAFETY: the context is one for the life of the process, and forked processes inherit it. An
    // error jumps past frames that have nothing to drop: there is no memory yet with which the
    // guard could catch it.
    let place = unsafe {
        raw::AllocSetContextCreateInternal(
            pg_sys::TopMemoryContext,
            c"errors of Rust".as_ptr(),
            ROOM,
            ROOM,
            ROOM,
        )
    };
    PLACE.store(place, Relaxed);
    // SAFETY: as above; what is allocated is freed at once, and is there for what comes next.
    unsafe { raw::pfree(raw::palloc0(2 * ROOM)) };
}

/// Makes the memory that is set aside the current context, and empties it.
///
/// # Safety
/// Nothing in it may be used any more.
unsafe fn enter() {
    // SAFETY: `init` made the context before anything could call this. Neither function raises an
    // error.
    unsafe {
        let place = PLACE.load(Relaxed);
        raw::MemoryContextReset(place);
        pg_sys::CurrentMemoryContext = place;
    }
}

/// Replaces `CopyErrorData`. Never raises an error: a report that does not fit is replaced by that
/// of refused memory.
///
/// # Safety
/// As for `CopyErrorData`: there is an error to copy. The copy must be freed before the next one is
/// made.
#[unsafe(export_name = "__wrap_CopyErrorData")]
unsafe extern "C-unwind" fn copy() -> *mut pg_sys::ErrorData {
    // SAFETY: pgrx has freed the copy before. The guard that calls this restores no memory context,
    // so this does. The guard in here asks for a copy of its own when this one fails: that answer
    // needs nothing but the room.
    unsafe {
        let before = pg_sys::CurrentMemoryContext;
        enter();
        let copied = match COPYING.swap(true, Relaxed) {
            true => None,
            false => catch_unwind(AssertUnwindSafe(|| {
                pg_sys::ffi::pg_guard_ffi_boundary(|| raw::__real_CopyErrorData())
            }))
            .ok(),
        };
        COPYING.store(false, Relaxed);
        let copied = copied.unwrap_or_else(|| {
            enter();
            out_of_memory()
        });
        if let Some(limits) = LIMITS.get() {
            for text in [(*copied).message, (*copied).detail, (*copied).hint] {
                shorten(text, limits.longest);
            }
        }
        pg_sys::CurrentMemoryContext = before;
        copied
    }
}

/// # Safety
/// The room is the current context, and is empty.
unsafe fn out_of_memory() -> *mut pg_sys::ErrorData {
    // SAFETY: the room is far greater than what is allocated in it. All zeros are a report without
    // texts.
    unsafe {
        let report: *mut pg_sys::ErrorData = raw::palloc0(size_of::<pg_sys::ErrorData>()).cast();
        (*report).elevel = PgLogLevel::ERROR as c_int;
        (*report).sqlerrcode = PgSqlErrorCode::ERRCODE_OUT_OF_MEMORY as c_int;
        (*report).message = raw::pstrdup(c"out of memory".as_ptr());
        report
    }
}

/// Cuts a text of the copy to so many bytes, so that Rust's reserve holds it.
///
/// # Safety
/// The text is null or ends with a null byte.
unsafe fn shorten(text: *mut c_char, longest: usize) {
    // SAFETY: the caller guarantees where it ends, and it is cut before that.
    unsafe {
        if text.is_null() {
            return;
        }
        let length = libc::strlen(text);
        if length > longest {
            let kept = raw::pg_mbcliplen(text, length as c_int, longest as c_int);
            *text.add(kept as usize) = 0;
        }
    }
}

/// Replaces `errstart`. The texts with which pgrx raises an error of Rust's are allocated in the
/// memory that is set aside. An error leaves the current context to whoever catches it.
///
/// # Safety
/// As for `errstart`.
#[unsafe(export_name = "__wrap_errstart")]
unsafe extern "C-unwind" fn start(level: c_int, domain: *const c_char) -> bool {
    // SAFETY: the arguments are the caller's. By now pgrx has freed its copy of another error.
    unsafe {
        let wanted = raw::__real_errstart(level, domain);
        if wanted && level >= PgLogLevel::ERROR as c_int {
            enter();
        }
        wanted
    }
}

/// Replaces `abort`. A FATAL error runs no destructor and returns to no frame, so it is as safe as
/// an abort. Core's clean-up at exit releases what other processes wait for.
///
/// # Safety
/// As for `abort`.
#[unsafe(export_name = "__wrap_abort")]
unsafe extern "C-unwind" fn end() -> ! {
    // SAFETY: the arguments are constants, and core has set aside the memory for so short a report.
    unsafe {
        if LIMITS.get().is_some_and(|limits| (limits.is_short)())
            && raw::__real_errstart(PgLogLevel::FATAL as c_int, std::ptr::null())
        {
            raw::errcode(PgSqlErrorCode::ERRCODE_OUT_OF_MEMORY as c_int);
            raw::errmsg(c"out of memory".as_ptr());
            raw::errfinish(c"error_path.rs".as_ptr(), line!() as c_int, c"end".as_ptr());
        }
        raw::__real_abort()
    }
}
