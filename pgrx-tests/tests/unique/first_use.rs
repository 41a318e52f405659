//! The cost of the first use of a sequence: one reservation, with which hilo.auto_create makes it.

use hilo_tests::{Client, ClientExt, Cluster, LONG, wait_until};

/// The reservations, the waits for a block, and whether another block is wanted.
fn costs(client: &mut Client, name: &str) -> (i64, i64, bool) {
    let row = client
        .query_one(
            "SELECT blocks_reserved, waits, refill_wanted FROM hilo_stat_sequences WHERE name = $1",
            &[&name],
        )
        .expect("it is in memory");
    (row.get(0), row.get(1), row.get(2))
}

/// The first block lasts beyond the threshold, so the first value does not make the worker reserve another.
#[test]
fn a_first_use_reserves_once() {
    let cluster = Cluster::with_hilo();
    let mut client = cluster.connect("postgres");
    for name in ["a", "b", "c"] {
        client.run(&format!("SELECT hilo_create('{name}')"));
        assert_eq!(client.draw(name, 1), [1]);
    }
    // The worker has served c since, and would have served what a and b wanted.
    for name in ["a", "b"] {
        assert_eq!(costs(&mut client, name), (1, 1, false), "{name}");
    }
    cluster.finish();
}

/// A sequence that comes into being at its first use comes with its first block: the caller waits for one commit.
#[test]
fn an_automatic_sequence_comes_with_its_first_block() {
    let cluster = Cluster::builder().config("hilo.auto_create", "on").start_with_hilo();
    let mut client = cluster.connect("postgres");
    for name in ["a", "b", "c"] {
        assert_eq!(client.draw(name, 1), [1]);
        assert_eq!(costs(&mut client, name), (1, 1, false), "{name}");
    }
    cluster.finish();
}

/// All that was reserved is accounted for, also where no slot was free for the new sequence.
#[test]
fn automatic_sequences_without_room_in_memory() {
    let cluster = Cluster::builder()
        .config("hilo.auto_create", "on")
        .config("hilo.max_sequences", "16")
        .start_with_hilo();
    let mut client = cluster.connect("postgres");
    for round in 1..=2 {
        for number in 0..20 {
            assert_eq!(client.draw(&format!("tenant {number}"), 1), [round]);
        }
    }
    cluster.finish();
}

/// A session that uses many sequences one after the other, for the first time since the server's
/// start, waits for a few of them. The worker reads ahead. A block that nobody has used is returned
/// at the stop like all else.
#[test]
fn sequences_that_follow_are_read_ahead() {
    let cluster = Cluster::with_hilo();
    let mut client = cluster.connect("postgres");
    client.run(
        "SELECT hilo_create('many-' || to_char(n, 'FM000')) FROM generate_series(1, 300) n;
         SELECT hilo_create('invoices', gapless => true)",
    );
    drop(client);
    cluster.restart();
    let mut client = cluster.connect("postgres");
    // How many are in memory, unless one of them is still being read.
    let ready = "SELECT CASE WHEN every(blocks_reserved > 0) THEN count(*) ELSE 0 END FROM hilo_stat_sequences";
    let waits = "SELECT sum(waits)::bigint FROM hilo_stat_sequences";
    let draw = |client: &mut Client, from: i64, to: i64| {
        client.all::<i64>(&format!(
            "SELECT hilo_nextval('many-' || to_char(n, 'FM000')) FROM generate_series({from}, {to}) n"
        ))
    };
    // Three in a row may be chance.
    assert_eq!(draw(&mut client, 1, 3), [1; 3]);
    // The worker has served another wait since.
    client.run("SELECT hilo_nextrange('many-001', 10000)");
    assert_eq!(client.one::<i64>("SELECT count(*) FROM hilo_stat_sequences"), 3);
    // Each use may be the one that makes the worker read ahead.
    let mut used = 3;
    while client.one::<i64>(ready) <= used {
        used += 1;
        assert_eq!(draw(&mut client, used, used), [1]);
    }
    let (ahead, waited) = (client.one::<i64>(ready), client.one::<i64>(waits));
    assert_eq!(draw(&mut client, used + 1, ahead), vec![1; (ahead - used) as usize]);
    assert_eq!(client.one::<i64>(waits), waited, "{used} were used and {ahead} ready");
    // All are served from their beginning.
    assert_eq!(draw(&mut client, ahead + 1, 300), vec![1; (300 - ahead) as usize]);
    drop(client);
    cluster.restart();
    let mut client = cluster.connect("postgres");
    assert_eq!(draw(&mut client, 1, 300)[1..], [2; 299]);
    assert_eq!(client.one::<i64>("SELECT count(*) FROM hilo_gaps"), 0);
    cluster.finish();
}

/// Names that end in a number count on, in an order that is not that of their bytes. Gaps between
/// the numbers do no harm. A session that does not hurry waits once for all that are fetched
/// together.
#[test]
fn names_that_count_on_are_read_ahead() {
    let cluster = Cluster::with_hilo();
    let mut client = cluster.connect("postgres");
    client
        .run("SELECT hilo_create('tenant-' || n) FROM generate_series(1, 1200) n WHERE n % 7 <> 0");
    client.run("SELECT hilo_create('other-' || n) FROM generate_series(1, 300) n");
    drop(client);
    cluster.restart();
    let mut client = cluster.connect("postgres");
    let mut watcher = cluster.connect("postgres");
    let unfinished =
        "SELECT count(*) FROM hilo_stat_sequences WHERE refill_wanted OR blocks_reserved = 0";
    for number in (1..=1200).filter(|number| number % 7 != 0) {
        assert_eq!(client.draw(&format!("tenant-{number}"), 1), [1]);
        wait_until("nothing is wanted", LONG, || watcher.one::<i64>(unfinished) == 0);
    }
    let waits = client.one::<i64>("SELECT sum(waits)::bigint FROM hilo_stat_sequences");
    assert!(waits < 30, "{waits} waits");
    // None of them takes more than its first block.
    let blocks = "SELECT max(blocks_reserved) FROM hilo_stat_sequences";
    assert_eq!(client.one::<i64>(blocks), 1);
    let others = "SELECT count(*) FROM hilo_stat_sequences WHERE name LIKE 'other-%'";
    assert_eq!(client.one::<i64>(others), 0);
    cluster.finish();
}

/// A session may use sequences up faster than the worker reads ahead. It waits for few of those that
/// are fetched together.
#[test]
fn a_session_that_hurries_waits_for_few() {
    let cluster = Cluster::with_hilo();
    let mut client = cluster.connect("postgres");
    client.run("SELECT count(hilo_create('tenant-' || n)) FROM generate_series(1, 4000) n");
    let drawn = "SELECT count(hilo_nextval('tenant-' || n)) FROM generate_series(1, 4000) n";
    assert_eq!(client.one::<i64>(drawn), 4000);
    let waits = client.one::<i64>("SELECT sum(waits)::bigint FROM hilo_stat_sequences");
    assert!(waits < 200, "{waits} waits");
    cluster.finish();
}

/// How many rows of `_hilo.hilo_definition` and `_hilo.hilo_position` are read for each of 1,000 sequences, which are used in this
/// order. The server has just started.
fn rows_read(cluster: &Cluster, database: &str, order: &str) -> i64 {
    let mut client = cluster.connect(database);
    let read = "SELECT sum(idx_tup_fetch)::bigint / 1000 FROM pg_stat_all_tables
                WHERE relid IN ('_hilo.hilo_definition'::regclass, '_hilo.hilo_position'::regclass)";
    let before = client.one::<i64>(read);
    let drawn = format!(
        "SELECT count(hilo_nextval('tenant-' || n))
         FROM (SELECT n FROM generate_series(1, 1000) n ORDER BY {order}) AS used (n)"
    );
    assert_eq!(client.one::<i64>(&drawn), 1000);
    drop(client);
    // All processes have told the statistics then.
    cluster.restart();
    cluster.connect(database).one::<i64>(read) - before
}

/// Whoever uses sequences in an order that nobody foresees is not held up by what is read ahead in vain.
#[test]
fn little_is_read_ahead_in_vain() {
    let cluster = Cluster::with_hilo();
    let mut client = cluster.connect("postgres");
    client.run("SELECT count(hilo_create('tenant-' || n)) FROM generate_series(1, 1000) n");
    drop(client);
    cluster.restart();
    let read = rows_read(&cluster, "postgres", "-n");
    assert!(read < 100, "{read} rows for each, backwards");
    cluster.finish();
}

/// A restored position is taken over by the session that uses it, and not read ahead.
#[test]
fn restored_positions_are_not_read_ahead_again_and_again() {
    let cluster = Cluster::with_hilo();
    let mut client = cluster.connect("postgres");
    client.run("SELECT count(hilo_create('tenant-' || n)) FROM generate_series(1, 1000) n");
    client.run("CREATE DATABASE restored");
    cluster.restore("restored", &cluster.pg_dump("postgres", &[]));
    drop(client);
    cluster.restart();
    let read = rows_read(&cluster, "restored", "n");
    assert!(read < 20, "{read} rows for each");
    cluster.finish();
}

/// A source gives values for good. It is asked for those of sequences that are used, and no others.
#[test]
fn no_source_is_asked_ahead() {
    let cluster = Cluster::with_hilo();
    let mut client = cluster.connect("postgres");
    client.run(
        "CREATE SEQUENCE counter;
         SELECT hilo_create('own'), count(hilo_create('many-' || n, source =>
             'SELECT n * 1000 + 1, n * 1000 + 1000 FROM nextval(''public.counter'') n'))
         FROM generate_series(1, 60) n",
    );
    for number in 1..=12 {
        client.draw(&format!("many-{number}"), 1);
    }
    // The worker has served another wait since.
    client.draw("own", 1);
    let ahead = "SELECT count(*) - 13 FROM hilo_stat_sequences";
    assert!(client.one::<i64>(ahead) > 0, "none is read ahead");
    let asked = "SELECT count(*) FROM hilo_stat_sources WHERE requested > 0";
    assert_eq!(client.one::<i64>(asked), 12);
    cluster.finish();
}

/// Without hilo.prefetch nothing is reserved before somebody needs it.
#[test]
fn nothing_is_read_ahead_without_prefetch() {
    let cluster = Cluster::builder().config("hilo.prefetch", "off").start_with_hilo();
    let mut client = cluster.connect("postgres");
    client.run("SELECT hilo_create('many-' || n) FROM generate_series(1, 100) n");
    client.run("SELECT hilo_nextval('many-' || n) FROM generate_series(1, 20) n");
    client.run("SELECT hilo_nextrange('many-1', 10000)");
    assert_eq!(client.one::<i64>("SELECT count(*) FROM hilo_stat_sequences"), 20);
    cluster.finish();
}

/// A session that waits for a lock is one first use, however often the worker tries again.
#[test]
fn a_locked_sequence_is_one_first_use() {
    let cluster = Cluster::with_hilo();
    let mut client = cluster.connect("postgres");
    client.run("SELECT hilo_create('many-' || n) FROM generate_series(1, 100) n");
    client.run("BEGIN; SELECT hilo_setval('many-1', 100)");
    let waiting = std::thread::spawn({
        let mut other = cluster.connect("postgres");
        move || other.draw("many-1", 1)
    });
    let mut watcher = cluster.connect("postgres");
    let errors = "SELECT coalesce(sum(errors), 0)::bigint FROM hilo_stat_sequences";
    wait_until("it is tried again", LONG, || watcher.one::<i64>(errors) >= 8);
    client.run("ROLLBACK");
    assert_eq!(waiting.join().expect("it is served"), [1]);
    assert_eq!(watcher.one::<i64>("SELECT count(*) FROM hilo_stat_sequences"), 1);
    cluster.finish();
}

/// A crash loses one small block of a sequence that was read ahead and that nobody has used. It loses nothing of one whose own
/// blocks are large, and nothing where first uses are in no order.
#[test]
fn a_crash_loses_little_of_what_nobody_has_used() {
    let cluster = Cluster::with_hilo();
    let mut client = cluster.connect("postgres");
    client.run(
        "SELECT hilo_create('mixed-' || n), hilo_create('small-' || n), hilo_create('large-' || n, block_size => 100000)
           FROM generate_series(1, 300) n",
    );
    let mixed = |n: i64| 1 + n * 97 % 300;
    for (kind, place) in [("mixed", mixed as fn(i64) -> i64), ("small", |n| n), ("large", |n| n)] {
        (1..=12).for_each(|n| assert_eq!(client.draw(&format!("{kind}-{}", place(n)), 1), [1]));
    }
    let unfinished =
        "SELECT count(*) FROM hilo_stat_sequences WHERE refill_wanted OR blocks_reserved = 0";
    wait_until("nothing is wanted", LONG, || client.one::<i64>(unfinished) == 0);
    let reserved = |client: &mut Client, kind: &str| -> Vec<i64> {
        client.all(&format!(
            "SELECT DISTINCT next_index FROM _hilo.hilo_position p
              JOIN _hilo.hilo_definition d ON d.id = p.sequence JOIN hilo_stat_sequences s USING (name)
              WHERE name LIKE '{kind}-%' AND s.served = 0"
        ))
    };
    assert_eq!(reserved(&mut client, "mixed"), Vec::<i64>::new());
    assert_eq!(reserved(&mut client, "small"), [32]);
    assert_eq!(reserved(&mut client, "large"), Vec::<i64>::new());
    cluster.finish();
}
