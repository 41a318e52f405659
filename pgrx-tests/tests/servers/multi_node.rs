//! The commands for several servers in docs/multi-node.md run as printed, and do what it says.

use hilo_tests::recipe::{Servers, blocks};
use hilo_tests::{ClientExt, Mode};

/// The findings, but for the speed of a test server.
const FOUND: &str = "SELECT what FROM hilo_check() WHERE severity <> 'note' AND object NOT IN ('setting fsync', 'setting full_page_writes')";

/// Two servers, and then a third.
#[test]
fn servers_that_replicate_to_each_other() {
    let mut servers = Servers::default();
    let mut blocks_of_two = blocks("Two servers that replicate to each other");
    let renumber = blocks_of_two.pop().expect("the change of the numbers");
    servers.start(&blocks_of_two[0]);
    if servers.0["north"].version() < 16 {
        println!("SKIPPED: two-way replication needs PostgreSQL 16");
        return;
    }
    servers.run(blocks_of_two);
    for name in ["north", "south"] {
        assert_eq!(servers.all::<i64>(name, "SELECT id FROM customer ORDER BY 1"), [1, 1025]);
        let keys = "SELECT id FROM invoice ORDER BY id COLLATE \"C\"";
        assert_eq!(servers.all::<String>(name, keys), ["invoice/North/1", "invoice/South/1025"]);
        assert_eq!(servers.all::<String>(name, FOUND), Vec::<String>::new());
    }
    servers.run(vec![renumber]);
    let insert =
        "INSERT INTO customer (name) SELECT 'n' FROM generate_series(1, 2000) RETURNING id";
    assert_eq!(servers.all::<i64>("south", insert)[0], 100_000 + 10_240);
    assert_eq!(servers.all::<i64>("north", insert)[0], 100_000);

    let mut refused = 0;
    for block in blocks("A third server") {
        let connected = block.text.contains("SUBSCRIPTION south_from_west");
        servers.run(vec![block]);
        if connected {
            let mut west = servers.0["west"].connect("postgres");
            west.refusal("SELECT hilo_nextval('customer')").is("55000").says("hilo.node_count = 2");
            refused += 1;
        }
    }
    assert_eq!(refused, 1);
    let mut firsts = Vec::new();
    for name in ["west", "north", "south"] {
        firsts.push(servers.all::<i64>(name, insert)[0]);
        servers.wait_for_replication();
    }
    assert_eq!(firsts, [10_020_480, 10_000_000, 10_010_240]);
    for name in ["north", "south", "west"] {
        let count = "SELECT count(*) FROM customer";
        assert_eq!(servers.all::<i64>(name, count), [2 + 2 * 2_000 + 3 * 2_000], "{name}");
        assert_eq!(servers.all::<String>(name, FOUND), Vec::<String>::new());
    }
}

/// A sequence that a client carries from one server to the other is numbered by both alike.
#[test]
fn sequences_that_are_not_replicated() {
    let mut servers = Servers::default();
    servers.run(blocks("Sequences that are not replicated"));
    let draw = "SELECT hilo_nextval('customer')";
    assert_eq!(servers.all::<i64>("two", draw), [1025]);
    assert_eq!(servers.all::<i64>("one", draw), [1]);
    servers.0.into_values().for_each(|cluster| cluster.finish());
}

/// The failover of the document, with the primary killed before it, and the way back.
#[test]
fn a_replica_takes_over() {
    let mut there = blocks("A replica that takes over");
    let failover = there.pop().expect("the failover");
    let mut servers = Servers::default();
    servers.run(there);
    let ids = "SELECT id FROM customer ORDER BY id";
    assert_eq!(servers.all::<i64>("replica", ids), (1..=100).collect::<Vec<_>>());
    servers.0["primary"].kill9_postmaster();
    servers.run(vec![failover]);
    let ids = servers.all::<i64>("replica", ids);
    assert_eq!(ids.len(), 101);
    assert!(ids[100] > 1_000_000, "one block of a million is passed over: {}", ids[100]);
    // Together with what the primary had in memory.
    let skipped =
        servers.all::<i64>("replica", "SELECT count FROM hilo_gaps WHERE count > 1000000");
    assert!(matches!(skipped[..], [1_048_576..2_000_000]), "{skipped:?}");
    let last = ids[100];

    let mut back = blocks("The old primary comes back");
    let failover = back.pop().expect("the way back");
    servers.0["primary"].start();
    servers.run(back);
    let insert = "INSERT INTO customer (name) SELECT 'n' FROM generate_series(1, 50)";
    servers.0["replica"].connect("postgres").run(insert);
    servers.wait_for_replication();
    servers.0["replica"].kill9_postmaster();
    servers.run(vec![failover]);
    let ids = servers.all::<i64>("primary", "SELECT id FROM customer ORDER BY id");
    assert_eq!(ids.len(), 152);
    assert_eq!(ids[100..151], (last..last + 51).collect::<Vec<_>>());
    assert!(ids[151] > last + 1_000_000, "one block is passed over again: {}", ids[151]);
}

/// A replica whose primary was stopped cleanly continues with the very next number.
#[test]
fn a_replica_takes_over_on_purpose() {
    let mut there = blocks("A replica that takes over");
    there.pop().expect("the failover");
    let mut servers = Servers::default();
    servers.run(there);
    let mut handing_over = blocks("Handing over on purpose");
    let afterwards = handing_over.pop().expect("what follows the stop");
    servers.run(handing_over);
    servers.0["primary"].connect("postgres").run("SELECT hilo_nextval('customer')");
    servers.0["primary"].stop(Mode::Fast);
    servers.run(vec![afterwards]);
    let ids = "SELECT id FROM customer ORDER BY id DESC LIMIT 1";
    assert_eq!(servers.all::<i64>("replica", ids), [102]);
    assert_eq!(servers.all::<i64>("replica", "SELECT count(*) FROM hilo_gaps"), [0]);
}
