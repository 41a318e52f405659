//! Notices that the process is a fork of the one that made a client.

use std::sync::Once;
use std::sync::atomic::{AtomicU32, Ordering::*};

/// How many forks lie between this process and the first one that watched.
static FORKS: AtomicU32 = AtomicU32::new(0);

/// Differs between a process and its forks, from the first [`watch`] on.
#[inline]
pub fn generation() -> u32 {
    FORKS.load(Relaxed)
}

/// Counts forks from now on, and returns the generation.
pub fn watch() -> u32 {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        #[cfg(unix)]
        // SAFETY: the handler only changes an atomic, which is safe in a child of a process with many threads. It is
        // a function of this program, which stays where it is.
        unsafe {
            libc::pthread_atfork(None, None, Some(in_child));
        }
    });
    generation()
}

#[cfg(unix)]
unsafe extern "C" fn in_child() {
    FORKS.fetch_add(1, Relaxed);
}
