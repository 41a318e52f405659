//! "A switch without a stop" of docs/multi-node.md, with clients that draw until they are locked
//! out. It goes from the older server, if there is one, to the server under test.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering::*};
use std::thread;

use hilo_tests::recipe::{BlockKind, Servers, blocks};
use hilo_tests::{ClientExt, Cluster, LONG, Mode, SERVER, wait_until};

const NAMES: [&str; 4] = ["adaptive", "blocks", "ordered", "falling"];
const MORE: &str = "SELECT hilo_create('adaptive'), hilo_create('blocks', block_size => 50),
                           hilo_create('ordered', ordered => true), hilo_create('falling', increment => -3)";

/// The values that clients saw, by sequence; for all of them together how much a lost answer may
/// have held.
#[derive(Default)]
struct Book {
    seen: Mutex<BTreeMap<&'static str, Vec<i64>>>,
    count: AtomicUsize,
    lost: AtomicUsize,
}

impl Book {
    fn saw(&self, name: &'static str, values: Vec<i64>) {
        self.count.fetch_add(values.len(), Relaxed);
        self.seen.lock().unwrap().entry(name).or_default().extend(values);
    }

    /// Inserts and draws as an application does, until it is shut out.
    fn write_until_shut_out(&self, cluster: &Cluster, number: usize) {
        let mut client = cluster.connect_as("app", "postgres");
        for turn in number.. {
            let count = 1 + turn % 7;
            let of = format!("FROM generate_series(1, {count})");
            let (name, sql) = match turn % 5 {
                4 => ("customer", format!("INSERT INTO customer SELECT {of} RETURNING id")),
                kind => (NAMES[kind], format!("SELECT hilo_nextval('{}') {of}", NAMES[kind])),
            };
            match client.query(&sql, &[]) {
                Ok(rows) => self.saw(name, rows.iter().map(|row| row.get(0)).collect()),
                Err(_) => {
                    self.lost.fetch_add(count, Relaxed);
                    break;
                }
            }
        }
        let refused = cluster.try_connect("app", "postgres").err().expect("it is shut out");
        assert_eq!(refused.code().map(|code| code.code()), Some("53300"), "{refused:?}");
    }
}

#[test]
fn sequences_continue_with_the_very_next_number() {
    let mut servers = Servers::default();
    let older = Cluster::builder().logical().start_older();
    let old = older.unwrap_or_else(|| Cluster::builder().logical().preload(true).start());
    servers.0.insert("old".to_owned(), old);
    servers.0.insert("new".to_owned(), Cluster::builder().logical().preload(true).start());
    for cluster in servers.0.values() {
        cluster.connect("postgres").run("CREATE ROLE app LOGIN");
    }
    let mut blocks = blocks("A switch without a stop");
    let at = |text: &str, blocks: &[_]| {
        blocks
            .iter()
            .position(|block: &hilo_tests::recipe::Block| block.text.contains(text))
            .unwrap_or_else(|| panic!("there is no {text}"))
    };
    let mut switch = blocks.split_off(at("CONNECTION LIMIT 0", &blocks));
    let afterwards = switch.pop().expect("the first one there");
    assert!(switch.iter().any(|block| block.kind == BlockKind::Shell));
    for block in &blocks {
        servers.run_block(block, |_| {});
    }
    let mut client = servers.0["old"].connect("postgres");
    client.run(MORE);
    for name in NAMES {
        client.run(&format!("SELECT hilo_grant('{name}', 'app', 'USAGE')"));
    }
    client.run("SELECT hilo_grant('customer', 'app', 'USAGE'); GRANT ALL ON customer TO app");
    drop(client);

    let book = Book::default();
    book.saw("customer", (1..=100).collect());
    thread::scope(|scope| {
        for number in 0..6 {
            let (book, old) = (&book, &servers.0["old"]);
            scope.spawn(move || book.write_until_shut_out(old, number));
        }
        wait_until("20,000 rows are written", LONG, || book.count.load(Relaxed) > 20_000);
        for block in &switch {
            servers.run_block(block, |_| {});
        }
    });
    servers.0["old"].stop(Mode::Fast);
    servers.run_block(&afterwards, |_| {});

    let lost = book.lost.load(Relaxed) as i64;
    let mut new = servers.0["new"].connect("postgres");
    let mut seen = book.seen.into_inner().unwrap();
    let ids: Vec<i64> = new.all("SELECT id FROM customer");
    let inserted = ids.len() - seen["customer"].len();
    assert!(inserted >= 1 && inserted as i64 <= 1 + lost, "{inserted} rows nobody saw inserted");
    new.run("GRANT ALL ON customer TO app");
    seen.insert("customer", ids);
    let mut app = servers.0["new"].connect_as("app", "postgres");
    for name in NAMES.into_iter().chain(["customer"]) {
        let step = if name == "falling" { -3 } else { 1 };
        let start = if name == "falling" { -1 } else { 1 };
        let before: Vec<i64> = seen[name].iter().map(|value| (value - start) / step).collect();
        let now: Vec<i64> =
            app.draw(name, 10_000).iter().map(|value| (value - start) / step).collect();
        let all: BTreeSet<i64> = before.iter().chain(&now).copied().collect();
        assert_eq!(all.len(), before.len() + now.len(), "{name}: values twice");
        let (top, last) = (before.iter().max().unwrap(), all.last().unwrap());
        let missing = last + 1 - all.len() as i64;
        println!("{name}: {top} before, first {}, {missing} of {lost} missing", now[0]);
        assert!(now[0] <= top + 1 + lost, "{name}: continues with {} after {top}", now[0]);
        assert!((0..=lost).contains(&missing), "{name}: {missing} missing, {lost} lost");
    }
    assert_eq!(new.one::<i64>("SELECT count(*) FROM hilo_gaps"), 0);
    let found =
        "SELECT what FROM hilo_check() WHERE object NOT LIKE 'setting f%' AND severity <> 'note'";
    assert_eq!(new.all::<String>(found), Vec::<String>::new());
    assert_eq!(servers.0["new"].log_count("skipping the next"), 0);
}

/// Core replicates its own sequences from PostgreSQL 19 on. That touches none of hilo's.
#[test]
fn replication_of_cores_sequences_leaves_hilos_alone() {
    if SERVER.version() < 19 {
        println!("SKIPPED: sequences are replicated from PostgreSQL 19 on");
        return;
    }
    let [publisher, subscriber] = [(); 2].map(|()| Cluster::builder().logical().start_with_hilo());
    let (mut there, mut here) = (publisher.connect("postgres"), subscriber.connect("postgres"));
    for client in [&mut there, &mut here] {
        client.run("SELECT hilo_create('numbers'); CREATE SEQUENCE of_core");
    }
    there.draw("numbers", 300);
    there.run("SELECT setval('of_core', 500); CREATE PUBLICATION sequences FOR ALL SEQUENCES");
    subscriber.subscribe("sequences", &publisher, "sequences", "");
    let mut arrives = |value: i64| {
        wait_until("core's sequence arrives", LONG, || {
            here.one::<i64>("SELECT last_value FROM of_core") == value
        });
        assert_eq!(here.one::<i64>("SELECT hilo_nextval('numbers')"), value / 500);
    };
    arrives(500);
    there.run("SELECT setval('of_core', 1000)");
    subscriber.connect("postgres").run("ALTER SUBSCRIPTION sequences REFRESH SEQUENCES");
    arrives(1000);
    assert_eq!(there.one::<i64>("SELECT hilo_nextval('numbers')"), 301);
    subscriber.finish();
    publisher.finish();
}
