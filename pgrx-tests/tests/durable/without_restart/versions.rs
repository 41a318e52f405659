//! The files of another version come while the server runs. A session with the older library goes
//! on, and nothing begins with the newer one before the restart.

use hilo_tests::extension::install_library;
use hilo_tests::{Client, ClientExt, LONG, wait_until};

use super::{DROPS, bare_server, with_dependent_columns};

/// After the files of another version were installed, new sessions load its library, which may have another idea of the
/// memory. It is refused until the server restarts, and those who have the older library continue.
/// Work that has nothing to do with hilo's sequences goes on in every session.
#[test]
fn another_version_waits_for_a_restart() {
    let Some(cluster) = with_dependent_columns() else { return };
    install_library("hilo_next.so", "hilo memory of ", "99.9");
    let mut old = cluster.connect("postgres");
    old.run("SELECT hilo_create('s')");
    assert_eq!(old.draw("s", 1), [1]);
    old.run("ALTER DATABASE postgres SET session_preload_libraries = 'hilo_next'");
    let mut new = cluster.connect("postgres");
    new.run("CREATE FUNCTION next_version(text) RETURNS bigint LANGUAGE c AS '$libdir/hilo_next', 'hilo_nextval_wrapper'");
    let refused = [
        "SELECT next_version('s')",
        "DROP TABLE owner",
        "ALTER TABLE owner DROP id",
        "TRUNCATE owner RESTART IDENTITY",
        "ALTER TABLE owner OWNER TO CURRENT_USER",
    ];
    for statement in refused {
        new.refusal(statement)
            .is("55000")
            .says("made by version ")
            .says("has loaded version ")
            .details("same version")
            .hints("Restart the server");
    }
    let of_others = |client: &mut Client| {
        for statements in DROPS {
            statements.split("; ").for_each(|statement| client.run(statement));
        }
    };
    of_others(&mut new);
    new.run("VACUUM FULL owner");
    for statement in ["CREATE DATABASE empty", "DROP DATABASE empty", "CREATE DATABASE empty"] {
        new.run(statement);
    }
    // Nor does a library that has come before the extension's update let go of what a column owns.
    new.run("UPDATE pg_extension SET extversion = '0.2.0' WHERE extname = 'hilo'");
    for (library, says) in [("hilo_next", "made by version "), ("hilo", "is version 0.2.0")] {
        old.run(&format!("ALTER DATABASE postgres SET session_preload_libraries = '{library}'"));
        let mut client = cluster.connect("postgres");
        for statement in &refused[1..] {
            client.refusal(statement).is("55000").says(says);
        }
        of_others(&mut client);
    }
    new.run("UPDATE pg_extension SET extversion = default_version FROM pg_available_extensions WHERE name = 'hilo' AND extname = 'hilo'");

    old.run("ALTER DATABASE empty SET session_preload_libraries = 'hilo_next'");
    let mut new = cluster.connect("empty");
    new.run("CREATE TABLE t (id integer PRIMARY KEY); DROP EXTENSION plpgsql");
    of_others(&mut new);
    assert_eq!(old.draw("s", 1), [2]);
    old.run("ALTER DATABASE postgres SET session_preload_libraries = 'hilo'");
    drop((old, new));
    cluster.restart();
    assert_eq!(cluster.connect("postgres").draw("s", 1), [3]);
    cluster.connect("postgres").run("DROP TABLE owner");
    cluster.finish();
}

/// Nor can the extension come or be updated where memory of another version is in use: it would be served from nowhere.
#[test]
fn another_version_does_not_come_before_the_restart() {
    let Some(cluster) = bare_server() else { return };
    install_library("next/hilo.so", "hilo memory of ", "99.9");
    let mut old = cluster.connect("postgres");
    old.run("SELECT hilo_create('s')");
    assert_eq!(old.draw("s", 1), [1]);
    old.run("CREATE DATABASE shop");
    // Where the server looks for a library without a path, as the scripts name it.
    let newer = "SET dynamic_library_path = '$libdir/next:$libdir'";
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
    let Some(cluster) = bare_server() else { return };
    install_library("next/hilo.so", "hilo memory of ", "99.9");
    let mut old = cluster.connect("postgres");
    old.run("SELECT hilo_create('s'); SET hilo.reserve_timeout = '2s'; SET dynamic_library_path = '$libdir'");
    // A worker's library has no path either.
    cluster.configure("dynamic_library_path", "$libdir/next");
    cluster.reload();
    old.refusal("SELECT hilo_nextval('s')")
        .is("55P03")
        .details("version 99.9")
        .hints("Restart the server");
    cluster.configure("dynamic_library_path", "$libdir");
    cluster.reload();
    wait_until("a worker with the older library has come", LONG, || {
        old.query_one("SELECT hilo_nextval('s')", &[]).is_ok()
    });
    cluster.finish();
}
