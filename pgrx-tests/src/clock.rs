//! A server whose wall clock the test sets, through libfaketime.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

/// The path of the library in Debian's package, if it is installed.
pub fn clock_library() -> Option<PathBuf> {
    let directories = fs::read_dir("/usr/lib").ok()?;
    directories
        .filter_map(Result::ok)
        .map(|entry| entry.path().join("faketime/libfaketime.so.1"))
        .find(|path| path.exists())
}

/// A server's own wall clock.
pub struct Clock {
    library: PathBuf,
    /// The functions from which the library reads the time.
    file: PathBuf,
}

impl Clock {
    pub fn new(library: PathBuf, file: PathBuf) -> Clock {
        Clock { library, file }
    }

    /// Sets it to the real time plus `offset`, such as `-1h`. The monotonic clock is not changed.
    pub fn set(&self, offset: &str) {
        let new = self.file.with_extension("new");
        fs::write(&new, offset).expect("cannot write the clock's file");
        fs::rename(new, &self.file).expect("cannot set the clock");
    }

    /// Makes a server's process, and its children, use this clock, which shows the real time at first.
    pub fn give_to(&self, postgres: &mut Command) {
        self.set("+0");
        postgres
            .env("LD_PRELOAD", &self.library)
            .env("FAKETIME_TIMESTAMP_FILE", &self.file)
            .env("FAKETIME_NO_CACHE", "1")
            .env("FAKETIME_DONT_FAKE_MONOTONIC", "1")
            .env("DONT_FAKE_MONOTONIC", "1");
    }
}
