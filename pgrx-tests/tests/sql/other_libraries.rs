//! hilo beside the libraries that core delivers, which hook into the same places, and in a server that logs much.

use hilo_tests::{Client, ClientExt, Cluster, LONG, has_library, wait_until};

/// A server that loads these libraries at its start, in this order, with hilo in the database `postgres`.
fn start(libraries: &str, settings: &[(&str, &str)]) -> Cluster {
    // Without prefetch, each block that is drawn from is a reservation of its own.
    let mut builder = Cluster::builder()
        .config("shared_preload_libraries", libraries)
        .config("hilo.prefetch", "off");
    for (name, value) in settings {
        builder = builder.config(name, value);
    }
    let cluster = builder.start();
    cluster.connect("postgres").run("CREATE EXTENSION hilo");
    cluster
}

/// The work that hilo does in the hooks of statements and of the parser: each works, whatever else
/// is hooked in.
fn assert_hooks_work(client: &mut Client) {
    client.run(
        "SELECT hilo_create('always'); CREATE TABLE always (id bigint PRIMARY KEY DEFAULT hilo_nextval_always('always'), note text);
         SELECT hilo_alter('always', owned_by => 'always.id')",
    );
    client.refusal("INSERT INTO always VALUES (7, 'own')").is("428C9");
    client.run(
        "INSERT INTO always (note) VALUES ('first'), ('second'); TRUNCATE always RESTART IDENTITY",
    );
    assert_eq!(client.one::<i64>("INSERT INTO always (note) VALUES ('again') RETURNING id"), 1);
    client.run("COPY always (note) FROM PROGRAM 'seq 2 100'");
    assert_eq!(client.one::<i64>("SELECT max(id) FROM always"), 100);
    client.run("SELECT hilo_nextval('always')");
    client.run("DISCARD ALL");
    client.refusal("SELECT hilo_currval('always')").is("55000");
    client.run("DROP TABLE always");
    assert_eq!(client.one::<i64>("SELECT count(*) FROM hilo_sequences WHERE name = 'always'"), 0);
}

/// In both orders, pg_stat_statements counts each statement once, under one identifier for all
/// names of sequences. And of the worker, which executes no statement, it shows nothing.
#[test]
fn pg_stat_statements_counts_our_calls() {
    if !has_library("pg_stat_statements") {
        return;
    }
    for libraries in ["pg_stat_statements,hilo", "hilo,pg_stat_statements"] {
        let settings = [("pg_stat_statements.track", "all"), ("compute_query_id", "auto")];
        let cluster = start(libraries, &settings);
        let mut client = cluster.connect("postgres");
        client.run("CREATE EXTENSION pg_stat_statements; SELECT hilo_create('a', block_size => 10), hilo_create('b', block_size => 10)");
        client.run("SELECT pg_stat_statements_reset()");
        for name in ["a", "b", "a", "b", "a"] {
            client.run(&format!("SELECT hilo_nextval('{name}')"));
        }
        client.run("SELECT hilo_nextval('a') FROM generate_series(1, 1000)");
        let mut calls = |pattern: &str| {
            client.all::<i64>(&format!("SELECT calls FROM pg_stat_statements WHERE query LIKE '{pattern}' AND query NOT LIKE '%pg_stat%'"))
        };
        assert_eq!(calls("SELECT hilo_nextval($1)"), [5], "{libraries}");
        assert_eq!(calls("SELECT hilo_nextval($1) FROM %"), [1], "{libraries}");
        assert_eq!(
            calls("%hilo.%"),
            [0; 0],
            "{libraries}: drawing and reserving execute no statement"
        );
        let blocks: i64 =
            client.one("SELECT blocks_reserved FROM hilo_stat_sequences WHERE name = 'a'");
        assert!(blocks > 50, "{blocks}");

        client.run("SELECT pg_stat_statements_reset()");
        assert_hooks_work(&mut client);
        for (statement, count) in [
            ("TRUNCATE always%", 1),
            ("DROP TABLE always", 1),
            ("DISCARD ALL", 1),
            ("COPY always%", 1),
        ] {
            let sql =
                format!("SELECT calls FROM pg_stat_statements WHERE query LIKE '{statement}'");
            assert_eq!(client.all::<i64>(&sql), [count], "{libraries}: {statement}");
        }
        // A query of hilo_report on the views is below its own statement.
        client.run("SELECT length(hilo_report())");
        let own = "SELECT bool_and(NOT toplevel) AND count(*) > 0 FROM pg_stat_statements WHERE query LIKE '%hilo_stat_rates%' AND query NOT LIKE '%pg_stat%'";
        assert!(client.one::<bool>(own), "{libraries}");
        drop(client);
        cluster.finish();
    }
}

/// Statements with hilo in them have an identifier, the same for all names of sequences; the worker's activity has none.
#[test]
fn statements_have_an_identifier() {
    let cluster = start("hilo", &[("compute_query_id", "on")]);
    let mut client = cluster.connect("postgres");
    client.run("SELECT hilo_create('a'), hilo_create('b'), hilo_nextval('a')");
    let mut id = |name: &str| {
        let plan =
            client.all::<String>(&format!("EXPLAIN (VERBOSE) SELECT hilo_nextval('{name}')"));
        let line = plan.iter().find(|line| line.contains("Query Identifier"));
        line.unwrap_or_else(|| panic!("{plan:?}")).clone()
    };
    assert_eq!(id("a"), id("b"));
    assert_hooks_work(&mut client);
    client.run("SELECT hilo_nextval('b')");
    let own = "SELECT query_id IS NOT NULL FROM pg_stat_activity WHERE pid = pg_backend_pid()";
    assert!(client.one::<bool>(own));
    let worker = "SELECT bool_and(query_id IS NULL) FROM pg_stat_activity WHERE backend_type = 'hilo worker'";
    assert!(client.one::<bool>(worker));
    wait_until("the statistics have the reservations", LONG, || {
        client.one("SELECT n_tup_upd > 0 FROM pg_stat_all_tables WHERE schemaname = '_hilo' AND relname = 'hilo_position'")
    });
    cluster.finish();
}

/// In both orders, with everything that it can log, auto_explain logs one plan for each statement, and nothing for the
/// work of the worker. Values are the same.
#[test]
fn auto_explain_logs_our_calls() {
    if !has_library("auto_explain") {
        return;
    }
    for libraries in ["auto_explain,hilo", "hilo,auto_explain"] {
        let settings = [
            ("auto_explain.log_min_duration", "0"),
            ("auto_explain.log_analyze", "on"),
            ("auto_explain.log_verbose", "on"),
            ("auto_explain.log_buffers", "on"),
            ("auto_explain.log_triggers", "on"),
            ("auto_explain.log_nested_statements", "on"),
            ("compute_query_id", "on"),
        ];
        let cluster = start(libraries, &settings);
        let mut client = cluster.connect("postgres");
        client.run("SELECT hilo_create('orders', block_size => 10); CREATE TABLE orders (id bigint PRIMARY KEY DEFAULT hilo_nextval('orders'))");
        let before = cluster.log_count("Query Text:");
        for value in 1..=100 {
            assert_eq!(client.one::<i64>("INSERT INTO orders DEFAULT VALUES RETURNING id"), value);
        }
        let worker = "SELECT blocks_reserved >= 10 FROM hilo_stat_sequences";
        assert!(client.one::<bool>(worker), "{libraries}");
        wait_until("all is logged", LONG, || {
            cluster.log_count("INSERT INTO orders DEFAULT") >= 100
        });
        assert_eq!(cluster.log_count("Query Text: INSERT INTO orders DEFAULT"), 100, "{libraries}");
        assert_eq!(cluster.log_count("Query Text:"), before + 101, "{libraries}: nothing else");
        assert_hooks_work(&mut client);
        // Statements of hilo's own are explained like those of any other function.
        client.run("SELECT count(*) FROM hilo_check()");
        client.run("SELECT count(*) FROM hilo_find_gaps('orders', 'orders', 'id')");
        wait_until("what is nested is logged", LONG, || {
            cluster.log().contains("Query Text: SELECT has_schema_privilege(")
        });
        let worker = |line: &&str| line.contains("hilo worker") && line.contains("duration:");
        assert_eq!(cluster.log().lines().filter(worker).count(), 0, "{libraries}");
        drop(client);
        cluster.finish();
    }
}

/// At log_min_messages = debug1 neither drawing nor reserving logs anything, however busy the worker is: what it logs belongs
/// to its start and its end.
#[test]
fn the_worker_is_quiet_at_debug1() {
    let cluster = start("hilo", &[("log_min_messages", "debug1")]);
    let mut client = cluster.connect("postgres");
    client.run("SELECT hilo_create('orders', block_size => 10)");
    client.run("SELECT hilo_nextval('orders')");
    let lines = || {
        let log = cluster.log();
        let own = log.lines().filter(|line| line.contains(" hilo worker ")).map(str::to_owned);
        own.collect::<Vec<String>>()
    };
    let at_start = lines().len();
    let sessions = cluster.log_count("client backend");
    client.run("SELECT hilo_nextval('orders') FROM generate_series(1, 5000)");
    let blocks: i64 = client.one("SELECT blocks_reserved FROM hilo_stat_sequences");
    assert!(blocks >= 500, "{blocks}");
    let logged = lines();
    assert!(logged.len() - at_start <= 2, "{blocks} blocks: {:#?}", &logged[at_start..]);
    assert!(logged.len() <= 10, "{logged:#?}");
    assert_eq!(cluster.log_count("client backend"), sessions, "{}", cluster.log());
    drop(client);
    cluster.finish();
}
