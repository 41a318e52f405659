//! hilo does not depend on the wall clock.

use hilo_tests::{ClientExt, Cluster, clock_library};

/// A clock that is set back, or ahead, after a worker has left keeps the next one from nothing. Not tested
/// where libfaketime is not installed.
#[test]
fn set_back_it_keeps_no_worker_from_starting() {
    let Some(library) = clock_library() else {
        eprintln!("without libfaketime there is nothing to set");
        return;
    };
    let cluster =
        Cluster::builder().clock(library).config("hilo.worker_idle_timeout", "0").start_with_hilo();
    cluster.connect("postgres").run("SELECT hilo_create('s')");
    let mut now = cluster.connect("postgres").one::<i64>(NOW);
    for (number, (offset, seconds)) in
        [("+0", 0), ("-2h", -7_200), ("+3h", 18_000), ("+1h", -7_200)].into_iter().enumerate()
    {
        cluster.set_clock(offset);
        let mut client = cluster.connect("postgres");
        let told = client.one::<i64>(NOW);
        assert!((told - now - seconds).abs() < 600, "the clock says {told} after {now}");
        now = told;
        assert_eq!(client.draw("s", 1), [number as i64 + 1], "at {offset}");
        let worker = cluster.worker_pid("postgres");
        drop(client);
        worker.into_iter().for_each(|worker| cluster.wait_until_gone(worker));
    }
    cluster.finish();
}

const NOW: &str = "SELECT extract(epoch FROM clock_timestamp())::bigint";
