//! The server's log, and the messages in it that fail a test.

use std::fs::{self, File};
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard};

/// Messages that a test causes on purpose, and that may therefore be in the log.
#[derive(Default)]
struct Tolerance {
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

/// The log of all servers that ran on a cluster.
pub struct Log {
    file: PathBuf,
    tolerance: Mutex<Tolerance>,
}

impl Log {
    pub fn at(file: PathBuf) -> Log {
        Log { file, tolerance: Mutex::default() }
    }

    /// The file, open for a server to append to.
    pub fn open(&self) -> File {
        let log = File::options().create(true).append(true).open(&self.file);
        log.expect("cannot open the log")
    }

    /// All that was logged so far.
    pub fn text(&self) -> String {
        fs::read(&self.file)
            .map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
            .unwrap_or_default()
    }

    /// The last lines, for a failing test to print.
    pub fn tail(&self) -> String {
        let log = self.text();
        let lines: Vec<&str> = log.lines().collect();
        lines[lines.len().saturating_sub(40)..].join("\n")
    }

    /// From now on a process that ends by signal 9 does not fail the test.
    pub fn tolerate_crash(&self) {
        self.tolerance().crash = true;
    }

    /// From now on lines with `text` do not fail the test.
    pub fn tolerate(&self, text: &str) {
        self.tolerance().texts.push(text.to_owned());
    }

    /// The lines that fail the test.
    pub fn complaints(&self) -> String {
        let tolerance = self.tolerance();
        let log = self.text();
        let wrong =
            |line: &&str| WRONG.iter().any(|text| line.contains(text)) && !tolerance.covers(line);
        log.lines().filter(wrong).collect::<Vec<_>>().join("\n")
    }

    fn tolerance(&self) -> MutexGuard<'_, Tolerance> {
        self.tolerance.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}
