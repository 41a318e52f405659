//! Servers that replicate to each other with core's logical replication, including hilo's own tables.

use std::sync::atomic::{AtomicBool, Ordering::*};
use std::thread;

use hilo_tests::{Builder, ClientExt, Cluster, LONG, Seen, Way, wait_until};

/// The tables that docs/multi-node.md publishes of hilo's own.
const OWN_TABLES: &str = "_hilo.hilo_definition, _hilo.hilo_position, _hilo.hilo_privilege";

type Pair = (Cluster, Cluster);

/// A server, and one that is to subscribe to it, each with its own system identifier.
fn publisher_and_subscriber() -> Pair {
    start_pair(Builder::own_identity)
}

/// The same from one image: they have the same system identifier.
fn publisher_and_subscriber_from_one_image() -> Pair {
    start_pair(|builder| builder)
}

fn start_pair(identity: fn(Builder) -> Builder) -> Pair {
    let start = || {
        let builder = Cluster::builder().logical().config("hilo.failover_skip", "5000");
        identity(builder).start_with_hilo()
    };
    let (publisher, subscriber) = (start(), start());
    publisher.connect("postgres").run(&format!("CREATE PUBLICATION own FOR TABLE {OWN_TABLES}"));
    (publisher, subscriber)
}

/// Draws until the server is gone; what was seen counts.
fn draw_until_lost(cluster: &Cluster, name: &str, seen: &Seen) {
    let mut client = cluster.connect("postgres");
    let mut session = seen.session();
    let sql = format!("SELECT hilo_nextval('{name}') FROM generate_series(1, 20)");
    while let Ok(rows) = client.query(&sql, &[]) {
        session.saw(&rows.iter().map(|row| row.get(0)).collect::<Vec<i64>>());
    }
}

/// The publisher is killed under load, and the subscriber continues. No value that a client saw is
/// served again, of sequences old and new, set, altered or never used before. Values that may have
/// been lost are recorded.
#[test]
fn a_subscriber_takes_over_and_repeats_nothing() {
    take_over(publisher_and_subscriber(), Origin::Empty);
}

/// The same where both servers were made from one image, and cannot be distinguished by their identifiers.
#[test]
fn a_subscriber_from_the_same_image_takes_over_and_repeats_nothing() {
    take_over(publisher_and_subscriber_from_one_image(), Origin::Empty);
}

/// The same where the subscriber was made from a dump: what it copies takes the place of what was restored.
#[test]
fn a_restored_subscriber_takes_over_and_repeats_nothing() {
    take_over(publisher_and_subscriber_from_one_image(), Origin::Dump);
}

/// The tables that a subscriber begins with.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Origin {
    Empty,
    Dump,
}

fn take_over((publisher, subscriber): Pair, origin: Origin) {
    let mut client = publisher.connect("postgres");
    client.run(
        "SELECT hilo_create('busy'), hilo_create('blocks', block_size => 500),
                hilo_create('falling', increment => -2), hilo_create('idle'), hilo_create('unused')",
    );
    let names = ["busy", "blocks", "falling", "idle", "unused", "late", "set"];
    let seen = names.map(|name| match name {
        "falling" => Seen::new(Way::Falling),
        _ => Seen::new(Way::Rising),
    });
    seen[3].session().saw(&client.draw("idle", 10));
    if origin == Origin::Dump {
        subscriber.connect("postgres").run("DROP EXTENSION hilo");
        subscriber.restore("postgres", &publisher.pg_dump("postgres", &[]));
    }
    subscriber.subscribe("own", &publisher, "own", "");
    client.run("SELECT hilo_create('late'), hilo_create('set'), hilo_setval('set', 100000)");
    client.run("SELECT hilo_alter('blocks', increment => 3, min_value => -5)");
    thread::scope(|scope| {
        for (number, name) in names.iter().enumerate() {
            if !["idle", "unused"].contains(name) {
                let (publisher, seen) = (&publisher, &seen[number]);
                scope.spawn(move || draw_until_lost(publisher, name, seen));
            }
        }
        let total = || seen.iter().map(Seen::count).sum::<usize>();
        wait_until("20,000 numbers are drawn", LONG, || total() > 20_000);
        // A block that is reserved now may not arrive any more.
        subscriber.connect("postgres").run("ALTER SUBSCRIPTION own DISABLE");
        let before = total();
        wait_until("2,000 more numbers are drawn", LONG, || total() > before + 2_000);
        seen[4].session().saw(&client.draw("unused", 3));
        publisher.kill9_postmaster();
    });
    let mut client = subscriber.connect("postgres");
    for (name, seen) in names.iter().zip(&seen) {
        seen.session().saw(&client.draw(name, 2_000));
        seen.assert_unique();
    }
    let skipped =
        "SELECT count(DISTINCT name) FROM hilo_gaps WHERE reason = 'restored' AND count >= 5000";
    assert_eq!(client.one::<i64>(skipped), names.len() as i64);
    assert_eq!(subscriber.log_count("skipping the next"), 1, "it is said once");
    drop(client);
    subscriber.restart();
    let mut client = subscriber.connect("postgres");
    for (name, seen) in names.iter().zip(&seen) {
        seen.session().saw(&client.draw(name, 10));
        seen.assert_unique();
    }
    assert_eq!(client.one::<i64>(skipped), names.len() as i64, "it is passed over once");
    subscriber.finish();
}

/// A change there holds here, in sessions that have used it: names, owners, formats, privileges,
/// and that it is gone.
#[test]
fn memory_learns_of_replicated_definitions() {
    let start = |id| Cluster::builder().logical().node(id, 2).start_with_hilo();
    let (publisher, subscriber) = (start(0), start(1));
    for cluster in [&publisher, &subscriber] {
        cluster.connect("postgres").run("CREATE ROLE clerk LOGIN");
    }
    let mut there = publisher.connect("postgres");
    there.run("CREATE ROLE nowhere_else");
    there.run(&format!("CREATE PUBLICATION own FOR TABLE {OWN_TABLES}"));
    there.run("SELECT hilo_create('told', block_size => 100), hilo_nextval('told')");
    subscriber.subscribe("own", &publisher, "own", "");
    let mut here = subscriber.connect("postgres");
    let mut clerk = subscriber.connect_as("clerk", "postgres");
    assert_eq!(here.draw("told", 1), [1001], "the second stripe of ten blocks");
    clerk.refusal("SELECT hilo_nextval('told')").is("42501");

    there.run(
        "SELECT hilo_grant('told', 'clerk', 'USAGE'), hilo_grant('told', 'nowhere_else', 'USAGE')",
    );
    publisher.wait_for_apply("own");
    assert_eq!(clerk.draw("told", 1).len(), 1);
    here.refusal("DROP ROLE clerk").is("2BP01");
    there.run("SELECT hilo_revoke('told', 'clerk', 'USAGE')");
    publisher.wait_for_apply("own");
    clerk.refusal("SELECT hilo_nextval('told')").is("42501");
    here.run("SELECT hilo_grant('told', 'clerk', 'USAGE')");
    there.run("SELECT hilo_grant('told', 'clerk', 'USAGE')");

    there.run("SELECT hilo_alter('told', key_format => 'T-{value:05}', slice_size => 7)");
    publisher.wait_for_apply("own");
    assert!(here.one::<String>("SELECT hilo_nextkey('told')").starts_with("T-01"));
    there.run("SELECT hilo_rename('told', 'renamed')");
    publisher.wait_for_apply("own");
    here.refusal("SELECT hilo_nextval('told')").is("42704");
    assert_eq!(here.draw("renamed", 1).len(), 1);
    there.run("SELECT hilo_drop('renamed')");
    publisher.wait_for_apply("own");
    here.refusal("SELECT hilo_nextval('renamed')").is("42704");
    for table in ["definition", "position", "privilege", "free_range"] {
        let rows = format!("SELECT count(*) FROM _hilo.hilo_{table}");
        assert_eq!(here.one::<i64>(&rows), 0, "{table}");
    }
    subscriber.finish();
}

/// A row that would make this server serve a number twice, or stop its worker, is rejected and
/// reported.
#[test]
fn what_would_do_harm_is_kept_out() {
    let start = |id| Cluster::builder().logical().node(id, 2).start_with_hilo();
    let (publisher, subscriber) = (start(0), start(1));
    let mut there = publisher.connect("postgres");
    let mut here = subscriber.connect("postgres");
    there.run("CREATE PUBLICATION everything FOR ALL TABLES");
    there.run("SELECT hilo_create('shared'), hilo_create('both')");
    there.run("SELECT hilo_nextval('both')");
    here.run("SELECT hilo_create('both')");
    assert_eq!(here.draw("both", 1), [1025]);
    subscriber.subscribe("everything", &publisher, "everything", "");
    assert_eq!(subscriber.log_count("\"both\" was also created on another server"), 1);
    let seen = Seen::new(Way::Rising);
    let mut session = seen.session();
    session.saw(&here.draw("shared", 50));

    // Numbers are what each server numbers by; all else of the same statement arrives.
    there.run("SELECT hilo_alter('shared', increment => 5, restart_with => 10000000, key_format => 'S{value}')");
    there.run("SELECT hilo_nextval('shared') FROM generate_series(1, 5000)");
    publisher.wait_for_apply("everything");
    assert_eq!(subscriber.log_count("\"shared\" is numbered differently on another server"), 1);
    let definition =
        "SELECT increment || ' ' || key_format FROM hilo_sequences WHERE name = 'shared'";
    assert_eq!(here.one::<String>(definition), "1 S{value}");
    session.saw(&here.draw("shared", 5_000));
    let findings = "SELECT what FROM hilo_check() WHERE object = 'sequence \"shared\"'";
    assert!(here.all::<String>(findings).iter().any(|what| what.contains("numbered differently")));
    here.run("SELECT hilo_alter('shared', increment => 5, restart_with => 10000000)");
    assert_eq!(here.all::<String>(findings), Vec::<String>::new());
    let next = here.draw("shared", 1)[0];
    assert_eq!(next, 10_000_000 + 5 * 1024);

    // A name that is taken here, a free range, and a drop of what is another sequence here.
    there.run("SELECT hilo_rename('shared', 'elsewhere'), hilo_drop('both')");
    let mut leaving = publisher.connect("postgres");
    leaving.draw("elsewhere", 10);
    drop(leaving);
    publisher.wait_for_apply("everything");
    assert!(here.draw("elsewhere", 1)[0] > next);
    assert_eq!(here.draw("both", 1), [1026]);
    assert_eq!(
        here.one::<i64>("SELECT count(*) FROM _hilo.hilo_free_range WHERE node = 0"),
        0,
        "what the other returned is for it to serve"
    );
    drop(session);
    seen.assert_unique();
    subscriber.finish();
}

/// Who enables all triggers, as pg_restore --disable-triggers does, has them fire for nobody:
/// hilo_check says so, and how to mend it. Nothing is kept out of a restore by them.
#[test]
fn triggers_that_were_enabled_for_all_are_found() {
    let cluster = Cluster::with_hilo();
    let mut client = cluster.connect("postgres");
    client.run("ALTER TABLE _hilo.hilo_privilege DISABLE TRIGGER ALL; ALTER TABLE _hilo.hilo_privilege ENABLE TRIGGER ALL");
    let found = "SELECT fix FROM hilo_check() WHERE object LIKE 'table %'";
    let mend = client.all::<String>(found);
    assert_eq!(mend.len(), 1);
    client.run("SET check_function_bodies = off");
    let insert = "INSERT INTO _hilo.hilo_privilege VALUES (7, 'public', 'USAGE', 'postgres')";
    assert_eq!(client.execute(insert, &[]).unwrap(), 1);
    client.refusal(insert).is("23505");
    client.run(&mend[0]);
    assert_eq!(client.all::<String>(found), Vec::<String>::new());
    cluster.finish();
}

/// Two servers with the same hilo.node_id: the rows of the other are kept out, and both the log and
/// hilo_check say it.
#[test]
fn two_servers_with_the_same_id_are_recognised() {
    recognise(publisher_and_subscriber());
    recognise(publisher_and_subscriber_from_one_image());
}

fn recognise((publisher, subscriber): Pair) {
    let mut there = publisher.connect("postgres");
    there.run("SELECT hilo_create('twice'), hilo_nextval('twice')");
    subscriber.subscribe("own", &publisher, "own", "");
    let mut here = subscriber.connect("postgres");
    let mine = here.draw("twice", 10);
    assert!(mine[0] > 5_000, "{mine:?}");
    there.draw("twice", 20_000);
    publisher.wait_for_apply("own");
    let reserved: i64 = here.one("SELECT max_reserved FROM hilo_sequences WHERE name = 'twice'");
    assert!(reserved < 10_000, "our own position stays, and is not {reserved}");
    assert_eq!(subscriber.log_count("another server reserves values as node 0"), 1);
    let found = here.all::<String>("SELECT what FROM hilo_check() WHERE object = 'node 0'");
    assert!(found.iter().any(|what| what.contains("another server")), "{found:?}");
    subscriber.finish();
}

/// Two servers that replicate to each other, for which PostgreSQL 16 is the first to know where a row
/// came from. `None`: this is an older one.
fn pair(prefixes: [&str; 2], nodes: usize) -> Option<[Cluster; 2]> {
    let start = |id: usize| {
        let id_of = if nodes == 1 { 0 } else { id };
        let prefix = prefixes[id];
        Cluster::builder()
            .logical()
            .node(id_of, nodes)
            .config("hilo.server_prefix", prefix)
            .start_with_hilo()
    };
    let clusters = [start(0), start(1)];
    if clusters[0].version() < 16 {
        println!(
            "SKIPPED: two-way replication needs PostgreSQL 16, this is {}",
            clusters[0].version()
        );
        return None;
    }
    Some(clusters)
}

/// Creates the table on both, the sequence on the first, and has them replicate `tables` to each other.
fn connect(clusters: &[Cluster; 2], column: &str, tables: &str) {
    let [first, second] = clusters;
    for cluster in clusters {
        cluster.connect("postgres").run(&format!("CREATE TABLE items ({column}, node int)"));
    }
    let publish = format!("CREATE PUBLICATION ours FOR TABLE {tables}");
    first.connect("postgres").run(&format!("SELECT hilo_create('items'); {publish}"));
    second.connect("postgres").run(&publish);
    second.subscribe("from_first", first, "ours", "WITH (origin = none)");
    first.subscribe("from_second", second, "ours", "WITH (origin = none, copy_data = false)");
}

/// Inserts until `stop` is set, or the server is gone. Only what is known to be committed is counted.
fn insert(cluster: &Cluster, node: usize, stop: &AtomicBool) -> i64 {
    let mut client = cluster.connect("postgres");
    let mut inserted = 0;
    let sql = format!("INSERT INTO items (node) SELECT {node} FROM generate_series(1, 20)");
    while !stop.load(Relaxed) && client.batch_execute(&sql).is_ok() {
        inserted += 20;
    }
    inserted
}

/// Both insert under load, all rows are on both, without a conflict; then one is lost, and the other
/// continues. Returns the one that is left.
fn both_insert([first, second]: [Cluster; 2]) -> Cluster {
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let loads: Vec<_> = [(&first, 0), (&first, 0), (&second, 1), (&second, 1)]
            .into_iter()
            .map(|(cluster, node)| {
                let stop = &stop;
                (cluster, scope.spawn(move || insert(cluster, node, stop)))
            })
            .collect();
        let count = "SELECT count(*) FROM items";
        let mut client = first.connect("postgres");
        wait_until("10,000 rows are inserted", LONG, || client.one::<i64>(count) > 10_000);
        stop.store(true, Relaxed);
        let inserted: i64 = loads.into_iter().map(|(_, load)| load.join().unwrap()).sum();
        for cluster in [&first, &second] {
            let mut client = cluster.connect("postgres");
            wait_until("both servers have all rows", LONG, || client.one::<i64>(count) == inserted);
        }
    });
    for cluster in [&first, &second] {
        let mut client = cluster.connect("postgres");
        let nodes = "SELECT count(DISTINCT node) FROM items";
        assert_eq!(client.one::<i64>(nodes), 2);
        let errors = "SELECT sum(apply_error_count)::bigint FROM pg_stat_subscription_stats";
        assert_eq!(client.one::<i64>(errors), 0);
        assert_eq!(cluster.log_count("conflict"), 0);
    }
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let going_on = [&first, &second].map(|cluster| {
            let stop = &stop;
            scope.spawn(move || insert(cluster, 7, stop))
        });
        let mut client = second.connect("postgres");
        let count = "SELECT count(*) FROM items WHERE node = 7";
        wait_until("node 7 has inserted 1,000 rows", LONG, || client.one::<i64>(count) > 1_000);
        first.kill9_postmaster();
        let before: i64 = client.one("SELECT count(*) FROM items WHERE node = 7");
        wait_until("the other server inserts 2,000 more rows", LONG, || {
            client.one::<i64>(count) > before + 2_000
        });
        stop.store(true, Relaxed);
        let [_, left] = going_on.map(|load| load.join().unwrap());
        assert!(left > 2_000);
    });
    second
}

#[test]
fn two_way_with_text_keys_and_prefixes() {
    let Some(clusters) = pair(["North/", "South/"], 1) else { return };
    clusters[1].connect("postgres").run("SELECT hilo_create('items')");
    connect(&clusters, "id text PRIMARY KEY DEFAULT hilo_nextkey('items')", "items");
    let left = both_insert(clusters);
    let mut client = left.connect("postgres");
    for prefix in ["North", "South"] {
        let first = format!("SELECT EXISTS (SELECT FROM items WHERE id = 'items/{prefix}/1')");
        assert!(client.one::<bool>(&first), "{prefix}");
    }
    left.finish();
}

#[test]
fn two_way_with_striped_numbers() {
    let Some(clusters) = pair(["", ""], 2) else { return };
    let tables = format!("items, {OWN_TABLES}");
    connect(&clusters, "id bigint PRIMARY KEY DEFAULT hilo_nextval('items')", &tables);
    let left = both_insert(clusters);
    let mut client = left.connect("postgres");
    let strays = "SELECT count(*) FROM items WHERE node < 2 AND (id - 1) / 1024 % 2 <> node";
    assert_eq!(client.one::<i64>(strays), 0);
    assert_eq!(client.one::<i64>("SELECT count(*) FROM _hilo.hilo_definition"), 1);
    assert_eq!(client.one::<i64>("SELECT count(DISTINCT node) FROM _hilo.hilo_position"), 2);
    assert_eq!(left.log_count("another server"), 0);
    assert_eq!(left.log_count("is now a different server"), 0);
    left.finish();
}

/// A node that is lost and rebuilt learns from another one how far it had come.
#[test]
fn a_node_that_is_rebuilt_repeats_nothing() {
    let start = |id| {
        let builder = Cluster::builder().logical().node(id, 2).own_identity();
        builder.config("hilo.failover_skip", "5000").start_with_hilo()
    };
    let (lost, other) = (start(0), start(1));
    for cluster in [&lost, &other] {
        cluster.connect("postgres").run(&format!("CREATE PUBLICATION own FOR TABLE {OWN_TABLES}"));
    }
    let mut client = lost.connect("postgres");
    client.run("SELECT hilo_create('rebuilt')");
    other.subscribe("to_other", &lost, "own", "");
    let seen = Seen::new(Way::Rising);
    seen.session().saw(&client.draw("rebuilt", 10_000));
    seen.session().saw(&other.connect("postgres").draw("rebuilt", 3_000));
    lost.wait_for_apply("to_other");
    drop(client);
    lost.kill9_postmaster();
    let rebuilt = start(0);
    rebuilt.subscribe("to_rebuilt", &other, "own", "");
    for cluster in [&rebuilt, &other] {
        seen.session().saw(&cluster.connect("postgres").draw("rebuilt", 10_000));
    }
    seen.assert_unique();
    let nodes = "SELECT count(DISTINCT (base, nodes, stripe)) FROM _hilo.hilo_position";
    assert_eq!(rebuilt.connect("postgres").one::<i64>(nodes), 1);
    rebuilt.finish();
    other.finish();
}

/// Draws from `items` until `stop` is set.
fn draw_until(cluster: &Cluster, seen: &Seen, stop: &AtomicBool) {
    let mut client = cluster.connect("postgres");
    client.run("SET hilo.reserve_timeout = '60s'");
    let mut session = seen.session();
    while !stop.load(Relaxed) {
        session.saw(&client.draw("items", 50));
    }
}

/// Two servers that replicate to each other become three, while sessions draw from all of them.
#[test]
fn two_way_becomes_three_way_under_load() {
    const BEYOND: i64 = 10_000_000;
    let Some(clusters) = pair(["", ""], 2) else { return };
    let tables = format!("items, {OWN_TABLES}");
    connect(&clusters, "id bigint PRIMARY KEY DEFAULT hilo_nextval('items')", &tables);
    let [first, second] = &clusters;
    let third = Cluster::builder().logical().node(2, 3).start_with_hilo();
    let seen = Seen::new(Way::Rising);
    let stop = AtomicBool::new(false);
    let more = || {
        let before = seen.count();
        wait_until("10,000 more numbers are drawn", LONG, || seen.count() >= before + 10_000);
    };
    let alter = |cluster: &Cluster, change: &str| {
        cluster.connect("postgres").run(&format!("SELECT hilo_alter('items', {change})"));
        more();
    };
    thread::scope(|scope| {
        for cluster in [first, second, first, second] {
            scope.spawn(|| draw_until(cluster, &seen, &stop));
        }
        let fence = format!("max_value => {}", BEYOND - 1);
        alter(first, &fence);
        alter(second, &fence);
        for cluster in [first, second] {
            cluster.configure("hilo.node_count", "3");
            cluster.reload();
        }
        let tables = format!("CREATE PUBLICATION ours FOR TABLE {OWN_TABLES}");
        third.connect("postgres").run(&tables);
        for (number, cluster) in [first, second].into_iter().enumerate() {
            let options = format!("WITH (origin = none, copy_data = {})", number == 0);
            third
                .connect("postgres")
                .run("CREATE TABLE IF NOT EXISTS items (id bigint PRIMARY KEY, node int)");
            third.subscribe(&format!("third_{number}"), cluster, "ours", &options);
            let options = "WITH (origin = none, copy_data = false)";
            cluster.subscribe(&format!("from_third_{number}"), &third, "ours", options);
        }
        let mut client = third.connect("postgres");
        client.refusal("SELECT hilo_nextval('items')").is("55000").says("hilo.node_count = 2");
        let renumber = format!("restart_with => {BEYOND}, max_value => 9223372036854775807");
        alter(second, &renumber);
        alter(&third, &renumber);
        scope.spawn(|| draw_until(&third, &seen, &stop));
        more();
        alter(first, &renumber);
        stop.store(true, Relaxed);
    });
    seen.assert_unique();
    for cluster in [first, second, &third] {
        let mut client = cluster.connect("postgres");
        let alike = "SELECT count(*) = 3 AND count(DISTINCT (base, nodes, stripe)) = 1 FROM _hilo.hilo_position";
        wait_until("each server has the positions of all three", LONG, || {
            client.one::<bool>(alike)
        });
        assert_eq!(cluster.log_count("another server reserves"), 0);
    }
}
