//! The connections to other servers that a query of this process makes. A library that waits for
//! one of them may heed no interrupts: dblink of PostgreSQL 15 does not. If its sockets are shut
//! down, its wait ends with an error.

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::*};

use pgrx::pg_sys;

use crate::backend::Global;
use crate::process::ffi;

/// Files with higher numbers are left alone.
const MAX_FILES: i32 = 8192;

/// In milliseconds: then connections that were made after the first time are shut down too.
const AGAIN: i32 = 200;

/// The sockets that the process had before: other processes may share them.
static KEPT: [AtomicU64; MAX_FILES as usize / 64] =
    [const { AtomicU64::new(0) }; MAX_FILES as usize / 64];
/// Whether a query is running whose connections may be cut.
static RUNNING: AtomicBool = AtomicBool::new(false);
/// Whether the connections are to be cut.
static CUT: AtomicBool = AtomicBool::new(false);

/// How often connections have been cut since the query was to end. After `PATIENT` times the
/// process ends.
static TICKS: AtomicU32 = AtomicU32::new(0);
const PATIENT: u32 = 10;

/// The number of the timeout that repeats the cut, as Postgres has registered it.
static TIMEOUT: Global<Cell<Option<i32>>> = Global::new(Cell::new(None));

fn is_socket(fd: i32) -> bool {
    let mut stat = std::mem::MaybeUninit::<libc::stat>::uninit();
    // SAFETY: it takes any number, and fills `stat` if it succeeds.
    unsafe {
        libc::fstat(fd, stat.as_mut_ptr()) == 0
            && (*stat.as_ptr()).st_mode & libc::S_IFMT == libc::S_IFSOCK
    }
}

/// To be called when the process has started, before it runs any query.
pub fn init() {
    for fd in (0..MAX_FILES).filter(|fd| is_socket(*fd)) {
        KEPT[fd as usize / 64].fetch_or(1 << (fd % 64), Relaxed);
    }
    // SAFETY: the handler stays loaded for the life of the process, and may run at any moment.
    TIMEOUT.set(Some(unsafe { ffi::RegisterTimeout(ffi::USER_TIMEOUT, Some(on_tick)) }));
}

/// While it exists, [`cut`] cuts connections.
pub struct Cuttable(());

impl Cuttable {
    pub fn begin() -> Cuttable {
        CUT.store(false, SeqCst);
        TICKS.store(0, SeqCst);
        RUNNING.store(true, SeqCst);
        if let Some(id) = TIMEOUT.get() {
            let at = ffi::now().0 + i64::from(AGAIN) * 1000;
            // SAFETY: the timeout is registered, and disabled in `drop`.
            unsafe { ffi::enable_timeout_every(id, at, AGAIN) };
        }
        Cuttable(())
    }
}

impl Drop for Cuttable {
    fn drop(&mut self) {
        RUNNING.store(false, SeqCst);
        if let Some(id) = TIMEOUT.get() {
            // SAFETY: the timeout is registered.
            unsafe { ffi::disable_timeout(id, false) };
        }
    }
}

/// Ends the waits of the running query, and cuts the connections that it makes from now on. It may
/// run in a signal handler.
pub fn cut() {
    if !RUNNING.load(SeqCst) {
        return;
    }
    CUT.store(true, SeqCst);
    // SAFETY: the functions are safe in a signal handler. The error number, which is this thread's,
    // is that of the interrupted code again.
    unsafe {
        let error = *libc::__errno_location();
        for fd in 3..MAX_FILES {
            let kept = KEPT[fd as usize / 64].load(Relaxed) >> (fd % 64) & 1 == 1;
            if !kept && is_socket(fd) {
                libc::shutdown(fd, libc::SHUT_RDWR);
            }
        }
        *libc::__errno_location() = error;
    }
}

/// # Safety
/// It may run at any moment.
unsafe extern "C-unwind" fn on_tick() {
    if !CUT.load(SeqCst) {
        return;
    }
    cut();
    // A query that catches each cancel would go on. It cannot catch the end of the process, and its
    // request is made again.
    if TICKS.fetch_add(1, SeqCst) >= PATIENT {
        // SAFETY: core's own handlers set these flags.
        unsafe {
            (&raw mut pg_sys::ProcDiePending).write_volatile(1);
            (&raw mut pg_sys::InterruptPending).write_volatile(1);
        }
    }
}
