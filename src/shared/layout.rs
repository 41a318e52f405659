//! Where each part of hilo's shared memory lies, and how large it is.

use std::ffi::{CStr, c_void};
use std::sync::atomic::{AtomicU32, AtomicU64};

use pgrx::pg_sys;

use crate::gucs;
use crate::shared::askers::AskerEntry;
use crate::shared::databases::{Database, SPARE};
use crate::shared::directory::Entry;
use crate::shared::flags::Flags;
use crate::shared::pending::{PENDING, Pending};
use crate::shared::slices::{Backend, Slice};
use crate::shared::slot::{Guarded, Slot};
use crate::shared::turnover::Note;
use crate::shared::workers::WorkerEntry;
use crate::shared::{Control, LOCKS, Shared};

const TRANCHE: &CStr = c"hilo";

/// In bytes; each part begins at a multiple of it.
const ALIGNMENT: usize = align_of::<Slot>();

/// How many of each part there are. [`offsets`](Self::offsets) says where each part begins.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Layout {
    slots: usize,
    backends: usize,
    slices_per_backend: usize,
    workers: usize,
    askers: usize,
}

impl Layout {
    pub fn from_settings() -> Layout {
        // SAFETY: both are set before the library's hooks run.
        let (backends, workers) = unsafe { (pg_sys::MaxBackends, pg_sys::max_worker_processes) };
        // A few spare slots, so that as many sequences as the setting says can be active while
        // others are flushed.
        let sequences = gucs::max_sequences();
        Layout {
            slots: sequences + sequences / 32,
            backends: backends as usize,
            slices_per_backend: gucs::max_backend_slices(),
            workers: workers as usize + 1,
            // The other half of the server's background workers is for others.
            askers: workers as usize / 2,
        }
    }

    /// The places for names: few enough of the slots' names share one.
    fn names(&self) -> usize {
        2 * self.slots
    }

    /// More than the number of possible processes.
    fn databases(&self) -> usize {
        self.backends + SPARE
    }

    fn offsets(&self) -> ([usize; 16], usize) {
        let sizes = [
            size_of::<Slot>() * self.slots,
            size_of::<AtomicU64>() * Flags::words(self.slots),
            size_of::<AtomicU64>() * Flags::words(self.slots),
            size_of::<WorkerEntry>() * self.workers,
            size_of::<Backend>() * self.backends,
            size_of::<Slice>() * self.backends * self.slices_per_backend,
            size_of::<Guarded>() * self.slots,
            size_of::<AtomicU32>() * self.names(),
            size_of::<Pending>() * PENDING,
            size_of::<AtomicU64>() * Flags::words(PENDING),
            size_of::<Entry>() * self.slots,
            size_of::<AtomicU32>() * self.slots,
            size_of::<pg_sys::LWLockPadded>() * LOCKS,
            size_of::<AskerEntry>() * self.askers,
            size_of::<Database>() * self.databases(),
            size_of::<Note>() * self.slots,
        ];
        let mut end = size_of::<Control>();
        let starts = sizes.map(|size| {
            let start = end;
            end = (start + size).next_multiple_of(ALIGNMENT);
            start
        });
        (starts, end)
    }

    /// How much memory to ask for, in bytes.
    pub fn size(&self) -> usize {
        self.offsets().1 + ALIGNMENT
    }

    /// Makes new memory ready for use.
    ///
    /// # Safety
    /// As for [`shared`](Self::shared), and no other process sees the memory yet.
    pub unsafe fn fill(&self, memory: *mut c_void) {
        let base = base(memory);
        // SAFETY: aligning skips less than the ALIGNMENT bytes that `size` adds. The control block
        // is at the beginning, and all zeros are a valid one.
        unsafe {
            std::ptr::write_bytes(base, 0, self.offsets().1);
            let control = &mut *(base as *mut Control);
            control.tranche = new_tranche();
        }
        // SAFETY: as the caller says.
        let shared = unsafe { self.place_in(memory) };
        for at in 0..LOCKS {
            // SAFETY: there are so many locks.
            unsafe {
                pg_sys::LWLockInitialize(
                    &raw mut (*shared.locks.add(at)).lock,
                    shared.control.tranche,
                )
            }
        }
        shared.fill();
    }

    /// The parts of filled memory, as this process sees it.
    ///
    /// # Safety
    /// `memory` has at least [`size`](Self::size) bytes and stays mapped for the life of the
    /// process.
    pub unsafe fn place_in(&self, memory: *mut c_void) -> Shared {
        let base = base(memory);
        let starts = self.offsets().0;
        // SAFETY: the parts lie within the memory, aligned as each needs it. All are valid when
        // zeroed, except for what `fill` writes before another process can look.
        let shared = unsafe {
            let part = |at: usize| base.add(starts[at]) as *mut c_void;
            let flags = |at: usize, count: usize| {
                let words = Flags::words(count);
                Flags(std::slice::from_raw_parts(part(at) as *const AtomicU64, words))
            };
            Shared {
                control: &*(base as *const Control),
                slots: std::slice::from_raw_parts(part(0) as *const Slot, self.slots),
                used: flags(1, self.slots),
                wanted: flags(2, self.slots),
                workers: std::slice::from_raw_parts(part(3) as *const WorkerEntry, self.workers),
                backends: std::slice::from_raw_parts(part(4) as *const Backend, self.backends),
                slices: std::slice::from_raw_parts(
                    part(5) as *const Slice,
                    self.backends * self.slices_per_backend,
                ),
                guarded: std::slice::from_raw_parts(part(6) as *const Guarded, self.slots),
                names: std::slice::from_raw_parts(part(7) as *const AtomicU32, self.names()),
                pending: std::slice::from_raw_parts(part(8) as *const Pending, PENDING),
                pending_used: flags(9, PENDING),
                slices_per_backend: self.slices_per_backend,
                entries: std::slice::from_raw_parts(part(10) as *const Entry, self.slots),
                buckets: std::slice::from_raw_parts(part(11) as *const AtomicU32, self.slots),
                locks: part(12) as *mut pg_sys::LWLockPadded,
                askers: std::slice::from_raw_parts(part(13) as *const AskerEntry, self.askers),
                databases: std::slice::from_raw_parts(
                    part(14) as *const Database,
                    self.databases(),
                ),
                notes: std::slice::from_raw_parts(part(15) as *const Note, self.slots),
            }
        };
        name_tranche(shared.control.tranche);
        shared
    }
}

/// A number for the kind of lock. From PostgreSQL 19 on core keeps its name for all processes.
fn new_tranche() -> i32 {
    // SAFETY: shared memory is being made. The name is static, and short.
    unsafe {
        #[cfg(any(feature = "pg15", feature = "pg16", feature = "pg17", feature = "pg18"))]
        return pg_sys::LWLockNewTrancheId();
        #[cfg(not(any(feature = "pg15", feature = "pg16", feature = "pg17", feature = "pg18")))]
        return pg_sys::LWLockNewTrancheId(TRANCHE.as_ptr());
    }
}

/// Names the kind of lock, which every process did for itself before PostgreSQL 19.
fn name_tranche(_tranche: i32) {
    // SAFETY: the name is static.
    #[cfg(any(feature = "pg15", feature = "pg16", feature = "pg17", feature = "pg18"))]
    unsafe {
        pg_sys::LWLockRegisterTranche(_tranche, TRANCHE.as_ptr())
    };
}

fn base(memory: *mut c_void) -> *mut u8 {
    (memory as usize).next_multiple_of(ALIGNMENT) as *mut u8
}
