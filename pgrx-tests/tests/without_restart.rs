//! From PostgreSQL 17 on, hilo needs no restart of the server: its memory comes with the first call, or with the sessions
//! that load the library when they begin. What only a library in all sessions can do is refused until it is.

use std::fs;
use std::path::Path;

use hilo_tests::extension::install_library;
use hilo_tests::{
    Builder, Client, ClientExt, Cluster, LONG, Load, Mode, SERVER, Source, assert_unique,
    wait_until,
};

/// A server that does not know of hilo, with the extension created; `None`: it needs a restart for it.
fn unprepared() -> Option<Cluster> {
    unprepared_with(Cluster::builder())
}

fn unprepared_with(builder: Builder) -> Option<Cluster> {
    let cluster = builder.preload(false).start();
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

/// A cluster that loads hilo in all sessions of database `postgres`, with tables `owner` and `always`, whose columns
/// depend on that, and table `t`, whose columns do not. `None`: it needs a restart.
fn with_dependent_columns() -> Option<Cluster> {
    let cluster = unprepared()?;
    cluster
        .connect("postgres")
        .run("ALTER DATABASE postgres SET session_preload_libraries = 'hilo'");
    cluster.connect("postgres").run(
        "CREATE TABLE owner (id bigserial PRIMARY KEY);
         CREATE TABLE always (id bigint GENERATED ALWAYS AS IDENTITY);
         CREATE TABLE t (id integer PRIMARY KEY);
         SELECT hilo_adopt('owner', 'id'), hilo_adopt('always', 'id')",
    );
    Some(cluster)
}

/// Statements of all kinds that drop a relation, or replace one by another.
const DROPS: [&str; 8] = [
    "CREATE TABLE other (id integer, gone integer); ALTER TABLE other DROP gone; DROP TABLE other",
    "BEGIN; CREATE TEMP TABLE temporary (id integer) ON COMMIT DROP; COMMIT",
    "CREATE TEMP TABLE temporary (id integer); DROP TABLE temporary",
    "VACUUM FULL t",
    "CLUSTER t USING t_pkey",
    "ALTER TABLE t ALTER id TYPE bigint; ALTER TABLE t ALTER id TYPE integer",
    "CREATE MATERIALIZED VIEW m AS SELECT 1 AS one; REFRESH MATERIALIZED VIEW m; DROP MATERIALIZED VIEW m",
    "TRUNCATE t RESTART IDENTITY; ALTER TABLE t OWNER TO CURRENT_USER",
];

/// After the files of another version were installed, new sessions load its library, which may have another idea of the
/// memory. It is refused until the server restarts, and those who have the older library continue. What has nothing to do
/// with hilo's sequences goes on in every session.
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

/// A session that has loaded hilo makes no memory for what has nothing to do with it, whether the database has the
/// extension or not.
#[test]
fn memory_is_made_for_hilo_only() {
    let builder = Cluster::builder().config("dynamic_shared_memory_type", "mmap");
    let Some(cluster) = unprepared_with(builder) else { return };
    cluster.configure("session_preload_libraries", "hilo");
    cluster.restart();
    let segments = || {
        let files = fs::read_dir(cluster.data_directory().join("pg_dynshmem")).unwrap();
        files.map(|file| file.unwrap().metadata().map_or(0, |file| file.len())).max().unwrap_or(0)
    };
    cluster.connect("postgres").run("CREATE DATABASE empty");
    for database in ["postgres", "empty"] {
        let mut client = cluster.connect(database);
        assert!(has_loaded(&mut client));
        client.run("CREATE TABLE t (id integer PRIMARY KEY)");
        for statements in DROPS {
            statements.split("; ").for_each(|statement| client.run(statement));
        }
        client.run("DROP EXTENSION plpgsql; CREATE EXTENSION plpgsql");
        client.run("CREATE DATABASE other");
        client.run("DROP DATABASE other");
        assert!(segments() < 4 << 20, "{database}: {} bytes", segments());
    }
    cluster.connect("postgres").run("SELECT hilo_create('s'), hilo_nextval('s')");
    assert!(segments() > 4 << 20, "{} bytes", segments());
    cluster.finish();
}

/// Replication changes definitions in a process that draws no number. Each change reaches the sessions, also if it is
/// the first thing of hilo that its process does.
#[test]
fn what_replication_changes_reaches_memory() {
    let start = |id| unprepared_with(Cluster::builder().logical().node(id, 2));
    let (Some(publisher), Some(subscriber)) = (start(0), start(1)) else { return };
    for cluster in [&publisher, &subscriber] {
        cluster.connect("postgres").run("CREATE ROLE clerk LOGIN");
    }
    let mut there = publisher.connect("postgres");
    there.run("CREATE PUBLICATION own FOR TABLE hilo.sequence, hilo.position, hilo.privilege");
    there.run(
        "SELECT hilo_create('told', block_size => 100), hilo_nextval('told'), hilo_grant('told', 'clerk', 'USAGE')",
    );
    subscriber.subscribe("own", &publisher, "own", "");
    let mut here = subscriber.connect("postgres");
    let mut clerk = subscriber.connect_as("clerk", "postgres");
    let mut apply = |change: &str| {
        let mut admin = subscriber.connect("postgres");
        admin.run("ALTER SUBSCRIPTION own DISABLE");
        let process = "SELECT count(*) FROM pg_stat_subscription WHERE pid IS NOT NULL";
        wait_until("the process has ended", LONG, || admin.one::<i64>(process) == 0);
        there.run(change);
        admin.run("ALTER SUBSCRIPTION own ENABLE");
        publisher.wait_for_apply("own");
    };
    for client in [&mut here, &mut clerk] {
        client.draw("told", 1);
        assert!(!client.one::<String>("SELECT hilo_nextkey('told')").starts_with('T'));
    }
    apply("SELECT hilo_revoke('told', 'clerk', 'USAGE')");
    clerk.refusal("SELECT hilo_nextval('told')").is("42501");
    apply("SELECT hilo_grant('told', 'clerk', 'USAGE')");
    clerk.draw("told", 1);
    apply("SELECT hilo_alter('told', key_format => 'T-{value:05}', slice_size => 7)");
    for client in [&mut here, &mut clerk] {
        assert!(client.one::<String>("SELECT hilo_nextkey('told')").starts_with("T-0"));
    }
    apply("SELECT hilo_rename('told', 'renamed'), hilo_create('told')");
    for client in [&mut here, &mut clerk] {
        client.draw("renamed", 1);
    }
    clerk.refusal("SELECT hilo_nextval('told')").is("42501");
    apply("SELECT hilo_drop('renamed')");
    here.refusal("SELECT hilo_nextval('renamed')").is("42704");
    subscriber.finish();
    publisher.finish();
}

/// What hilo_check says of the setting, in this session: severity and finding.
fn judged(client: &mut Client) -> String {
    client.one(
        "SELECT coalesce(string_agg(severity || ': ' || what || ' | ' || what_to_do, ', '), 'fine') FROM hilo_check()
          WHERE object = 'setting session_preload_libraries'",
    )
}

/// A setting of a role or of the database counts before that of the server, and may be made for another library's sake.
/// Then no column can come to depend on hilo, and hilo_check says so for those that do already.
#[test]
fn a_setting_that_leaves_hilo_out() {
    let Some(cluster) = unprepared() else { return };
    let mut admin = cluster.connect("postgres");
    admin.run(
        "CREATE ROLE app; CREATE ROLE \"Other\" LOGIN SUPERUSER;
         CREATE TABLE t (id bigint); CREATE TABLE owner (id bigserial); CREATE TABLE always (id bigint GENERATED ALWAYS AS IDENTITY)",
    );
    admin.run("CREATE DATABASE shop");
    assert!(judged(&mut admin).starts_with("note: "), "{}", judged(&mut admin));
    cluster.configure("session_preload_libraries", "plpgsql, hilo");
    cluster.restart();
    let allowed = "BEGIN; SELECT hilo_adopt('owner', 'id'), hilo_adopt('always', 'id'); SELECT hilo_create('t', owned_by => 't.id'); ROLLBACK";
    let refused = [
        "SELECT hilo_adopt('owner', 'id')",
        "SELECT hilo_adopt('always', 'id')",
        "SELECT hilo_create('t', owned_by => 't.id')",
    ];
    let mut admin = cluster.connect("postgres");
    assert_eq!(judged(&mut admin), "fine");
    admin.run(allowed);
    // What is set, and for whom that leaves hilo out.
    for (set, whose) in [
        ("ROLE app SET session_preload_libraries = plpgsql", Some("ROLE app")),
        ("ROLE app IN DATABASE postgres SET session_preload_libraries = 'hilo'", None),
        ("ROLE app RESET session_preload_libraries", None),
        ("ROLE app IN DATABASE shop SET session_preload_libraries = plpgsql", None),
        ("DATABASE shop SET session_preload_libraries = plpgsql", None),
        ("ROLE ALL SET session_preload_libraries = plpgsql", Some("ROLE ALL")),
        ("DATABASE postgres SET session_preload_libraries = '$libdir/hilo'", None),
        (
            "ROLE \"Other\" IN DATABASE postgres SET session_preload_libraries = plpgsql",
            Some("ROLE \"Other\" IN DATABASE postgres"),
        ),
        ("ROLE \"Other\" IN DATABASE postgres SET session_preload_libraries = plpgsql, hilo", None),
        ("DATABASE postgres RESET session_preload_libraries", Some("ROLE ALL")),
        ("DATABASE postgres SET session_preload_libraries = plpgsql", Some("DATABASE postgres")),
        ("ROLE ALL RESET session_preload_libraries", Some("DATABASE postgres")),
        ("DATABASE postgres RESET session_preload_libraries", None),
    ] {
        admin.run(&format!("ALTER {set}"));
        let mut fresh = cluster.connect("postgres");
        match whose {
            None => {
                assert_eq!(judged(&mut fresh), "fine", "{set}");
                fresh.run(allowed);
            }
            Some(whose) => {
                for call in refused {
                    fresh
                        .refusal(call)
                        .is("55000")
                        .says("must be loaded in all sessions")
                        .details(&format!("{whose} SET session_preload_libraries"))
                        .hints(&format!("ALTER {whose} SET session_preload_libraries = 'hilo'"));
                }
                let said = judged(&mut fresh);
                assert!(said.starts_with("note: ") && said.contains(whose), "{set}: {said}");
                assert!(said.contains("cannot own sequences"), "{set}: {said}");
            }
        }
    }
    // A role that has hilo in a setting of its own hides what others have, unless that is set for the database.
    let mut other = cluster.connect_as("Other", "postgres");
    other.run("SET ROLE postgres");
    other.refusal(refused[0]).is("55000").hints("session_preload_libraries");
    assert!(judged(&mut other).starts_with("note: "), "{}", judged(&mut other));
    admin.run("ALTER DATABASE postgres SET session_preload_libraries = hilo");
    other.run(allowed);
    assert_eq!(judged(&mut other), "fine");
    cluster.finish();
}

/// Columns that depend on hilo while somebody does not load it: hilo_check says how bad that is. What such a session has
/// left behind, it finds too.
#[test]
fn columns_that_depend_on_hilo_while_somebody_does_not_load_it() {
    let Some(cluster) = with_dependent_columns() else { return };
    let mut admin = cluster.connect("postgres");
    assert_eq!(judged(&mut admin), "fine");
    admin.run(
        "CREATE ROLE app LOGIN SUPERUSER; ALTER ROLE app SET session_preload_libraries = plpgsql",
    );
    let said = judged(&mut admin);
    assert!(said.starts_with("error: ") && said.contains("GENERATED ALWAYS"), "{said}");
    assert!(said.contains("ALTER ROLE app SET session_preload_libraries = 'hilo'"), "{said}");
    // So does a background worker, which processes no such setting.
    let mut app = cluster.connect_as("app", "postgres");
    app.run("INSERT INTO always VALUES (7)");
    app.run("DROP TABLE always");
    let said = judged(&mut admin);
    assert!(said.starts_with("warning: ") && said.contains("own"), "{said}");
    assert!(!said.contains("cannot own"), "{said}");
    app.run("DROP TABLE owner");
    let left: String =
        admin.one("SELECT what FROM hilo_check() WHERE object = 'sequences' AND severity = 'note'");
    assert!(left.contains("\"owner_id_seq\"") && left.contains("\"always_id_seq\""), "{left}");
    assert!(judged(&mut admin).starts_with("note: "), "{}", judged(&mut admin));
    admin.run("ALTER ROLE app RESET session_preload_libraries");
    assert_eq!(judged(&mut admin), "fine");
    admin.run("CREATE TABLE again (id bigserial)");
    admin.run("SELECT hilo_adopt('again', 'id')");
    admin.run("ALTER DATABASE postgres RESET session_preload_libraries");
    let mut fresh = cluster.connect("postgres");
    for client in [&mut admin, &mut fresh] {
        let said = judged(client);
        assert!(said.starts_with("warning: ") && !said.contains("cannot own"), "{said}");
        client.refusal("SELECT hilo_create('t', owned_by => 't.id')").is("55000");
    }
    cluster.finish();
}

/// Background workers do not load what sessions load, such as the one that applies a subscription's changes and here
/// runs a trigger: it drops a table and leaves its sequence behind, unless it loads hilo first.
#[test]
fn a_background_worker_has_to_load_hilo_itself() {
    let Some(publisher) = unprepared_with(Cluster::builder().logical()) else { return };
    let Some(subscriber) = with_dependent_columns() else { return };
    let mut there = publisher.connect("postgres");
    there.run("CREATE TABLE job (command text); CREATE PUBLICATION jobs FOR TABLE job");
    let mut here = subscriber.connect("postgres");
    here.run(
        "CREATE TABLE job (command text);
         CREATE FUNCTION run() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN EXECUTE NEW.command; RETURN NEW; END';
         CREATE TRIGGER run BEFORE INSERT ON job FOR EACH ROW EXECUTE FUNCTION run();
         ALTER TABLE job ENABLE ALWAYS TRIGGER run",
    );
    subscriber.subscribe("jobs", &publisher, "jobs", "");
    let mut sequences = |job: &str| -> String {
        there.run(&format!("INSERT INTO job VALUES ('{job}')"));
        publisher.wait_for_apply("jobs");
        here.one("SELECT coalesce(string_agg(name, ' ' ORDER BY name), '') FROM hilo_sequences")
    };
    assert_eq!(sequences("DROP TABLE public.owner"), "always_id_seq owner_id_seq");
    assert_eq!(sequences("LOAD ''hilo''; DROP TABLE public.always"), "owner_id_seq");
    subscriber.finish();
    publisher.finish();
}

/// REASSIGN OWNED and DROP OWNED pass over hilo's sequences in a session that has not loaded hilo. The role cannot be dropped
/// until a session that has does it.
#[test]
fn a_roles_belongings_wait_for_a_session_that_has_loaded_hilo() {
    let Some(cluster) = unprepared() else { return };
    let mut client = cluster.connect("postgres");
    client.run(
        "CREATE ROLE app; CREATE ROLE gone; CREATE ROLE heir;
         SELECT hilo_create('s'), hilo_set_owner('s', 'app'), hilo_create('t'), hilo_set_owner('t', 'gone');
         SELECT hilo_grant('s', 'gone', 'USAGE')",
    );
    client.run("CREATE DATABASE shop");
    let owners = "SELECT string_agg(owner, ' ' ORDER BY name) FROM hilo_sequences";
    let mut stranger = cluster.connect("postgres");
    stranger.run("REASSIGN OWNED BY app TO heir; DROP OWNED BY gone");
    assert!(!has_loaded(&mut stranger));
    assert_eq!(client.one::<String>(owners), "app gone");
    for role in ["app", "gone"] {
        stranger.refusal(&format!("DROP ROLE {role}")).is("2BP01").details("type hilo.role");
    }
    stranger.run("LOAD 'hilo'; REASSIGN OWNED BY app TO heir; DROP ROLE app");
    stranger.run("DROP OWNED BY gone");
    assert_eq!(client.one::<String>(owners), "heir");
    cluster.connect("shop").run("DROP ROLE gone");
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
