//! Whatever a client sends, it gets a value or an error that says why, and the server lives.

use std::collections::BTreeMap;

use hilo_tests::{Client, ClientExt, Cluster};

/// Values to try for an argument of each type: NULL and the type's extremes, a usual one first.
const EXTREMES: [(&str, &[&str]); 12] = [
    ("hilo_sequence", &["'tried'", "NULL", "repeat('x', 255)::hilo_sequence", "'''\"\\%{value}'"]),
    (
        "bigint",
        &["5", "NULL", "0", "-1", "2147483648", "9223372036854775807", "(-9223372036854775808)"],
    ),
    ("integer", &["2", "NULL", "0", "-1", "2147483647", "(-2147483648)"]),
    ("boolean", &["true", "NULL", "false"]),
    ("text", &["'USAGE'", "NULL", "''", "repeat('x', 100000)", "E'\\x01\\n'", "'{value}{value}'"]),
    ("regtype", &["'integer'", "NULL", "0", "4294967295"]),
    ("regclass", &["'filled'", "NULL", "0", "4294967295", "'pg_class'"]),
    ("name", &["'id'", "NULL", "''", "'nothing'"]),
    ("oid", &["1", "NULL", "0", "4294967295"]),
    ("hilo.role", &["'postgres'", "NULL", "'public'", "'-'"]),
    ("regrole", &["'postgres'", "NULL", "0"]),
    ("internal", &["NULL"]),
];

/// What a call may end with: a refusal that is meant, a limit, or the time-out that the test has set.
fn is_meant(sqlstate: &str) -> bool {
    ["22", "42", "55", "53", "54", "0A", "2B"].iter().any(|class| sqlstate.starts_with(class))
        || sqlstate == "57014"
        || sqlstate == "P0001"
}

/// Every function of the extension, with each value of each argument's type, the other arguments being
/// usual ones; then all of them NULL.
#[test]
fn every_function_takes_every_argument() {
    let cluster = Cluster::with_hilo();
    let mut client = cluster.connect("postgres");
    client.run(
        "CREATE TABLE filled (id bigint);
         SET statement_timeout = '500ms'; SET client_min_messages = error",
    );
    let values: BTreeMap<&str, &[&str]> = EXTREMES.into_iter().collect();
    let functions = client
        .query(
            "SELECT p.oid::regproc::text,
                    ARRAY(SELECT format_type(t, NULL) FROM unnest(p.proargtypes) WITH ORDINALITY AS a (t, n) ORDER BY n)
               FROM pg_proc p JOIN pg_depend d ON d.classid = 'pg_proc'::regclass AND d.objid = p.oid
               JOIN pg_extension e ON d.refobjid = e.oid AND e.extname = 'hilo'
              WHERE d.deptype = 'e' AND p.prorettype <> 'trigger'::regtype
                AND NOT p.proargtypes::oid[] && ARRAY['internal', 'cstring']::regtype[]::oid[]
                AND p.prorettype NOT IN ('cstring'::regtype)",
            &[],
        )
        .expect("cannot list the functions");
    assert!(functions.len() > 40, "{}", functions.len());
    let mut calls = 0;
    for row in functions {
        let (name, types): (String, Vec<String>) = (row.get(0), row.get(1));
        let of = |at: usize| -> &[&str] {
            values
                .get(types[at].as_str())
                .copied()
                .unwrap_or_else(|| panic!("{name}: {}", types[at]))
        };
        let usual: Vec<String> = (0..types.len()).map(|at| of(at)[0].to_owned()).collect();
        let mut tries = vec![usual.clone(), vec!["NULL".to_owned(); types.len()]];
        for at in 0..types.len() {
            for value in &of(at)[1..] {
                let mut arguments = usual.clone();
                arguments[at] = (*value).to_owned();
                tries.push(arguments);
            }
        }
        for arguments in tries {
            let typed: Vec<String> =
                arguments.iter().zip(&types).map(|(value, of)| format!("{value}::{of}")).collect();
            call(&mut client, &name, &typed.join(", "));
            calls += 1;
        }
    }
    assert!(calls > 300, "{calls}");
    let mut other = cluster.connect("postgres");
    other.run("SELECT hilo_drop(name, cascade => true) FROM hilo_sequences");
    other.run("SELECT hilo_create('after')");
    assert_eq!(other.one::<i64>("SELECT hilo_nextval('after')"), 1);
    cluster.finish();
}

fn call(client: &mut Client, function: &str, arguments: &str) {
    client.run(
        "SELECT hilo_drop(name) FROM hilo_sequences;
         SELECT hilo_create('tried', block_size => 10)",
    );
    let sql = format!("SELECT {function}({arguments})");
    if let Err(error) =
        client.batch_execute(&format!("SELECT count(*) FROM ({sql} LIMIT 1000) AS t"))
    {
        let code = error.code().unwrap_or_else(|| panic!("{sql}: {error:?}")).code();
        assert!(is_meant(code), "{sql}: {error:?}");
    }
    assert_eq!(client.one::<i32>("SELECT 1"), 1);
}

/// A definition without its name, or a grant without its grantee, is refused; where core's functions
/// give NULL for NULL, so do hilo's.
#[test]
fn null_is_refused_where_something_would_be_left_undone() {
    let cluster = Cluster::with_hilo();
    let mut client = cluster.connect("postgres");
    client.run("SELECT hilo_create('here')");
    for call in [
        "hilo_create(NULL)",
        "hilo_alter(NULL, cycle => true)",
        "hilo_rename(NULL, 'there')",
        "hilo_rename('here', NULL)",
        "hilo_drop(NULL)",
        "hilo_drop(NULL, if_exists => true)",
        "hilo_grant(NULL, 'PUBLIC', 'USAGE')",
        "hilo_grant('here', NULL, 'USAGE')",
        "hilo_grant('here', 'PUBLIC', NULL)",
        "hilo_revoke('here', NULL, 'USAGE')",
        "hilo_set_owner('here', NULL)",
    ] {
        let refusal = client.refusal(&format!("SELECT {call}"));
        refusal.is("22023").says("must not be null").helps();
    }
    client.run("SELECT hilo_drop('here', NULL, NULL)");
    client.refusal("SELECT hilo_drop('here', NULL, NULL)").is("42704");
    for call in [
        "hilo_nextval(NULL)",
        "(SELECT n FROM hilo_nextvals('here', NULL) AS n)",
        "(SELECT first FROM hilo_nextrange(NULL, 2))",
        "(SELECT first FROM hilo_nextrange('here', NULL))",
        "hilo_next_hi(NULL)",
        "hilo_currval(NULL)",
        "hilo_setval('here', NULL)",
        "hilo_key_value('here', NULL)",
    ] {
        assert_eq!(client.one::<Option<i64>>(&format!("SELECT {call}")), None, "{call}");
    }
    cluster.finish();
}

/// How many values there can be asked for at once.
#[test]
fn counts_of_every_size() {
    const MOST: i64 = i64::MAX;
    let cluster = Cluster::with_hilo();
    let mut client = cluster.connect("postgres");
    client
        .run("SELECT hilo_create('few', max_value => 10), hilo_create('many'), hilo_create('all')");
    assert_eq!(client.all::<i64>("SELECT hilo_nextvals('few', 0)"), [0; 0]);
    for call in ["hilo_nextvals('few', -1)", "hilo_nextvals('few', (-2147483648)::integer)"] {
        client.refusal(&format!("SELECT {call}")).is("22023").says("negative").helps();
    }
    for n in ["0", "-1", "-9223372036854775808"] {
        let sql = format!("SELECT hilo_nextrange('few', '{n}')");
        client.refusal(&sql).is("22023").says("positive").helps();
    }
    client.refusal("SELECT hilo_nextrange('few', 9223372036854775807)").is("2200H").helps();
    assert_eq!(client.one::<i64>("SELECT hilo_nextval('few')"), 1, "a refusal costs nothing");
    // What a LIMIT leaves over goes to the next calls.
    let some = "SELECT hilo_nextvals('many', 2147483647) LIMIT 3";
    assert_eq!(client.all::<i64>(some), [1, 2, 3]);
    assert_eq!(client.one::<i64>("SELECT hilo_nextval('many')"), 4);
    let size = "SELECT last - first + 1 FROM hilo_nextrange('many', 2147483647)";
    assert_eq!(client.one::<i64>(size), 2147483647);
    let range =
        client.query_one("SELECT first, last FROM hilo_nextrange('all', $1)", &[&(MOST - 1)]);
    let range = range.expect("all but one are there");
    assert_eq!((range.get::<_, i64>(0), range.get::<_, i64>(1)), (1, MOST - 1));
    assert_eq!(client.one::<i64>("SELECT hilo_nextval('all')"), MOST);
    // Of nothing not even one is a range that does not fit.
    for call in ["hilo_nextval('all')", "hilo_nextrange('all', 1)", "hilo_nextrange('all', 100)"] {
        client.refusal(&format!("SELECT {call}")).is("2200H").says("reached maximum value");
    }
    client.run("SELECT hilo_create('hi', block_size => 10, max_value => 20)");
    assert_eq!(client.all::<i64>("SELECT hilo_next_hi('hi') FROM generate_series(1, 2)"), [0, 1]);
    client.refusal("SELECT hilo_next_hi('hi')").is("2200H").says("reached maximum value");
    cluster.finish();
}

/// The same in the transaction that has created the sequence.
#[test]
fn counts_of_every_size_of_ones_own() {
    let cluster = Cluster::with_hilo();
    let mut client = cluster.connect("postgres");
    client.run("BEGIN; SELECT hilo_create('few', max_value => 10)");
    assert_eq!(client.one::<i64>("SELECT last FROM hilo_nextrange('few', 9)"), 9);
    client.run("SAVEPOINT a");
    client.refusal("SELECT hilo_nextrange('few', 2)").is("2200H").says("no contiguous range");
    client.run("ROLLBACK TO a");
    assert_eq!(client.one::<i64>("SELECT last FROM hilo_nextrange('few', 1)"), 10);
    client.run("SAVEPOINT b");
    client.refusal("SELECT hilo_nextrange('few', 1)").is("2200H").says("reached maximum value");
    client.run("ROLLBACK TO b; COMMIT");
    client.refusal("SELECT hilo_nextval('few')").is("2200H").says("reached maximum value");
    cluster.finish();
}

/// Two billion values can be canceled, and the session goes on behind those that it has drawn.
#[test]
fn a_long_series_can_be_canceled() {
    let cluster = Cluster::with_hilo();
    let mut client = cluster.connect("postgres");
    client.run("SELECT hilo_create('long'); SET statement_timeout = '300ms'");
    for sql in [
        "SELECT count(*) FROM hilo_nextvals('long', 2147483647)",
        "SELECT count(*) FROM (SELECT hilo_nextvals('long', 2147483647)) AS t",
    ] {
        client.refusal(sql).is("57014");
        let last: i64 = client.one("SELECT hilo_currval('long')");
        assert!(last > 1_000, "{last}");
        assert_eq!(client.one::<i64>("SELECT hilo_nextval('long')"), last + 1);
    }
    drop(client);
    cluster.finish();
}

/// The smallest settings that there can be: slower, and nothing else.
#[test]
fn the_smallest_settings_serve() {
    let cluster = Cluster::builder()
        .config("hilo.max_sequences", "16")
        .config("hilo.max_backend_slices", "1")
        .config("hilo.max_slice_size", "1")
        .config("hilo.min_block_size", "1")
        .config("hilo.max_block_size", "1")
        .config("hilo.min_threshold", "1")
        .config("hilo.reserve_timeout", "30s")
        .config("max_connections", "8")
        .config("superuser_reserved_connections", "1")
        .config("max_worker_processes", "2")
        .start_with_hilo();
    let mut clients: Vec<Client> = (0..4).map(|_| cluster.connect("postgres")).collect();
    clients[0].run("SELECT hilo_create('small' || n) FROM generate_series(1, 40) AS n");
    let mut seen = Vec::new();
    for _ in 0..3 {
        for client in &mut clients {
            let one =
                "SELECT hilo_nextval('small' || n) * 100 + n FROM generate_series(1, 40) AS n";
            seen.extend(client.all::<i64>(one));
        }
    }
    seen.sort_unstable();
    let drawn = seen.len();
    seen.dedup();
    assert_eq!((drawn, seen.len()), (480, 480));
    drop(clients);
    cluster.finish();
}

/// A session that may have no more memory says so and lives, whatever it was about to keep.
#[test]
fn a_session_without_memory_says_so() {
    let cluster = Cluster::with_hilo();
    let mut client = cluster.connect("postgres");
    client.run("SELECT hilo_create('n' || i) FROM generate_series(1, 20000) AS i; CREATE TABLE out (line text)");
    let mut refused = 0;
    for margin in (400..2_800).step_by(200) {
        let mut poor = cluster.connect("postgres");
        let pid = poor.backend_pid();
        poor.run("SELECT hilo_nextval('n1')");
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("it is there");
        let size = status.lines().find_map(|line| line.strip_prefix("VmSize:")).expect("a size");
        let size: usize = size.trim().trim_end_matches(" kB").parse().expect("a number");
        // Through the server, whose account may do this to its processes.
        let limit = ((size + margin) << 10).to_string();
        let mut may_have = |limit: &str| {
            client.run(&format!("COPY out FROM PROGRAM 'prlimit --pid {pid} --as={limit}:'"));
        };
        may_have(&limit);
        let all =
            "DO $$BEGIN FOR i IN 1..20000 LOOP PERFORM hilo_nextval('n' || i); END LOOP; END$$";
        if let Err(error) = poor.batch_execute(all) {
            let code = error.code().unwrap_or_else(|| panic!("{margin} kB: {error:?}")).code();
            assert_eq!(code, "53200", "{margin} kB: {error:?}");
            refused += 1;
        }
        may_have("unlimited");
        assert!(poor.one::<bool>("SELECT hilo_nextval('n1') > 0"), "{margin} kB");
    }
    assert!(refused > 0, "memory was never scarce");
    cluster.finish();
}
