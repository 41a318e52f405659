//! Text keys, the server's prefix, and sequences that are created at their first use.

use std::thread;

use hilo_tests::{Client, ClientExt, Cluster, LONG, Seen, Way, wait_until};

fn key(client: &mut Client, name: &str) -> String {
    client.one(&format!("SELECT hilo_nextkey('{name}')"))
}

/// The keys that the documentation promises, as they come, as they are made of a value, and read back.
#[test]
fn keys_are_as_promised() {
    let cluster = Cluster::with_hilo();
    let mut client = cluster.connect("postgres");
    client.run(
        "SELECT hilo_create('orders'), hilo_create('items', key_format => '{name}/{value}-{server}'),
                hilo_create('projects', start_value => 1001, key_format => 'PROJ-9012-{value:04}'),
                hilo_create('padded', key_format => 'P{value:06}')",
    );
    assert_eq!(key(&mut client, "orders"), "orders/1");
    assert_eq!(key(&mut client, "projects"), "PROJ-9012-1001");
    assert_eq!(key(&mut client, "padded"), "P000001");
    client.run("SET hilo.server_prefix = 'NorthServer/'; SELECT hilo_create('fresh')");
    assert_eq!(key(&mut client, "fresh"), "fresh/NorthServer/1");
    assert_eq!(key(&mut client, "orders"), "orders/NorthServer/2");
    client.run("SET hilo.server_prefix = 'A'");
    assert_eq!(key(&mut client, "items"), "items/1-A");
    for (name, value) in [("orders", 7), ("items", 123_456), ("projects", 3), ("padded", -5)] {
        let back = format!("SELECT hilo_key_value('{name}', hilo_key('{name}', {value}))");
        assert_eq!(client.one::<i64>(&back), value);
    }
    client.refusal("SELECT hilo_key_value('items', 'items/1-B')").is("22023").helps();
    client.run("CREATE TABLE orders (id text PRIMARY KEY DEFAULT hilo_nextkey('orders'))");
    client.run("INSERT INTO orders SELECT FROM generate_series(1, 1000)");
    let read = "SELECT count(DISTINCT hilo_key_value('orders', id)) FROM orders";
    assert_eq!(client.one::<i64>(read), 1_000);
    cluster.finish();
}

/// Two values may not have the same key under a format or prefix, and each key can be read back.
/// Else it is refused when it is set, with the reason.
#[test]
fn keys_that_could_be_mistaken_are_refused() {
    let cluster = Cluster::with_hilo();
    let mut client = cluster.connect("postgres");
    for format in
        ["{name}", "{value}{value}", "{server}{value}{server}", "{value:4}", "a{value", ""]
    {
        let create = format!("SELECT hilo_create('bad', key_format => '{format}')");
        client.refusal(&create).is("22023").says("key_format").helps();
    }
    client
        .run("SELECT hilo_create('plain'), hilo_create('apart', key_format => '{server}:{value}')");
    // Value 1 of A1 and value 11 of A.
    client.refusal("SET hilo.server_prefix = 'A1'").is("22023").details("plain");
    let alter = "ALTER DATABASE postgres SET hilo.server_prefix = 'A1'";
    client.refusal(alter).is("22023").details("plain");
    client.refusal("ALTER SYSTEM SET hilo.server_prefix = 'A1'").is("22023").details("plain");
    client.refusal("SET hilo.server_prefix = E'A\\t'").is("22023").details("control");
    client
        .run("SELECT hilo_alter('plain', key_format => '{value}'); SET hilo.server_prefix = 'A1'");
    assert_eq!(key(&mut client, "apart"), "A1:1");
    for refused in [
        "hilo_create('new')",
        "hilo_alter('apart', key_format => '{server}{value}')",
        "hilo_alter('apart', key_format => '{value}{server}', min_value => -10)",
    ] {
        let sql = format!("SELECT {refused}");
        if refused.contains("{value}{server}") {
            client.run("SET hilo.server_prefix = '1A'");
        }
        client.refusal(&sql).is("22023").says("prefix").helps();
    }
    // Set where nobody could look at the sequences, it is refused by those that it does not go with.
    client.run("RESET hilo.server_prefix; SELECT hilo_create('late')");
    cluster.configure("hilo.server_prefix", "A1");
    cluster.reload();
    wait_until("the session has the new prefix", LONG, || {
        client.one::<String>("SELECT current_setting('hilo.server_prefix')") == "A1"
    });
    client.refusal("SELECT hilo_nextkey('late')").is("22023").says("prefix").helps();
    assert_eq!(key(&mut client, "apart"), "A1:2");
    cluster.finish();
}

/// The prefix is a server's, another one for a database if it has one, and a superuser's to set.
/// Open sessions take it up on reload.
#[test]
fn the_prefix_is_per_server_and_per_database() {
    let cluster = Cluster::builder().config("hilo.server_prefix", "S/").start_with_hilo();
    let mut client = cluster.connect("postgres");
    client.run("SELECT hilo_create('k'); CREATE ROLE somebody LOGIN; SELECT hilo_grant('k', 'public', 'USAGE')");
    client.run("CREATE DATABASE other");
    client.run("ALTER DATABASE other SET hilo.server_prefix = 'O/'");
    let mut other = cluster.connect("other");
    other.run("CREATE EXTENSION hilo; SELECT hilo_create('k')");
    assert_eq!((key(&mut client, "k"), key(&mut other, "k")), ("k/S/1".into(), "k/O/1".into()));

    let mut somebody = cluster.connect_as("somebody", "postgres");
    assert!(key(&mut somebody, "k").starts_with("k/S/"));
    somebody.refusal("SET hilo.server_prefix = 'X/'").is("42501");
    somebody.refusal("ALTER ROLE somebody SET hilo.server_prefix = 'X/'").is("42501");

    cluster.configure("hilo.server_prefix", "N/");
    cluster.reload();
    wait_until("the session has the new prefix", LONG, || {
        key(&mut somebody, "k").starts_with("k/N/")
    });
    wait_until("the session has the new prefix", LONG, || {
        key(&mut client, "k").starts_with("k/N/")
    });
    assert!(key(&mut other, "k").starts_with("k/O/"), "the database has its own");
    cluster.finish();
}

/// Ten thousand tenants, each with a sequence that comes into being at its first use. Eight
/// sessions come upon the same names at the same time, and each number is served once.
#[test]
fn ten_thousand_tenants_come_into_being() {
    const TENANTS: usize = 10_000;
    let cluster = Cluster::builder().config("hilo.auto_create", "on").start_with_hilo();
    let keys: Vec<String> = thread::scope(|scope| {
        let sessions: Vec<_> = (0..8)
            .map(|number| {
                let cluster = &cluster;
                scope.spawn(move || {
                    let mut client = cluster.connect("postgres");
                    client.run("SET hilo.reserve_timeout = '60s'");
                    // Pairs of sessions go the same way, so that they meet at names that are not there.
                    let from = number / 2 * TENANTS / 4;
                    let mut keys = Vec::new();
                    for first in (from..from + TENANTS / 4).step_by(100) {
                        let last = first + 99;
                        if number % 2 == 0 {
                            client.run("BEGIN");
                        }
                        keys.extend(client.all::<String>(&format!(
                            "SELECT hilo_nextkey('PROJ-' || n) FROM generate_series({first}, {last}) n"
                        )));
                        if number % 2 == 0 {
                            client.run("ROLLBACK");
                        }
                    }
                    keys
                })
            })
            .collect();
        sessions.into_iter().flat_map(|session| session.join().unwrap()).collect()
    });
    assert_eq!(keys.len(), 2 * TENANTS);
    let distinct: std::collections::HashSet<&String> = keys.iter().collect();
    assert_eq!(distinct.len(), keys.len());
    let mut client = cluster.connect("postgres");
    assert_eq!(client.one::<i64>("SELECT count(*) FROM hilo_sequences"), TENANTS as i64);
    cluster.finish();
}

/// Two sessions that use an unknown name at once get one sequence, which stays when both roll back.
#[test]
fn two_sessions_create_one_sequence() {
    let cluster = Cluster::builder().config("hilo.auto_create", "on").start_with_hilo();
    for round in 0..20 {
        let seen = Seen::new(Way::Rising);
        thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    let mut client = cluster.connect("postgres");
                    client.run("BEGIN");
                    let sql = format!("SELECT hilo_nextval('once-{round}')");
                    seen.session().saw(&[client.one(&sql)]);
                    client.run("ROLLBACK");
                });
            }
        });
        seen.assert_unique();
    }
    let mut client = cluster.connect("postgres");
    assert_eq!(client.one::<i64>("SELECT count(*) FROM hilo_sequences"), 20);
    client.run("SET hilo.auto_create = off");
    assert!(client.one::<i64>("SELECT hilo_nextval('once-0')") > 2);
    client.refusal("SELECT hilo_nextval('PROJ-9012')").is("42704").hints("auto_create");
    cluster.finish();
}

/// A prefix from the configuration file that is no text in the database's encoding gets into no key.
#[test]
fn a_prefix_in_another_encoding_gets_into_no_key() {
    let cluster = Cluster::with_hilo();
    let mut admin = cluster.connect("postgres");
    admin.run(
        "CREATE DATABASE korea ENCODING 'EUC_KR' TEMPLATE template0 LC_COLLATE 'C' LC_CTYPE 'C'",
    );
    cluster.configure("hilo.server_prefix", "€/");
    cluster.reload();
    wait_until("the session has the new prefix", LONG, || {
        admin.one::<bool>("SELECT current_setting('hilo.server_prefix') = '€/'")
    });
    admin.run("SELECT hilo_create('s')");
    assert_eq!(key(&mut admin, "s"), "s/€/1");
    let mut client = cluster.connect("korea");
    client.run("CREATE EXTENSION hilo; CREATE TABLE t (k text)");
    client.run("SELECT hilo_create('s', key_format => '{value}')");
    assert_eq!(key(&mut client, "s"), "1", "which has no prefix");
    let plain = "SELECT hilo_create('t')";
    client.refusal(plain).is("22023").says("encoding").hints("ALTER DATABASE");
    client.run("SET hilo.server_prefix = 'K/'; SELECT hilo_create('t'); RESET hilo.server_prefix");
    client.refusal("INSERT INTO t VALUES (hilo_nextkey('t'))").is("22023").says("encoding");
    cluster.finish();
}

/// A session that uses a name that another transaction is creating waits for that transaction, which may
/// commit or not.
#[test]
fn a_first_use_waits_for_who_is_creating_it() {
    let cluster = Cluster::builder().config("hilo.auto_create", "on").start_with_hilo();
    let mut creator = cluster.connect("postgres");
    let mut admin = cluster.connect("postgres");
    for (end, expected) in [("COMMIT", 3), ("ROLLBACK", 1)] {
        creator.run("BEGIN");
        creator.run(&format!("SELECT hilo_create('{end}'), hilo_nextval('{end}')"));
        creator.run(&format!("SELECT hilo_nextval('{end}')"));
        thread::scope(|scope| {
            let user = scope.spawn(|| {
                let mut client = cluster.connect("postgres");
                client.run("SET hilo.reserve_timeout = '60s'");
                client.one::<i64>(&format!("SELECT hilo_nextval('{end}')"))
            });
            let waits = "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE state = 'active'
                          AND query LIKE 'SELECT hilo!_nextval%' ESCAPE '!' AND now() - query_start > '1 s')";
            wait_until("the call has waited for a second", LONG, || {
                user.is_finished() || admin.one::<bool>(waits)
            });
            let other = format!("SELECT hilo_nextval('beside {end}')");
            assert_eq!(admin.one::<i64>(&other), 1, "meanwhile others are served");
            creator.run(end);
            assert_eq!(user.join().unwrap(), expected, "{end}");
        });
    }
    cluster.finish();
}
