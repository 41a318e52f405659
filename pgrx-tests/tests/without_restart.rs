//! From PostgreSQL 17 on, hilo needs no restart of the server: its memory comes with the first call, or with the sessions
//! that load the library when they begin. What only a library in all sessions can do is refused until it is.

use std::path::Path;

use hilo_tests::extension::install_library;
use hilo_tests::{
    Client, ClientExt, Cluster, LONG, Load, Mode, SERVER, Source, assert_unique, wait_until,
};

/// A server that does not know of hilo, with the extension created; `None`: it needs a restart for it.
fn unprepared() -> Option<Cluster> {
    let cluster = Cluster::builder().preload(false).start();
    if cluster.version() < 17 {
        // What such a server says is in `bad_input.rs` and `messages.rs`.
        cluster.finish();
        return None;
    }
    cluster.connect("postgres").run("CREATE EXTENSION hilo");
    Some(cluster)
}

fn has_loaded(client: &mut Client) -> bool {
    // A setting of the library's is known where the library is loaded.
    client.one("SELECT count(*) = 1 FROM pg_settings WHERE name = 'hilo.max_sequences'")
}

/// The first call is all that a server needs. Sessions share what is in memory, and give back what they have not used.
#[test]
fn the_first_call_is_enough() {
    let Some(cluster) = unprepared() else { return };
    let mut one = cluster.connect("postgres");
    assert!(!has_loaded(&mut one));
    one.run("SELECT hilo_create('s')");
    let mut seen = one.draw("s", 10);
    let mut two = cluster.connect("postgres");
    seen.extend(two.draw("s", 10));
    seen.extend(one.draw("s", 10));
    assert_unique("s", &seen);
    assert!(has_loaded(&mut two));
    assert_eq!(one.one::<i64>("SELECT count(*) FROM hilo_stat_backends"), 2);
    drop((one, two));
    cluster.restart();
    let mut client = cluster.connect("postgres");
    assert_eq!(client.one::<i64>("SELECT count(*) FROM hilo_gaps"), 0);
    seen.extend(client.draw("s", 100));
    assert_unique("s", &seen);
    cluster.finish();
}

/// Crashes of all kinds under load: no value twice, as with a library that the server loads.
#[test]
fn nothing_comes_twice_after_a_crash() {
    let Some(cluster) = unprepared() else { return };
    let sources = Source::three_kinds(&cluster);
    let load = Load { reconnect: true, ..Load::sixteen_sessions(2) };
    load.run_during(&cluster, &sources, || {
        let faults: [&dyn Fn(); 3] = [
            &|| cluster.crash(cluster.wait_for_worker("postgres")),
            &|| {
                cluster.kill9_postmaster();
                cluster.start();
            },
            &|| {
                cluster.stop(Mode::Fast);
                cluster.start();
            },
        ];
        for (done, fault) in faults.iter().enumerate() {
            wait_until("another quarter has been drawn", 3 * LONG, || {
                Source::seen_of(&sources) >= load.total() * (done + 1) / 4
            });
            fault();
        }
    });
    sources.iter().for_each(Source::assert_kept);
}

/// A column depends on a sequence only if every session of its database heeds that: not the sessions of one role, nor this
/// session alone.
#[test]
fn a_column_depends_on_hilo_only_if_all_sessions_load_it() {
    let Some(cluster) = unprepared() else { return };
    let table = "CREATE TABLE t (id bigserial PRIMARY KEY);
                 CREATE TABLE a (id bigint GENERATED ALWAYS AS IDENTITY);
                 CREATE TABLE o (id bigint)";
    let mut client = cluster.connect("postgres");
    client.run(table);
    let calls = [
        "SELECT hilo_adopt('t', 'id')",
        "SELECT hilo_adopt('a', 'id')",
        "SELECT hilo_create('o', owned_by => 'o.id')",
    ];
    for set in [
        "",
        "SET session_preload_libraries = 'hilo'",
        "ALTER ROLE postgres SET session_preload_libraries = 'hilo'",
        "ALTER DATABASE postgres SET session_preload_libraries = 'hilo_or_not'",
    ] {
        if set.starts_with("SET") {
            client.run(set);
        } else if set.ends_with("'hilo'") {
            client.run(set);
            client = cluster.connect("postgres");
        }
        for call in calls {
            client
                .refusal(call)
                .is("55000")
                .says("must be loaded in all sessions")
                .hints("session_preload_libraries = 'hilo'");
        }
        client.run(
            "RESET session_preload_libraries; ALTER ROLE postgres RESET session_preload_libraries",
        );
    }
    client.run("ALTER DATABASE postgres SET session_preload_libraries = plpgsql, hilo");
    let mut client = cluster.connect("postgres");
    calls.iter().for_each(|call| client.run(call));
    // A session that has called nothing heeds them.
    let mut other = cluster.connect("postgres");
    other.refusal("INSERT INTO a VALUES (1)").is("428C9");
    other.run("TRUNCATE t RESTART IDENTITY; DROP TABLE o");
    assert_eq!(client.one::<i64>("SELECT count(*) FROM hilo_sequences WHERE name = 'o'"), 0);
    cluster.finish();
}

/// A session that has not loaded the library may drop what hilo uses: the extension, a role, a database. What comes after
/// that has nothing to do with what was in memory.
#[test]
fn drops_by_sessions_that_know_nothing_of_hilo() {
    let Some(cluster) = unprepared() else { return };
    let mut client = cluster.connect("postgres");
    client.run("CREATE ROLE app LOGIN; SELECT hilo_create('s'); SELECT hilo_set_owner('s', 'app')");
    let mut seen = client.draw("s", 10);
    wait_until("the worker has recorded the role", LONG, || {
        client.one::<i64>("SELECT count(*) FROM pg_shdepend WHERE refobjid = 'app'::regrole") > 0
    });
    let mut stranger = cluster.connect("postgres");
    stranger.refusal("DROP ROLE app").is("2BP01");
    seen.extend(client.draw("s", 10));
    assert_unique("s", &seen);
    stranger.run("DROP EXTENSION hilo CASCADE");
    assert!(!has_loaded(&mut stranger));
    client.refusal("SELECT hilo_nextval('s')").is("42883");
    stranger.run("CREATE EXTENSION hilo; SELECT hilo_create('s')");
    let mut seen = Vec::new();
    for client in [&mut client, &mut stranger, &mut cluster.connect("postgres")] {
        seen.extend(client.draw("s", 1000));
    }
    assert_unique("s", &seen);
    assert_eq!(seen.iter().min(), Some(&1));
    stranger.run("CREATE DATABASE shop");
    let mut shop = cluster.connect("shop");
    shop.run("CREATE EXTENSION hilo; SELECT hilo_create('s'); SELECT hilo_nextval('s')");
    drop(shop);
    let mut stranger = cluster.connect("postgres");
    stranger.run("DROP DATABASE shop WITH (FORCE)");
    stranger.run("CREATE DATABASE shop");
    let mut shop = cluster.connect("shop");
    shop.run("CREATE EXTENSION hilo; SELECT hilo_create('s')");
    assert_eq!(shop.draw("s", 1), [1]);
    cluster.finish();
}

/// The same with a restored extension, whose sequences have the ids that those in memory have. What memory has of the
/// former ones is neither served nor written to these.
#[test]
fn a_restore_after_a_drop_by_a_session_that_knows_nothing_of_hilo() {
    let Some(cluster) = unprepared() else { return };
    let mut client = cluster.connect("postgres");
    client.run("SELECT hilo_create('s', block_size => 1000)");
    let mut seen = client.draw("s", 10);
    let dump = cluster.pg_dump("postgres", &[]);
    let mut stranger = cluster.connect("postgres");
    stranger.run("DROP EXTENSION hilo CASCADE; DROP SCHEMA IF EXISTS hilo CASCADE");
    assert!(!has_loaded(&mut stranger));
    cluster.restore("postgres", &dump);
    let mut late = cluster.connect("postgres");
    for _ in 0..3 {
        for client in [&mut client, &mut stranger, &mut late] {
            seen.extend(client.draw("s", 500));
        }
    }
    drop((client, stranger, late));
    cluster.restart();
    seen.extend(cluster.connect("postgres").draw("s", 3000));
    assert_unique("s", &seen);
    cluster.finish();
}

/// After the files of another version were installed, new sessions load its library, which may have another idea of the
/// memory. It is refused until the server restarts, and those who have the older library continue.
#[test]
fn another_version_waits_for_a_restart() {
    let Some(cluster) = unprepared() else { return };
    install_library("hilo_next.so", "hilo memory of ", "99.9");
    let mut old = cluster.connect("postgres");
    old.run("SELECT hilo_create('s')");
    assert_eq!(old.draw("s", 1), [1]);
    old.run("CREATE TABLE t (id integer)");
    let mut new = cluster.connect("postgres");
    new.run("CREATE FUNCTION next_version(text) RETURNS bigint LANGUAGE c AS '$libdir/hilo_next', 'hilo_nextval_wrapper'");
    for statement in ["SELECT next_version('s')", "DROP TABLE t"] {
        new.refusal(statement)
            .is("55000")
            .says("made by version ")
            .says("has loaded version ")
            .details("same version")
            .hints("Restart the server");
    }
    assert_eq!(old.draw("s", 1), [2]);
    drop((old, new));
    cluster.restart();
    assert_eq!(cluster.connect("postgres").draw("s", 1), [3]);
    cluster.finish();
}

/// Nor can the extension come or be updated where memory of another version is in use: it would be served from nowhere.
#[test]
fn another_version_does_not_come_before_the_restart() {
    let Some(cluster) = unprepared() else { return };
    install_library("next/hilo.so", "hilo memory of ", "99.9");
    let mut old = cluster.connect("postgres");
    old.run("SELECT hilo_create('s')");
    assert_eq!(old.draw("s", 1), [1]);
    old.run("CREATE DATABASE shop");
    // Where the server looks for a library without a path, as the scripts name it.
    let newer = "SET dynamic_library_path = '$libdir/next'";
    let mut new = cluster.connect("shop");
    new.run(newer);
    new.refusal("CREATE EXTENSION hilo")
        .is("55000")
        .says("made by version ")
        .hints("Restart the server");
    drop((old, new));
    cluster.restart();
    let mut new = cluster.connect("shop");
    new.run(newer);
    new.run("CREATE EXTENSION hilo");
    cluster.finish();
}

/// A worker that starts after the files of another version were installed cannot serve those who have the older library.
/// They are told why.
#[test]
fn a_worker_of_another_version_is_not_waited_for_in_silence() {
    let Some(cluster) = unprepared() else { return };
    install_library("next/hilo.so", "hilo memory of ", "99.9");
    let mut old = cluster.connect("postgres");
    old.run("SELECT hilo_create('s'); SET hilo.reserve_timeout = '2s'; SET dynamic_library_path = '$libdir'");
    // A worker's library has no path either.
    cluster.configure("dynamic_library_path", "$libdir/next");
    cluster.reload();
    old.refusal("SELECT hilo_nextval('s')")
        .is("55000")
        .details("version 99.9")
        .hints("Restart the server");
    cluster.configure("dynamic_library_path", "$libdir");
    cluster.reload();
    wait_until("a worker with the older library has come", LONG, || {
        old.query_one("SELECT hilo_nextval('s')", &[]).is_ok()
    });
    cluster.finish();
}

/// Where there is no room for the memory, a smaller one is made as soon as the settings say so.
#[test]
fn less_memory_is_enough_after_there_was_no_room() {
    let Some(cluster) = unprepared_with_room_for(20_000_000) else { return };
    let mut client = cluster.connect("postgres");
    for _ in 0..2 {
        client.refusal("CREATE EXTENSION hilo").is("53200").says("shared memory segment");
    }
    cluster.configure("hilo.max_sequences", "1000");
    cluster.reload();
    let mut client = cluster.connect("postgres");
    client.run("CREATE EXTENSION hilo; SELECT hilo_create('s')");
    assert_eq!(client.draw("s", 3), [1, 2, 3]);
    assert_eq!(
        cluster.connect("postgres").one::<i64>("SELECT count(*) FROM hilo_stat_sequences"),
        1
    );
    cluster.finish();
}

/// A server without the extension, whose processes cannot make a larger file, nor a larger segment, than this.
fn unprepared_with_room_for(bytes: u64) -> Option<Cluster> {
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
