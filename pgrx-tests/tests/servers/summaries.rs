//! Servers that share sequences by `hilo.node_id` alone: one without an id, and what each tells the others by its summary.

use hilo_tests::{Client, ClientExt, Cluster, LONG, assert_unique, wait_until};

const NOTHING: [&str; 0] = [];

fn has(complaints: &[String], severity: &str, words: &[&str]) -> bool {
    complaints
        .iter()
        .any(|found| found.starts_with(severity) && words.iter().all(|word| found.contains(word)))
}

fn by_hand(client: &mut Client) {
    client.run("SET hilo.on_every_node = on");
}

/// Promise 1: what one server has is carried to the other, and neither begins, restarts or moves a sequence alone.
#[test]
fn none_begins_or_moves_alone() {
    let start = |id: &str| {
        let builder = Cluster::builder().config("hilo.node_id", id).config("hilo.node_count", "2");
        let cluster = builder.start_with_hilo();
        let client = cluster.connect("postgres");
        (cluster, client)
    };
    let mut nodes = [start("0"), start("1")];
    let create = "SELECT hilo_create('s')";
    for (_, client) in &mut nodes {
        client.refusal(create).is("55000").hints("hilo_apply").hints("hilo.on_every_node");
        client.refusal("SELECT hilo_nextval('s')").is("42704").hints("hilo_apply");
    }
    by_hand(&mut nodes[0].1);
    nodes[0].1.run(create);
    let mut seen = nodes[0].1.draw("s", 2_000);
    nodes[0].1.run("SELECT hilo_alter('s', restart_with => 5000); RESET hilo.on_every_node");
    let summary: String = nodes[0].1.one("SELECT hilo_node_summary()::text");
    nodes[1].1.run(&format!("SELECT * FROM hilo_apply('{summary}')"));
    for (_, client) in &mut nodes {
        seen.extend(client.draw("s", 2_000));
        client
            .refusal("SELECT hilo_setval('s', 20000)")
            .is("55000")
            .hints("hilo_advance('s', 20000)");
        by_hand(client);
        client.run("SELECT hilo_advance('s', 20000)");
        seen.extend(client.draw("s", 2_000));
    }
    assert_unique("s", &seen);
    one_serves_it_alone(&mut nodes, &seen);
    nodes.into_iter().for_each(|(cluster, _)| cluster.finish());
}

/// The HINT leads to a sequence of Postgres that begins beyond all that both nodes have served.
fn one_serves_it_alone(nodes: &mut [(Cluster, Client); 2], seen: &[i64]) {
    let [(cluster, client), (_, other)] = nodes;
    client.run("CREATE TABLE t (id bigint DEFAULT hilo_nextval('s'))");
    let release = "SELECT hilo_release('t', 'id', NULL)";
    client.refusal(release).is("55000").hints("drop it on the others").hints("hilo.node_count = 1");
    let reserved = "SELECT max_reserved FROM hilo_sequences WHERE name = 's'";
    let reserved = client.one::<i64>(reserved).max(other.one(reserved));
    other.run("SELECT hilo_drop('s')");
    cluster.configure("hilo.node_count", "1");
    cluster.reload();
    wait_until("the session knows", LONG, || client.one::<String>("SHOW hilo.node_count") == "1");
    client.run(&format!("SELECT hilo_alter('s', restart_with => {})", reserved + 1));
    client.run(release);
    let first: i64 = client.one("INSERT INTO t DEFAULT VALUES RETURNING id");
    assert!(seen.iter().all(|value| *value < first), "{first}");
}

/// Servers without Citus are compared by their summaries, which a client carries; and completed by them.
#[test]
fn summaries_of_other_servers() {
    let north = Cluster::builder().node(0, 4).start_with_hilo();
    let south = Cluster::builder().node(1, 4).start_with_hilo();
    let twin = Cluster::builder().node(0, 4).start_with_hilo();
    let summary = |cluster: &Cluster| -> String {
        cluster.connect("postgres").one("SELECT hilo_node_summary()::text")
    };
    let compare = |cluster: &Cluster, other: &str| -> Vec<String> {
        let quoted = other.replace('\'', "''");
        cluster.connect("postgres").all(&format!(
            "SELECT severity || ': ' || object || ': ' || what FROM hilo_compare('{quoted}')"
        ))
    };
    let apply = |cluster: &Cluster, other: &str| {
        let sql = format!("SELECT count(*) FROM hilo_apply('{}')", other.replace('\'', "''"));
        cluster.connect("postgres").query_one(&sql, &[]).map(|row| row.get::<_, i64>(0))
    };
    let mut client = north.connect("postgres");
    client.run(
        "SELECT hilo_create('it''s', start_value => 50), hilo_alter('it''s', restart_with => 7000)",
    );
    let of_north = summary(&north);
    assert_eq!(compare(&north, &of_north), NOTHING, "its own");
    assert!(has(&compare(&south, &of_north), "warning", &["node 0", "serves 1 sequences"]));
    assert_eq!(apply(&south, &of_north).unwrap(), 1);
    assert_eq!(apply(&south, &of_north).unwrap(), 0, "there is nothing left to do");
    assert_eq!(compare(&south, &of_north), NOTHING);
    assert_eq!(compare(&north, &summary(&south)), NOTHING);
    assert_eq!(client.one::<i64>("SELECT hilo_nextval('it''s')"), 7000);
    let mut other = south.connect("postgres");
    assert_eq!(other.one::<i64>("SELECT hilo_nextval('it''s')"), 8024);
    // A copy of a server, or one that was given the same id.
    twin.connect("postgres").run("SELECT hilo_create('it''s')");
    assert!(has(&compare(&twin, &of_north), "error", &["node 0", "as that of this server"]));
    let refusal = twin
        .connect("postgres")
        .refusal(&format!("SELECT hilo_apply('{}')", of_north.replace('\'', "''")));
    refusal.is("55000").says("another server").helps();
    // A server on which it was created another time.
    other.run("SELECT hilo_drop('it''s'), hilo_create('it''s')");
    assert!(has(&compare(&south, &of_north), "error", &["from 7000", "from 1 "]));
    let refusal = apply(&south, &of_north).unwrap_err();
    assert_eq!(refusal.code().map(|code| code.code()), Some("55000"));
    other
        .refusal("SELECT * FROM hilo_compare('{\"hilo\": 1, \"sequences\": []}')")
        .is("22023")
        .helps();
    other.refusal("SELECT * FROM hilo_compare(NULL)").is("22023");
    for cluster in [north, south, twin] {
        cluster.finish();
    }
}

/// A server that was given another id serves by the numbering that it knows, as a copy with an id of its own does. If the
/// others have renumbered the sequence since, hilo_compare says so before it has drawn, and hilo_apply tells it.
#[test]
fn a_server_with_another_id() {
    let north = Cluster::builder().node(0, 4).start_with_hilo();
    let south = Cluster::builder().node(1, 4).start_with_hilo();
    let mut client = north.connect("postgres");
    client.run("SELECT hilo_create('s'), hilo_create('same')");
    let of_north: String = client.one("SELECT hilo_node_summary()::text");
    let mut other = south.connect("postgres");
    other.run(&format!("SELECT * FROM hilo_apply('{of_north}')"));
    let mut seen = client.draw("s", 3_000);
    seen.extend(other.draw("s", 3_000));
    south.configure("hilo.node_id", "2");
    south.restart();
    client.run("SELECT hilo_alter('s', restart_with => 50000)");
    let of_north: String = client.one("SELECT hilo_node_summary()::text");
    let compare = format!(
        "SELECT severity || ': ' || object || ': ' || what FROM hilo_compare('{of_north}')"
    );
    let apply = format!("SELECT action || ' ' || name FROM hilo_apply('{of_north}')");
    let mut other = south.connect("postgres");
    let complaints: Vec<String> = other.all(&compare);
    assert!(has(&complaints, "error", &["sequence \"s\"", "from 1 ", "from 50000"]));
    assert_eq!(complaints.len(), 1, "{complaints:?}");
    let of_south: String = other.one("SELECT hilo_node_summary()::text");
    let complaints: Vec<String> =
        client.all(&format!("SELECT what FROM hilo_compare('{of_south}')"));
    assert_eq!(complaints.len(), 1, "{complaints:?}");
    assert_eq!(other.all::<String>(&apply), ["number s"]);
    assert_eq!(other.all::<String>(&compare), NOTHING);
    assert_eq!(other.one::<i64>("SELECT hilo_nextval('s')"), 50_000 + 2 * 1024);
    seen.extend(other.draw("s", 3_000));
    seen.extend(client.draw("s", 3_000));
    assert_unique("s", &seen);
    assert_eq!(other.one::<i64>("SELECT hilo_nextval('same')"), 1 + 2 * 1024);
    north.finish();
    south.finish();
}

/// Where several servers share sequences, one without an id takes no place among them. One that serves already goes on.
#[test]
fn one_of_several_needs_an_id() {
    let cluster = Cluster::with_hilo();
    let mut client = cluster.connect("postgres");
    client.run("SELECT hilo_create('before')");
    cluster.configure("hilo.node_count", "2");
    cluster.reload();
    wait_until("the session knows", LONG, || client.one::<String>("SHOW hilo.node_count") == "2");
    for sql in ["SELECT hilo_create('s')", "SELECT hilo_alter('before', restart_with => 100)"] {
        client.refusal(sql).is("F0000").says("hilo.node_id is not set").details("2 nodes").helps();
    }
    client.run("SET hilo.auto_create = on");
    client.refusal("SELECT hilo_nextval('s')").is("F0000").says("hilo.node_id is not set");
    client.run("RESET hilo.auto_create");
    assert_eq!(client.draw("before", 2), [1, 2]);
    let unset = "SELECT count(*) FROM hilo_check() WHERE what ~ 'hilo.node_id is not set'";
    assert_eq!(client.one::<i64>(unset), 1);
    let refusal = client.refusal("SELECT hilo_nextval('none')").is("42704").hints("hilo_apply");
    assert!(!refusal.report().hint().unwrap_or_default().contains("auto_create"));
    cluster.configure("hilo.node_id", "0");
    cluster.reload();
    wait_until("the session knows", LONG, || client.one::<String>("SHOW hilo.node_id") == "0");
    by_hand(&mut client);
    client.run("SELECT hilo_create('s'), hilo_alter('before', restart_with => 100)");
    for wrong in ["-1", "1024", "north"] {
        client
            .refusal(&format!("ALTER SYSTEM SET hilo.node_id = '{wrong}'"))
            .is("22023")
            .details("0 to 1023");
    }
    cluster.finish();
}

/// Promise 1: a server that gets another id while it runs serves nothing as the earlier one, once its sessions know it.
#[test]
fn another_id_while_it_runs() {
    let cluster = Cluster::builder().node(1, 4).start_with_hilo();
    let (mut client, mut other) = (cluster.connect("postgres"), cluster.connect("postgres"));
    by_hand(&mut client);
    client.run("SELECT hilo_create('s')");
    let mut seen = client.draw("s", 50);
    seen.extend(other.draw("s", 7));
    for id in [2, 3] {
        cluster.configure("hilo.node_id", &id.to_string());
        cluster.reload();
        for session in [&mut client, &mut other] {
            wait_until("it serves as the new one", LONG, || {
                let value = session.draw("s", 1)[0];
                seen.push(value);
                (value - 1) / 1024 % 4 == id
            });
        }
    }
    assert_unique("s", &seen);
    let told: String =
        client.one("SELECT string_agg(node::text, ' ' ORDER BY node) FROM _hilo.hilo_position");
    assert_eq!(told, "1 2 3");
    cluster.finish();
}
