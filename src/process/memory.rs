//! Rust's memory. When the system has no more memory to give, Rust's collections abort the process,
//! and all sessions of the server end with it. Postgres raises 53200 instead.
//!
//! So this allocator keeps a reserve: when the system refuses, small pieces come from there, and a
//! flag is set. Code that is about to do something slow, or to start on another row, calls
//! [`check`]. It returns the error while there is still memory to raise it with. All that grows
//! with the data grows through [`TryGrow`], which returns the error instead of ending the process.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::UnsafeCell;
use std::collections::HashMap;
use std::hash::Hash;
use std::sync::atomic::{AtomicBool, Ordering::*};

use crate::errors::HiloError;

/// Part of the library's image. It takes no memory until it is used.
const RESERVE: usize = 256 << 10;
/// The unit in which the reserve is handed out, in bytes.
const GRAIN: usize = 64;
const GRAINS: usize = RESERVE / GRAIN;
/// Larger pieces are refused, so that one of them does not take what an error report needs.
const LARGEST: usize = 32 << 10;

#[repr(align(64))]
struct Reserve(UnsafeCell<[u8; RESERVE]>);

// SAFETY: its bytes are reached only through pieces that `take` has handed out, and each piece has
// one owner.
unsafe impl Sync for Reserve {}

static PLACE: Reserve = Reserve(UnsafeCell::new([0; RESERVE]));
/// Whether each grain is handed out. A backend has one thread, but an allocator must not rely on
/// that.
static TAKEN: [AtomicBool; GRAINS] = [const { AtomicBool::new(false) }; GRAINS];
/// Held while `TAKEN` is searched.
static BUSY: AtomicBool = AtomicBool::new(false);
/// Whether the system has refused memory since `check` last found some.
static REFUSED: AtomicBool = AtomicBool::new(false);

struct Allocator;

#[global_allocator]
static ALLOCATOR: Allocator = Allocator;

fn grains(layout: Layout) -> usize {
    layout.size().div_ceil(GRAIN).max(1)
}

fn mark(from: usize, count: usize, taken: bool) {
    TAKEN[from..from + count].iter().for_each(|grain| grain.store(taken, Release));
}

/// A piece of the reserve, or null. First fit is enough, because the reserve is used only while an
/// error is handled.
#[cold]
fn take(layout: Layout) -> *mut u8 {
    REFUSED.store(true, Relaxed);
    if layout.size() > LARGEST || layout.align() > GRAIN || BUSY.swap(true, Acquire) {
        return std::ptr::null_mut();
    }
    let (wanted, mut from, mut length) = (grains(layout), 0, 0);
    for (grain, taken) in TAKEN.iter().enumerate() {
        if taken.load(Acquire) {
            (from, length) = (grain + 1, 0);
            continue;
        }
        length += 1;
        if length == wanted {
            break;
        }
    }
    let found = length == wanted;
    if found {
        mark(from, wanted, true);
    }
    BUSY.store(false, Release);
    match found {
        // SAFETY: the search found `wanted` grains from `from` on, so the whole piece lies within
        // the reserve.
        true => unsafe { PLACE.0.get().cast::<u8>().add(from * GRAIN) },
        false => std::ptr::null_mut(),
    }
}

/// The grain of the reserve at which a piece begins; `None`: the piece is the system's.
#[inline(always)]
fn grain_of(piece: *mut u8) -> Option<usize> {
    let offset = (piece as usize).wrapping_sub(PLACE.0.get() as usize);
    (offset < RESERVE).then_some(offset / GRAIN)
}

// SAFETY: every piece comes from the system or from the reserve. Pieces of the reserve are disjoint
// while they are handed out, are aligned to a grain and are as long as requested. `dealloc` and
// `realloc` tell by its address where a piece comes from. Nothing in here allocates or unwinds.
unsafe impl GlobalAlloc for Allocator {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller guarantees what `alloc` requires, and the system's `alloc` requires
        // the same.
        let piece = unsafe { System.alloc(layout) };
        if piece.is_null() { take(layout) } else { piece }
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as in `alloc`. A piece of the reserve has the requested size, and is zeroed
        // because it may have been used before.
        unsafe {
            let piece = System.alloc_zeroed(layout);
            if !piece.is_null() {
                return piece;
            }
            let piece = take(layout);
            if !piece.is_null() {
                piece.write_bytes(0, layout.size());
            }
            piece
        }
    }

    #[inline]
    unsafe fn dealloc(&self, piece: *mut u8, layout: Layout) {
        match grain_of(piece) {
            Some(grain) => mark(grain, grains(layout), false),
            // SAFETY: the piece is not of the reserve, so it came from the system, with the layout
            // that the caller states.
            None => unsafe { System.dealloc(piece, layout) },
        }
    }

    #[inline]
    unsafe fn realloc(&self, piece: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: the caller guarantees that `piece` has `layout` and that `size` makes a valid
        // layout. A new piece is disjoint from the old one, and no more is copied than both have.
        // If there is no new piece, the old one stays as it is.
        unsafe {
            let of_system = grain_of(piece).is_none();
            if of_system {
                let grown = System.realloc(piece, layout, size);
                if !grown.is_null() {
                    return grown;
                }
            }
            let wanted = Layout::from_size_align_unchecked(size, layout.align());
            let grown = if of_system { take(wanted) } else { self.alloc(wanted) };
            if !grown.is_null() {
                grown.copy_from_nonoverlapping(piece, layout.size().min(size));
                self.dealloc(piece, layout);
            }
            grown
        }
    }
}

/// Raises a panic once, so that later panics need less memory. The standard library and libc keep
/// some memory for each thread, from its first panic on.
///
/// It also keeps errors of this library from carrying a backtrace, whatever the server's
/// environment says. Making one takes much memory, and a lock that is never released if an error
/// occurs then. Called once, from `_PG_init`.
pub fn init() {
    const SETTING: &str = "RUST_LIB_BACKTRACE";
    let before = std::env::var_os(SETTING);
    // SAFETY: the process has one thread when it loads the library, so no other reads the
    // environment. The environment is left as it was. The standard library, of which each Rust
    // extension has a copy of its own, remembers what the first panic found.
    unsafe {
        std::env::set_var(SETTING, "0");
        let _ = std::panic::catch_unwind(|| std::panic::panic_any(()));
        match before {
            Some(before) => std::env::set_var(SETTING, before),
            None => std::env::remove_var(SETTING),
        }
    }
}

/// Checks that there is memory to continue with. Costs one load if memory has not run short.
///
/// # Errors
/// `OutOfMemory`
#[inline]
pub fn check() -> Result<(), HiloError> {
    if is_short() { check_available(RESERVE) } else { Ok(()) }
}

/// Whether the system has refused memory since memory was last found.
pub fn is_short() -> bool {
    REFUSED.load(Relaxed)
}

/// Checks that the system would now give this many bytes at once, for work that builds one large
/// piece and cannot fail half-way.
///
/// # Errors
/// `OutOfMemory`
#[cold]
pub fn check_available(bytes: usize) -> Result<(), HiloError> {
    let Ok(layout) = Layout::from_size_align(bytes.max(RESERVE), GRAIN) else {
        return Err(HiloError::OutOfMemory);
    };
    // SAFETY: the layout is not empty, and the piece is freed with the same layout, untouched.
    unsafe {
        let piece = std::hint::black_box(System.alloc(layout));
        if piece.is_null() {
            REFUSED.store(true, Relaxed);
            return Err(HiloError::OutOfMemory);
        }
        System.dealloc(piece, layout);
    }
    REFUSED.store(false, Relaxed);
    Ok(())
}

/// Checks that there is memory for the copies and messages that are made of a text of somebody
/// else's.
///
/// # Errors
/// `OutOfMemory`
#[inline]
pub fn check_available_for_text(text: &[u8]) -> Result<(), HiloError> {
    const TIMES: usize = 32;
    if text.len() * TIMES <= LARGEST { Ok(()) } else { check_available(text.len() * TIMES) }
}

/// A collection that grows with the data, and fails with an error when there is no more memory.
pub trait TryGrow<T> {
    /// # Errors
    /// `OutOfMemory`
    fn try_push(&mut self, item: T) -> Result<(), HiloError>;

    /// # Errors
    /// `OutOfMemory`
    fn try_extend(&mut self, items: impl IntoIterator<Item = T>) -> Result<(), HiloError> {
        items.into_iter().try_for_each(|item| self.try_push(item))
    }
}

impl<T> TryGrow<T> for Vec<T> {
    #[inline]
    fn try_push(&mut self, item: T) -> Result<(), HiloError> {
        if self.len() == self.capacity() {
            self.try_reserve(1).map_err(|_| HiloError::OutOfMemory)?;
            check()?;
        }
        self.push(item);
        Ok(())
    }
}

impl<K: Eq + Hash, V> TryGrow<(K, V)> for HashMap<K, V> {
    fn try_push(&mut self, (key, value): (K, V)) -> Result<(), HiloError> {
        self.try_reserve(1).map_err(|_| HiloError::OutOfMemory)?;
        self.insert(key, value);
        Ok(())
    }
}

/// The `items` as a list, as `collect` gathers them.
///
/// # Errors
/// `OutOfMemory`
pub fn try_collect<T>(items: impl IntoIterator<Item = T>) -> Result<Vec<T>, HiloError> {
    let mut all = Vec::new();
    all.try_extend(items)?;
    Ok(all)
}

/// The results as a list, if none of them is an error.
///
/// # Errors
/// The first of the errors, or `OutOfMemory`.
pub fn try_collect_results<T>(
    results: impl IntoIterator<Item = Result<T, HiloError>>,
) -> Result<Vec<T>, HiloError> {
    let mut all = Vec::new();
    for result in results {
        all.try_push(result?)?;
    }
    Ok(all)
}

/// The items as a map of at most `count` entries.
///
/// # Errors
/// `OutOfMemory`
pub fn try_map<K: Eq + Hash, V>(
    count: usize,
    entries: impl IntoIterator<Item = (K, V)>,
) -> Result<HashMap<K, V>, HiloError> {
    let mut all = HashMap::new();
    all.try_reserve(count).map_err(|_| HiloError::OutOfMemory)?;
    for (key, value) in entries {
        all.insert(key, value);
    }
    Ok(all)
}

/// A list with room for `count` items, which then does not grow.
///
/// # Errors
/// `OutOfMemory`
pub fn with_capacity<T>(count: usize) -> Result<Vec<T>, HiloError> {
    let mut all = Vec::new();
    all.try_reserve_exact(count).map_err(|_| HiloError::OutOfMemory)?;
    Ok(all)
}
