//! The memory of a library that the server preloads: a part of the server's own, made at its start
//! and again after each crash.

use pgrx::pg_sys;
use pgrx::prelude::*;

use crate::shared::keep;
use crate::shared::layout::Layout;

type Hook = Option<unsafe extern "C-unwind" fn()>;
static mut PREV_REQUEST: Hook = None;
static mut PREV_STARTUP: Hook = None;

/// Requests the memory. Called while the postmaster loads its libraries.
pub fn init() {
    // SAFETY: only the postmaster runs this, once, on its one thread.
    unsafe {
        PREV_REQUEST = pg_sys::shmem_request_hook;
        pg_sys::shmem_request_hook = Some(request);
        PREV_STARTUP = pg_sys::shmem_startup_hook;
        pg_sys::shmem_startup_hook = Some(startup);
    }
}

#[pg_guard]
unsafe extern "C-unwind" fn request() {
    // SAFETY: this is the hook in which the request is allowed, and `prev` is the hook that was set
    // before it.
    unsafe {
        if let Some(prev) = PREV_REQUEST {
            prev();
        }
        pg_sys::RequestAddinShmemSpace(Layout::from_settings().size());
    }
}

/// Runs in the postmaster at server start and again after each crash; the children inherit what it
/// sets.
#[pg_guard]
unsafe extern "C-unwind" fn startup() {
    // SAFETY: `PREV_STARTUP` was written once, before this hook could run.
    if let Some(prev) = unsafe { PREV_STARTUP } {
        // SAFETY: it is the hook that was set before this one.
        unsafe { prev() }
    }
    let layout = Layout::from_settings();
    let mut known = false;
    // SAFETY: the size is what was requested, and no other process runs yet.
    unsafe {
        let memory = pg_sys::ShmemInitStruct(c"hilo".as_ptr(), layout.size(), &mut known);
        if !known {
            layout.fill(memory);
        }
        keep(layout.place_in(memory));
    }
}
