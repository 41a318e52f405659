//! A sequence with a source serves what the source brings, each value once, and nothing else.

use std::net::TcpListener;
use std::thread;

use hilo_tests::{Client, ClientExt, Cluster, LONG, Mode, assert_unique, wait_until};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// Another database, `centre`, that gives numbers away for good, the same for the same request.
fn with_centre() -> (Cluster, Client) {
    let cluster = Cluster::builder().config("max_worker_processes", "20").start_with_hilo();
    let mut client = cluster.connect("postgres");
    client.run("CREATE DATABASE centre");
    client.run("CREATE EXTENSION dblink");
    cluster.connect("centre").run(
        "CREATE TABLE given (id uuid, first bigint, last bigint, times int DEFAULT 1);
         CREATE FUNCTION take(n bigint, request uuid) RETURNS TABLE (first bigint, last bigint)
             LANGUAGE plpgsql AS $$ #variable_conflict use_column
         BEGIN
             LOCK given;
             UPDATE given SET times = times + 1 WHERE id = request;
             IF NOT FOUND THEN
                 INSERT INTO given SELECT request, m + 1, m + n
                   FROM (SELECT coalesce(max(last), 0) + 5 AS m FROM given) AS most;
             END IF;
             RETURN QUERY SELECT first, last FROM given WHERE id = request;
         END $$",
    );
    (cluster, client)
}

/// The query that asks `centre`, followed by `more`.
fn asks_centre(cluster: &Cluster, more: &str) -> String {
    let at = cluster.socket_directory().display();
    format!(
        "$q$SELECT t.first, t.last FROM public.dblink(
             'dbname=centre user=postgres host={at}',
             pg_catalog.format('SELECT * FROM take(%s, %L)', $2, $3)
         ) AS t (first bigint, last bigint){more}$q$"
    )
}

/// Eight sessions draw at once, and every value is one of those that the source has brought.
#[test]
fn many_sessions_get_what_the_source_brings() {
    let (cluster, mut client) = with_centre();
    let source = asks_centre(&cluster, "");
    client.run(&format!("SELECT hilo_create('s', source => {source})"));
    let draw = |_| {
        let cluster = &cluster;
        move || cluster.connect("postgres").draw("s", 5_000)
    };
    let mut drawn: Vec<i64> = thread::scope(|scope| {
        let threads: Vec<_> = (0..8).map(|at| scope.spawn(draw(at))).collect();
        threads.into_iter().flat_map(|one| one.join().expect("a session failed")).collect()
    });
    let range = "SELECT (hilo_nextrange('s', 300)).first";
    let first: i64 = client.one(range);
    drawn.extend(first..first + 300);
    let lease = "SELECT ARRAY[first, last] FROM hilo_lease('s', 100)";
    let leased: Vec<i64> = client.one(lease);
    drawn.extend(leased[0]..=leased[1]);
    assert_unique("s", &drawn);
    let mut centre = cluster.connect("centre");
    let given: Vec<String> = centre.all("SELECT first || ' ' || last FROM given");
    let given: Vec<(i64, i64)> = given
        .iter()
        .map(|row| row.split_once(' ').expect("two numbers"))
        .map(|(first, last)| (first.parse().expect("first"), last.parse().expect("last")))
        .collect();
    for value in drawn {
        assert!(given.iter().any(|(first, last)| (first..=last).contains(&&value)), "{value}");
    }
    let state = "SELECT requested >= 40400 AND received = requested FROM hilo_stat_sources";
    wait_until("all is received", LONG, || client.one(state));
    assert_eq!(client.one::<i64>("SELECT count(*) FROM hilo_gaps"), 0);
    assert_eq!(centre.one::<i64>("SELECT count(*) FROM given WHERE times > 1"), 0);
}

/// The server is killed after the source has answered, and before the answer is committed. The same
/// request is made again, and its answer is served.
#[test]
fn a_request_is_repeated_until_its_answer_is_committed() {
    let (cluster, mut client) = with_centre();
    let held = asks_centre(
        &cluster,
        ", LATERAL (SELECT pg_catalog.pg_advisory_xact_lock(77 + t.first * 0)) AS held",
    );
    client.run(&format!("SELECT hilo_create('s', source => {held})"));
    client.run("SELECT pg_advisory_lock(77)");
    let mut caller = cluster.connect("postgres");
    caller.run("SET hilo.reserve_timeout = '1h'");
    let waits = thread::spawn(move || caller.query_one("SELECT hilo_nextval('s')", &[]).is_err());
    let mut centre = cluster.connect("centre");
    let asked = "SELECT count(*) = 1 FROM given";
    wait_until("the source has been asked", LONG, || centre.one(asked));
    let request: String = centre.one("SELECT id::text FROM given");
    // The process first: when the lock's holder dies, it would get the lock, and may still commit.
    let asking: i32 =
        centre.one("SELECT pid FROM pg_stat_activity WHERE backend_type = 'hilo source'");
    kill(Pid::from_raw(asking), Signal::SIGKILL).expect("it runs");
    cluster.kill9_postmaster();
    cluster.start();
    assert!(waits.join().expect("the caller panicked"));
    let mut client = cluster.connect_when_up("postgres");
    assert_eq!(client.one::<i64>("SELECT hilo_nextval('s')"), 6);
    let mut centre = cluster.connect("centre");
    let repeated = "SELECT id::text FROM given WHERE first = 6 AND times > 1";
    assert_eq!(centre.one::<String>(repeated), request);
    assert_eq!(client.one::<i64>("SELECT count(*) FROM hilo_gaps"), 0);
}

/// Whatever is wrong with an answer, the caller, the view and the log are told, and nothing of it
/// is served.
#[test]
fn nothing_is_served_of_a_bad_answer() {
    let cluster = Cluster::with_hilo();
    let mut client = cluster.connect("postgres");
    let bad = [
        ("SELECT 1", "two columns of type bigint"),
        ("SELECT 1, 2", "two columns of type bigint"),
        ("SELECT 1::bigint, NULL::bigint", "two columns of type bigint"),
        ("SELECT 1::bigint, 1::bigint WHERE false", "has brought no values"),
        ("SELECT 20::bigint, 10::bigint", "not the direction of the sequence"),
        ("SELECT 0::bigint, 10::bigint", "has brought 0, which is not a value"),
        ("SELECT 10::bigint, 1001::bigint", "has brought 1001, which is not a value"),
        (
            "VALUES (10::bigint, 20::bigint), (20, 30)",
            "20 to 30, of which the sequence holds a part",
        ),
        ("SELECT 1::bigint / 0, 1::bigint", "division by zero"),
        ("SELEC", "syntax error"),
        ("CREATE TABLE public.t ()", "two columns of type bigint"),
    ];
    for (at, (source, says)) in bad.iter().enumerate() {
        let name = format!("s{at}");
        client.run(&format!(
            "SELECT hilo_create('{name}', min_value => 10, max_value => 1000, increment => 10,
                                start_value => 10, source => $q${source}$q$)"
        ));
        client.refusal(&format!("SELECT hilo_nextval('{name}')")).says(says);
        let seen = format!("SELECT last_error FROM hilo_stat_sources WHERE name = '{name}'");
        assert!(client.one::<String>(&seen).contains(says));
        let state =
            format!("SELECT state || received FROM hilo_stat_sources WHERE name = '{name}'");
        assert_eq!(client.one::<String>(&state), "failing0");
        cluster.expect_in_log(says);
    }
    assert_eq!(client.one::<i64>("SELECT count(*) FROM _hilo.hilo_free_range"), 0);
    // Off the grid.
    client.run(
        "SELECT hilo_create('off', increment => 10, min_value => 10, start_value => 10,
                            source => 'SELECT 15::bigint, 20::bigint')",
    );
    client.refusal("SELECT hilo_nextval('off')").says("has brought 15, which is not a value");
    // The values that it has served before, and those that it holds.
    client.run("SELECT hilo_create('own'); SELECT hilo_nextval('own')");
    client.run("SELECT hilo_alter('own', source => 'SELECT 1::bigint, 1::bigint')");
    client
        .refusal("SELECT hilo_nextval('own')")
        .says("may have served that before it had this source");
    // A source that fails is asked again, and serves when it continues where the HINT says.
    let said: String = client.one("SELECT last_error FROM hilo_stat_sources WHERE name = 'own'");
    let beyond = said.split_once("continue beyond ").expect("it says where").1;
    let end: i64 = beyond.split(':').next().unwrap_or_default().parse().expect("it is a value");
    client.run(&format!(
        "SELECT hilo_alter('own', source => 'SELECT {end} + 1::bigint, {end} + 1 + $2')"
    ));
    assert_eq!(client.one::<i64>("SELECT hilo_nextval('own')"), end + 1);
}

/// A source that refuses many values at once is asked for fewer, and so is one that counts too
/// slowly to bring them in time. Who wants less is served.
#[test]
fn no_size_that_one_caller_asks_for_stops_the_others() {
    let cluster = Cluster::builder()
        .config("max_worker_processes", "20")
        .config("hilo.source_timeout", "300ms")
        .start_with_hilo();
    let mut client = cluster.connect("postgres");
    client.run(
        "CREATE SEQUENCE counter;
         CREATE FUNCTION give(n bigint, most bigint, pause float8)
             RETURNS TABLE (first bigint, last bigint) LANGUAGE plpgsql AS $$
         BEGIN
             IF n > most THEN RAISE 'not so many'; END IF;
             PERFORM pg_sleep(n * pause);
             RETURN QUERY SELECT m * 200000 + 1, m * 200000 + n FROM nextval('public.counter') AS m;
         END $$;
         SELECT hilo_create('strict', source => 'SELECT * FROM public.give($2, 100000, 0)'),
                hilo_create('stricter', source => 'SELECT * FROM public.give($2, 10, 0)'),
                hilo_create('slow', source => 'SELECT * FROM public.give($2, 100000, 0.001)')",
    );
    client.run("SET hilo.reserve_timeout = '1s'");
    for (name, size, says) in [
        ("strict", 100_001, "not so many"),
        ("stricter", 11, "not so many"),
        ("slow", 1_000, "300 ms"),
    ] {
        let mut seen = client.draw(name, 1);
        client.refusal(&format!("SELECT hilo_nextrange('{name}', {size})"));
        let error = format!("SELECT last_error FROM hilo_stat_sources WHERE name = '{name}'");
        assert!(client.one::<String>(&error).contains(says), "{name}");
        client.run("SET hilo.reserve_timeout = '20s'");
        wait_until("it is served again", LONG, || {
            let row = client.query_one(&format!("SELECT hilo_nextval('{name}')"), &[]);
            row.is_ok_and(|row| {
                seen.push(row.get::<_, i64>(0));
                seen.len() > 200
            })
        });
        client.run("SET hilo.reserve_timeout = '1s'");
        assert_unique(name, &seen);
    }
}

/// A request ends when the source is set again, also to what it was.
#[test]
fn a_request_ends_when_the_source_is_set() {
    let cluster = Cluster::with_hilo();
    let mut client = cluster.connect("postgres");
    let source = "source => $$SELECT 1::bigint, $2 FROM public.fail('08006')$$";
    client.run(&format!(
        "CREATE FUNCTION fail(state text) RETURNS int LANGUAGE plpgsql AS $$
         BEGIN RAISE 'no connection' USING ERRCODE = state; END $$;
         SELECT hilo_create('s', {source}); SET hilo.reserve_timeout = '1s'"
    ));
    let draw = "SELECT hilo_nextval('s')";
    let asked = "SELECT request::text FROM _hilo.hilo_source";
    client.refusal(draw).says("no connection");
    let stands: String = client.one(asked);
    client.refusal(draw).says("no connection");
    assert_eq!(client.one::<String>(asked), stands, "the answer may be waiting");
    client.run(&format!("SELECT hilo_alter('s', {source})"));
    client.refusal(draw).says("no connection");
    assert_ne!(client.one::<String>(asked), stands);
}

/// One source sleeps and another one's server never says a word. Other sequences are served, a
/// limit ends the query, and so does a stop of the server.
#[test]
fn a_source_that_does_not_answer_holds_up_nothing_else() {
    let mute = TcpListener::bind("127.0.0.1:0").expect("cannot listen");
    let port = mute.local_addr().expect("it has an address").port();
    let cluster = Cluster::builder()
        .config("max_worker_processes", "20")
        .config("hilo.source_timeout", "300ms")
        .start_with_hilo();
    let mut client = cluster.connect("postgres");
    client.run("CREATE EXTENSION dblink; SELECT hilo_create('other')");
    client.run(
        "SELECT hilo_create('asleep', source => 'SELECT 1::bigint, 1::bigint FROM pg_catalog.pg_sleep(3600)')",
    );
    client.run(&format!(
        "SELECT hilo_create('mute', source => $$SELECT * FROM public.dblink(
             'host=127.0.0.1 port={port} user=x dbname=x', 'SELECT 1') AS t (a bigint, b bigint)$$)"
    ));
    for name in ["asleep", "mute"] {
        let draw = format!("SELECT hilo_nextval('{name}')");
        client.refusal(&draw).says("has not answered within 300 ms");
    }
    assert_eq!(client.one::<i64>("SELECT hilo_nextval('other')"), 1);
    cluster.configure("hilo.source_timeout", "1h");
    cluster.reload();
    client.run("SET hilo.reserve_timeout = '100ms'");
    let asking = "SELECT count(*) = 2 FROM pg_stat_activity
                   WHERE backend_type = 'hilo source' AND query LIKE '%asking%'
                     AND query_start < clock_timestamp() - interval '1 second'";
    wait_until("both are asked without a limit", LONG, || {
        for name in ["asleep", "mute"] {
            client.refusal(&format!("SELECT hilo_nextval('{name}')"));
        }
        client.one(asking)
    });
    client.draw("other", 1_000);
    cluster.stop(Mode::Fast);
    cluster.start();
    let mut client = cluster.connect("postgres");
    assert_eq!(client.one::<i64>("SELECT hilo_nextval('other')"), 1_002);
}

/// Values that a sequence has served by its own numbers, or got from another source, no source
/// brings again.
#[test]
fn no_source_brings_what_was_served_before() {
    let cluster = Cluster::with_hilo();
    let mut client = cluster.connect("postgres");
    let counter = "SELECT min(v), max(v) FROM (SELECT nextval(''public.counter'') v FROM generate_series(1, $2)) n";
    client.run("CREATE SEQUENCE counter; CREATE SEQUENCE other");
    for (name, moved) in [("advanced", "hilo_advance"), ("set", "hilo_setval")] {
        client.run(&format!("SELECT hilo_create('{name}')"));
        client.draw(name, 100);
        client.run(&format!("SELECT {moved}('{name}', 1000), setval('counter', 990)"));
        client.run(&format!("SELECT hilo_alter('{name}', source => '{counter}')"));
        // The first answer has both.
        assert_eq!(client.one::<i64>(&format!("SELECT hilo_nextval('{name}')")), 1001, "{name}");
    }
    client.run("SELECT hilo_create('back')");
    client.draw("back", 100);
    client.run("SELECT hilo_advance('back', 1000)");
    client.run(&format!("SELECT hilo_alter('back', source => '{counter}')"));
    client.run("SELECT hilo_alter('back', source => '')");
    assert_eq!(client.one::<i64>("SELECT hilo_nextval('back')"), 1001);
    client.run("SELECT setval('counter', 1, false); SELECT hilo_attach('both', 'counter')");
    let mut seen = client.draw("both", 100);
    let attach = "SELECT hilo_attach('both', 'other')";
    client.refusal(attach).is("55000").says("continues with 1: it may have served up to").helps();
    client.run("SELECT setval('other', (SELECT last_value FROM counter))");
    client.run(attach);
    seen.extend(client.draw("both", 1_000));
    assert_unique("both", &seen);
}

/// hilo_find_gaps does not say of a value that no source has brought that it was served.
#[test]
fn values_that_were_not_received_are_no_lost_ones() {
    let cluster = Cluster::with_hilo();
    let mut client = cluster.connect("postgres");
    client.run("CREATE SEQUENCE turns");
    client.run("SELECT hilo_create('s', source => 'SELECT 1001 + 100 * n, 1020 + 100 * n FROM (SELECT nextval(''public.turns'') AS n) AS turn')");
    client.run(
        "CREATE TABLE t (id bigint PRIMARY KEY DEFAULT hilo_nextval('s'));
         INSERT INTO t SELECT FROM generate_series(1, 45);
         DELETE FROM t WHERE id = 1205",
    );
    let gaps = "SELECT concat_ws(' ', first, last, reason) FROM hilo_find_gaps('s', 't', 'id') WHERE last < 1305";
    assert_eq!(
        client.all::<String>(gaps),
        [
            "1 1100 not received",
            "1121 1200 not received, rolled back, deleted or unknown",
            "1205 1205 not received, rolled back, deleted or unknown",
            "1221 1300 not received, rolled back, deleted or unknown",
        ]
    );
    cluster.finish();
}

/// Options that a source cannot go together with are refused, both ways.
#[test]
fn a_source_excludes_what_others_decide() {
    let cluster = Cluster::with_hilo();
    let mut client = cluster.connect("postgres");
    let source = "source => 'SELECT 100::bigint, 99 + $2'";
    for option in ["cycle", "ordered", "gapless"] {
        let create = format!("SELECT hilo_create('x', {option} => true, {source})");
        client.refusal(&create).is("0A000").helps();
        client.run(&format!("SELECT hilo_create('{option}', {option} => true)"));
        client.refusal(&format!("SELECT hilo_alter('{option}', {source})")).is("0A000");
    }
    client.refusal("SELECT hilo_create('x', reserve_ahead => '1 min')").is("22023");
    client.run(&format!("SELECT hilo_create('s', {source}, reserve_ahead => '90 s')"));
    for option in ["cycle", "ordered", "gapless"] {
        client.refusal(&format!("SELECT hilo_alter('s', {option} => true)")).is("0A000");
    }
    client.refusal("SELECT hilo_alter('s', increment => 2)").is("22023").helps();
    client.refusal("SELECT hilo_alter('s', restart_with => 2)").is("55000").helps();
    client.refusal("SELECT hilo_setval('s', 2)").is("55000");
    client.refusal("SELECT hilo_advance('s', 2)").is("55000");
    let same = "BEGIN; SELECT hilo_create('new', source => 'SELECT 1'); SELECT hilo_nextval('new')";
    client.refusal(same).is("55000").helps();
    client.run("ROLLBACK");
    // Nothing was asked: it goes as it came.
    client.run("SELECT hilo_alter('s', source => '')");
    assert_eq!(client.one::<i64>("SELECT hilo_nextval('s')"), 1);
    client.run(&format!("BEGIN; SELECT hilo_alter('s', {source}); ROLLBACK"));
    assert_eq!(client.one::<i64>("SELECT hilo_nextval('s')"), 2);
    client.run(&format!("SELECT hilo_alter('s', {source})"));
    assert_eq!(client.one::<i64>("SELECT hilo_nextval('s')"), 100);
    client.refusal("SELECT hilo_alter('s', source => '')").is("55000").helps();
    client.refusal("SELECT _hilo.hilo_detach('s', 100)").is("55000").helps();
    assert_eq!(client.one::<i64>("SELECT _hilo.hilo_detach('s', 5000)"), 5000);
    assert_eq!(client.one::<i64>("SELECT hilo_nextval('s')"), 5000);
    client.refusal("SELECT _hilo.hilo_detach('s', 6000)").is("55000");
    let gap = "SELECT min(first) || ' ' || bool_and(reason = 'altered') FROM hilo_gaps WHERE first >= 100";
    assert_eq!(client.one::<String>(gap), "101 true");
    client.run("SELECT hilo_drop('s')");
    assert_eq!(client.one::<i64>("SELECT count(*) FROM _hilo.hilo_source"), 0);
}

/// A dump brings the sequence and its source. Values that the dumped server may serve are not
/// served.
#[test]
fn a_restored_sequence_serves_nothing_of_the_dumped_server() {
    let (cluster, mut client) = with_centre();
    let source = asks_centre(&cluster, "");
    client.run(&format!("SELECT hilo_create('s', source => {source}, reserve_ahead => '1 min')"));
    let before = client.draw("s", 10);
    let dump = cluster.pg_dump("postgres", &[]);
    cluster.connect("postgres").run("CREATE DATABASE restored");
    cluster.restore("restored", &dump);
    let mut restored = cluster.connect("restored");
    let mut both = client.draw("s", 1_000);
    both.extend(restored.draw("s", 1_000));
    both.extend(before);
    assert_unique("s", &both);
    let kept = "SELECT source LIKE '%centre%' FROM hilo_stat_sources";
    assert!(restored.one::<bool>(kept));
    assert_eq!(restored.one::<i64>("SELECT reserve_ahead FROM _hilo.hilo_definition"), 60);
}

/// A transaction drops a sequence, and then the counter that its source has drawn from. It does not
/// meet the source in a deadlock.
#[test]
fn dropping_a_counter_beside_its_source_is_no_deadlock() {
    let cluster = Cluster::builder().config("max_worker_processes", "20").start_with_hilo();
    let mut client = cluster.connect("postgres");
    client.run(
        "CREATE SEQUENCE counter;
         CREATE FUNCTION give() RETURNS TABLE (first bigint, last bigint) LANGUAGE plpgsql AS $$
         BEGIN
             first := nextval('public.counter');
             last := first;
             PERFORM pg_advisory_xact_lock_shared(7);
             RETURN NEXT;
         END $$;
         SELECT hilo_create('s', source => 'SELECT * FROM public.give()')",
    );
    let (mut holder, mut caller) = (cluster.connect("postgres"), cluster.connect("postgres"));
    holder.run("SELECT pg_advisory_lock(7)");
    thread::scope(|scope| {
        scope.spawn(move || caller.batch_execute("SELECT hilo_nextval('s')"));
        let asked = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND objid = 7 AND NOT granted";
        wait_until("the source has drawn", LONG, || holder.one::<i64>(asked) == 1);
        client.run("BEGIN; SELECT hilo_drop('s')");
        let pid = client.backend_pid();
        let dropping = scope.spawn(move || client.run("DROP SEQUENCE counter; COMMIT"));
        wait_until("the counter is in use", LONG, || holder.sees_waiting(pid));
        holder.run("SELECT pg_advisory_unlock(7)");
        dropping.join().expect("it is dropped");
    });
    cluster.finish();
}
