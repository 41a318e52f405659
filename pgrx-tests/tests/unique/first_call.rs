//! The first call of a session reads no table of hilo if another session has used the sequence. It goes by the name in
//! shared memory, and sees what is committed and what this transaction has defined.

use std::sync::atomic::{AtomicI64, Ordering::SeqCst};

use hilo_tests::{Client, ClientExt, Cluster, LONG, assert_unique, wait_until};

/// A role of its own for each test's sessions, which may draw by a grant.
const ROLES: &str = "CREATE ROLE app LOGIN; CREATE ROLE other LOGIN; CREATE ROLE member LOGIN";

/// Keeps every session from the tables of hilo until it ends.
fn lock_tables(cluster: &Cluster, database: &str) -> Client {
    let mut locker = cluster.connect(database);
    locker.run(
        "BEGIN; LOCK TABLE _hilo.hilo_definition, _hilo.hilo_position, _hilo.hilo_privilege, _hilo.hilo_default_privilege, _hilo.hilo_free_range",
    );
    locker
}

/// A new session, which does not wait long.
fn fresh(cluster: &Cluster, role: &str) -> Client {
    let mut client = cluster.connect_as(role, "postgres");
    client.run("SET statement_timeout = '2s'; SET hilo.reserve_timeout = '2s'");
    client
}

fn first(cluster: &Cluster, role: &str, sql: &str) -> i64 {
    fresh(cluster, role).one(sql)
}

#[test]
fn a_first_call_reads_no_table_of_hilo() {
    let cluster = Cluster::with_hilo();
    let mut admin = cluster.connect("postgres");
    admin.run(ROLES);
    admin.run(
        "SELECT hilo_create('s'), hilo_create('o', ordered => true), hilo_create('k', key_format => 'K-{value:04}'),
                hilo_create('unused'); SELECT hilo_grant('s', 'app', 'USAGE'); GRANT app TO member",
    );
    let mut seen = admin.draw("s", 10);
    admin.run("SELECT hilo_nextval('o'), hilo_nextkey('k')");
    {
        let _locker = lock_tables(&cluster, "postgres");
        for _ in 0..5 {
            seen.push(first(&cluster, "postgres", "SELECT hilo_nextval('s')"));
        }
        assert_eq!(first(&cluster, "postgres", "SELECT hilo_nextval('o')"), 2);
        assert_eq!(fresh(&cluster, "postgres").one::<String>("SELECT hilo_nextkey('k')"), "K-0002");
        // Nobody has looked up this one, and nobody has read what is granted on s.
        fresh(&cluster, "postgres").refusal("SELECT hilo_nextval('unused')").is("57014");
        fresh(&cluster, "app").refusal("SELECT hilo_nextval('s')").is("57014");
    }
    // After the first session that is not the owner's, that is in the nameplate too.
    seen.push(first(&cluster, "app", "SELECT hilo_nextval('s')"));
    let _locker = lock_tables(&cluster, "postgres");
    for role in ["app", "member", "postgres", "app"] {
        seen.push(first(&cluster, role, "SELECT hilo_nextval('s')"));
    }
    let mut app = fresh(&cluster, "app");
    seen.push(app.one("SELECT hilo_nextval('s')"));
    assert_eq!(app.one::<i64>("SELECT hilo_currval('s')"), *seen.last().unwrap());
    // The nameplate says all that the role may do; where that is nothing, the catalog decides.
    app.refusal("SELECT * FROM hilo_nextrange('s', 2)").is("42501");
    fresh(&cluster, "other").refusal("SELECT hilo_nextval('s')").is("57014");
    drop(_locker);
    fresh(&cluster, "other").refusal("SELECT hilo_nextval('s')").is("42501");
    assert_unique("s", &seen);
    cluster.finish();
}

/// Every change of a definition, of a privilege or of a role that is committed holds for the next session.
#[test]
fn a_first_call_sees_what_is_committed() {
    let cluster = Cluster::with_hilo();
    let mut admin = cluster.connect("postgres");
    admin.run(ROLES);
    admin.run("GRANT CREATE ON SCHEMA public TO app; GRANT INSERT ON hilo_sequences TO app");
    let sessions = |name: &str| {
        // Two sessions, so that the nameplate holds what was granted.
        let sql = format!("SELECT hilo_nextval('{name}')");
        [first(&cluster, "app", &sql), first(&cluster, "postgres", &sql)]
    };
    admin.run("SELECT hilo_create('s'), hilo_grant('s', 'app', 'USAGE')");
    assert_eq!(sessions("s"), [1, 2]);
    let next = "SELECT hilo_nextval('s')";
    for (change, undo) in [
        ("SELECT hilo_revoke('s', 'app', 'USAGE')", "SELECT hilo_grant('s', 'app', 'USAGE')"),
        (
            "SELECT hilo_revoke('s', 'app', 'USAGE'), hilo_grant('s', 'other', 'USAGE')",
            "GRANT other TO app",
        ),
        ("REVOKE other FROM app", "GRANT pg_write_all_data TO app"),
        ("REVOKE pg_write_all_data FROM app", "SELECT hilo_set_owner('s', 'app')"),
        ("SELECT hilo_set_owner('s', 'postgres')", "SELECT hilo_grant('s', 'public', 'ALL')"),
        ("SELECT hilo_revoke('s', 'public', 'ALL')", "ALTER ROLE app SUPERUSER"),
        ("ALTER ROLE app NOSUPERUSER", "SELECT hilo_grant('s', 'app', 'UPDATE')"),
        ("DROP OWNED BY app", "SELECT hilo_grant('s', 'app', 'USAGE')"),
    ] {
        admin.run(change);
        fresh(&cluster, "app").refusal(next).is("42501");
        first(&cluster, "postgres", next);
        fresh(&cluster, "app").refusal(next).is("42501");
        admin.run(undo);
        sessions("s");
    }
    let last = sessions("s")[1];
    admin.run("SELECT hilo_rename('s', 'renamed')");
    fresh(&cluster, "app").refusal(next).is("42704");
    assert_eq!(sessions("renamed"), [last + 1, last + 2]);
    admin.run("SELECT hilo_create('s', start_value => 500), hilo_grant('s', 'app', 'USAGE')");
    assert_eq!(sessions("s"), [500, 501]);
    assert_eq!(sessions("renamed"), [last + 3, last + 4]);
    // Two names change places.
    admin.run("BEGIN; SELECT hilo_rename('s', 'x'), hilo_rename('renamed', 's'); SELECT hilo_rename('x', 'renamed'); COMMIT");
    assert_eq!(sessions("s"), [last + 5, last + 6]);
    assert_eq!(sessions("renamed"), [502, 503]);
    admin.run("SELECT hilo_setval('s', 7000)");
    assert_eq!(sessions("s"), [7001, 7002]);
    admin.run("SELECT hilo_alter('s', restart_with => 100, increment => 10)");
    assert_eq!(sessions("s"), [100, 110]);
    admin.run("SELECT hilo_alter('s', max_value => 130)");
    assert_eq!(sessions("s"), [120, 130]);
    fresh(&cluster, "app").refusal(next).is("2200H");
    admin.run("SELECT hilo_alter('s', max_value => 1000, key_format => 'key {value}')");
    assert_eq!(fresh(&cluster, "app").one::<String>("SELECT hilo_nextkey('s')"), "key 140");
    admin.run("SELECT hilo_alter('s', key_format => 'other {value}')");
    assert_eq!(fresh(&cluster, "app").one::<String>("SELECT hilo_nextkey('s')"), "other 150");
    admin.run("SELECT hilo_drop('s')");
    fresh(&cluster, "app").refusal(next).is("42704");
    admin.run("SELECT hilo_create('s'), hilo_grant('s', 'app', 'USAGE')");
    assert_eq!(sessions("s"), [1, 2]);
    admin.run("DROP EXTENSION hilo");
    fresh(&cluster, "postgres").refusal(next).is("42883");
    admin.run("CREATE EXTENSION hilo");
    fresh(&cluster, "postgres").refusal(next).is("42704");
    admin.run("SELECT hilo_create('s', start_value => 9), hilo_grant('s', 'app', 'USAGE')");
    assert_eq!(sessions("s"), [9, 10]);
    cluster.finish();
}

/// A sequence that a transaction has changed and not committed is its own: no session goes by it,
/// and it goes by no nameplate.
#[test]
fn a_first_call_sees_nothing_that_is_not_committed() {
    let cluster = Cluster::with_hilo();
    let mut admin = cluster.connect("postgres");
    admin.run(ROLES);
    admin.run("SELECT hilo_create('s')");
    let next = "SELECT hilo_nextval('s')";
    first(&cluster, "postgres", next);
    for change in [
        "SELECT hilo_grant('s', 'app', 'USAGE')",
        "SELECT hilo_set_owner('s', 'app')",
        "GRANT pg_write_all_data TO app",
        "ALTER ROLE app SUPERUSER",
        "SET LOCAL check_function_bodies = off; INSERT INTO _hilo.hilo_privilege SELECT id, 'app', 'USAGE', 'postgres' FROM _hilo.hilo_definition",
    ] {
        let mut changing = fresh(&cluster, "postgres");
        changing.run(&format!("BEGIN; {change}; SET LOCAL ROLE app"));
        changing.run(next);
        changing.run("RESET ROLE");
        fresh(&cluster, "app").refusal(next).is("42501");
        changing.run("ROLLBACK");
        fresh(&cluster, "app").refusal(next).is("42501");
    }
    // The first call of a session comes after its own definition.
    admin.run("SELECT hilo_setval('s', 100)");
    first(&cluster, "postgres", next);
    let mut own = fresh(&cluster, "postgres");
    own.run("BEGIN; SELECT hilo_rename('s', 'renamed')");
    own.refusal(next).is("42704");
    own.run("ROLLBACK; BEGIN; SELECT hilo_setval('s', 5000)");
    assert_eq!(own.one::<i64>(next), 5001);
    own.run("ROLLBACK");
    assert_eq!(own.one::<i64>(next), 102);
    let mut own = fresh(&cluster, "postgres");
    own.run("BEGIN; SELECT hilo_alter('s', max_value => 200)");
    assert!(own.one::<i64>(next) <= 200);
    own.refusal(&format!("{next} FROM generate_series(1, 200)")).is("2200H");
    assert!(
        first(
            &cluster,
            "postgres",
            "SELECT max(id) FROM (SELECT hilo_nextval('s') AS id FROM generate_series(1, 200)) AS d"
        ) > 200
    );
    own.run("ROLLBACK");
    let mut own = fresh(&cluster, "postgres");
    own.run("BEGIN; SELECT hilo_drop('s')");
    own.refusal(next).is("42704");
    assert!(first(&cluster, "postgres", next) > 200);
    own.run("ROLLBACK; BEGIN; DROP EXTENSION hilo CASCADE");
    own.refusal("SELECT hilo_nextval('s')").is("42883");
    own.run("ROLLBACK");
    // In every isolation level the newest definition counts, as for core's sequences.
    for level in ["REPEATABLE READ", "SERIALIZABLE"] {
        let mut early = fresh(&cluster, "postgres");
        early.run(&format!("BEGIN ISOLATION LEVEL {level}; SELECT count(*) FROM pg_class"));
        admin.run("SELECT hilo_setval('s', 1000)");
        first(&cluster, "postgres", next);
        assert_eq!(early.one::<i64>(next), 1002, "{level}");
        early.run("COMMIT");
    }
    cluster.finish();
}

/// A name that has no room in a nameplate, or has lost its place to another name, is looked up as
/// ever.
#[test]
fn names_without_a_nameplate_are_served_too() {
    let cluster = Cluster::builder().config("hilo.max_sequences", "64").start_with_hilo();
    let mut admin = cluster.connect("postgres");
    admin.run(ROLES);
    let long = ["a".repeat(96), "a".repeat(97), "ä".repeat(48), "b".repeat(255)];
    for name in &long {
        admin.run(&format!("SELECT hilo_create('{name}'), hilo_grant('{name}', 'app', 'USAGE')"));
        for (at, role) in ["app", "app", "postgres", "app"].iter().enumerate() {
            let value = first(&cluster, role, &format!("SELECT hilo_nextval('{name}')"));
            assert_eq!(value, at as i64 + 1, "{name}");
        }
    }
    for length in [40, 48, 49, 200] {
        let format = format!("{}{{value}}", "x".repeat(length - 7));
        let name = format!("key {length}");
        admin.run(&format!("SELECT hilo_create('{name}', key_format => '{format}')"));
        for at in 1..4 {
            let key: String =
                fresh(&cluster, "postgres").one(&format!("SELECT hilo_nextkey('{name}')"));
            assert_eq!(key, format.replace("{value}", &at.to_string()));
        }
    }
    admin.run("SELECT hilo_create('crowd')");
    for role in 0..9 {
        admin.run(&format!("CREATE ROLE role_{role} LOGIN; SELECT hilo_grant('crowd', 'role_{role}', 'USAGE, SELECT')"));
        for other in 0..=role {
            first(&cluster, &format!("role_{other}"), "SELECT hilo_nextval('crowd')");
        }
        fresh(&cluster, "other").refusal("SELECT hilo_nextval('crowd')").is("42501");
    }
    // Twice as many places as slots; more sequences than slots, each used by many sessions.
    admin.run(
        "SELECT hilo_create('n' || n, start_value => 1000 * n) FROM generate_series(1, 100) AS n",
    );
    for round in 0..3 {
        for n in 1..=100 {
            let value = first(&cluster, "postgres", &format!("SELECT hilo_nextval('n{n}')"));
            assert_eq!(value, 1000 * n + round, "n{n}");
        }
    }
    cluster.finish();
}

/// A database that was dropped leaves no nameplate to another one with its OID, and a crash leaves none at all.
#[test]
fn nameplates_end_with_their_database_and_with_the_memory() {
    let cluster = Cluster::with_hilo();
    let mut admin = cluster.connect("postgres");
    admin.run("CREATE DATABASE shop OID = 54321");
    for start in [100, 200, 300] {
        let mut shop = cluster.connect("shop");
        shop.run(&format!(
            "CREATE EXTENSION hilo; SELECT hilo_create('s', start_value => {start})"
        ));
        assert_eq!(shop.draw("s", 2), [start, start + 1]);
        assert!((start + 2..start + 9).contains(&cluster.connect("shop").draw("s", 1)[0]));
        drop(shop);
        admin.run("DROP DATABASE shop WITH (FORCE)");
        admin.run("CREATE DATABASE shop OID = 54321");
        let mut shop = cluster.connect("shop");
        shop.run("CREATE EXTENSION hilo");
        shop.refusal("SELECT hilo_nextval('s')").is("42704");
        drop(shop);
        admin.run("DROP DATABASE shop WITH (FORCE); ");
        admin.run("CREATE DATABASE shop OID = 54321");
    }
    admin.run("SELECT hilo_create('s')");
    let mut seen = cluster.connect("postgres").draw("s", 5);
    seen.extend(cluster.connect("postgres").draw("s", 5));
    drop(admin);
    cluster.expect_crash();
    cluster.kill9_postmaster();
    cluster.start();
    let mut admin = cluster.connect("postgres");
    admin.run("SELECT hilo_rename('s', 'renamed')");
    cluster.connect("postgres").refusal("SELECT hilo_nextval('s')").is("42704");
    seen.extend(cluster.connect("postgres").draw("renamed", 5));
    seen.extend(cluster.connect("postgres").draw("renamed", 5));
    assert_unique("s", &seen);
    cluster.finish();
}

/// Sessions that come and go beside one that renames, grants and restarts. Each is served by the
/// definition that was committed before it called, or by a later one.
#[test]
fn sessions_that_come_while_definitions_change() {
    /// How often the sequence begins anew.
    const LIVES: i64 = 60;
    let cluster = Cluster::with_hilo();
    let mut admin = cluster.connect("postgres");
    admin.run(ROLES);
    admin.run("SELECT hilo_create('s', start_value => 1000000), hilo_grant('s', 'app', 'USAGE')");
    let (committed, served) = (AtomicI64::new(1), AtomicI64::new(0));
    let (cluster, committed, served) = (&cluster, &committed, &served);
    let seen: Vec<i64> = std::thread::scope(|scope| {
        let sessions: Vec<_> = ["app", "postgres", "app"]
            .into_iter()
            .map(|role| {
                scope.spawn(move || {
                    let mut seen = Vec::new();
                    while committed.load(SeqCst) < LIVES {
                        let mut client = cluster.connect_as(role, "postgres");
                        let life = committed.load(SeqCst);
                        let value: i64 = client.one("SELECT hilo_nextval('s')");
                        assert!(value >= life * 1_000_000, "{value} after {life} was committed");
                        seen.push(value);
                        served.fetch_add(1, SeqCst);
                    }
                    seen
                })
            })
            .collect();
        for life in 2..=LIVES {
            let change = match life % 3 {
                0 => format!("SELECT hilo_alter('s', restart_with => {life}000000)"),
                1 => format!("SELECT hilo_setval('s', {life}000000, false)"),
                _ => format!(
                    "SELECT hilo_rename('s', 'old {life}'), hilo_create('s', start_value => {life}000000),
                            hilo_grant('s', 'app', 'USAGE')"
                ),
            };
            admin.run(&format!("BEGIN; {change}; COMMIT"));
            committed.store(life, SeqCst);
            let before = served.load(SeqCst);
            wait_until("sessions are served", LONG, || {
                life == LIVES || served.load(SeqCst) > before + 1
            });
        }
        sessions.into_iter().flat_map(|session| session.join().expect("it is served")).collect()
    });
    assert_unique("s", &seen);
    assert!(seen.len() as i64 > LIVES, "only {} sessions came", seen.len());
}
