//! Whatever a client sends, it gets a value or an error that says why, and the server keeps running.

use std::collections::BTreeMap;
use std::thread;
use std::time::Duration;

use hilo_tests::{Client, ClientExt, Cluster, wait_until};

/// Values to try for an argument of each type: NULL and the type's extremes, a usual one first.
const EXTREMES: [(&str, &[&str]); 26] = [
    (
        "_hilo.hilo_definition",
        &[
            "(SELECT s FROM _hilo.hilo_definition s LIMIT 1)",
            "jsonb_populate_record(NULL::_hilo.hilo_definition, '{}')",
            "jsonb_populate_record(NULL::_hilo.hilo_definition, '{\"id\": -1, \"name\": \"\"}')",
        ],
    ),
    (
        "_hilo.\"position\"",
        &[
            "(SELECT p FROM _hilo.hilo_position p LIMIT 1)",
            "jsonb_populate_record(NULL::_hilo.hilo_position, '{}')",
            "jsonb_populate_record(NULL::_hilo.hilo_position, '{\"sequence\": -1, \"node\": -1}')",
        ],
    ),
    ("hilo_sequence", &["'tried'", "NULL", "repeat('x', 255)::hilo_sequence", "'''\"\\%{value}'"]),
    (
        "bigint",
        &["5", "NULL", "0", "-1", "2147483648", "9223372036854775807", "(-9223372036854775808)"],
    ),
    ("integer", &["2", "NULL", "0", "-1", "2147483647", "(-2147483648)"]),
    ("boolean", &["true", "NULL", "false"]),
    ("text", &["'USAGE'", "NULL", "''", "repeat('x', 100000)", "E'\\x01\\n'", "'{value}{value}'"]),
    ("text[]", &["'{tried}'", "NULL", "'{}'", "'{NULL}'", "'{{a,b},{c,d}}'"]),
    ("uuid[]", &["'{}'", "NULL", "'{NULL}'", "'{c95a9e3e-06b0-4f65-8a6e-2daf37c98211}'"]),
    ("bigint[]", &["'{}'", "NULL", "'{NULL}'", "'{1}'", "'{-9223372036854775808}'"]),
    ("regtype", &["'integer'", "NULL", "0", "4294967295"]),
    ("regclass", &["'filled'", "NULL", "0", "4294967295", "'pg_class'"]),
    ("name", &["'id'", "NULL", "''", "'nothing'"]),
    ("oid[]", &["'{1}'", "NULL", "'{}'", "'{NULL}'", "'{4294967295}'"]),
    ("name[]", &["'{id}'", "NULL", "'{}'", "'{NULL}'"]),
    ("oid", &["1", "NULL", "0", "4294967295"]),
    ("_hilo.hilo_role", &["'postgres'", "NULL", "'public'", "'-'"]),
    ("_hilo.hilo_column", &["'public.filled.id'", "NULL", "'-'", "'a.b'", "'\"'"]),
    (
        "jsonb",
        &[
            r#"'{"hilo": 1, "sequences": [{"name": "tried"}]}'"#,
            "NULL",
            "'null'",
            "'[]'",
            r#"'{"hilo": 2}'"#,
        ],
    ),
    ("smallint", &["1", "NULL", "0", "-1", "32767", "-32768"]),
    ("regrole", &["'postgres'", "NULL", "0"]),
    ("uuid", &["'c95a9e3e-06b0-4f65-8a6e-2daf37c98211'", "NULL"]),
    ("interval", &["'1 hour'", "NULL", "'0'", "'-1 day'", "'1 microsecond'", "'178000000 years'"]),
    ("timestamp with time zone", &["now()", "NULL", "'-infinity'", "'infinity'"]),
    ("internal", &["NULL"]),
    ("double precision", &["0.9", "NULL", "-1", "'NaN'", "'-Infinity'"]),
];

/// The ends that a call may have: a refusal that is meant, a limit, or the time-out that the test
/// has set.
fn is_meant(sqlstate: &str) -> bool {
    ["22", "42", "55", "53", "54", "0A", "2B", "3F"].iter().any(|class| sqlstate.starts_with(class))
        || sqlstate == "57014"
        || sqlstate == "P0001"
        // The sequence, or its request, is no longer there.
        || sqlstate == "40001"
}

/// Every function of the extension, with each value of each argument's type, the other arguments being
/// usual ones; then all of them NULL. Only _hilo.hilo_refuse is left out: it fails with any error that it is told.
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
              WHERE d.deptype = 'e' AND p.prorettype <> 'trigger'::regtype AND p.proname <> 'hilo_refuse'
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
    const MAX_COUNT: i64 = i64::MAX;
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
    // Values that a LIMIT leaves over go to the next calls.
    let some = "SELECT hilo_nextvals('many', 2147483647) LIMIT 3";
    assert_eq!(client.all::<i64>(some), [1, 2, 3]);
    assert_eq!(client.one::<i64>("SELECT hilo_nextval('many')"), 4);
    let size = "SELECT last - first + 1 FROM hilo_nextrange('many', 2147483647)";
    assert_eq!(client.one::<i64>(size), 2147483647);
    let range =
        client.query_one("SELECT first, last FROM hilo_nextrange('all', $1)", &[&(MAX_COUNT - 1)]);
    let range = range.expect("all but one are there");
    assert_eq!((range.get::<_, i64>(0), range.get::<_, i64>(1)), (1, MAX_COUNT - 1));
    assert_eq!(client.one::<i64>("SELECT hilo_nextval('all')"), MAX_COUNT);
    // Once nothing is left, even one value is more than there is.
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

/// Two billion values can be canceled, and the session continues after those that it has drawn.
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

/// Leaves a session's process so many kB to grow by, through the server, whose account may do this
/// to its processes. Or as much as it wants.
fn may_grow_by(admin: &mut Client, pid: i32, margin: Option<usize>) {
    let limit = match margin {
        Some(margin) => ((memory(pid, "VmSize") + margin) << 10).to_string(),
        None => "unlimited".to_owned(),
    };
    admin.run(&format!("COPY out FROM PROGRAM 'prlimit --pid {pid} --as={limit}:'"));
}

/// A figure that a process's status gives of its memory, in kB.
fn memory(pid: i32, what: &str) -> usize {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("it is there");
    let line = status.lines().find_map(|line| line.strip_prefix(what)).expect("a line");
    line.trim_start_matches(':').trim().trim_end_matches(" kB").parse().expect("a number")
}

/// Runs `sql` in sessions that may grow by less and less. Each gets its result, or the error that
/// it gets with memory, or is told that memory is out, and lives. Returns how many were told.
fn count_refusals(cluster: &Cluster, admin: &mut Client, margins: &[usize], sql: &str) -> usize {
    let mut refused = 0;
    for margin in margins {
        let mut poor = cluster.connect("postgres");
        let pid = poor.backend_pid();
        poor.run("SET jit = off; DO $$ BEGIN PERFORM hilo_nextval('n1'); END $$");
        may_grow_by(admin, pid, Some(*margin));
        if let Err(error) = poor.batch_execute(sql) {
            let code = error.code().unwrap_or_else(|| panic!("{margin} kB: {sql}: {error:?}"));
            let meant = code.code() == "42704" && sql.contains("unknown");
            assert!(meant || code.code() == "53200", "{margin} kB: {sql}: {error:?}");
            refused += usize::from(!meant);
        }
        may_grow_by(admin, pid, None);
        poor.run("ROLLBACK; INSERT INTO drawn SELECT hilo_nextval('n1')");
    }
    refused
}

/// Statements of every kind; those of core's at the end are the control.
const STATEMENTS: [&str; 26] = [
    "SELECT hilo_nextval('n' || i) FROM generate_series(1, 3000) AS i",
    "SELECT hilo_nextvals('n2', 100000)",
    "SELECT hilo_nextrange('n' || i, 500) FROM generate_series(1, 1000) AS i",
    "SELECT hilo_nextval('gapless') FROM generate_series(1, 100)",
    "SELECT hilo_nextval('unknown')",
    "SELECT hilo_grant('n1', repeat('unknown', 1000000), 'USAGE')",
    "SELECT count(hilo_lease('n3', 1, 'holder')) FROM generate_series(1, 2000); SELECT hilo_lease_revoke(holder => 'holder')",
    "SELECT hilo_lease('n3', 1, repeat('x', 1000000))",
    "BEGIN; SELECT hilo_create('m' || i, if_not_exists => true) FROM generate_series(1, 3000) AS i",
    "BEGIN; SELECT hilo_alter(name, increment => 2) FROM hilo_sequences",
    "BEGIN; SELECT hilo_drop(name, cascade => true) FROM hilo_sequences",
    "SELECT hilo_export()",
    "SELECT hilo_node_summary()",
    "SELECT hilo_apply(document) FROM documents",
    "SELECT hilo_apply(document, dry_run => true) FROM documents",
    "SELECT hilo_compare(summary) FROM documents",
    "SELECT hilo_check()",
    "SELECT hilo_report()",
    "SELECT count(*) FROM hilo_find_gaps('n4', 'filled', 'id')",
    "SELECT hilo_sync('n4', 'filled', 'id')",
    "BEGIN; SELECT hilo_adopt('serial', 'id')",
    "SELECT count(*) FROM hilo_stat_sequences",
    "SELECT count(*) FROM hilo_sequences",
    "SELECT array_agg(md5(i::text)) FROM generate_series(1, 200000) AS i",
    "SELECT json_agg(i) FROM generate_series(1, 200000) AS i",
    "SELECT jsonb_agg(to_jsonb(d)) FROM pg_description AS d",
];

/// A session that may have no more memory says so and lives, whatever it was about to do.
#[test]
fn a_session_without_memory_says_so() {
    let cluster = Cluster::with_hilo();
    let mut client = cluster.connect("postgres");
    client.run(
        "SELECT hilo_create('n' || i) FROM generate_series(1, 3000) AS i;
         SELECT hilo_create('gapless', gapless => true);
         CREATE TABLE out (line text); CREATE TABLE serial (id serial);
         CREATE TABLE drawn (value bigint PRIMARY KEY); CREATE TABLE filled (id bigint);
         SELECT hilo_nextvals('n4', 100000);
         INSERT INTO filled SELECT 2 * n FROM generate_series(1, 50000) AS n; CREATE INDEX ON filled (id);
         CREATE TABLE documents AS SELECT hilo_export() AS document, hilo_node_summary() AS summary;
         CREATE TABLE defaults ();
         DO $$ BEGIN FOR i IN 1..500 LOOP
             EXECUTE format('ALTER TABLE defaults ADD COLUMN %I bigint, ALTER COLUMN %1$I SET DEFAULT hilo_nextval(%L)', 'c' || i, 'n' || i);
         END LOOP; END $$;
         SET jit = off",
    );
    let pid = client.backend_pid();
    let mut never = Vec::new();
    for sql in STATEMENTS {
        let margins = [0, 300, 1_000, 2_000, 4_000, 10_000];
        if count_refusals(&cluster, &mut client, &margins, sql) == 0 {
            never.push(sql);
        }
        assert_eq!(client.backend_pid(), pid, "the others were not thrown out");
    }
    assert!(never.len() < 5, "memory was never scarce: {never:?}");
    cluster.finish();
}

/// A worker that may have no more memory tells those that wait for it, and serves them when it has.
#[test]
fn a_worker_without_memory_says_so() {
    const DRAW: &str = "SELECT hilo_nextval('n' || i) FROM generate_series(1, 1500) AS i";
    let cluster = Cluster::builder().config("hilo.reserve_timeout", "1s").start_with_hilo();
    let mut client = cluster.connect("postgres");
    client.run(
        "CREATE TABLE out (line text); CREATE TABLE drawn (sequence int, value bigint, PRIMARY KEY (sequence, value));
         SELECT hilo_create('n' || i, block_size => 20) FROM generate_series(1, 1500) AS i;
         SELECT hilo_nextval('n1')",
    );
    for margin in [0, 100, 300, 700, 1_500] {
        let worker = "SELECT pid FROM pg_stat_activity WHERE backend_type = 'hilo worker'";
        for pid in client.all::<i32>(worker) {
            may_grow_by(&mut client, pid, Some(margin));
        }
        for _ in 0..3 {
            let mut other = cluster.connect("postgres");
            for sql in [
                "INSERT INTO drawn SELECT i, hilo_nextval('n' || i) FROM generate_series(1, 1500) AS i",
                "SELECT count(*) FROM generate_series(1, 1500) AS i, LATERAL hilo_lease('n' || i, 3, 'h', '100ms')",
            ] {
                if let Err(error) = other.batch_execute(sql) {
                    let code = error.code().unwrap_or_else(|| panic!("{margin} kB: {error:?}"));
                    assert!(["53200", "53400"].contains(&code.code()), "{margin} kB: {error:?}");
                }
            }
        }
        for pid in client.all::<i32>(worker) {
            may_grow_by(&mut client, pid, None);
        }
    }
    wait_until("the worker serves", Duration::from_secs(30), || client.batch_execute(DRAW).is_ok());
    cluster.finish();
}

/// A worker that may have no more memory stays, however many leases are rolled back, and writes them off when it
/// has.
#[test]
fn a_worker_without_memory_writes_off_many_leases() {
    const LEASES: i64 = 16_000;
    let cluster = Cluster::with_hilo();
    let mut client = cluster.connect("postgres");
    client.run("CREATE TABLE out (line text); SELECT hilo_create('n1'); SELECT hilo_nextval('n1')");
    let worker = "SELECT pid FROM pg_stat_activity WHERE backend_type = 'hilo worker'";
    let mut holder = cluster.connect("postgres");
    for margin in [0, 200, 600, 1_500] {
        let lease = format!("SELECT hilo_lease('n1', 1) FROM generate_series(1, {LEASES})");
        holder.run(&format!("BEGIN; SELECT count(*) FROM ({lease}) AS l"));
        let pid = client.one::<i32>(worker);
        may_grow_by(&mut client, pid, Some(margin));
        holder.run("ROLLBACK");
        // It has looked at them by then.
        thread::sleep(Duration::from_millis(700));
        assert_eq!(client.all::<i32>(worker), [pid], "{margin} kB");
        may_grow_by(&mut client, pid, None);
    }
    let lost = "SELECT coalesce(sum(count), 0)::bigint FROM hilo_gaps WHERE name = 'n1'";
    wait_until("they are written off", Duration::from_secs(30), || {
        client.one::<i64>(lost) >= 4 * LEASES
    });
    assert_eq!(client.one::<i64>(lost), 4 * LEASES);
    cluster.finish();
}

/// However many gaps there are, and in whatever steps, hilo_find_gaps keeps none of them in memory
/// beyond work_mem, and can be cancelled.
#[test]
fn many_gaps_take_little_memory() {
    let cluster = Cluster::with_hilo();
    let mut client = cluster.connect("postgres");
    client.run(
        "SELECT hilo_create('wide'); SELECT count(*) FROM hilo_nextvals('wide', 800000);
         CREATE TABLE wide (id bigint); SET work_mem = '1MB'",
    );
    client.run("INSERT INTO wide SELECT 2 * n FROM generate_series(1, 400000) AS n");
    let pid = client.backend_pid();
    client.run("SELECT count(*) FROM hilo_find_gaps('wide', 'wide', 'id') WHERE first < 0");
    let before = memory(pid, "VmHWM");
    let sql = "SELECT count(*) FROM hilo_find_gaps('wide', 'wide', 'id') WHERE count = 1";
    assert!(client.one::<i64>(sql) >= 400_000);
    let mut fresh = cluster.connect("postgres");
    let pid = fresh.backend_pid();
    let fresh_before = memory(pid, "VmHWM");
    fresh.run("SET work_mem = '1MB'");
    assert!(fresh.one::<i64>(sql) >= 400_000);
    // The present numbering has every ten millionth value of a gap.
    fresh.run("CREATE TABLE far (id bigint); SELECT hilo_create('far')");
    fresh.run("SELECT hilo_nextval('far')");
    fresh.run("SELECT hilo_advance('far', 200000000000000)");
    fresh.run("SELECT hilo_alter('far', increment => 10000000)");
    fresh.run("SET statement_timeout = '300ms'");
    fresh.refusal("SELECT count(*) FROM hilo_find_gaps('far', 'far', 'id')").is("57014");
    // Shared buffers, which it touches, count among it.
    let grown = memory(pid, "VmHWM") - fresh_before;
    assert!(grown < 40_000, "{grown} kB, before that {before} kB");
    cluster.finish();
}
