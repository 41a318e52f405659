//! Waiting for conditions.

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
