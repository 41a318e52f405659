//! A server whose wall clock the test sets, through libfaketime.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use crate::cluster::Cluster;

/// The path of the library in Debian's package, if it is installed.
pub fn clock_library() -> Option<PathBuf> {
    let directories = fs::read_dir("/usr/lib").ok()?;
    directories
        .filter_map(Result::ok)
        .map(|entry| entry.path().join("faketime/libfaketime.so.1"))
        .find(|path| path.exists())
}

impl Cluster {
    /// Sets the server's wall clock to the real time plus `offset`, such as `-1h`. Its monotonic clock is not
    /// changed.
    pub fn set_clock(&self, offset: &str) {
        let new = self.file("clock.new");
        fs::write(&new, offset).expect("cannot write the clock's file");
        fs::rename(new, self.clock_file()).expect("cannot set the clock");
    }

    fn clock_file(&self) -> PathBuf {
        self.file("clock")
    }

    /// Makes a server's process, and its children, use that clock.
    pub(crate) fn give_clock(&self, postgres: &mut Command) {
        if let Some(library) = self.clock.get() {
            self.set_clock("+0");
            postgres
                .env("LD_PRELOAD", library)
                .env("FAKETIME_TIMESTAMP_FILE", self.clock_file())
                .env("FAKETIME_NO_CACHE", "1")
                .env("FAKETIME_DONT_FAKE_MONOTONIC", "1")
                .env("DONT_FAKE_MONOTONIC", "1");
        }
    }
}
