//! Which role may do what: each way to have rights on a sequence, with each function and view. And
//! how changes of roles and rights affect a session that has been drawing for a long time.
//!
//! If core has the same for its sequences, one of core's is tested beside ours with the same grants.

use std::thread;

use hilo_tests::{Client, ClientExt, Cluster, LONG, wait_until};

const USAGE: u8 = 1;
const SELECT: u8 = 2;
const UPDATE: u8 = 4;
const OWNER: u8 = 8;
const SUPERUSER: u8 = 16;
/// Sees what views show, and nothing else.
const STATS: u8 = 32;
const ANY: u8 = USAGE | SELECT | UPDATE;

/// Who comes, how they came to their rights, and what these amount to.
const ACTORS: [(&str, &str, u8); 19] = [
    ("nothing", "", 0),
    ("has_usage", "GRANT USAGE ON {s} TO has_usage", USAGE),
    ("has_select", "GRANT SELECT ON {s} TO has_select", SELECT),
    ("has_update", "GRANT UPDATE ON {s} TO has_update", UPDATE),
    ("has_all", "GRANT ALL ON {s} TO has_all", ANY),
    ("by_public", "GRANT USAGE ON {s} TO PUBLIC", USAGE),
    ("by_public_select", "GRANT SELECT ON {s} TO PUBLIC", SELECT),
    ("by_group", "GRANT UPDATE ON {s} TO a_group", UPDATE),
    ("by_group_of_group", "GRANT USAGE ON {s} TO a_group", USAGE),
    ("by_group_not", "GRANT ALL ON {s} TO a_group", 0), // NOINHERIT
    ("had_usage", "GRANT ALL ON {s} TO had_usage; REVOKE ALL ON {s} FROM had_usage", 0),
    (
        "had_update",
        "GRANT ALL ON {s} TO had_update; REVOKE UPDATE ON {s} FROM had_update",
        USAGE | SELECT,
    ),
    ("keeper", "", OWNER | ANY),
    ("by_owner", "", OWNER | ANY), // a member of the owner
    ("by_owner_not", "", 0),       // NOINHERIT
    ("boss", "", SUPERUSER | OWNER | ANY),
    ("reader", "", SELECT), // pg_read_all_data
    ("writer", "", UPDATE), // pg_write_all_data
    ("watcher", "", STATS), // pg_read_all_stats
];

/// The statement, on core's sequence where it has that, on ours, and what of the rights it takes.
/// `{s}` is the sequence; a SELECT that finds no row, or false, is a refusal.
const ACTIONS: [(Option<&str>, &str, u8); 28] = [
    (Some("SELECT nextval('{s}')"), "SELECT hilo_nextval('{s}')", USAGE | UPDATE),
    (Some("SELECT currval('{s}')"), "SELECT hilo_currval('{s}')", USAGE | SELECT),
    (Some("SELECT lastval()"), "SELECT hilo_lastval()", USAGE | SELECT),
    (Some("SELECT setval('{s}', 500)"), "SELECT hilo_setval('{s}', 500)", UPDATE),
    (
        Some("SELECT 1 FROM information_schema.sequences WHERE sequence_name = '{name}'"),
        "SELECT 1 FROM hilo_sequences WHERE name = '{s}'",
        ANY | STATS,
    ),
    (Some("ALTER SEQUENCE {s} INCREMENT 3"), "SELECT hilo_alter('{s}', increment => 3)", OWNER),
    (
        Some("ALTER SEQUENCE {s} RESTART WITH 7"),
        "SELECT hilo_alter('{s}', restart_with => 7)",
        OWNER,
    ),
    (Some("ALTER SEQUENCE {s} RENAME TO other"), "SELECT hilo_rename('{s}', 'other')", OWNER),
    (Some("DROP SEQUENCE {s}"), "SELECT hilo_drop('{s}')", OWNER),
    (Some("ALTER SEQUENCE {s} OWNER TO boss"), "SELECT hilo_set_owner('{s}', 'boss')", SUPERUSER),
    (None, "SELECT hilo_nextvals('{s}', 3)", USAGE | UPDATE),
    (None, "SELECT hilo_nextrange('{s}', 3)", UPDATE),
    (None, "SELECT hilo_next_hi('{s}')", UPDATE),
    (None, "SELECT hilo_nextkey('{s}')", USAGE | UPDATE),
    (None, "SELECT hilo_key('{s}', 5)", USAGE | SELECT),
    (None, "SELECT hilo_key_value('{s}', '{s}/5')", USAGE | SELECT),
    (None, "SELECT hilo_grant('{s}', 'watcher', 'USAGE')", OWNER),
    (None, "SELECT hilo_revoke('{s}', 'has_usage', 'USAGE')", OWNER),
    (None, "SELECT 1 FROM hilo_find_gaps('{s}', 'numbers', 'n') HAVING count(*) >= 0", ANY),
    (None, "SELECT hilo_stat_reset('{s}')", OWNER),
    (None, "SELECT hilo_stat_reset()", SUPERUSER),
    (None, "SELECT 1 FROM hilo_stat_sequences WHERE name = '{s}'", ANY | STATS),
    (None, "SELECT 1 FROM hilo_stat_rates WHERE name = '{s}'", ANY | STATS),
    (None, "SELECT 1 FROM hilo_stat_backends WHERE name = '{s}'", ANY | STATS),
    (None, "SELECT 1 FROM hilo_blocks WHERE name = '{s}'", ANY | STATS),
    (None, "SELECT 1 FROM hilo_gaps WHERE name = '{s}'", ANY | STATS),
    (None, "SELECT 1 FROM hilo_check() HAVING count(*) >= 0", u8::MAX),
    (None, "SELECT 1 WHERE hilo_report() LIKE '%<bdi>{s}</bdi>%'", ANY | STATS),
];

/// The roles of [`ACTORS`], the sequences `core.s_…` and `s_…` for each, drawn from, with a gap.
fn stage() -> (Cluster, Client) {
    let cluster = Cluster::with_hilo();
    let mut admin = cluster.connect("postgres");
    for (name, ..) in ACTORS {
        admin.run(&format!("CREATE ROLE {name} LOGIN"));
    }
    admin.run(
        "CREATE ROLE a_group; CREATE ROLE b_group; GRANT a_group TO by_group, by_group_not, b_group;
         GRANT b_group TO by_group_of_group; GRANT keeper TO by_owner, by_owner_not;
         ALTER ROLE by_group_not NOINHERIT; ALTER ROLE by_owner_not NOINHERIT; ALTER ROLE boss SUPERUSER;
         GRANT pg_read_all_data TO reader; GRANT pg_write_all_data TO writer; GRANT pg_read_all_stats TO watcher;
         CREATE TABLE numbers (n bigint); GRANT SELECT ON numbers TO PUBLIC;
         CREATE SCHEMA core; GRANT ALL ON SCHEMA core, public TO PUBLIC; GRANT INSERT ON hilo_sequences TO PUBLIC",
    );
    // NOINHERIT of the role stands for the membership; from 16 on it is the membership's own.
    if admin.one::<i32>("SELECT current_setting('server_version_num')::int") >= 160_000 {
        admin.run(
            "GRANT a_group TO by_group_not WITH INHERIT FALSE; GRANT keeper TO by_owner_not WITH INHERIT FALSE",
        );
    }
    (cluster, admin)
}

/// Our statements for core's GRANT and REVOKE.
fn translate(grants: &str, sequence: &str) -> String {
    let mut ours = String::new();
    for statement in grants.split(';').filter(|statement| !statement.trim().is_empty()) {
        let words: Vec<&str> = statement.split_whitespace().collect();
        let [verb, privilege, _, _, _, grantee] = words[..] else { panic!("{statement}") };
        ours += &format!(
            "SELECT hilo_{}('{sequence}', '{grantee}', '{privilege}');",
            verb.to_lowercase()
        );
    }
    ours
}

/// Whether the statement is allowed; rolled back. Any failure but that of privileges fails the test.
#[track_caller]
fn is_allowed(client: &mut Client, sql: &str) -> bool {
    client.run("BEGIN");
    let outcome = client.simple_query(sql);
    client.run("ROLLBACK");
    match outcome {
        Ok(messages) => {
            let rows = messages
                .iter()
                .filter(|message| matches!(message, hilo_tests::SimpleQueryMessage::Row(_)));
            !sql.starts_with("SELECT") || rows.count() > 0
        }
        Err(error) => {
            assert_eq!(error.code().expect("a report").code(), "42501", "{sql}: {error:?}");
            false
        }
    }
}

/// Each actor, each action: as the table says, and as core does.
#[test]
fn every_right_against_every_function() {
    let (cluster, mut admin) = stage();
    let mut wrong = String::new();
    // Keeps a slice of each, for the views to show.
    let mut holder = cluster.connect("postgres");
    for (actor, grants, rights) in ACTORS {
        let (core, ours) = (format!("core.s_{actor}"), format!("s_{actor}"));
        let on_core = grants.replace("{s}", &format!("SEQUENCE {core}"));
        admin.meddle(&format!(
            "SET ROLE keeper; CREATE SEQUENCE {core}; {on_core}; SELECT hilo_create('{ours}', block_size => 50);
             {} RESET ROLE;
             INSERT INTO _hilo.hilo_gap SELECT id, 0, 1, 1, 1, 1, 1, 'crash', now() FROM _hilo.hilo_definition WHERE name = '{ours}'",
            translate(grants, &ours)
        ));
        holder.run(&format!("SELECT hilo_nextvals('{ours}', 20) LIMIT 5"));
        let mut client = cluster.connect("postgres");
        client.run(&format!(
            "SELECT nextval('{core}'), hilo_nextvals('{ours}', 5); SET SESSION AUTHORIZATION {actor}"
        ));
        for (on_core, on_ours, needs) in ACTIONS {
            let expected = rights & needs != 0 || needs == u8::MAX;
            let sql = on_ours.replace("{s}", &ours);
            let allowed = is_allowed(&mut client, &sql);
            if allowed != expected {
                wrong += &format!("{actor}: {sql}: allowed {allowed}\n");
            }
            // Core has no such role for the rows of its views.
            let Some(on_core) = on_core.filter(|_| rights != STATS) else { continue };
            let sql = on_core.replace("{s}", &core).replace("{name}", &ours);
            if is_allowed(&mut client, &sql) != allowed {
                wrong += &format!("{actor}: core's {sql}: allowed {}\n", !allowed);
            }
        }
    }
    assert!(wrong.is_empty(), "\n{wrong}");
    cluster.finish();
}

/// A sequence that the role `allowed` may draw from and the role `other` may not.
fn two_roles() -> (Cluster, Client) {
    let cluster = Cluster::with_hilo();
    let mut admin = cluster.connect("postgres");
    admin.run(
        "CREATE ROLE allowed LOGIN; CREATE ROLE other LOGIN; CREATE ROLE keeper;
         SELECT hilo_create('orders'); SELECT hilo_set_owner('orders', 'keeper');
         SELECT hilo_grant('orders', 'allowed', 'USAGE')",
    );
    (cluster, admin)
}

/// The same statement, also a prepared one with a generic plan, asks for the rights of whoever is the
/// user when it runs.
#[test]
fn the_user_of_now() {
    let (cluster, _admin) = two_roles();
    let mut client = cluster.connect("postgres");
    client.run("SET plan_cache_mode = force_generic_plan");
    let draw = client.prepare("SELECT hilo_nextval('orders')").unwrap();
    client.run(
        "CREATE FUNCTION draw() RETURNS bigint LANGUAGE plpgsql AS $$ BEGIN RETURN hilo_nextval('orders'); END $$",
    );
    let mut drawn = Vec::new();
    for (switch, may) in [
        ("SET ROLE allowed", true),
        ("SET ROLE other", false),
        ("RESET ROLE", true),
        ("SET SESSION AUTHORIZATION other", false),
        ("RESET SESSION AUTHORIZATION", true),
        ("SET SESSION AUTHORIZATION allowed", true),
        ("RESET SESSION AUTHORIZATION; SET ROLE other", false),
        ("BEGIN; SET LOCAL ROLE allowed", true),
        ("ROLLBACK", false),
        ("BEGIN; SAVEPOINT s; SET ROLE allowed; ROLLBACK TO s; COMMIT", false),
        ("SET ROLE allowed; DISCARD PLANS", true),
    ] {
        client.run(switch);
        for _ in 0..3 {
            let outcomes = [client.query_one(&draw, &[]), client.query_one("SELECT draw()", &[])];
            for outcome in outcomes {
                match outcome {
                    Ok(ref row) => drawn.push(row.get::<_, i64>(0)),
                    Err(ref error) => {
                        assert_eq!(error.code().unwrap().code(), "42501", "{error:?}")
                    }
                }
                assert_eq!(outcome.is_ok(), may, "after {switch}");
            }
        }
    }
    assert!(drawn.is_sorted_by(|a, b| a < b), "{drawn:?}");
    cluster.finish();
}

/// A privilege that another session revokes is gone from the moment that its commit returns, and
/// within a statement under way.
#[test]
fn revoked_by_another_session() {
    let (cluster, mut admin) = two_roles();
    let mut client = cluster.connect_as("allowed", "postgres");
    for _ in 0..20 {
        client.run("SELECT hilo_nextval('orders'), hilo_currval('orders')");
        admin.run("BEGIN; SELECT hilo_revoke('orders', 'allowed', 'USAGE')");
        client.run("SELECT hilo_nextval('orders')");
        admin.run("COMMIT");
        client.refusal("SELECT hilo_nextval('orders')").is("42501");
        client.refusal("SELECT hilo_currval('orders')").is("42501");
        client.refusal("SELECT hilo_lastval()").is("42501");
        admin.run("SELECT hilo_grant('orders', 'allowed', 'USAGE')");
    }
    let pid = client.backend_pid();
    let drawing = thread::spawn(move || {
        client
            .simple_query(
                "SELECT hilo_nextval('orders'), pg_sleep(0.001) FROM generate_series(1, 1000000)",
            )
            .unwrap_err()
    });
    let active = format!(
        "SELECT count(*) FROM pg_stat_activity WHERE pid = {pid} AND wait_event = 'PgSleep'"
    );
    wait_until("the session draws", LONG, || admin.one::<i64>(&active) == 1);
    admin.run("SELECT hilo_revoke('orders', 'allowed', 'USAGE')");
    let error = drawing.join().unwrap();
    assert_eq!(error.code().unwrap().code(), "42501", "{error:?}");
    cluster.finish();
}

/// A membership ends, a role becomes a superuser or stops being one, or a role is dropped and
/// created again under its name.
#[test]
fn roles_that_change() {
    let (cluster, mut admin) = two_roles();
    let mut other = cluster.connect_as("other", "postgres");
    let draw = "SELECT hilo_nextval('orders')";
    for (change, back) in [
        ("GRANT allowed TO other", "REVOKE allowed FROM other"),
        ("GRANT keeper TO other", "REVOKE keeper FROM other"),
        ("ALTER ROLE other SUPERUSER", "ALTER ROLE other NOSUPERUSER"),
        ("GRANT pg_write_all_data TO other", "REVOKE pg_write_all_data FROM other"),
        ("SELECT hilo_set_owner('orders', 'other')", "SELECT hilo_set_owner('orders', 'keeper')"),
        (
            "SELECT hilo_grant('orders', 'public', 'UPDATE')",
            "SELECT hilo_revoke('orders', 'PUBLIC', 'UPDATE')",
        ),
    ] {
        other.refusal(draw).is("42501");
        admin.run(change);
        other.run(draw);
        other.run(draw);
        admin.run(back);
    }
    other.refusal(draw).is("42501");
    let mut allowed = cluster.connect_as("allowed", "postgres");
    allowed.run(draw);
    admin.run("DROP OWNED BY allowed; DROP ROLE allowed; CREATE ROLE allowed LOGIN");
    allowed.refusal(draw).is("42501");
    cluster.connect_as("allowed", "postgres").refusal(draw).is("42501");
    cluster.finish();
}

/// In a SECURITY DEFINER function its owner's rights hold, and outside of it the caller's. One call
/// site is reached both ways in turn within one statement.
#[test]
fn inside_and_outside_of_security_definer() {
    let (cluster, mut admin) = two_roles();
    admin.run(
        "CREATE FUNCTION site() RETURNS bigint LANGUAGE plpgsql AS $$ BEGIN RETURN hilo_nextval('orders'); END $$;
         CREATE FUNCTION inside() RETURNS bigint LANGUAGE plpgsql SECURITY DEFINER AS $$ BEGIN RETURN site(); END $$;
         GRANT CREATE ON SCHEMA public TO keeper; GRANT INSERT ON hilo_sequences TO keeper; ALTER FUNCTION inside() OWNER TO keeper;
         CREATE FUNCTION alternate() RETURNS int LANGUAGE plpgsql AS $$
         DECLARE last bigint := 0; next bigint; refused int := 0;
         BEGIN
             FOR n IN 1..50 LOOP
                 next := inside();
                 IF next <= last THEN RAISE EXCEPTION '% after %', next, last; END IF;
                 last := next;
                 BEGIN
                     next := site();
                     RAISE EXCEPTION 'not refused';
                 EXCEPTION WHEN insufficient_privilege THEN refused := refused + 1;
                 END;
             END LOOP;
             RETURN refused;
         END $$",
    );
    let mut other = cluster.connect_as("other", "postgres");
    assert_eq!(other.one::<i32>("SELECT alternate()"), 50);
    other.refusal("SELECT inside(), site()").is("42501");
    other.refusal("SELECT hilo_currval('orders')").is("42501");
    assert_eq!(
        other.one::<i64>("SELECT count(DISTINCT inside()) FROM generate_series(1, 100)"),
        100
    );
    // The other way round: what the caller may, the function's owner may not.
    admin.run(
        "CREATE FUNCTION narrow() RETURNS bigint LANGUAGE sql SECURITY DEFINER AS 'SELECT site()';
         GRANT CREATE ON SCHEMA public TO other; GRANT INSERT ON hilo_sequences TO other; ALTER FUNCTION narrow() OWNER TO other",
    );
    let mut allowed = cluster.connect_as("allowed", "postgres");
    for _ in 0..3 {
        allowed.run("SELECT site()");
        allowed.refusal("SELECT narrow()").is("42501");
    }
    cluster.finish();
}
