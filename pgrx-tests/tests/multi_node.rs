//! docs/multi-node.md does what it says: its commands for several servers run as printed.
//!
//! A block of kind ```text that begins with `-- on …` is SQL for these servers, one that begins with
//! `# postgresql.conf of …` their configuration. `host=north` stands for that server's address.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use hilo_tests::{ClientExt, Cluster, LONG, wait_until};

/// What a block is for, and its lines.
struct Block {
    servers: Vec<String>,
    configuration: bool,
    text: String,
}

/// The blocks for servers below one heading of the document.
fn blocks(heading: &str) -> Vec<Block> {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/multi-node.md");
    let text = fs::read_to_string(file).expect("cannot read the document");
    let section = text
        .split("\n## ")
        .find(|section| section.starts_with(heading))
        .unwrap_or_else(|| panic!("there is no section {heading}"));
    let mut blocks = Vec::new();
    for part in section.split("```text\n").skip(1) {
        let body = part.split("```").next().unwrap_or_default();
        let lines: Vec<&str> = body.lines().map(str::trim).collect();
        let (first, rest) = lines.split_first().expect("a block has lines");
        let (configuration, servers) = match first.strip_prefix("-- on ") {
            Some(servers) => (false, servers),
            None => (true, first.strip_prefix("# postgresql.conf of ").expect("it is for servers")),
        };
        let servers = servers.replace(" and ", ", ").replace("the ", "");
        let servers = servers.split(", ").map(str::to_owned).collect();
        blocks.push(Block { servers, configuration, text: rest.join("\n") });
    }
    assert!(!blocks.is_empty());
    blocks
}

/// What is found, but for the speed of a test server.
const FOUND: &str = "SELECT what FROM hilo_check() WHERE object NOT IN ('setting fsync', 'setting full_page_writes')";

#[derive(Default)]
struct Servers(BTreeMap<String, Cluster>);

impl Servers {
    /// Starts those that are not there; the configuration of a block is theirs.
    fn take(&mut self, block: &Block) {
        for name in &block.servers {
            let settings: Vec<(String, String)> = match block.configuration {
                true => {
                    block.text.lines().filter_map(|line| line.split_once(" = ")).map(own).collect()
                }
                false => Vec::new(),
            };
            match self.0.get(name) {
                Some(cluster) => reload(cluster, &settings),
                None => {
                    let builder = Cluster::builder().logical().preload(true);
                    let builder = settings
                        .iter()
                        .fold(builder, |builder, (name, value)| builder.config(name, value));
                    self.0.insert(name.clone(), builder.start());
                }
            }
        }
    }

    /// Runs the blocks in order; what one has written has arrived everywhere before the next.
    fn run(&mut self, blocks: Vec<Block>) {
        for block in blocks {
            self.take(&block);
            if block.configuration {
                continue;
            }
            let addresses = self.0.iter().fold(block.text.clone(), |text, (name, cluster)| {
                text.replace(&format!("host={name} dbname=postgres"), &cluster.address())
            });
            for name in &block.servers {
                self.0[name].restore("postgres", &addresses);
                self.settle();
            }
        }
    }

    /// Waits until all that was written has arrived.
    fn settle(&self) {
        for cluster in self.0.values().filter(|cluster| cluster.is_running()) {
            let mut client = cluster.connect("postgres");
            cluster.wait_for_copy();
            for subscription in client.all::<String>(
                "SELECT slot_name::text FROM pg_replication_slots WHERE slot_name !~ '_sync_'",
            ) {
                cluster.wait_for_apply(&subscription);
            }
        }
    }

    fn all<T: postgres::types::FromSqlOwned>(&self, name: &str, sql: &str) -> Vec<T> {
        self.0[name].connect("postgres").all(sql)
    }
}

fn own((name, value): (&str, &str)) -> (String, String) {
    (name.to_owned(), value.trim_matches('\'').to_owned())
}

fn reload(cluster: &Cluster, settings: &[(String, String)]) {
    settings.iter().for_each(|(name, value)| cluster.configure(name, value));
    cluster.reload();
    let mut client = cluster.connect("postgres");
    for (name, value) in settings {
        let taken = format!("SELECT current_setting('{name}') = '{value}'");
        wait_until("the settings are taken up", LONG, || client.one::<bool>(&taken));
    }
}

/// Two servers, and then a third.
#[test]
fn servers_that_replicate_to_each_other() {
    let mut servers = Servers::default();
    let mut blocks_of_two = blocks("Two servers that replicate to each other");
    let anew = blocks_of_two.pop().expect("the change of the numbers");
    servers.take(&blocks_of_two[0]);
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
    servers.run(vec![anew]);
    let insert =
        "INSERT INTO customer (name) SELECT 'n' FROM generate_series(1, 2000) RETURNING id";
    assert_eq!(servers.all::<i64>("south", insert)[0], 100_000 + 10_240);
    assert_eq!(servers.all::<i64>("north", insert)[0], 100_000);

    let blocks = blocks("A third server");
    let mut refused = 0;
    for block in blocks {
        let connected = block.servers == ["south"] && !block.configuration;
        servers.run(vec![block]);
        if connected {
            let mut west = servers.0["west"].connect("postgres");
            west.refusal("SELECT hilo_nextval('customer')").is("55000").says("among 2 nodes");
            refused += 1;
        }
    }
    assert_eq!(refused, 1);
    let mut firsts = Vec::new();
    for name in ["west", "north", "south"] {
        firsts.push(servers.all::<i64>(name, insert)[0]);
        servers.settle();
    }
    assert_eq!(firsts, [10_020_480, 10_000_000, 10_010_240]);
    for name in ["north", "south", "west"] {
        let count = "SELECT count(*) FROM customer";
        assert_eq!(servers.all::<i64>(name, count), [2 + 2 * 2_000 + 3 * 2_000], "{name}");
        assert_eq!(servers.all::<String>(name, FOUND), Vec::<String>::new());
    }
}

/// The failover of the document, with the primary killed before it, and the way back.
#[test]
fn a_replica_takes_over() {
    let mut blocks = blocks("A replica that takes over");
    let failover = blocks.pop().expect("the failover");
    let mut servers = Servers::default();
    servers.run(blocks);
    let ids = "SELECT id FROM customer ORDER BY id";
    assert_eq!(servers.all::<i64>("replica", ids), (1..=100).collect::<Vec<_>>());
    servers.0["primary"].kill9_postmaster();
    servers.run(vec![failover]);
    let ids = servers.all::<i64>("replica", ids);
    assert_eq!(ids.len(), 101);
    assert!(ids[100] > 1_000_000, "one block of a million is passed over: {}", ids[100]);
    assert_eq!(
        servers.all::<i64>("replica", "SELECT count FROM hilo_gaps WHERE count > 1000000"),
        [1_048_576]
    );
    let last = ids[100];

    let mut blocks = self::blocks("The old primary comes back");
    let failover = blocks.pop().expect("the way back");
    servers.0["primary"].start();
    servers.run(blocks);
    let insert = "INSERT INTO customer (name) SELECT 'n' FROM generate_series(1, 50)";
    servers.0["replica"].connect("postgres").run(insert);
    servers.settle();
    servers.0["replica"].kill9_postmaster();
    servers.run(vec![failover]);
    let ids = servers.all::<i64>("primary", "SELECT id FROM customer ORDER BY id");
    assert_eq!(ids.len(), 152);
    assert_eq!(ids[100..151], (last..last + 51).collect::<Vec<_>>());
    assert!(ids[151] > last + 1_000_000, "one block is passed over again: {}", ids[151]);
}
