//! A client belongs to the process that made it.

use hilo_client::Error;
use hilo_tests::{ClientExt, Cluster};
use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::{ForkResult, fork};

use super::{builder, draw, runtime};

/// A child of the process gets an error for every call, and its parent every value.
#[test]
fn a_fork_serves_nothing() {
    let cluster = Cluster::with_hilo();
    cluster.connect("postgres").run("SELECT hilo_create('s')");
    let runtime = runtime();
    let client = runtime.block_on(builder(&cluster).connect()).expect("a client");
    let s = client.sequence("s");
    let mut seen = runtime.block_on(draw(&s, 10));
    // SAFETY: the child only calls functions that fail before they take a lock or allocate, and ends without cleaning up.
    let child = match unsafe { fork() }.expect("a child") {
        ForkResult::Parent { child } => child,
        ForkResult::Child => {
            let values = matches!(s.try_next(), Err(Error::Forked));
            let ranges = matches!(s.try_next_range(5), Err(Error::Forked));
            // SAFETY: it ends the process.
            unsafe { nix::libc::_exit(if values && ranges { 0 } else { 1 }) }
        }
    };
    assert_eq!(waitpid(child, None), Ok(WaitStatus::Exited(child, 0)));
    seen.extend(runtime.block_on(draw(&s, 10)));
    assert_eq!(seen, (1..=20).collect::<Vec<_>>());
    runtime.block_on(client.shutdown()).expect("all comes back");
    cluster.finish();
}
