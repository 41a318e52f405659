//! Servers that run under valgrind, which counts the instructions of each process. Unlike times, these are the same on
//! a machine that does other things as well.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::server::Server;
use crate::wait::{LONG, wait_until};

/// Whether valgrind is there.
pub fn can_count() -> bool {
    let asked = Command::new("valgrind").arg("--version").stdout(Stdio::null()).status();
    asked.is_ok_and(|status| status.success())
}

/// Makes the directory of the counts, which have a file for each process.
pub(crate) fn make_directory(server: &Server, directory: &Path) {
    fs::create_dir(directory).expect("cannot create the directory of the counts");
    server.own(directory);
}

/// Postgres under valgrind.
pub(crate) fn postgres(server: &Server, counts: &Path) -> Command {
    let mut valgrind = server.command_at(Path::new("valgrind"));
    valgrind
        .args(["--tool=cachegrind", "--cache-sim=no", "--cachegrind-out-file=/dev/null"])
        .arg(format!("--log-file={}/%p", counts.display()))
        .arg(server.bindir().join("postgres"));
    valgrind
}

/// How many instructions a process has run, once it has ended.
pub(crate) fn of_process(counts: &Path, pid: i32) -> f64 {
    let file = counts.join(pid.to_string());
    let mut count = None;
    wait_until("a process has counted its instructions", LONG, || {
        let text = fs::read_to_string(&file).unwrap_or_default();
        count = text
            .split_once("I   refs:")
            .and_then(|(_, rest)| rest.split_whitespace().next()?.replace(',', "").parse().ok());
        count.is_some()
    });
    count.expect("it is there")
}
