//! The server's log, and the messages in it that fail a test.

use std::fs;

use crate::cluster::Cluster;

/// What a test does on purpose, and may therefore be in the log.
#[derive(Default)]
pub struct Tolerance {
    crash: bool,
    texts: Vec<String>,
}

impl Tolerance {
    fn covers(&self, line: &str) -> bool {
        (self.crash && line.contains("was terminated by signal 9"))
            || self.texts.iter().any(|text| line.contains(text))
    }
}

/// Messages that are always wrong: a crash, a failed assertion, a Rust panic, an internal error.
const WRONG: [&str; 5] = ["PANIC:", "TRAP:", "was terminated by signal", "panicked at", " XX000 "];

impl Cluster {
    /// All that the servers on this cluster have logged so far.
    pub fn log(&self) -> String {
        fs::read(self.log_file())
            .map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
            .unwrap_or_default()
    }

    /// How often the log contains `text`.
    pub fn logged(&self, text: &str) -> usize {
        self.log().matches(text).count()
    }

    /// The log's last lines, for a failing test to print.
    pub(crate) fn log_tail(&self) -> String {
        let log = self.log();
        let lines: Vec<&str> = log.lines().collect();
        lines[lines.len().saturating_sub(40)..].join("\n")
    }

    /// From now on a process that ends by signal 9 does not fail the test, which does that itself.
    pub fn expect_crash(&self) {
        self.tolerance.lock().unwrap().crash = true;
    }

    /// From now on log lines with `text` do not fail the test.
    pub fn expect_in_log(&self, text: &str) {
        self.tolerance.lock().unwrap().texts.push(text.to_owned());
    }

    /// The log's lines that fail the test.
    pub(crate) fn complaints(&self) -> String {
        let tolerance = self.tolerance.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let log = self.log();
        let wrong =
            |line: &&str| WRONG.iter().any(|text| line.contains(text)) && !tolerance.covers(line);
        log.lines().filter(wrong).collect::<Vec<_>>().join("\n")
    }
}
