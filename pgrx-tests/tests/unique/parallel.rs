//! A query that draws can be parallel: its leader draws, above the Gather, and what the workers do is core's own.
//! No function of hilo serves in a parallel worker, and none that defines runs beside one.

use hilo_tests::{Client, ClientExt, Cluster, assert_accounted, assert_unique};

/// Rows of the table that is scanned in parallel.
pub const ROWS: i64 = 20_000;

/// Settings under which the planner takes every parallel plan that it may take, and under which only the workers
/// scan.
pub const EAGER: &str = "SET parallel_setup_cost = 0; SET parallel_tuple_cost = 0;
    SET min_parallel_table_scan_size = 0; SET max_parallel_workers_per_gather = 2;
    SET parallel_leader_participation = off";

/// A cluster with a table to scan, and the sequence that most tests draw from.
pub fn cluster() -> Cluster {
    let cluster = Cluster::builder()
        .config("max_worker_processes", "40")
        .config("max_parallel_workers", "30")
        .start_with_hilo();
    cluster.connect("postgres").run(&format!(
        "CREATE TABLE t AS SELECT n, n % 7 AS g, repeat('x', 50) AS pad FROM generate_series(1, {ROWS}) AS n;
         ANALYZE t; SELECT hilo_create('s');
         CREATE FUNCTION scanner(n integer) RETURNS integer LANGUAGE plpgsql STABLE PARALLEL SAFE AS
             $$ BEGIN RETURN pg_backend_pid(); END $$"
    ));
    cluster
}

pub fn eager(cluster: &Cluster) -> Client {
    let mut client = cluster.connect("postgres");
    client.run(EAGER);
    client
}

/// How deep a line of a plan is indented.
fn depth(line: &str) -> usize {
    line.len() - line.trim_start().len()
}

/// Runs a statement under EXPLAIN; fails the test unless the plan is parallel, its workers were launched, and
/// `call` is nowhere below the Gather.
#[track_caller]
pub fn assert_parallel(client: &mut Client, sql: &str, call: &str) {
    let explain = format!("EXPLAIN (ANALYZE, VERBOSE, COSTS OFF, TIMING OFF, SUMMARY OFF) {sql}");
    let plan: Vec<String> = client.all(&explain);
    let shown = plan.join("\n");
    let gather = plan
        .iter()
        .position(|line| line.trim_start().trim_start_matches("->  ").starts_with("Gather"));
    let gather = gather.unwrap_or_else(|| panic!("not parallel: {sql}\n{shown}"));
    let launched = plan.iter().any(|line| line.trim_start() == "Workers Launched: 2");
    assert!(launched, "no workers: {sql}\n{shown}");
    // The Gather's own targets come before its children. The leader runs an InitPlan, and passes on what it returns.
    let leads = |line: &String| line.trim_start().starts_with("InitPlan");
    let children =
        plan[gather + 1..].iter().skip_while(|line| !line.contains("->  ") && !leads(line));
    let mut in_leader = usize::MAX;
    let inside = children.take_while(|line| depth(line) > depth(&plan[gather])).any(|line| {
        if leads(line) || depth(line) <= in_leader {
            in_leader = if leads(line) { depth(line) } else { usize::MAX };
        }
        in_leader == usize::MAX && line.contains(call)
    });
    assert!(!inside, "{call} is below the Gather: {sql}\n{shown}");
    assert!(shown.contains(call), "{call} is not called: {sql}\n{shown}");
}

/// Every function that serves, or that reads what the session was served.
pub const CALLS: [(&str, &str); 8] = [
    ("hilo_nextval('s')", "hilo_nextval("),
    ("hilo_nextval_always('s')", "hilo_nextval_always("),
    ("hilo_nextkey('s')", "hilo_nextkey("),
    ("hilo_next_hi('blocks')", "hilo_next_hi("),
    ("(hilo_nextrange('s', 2)).last", "hilo_nextrange("),
    ("hilo_nextvals('s', 2)", "hilo_nextvals("),
    ("hilo_currval('s')", "hilo_currval("),
    ("hilo_lastval()", "hilo_lastval("),
];

#[test]
fn each_function_leaves_the_query_parallel_and_is_called_by_its_leader() {
    let cluster = cluster();
    let mut client = eager(&cluster);
    client.run("SELECT hilo_create('blocks', block_size => 10), hilo_nextval('s')");
    for (call, name) in CALLS {
        assert_parallel(&mut client, &format!("SELECT {call}, n FROM t WHERE n % 3 = 0"), name);
        assert_parallel(&mut client, &format!("SELECT {call}, g, sum(n) FROM t GROUP BY g"), name);
    }
    // The planner aggregates in the workers if the call stands outside the query that aggregates.
    let totals =
        "SELECT hilo_nextval('s'), totals.* FROM (SELECT g, sum(n) FROM t GROUP BY g) AS totals";
    assert_parallel(&mut client, totals, "hilo_nextval(");
    let plan = client.all::<String>(&format!("EXPLAIN (COSTS OFF) {totals}")).join("\n");
    assert!(plan.contains("Partial"), "{plan}");
    for sql in [
        "SELECT n, (SELECT hilo_nextval('s')) FROM t WHERE n % 3 = 0",
        "SELECT n, (SELECT hilo_nextval('s') WHERE x.n > 0) FROM (SELECT n FROM t WHERE n % 3 = 0 OFFSET 0) AS x",
        "SELECT hilo_nextval('s'), count(*) FROM t AS a JOIN t AS b USING (n) GROUP BY a.g",
        "SELECT hilo_nextval('s'), n FROM t WHERE n % 3 = 0 ORDER BY n LIMIT 10",
        "WITH drawn AS MATERIALIZED (SELECT hilo_nextval('s') AS id, sum(n) FROM t GROUP BY g)
         SELECT * FROM drawn",
        "SELECT hilo_nextval('s'), g FROM t WHERE g = 1 UNION ALL SELECT hilo_nextval('s'), g FROM t WHERE g = 2",
    ] {
        assert_parallel(&mut client, sql, "hilo_nextval(");
    }
    cluster.finish();
}

/// Statements that store what a parallel query finds, with the numbers that its leader draws.
#[test]
fn what_is_stored_from_a_parallel_query_has_each_number_once_and_in_order() {
    let cluster = cluster();
    let mut client = eager(&cluster);
    let query = "SELECT hilo_nextval('s') AS id, pid, n
                   FROM (SELECT scanner(n) AS pid, n FROM t WHERE n % 2 = 0 OFFSET 0) AS scanned";
    assert_parallel(&mut client, &format!("CREATE TABLE made AS {query}"), "hilo_nextval(");
    let into = query.replace("FROM (", "INTO into_it FROM (");
    assert_parallel(&mut client, &into, "hilo_nextval(");
    let view = format!("CREATE MATERIALIZED VIEW view AS {query}");
    assert_parallel(&mut client, &view, "hilo_nextval(");
    let mut seen: Vec<i64> = Vec::new();
    let me = client.backend_pid();
    let mut check = |client: &mut Client, relation: &str, parallel: bool| {
        let ids: Vec<i64> = client.all(&format!("SELECT id FROM {relation} ORDER BY ctid"));
        assert_eq!(ids.len() as i64, ROWS / 2, "{relation}");
        assert!(
            ids.is_sorted(),
            "{relation}: the rows are stored in the order in which the leader draws"
        );
        let pids: Vec<i32> = client.all(&format!("SELECT DISTINCT pid FROM {relation}"));
        assert_eq!(!pids.contains(&me), parallel, "{relation} was scanned by {pids:?}, not {me}");
        assert_eq!(client.one::<i64>("SELECT hilo_currval('s')"), *ids.last().unwrap());
        seen.extend(ids);
    };
    // The last one that EXPLAIN ran is the one of which currval knows.
    check(&mut client, "view", true);
    client.run("REFRESH MATERIALIZED VIEW view");
    check(&mut client, "view", true);
    client.run("BEGIN ISOLATION LEVEL SERIALIZABLE; REFRESH MATERIALIZED VIEW view; COMMIT");
    check(&mut client, "view", true);
    client.run(&format!("CREATE TABLE again AS {query}"));
    check(&mut client, "again", true);
    client.run(&format!("DO $do$ BEGIN CREATE TABLE from_plpgsql AS {query}; END $do$"));
    check(&mut client, "from_plpgsql", true);
    client.run(&format!(
        "CREATE FUNCTION rows_of_it() RETURNS TABLE (id bigint, pid integer, n integer) LANGUAGE plpgsql
             AS $f$ #variable_conflict use_column\n BEGIN RETURN QUERY {}; END $f$;
         CREATE TABLE returned AS SELECT * FROM rows_of_it()",
        query
    ));
    check(&mut client, "returned", true);
    // Core runs no query in parallel that an INSERT feeds on.
    client.run(&format!(
        "CREATE TABLE fed (id bigint, pid integer, n integer); INSERT INTO fed {query}"
    ));
    check(&mut client, "fed", false);
    assert_unique("s", &seen);
    for relation in ["made", "into_it"] {
        seen.extend(client.all::<i64>(&format!("SELECT id FROM {relation}")));
    }
    assert_unique("s", &seen);
    cluster.finish();
}

/// A sequence that a transaction has defined serves its parallel queries too, and a rollback undoes
/// it.
#[test]
fn the_transactions_own_definitions_serve_its_parallel_queries() {
    let cluster = cluster();
    let mut client = eager(&cluster);
    let draw =
        |name: &str| format!("SELECT hilo_nextval('{name}') AS id, n FROM t WHERE n % 2 = 0");
    let stored = |client: &mut Client, name: &str| -> (i64, i64, i64) {
        client.run(&format!("DROP TABLE IF EXISTS own; CREATE TABLE own AS {}", draw(name)));
        let row = client.query_one("SELECT count(DISTINCT id), min(id), max(id) FROM own", &[]);
        let row = row.expect("the table can be read");
        (row.get(0), row.get(1), row.get(2))
    };
    let half = ROWS / 2;
    client.run("BEGIN; SELECT hilo_create('own')");
    assert_parallel(&mut client, &draw("own"), "hilo_nextval(");
    assert_eq!(stored(&mut client, "own"), (half, half + 1, 2 * half));
    client.run("COMMIT");
    assert_eq!(
        client.draw("own", 1),
        [2 * half + 1],
        "what the transaction served was written at its commit"
    );

    client.run("BEGIN; SELECT hilo_alter('own', restart_with => 1000000)");
    assert_eq!(stored(&mut client, "own"), (half, 1_000_000, 999_999 + half));
    client.run("SAVEPOINT here; SELECT hilo_setval('own', 5000000)");
    assert_eq!(stored(&mut client, "own"), (half, 5_000_001, 5_000_000 + half));
    client.run("ROLLBACK TO here");
    assert_eq!(stored(&mut client, "own").1, 1_000_000 + half);
    client.run("COMMIT");
    assert_eq!(client.draw("own", 1), [1_000_000 + 2 * half]);

    // Nothing of it remains after a rollback.
    client.run("BEGIN; SELECT hilo_setval('own', 9000000)");
    assert_eq!(stored(&mut client, "own").1, 9_000_001);
    client.run("ROLLBACK");
    assert_eq!(client.draw("own", 1), [1_000_000 + 2 * half + 1]);

    // Refused as without a parallel query.
    client.run("BEGIN; SELECT hilo_alter('own', increment => 3)");
    client
        .refusal(&format!("CREATE TABLE refused AS {}", draw("own")))
        .is("55000")
        .says("increment");
    client.run("ROLLBACK");
    client.run("BEGIN; SELECT hilo_alter('own', max_value => 1000000 + 2 * 20000)");
    client
        .refusal(&format!("CREATE TABLE refused AS {0}; CREATE TABLE refused2 AS {0}", draw("own")))
        .is("2200H");
    client.run("ROLLBACK");
    // Keys are made in the workers too, in the format that this transaction has set.
    client.run("BEGIN; SELECT hilo_alter('own', key_format => 'k-{value}')");
    let keys = "SELECT hilo_key('own', n) AS key, scanner(n) AS pid FROM t WHERE n % 2 = 0";
    client.run(&format!("CREATE TABLE keys AS {keys}"));
    let me = client.backend_pid();
    let found = client
        .one::<i64>(&format!("SELECT count(*) FROM keys WHERE key LIKE 'k-%' AND pid <> {me}"));
    assert_eq!(found, half);
    client.run("SELECT count(*) FROM t WHERE hilo_key_value('own', 'k-' || n) = n");
    client.run("COMMIT");
    cluster.finish();
}

/// hilo.auto_create: the worker creates the sequence in a transaction of its own, so a parallel query may be the
/// first to use a name.
#[test]
fn a_parallel_query_may_be_the_first_to_use_a_name() {
    let cluster = cluster();
    let mut client = eager(&cluster);
    let sql = "SELECT hilo_nextval('tenant-' || g), count(*) FROM t GROUP BY g";
    client.refusal(sql).is("42704");
    client.run("SET hilo.auto_create = on");
    assert_parallel(&mut client, sql, "hilo_nextval(");
    assert_eq!(client.all::<i64>(sql), [2; 7]);
    client.run("BEGIN ISOLATION LEVEL SERIALIZABLE");
    assert_parallel(&mut client, &sql.replace("tenant", "branch"), "hilo_nextval(");
    client.run("ROLLBACK");
    assert_eq!(
        client.all::<i64>(&sql.replace("tenant", "branch")),
        [2; 7],
        "the rollback has not undone it"
    );
    cluster.finish();
}

/// Cursors and portals are served a few rows at a time, with other draws in between.
#[test]
fn cursors_draw_for_the_rows_that_are_fetched() {
    let cluster = cluster();
    let mut client = eager(&cluster);
    let query = "SELECT hilo_nextval('s') AS id, n FROM t WHERE n % 2 = 0";
    for kind in ["NO SCROLL CURSOR", "CURSOR WITH HOLD"] {
        let before = client.draw("s", 1)[0];
        client.run(&format!("BEGIN; DECLARE c {kind} FOR {query}"));
        let mut ids: Vec<i64> = Vec::new();
        for _ in 0..3 {
            ids.extend(client.all::<i64>("FETCH 10 FROM c"));
            ids.extend(client.draw("s", 2));
        }
        client.run("CLOSE c; COMMIT");
        assert_eq!(ids, (before + 1..=before + 36).collect::<Vec<i64>>(), "{kind}");
    }
    // WITH HOLD draws for the rest at the commit.
    let before = client.draw("s", 1)[0];
    client.run(&format!(
        "BEGIN; DECLARE c NO SCROLL CURSOR WITH HOLD FOR {query}; FETCH 10 FROM c; COMMIT"
    ));
    assert_eq!(client.one::<i64>("SELECT hilo_currval('s')"), before + ROWS / 2);
    client.run("CLOSE c");
    let before = client.draw("s", 1)[0];
    let mut transaction = client.transaction().expect("it begins");
    let portal = transaction.bind(query, &[]).expect("a portal can be bound");
    let mut ids: Vec<i64> = Vec::new();
    for _ in 0..3 {
        let rows = transaction.query_portal(&portal, 10).expect("it returns rows");
        ids.extend(rows.iter().map(|row| row.get::<_, i64>(0)));
    }
    drop(portal);
    transaction.commit().expect("it commits");
    assert_eq!(ids, (before + 1..=before + 30).collect::<Vec<i64>>());
    // PL/pgSQL reads a loop's query through a cursor.
    client.run(
        "DO $$ DECLARE r record; last bigint := 0; BEGIN
           FOR r IN SELECT hilo_nextval('s') AS id, n FROM t WHERE n % 2 = 0 LOOP
             IF r.id <= last THEN RAISE 'fell'; END IF;
             last := hilo_nextval('s');
             EXIT WHEN r.n > 200;
           END LOOP; END $$",
    );
    cluster.finish();
}

/// Statements that core plans in parallel under debug_parallel_query even where that does not pay.
#[test]
fn everything_works_where_parallel_queries_are_forced() {
    let cluster = cluster();
    for mode in ["on", "regress"] {
        let mut client = eager(&cluster);
        client.run(&format!(
            "SELECT set_config(name, '{mode}', false) FROM pg_settings
              WHERE name IN ('force_parallel_mode', 'debug_parallel_query')"
        ));
        let mut seen = client.draw("s", 1000);
        assert!(seen.is_sorted());
        seen.extend(client.all::<i64>("SELECT * FROM hilo_nextvals('s', 1000)"));
        seen.extend(client.all::<i64>("SELECT hilo_nextval('s') + 0 * n FROM t"));
        seen.extend(client.all::<i64>(
            "SELECT (SELECT hilo_nextval('s')) + 0 * g FROM generate_series(1, 1) AS g",
        ));
        seen.extend(
            client.all::<i64>(
                "SELECT id FROM (SELECT hilo_nextval('s') AS id, n FROM t OFFSET 0) AS d",
            ),
        );
        assert_unique("s", &seen);
        assert!(seen.is_sorted(), "{mode}");
        assert_eq!(client.one::<i64>("SELECT hilo_currval('s')"), *seen.last().unwrap());
        assert_eq!(client.one::<i64>("SELECT hilo_lastval()"), *seen.last().unwrap());
        client.run(&format!(
            "CREATE TABLE filled_{mode} (id bigint PRIMARY KEY DEFAULT hilo_nextval('s'), n integer);
             INSERT INTO filled_{mode} (n) SELECT n FROM t;
             CREATE INDEX ON filled_{mode} (n);
             UPDATE filled_{mode} SET id = DEFAULT WHERE n < 100;
             BEGIN; SELECT hilo_create('own_{mode}'); SELECT hilo_nextval('own_{mode}') FROM t; COMMIT;
             SELECT hilo_setval('own_{mode}', 100);
             SELECT * FROM hilo_check(); SELECT * FROM hilo_find_gaps('s', 'filled_{mode}', 'id');
             SELECT * FROM hilo_blocks; SELECT * FROM hilo_sequences; SELECT * FROM hilo_stat_sequences;
             SELECT hilo_key('s', n), hilo_key_value('s', 's/1') FROM t; SELECT hilo_export();
             SELECT hilo_drop('own_{mode}')"
        ));
        let sum = format!("SELECT count(DISTINCT id) FROM filled_{mode}");
        assert_eq!(client.one::<i64>(&sum), ROWS);
    }
    cluster.finish();
}

/// An index is built in parallel over a column that hilo fills, and cannot call it.
#[test]
fn an_index_is_built_in_parallel() {
    let cluster = cluster();
    let mut client = eager(&cluster);
    client.run(
        "CREATE TABLE filled (id bigint DEFAULT hilo_nextval('s'), n integer);
         INSERT INTO filled (n) SELECT n FROM t; SET max_parallel_maintenance_workers = 2;
         ALTER TABLE filled SET (parallel_workers = 2); ALTER TABLE filled ADD PRIMARY KEY (id)",
    );
    client.refusal("CREATE INDEX ON filled ((hilo_nextval('s') + id))").is("42P17");
    assert_eq!(client.one::<i64>("SELECT count(*) FROM filled"), ROWS);
    cluster.finish();
}

/// Sessions that fill tables by parallel queries beside sessions that draw one number at a time.
/// Every number goes out once, and rises within its session.
#[test]
fn parallel_queries_of_many_sessions_share_a_sequence() {
    let cluster = cluster();
    let seen: Vec<i64> = std::thread::scope(|scope| {
        let sessions: Vec<_> = (0..6)
            .map(|session| {
                let mut client = eager(&cluster);
                scope.spawn(move || {
                    let mut seen: Vec<i64> = Vec::new();
                    for round in 0..5 {
                        let sql = format!(
                            "CREATE TABLE load_{session}_{round} AS
                             SELECT hilo_nextval('s') AS id FROM t WHERE n % 2 = 0"
                        );
                        match session % 3 {
                            0 => {
                                client.run(&sql);
                                let read = format!("SELECT id FROM load_{session}_{round} ORDER BY ctid");
                                seen.extend(client.all::<i64>(&read));
                            }
                            1 => seen.extend(client.all::<i64>(
                                "SELECT hilo_nextval('s') FROM (SELECT n FROM t WHERE n % 2 = 0 OFFSET 0) AS x",
                            )),
                            _ => (0..200).for_each(|_| seen.extend(client.draw("s", 3))),
                        }
                    }
                    assert!(seen.is_sorted(), "the values of session {session} fall");
                    seen
                })
            })
            .collect();
        sessions.into_iter().flat_map(|session| session.join().expect("it draws")).collect()
    });
    assert_unique("s", &seen);
    cluster.restart();
    assert_accounted(&mut cluster.connect("postgres"), "s", &seen);
    cluster.finish();
}
