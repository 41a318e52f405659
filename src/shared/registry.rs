//! The memory of a library that sessions load while the server runs: a segment of dynamic shared memory, which the server's
//! registry (PostgreSQL 17) finds by its name. The first process that needs it makes it; it lasts until the server
//! stops or crashes.

use std::cell::Cell;
use std::ffi::{CStr, c_void};
use std::hint::black_box;

use pgrx::pg_sys;
use pgrx::prelude::*;

use super::Shared;
use super::layout::Layout;
use crate::backend::Global;
use crate::errors::HiloError;

/// Who has made the memory. The segment with it has this size in every version.
type Maker = [u8; 32];

/// This library. Another version may lay out the memory otherwise.
static MAKER: Maker = padded(concat!("hilo memory of ", env!("CARGO_PKG_VERSION")));

const fn padded(text: &str) -> Maker {
    let mut padded = [0; size_of::<Maker>()];
    padded.split_at_mut(text.len()).0.copy_from_slice(text.as_bytes());
    padded
}

/// The layout of the segment that this process is about to make.
static LAYOUT: Global<Cell<Option<Layout>>> = Global::new(Cell::new(None));

/// Finds the memory, or makes it as the settings of this process say. Raises an error if a library of another version
/// has made it: sessions that begin after an upgrade load the new one.
pub fn attach() -> Shared {
    let maker = segment(c"hilo maker", size_of::<Maker>(), sign);
    // SAFETY: `sign`, of whatever version, has written it.
    let maker = unsafe { &*(maker as *const Maker) };
    if maker != black_box(&MAKER) {
        let maker = String::from_utf8_lossy(maker);
        let maker = maker.trim_end_matches('\0').rsplit(' ').next().unwrap_or_default().into();
        HiloError::OtherMemory { maker }.raise();
    }
    let layout = layout();
    LAYOUT.set(Some(layout));
    // SAFETY: all processes ask for a segment of the same size, and the registry keeps it mapped.
    unsafe { layout.shared(segment(c"hilo", layout.size(), fill)) }
}

/// What the process that came first has chosen.
fn layout() -> Layout {
    let segment = segment(c"hilo layout", size_of::<Layout>(), choose);
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
unsafe extern "C-unwind" fn sign(segment: *mut c_void) {
    // SAFETY: the segment has room for it.
    unsafe { (segment as *mut Maker).write(MAKER) }
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
