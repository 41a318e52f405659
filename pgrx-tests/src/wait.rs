//! Waiting for conditions, and what others do meanwhile.

use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::thread;
use std::time::{Duration, Instant};

/// How long a test waits for what must happen, even on a busy machine. It makes no test slower,
/// unless the test fails.
pub const LONG: Duration = Duration::from_secs(60);

/// Polls `holds` until it is true; after `timeout` fails the test with what was awaited.
#[track_caller]
pub fn wait_until(what: &str, timeout: Duration, holds: impl FnMut() -> bool) {
    assert!(came_true(timeout, holds), "waited {timeout:?} without success until {what}");
}

/// Polls `holds` until it is true, or `timeout` has passed; returns whether it became true.
pub fn came_true(timeout: Duration, mut holds: impl FnMut() -> bool) -> bool {
    let deadline = Instant::now() + timeout;
    loop {
        if holds() {
            return true;
        }
        if Instant::now() >= deadline {
            return false;
        }
        thread::sleep(Duration::from_millis(5));
    }
}

/// Tells other threads to end when it goes out of scope, even if the test fails. The scope of threads
/// waits for them.
pub struct Ends<'a>(pub &'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, SeqCst);
    }
}

/// Does `work` while another thread does `other` again and again. It pauses each time, so that the
/// work has most of the machine.
pub fn while_another(mut other: impl FnMut() + Send, work: impl FnOnce()) {
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(SeqCst) {
                other();
                thread::sleep(Duration::from_millis(20));
            }
        });
        let _ends = Ends(&done);
        work();
    });
}
