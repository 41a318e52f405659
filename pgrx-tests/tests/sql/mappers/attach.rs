//! hilo takes blocks from a mapper's own counter, as the mapper does.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use hilo_tests::{Client, ClientExt, Cluster, Ends, LONG, assert_unique, wait_until};

use crate::mappers::emulated::{MAPPERS, next_block};

const SIZE: i64 = 20;

/// The counter that a mapper makes for itself, and how hilo names it.
fn counter(mapper: &str) -> (&'static str, &'static str) {
    match mapper {
        "marten" => (
            "CREATE TABLE mt_hilo (entity_name varchar PRIMARY KEY, hi_value bigint DEFAULT 0);
             CREATE FUNCTION mt_get_next_hi(entity varchar) RETURNS integer LANGUAGE sql AS $$
                 INSERT INTO mt_hilo AS t VALUES (entity, 0)
                     ON CONFLICT (entity_name) DO UPDATE SET hi_value = t.hi_value + 1
                  RETURNING hi_value::integer $$",
            "mt_hilo",
        ),
        "nhibernate" => (
            "CREATE TABLE hibernate_unique_key (next_hi bigint);
             INSERT INTO hibernate_unique_key VALUES (1)",
            "hibernate_unique_key",
        ),
        table if table.contains("table") => (
            "CREATE TABLE hibernate_sequences (sequence_name varchar PRIMARY KEY, next_val bigint);
             INSERT INTO hibernate_sequences VALUES ('orders', 1)",
            "hibernate_sequences",
        ),
        hi if hi.ends_with("hilo") => ("CREATE SEQUENCE orders", "orders"),
        _ => ("CREATE SEQUENCE orders INCREMENT BY 20", "orders"),
    }
}

/// The mapper and hilo take turns; nothing comes twice, and hilo gets what it wants.
#[test]
fn the_source_of_each_mapper_takes_blocks_as_the_mapper_does() {
    let cluster = Cluster::with_hilo();
    for mapper in MAPPERS {
        let mut client = cluster.connect("postgres");
        let (counter, relation) = counter(mapper);
        client.run(&format!("CREATE SCHEMA \"{mapper}\"; SET search_path = '{mapper}', public"));
        client.run(counter);
        let source: String = client.one(&format!(
            "SELECT _hilo.hilo_source_of('{relation}', '{mapper}', 'orders', {SIZE})"
        ));
        // Before it looks whether the server and the counter are those that it was made for.
        let (_, source) = source.rsplit_once("END; ").expect("two statements");
        client.run(&format!("PREPARE source (text, bigint, uuid, bigint) AS {source}"));
        let mut seen = Vec::new();
        for wanted in [1, 45, 20, 100] {
            let block = next_block(&mut client, mapper, "orders", SIZE);
            seen.extend(block.filter(|value| *value > 0));
            let rows =
                client.query(&format!("EXECUTE source ('orders', {wanted}, NULL, NULL)"), &[]);
            let rows = rows.unwrap_or_else(|error| panic!("{mapper}: {error}"));
            let before = seen.len() as i64;
            for row in rows {
                seen.extend(row.get::<_, i64>(0)..=row.get::<_, i64>(1));
            }
            assert!(seen.len() as i64 - before >= wanted, "{mapper}: {wanted}");
        }
        assert_unique(mapper, &seen);
    }
    cluster.finish();
}

/// A request stays as it is until it is answered. One that takes too long would never be.
#[test]
fn a_request_for_too_many_brings_less() {
    let cluster = Cluster::with_hilo();
    let mut client = cluster.connect("postgres");
    for mapper in ["core", "efcore"] {
        client.run(&format!("CREATE SEQUENCE {mapper}"));
        client.run(&format!("SELECT hilo_attach('{mapper} beside', '{mapper}', '{mapper}')"));
        let source: String =
            client.one(&format!("SELECT _hilo.hilo_source_of('{mapper}', '{mapper}', 'x', 1)"));
        let (_, source) = source.rsplit_once("END; ").expect("two statements");
        client.run(&format!("PREPARE {mapper} (text, bigint, uuid, bigint) AS {source}"));
        let rows = client.query(&format!("EXECUTE {mapper} ('x', 1000000000000, NULL, NULL)"), &[]);
        let rows = rows.unwrap_or_else(|error| panic!("{mapper}: {error}"));
        let brought: i64 =
            rows.iter().map(|row| row.get::<_, i64>(1) - row.get::<_, i64>(0) + 1).sum();
        assert!((1..=1_000_000).contains(&brought), "{mapper}: {brought}");
    }
    cluster.finish();
}

/// Draws until `end` is set; what it has got is kept even if the server is killed meanwhile.
fn insert_until(cluster: &Cluster, table: &str, end: &AtomicBool) {
    while !end.load(Ordering::Relaxed) {
        let Ok(mut client) = cluster.try_connect("postgres", "postgres") else { continue };
        let insert = format!("INSERT INTO {table} (line) SELECT 'x' FROM generate_series(1, 7)");
        while !end.load(Ordering::Relaxed) && client.execute(&insert, &[]).is_ok() {}
    }
}

/// Writers never stop while the defaults of two tables go from a sequence of Postgres to hilo's,
/// one after the other. The server is killed meanwhile, and the old sequence then goes.
#[test]
fn a_sequence_is_migrated_while_writers_draw_from_it() {
    let cluster = Cluster::builder().config("max_worker_processes", "20").start_with_hilo();
    let mut client = cluster.connect("postgres");
    client.run(
        "CREATE SEQUENCE old;
         CREATE TABLE a (id bigint DEFAULT nextval('old') PRIMARY KEY, line text);
         CREATE TABLE b (id bigint DEFAULT nextval('old') PRIMARY KEY, line text)",
    );
    let end = &AtomicBool::new(false);
    let count = |client: &mut Client, table: &str| -> i64 {
        client.one(&format!("SELECT count(*) FROM {table}"))
    };
    let grown = |client: &mut Client| {
        for table in ["a", "b"] {
            let before = count(client, table);
            wait_until("rows are inserted", LONG, || count(client, table) > before + 200);
        }
    };
    thread::scope(|scope| {
        let _ends = Ends(end);
        for table in ["a", "a", "b", "b"] {
            scope.spawn(|| insert_until(&cluster, table, end));
        }
        grown(&mut client);
        client.run("SELECT hilo_attach('new', 'old')");
        client.run("ALTER TABLE a ALTER id SET DEFAULT hilo_nextval('new')");
        grown(&mut client);
        cluster.kill9_postmaster();
        cluster.start();
        client = cluster.connect_when_up("postgres");
        grown(&mut client);
        client.run("ALTER TABLE b ALTER id SET DEFAULT hilo_nextval('new')");
        grown(&mut client);
        client.run("SELECT hilo_detach('new')");
        client.run("DROP SEQUENCE old");
        grown(&mut client);
    });
    let mut ids: Vec<i64> = client.all("SELECT id FROM a UNION ALL SELECT id FROM b");
    ids.extend(client.draw("new", 100));
    assert_unique("a and b", &ids);
    cluster.finish();
}

/// Mappers, SQL and a client that draws from the sequence by itself, all at once on one counter.
#[test]
fn a_mapper_and_hilo_share_its_own_counter() {
    let cluster = Cluster::builder().config("max_worker_processes", "20").start_with_hilo();
    for mapper in ["efcore", "hibernate", "hibernate-pooled-old", "hibernate-table", "marten"] {
        let mut client = cluster.connect("postgres");
        let (counter, relation) = counter(mapper);
        let path = format!("SET search_path = '{mapper}', public");
        client.run(&format!("CREATE SCHEMA \"{mapper}\"; {path}; {counter}"));
        client.run(&format!(
            "SELECT hilo_create('{mapper}', block_size => {SIZE});
             SELECT hilo_attach('{mapper}', '{relation}', '{mapper}', 'orders')"
        ));
        let (cluster, path) = (&cluster, &path);
        let seen: Vec<i64> = thread::scope(|scope| {
            let maps = |_| {
                scope.spawn(move || {
                    let mut client = cluster.connect("postgres");
                    client.run(path);
                    (0..40)
                        .flat_map(|_| next_block(&mut client, mapper, "orders", SIZE))
                        .collect::<Vec<_>>()
                })
            };
            let draws = |_| scope.spawn(|| cluster.connect("postgres").draw(mapper, 1_000));
            let all: Vec<_> = (0..2).map(maps).chain((0..2).map(draws)).collect();
            all.into_iter().flat_map(|one| one.join().expect("it draws")).collect()
        });
        assert_eq!(seen.len(), 2 * 40 * SIZE as usize + 2_000);
        assert_unique(mapper, &seen);
    }
    cluster.finish();
}

/// Whoever finds a fresh counter, with value 1, takes the next block too: hilo leaves it behind.
#[test]
fn no_mapper_finds_a_counter_fresh_after_hilo() {
    let cluster = Cluster::with_hilo();
    let mut client = cluster.connect("postgres");
    client.run("CREATE SEQUENCE s INCREMENT BY 20; SELECT hilo_attach('s', 's', 'hibernate')");
    assert!(client.one::<i64>("SELECT nextval('s')") > 20);
    cluster.finish();
}

/// A counter that cannot be shared is refused when it is attached, and nothing has changed.
#[test]
fn a_counter_that_cannot_be_shared_is_refused() {
    let cluster = Cluster::with_hilo();
    let mut client = cluster.connect("postgres");
    client.run(
        "CREATE SEQUENCE s INCREMENT BY 20; CREATE SEQUENCE cycles CYCLE;
         CREATE SEQUENCE cached CACHE 20; CREATE TEMP SEQUENCE gone;
         CREATE SEQUENCE falls INCREMENT BY -1; CREATE VIEW v AS SELECT 1 AS next_hi;
         CREATE TABLE hibernate_sequences (sequence_name varchar PRIMARY KEY, next_val bigint);
         SELECT hilo_create('known', block_size => 20)",
    );
    for (arguments, state) in [
        ("'x', 's', 'nhibernate-optimizer-hilo'", "0A000"),
        ("'x', 's', 'none'", "22023"),
        ("'x', 's', NULL", "22023"),
        ("'x', 's', 'marten', 'orders'", "22023"),
        ("'x', 'hibernate_sequences', 'efcore'", "22023"),
        ("'x', 'v', 'nhibernate'", "22023"),
        ("'x', 'falls', 'efcore'", "22023"),
        ("'x', 'cycles'", "55000"),
        ("'x', 'cached'", "55000"),
        ("'x', 'gone'", "55000"),
        ("'known', 's', 'hibernate-hilo'", "55000"),
        ("'x', 'hibernate_sequences', 'hibernate-table', 'orders'", "55000"),
        ("'known', 'hibernate_sequences', 'hibernate-table'", "22023"),
        ("'known', 'hibernate_sequences', 'hibernate-table', 'orders'", "55000"),
    ] {
        client.refusal(&format!("SELECT hilo_attach({arguments})")).is(state);
    }
    assert_eq!(client.one::<i64>("SELECT count(*) FROM hilo_sequences"), 1);
    assert_eq!(client.one::<i64>("SELECT count(*) FROM hilo_stat_sources"), 0);
    cluster.finish();
}

/// No name becomes a part of the query that runs with the owner's rights.
#[test]
fn names_of_counters_stay_names() {
    let cluster = Cluster::with_hilo();
    let mut client = cluster.connect("postgres");
    for name in ["%2$s", "@size@", "it''s", "a\"\"b", "Up, (%3$s"] {
        let quoted = name.replace("''", "'").replace("\"\"", "\"").replace('"', "\"\"");
        client.run(&format!("CREATE SEQUENCE \"{quoted}\" INCREMENT BY 5"));
        let literal = format!("\"{quoted}\"").replace('\'', "''");
        client.run(&format!("SELECT hilo_attach('s', '{literal}', 'efcore', '%1$s @first@ '' ')"));
        assert!(client.one::<i64>("SELECT hilo_nextval('s')") > 5);
        client.run("SELECT hilo_drop('s')");
    }
    cluster.finish();
}

/// A sequence with negative increment, bounds and a type of its own keeps them.
#[test]
fn a_core_sequence_gives_its_definition() {
    let cluster = Cluster::with_hilo();
    let mut client = cluster.connect("postgres");
    client.run(
        "CREATE SEQUENCE s AS integer INCREMENT BY -3 MINVALUE -90 MAXVALUE 30 START 30;
         SELECT nextval('s'); SELECT hilo_attach('s', 's')",
    );
    let has = "SELECT format('%s %s %s %s', data_type, increment, min_value, max_value)
                 FROM hilo_sequences";
    assert_eq!(client.one::<String>(has), "integer -3 -90 30");
    assert_eq!(client.draw("s", 3), [27, 24, 21]);
    cluster.finish();
}

/// The owner of a counter needs no more rights. Without a start, a sequence of Postgres says where
/// hilo's goes on.
#[test]
fn an_ordinary_role_attaches_its_counters_and_detaches_them() {
    let cluster = Cluster::with_hilo();
    cluster
        .connect("postgres")
        .run("CREATE ROLE shop LOGIN; GRANT CREATE ON SCHEMA public TO shop; GRANT INSERT ON hilo_sequences TO shop");
    let mut client = cluster.connect_as("shop", "postgres");
    client.run(
        "CREATE SEQUENCE \"It's\"; CREATE SEQUENCE blocks INCREMENT BY 20;
         SELECT hilo_attach('core', '\"It''s\"'), hilo_attach('pooled', 'blocks', 'hibernate')",
    );
    let mut seen = client.draw("core", 100);
    seen.extend(client.all::<i64>("SELECT nextval('\"It''s\"') FROM generate_series(1, 20)"));
    seen.extend(client.draw("core", 200));
    client.run("CREATE TABLE late (id bigint DEFAULT nextval('\"It''s\"'))");
    client.refusal("SELECT hilo_detach('core')").is("55000").helps();
    client.run("ALTER TABLE late ALTER id DROP DEFAULT");
    client.run("CREATE TABLE ident (id bigint GENERATED ALWAYS AS IDENTITY)");
    client.run("SELECT hilo_attach('identity', 'ident_id_seq')");
    client.refusal("SELECT hilo_detach('identity')").is("55000").helps();
    client.run("SELECT hilo_detach('identity', 1000)");
    let start: i64 = client.one("SELECT hilo_detach('core')");
    assert!(seen.iter().all(|value| *value < start));
    seen.extend(client.draw("core", 100));
    assert_unique("core", &seen);
    client.draw("pooled", 100);
    client.refusal("SELECT hilo_detach('pooled')").is("22023").helps();
    // Values that are asked for ahead would come beyond the start.
    let is_idle = "SELECT state = 'idle' FROM hilo_stat_sources WHERE name = 'pooled'";
    wait_until("nothing is asked for", LONG, || client.one(is_idle));
    let beyond: i64 = client.one("SELECT hilo_detach('pooled', nextval('blocks') + 20)");
    assert_eq!(client.one::<i64>("SELECT hilo_nextval('pooled')"), beyond);
    // A source that only looks as if hilo had written it is another one.
    client.run("SELECT hilo_create('own', source => '/* core of 1 */ SELECT nextval(''public.blocks''), 1')");
    client.refusal("SELECT hilo_detach('own')").is("22023");
    cluster.finish();
}

/// A counter that is no longer what it was attached as gives nothing more, until it is again.
#[test]
fn a_counter_that_has_changed_is_refused_at_the_source() {
    let cluster = Cluster::with_hilo();
    let mut client = cluster.connect("postgres");
    client.run(
        "CREATE SEQUENCE counter INCREMENT BY 5; SELECT hilo_attach('s', 'counter', 'efcore')",
    );
    let mut seen = client.draw("s", 100);
    let draw = "SELECT count(hilo_nextval('s')) FROM generate_series(1, 10000000)";
    for (change, back) in
        [("INCREMENT BY 4", "INCREMENT BY 5"), ("CYCLE", "NO CYCLE"), ("CACHE 3", "CACHE 1")]
    {
        client.run(&format!("ALTER SEQUENCE counter {change}"));
        client.refusal(draw).is("55000").says("than when it was attached").helps();
        let whole =
            "SELECT last_error LIKE '%attached%HINT:  Change it back,%' FROM hilo_stat_sources";
        assert!(client.one::<bool>(whole));
        client.run(&format!("ALTER SEQUENCE counter {back}"));
        seen.extend(client.draw("s", 100));
    }
    cluster.finish();
}

/// A value that a counter gives after it was set back is not served. The sequence continues to ask
/// until the counter has passed what it has given before.
#[test]
fn a_counter_that_was_set_back_repeats_nothing() {
    set_back(false);
    set_back(true);
}

/// `own_values`: values of its own, beyond those of the counter, do not hide that.
fn set_back(own_values: bool) {
    let cluster = Cluster::with_hilo();
    let mut client = cluster.connect("postgres");
    if own_values {
        client.run("SELECT hilo_create('s', start_value => 50000000)");
        client.draw("s", 100);
    }
    client.run(
        "CREATE SEQUENCE counter INCREMENT BY 5; SELECT hilo_attach('s', 'counter', 'efcore')",
    );
    let mut seen = client.draw("s", 100);
    client.run("ALTER SEQUENCE counter RESTART WITH 11");
    let mut draw_until = |what: &str, is_so: &dyn Fn(&mut Client, &[i64]) -> bool| {
        wait_until(what, LONG, || {
            let draw = "SELECT hilo_nextval('s') FROM generate_series(1, 1000)";
            if let Ok(rows) = client.query(draw, &[]) {
                seen.extend(rows.iter().map(|row| row.get::<_, i64>(0)));
            }
            is_so(&mut client, &seen)
        });
    };
    draw_until("it is noticed", &|client, _| {
        client.one("SELECT COALESCE(last_error, '') LIKE '%was set back%' FROM hilo_stat_sources")
    });
    cluster.connect("postgres").run("SELECT setval('counter', 900000000)");
    draw_until("the counter has moved on", &|_, seen| seen.last() > Some(&900_000_000));
    assert_unique("s", &seen);
    cluster.finish();
}
