//! The slots whose reservation has failed, and when it is tried again.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use hilo_core::backoff;
use hilo_core::numbers::Serial;

use crate::shared::random_id;

/// How often the reservation of each slot has failed, and when to try again.
#[derive(Default)]
pub struct Retries(HashMap<usize, Retry>);

struct Retry {
    /// The slot's serial: another sequence in the same slot starts from the beginning.
    serial: Serial,
    failed: u32,
    at: Instant,
}

/// How a failed reservation is treated.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum FailureKind {
    /// Another transaction is in the way, such as one that has locked the row. It is tried again
    /// for as long as a session waits, because each caller's own timeout ends its wait.
    Transient,
    /// It is tried again a few times.
    Persistent,
}

impl Retries {
    /// How long until the next retry is due.
    pub fn next(&self) -> Option<Duration> {
        self.0.values().map(|retry| retry.at.saturating_duration_since(Instant::now())).min()
    }

    /// Keeps only those that `due` says are still to be retried.
    pub fn retain(&mut self, due: impl Fn(usize, Serial) -> bool) {
        self.0.retain(|number, retry| due(*number, retry.serial));
    }

    pub fn is_backing_off(&self, number: usize, serial: Serial) -> bool {
        let retry = self.0.get(&number);
        retry.is_some_and(|retry| retry.serial == serial && retry.at > Instant::now())
    }

    pub fn failures(&self, number: usize) -> u32 {
        self.0.get(&number).map_or(0, |retry| retry.failed)
    }

    /// Forgets the failures of a slot.
    pub fn forget(&mut self, number: usize) {
        self.0.remove(&number);
    }

    /// Notes a failure. Returns whether it was the last one that is tolerated.
    pub fn note_failure(&mut self, number: usize, serial: Serial, kind: FailureKind) -> bool {
        /// Retries no later than about 160 ms after a lock is released.
        const STEADY: u32 = 4;
        let before = self.0.get(&number).filter(|retry| retry.serial == serial);
        let failed = before.map_or(0, |retry| retry.failed) + 1;
        let step = match kind {
            FailureKind::Transient => failed.min(STEADY),
            FailureKind::Persistent if failed < backoff::ATTEMPTS => failed,
            FailureKind::Persistent => {
                self.forget(number);
                return true;
            }
        };
        let wait = backoff::delay(step, random_id() as u32);
        self.0.insert(number, Retry { serial, failed, at: Instant::now() + wait });
        false
    }
}
