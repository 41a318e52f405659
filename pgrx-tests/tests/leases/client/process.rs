//! A client belongs to the process that made it.

use std::pin::pin;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::task::{Context, Poll, Waker};

use hilo_client::{Client, Error, Sequence};
use hilo_tests::{ClientExt, Cluster};
use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::{ForkResult, Pid, alarm, fork};

use super::{builder, draw, losses, open_leases, runtime, wait_until_filed};

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
    // SAFETY: the child only calls functions that fail before they take a lock of the client's. It
    // may allocate, as the C library sees to that. It ends without cleaning up, also if it hangs.
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

/// A runtime without threads goes on in a child that polls it, with all that it was doing. Neither
/// the client's task nor its connection nor a caller who waited does anything there, and the parent
/// does not notice.
#[test]
fn a_runtime_that_a_fork_polls_serves_nothing() {
    let cluster = Cluster::with_hilo();
    let mut connection = cluster.connect("postgres");
    // Their values differ, so that one list does for both.
    connection.run(
        "SELECT hilo_create('orders', start_value => 1000000000), hilo_create('parcels'), hilo_create('letters')",
    );
    let socket = cluster.socket_directory().display().to_string();
    let output = Command::new(env!("CARGO_BIN_EXE_fork"))
        .arg(format!("host={socket} user=postgres dbname=postgres"))
        .output()
        .expect("the program starts");
    let printed = String::from_utf8(output.stdout).expect("text");
    assert!(output.status.success(), "{printed}{}", String::from_utf8_lossy(&output.stderr));
    let of = |who: &str| -> Vec<String> {
        printed.lines().filter_map(|line| line.strip_prefix(who)).map(str::to_owned).collect()
    };
    let values: Vec<i64> = [of("child "), of("parent ")]
        .concat()
        .iter()
        .filter_map(|word| word.parse().ok())
        .collect();
    hilo_tests::assert_unique("both", &values);
    assert_eq!(of("child "), ["forked"; 4]);
    assert_eq!(values.len(), 1 + 1 + 1000 + 200, "{printed}");
    assert_eq!(of("connects "), ["1 failures 0"]);
    assert_eq!(open_leases(&mut connection), 0);
    wait_until_filed(&mut connection);
    let mut of_parcels: Vec<i64> = values.into_iter().filter(|value| *value < 1000000000).collect();
    of_parcels.extend(connection.draw("parcels", 200));
    assert_eq!(losses(&mut connection, "parcels", &of_parcels), []);
    cluster.finish();
}
