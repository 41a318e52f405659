//! Sessions that do not load hilo: what depends on all of them is refused, or found by hilo_check.

use hilo_tests::{Client, ClientExt, Cluster};

use super::{bare_server, bare_server_with, has_loaded, with_dependent_columns};

/// A column depends on a sequence only if every session of its database heeds that: not the sessions of one role, nor this
/// session alone.
#[test]
fn a_column_depends_on_hilo_only_if_all_sessions_load_it() {
    let Some(cluster) = bare_server() else { return };
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

/// The words of hilo_check of the setting, in this session: severity and finding.
fn judge(client: &mut Client) -> String {
    client.one(
        "SELECT coalesce(string_agg(severity || ': ' || what || ' | ' || what_to_do, ', '), 'fine') FROM hilo_check()
          WHERE object = 'setting session_preload_libraries'",
    )
}

/// A setting of a role or of the database counts before that of the server, and may be made for another library's sake.
/// Then no column can come to depend on hilo, and hilo_check says so for those that do already.
#[test]
fn a_setting_that_leaves_hilo_out() {
    let Some(cluster) = bare_server() else { return };
    let mut admin = cluster.connect("postgres");
    admin.run(
        "CREATE ROLE app; CREATE ROLE \"Other\" LOGIN SUPERUSER;
         CREATE TABLE t (id bigint); CREATE TABLE owner (id bigserial); CREATE TABLE always (id bigint GENERATED ALWAYS AS IDENTITY)",
    );
    admin.run("CREATE DATABASE shop");
    assert!(judge(&mut admin).starts_with("note: "), "{}", judge(&mut admin));
    cluster.configure("session_preload_libraries", "plpgsql, hilo");
    cluster.restart();
    let allowed = "BEGIN; SELECT hilo_adopt('owner', 'id'), hilo_adopt('always', 'id'); SELECT hilo_create('t', owned_by => 't.id'); ROLLBACK";
    let refused = [
        "SELECT hilo_adopt('owner', 'id')",
        "SELECT hilo_adopt('always', 'id')",
        "SELECT hilo_create('t', owned_by => 't.id')",
    ];
    let mut admin = cluster.connect("postgres");
    assert_eq!(judge(&mut admin), "fine");
    admin.run(allowed);
    // A setting, and for whom it leaves hilo out.
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
                assert_eq!(judge(&mut fresh), "fine", "{set}");
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
                let said = judge(&mut fresh);
                assert!(said.starts_with("note: ") && said.contains(whose), "{set}: {said}");
                assert!(said.contains("cannot own sequences"), "{set}: {said}");
            }
        }
    }
    // A role that has hilo in a setting of its own hides what others have, unless that is set for the database.
    let mut other = cluster.connect_as("Other", "postgres");
    other.run("SET ROLE postgres");
    other.refusal(refused[0]).is("55000").hints("session_preload_libraries");
    assert!(judge(&mut other).starts_with("note: "), "{}", judge(&mut other));
    admin.run("ALTER DATABASE postgres SET session_preload_libraries = hilo");
    other.run(allowed);
    assert_eq!(judge(&mut other), "fine");
    cluster.finish();
}

/// Columns that depend on hilo while somebody does not load it: hilo_check says how bad that is. It
/// also finds objects that such a session has left behind.
#[test]
fn columns_that_depend_on_hilo_while_somebody_does_not_load_it() {
    let Some(cluster) = with_dependent_columns() else { return };
    let mut admin = cluster.connect("postgres");
    assert_eq!(judge(&mut admin), "fine");
    admin.run(
        "CREATE ROLE app LOGIN SUPERUSER; ALTER ROLE app SET session_preload_libraries = plpgsql",
    );
    let said = judge(&mut admin);
    assert!(said.starts_with("error: ") && said.contains("GENERATED ALWAYS"), "{said}");
    assert!(said.contains("ALTER ROLE app SET session_preload_libraries = 'hilo'"), "{said}");
    // So does a background worker, which processes no such setting.
    let mut app = cluster.connect_as("app", "postgres");
    app.run("INSERT INTO always VALUES (7)");
    app.run("DROP TABLE always");
    let said = judge(&mut admin);
    assert!(said.starts_with("warning: ") && said.contains("own"), "{said}");
    assert!(!said.contains("cannot own"), "{said}");
    app.run("DROP TABLE owner");
    let left: String =
        admin.one("SELECT what FROM hilo_check() WHERE object = 'sequences' AND severity = 'note'");
    assert!(left.contains("\"owner_id_seq\"") && left.contains("\"always_id_seq\""), "{left}");
    assert!(judge(&mut admin).starts_with("note: "), "{}", judge(&mut admin));
    admin.run("ALTER ROLE app RESET session_preload_libraries");
    assert_eq!(judge(&mut admin), "fine");
    admin.run("CREATE TABLE again (id bigserial)");
    admin.run("SELECT hilo_adopt('again', 'id')");
    admin.run("ALTER DATABASE postgres RESET session_preload_libraries");
    let mut fresh = cluster.connect("postgres");
    for client in [&mut admin, &mut fresh] {
        let said = judge(client);
        assert!(said.starts_with("warning: ") && !said.contains("cannot own"), "{said}");
        client.refusal("SELECT hilo_create('t', owned_by => 't.id')").is("55000");
    }
    cluster.finish();
}

/// Background workers do not load what sessions load, such as the one that applies a subscription's
/// changes and here runs a trigger. It drops a table and leaves its sequence behind, unless it
/// loads hilo first.
#[test]
fn a_background_worker_has_to_load_hilo_itself() {
    let Some(publisher) = bare_server_with(Cluster::builder().logical()) else { return };
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
    let Some(cluster) = bare_server() else { return };
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
        stranger.refusal(&format!("DROP ROLE {role}")).is("2BP01").details("type _hilo.hilo_role");
    }
    stranger.run("LOAD 'hilo'; REASSIGN OWNED BY app TO heir; DROP ROLE app");
    stranger.run("DROP OWNED BY gone");
    assert_eq!(client.one::<String>(owners), "heir");
    cluster.connect("shop").run("DROP ROLE gone");
    cluster.finish();
}
