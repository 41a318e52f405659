//! Memory that a process keeps until it ends, laid out so that what is used together lies together.

use std::alloc::Layout;
use std::cell::Cell;

use crate::backend::Global;
use crate::errors::HiloError;

/// In bytes.
const CHUNK: usize = 16 << 10;
const PAGE: usize = 4096;

/// The first free byte of the current piece, and its end.
static FREE: Global<Cell<(usize, usize)>> = Global::new(Cell::new((0, 0)));

/// Room in the current piece, or in a new one. Returns an error if memory runs out, where the
/// standard library would end the process, and so the server.
fn allocate<T>(layout: Layout) -> Result<*mut T, HiloError> {
    let (mut free, mut end) = FREE.get();
    free = free.next_multiple_of(layout.align());
    if free + layout.size() > end {
        let piece = Layout::from_size_align(CHUNK.max(layout.size()), PAGE.max(layout.align()));
        let piece = piece.map_err(|_| HiloError::OutOfMemory)?;
        // SAFETY: the size is not 0.
        let start = unsafe { std::alloc::alloc(piece) };
        if start.is_null() {
            return Err(HiloError::OutOfMemory);
        }
        free = start.expose_provenance();
        end = free + piece.size();
    }
    FREE.set((free + layout.size(), end));
    Ok(std::ptr::with_exposed_provenance_mut(free))
}

/// Keeps a value.
///
/// # Errors
/// `OutOfMemory`
pub fn alloc_static<T>(value: T) -> Result<&'static T, HiloError> {
    const { assert!(size_of::<T>() > 0) };
    let place: *mut T = allocate(Layout::new::<T>())?;
    // SAFETY: the memory has the layout of `T`, belongs to nothing else, and is written before it
    // is read.
    unsafe {
        place.write(value);
        Ok(&*place)
    }
}

/// Keeps a copy of bytes, of which there is at least one.
///
/// # Errors
/// `OutOfMemory`
pub fn alloc_static_bytes(bytes: &[u8]) -> Result<&'static [u8], HiloError> {
    let place: *mut u8 = allocate(Layout::for_value(bytes))?;
    // SAFETY: as in `alloc_static`, for as many bytes.
    unsafe {
        place.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len());
        Ok(std::slice::from_raw_parts(place, bytes.len()))
    }
}

/// Asks the processor for the cache line at an address and for the next one. Only a hint: any
/// address will do.
#[inline(always)]
pub fn prefetch_two_lines<T>(place: *const T) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: it has no effect but on the caches.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(place.cast());
        _mm_prefetch::<_MM_HINT_T0>(place.cast::<i8>().wrapping_add(64));
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = place;
}
