//! Notices that the process is a fork of the one that made a client.
//!
//! The C library says so to whom it knows (`pthread_atfork`). Nobody hears of a child that
//! `_Fork()`, `vfork()` or a raw `clone(2)` has made. A check of the process's number would see it,
//! and cost each call a system call.

use std::fs::File;
use std::future::Future;
use std::pin::Pin;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicI32, AtomicU32, Ordering::*};
use std::task::{Context, Poll};

use crate::Error;

/// How many forks lie between this process and the first one that watched.
static FORKS: AtomicU32 = AtomicU32::new(0);

/// Differs between a process and its forks, from the first [`watch`] on.
#[inline]
pub fn generation() -> u32 {
    FORKS.load(Relaxed)
}

/// Counts forks from now on, and returns the generation.
///
/// # Errors
/// [`Error::Watch`] if the system does not tell of forks.
pub fn watch() -> Result<u32, Error> {
    static WATCHES: OnceLock<i32> = OnceLock::new();
    let code = *WATCHES.get_or_init(|| {
        #[cfg(unix)]
        // SAFETY: the handler only changes an atomic, which is safe in a child of a process with
        // many threads. It is a function of this program, which stays where it is.
        return unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
        #[cfg(not(unix))]
        return 0;
    });
    if code != 0 { Err(Error::Watch { code }) } else { Ok(generation()) }
}

#[cfg(unix)]
unsafe extern "C" fn in_child() {
    FORKS.fetch_add(1, Relaxed);
    for file in &CLOSED {
        let number = file.swap(NO_FILE, Relaxed);
        if number != NO_FILE {
            // SAFETY: the child's copy of a file that nothing in the child uses or closes. That is
            // safe in a child of a process with many threads.
            unsafe { libc::close(number) };
        }
    }
}

const NO_FILE: i32 = -1;
/// Files that a child closes. A file that finds no place here stays locked as long as the child
/// lives.
static CLOSED: [AtomicI32; 64] = [const { AtomicI32::new(NO_FILE) }; 64];

/// Makes a child of the process close its copy of a file.
pub fn close_in_child(file: &File) {
    exchange(NO_FILE, number(file));
}

/// Forgets a file that is about to be closed.
pub fn keep_in_child(file: &File) {
    exchange(number(file), NO_FILE);
}

fn exchange(from: i32, to: i32) {
    let place = |file: &AtomicI32| file.compare_exchange(from, to, Relaxed, Relaxed).is_ok();
    CLOSED.iter().any(place);
}

fn number(file: &File) -> i32 {
    #[cfg(unix)]
    return std::os::fd::AsRawFd::as_raw_fd(file);
    #[cfg(not(unix))]
    return file.metadata().map_or(NO_FILE, |_| NO_FILE);
}

/// A future that belongs to the process of this generation. A fork may inherit it with the runtime
/// in which it was waiting. The fork does not poll it, but gets [`Error::Forked`]. It does not drop
/// it either: it may hold the parent's sockets, and wait for locks of the parent's threads.
pub fn only_here<F: Future>(generation: u32, future: F) -> OnlyHere<F> {
    OnlyHere { generation, future: Some(Box::pin(future)) }
}

/// See [`only_here`].
pub struct OnlyHere<F> {
    generation: u32,
    /// The future, until it is dropped.
    future: Option<Pin<Box<F>>>,
}

impl<F: Future> Future for OnlyHere<F> {
    type Output = Result<F::Output, Error>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let is_here = generation() == self.generation;
        match &mut self.future {
            Some(future) if is_here => future.as_mut().poll(context).map(Ok),
            _ => Poll::Ready(Err(Error::Forked)),
        }
    }
}

impl<F> Drop for OnlyHere<F> {
    fn drop(&mut self) {
        if generation() != self.generation {
            std::mem::forget(self.future.take());
        }
    }
}
