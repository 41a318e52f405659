//! After a crash no value is served that a client has seen before.

use hilo_tests::{ClientExt, Cluster, LONG, Load, Mode, Source, wait_until};

/// A backend, the worker and the postmaster are killed with -9, and an immediate stop comes, in the
/// middle of the load of `concurrency.rs`. No value comes twice, each session rises, and ordered
/// sequences stay in order over the crashes too.
#[test]
fn nothing_comes_twice_after_kill_9() {
    let cluster = Cluster::with_hilo();
    let sources = Source::three_kinds(&cluster);
    let load = Load { reconnect: true, ..Load::sixteen_sessions(4) };
    load.run_during(&cluster, &sources, || {
        let faults: [&dyn Fn(); 4] = [
            &|| cluster.crash_session(),
            &|| cluster.crash(cluster.wait_for_worker("postgres")),
            &|| {
                cluster.kill9_postmaster();
                cluster.start();
            },
            &|| {
                cluster.stop(Mode::Immediate);
                cluster.start();
            },
        ];
        for (done, fault) in faults.iter().enumerate() {
            wait_until("another fifth has been drawn", 3 * LONG, || {
                Source::count_seen(&sources) >= load.total() * (done + 1) / 5
            });
            fault();
        }
    });
    sources.iter().for_each(Source::assert_kept);
}

/// A value that was only shown to a client, in a transaction that never committed, does not come
/// again. The server was killed right behind it.
#[test]
fn a_value_is_durable_before_it_is_visible() {
    let cluster = Cluster::with_hilo();
    cluster.connect("postgres").run("SELECT hilo_create('shown')");
    let mut last = 0;
    for _ in 0..5 {
        let mut client = cluster.connect_when_up("postgres");
        client.run("BEGIN");
        let shown: i64 = client.one("SELECT hilo_nextval('shown')");
        assert!(shown > last, "{shown} after {last}");
        last = shown;
        cluster.kill9_postmaster();
        cluster.start();
    }
}

/// Each value that was in memory when the server crashed is recorded as a gap; what was served is not.
#[test]
fn a_crash_records_what_was_in_memory() {
    let cluster = Cluster::with_hilo();
    let mut client = cluster.connect("postgres");
    client.run("SELECT hilo_create('s', block_size => 100)");
    assert_eq!(client.one::<i64>("SELECT hilo_nextval('s')"), 1);
    let pid = client.backend_pid();
    cluster.crash(pid);
    let mut client = cluster.connect_when_up("postgres");
    let next: i64 = client.one("SELECT hilo_nextval('s')");
    assert!(next > 1);
    let recorded: i64 = client.one(
        "SELECT coalesce(sum(count), 0)::bigint FROM hilo_gaps
         WHERE name = 's' AND reason = 'crash'",
    );
    // The catalog cannot know how much of the block was served, so the served value may be in it.
    assert!((next - 2..next).contains(&recorded), "{recorded} recorded, next is {next}");
}

/// A loss by a crash beyond bounds that were narrowed before keeps nobody from altering the
/// sequence, and comes back with no wider bound.
#[test]
fn what_is_lost_beyond_a_bound_forbids_no_alteration() {
    let cluster = Cluster::with_hilo();
    let changes = [
        "block_size => 2",
        "ordered => true",
        "start_value => 2",
        "max_value => 6",
        "data_type => 'integer'",
        "increment => 2",
        "cycle => true",
        "gapless => true",
    ];
    let mut client = cluster.connect("postgres");
    for number in 0..changes.len() {
        let name = format!("s{number}");
        client.run(&format!("SELECT hilo_create('{name}', block_size => 100)"));
        assert_eq!(client.draw(&name, 3), [1, 2, 3]);
        client.run(&format!("SELECT hilo_alter('{name}', max_value => 5, block_size => 0)"));
    }
    drop(client);
    cluster.stop(Mode::Immediate);
    cluster.start();
    let mut client = cluster.connect("postgres");
    for (number, change) in changes.into_iter().enumerate() {
        let name = format!("s{number}");
        client.run(&format!("SELECT hilo_alter('{name}', {change})"));
        if change != "cycle => true" {
            client.refusal(&format!("SELECT hilo_alter('{name}', max_value => 4)")).is("22023");
            client.run(&format!("SELECT hilo_alter('{name}', max_value => 1000)"));
            assert!(client.draw(&name, 1)[0] > 100, "{change}");
        }
    }
    cluster.finish();
}
