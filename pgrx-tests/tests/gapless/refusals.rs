//! A wish that cannot be met is refused with a reason, and changes nothing.

use hilo_tests::ClientExt;

use super::{INSERT, assert_gapless, with_invoices};

#[test]
fn options_that_contradict_it() {
    let cluster = with_invoices();
    let mut client = cluster.connect("postgres");
    client.run("SELECT hilo_create('laps', cycle => true, max_value => 9); SELECT hilo_create('blocks', block_size => 10, slice_size => 5)");
    for (sql, sqlstate, says) in [
        (
            "SELECT hilo_create('x', gapless => true, cycle => true, max_value => 9)",
            "0A000",
            "cannot cycle",
        ),
        ("SELECT hilo_alter('laps', gapless => true)", "0A000", "cannot cycle"),
        ("SELECT hilo_alter('laps', gapless => true, restart_with => 1)", "0A000", "cannot cycle"),
        ("SELECT hilo_alter('invoices', cycle => true)", "0A000", "cannot cycle"),
        ("SELECT hilo_create('x', gapless => true, block_size => 10)", "22023", "block_size"),
        ("SELECT hilo_create('x', gapless => true, slice_size => 10)", "22023", "slice_size"),
        ("SELECT hilo_alter('invoices', block_size => 10)", "22023", "block_size"),
        ("SELECT hilo_alter('invoices', slice_size => 10)", "22023", "slice_size"),
        ("SELECT hilo_alter('blocks', gapless => true)", "22023", "block_size"),
        ("SELECT hilo_alter('blocks', gapless => true, block_size => 0)", "22023", "slice_size"),
        ("SELECT hilo_next_hi('invoices')", "0A000", "block number"),
    ] {
        client.refusal(sql).is(sqlstate).says(says).helps();
    }
    client.run("SELECT hilo_alter('blocks', gapless => true, block_size => 0, slice_size => 0)");
    client.run(
        "SELECT hilo_create('both', gapless => true, ordered => true); SELECT hilo_nextval('both')",
    );
    client.run(INSERT);
    assert_gapless(&mut client, 1);
    cluster.finish();
}

#[test]
fn a_read_only_transaction() {
    let cluster = with_invoices();
    let mut client = cluster.connect("postgres");
    client.run("BEGIN READ ONLY");
    client.refusal("SELECT hilo_nextval('invoices')").is("25006");
    client.run("ROLLBACK; BEGIN READ ONLY");
    client.refusal("SELECT * FROM hilo_nextrange('invoices', 2)").is("25006");
    client.run("ROLLBACK");
    client.run(INSERT);
    assert_gapless(&mut client, 1);
    cluster.finish();
}

/// A function that is wrongly marked parallel safe.
#[test]
fn a_parallel_worker() {
    let cluster = with_invoices();
    let mut client = cluster.connect("postgres");
    let force = match client.one::<i32>("SELECT current_setting('server_version_num')::int") {
        ..=159_999 => "force_parallel_mode",
        _ => "debug_parallel_query",
    };
    client.run(&format!(
        "CREATE FUNCTION wrong() RETURNS bigint LANGUAGE plpgsql PARALLEL SAFE AS 'BEGIN RETURN hilo_nextval(''invoices''); END';
         SET {force} = on"
    ));
    client.refusal("SELECT wrong()").is("25000");
    client.run(INSERT);
    assert_gapless(&mut client, 1);
    cluster.finish();
}

/// The leader of a parallel query can lock nothing, so it draws only if its transaction has drawn before.
#[test]
fn a_parallel_query() {
    let cluster = with_invoices();
    let mut client = cluster.connect("postgres");
    client.run(
        "CREATE TABLE orders AS SELECT n FROM generate_series(1, 20000) AS n; ANALYZE orders;
         SET parallel_setup_cost = 0; SET parallel_tuple_cost = 0; SET min_parallel_table_scan_size = 0",
    );
    let query = "SELECT hilo_nextval('invoices') AS id FROM orders WHERE n % 1000 = 0";
    let plan: Vec<String> = client.all(&format!("EXPLAIN (COSTS OFF) {query}"));
    assert!(plan.iter().any(|line| line.contains("Gather")), "{plan:?}");
    client
        .refusal(query)
        .is("25000")
        .says("invoices")
        .details("parallel query")
        .hints("max_parallel_workers_per_gather");
    client.run(&format!("BEGIN; {INSERT}"));
    assert_eq!(client.all::<i64>(query), (2..=21).collect::<Vec<i64>>());
    client.run("ROLLBACK; BEGIN; SET LOCAL max_parallel_workers_per_gather = 0");
    assert_eq!(client.all::<i64>(query), (1..=20).collect::<Vec<i64>>());
    client.run("ROLLBACK");
    // An INSERT has no workers.
    client.run(
        "INSERT INTO invoices (id) SELECT hilo_nextval('invoices') FROM orders WHERE n % 1000 = 0",
    );
    assert_gapless(&mut client, 20);
    cluster.finish();
}

/// Several nodes cannot share it.
#[test]
fn several_nodes() {
    let cluster = with_invoices();
    let mut client = cluster.connect("postgres");
    client.run(&format!("{INSERT}; SELECT hilo_create('plain')"));
    cluster.configure("hilo.node_id", "0");
    cluster.configure("hilo.node_count", "2");
    cluster.reload();
    let mut client = cluster.connect("postgres");
    for sql in [
        "SELECT hilo_create('x', gapless => true)",
        "SELECT hilo_alter('plain', gapless => true, restart_with => 1)",
        "SELECT hilo_alter('invoices', restart_with => 9)",
        "SELECT hilo_setval('invoices', 9)",
    ] {
        client.refusal(sql).is("0A000").says("hilo.node_count = 2").helps();
    }
    client.run("SET hilo.on_every_node = on; SELECT hilo_create('striped')");
    client.refusal("SELECT hilo_alter('striped', gapless => true)").is("0A000").helps();
    // It goes on where it is; only this node serves it.
    client.run(INSERT);
    assert_gapless(&mut client, 2);
    assert_eq!(
        client.all::<String>("SELECT object FROM hilo_check() WHERE what LIKE '%invoices%'"),
        [""; 0]
    );
    cluster.configure("hilo.node_id", "1");
    cluster.reload();
    let mut client = cluster.connect("postgres");
    client.refusal("SELECT hilo_nextval('invoices')").is("0A000").says("hilo.node_count = 2");
    cluster.finish();
}

/// Narrower bounds are refused if they exclude what is committed, also by a transaction that waited.
#[test]
fn bounds_that_exclude_what_was_drawn() {
    let cluster = with_invoices();
    let mut holder = cluster.connect("postgres");
    holder.run(&format!("BEGIN; {INSERT}; {INSERT}; {INSERT}"));
    let mut client = cluster.connect("postgres");
    let pid = client.backend_pid();
    let thread = std::thread::spawn(move || {
        client
            .refusal("SELECT hilo_alter('invoices', max_value => 2)")
            .is("22023")
            .says("current value (3)");
        client
    });
    super::wait_for_lock(&cluster, pid);
    holder.run("COMMIT");
    let mut client = thread.join().expect("it is refused");
    assert_gapless(&mut client, 3);
    cluster.finish();
}
