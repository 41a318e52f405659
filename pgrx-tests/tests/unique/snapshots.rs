//! Old snapshots hide no sequence, and the worker's commits cause no conflict.

use hilo_tests::{ClientExt, Cluster};

const ISOLATED: [&str; 2] = ["REPEATABLE READ", "SERIALIZABLE"];

/// A sequence created after a transaction's snapshot is found by it, by name and as a default.
#[test]
fn a_sequence_newer_than_the_snapshot_is_found() {
    let cluster = Cluster::with_hilo();
    let mut creator = cluster.connect("postgres");
    let mut client = cluster.connect("postgres");
    for (number, level) in ISOLATED.iter().enumerate() {
        client.run(&format!("BEGIN ISOLATION LEVEL {level}"));
        client.one::<i64>("SELECT count(*) FROM hilo_sequences");
        creator.run(&format!(
            "SELECT hilo_create('late{number}');
             CREATE TABLE late{number} (id bigint DEFAULT hilo_nextval('late{number}'))"
        ));
        assert_eq!(client.one::<i64>(&format!("SELECT hilo_nextval('late{number}')")), 1);
        let inserted = format!("INSERT INTO late{number} DEFAULT VALUES RETURNING id");
        assert_eq!(client.one::<i64>(&inserted), 2);
        client.run("COMMIT");
    }
}

/// However far the worker has moved a position since the snapshot, drawing, setting, altering,
/// renaming and dropping do not fail with 40001. The commit does not either.
#[test]
fn the_worker_is_never_a_serialization_failure() {
    let cluster = Cluster::with_hilo();
    let mut others = cluster.connect("postgres");
    let mut client = cluster.connect("postgres");
    for level in ISOLATED {
        others.run("SELECT hilo_create('moved', block_size => 10)");
        client.run(&format!("BEGIN ISOLATION LEVEL {level}"));
        client.one::<i64>("SELECT hilo_nextval('moved')");
        client.one::<i64>("SELECT count(*) FROM hilo_sequences");
        for change in [
            "SELECT hilo_nextval('moved') FROM generate_series(1, 100)",
            "SELECT hilo_setval('moved', 100000)",
            "SELECT hilo_alter('moved', increment => 2)",
            "SELECT hilo_rename('moved', 'renamed')",
            "SELECT hilo_drop('renamed')",
        ] {
            // The row is the client's own once it has set a value; the pool continues for others.
            if change.contains("nextval") {
                others.run("SELECT hilo_nextval('moved') FROM generate_series(1, 1000)");
            }
            client.run(change);
        }
        client.run("COMMIT");
        others.refusal("SELECT hilo_nextval('moved')").is("42704");
    }
}

/// Serializable transactions that draw, each from what the worker has just reserved, commit side
/// by side: drawing leaves no dependency between them.
#[test]
fn serializable_transactions_that_draw_all_commit() {
    let cluster = Cluster::with_hilo();
    cluster.connect("postgres").run(
        "SELECT hilo_create('drawn', block_size => 5);
         CREATE TABLE drawn (id bigint PRIMARY KEY DEFAULT hilo_nextval('drawn'))",
    );
    let report = cluster.pgbench(
        "postgres",
        "BEGIN ISOLATION LEVEL SERIALIZABLE;
         INSERT INTO drawn DEFAULT VALUES;
         INSERT INTO drawn SELECT hilo_nextval('drawn') FROM generate_series(1, 7);
         COMMIT;",
        &["--client=8", "--transactions=100", "--max-tries=1"],
    );
    assert!(report.contains("number of transactions actually processed: 800/800"), "{report}");
    assert_eq!(cluster.connect("postgres").one::<i64>("SELECT count(*) FROM drawn"), 6_400);
}

/// Nor do definitions, each of a sequence of its own: hilo's tables are a catalog, and what is read there is no
/// dependency. Core's CREATE SEQUENCE and GRANT behave like this.
#[test]
fn serializable_transactions_that_define_all_commit() {
    let cluster = Cluster::with_hilo();
    let mut admin = cluster.connect("postgres");
    admin.run(
        "SELECT hilo_create(name, gapless => name ~ 'gapless') FROM unnest(ARRAY['old1', 'old2', 'gapless1', 'gapless2']) name;
         SELECT hilo_create('shared', block_size => 5); CREATE ROLE app; SELECT hilo_grant('shared', 'app', 'USAGE')",
    );
    let steps = [
        "SELECT hilo_nextval('shared')",
        "SET LOCAL ROLE app; SELECT hilo_nextval('shared'); RESET ROLE",
        "SELECT hilo_create('new{me}')",
        "SELECT hilo_alter('new{me}', max_value => 1000000)",
        "SELECT hilo_grant('new{me}', 'app', 'USAGE')",
        "SELECT hilo_nextval('new{me}')",
        "SELECT hilo_alter('old{me}', ordered => true, key_format => '{value}')",
        "SELECT hilo_grant('old{me}', 'app', 'USAGE')",
        "SELECT hilo_setval('old{me}', 100)",
        "SELECT hilo_nextval('old{me}') FROM generate_series(1, 100)",
        "SELECT hilo_nextval('gapless{me}')",
        "SELECT hilo_alter('gapless{me}', max_value => 1000000)",
        "SELECT hilo_nextval('gapless{me}')",
        "SELECT hilo_default_grant('app', 'USAGE', 'new%')",
        "SELECT hilo_rename('new{me}', 'newer{me}')",
        "CREATE TABLE t{me} (id bigint DEFAULT hilo_nextval('newer{me}'))",
        "SELECT hilo_alter('newer{me}', owned_by => 't{me}.id')",
        "SELECT hilo_drop('old{me}')",
    ];
    let mut clients = [1, 2].map(|me| {
        let mut client = cluster.connect("postgres");
        client.run("BEGIN ISOLATION LEVEL SERIALIZABLE; SELECT");
        (me, client)
    });
    // Between the other one's snapshot and its commit, whatever each has read, the other one writes beside it.
    for step in steps {
        let shared = step.contains("default_grant");
        for (me, client) in &mut clients {
            if !shared || *me == 1 {
                client.run(&step.replace("{me}", &me.to_string()));
            }
        }
    }
    clients.into_iter().for_each(|(_, mut client)| client.run("COMMIT"));
    let named = "SELECT name FROM hilo_sequences WHERE name ~ '^(old|new)' ORDER BY name";
    assert_eq!(admin.all::<String>(named), ["newer1", "newer2"]);
    cluster.finish();
}
