//! The memory of a library that sessions load while the server runs: a segment of dynamic shared memory, which the server's
//! registry (PostgreSQL 17) finds by its name. The first process that needs it makes it; it lasts until the server
//! stops or crashes.

use std::cell::Cell;
use std::ffi::{CStr, c_void};

use pgrx::pg_sys;
use pgrx::prelude::*;

use super::Shared;
use super::layout::Layout;
use crate::backend::Global;

/// Named by the version: a library that is installed while the server runs must not read what another one has laid out.
const MEMORY: &CStr = name(concat!("hilo ", env!("CARGO_PKG_VERSION"), "\0"));
const LAYOUT_OF_MEMORY: &CStr = name(concat!("hilo ", env!("CARGO_PKG_VERSION"), " layout\0"));

const fn name(text: &str) -> &CStr {
    match CStr::from_bytes_with_nul(text.as_bytes()) {
        Ok(name) => name,
        Err(_) => panic!("it ends with a zero byte"),
    }
}

/// The layout of the segment that this process is about to make.
static LAYOUT: Global<Cell<Option<Layout>>> = Global::new(Cell::new(None));

/// Finds the memory, or makes it as the settings of this process say.
pub fn attach() -> Shared {
    let layout = layout();
    LAYOUT.set(Some(layout));
    // SAFETY: all processes ask for a segment of the same size, and the registry keeps it mapped.
    unsafe { layout.shared(segment(MEMORY, layout.size(), fill)) }
}

/// What the process that came first has chosen.
fn layout() -> Layout {
    let segment = segment(LAYOUT_OF_MEMORY, size_of::<Layout>(), choose);
    // SAFETY: `choose` has written it.
    unsafe { *(segment as *const Layout) }
}

fn segment(
    name: &CStr,
    size: usize,
    fill: unsafe extern "C-unwind" fn(*mut c_void),
) -> *mut c_void {
    let mut found = false;
    // SAFETY: the name is short and static; the function is called once, with a new segment, before others find it.
    unsafe { pg_sys::GetNamedDSMSegment(name.as_ptr(), size, Some(fill), &mut found) }
}

#[pg_guard]
unsafe extern "C-unwind" fn choose(segment: *mut c_void) {
    // SAFETY: the segment has room for it.
    unsafe { (segment as *mut Layout).write(Layout::from_settings()) }
}

#[pg_guard]
unsafe extern "C-unwind" fn fill(segment: *mut c_void) {
    // The registry is locked here, so it cannot be asked for the layout.
    if let Some(layout) = LAYOUT.get() {
        // SAFETY: the segment is as large as this layout says, and new.
        unsafe { layout.fill(segment) }
    }
}
