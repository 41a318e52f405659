//! The memory of a library that sessions load while the server runs. It is a segment of dynamic
//! shared memory, which the server's registry (PostgreSQL 17) finds by its name. The first process
//! that needs it makes it; it lasts until the server stops or crashes.

use std::cell::{Cell, UnsafeCell};
use std::ffi::{CStr, CString, c_void};
use std::hint::black_box;
use std::sync::atomic::{AtomicU8, AtomicU32, Ordering::*};

use pgrx::pg_sys;
use pgrx::prelude::*;

use crate::backend::Global;
use crate::errors::HiloError;
use crate::shared::Shared;
use crate::shared::layout::Layout;

/// The library that has made the memory. The segment with this text has the same size in every
/// version.
type Maker = [u8; 32];

/// This library. Another version may lay out the memory otherwise.
static MAKER: Maker = pad(concat!("hilo memory of ", env!("CARGO_PKG_VERSION")));

const fn pad(text: &str) -> Maker {
    let mut padded = [0; size_of::<Maker>()];
    padded.split_at_mut(text.len()).0.copy_from_slice(text.as_bytes());
    padded
}

/// The layout of the segment that this process is about to make.
static LAYOUT: Global<Cell<Option<Layout>>> = Global::new(Cell::new(None));

/// How the memory is made.
#[repr(C)]
struct Plan {
    /// 1: the memory is there, with this layout.
    made: AtomicU32,
    /// How often a process has tried to make it. One that fails for lack of room can leave a
    /// segment that nobody can use, so each has a name of its own.
    attempts: UnsafeCell<u32>,
    layout: UnsafeCell<Layout>,
}

/// Finds the memory, or makes it as the settings of this process say. Raises an error if a library
/// of another version has made it: sessions that begin after an upgrade load the new one.
pub fn attach() -> Shared {
    attach_to(plan())
}

/// Finds the memory; `None`: nobody has made it. Raises the same error as [`attach`].
pub fn find() -> Option<Shared> {
    let plan = plan();
    (plan.made.load(Acquire) == 1).then(|| attach_to(plan))
}

fn plan() -> &'static Plan {
    let maker = segment(c"hilo maker", size_of::<Maker>(), sign);
    // SAFETY: `sign`, of whatever version, has written it.
    let maker = unsafe { &*(maker as *const Maker) };
    if maker != black_box(&MAKER) {
        refuse();
        HiloError::OtherMemory { maker: version_in(maker) }.raise();
    }
    let plan = segment(c"hilo plan", size_of::<Plan>(), begin);
    // SAFETY: `begin` has made it, and the registry keeps it mapped.
    unsafe { &*(plan as *const Plan) }
}

fn attach_to(plan: &Plan) -> Shared {
    // SAFETY: this is core's own lock for what it calls add-ins, which is held while shared memory
    // is made. Making it may raise an error, which releases the lock: so it is no `Lock`, whose
    // drop would release it again.
    let lock = unsafe { &raw mut (*pg_sys::MainLWLockArray.add(ADDIN_SHMEM_INIT_LOCK)).lock };
    let made = plan.made.load(Acquire) == 1;
    if !made {
        // SAFETY: as above; no lock of ours is held.
        unsafe { pg_sys::LWLockAcquire(lock, pg_sys::LWLockMode::LW_EXCLUSIVE) };
        if plan.made.load(Acquire) == 0 {
            // SAFETY: whoever holds the lock may write them, and reads them only under the lock,
            // until the memory is made.
            unsafe {
                *plan.attempts.get() += 1;
                *plan.layout.get() = Layout::from_settings();
            }
        }
    }
    // SAFETY: either the memory is made, and nobody writes any more, or this process holds the
    // lock.
    let (layout, attempt) = unsafe { (*plan.layout.get(), *plan.attempts.get()) };
    LAYOUT.set(Some(layout));
    let name = CString::new(format!("hilo {attempt}")).expect("there is no zero byte in it");
    let memory = {
        let _held = QuitHeld::new();
        segment(&name, layout.size(), fill)
    };
    plan.made.store(1, Release);
    if !made {
        // SAFETY: it was taken above.
        unsafe { pg_sys::LWLockRelease(lock) };
    }
    // SAFETY: all processes ask for a segment of the same size, and the registry keeps it mapped.
    unsafe { layout.place_in(memory) }
}

/// Holds SIGQUIT off, which the postmaster sends to all processes when one has crashed. Core lists
/// a segment only once all its pages are there. A process that ends before that leaves them in the
/// file system, where nobody finds them.
struct QuitHeld {
    allowed: libc::sigset_t,
    blocked: libc::sigset_t,
}

unsafe extern "C" {
    /// Core's: the signals that it blocks itself while it gets the pages, which are all but
    /// SIGQUIT.
    static mut BlockSig: libc::sigset_t;
}

impl QuitHeld {
    fn new() -> QuitHeld {
        // SAFETY: sets of signals are plain data, and this process has one thread.
        unsafe {
            let mut held = QuitHeld { allowed: std::mem::zeroed(), blocked: BlockSig };
            let mut quit = std::mem::zeroed();
            libc::sigemptyset(&mut quit);
            libc::sigaddset(&mut quit, libc::SIGQUIT);
            libc::sigprocmask(libc::SIG_BLOCK, &quit, &mut held.allowed);
            libc::sigaddset(&raw mut BlockSig, libc::SIGQUIT);
            held
        }
    }
}

impl Drop for QuitHeld {
    fn drop(&mut self) {
        // SAFETY: as above. A signal that has come meanwhile is handled now.
        unsafe {
            BlockSig = self.blocked;
            libc::sigprocmask(libc::SIG_SETMASK, &self.allowed, std::ptr::null_mut());
        }
    }
}

/// Core's number of it, the same in all versions; pgrx has no name for it.
const ADDIN_SHMEM_INIT_LOCK: usize = 21;

/// The version of a library that could not use this memory, if one has tried.
pub fn other_version() -> Option<String> {
    // Memory that the server has preloaded is inherited together with its library.
    LAYOUT.get()?;
    let bytes = refused_bytes();
    let refused: Maker = std::array::from_fn(|at| bytes[at].load(Acquire));
    (refused[0] != 0).then(|| version_in(&refused))
}

/// Tells the processes that use the memory that another process has loaded this library.
fn refuse() {
    // The first byte comes last: with it, the others are there.
    for (byte, value) in refused_bytes().iter().zip(*black_box(&MAKER)).rev() {
        byte.store(value, Release);
    }
}

/// The library that was last refused; all zeros: none. This segment has the same size in every
/// version too.
fn refused_bytes() -> &'static [AtomicU8; size_of::<Maker>()] {
    let segment = segment(c"hilo refused", size_of::<Maker>(), leave_empty);
    // SAFETY: it has so many bytes, which are only used like this, and the registry keeps it
    // mapped.
    unsafe { &*(segment as *const [AtomicU8; size_of::<Maker>()]) }
}

fn version_in(maker: &Maker) -> String {
    let text = String::from_utf8_lossy(maker);
    text.trim_end_matches('\0').rsplit(' ').next().unwrap_or_default().into()
}

/// Initialises a new segment.
type Fill = unsafe extern "C-unwind" fn(*mut c_void);

fn segment(name: &CStr, size: usize, fill: Fill) -> *mut c_void {
    let mut found = false;
    // SAFETY: the name is short, and copied; the function is called once, with a new segment,
    // before others find it.
    unsafe {
        #[cfg(any(feature = "pg17", feature = "pg18"))]
        return pg_sys::GetNamedDSMSegment(name.as_ptr(), size, Some(fill), &mut found);
        #[cfg(not(any(feature = "pg17", feature = "pg18")))]
        return pg_sys::GetNamedDSMSegment(
            name.as_ptr(),
            size,
            Some(call),
            &mut found,
            fill as *mut c_void,
        );
    }
}

/// Calls the function that core was given beside this one.
#[cfg(not(any(feature = "pg17", feature = "pg18")))]
#[pg_guard]
unsafe extern "C-unwind" fn call(segment: *mut c_void, fill: *mut c_void) {
    // SAFETY: `segment` gave it, and the segment is what it is called with.
    unsafe { std::mem::transmute::<*mut c_void, Fill>(fill)(segment) }
}

#[pg_guard]
unsafe extern "C-unwind" fn sign(segment: *mut c_void) {
    // SAFETY: the segment has room for it.
    unsafe { (segment as *mut Maker).write(MAKER) }
}

#[pg_guard]
unsafe extern "C-unwind" fn leave_empty(segment: *mut c_void) {
    // SAFETY: the segment has room for it.
    unsafe { (segment as *mut Maker).write([0; size_of::<Maker>()]) }
}

#[pg_guard]
unsafe extern "C-unwind" fn begin(segment: *mut c_void) {
    let plan = Plan {
        made: AtomicU32::new(0),
        attempts: UnsafeCell::new(0),
        layout: UnsafeCell::new(Layout::from_settings()),
    };
    // SAFETY: the segment has room for it.
    unsafe { (segment as *mut Plan).write(plan) }
}

#[pg_guard]
unsafe extern "C-unwind" fn fill(segment: *mut c_void) {
    if let Some(layout) = LAYOUT.get() {
        // SAFETY: the segment is as large as this layout says, and new.
        unsafe { layout.fill(segment) }
    }
}
