//! A client belongs to the process that made it.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::task::{Context, Poll, Waker};

use hilo_client::{Client, Error, Sequence};
use hilo_tests::{ClientExt, Cluster};
use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::{ForkResult, Pid, alarm, fork};

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
    // Threads that hold the client's lock at the moment of the fork, sooner or later.
    let stop = Arc::new(AtomicBool::new(false));
    let busy = [(); 2].map(|()| {
        let (client, stop) = (client.clone(), stop.clone());
        std::thread::spawn(move || {
            while !stop.load(Relaxed) {
                client.stats();
            }
        })
    });
    for _ in 0..20 {
        let child = child_of(&client, &s);
        assert_eq!(waitpid(child, None), Ok(WaitStatus::Exited(child, 0)));
    }
    stop.store(true, Relaxed);
    for thread in busy {
        thread.join().expect("it ends");
    }
    seen.extend(runtime.block_on(draw(&s, 10)));
    assert_eq!(seen, (1..=20).collect::<Vec<_>>());
    runtime.block_on(client.shutdown()).expect("all comes back");
    cluster.finish();
}

/// A child in which every call fails.
fn child_of(client: &Client, s: &Sequence) -> Pid {
    // SAFETY: the child only calls functions that fail before they take a lock of the client's; it may allocate, as the C
    // library sees to that. It ends without cleaning up, also if it hangs.
    match unsafe { fork() }.expect("a child") {
        ForkResult::Parent { child } => child,
        ForkResult::Child => {
            alarm::set(20);
            let another = client.sequence("another");
            let key = pin!(another.next_key()).poll(&mut Context::from_waker(Waker::noop()));
            let all = [
                matches!(s.try_next(), Err(Error::Forked)),
                matches!(s.try_next_range(5), Err(Error::Forked)),
                matches!(another.try_next(), Err(Error::Forked)),
                matches!(key, Poll::Ready(Err(Error::Forked))),
                client.stats().sequences == 0,
                client.sequence_stats().is_empty(),
            ];
            // SAFETY: it ends the process.
            unsafe { nix::libc::_exit(if all == [true; 6] { 0 } else { 1 }) }
        }
    }
}
