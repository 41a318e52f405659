//! Edge cases: what hilo does to statements of others, and which session waits for which.

use std::thread;

use hilo_tests::{Client, ClientExt, Cluster, LONG, wait_until};

/// The errors of other people's statements reach the client whole: constraint, position and context.
/// So do those of what hilo's functions run.
#[test]
fn errors_of_others_arrive_whole() {
    let cluster = Cluster::with_hilo();
    let mut client = cluster.connect("postgres");
    client.run("CREATE TABLE keys (id integer PRIMARY KEY)");
    let refusal = client.refusal(
        "PREPARE twice AS INSERT INTO keys VALUES (1), (1);
         EXECUTE twice",
    );
    let refusal = refusal.is("23505").details("(id)=(1)");
    assert_eq!(refusal.report().constraint(), Some("keys_pkey"));
    assert_eq!(refusal.report().table(), Some("keys"));
    let refusal = client.refusal("DO $$BEGIN INSERT INTO keys VALUES (2), (2); END$$").is("23505");
    let context = refusal.report().where_().unwrap_or_default();
    assert!(context.contains("inline_code_block"), "{context}");
    let refusal = client.refusal("CREATE VIEW lacks AS SELECT nothing FROM keys").is("42703");
    assert!(refusal.report().position().is_some());
    client.run(
        "CREATE TABLE fed (id serial);
         CREATE FUNCTION refuse() RETURNS event_trigger LANGUAGE plpgsql
             AS $$BEGIN RAISE 'refused' USING CONSTRAINT = 'unchanged'; END$$;
         CREATE EVENT TRIGGER refuse ON ddl_command_start WHEN TAG IN ('ALTER TABLE')
             EXECUTE FUNCTION refuse()",
    );
    let refusal = client.refusal("SELECT hilo_adopt('fed', 'id')").is("P0001");
    assert_eq!(refusal.report().constraint(), Some("unchanged"));
    let context = refusal.report().where_().unwrap_or_default();
    assert!(context.contains("PL/pgSQL function refuse()"), "{context}");
    cluster.finish();
}

/// A session that has written to a table may need more values from the worker. A rename or a drop
/// that waits for this table does not hold it up. No value is lost on the way.
#[test]
fn definers_wait_for_tables_before_they_hold_up_the_worker() {
    for (definition, after) in [
        ("SELECT hilo_rename('old', 'new')", "SELECT hilo_nextval('new') > 500"),
        (
            "SELECT hilo_drop('old', cascade => true)",
            "SELECT NOT EXISTS (SELECT FROM hilo_sequences)",
        ),
    ] {
        let cluster = Cluster::with_hilo();
        let mut writer = cluster.connect("postgres");
        writer.run(
            "SELECT hilo_create('old', block_size => 8);
             CREATE TABLE filled (id bigint DEFAULT hilo_nextval('old'), n integer);
             SET hilo.reserve_timeout = '10s'; SET statement_timeout = '20s'",
        );
        writer.run("BEGIN; INSERT INTO filled (n) VALUES (0)");
        let mut definer = cluster.connect("postgres");
        let mut watcher = cluster.connect("postgres");
        let definer = thread::spawn(move || definer.run(definition));
        wait_until("the definer waits for the table", LONG, || waits_for_table(&mut watcher));
        writer.run("INSERT INTO filled (n) SELECT generate_series(1, 500); COMMIT");
        definer.join().expect("the definition succeeds");
        assert!(watcher.one::<bool>(after), "{definition}");
        assert_eq!(watcher.one::<i64>("SELECT count(DISTINCT id) FROM filled"), 501);
        cluster.finish();
    }
}

fn waits_for_table(client: &mut Client) -> bool {
    client.one("SELECT EXISTS (SELECT FROM pg_locks WHERE locktype = 'relation' AND NOT granted)")
}

/// A name that is taken cannot be renamed to, not even its own; swapping two in one transaction can
/// be done, and defaults follow.
#[test]
fn names_are_swapped_in_one_transaction() {
    let cluster = Cluster::with_hilo();
    let mut client = cluster.connect("postgres");
    client.run(
        "SELECT hilo_create('low'), hilo_create('high', start_value => 1000);
         CREATE TABLE lows (id bigint DEFAULT hilo_nextval('low'), n integer);
         INSERT INTO lows (n) VALUES (0)",
    );
    client.refusal("SELECT hilo_rename('low', 'high')").is("42710").hints("another name");
    client.refusal("SELECT hilo_rename('low', 'low')").is("42710");
    client.run(
        "BEGIN; SELECT hilo_rename('low', 'between'); SELECT hilo_rename('high', 'low');
         SELECT hilo_rename('between', 'high'); COMMIT",
    );
    assert_eq!(client.one::<i64>("SELECT hilo_nextval('low')"), 1000);
    assert_eq!(client.one::<i64>("INSERT INTO lows (n) VALUES (1) RETURNING id"), 2);
    assert_eq!(client.one::<i64>("SELECT hilo_currval('high')"), 2);
    cluster.finish();
}

/// REINDEX CONCURRENTLY, which puts other indexes in the place of the catalog's own, is noticed by
/// sessions and by the worker.
#[test]
fn indexes_are_rebuilt_while_they_are_used() {
    let cluster = Cluster::with_hilo();
    let mut client = cluster.connect("postgres");
    let mut admin = cluster.connect("postgres");
    client.run(
        "CREATE ROLE clerk;
         SELECT hilo_create('kept', block_size => 8), hilo_create('spare');
         SELECT hilo_grant('kept', 'clerk', 'USAGE');
         SELECT hilo_nextval('kept'), hilo_nextval('spare')",
    );
    for (round, table) in ["definition", "position", "free_range", "gap", "lease", "privilege"]
        .into_iter()
        .enumerate()
    {
        admin.run(&format!("REINDEX TABLE CONCURRENTLY _hilo.hilo_{table}"));
        let drawn: i64 = client.one(
            "SELECT count(DISTINCT value) FROM hilo_nextvals('kept', 100) AS value WHERE value > 0",
        );
        assert_eq!(drawn, 100, "after {table}");
        client.run(&format!(
            "SELECT hilo_grant('kept', 'clerk', 'SELECT'); SELECT hilo_revoke('kept', 'clerk', 'SELECT');
             SELECT hilo_setval('spare', {round} * 1000 + 1000); SELECT hilo_nextval('spare');
             SELECT hilo_create('short-lived'); SELECT hilo_drop('short-lived');
             SET ROLE clerk; SELECT hilo_nextval('kept'); RESET ROLE; SELECT * FROM hilo_check()"
        ));
    }
    assert_eq!(client.one::<i64>("SELECT hilo_nextval('kept')"), 608);
    cluster.finish();
}
