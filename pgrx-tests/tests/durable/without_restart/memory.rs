//! The memory that a server makes while it runs: where there is little room for it, and where the server crashes meanwhile.

use std::fs;
use std::path::Path;
use std::thread;

use hilo_tests::{ClientExt, Cluster, LONG, Mode, SERVER, wait_until};

use super::{bare_server_with, has_loaded};

/// Where there is no room for the memory, a smaller one is made as soon as the settings say so.
#[test]
fn less_memory_is_enough_after_there_was_no_room() {
    let Some(cluster) = bare_server_with_room(20_000_000) else { return };
    let mut client = cluster.connect("postgres");
    client.run("CREATE EXTENSION hilo");
    for _ in 0..2 {
        client.refusal("SELECT hilo_create('s')").is("53200").says("shared memory segment");
    }
    cluster.configure("hilo.max_sequences", "1000");
    cluster.reload();
    let mut client = cluster.connect("postgres");
    client.run("SELECT hilo_create('s')");
    assert_eq!(client.draw("s", 3), [1, 2, 3]);
    assert_eq!(
        cluster.connect("postgres").one::<i64>("SELECT count(*) FROM hilo_stat_sequences"),
        1
    );
    cluster.finish();
}

/// Whoever drops a database need not have loaded hilo. Another one with its OID, from the same
/// template, begins with its own first number. Memory of the dropped ones is freed when room is short.
#[test]
fn a_session_without_the_library_drops_a_database() {
    let builder = Cluster::builder().config("hilo.max_sequences", "16");
    let Some(cluster) = bare_server_with(builder) else { return };
    let mut admin = cluster.connect("postgres");
    admin.run("CREATE DATABASE template");
    cluster
        .connect("template")
        .run("CREATE EXTENSION hilo; SELECT hilo_create('s' || i) FROM generate_series(1, 12) i");
    let make = "CREATE DATABASE copy TEMPLATE template OID = 90000";
    wait_until("nobody is in the template", LONG, || admin.batch_execute(make).is_ok());
    let one_of_each = "SELECT hilo_nextval('s' || i) FROM generate_series(1, 12) i";
    for force in ["", " WITH (FORCE)"] {
        let mut first = cluster.connect("copy");
        assert_eq!(first.all::<i64>(one_of_each), [1; 12]);
        let other = (!force.is_empty()).then_some(first);
        admin.run(&format!("DROP DATABASE copy{force}"));
        drop(other);
        admin.run(make);
    }
    let mut second = cluster.connect("copy");
    assert_eq!(second.all::<i64>(one_of_each), [1; 12]);
    drop(second);
    admin.run("DROP DATABASE copy");
    assert!(!has_loaded(&mut admin));
    let mut client = cluster.connect("postgres");
    client.run("SELECT hilo_create('s' || i) FROM generate_series(1, 12) i");
    for value in 1..4 {
        assert_eq!(client.all::<i64>(one_of_each), [value; 12]);
    }
    assert_eq!(client.one::<i64>("SELECT count(*) FROM hilo_stat_sequences"), 12);
    cluster.finish();
}

/// A server without the extension, whose processes cannot make a larger file, nor a larger segment, than this.
fn bare_server_with_room(bytes: u64) -> Option<Cluster> {
    let cluster = Cluster::builder().preload(false).start();
    if cluster.version() < 17 {
        cluster.finish();
        return None;
    }
    // Who runs the server may lower its limits.
    let mut limit = SERVER.command_at(Path::new("/usr/bin/prlimit"));
    limit.args(["--pid", &cluster.postmaster_pid().to_string(), &format!("--fsize={bytes}")]);
    assert!(limit.status().expect("cannot run prlimit").success());
    Some(cluster)
}

/// The size of the largest piece of dynamic shared memory that a process has, in bytes.
fn largest_segment(pid: i32) -> u64 {
    let maps = fs::read_to_string(format!("/proc/{pid}/maps")).expect("it runs");
    let segments = maps.lines().filter_map(|line| line.split_once("/dev/shm/PostgreSQL."));
    let names = segments.map(|(_, number)| format!("/dev/shm/PostgreSQL.{number}"));
    names.filter_map(|name| Some(fs::metadata(name).ok()?.len())).max().expect("it has one")
}

/// How many pieces of dynamic shared memory of this size there are on this machine.
fn segments_of(size: u64) -> usize {
    let files = fs::read_dir("/dev/shm").expect("a directory").filter_map(Result::ok);
    let sizes = files.filter_map(|file| Some(file.metadata().ok()?.len()));
    sizes.filter(|other| *other == size).count()
}

/// Whenever the server crashes, also while a session makes the memory, the next life frees it.
#[test]
fn a_crash_leaves_no_memory_behind() {
    // No other cluster on this machine has pieces of this size.
    let sequences = 9_000 + std::process::id() % 1_000;
    let builder = Cluster::builder().config("hilo.max_sequences", &sequences.to_string());
    let Some(cluster) = bare_server_with(builder) else { return };
    let mut client = cluster.connect("postgres");
    client.run("SELECT hilo_create('s')");
    client.draw("s", 1);
    let size = largest_segment(client.backend_pid());
    drop(client);
    cluster.restart();
    for round in 0..16 {
        let (mut first, mut bystander) =
            (cluster.connect_when_up("postgres"), cluster.connect_when_up("postgres"));
        let victim = bystander.backend_pid();
        thread::scope(|scope| {
            // It fails if the server crashes before it is done.
            scope.spawn(move || drop(first.query("SELECT hilo_nextval('s')", &[])));
            // Some crashes come before the memory is made, some meanwhile, and some afterwards.
            (0..round)
                .for_each(|_| bystander.run("SELECT count(*) FROM generate_series(1, 20000)"));
            cluster.crash(victim);
        });
    }
    drop(cluster.connect_when_up("postgres"));
    cluster.expect_crash();
    cluster.stop(Mode::Fast);
    assert_eq!(segments_of(size), 0, "pieces of {size} bytes are left in /dev/shm");
    cluster.start();
    cluster.finish();
}
