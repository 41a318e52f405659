//! Whichever allocation fails, a statement gives its result or says that memory is out, and the server runs on.

use hilo_tests::{Client, ClientExt, Cluster};

/// Statements, `{turn}` being a new number each time, and the SQLSTATE with which they fail even if all memory is there.
const STATEMENTS: [(&str, Option<&str>); 9] = [
    ("INSERT INTO drawn SELECT 's{turn}', hilo_nextval('s{turn}')", None),
    ("SELECT hilo_create('c{turn}', block_size => 10)", None),
    (
        "BEGIN; SELECT hilo_create('o{turn}');
         INSERT INTO drawn SELECT 'o{turn}', hilo_nextval('o{turn}'); COMMIT",
        None,
    ),
    ("SELECT hilo_lease('n', 10, 'holder', '1 hour')", None),
    ("SELECT hilo_alter('n', min_value => 5, max_value => 1)", Some("22023")),
    // Its work is done in a subtransaction, whose error is caught and raised again with its place.
    ("SELECT hilo_apply(document) FROM documents", Some("22023")),
    // The message is longer than the room that a new memory context has.
    ("SELECT hilo_grant('n', repeat('unknown', 2000), 'USAGE')", Some("42704")),
    // And the text is longer than a piece of what is set aside for Rust's collections.
    ("SELECT hilo_grant('n', repeat('unknown', 20000), 'USAGE')", Some("42704")),
    // An error of others, which hilo passes on. Its message is longer than what is set aside for errors.
    ("DO $$ BEGIN RAISE EXCEPTION '%', repeat('x', 200000); END $$", Some("P0001")),
];

/// The first statement of a session, which fills the caches of its process.
const FIRST: &str = "INSERT INTO drawn SELECT 'first{turn}', hilo_nextval('first{turn}')";

/// Runs a statement again and again, and each time lets `count` allocations of its session fail. These begin with the
/// first allocation, then with the second, until there is none. Each time the statement has its usual end, or 53200.
/// Returns how many sessions have ended.
fn refuse_each(cluster: &Cluster, sql: &str, fails: Option<&str>, count: i32) -> usize {
    let connect = || {
        let mut session = cluster.connect("postgres");
        if sql != FIRST {
            // A second try to load a library whose start has failed half-way is an internal error.
            session.run("LOAD 'plpgsql'");
        }
        session
    };
    let mut session = connect();
    let mut ended = 0;
    for turn in 0.. {
        let pid = session.backend_pid();
        cluster.refuse_memory(pid, turn, count);
        let result = session.batch_execute(&sql.replace("{turn}", &format!("{count}_{turn}")));
        let refused = cluster.grant_memory();
        let error = result.as_ref().err();
        let code = error.and_then(|error| Some(error.code()?.code()));
        // The client may find the connection closed before it has read the last message.
        let ends = error.is_some_and(|error| {
            error.as_db_error().map_or(error.is_closed(), |report| report.severity() == "FATAL")
        });
        let as_usual = code == fails && !ends;
        let is_told = code == Some("53200") || code.is_none() && ends;
        assert!(as_usual || refused > 0 && is_told, "{turn}, {count}: {sql}: {result:?}");
        ended += usize::from(ends);
        if ends || sql == FIRST {
            session = connect();
        }
        session.run("ROLLBACK; INSERT INTO drawn SELECT 'n', hilo_nextval('n')");
        if refused == 0 {
            assert!(turn > 0, "nothing was refused: {sql}");
            return ended;
        }
    }
    unreachable!("no statement allocates for ever")
}

fn refuse_sessions(cluster: &Cluster, admin: &mut Client) {
    admin.run(
        r#"CREATE TABLE documents AS SELECT
             '{"hilo": 1, "sequences": [{"name": "d", "min_value": 5, "max_value": 1}]}'::jsonb AS document;
           SELECT hilo_create('n');
           SELECT hilo_create(name || n)
             FROM unnest('{s1_,s1000000_,first1_}'::text[]) AS name, generate_series(0, 200) AS n"#,
    );
    let pid = admin.backend_pid();
    let each = |count| STATEMENTS.into_iter().map(move |(sql, fails)| (sql, fails, count));
    let mut ended = 0;
    for (sql, fails, count) in each(1).chain(each(1_000_000)).chain([(FIRST, None, 1)]) {
        ended += refuse_each(cluster, sql, fails, count);
        assert_eq!(admin.backend_pid(), pid, "{sql} has thrown out the others");
    }
    assert!(ended > 0, "Rust's collections could always grow");
    assert_eq!(cluster.log_count("FATAL:  out of memory"), ended, "each says why");
}

/// The worker tries again, while sessions wait.
fn refuse_worker(cluster: &Cluster, client: &mut Client) {
    client.run(
        "SELECT hilo_create(name || n, block_size => 10)
           FROM unnest('{a,b,c,d,e}'::text[]) AS name, generate_series(0, 19) AS n",
    );
    let mut refused = 0;
    for turn in 0..20 {
        cluster.refuse_memory(cluster.wait_for_worker("postgres"), turn, 1);
        client.run(&format!(
            "INSERT INTO drawn SELECT name || {turn}, hilo_nextval(name || {turn})
               FROM unnest('{{a,b,c,d,e}}'::text[]) AS name, generate_series(1, 30)"
        ));
        refused += cluster.grant_memory();
    }
    assert!(refused > 0, "the worker allocates nothing");
}

#[test]
fn each_allocation_may_fail() {
    let cluster = Cluster::builder().refusing().start_with_hilo();
    let mut admin = cluster.connect("postgres");
    admin.run("CREATE TABLE drawn (name text, value bigint, PRIMARY KEY (name, value))");
    refuse_sessions(&cluster, &mut admin);
    refuse_worker(&cluster, &mut admin);
    cluster.finish();
}
