//! Processes of the operating system.

use std::fs;
use std::process::{Child, ExitStatus};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::wait::{LONG, came_true};

pub fn signal(pid: i32, signal: Signal) {
    kill(Pid::from_raw(pid), signal)
        .unwrap_or_else(|error| panic!("cannot send {signal} to {pid}: {error}"));
}

/// The parent of process `pid`, if there is such a process.
pub fn parent(pid: i32) -> Option<i32> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name, in parentheses, may hold anything; state and parent follow it.
    stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()
}

/// The exit status of a child; none if it does not end.
pub fn exit_of(child: &mut Child) -> Option<ExitStatus> {
    let mut status = None;
    came_true(LONG, || {
        status = child.try_wait().expect("cannot wait for the process");
        status.is_some()
    });
    status
}
