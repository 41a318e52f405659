//! "A third server" of docs/multi-node.md loses no row and serves nothing twice, while clients continue to write
//! to the other two, and whatever lags behind.

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering::*};
use std::thread;

use fastrand::Rng;
use hilo_tests::recipe::{Servers, blocks};
use hilo_tests::{ClientExt, Cluster, Ends, LONG, Seen, Way, wait_until};

/// The rows that any client saw: numbers of customers, those among them that were inserted, and
/// keys of invoices.
struct Book {
    numbers: Seen,
    customers: Mutex<BTreeSet<i64>>,
    invoices: Mutex<Vec<String>>,
    stop: AtomicBool,
}

impl Book {
    fn new() -> Book {
        Book {
            numbers: Seen::new(Way::Rising),
            customers: Mutex::default(),
            invoices: Mutex::default(),
            stop: AtomicBool::new(false),
        }
    }

    /// Inserts, changes what it has inserted, and draws until it is to stop, as a client that thinks now
    /// and then.
    fn write(&self, cluster: &Cluster, seed: u64) {
        let mut client = cluster.connect("postgres");
        let mut rng = Rng::with_seed(seed);
        let mut session = self.numbers.session();
        let mut own = Vec::new();
        while !self.stop.load(Relaxed) {
            let count = rng.usize(1..10);
            let of = format!("FROM generate_series(1, {count})");
            match rng.usize(0..4) {
                0 => session.saw(&client.all(&format!("SELECT hilo_nextval('customer') {of}"))),
                1 => {
                    let sql = format!("INSERT INTO customer (name) SELECT 'c' {of} RETURNING id");
                    let ids: Vec<i64> = client.all(&sql);
                    session.saw(&ids);
                    own.extend(&ids);
                    self.customers.lock().unwrap().extend(ids);
                }
                2 if !own.is_empty() => {
                    let id: i64 = own[rng.usize(..own.len())];
                    client.run(&format!("UPDATE customer SET name = name || 'x' WHERE id = {id}"));
                }
                _ => {
                    let sql = format!("INSERT INTO invoice (customer) SELECT 1 {of} RETURNING id");
                    self.invoices.lock().unwrap().extend(client.all::<String>(&sql));
                }
            }
            client.run("SELECT pg_sleep(0.005)");
        }
    }

    fn wait_for_more(&self) {
        let before = self.numbers.count();
        wait_until("200 more numbers are drawn", LONG, || self.numbers.count() > before + 200);
    }

    /// Everything that was inserted is on each server, and no client saw anything twice.
    fn check(&self, servers: &Servers) {
        self.numbers.assert_unique();
        let invoices = self.invoices.lock().unwrap();
        let keys: BTreeSet<String> = invoices.iter().cloned().collect();
        assert_eq!(keys.len(), invoices.len(), "keys twice");
        let customers = self.customers.lock().unwrap();
        let content =
            "SELECT c::text FROM customer c UNION ALL SELECT i::text FROM invoice i ORDER BY 1";
        let north: Vec<String> = servers.all("north", content);
        for (name, cluster) in &servers.0 {
            let mut client = cluster.connect("postgres");
            let what =
                format!("{name} has {} customers and {} invoices", customers.len(), keys.len());
            let counts = "SELECT count(*) FROM customer UNION ALL SELECT count(*) FROM invoice";
            let all = [customers.len() as i64, keys.len() as i64];
            let mut there = Vec::new();
            wait_until(&what, LONG, || {
                let now = client.all::<i64>(counts);
                if now != there {
                    println!("{name}: {now:?}");
                    there = now;
                }
                there == all
            });
            let ids: BTreeSet<i64> = client.all("SELECT id FROM customer").into_iter().collect();
            assert!(ids == *customers, "{name} has other customers");
            let ids: BTreeSet<String> = client.all("SELECT id FROM invoice").into_iter().collect();
            assert!(ids == keys, "{name} has other invoices");
            assert!(client.all::<String>(content) == north, "{name} and north differ");
        }
    }
}

/// Why north has not got what south has written.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Lag {
    Load,
    Disabled,
    Locked,
}

fn a_third_server_joins(lag: Lag) {
    let mut servers = Servers::default();
    let mut two = blocks("Two servers that replicate to each other");
    two.pop().expect("the change of the numbers");
    servers.start(&two[0]);
    if servers.0["north"].version() < 16 {
        println!("SKIPPED: two-way replication needs PostgreSQL 16");
        return;
    }
    servers.run(two);
    let book = Book::new();
    {
        let mut north = servers.0["north"].connect("postgres");
        book.customers.lock().unwrap().extend(north.all::<i64>("SELECT id FROM customer"));
        book.invoices.lock().unwrap().extend(north.all::<String>("SELECT id FROM invoice"));
    }
    let third = blocks("A third server");
    // Before the writers borrow the servers.
    servers.start(third.iter().find(|block| block.servers == ["west"]).expect("west is set up"));
    let servers = &servers;
    let (north, south) = (&servers.0["north"], &servers.0["south"]);
    let book = &book;
    thread::scope(|scope| {
        let _ends = Ends(&book.stop);
        scope.spawn(|| book.write(north, 1));
        scope.spawn(|| book.write(south, 2));
        book.wait_for_more();
        let mut holder = north.connect("postgres");
        match lag {
            Lag::Load => {}
            Lag::Disabled => holder.run("ALTER SUBSCRIPTION from_south DISABLE"),
            Lag::Locked => {
                holder.run("BEGIN; SELECT FROM customer WHERE id = 1 FOR UPDATE");
                south.connect("postgres").run("UPDATE customer SET name = 'A' WHERE id = 1");
                let waits = "SELECT EXISTS (SELECT FROM pg_stat_activity
                                             WHERE backend_type LIKE 'logical replication%'
                                               AND wait_event_type = 'Lock')";
                let mut client = north.connect("postgres");
                wait_until("the subscription waits", LONG, || client.one::<bool>(waits));
            }
        }
        book.wait_for_more();
        let over = AtomicBool::new(false);
        thread::scope(|scope| {
            let _ends = Ends(&over);
            if lag == Lag::Locked {
                let over = &over;
                scope.spawn(move || {
                    let held =
                        "SELECT subenabled FROM pg_subscription WHERE subname = 'from_south'";
                    let mut client = north.connect("postgres");
                    wait_until("the recipe waits for the lock", LONG * 3, || {
                        over.load(Relaxed) || !client.one::<bool>(held)
                    });
                    book.wait_for_more();
                    holder.run("COMMIT");
                });
            }
            for block in &third {
                servers.run_block(block, |_| {});
                book.wait_for_more();
            }
        });
        // Whoever had disabled it enables it, if the recipe has not.
        north.connect("postgres").run("ALTER SUBSCRIPTION from_south ENABLE");
        scope.spawn(|| book.write(&servers.0["west"], 3));
        book.wait_for_more();
        book.wait_for_more();
    });
    servers.wait_for_replication();
    book.check(servers);
    if lag == Lag::Locked {
        let changed = "SELECT name FROM customer WHERE id = 1";
        assert_eq!(servers.all::<String>("west", changed), ["A"]);
    }
    for name in ["north", "south", "west"] {
        let found = "SELECT what FROM hilo_check() WHERE object NOT LIKE 'setting f%' AND severity <> 'note'";
        assert_eq!(servers.all::<String>(name, found), Vec::<String>::new(), "{name}");
    }
}

/// Clients write to north and south all the time.
#[test]
fn a_constant_load_loses_nothing() {
    a_third_server_joins(Lag::Load);
}

/// The same where the server that is copied from has not been applying for a while.
#[test]
fn a_disabled_subscription_loses_nothing() {
    a_third_server_joins(Lag::Disabled);
}

/// The same where it waits for a lock.
#[test]
fn a_blocked_subscription_loses_nothing() {
    a_third_server_joins(Lag::Locked);
}
