//! Processes of the operating system.

use std::fs;
use std::process::{Child, ExitStatus};

use nix::errno::Errno;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::wait::{LONG, came_true};

pub fn signal(pid: i32, signal: Signal) {
    kill(Pid::from_raw(pid), signal)
        .unwrap_or_else(|error| panic!("cannot send {signal} to {pid}: {error}"));
}

/// Processes that stand still until this is dropped, so a test that fails leaves none behind.
pub struct Frozen(Vec<i32>);

impl Frozen {
    /// Stops `parent`, so that it starts no more, and then its children.
    pub(crate) fn family(parent: i32) -> Frozen {
        signal(parent, Signal::SIGSTOP);
        let mut frozen = Frozen(vec![parent]);
        frozen.0.extend(children(parent));
        frozen.0[1..].iter().for_each(|pid| signal_if_there(*pid, Signal::SIGSTOP));
        frozen
    }
}

impl Drop for Frozen {
    fn drop(&mut self) {
        self.0.iter().for_each(|pid| signal_if_there(*pid, Signal::SIGCONT));
    }
}

/// Children end by themselves meanwhile.
fn signal_if_there(pid: i32, signal: Signal) {
    match kill(Pid::from_raw(pid), signal) {
        Ok(()) | Err(Errno::ESRCH) => {}
        Err(error) => panic!("cannot send {signal} to {pid}: {error}"),
    }
}

fn children(of: i32) -> Vec<i32> {
    let processes = fs::read_dir("/proc").expect("cannot list the processes");
    let pids = processes.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    pids.filter(|pid| parent(*pid) == Some(of)).collect()
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
