//! A fault of a source ends with an error at the source, and nothing of it is served.

use std::sync::Barrier;
use std::thread;

use hilo_tests::{Client, ClientExt, Cluster, LONG, Mode, assert_unique, wait_until};

/// A source that gives the same answer to the same request. The first five answers are wrong, each
/// in another way: they are never served, and each is followed by another request.
#[test]
fn a_refused_answer_is_not_asked_for_again() {
    let cluster = Cluster::with_hilo();
    let mut client = cluster.connect("postgres");
    client.run(
        "CREATE TABLE asked (at serial, id uuid PRIMARY KEY, times int DEFAULT 1);
         CREATE FUNCTION take(n bigint, request uuid) RETURNS TABLE (first bigint, last bigint)
             LANGUAGE plpgsql SET search_path = public AS $$
         DECLARE
             number int;
         BEGIN
             INSERT INTO asked AS a (id) VALUES (request)
                 ON CONFLICT (id) DO UPDATE SET times = a.times + 1 RETURNING a.at INTO number;
             RETURN QUERY SELECT v.first, v.last FROM (VALUES
                 (1, 5::bigint, 4::bigint), (2, NULL, 7), (3, 1, 9), (4, 9, 1000001),
                 (6, 6000, 5999 + n), (7, 7000 + 100 * number, 7099 + 100 * number)
             ) AS v (at, first, last) WHERE v.at = least(number, 7);
         END $$;
         SELECT hilo_create('s', max_value => 1000000);
         SELECT hilo_nextval('s');
         SELECT hilo_alter('s', source => 'SELECT * FROM public.take($2, $3)')",
    );
    let (mut errors, draw) = (Vec::new(), "SELECT hilo_nextval('s')");
    wait_until("the sixth answer is served", LONG, || match client.query_one(draw, &[]) {
        Ok(row) => row.get::<_, i64>(0) == 6_000,
        Err(error) => {
            errors.push(error.as_db_error().expect("from the server").message().to_owned());
            false
        }
    });
    assert!(errors.iter().all(|error| error.contains("its source failed")), "{errors:?}");
    assert!(client.one::<i64>("SELECT count(*) FROM asked WHERE times = 1") >= 6);
    let explained = "SELECT last_error LIKE '%has brought no values%' AND state <> 'failing'
                       FROM hilo_stat_sources";
    assert!(client.one::<bool>(explained));
    assert!(client.draw("s", 20).iter().all(|value| *value >= 6_000));
    cluster.finish();
}

/// Values of an answer that is refused may be gone from their counter for good: those that nothing
/// else tells of are a gap. They are off the grid, beyond a bound, beside a null, or held already.
#[test]
fn what_a_refused_answer_brings_is_a_gap() {
    let cluster = Cluster::with_hilo();
    let mut client = cluster.connect("postgres");
    client.run(
        "CREATE TABLE answers (at int, first bigint, last bigint); CREATE SEQUENCE asked;
         INSERT INTO answers VALUES (1, 10, 40), (1, 45, 60), (2, 70, 80), (2, 990, 1010),
             (3, 90, NULL), (3, 100, 110), (4, 120, 150), (5, 160, 170), (5, 140, 150);
         CREATE FUNCTION take() RETURNS SETOF answers LANGUAGE sql SET search_path = public AS $$
             SELECT * FROM answers WHERE at = (SELECT nextval('asked')) $$;
         SELECT hilo_create('s', increment => 10, min_value => 10, max_value => 1000,
             start_value => 10, source => 'SELECT first, last FROM public.take()')",
    );
    let mut seen = Vec::new();
    let gaps =
        "SELECT format('%s-%s %s %s', first, last, count, reason) FROM hilo_gaps ORDER BY first";
    wait_until("all answers have come", LONG, || {
        let drawn = client.query_one("SELECT hilo_nextval('s')", &[]);
        seen.extend(drawn.map(|row| row.get::<_, i64>(0)));
        client.one("SELECT last_value > 5 FROM asked")
    });
    assert_eq!(
        client.all::<String>(gaps),
        ["10-80 8 discarded", "100-110 2 discarded", "160-170 2 discarded", "990-1000 2 discarded"]
    );
    seen.extend((seen.len()..4).map(|_| client.one::<i64>("SELECT hilo_nextval('s')")));
    assert_eq!(seen, [120, 130, 140, 150]);
    let error = "SELECT last_error FROM hilo_stat_sources";
    assert_eq!(client.one::<String>(error), "the source has brought no values");
    cluster.finish();
}

/// A source that brings the same values in each answer, which is refused each time: they are one gap.
#[test]
fn what_is_refused_again_is_no_second_gap() {
    let cluster = Cluster::with_hilo();
    let mut client = cluster.connect("postgres");
    client.run("SELECT hilo_create('s', source => 'VALUES (5::bigint, 10::bigint), (8, 12)')");
    client.refusal("SELECT hilo_nextval('s')").says("holds a part already");
    assert!(client.one::<i32>("SELECT failures FROM _hilo.hilo_source") > 2);
    let gaps =
        "SELECT format('%s-%s %s %s', first, last, count, reason) FROM hilo_gaps ORDER BY first";
    assert_eq!(client.all::<String>(gaps), ["5-12 8 discarded"]);
    // It is not known which of them it has served.
    client.run("SELECT hilo_create('t'); SELECT hilo_setval('t', 1000)");
    client.run("SELECT hilo_alter('t', source => 'VALUES (5::bigint, 10::bigint)')");
    client.refusal("SELECT hilo_nextval('t')").says("may have served that before");
    assert!(client.all::<String>(gaps).contains(&"5-10 6 altered".to_owned()));
    cluster.finish();
}

/// A source that goes back to what it has brought is refused, though nothing of that is left.
#[test]
fn a_source_brings_nothing_twice() {
    let cluster = Cluster::with_hilo();
    let mut client = cluster.connect("postgres");
    client.run(
        "CREATE SEQUENCE answers;
         SELECT hilo_create('s', source => 'SELECT 10 * n, 10 * n + 4 FROM (SELECT (nextval(''public.answers'') - 1) % 3 + 1) AS a (n)')",
    );
    assert_eq!(client.draw("s", 15), [10, 11, 12, 13, 14, 20, 21, 22, 23, 24, 30, 31, 32, 33, 34]);
    client.refusal("SELECT hilo_nextval('s')").says("of which it has brought a part before");
    assert_eq!(client.one::<i64>("SELECT count(*) FROM hilo_gaps"), 0);
    cluster.finish();
}

/// The next answer may be refused in the same way, so the sequence asks for one value. It asks for
/// many only where more is left beyond them than they are.
#[test]
fn a_request_after_a_refused_answer_is_small_or_passes_what_was_served() {
    let cluster = Cluster::with_hilo();
    let mut client = cluster.connect("postgres");
    client.run(
        "CREATE TABLE asked (at serial, n bigint); CREATE TABLE start AS SELECT 100::bigint AS at;
         CREATE FUNCTION take(n bigint) RETURNS bigint LANGUAGE sql SET search_path = public AS $$
             INSERT INTO asked (n) VALUES (n);
             UPDATE start SET at = at + n RETURNING at - n $$;
         SELECT hilo_create('s', max_value => 5000); SELECT hilo_nextvals('s', 3000)",
    );
    client
        .run("SELECT hilo_alter('s', source => 'SELECT v, v + $2 - 1 FROM public.take($2) AS v')");
    client.refusal("SELECT hilo_nextval('s')").says("may have served that before");
    let (first, rest) =
        ("SELECT n FROM asked ORDER BY at LIMIT 1", "SELECT max(n) FROM asked WHERE at > 1");
    assert!(client.one::<i64>(first) > 1);
    assert_eq!(client.one::<i64>(rest), 1);
    client.run("UPDATE start SET at = 3100");
    let draw = "SELECT hilo_nextval('s')";
    wait_until("it is asked again", LONG, || client.query_one(draw, &[]).is_ok());
    assert_unique("s", &client.draw("s", 500));
    assert!(client.one::<i64>(rest) > 1);
    // Nobody has to move the source beyond a million values that the sequence has served.
    client.run(
        "TRUNCATE asked; UPDATE start SET at = 100; SELECT hilo_detach('s', 5000);
         SELECT hilo_alter('s', max_value => 9000000000000000); SELECT hilo_advance('s', 1000000)",
    );
    client
        .run("SELECT hilo_alter('s', source => 'SELECT v, v + $2 - 1 FROM public.take($2) AS v')");
    wait_until("it is beyond them", LONG, || client.query_one(draw, &[]).is_ok());
    let mut seen = client.draw("s", 5_000);
    assert!(seen.iter().all(|value| *value > 1_000_000), "{seen:?}");
    let passed = "SELECT last_error LIKE '%beyond 1000000:%' FROM hilo_stat_sources";
    assert!(client.one::<bool>(passed));
    seen.extend(client.draw("s", 5_000));
    assert_unique("s", &seen);
    assert!(client.one::<i64>("SELECT count(*) FROM asked") < 40);
    cluster.finish();
}

/// A counter gives no value for a request that a transaction keeps from being answered.
#[test]
fn a_source_is_not_asked_in_vain_while_its_sequence_is_being_altered() {
    let cluster = Cluster::with_hilo();
    let (mut client, mut other) = (cluster.connect("postgres"), cluster.connect("postgres"));
    client.run(
        "CREATE SEQUENCE counter;
         CREATE FUNCTION fails() RETURNS bigint LANGUAGE plpgsql AS $$ BEGIN
             PERFORM nextval('public.counter'); RAISE connection_failure; END $$;
         SELECT hilo_create('s', source => 'SELECT public.fails(), 1::bigint')",
    );
    client.refusal("SELECT hilo_nextval('s')").is("08006");
    client.run("BEGIN; SELECT hilo_detach('s', 100)");
    let given = "SELECT last_value FROM counter";
    let before = other.one::<i64>(given);
    // Each of its transactions is another state.
    let state = "SELECT coalesce(max(state_change::text), '') FROM pg_stat_activity WHERE backend_type = 'hilo source'";
    let mut states = std::collections::HashSet::new();
    wait_until("it has looked again and again", LONG, || {
        states.insert(other.one::<String>(state));
        states.len() > 10
    });
    // It may have been asked in the moment before.
    assert!(other.one::<i64>(given) <= before + 1);
    client.run("ROLLBACK");
    wait_until("it is asked again", LONG, || other.one::<i64>(given) > before + 1);
    cluster.finish();
}

/// An answer has tens of thousands of single values, none beside another. The first to be served stay, in few rows, and
/// the others are in a few gaps.
#[test]
fn an_answer_of_single_values_leaves_few_rows() {
    const VALUES: i64 = 50_000;
    let cluster = Cluster::with_hilo();
    let mut client = cluster.connect("postgres");
    client.run(&format!(
        "SELECT hilo_create('s', source => $$SELECT 2 * v, 2 * v
            FROM (SELECT coalesce($4, 0) / 2 + i AS v FROM generate_series(1, {VALUES}) i) AS n$$)"
    ));
    let expected: Vec<i64> = (1..=300).map(|value| 2 * value).collect();
    assert_eq!(client.draw("s", 300), expected);
    let rows =
        "SELECT count(*) FROM _hilo.hilo_free_range UNION ALL SELECT count(*) FROM hilo_gaps";
    assert!(client.all::<i64>(rows).iter().all(|rows| *rows <= 1_000));
    let known = "SELECT (SELECT sum(count) FROM hilo_gaps) + (SELECT sum(end_index - first_index) FROM _hilo.hilo_free_range
                        WHERE incarnation = 0)";
    let known: i64 = client.one(&format!("SELECT ({known})::bigint"));
    let received: i64 = client.one("SELECT received FROM hilo_stat_sources");
    let in_hands = received - known;
    assert!((300..1_000).contains(&in_hands), "{in_hands} of {received}");
    cluster.finish();
}

/// A query that goes on after each cancel ends with its process. The request is made again, other
/// sequences are served, and the server stops.
#[test]
fn a_source_that_catches_each_cancel_ends() {
    let cluster = Cluster::builder()
        .config("max_worker_processes", "20")
        .config("hilo.source_timeout", "200ms")
        .start_with_hilo();
    let mut client = cluster.connect("postgres");
    client.run(
        "CREATE FUNCTION endless() RETURNS bigint LANGUAGE plpgsql AS $$
         BEGIN
             LOOP
                 BEGIN
                     PERFORM pg_catalog.pg_sleep(3600);
                 EXCEPTION WHEN query_canceled OR OTHERS THEN
                 END;
             END LOOP;
         END $$;
         SELECT hilo_create('s', source => 'SELECT public.endless(), 1::bigint'),
                hilo_create('ends', source => 'SELECT 1::bigint, 1::bigint FROM pg_terminate_backend(pg_backend_pid())'),
                hilo_create('other');
         SET hilo.reserve_timeout = '100ms'",
    );
    let asking = "SELECT COALESCE(min(pid), 0) FROM pg_stat_activity
                   WHERE backend_type = 'hilo source' AND query LIKE '%asking%'";
    let mut pids = Vec::new();
    wait_until("three processes have asked, one after the other", LONG, || {
        client.refusal("SELECT hilo_nextval('s')").is("55P03");
        pids.push(client.one::<i32>(asking));
        pids.retain(|pid| *pid != 0);
        pids.dedup();
        pids.len() > 2
    });
    let known = "SELECT count(*) FROM hilo_stat_sources WHERE last_error LIKE '%has ended before it answered%'";
    wait_until("the end of both is noted", LONG, || {
        client.refusal("SELECT hilo_nextval('s')");
        client.refusal("SELECT hilo_nextval('ends')");
        client.one::<i64>(known) == 2
    });
    client.draw("other", 1_000);
    cluster.stop(Mode::Fast);
    cluster.start();
    let mut client = cluster.connect("postgres");
    assert_eq!(client.one::<i64>("SELECT hilo_nextval('other')"), 1_001);
    cluster.finish();
}

/// Hundreds of sequences of an owner have one process. Sources that do not answer get a second one, and no more, and
/// they end for the others.
#[test]
fn an_owners_sources_that_hang_keep_none_of_his_others_waiting() {
    let cluster = Cluster::builder().config("max_worker_processes", "8").start_with_hilo();
    let mut client = cluster.connect("postgres");
    client.run(
        "CREATE SEQUENCE counter;
         SELECT hilo_create('s' || i, source => format(
             'SELECT v, v FROM (SELECT nextval(''public.counter'') + 0 * %s AS v) n', i))
           FROM generate_series(1, 200) i",
    );
    let draw = "SELECT hilo_nextval('s' || i) FROM generate_series(1, 200) i";
    assert_unique("all", &client.all::<i64>(draw));
    let processes = "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'hilo source'";
    client.run(
        "SELECT hilo_create('slow', source => 'SELECT 5::bigint, 1000::bigint FROM pg_sleep(1.2)')",
    );
    assert_eq!(client.one::<i64>("SELECT hilo_nextval('slow')"), 5);
    // On a busy machine, a query before may have taken long.
    wait_until("there is one process", LONG, || client.one::<i64>(processes) == 1);
    client.run(
        "SELECT hilo_create('later' || i, source => 'SELECT nextval(''public.counter'') AS v, currval(''public.counter'')')
           FROM generate_series(1, 5) i;
         SELECT hilo_create('hangs' || i, source => format('SELECT %1$s::bigint, %1$s::bigint FROM pg_sleep(3600)', i))
           FROM generate_series(1, 4) i; SET hilo.reserve_timeout = '50ms'",
    );
    for at in 1..=4 {
        client.refusal(&format!("SELECT hilo_nextval('hangs{at}')"));
    }
    let asking = "SELECT count(*) FROM pg_stat_activity
                   WHERE backend_type = 'hilo source' AND query LIKE '%asking%'";
    wait_until("two are asked", LONG, || client.one::<i64>(asking) == 2);
    client.run("SET hilo.reserve_timeout = '1min'");
    let draw = "SELECT hilo_nextval('later' || i) FROM generate_series(1, 5) i";
    assert_unique("all", &client.all::<i64>(draw));
    assert_eq!(client.one::<i64>(processes), 2);
    let cut = "SELECT count(*) > 0 FROM hilo_stat_sources WHERE last_error LIKE '%others waited%'";
    assert!(client.one::<bool>(cut));
    cluster.finish();
}

/// After a crash, all counters that an application has attached are wanted in the same moment, with the settings that
/// a server has.
#[test]
fn fifty_attached_counters_serve_at_once_after_a_crash() {
    const COUNTERS: usize = 50;
    let cluster = Cluster::builder()
        .config("max_worker_processes", "8")
        .config("max_connections", "80")
        .start_with_hilo();
    let mut client = cluster.connect("postgres");
    client.run(&format!(
        "DO $$ BEGIN FOR i IN 1..{COUNTERS} LOOP
             EXECUTE format('CREATE SEQUENCE t%s_seq INCREMENT 10', i);
             PERFORM hilo_attach('t' || i, format('t%s_seq', i)::regclass, 'efcore');
         END LOOP; END $$"
    ));
    let draw = |client: &mut Client, at| client.one(&format!("SELECT hilo_nextval('t{at}')"));
    let before: Vec<i64> = (1..=COUNTERS).map(|at| draw(&mut client, at)).collect();
    cluster.kill9_postmaster();
    cluster.start();
    let start = Barrier::new(COUNTERS);
    let after: Vec<i64> = thread::scope(|scope| {
        let sessions = (1..=COUNTERS).map(|at| {
            let (cluster, start) = (&cluster, &start);
            scope.spawn(move || {
                let mut client = cluster.connect_when_up("postgres");
                start.wait();
                draw(&mut client, at)
            })
        });
        let sessions: Vec<_> = sessions.collect();
        sessions.into_iter().map(|one| one.join().expect("it is served")).collect()
    });
    assert!(before.iter().zip(&after).all(|(before, after)| before < after));
    cluster.finish();
}

/// A falling sequence serves what the source brings, highest first; what is lost is found.
#[test]
fn a_falling_sequence_has_a_source() {
    let cluster = Cluster::with_hilo();
    let mut client = cluster.connect("postgres");
    client.run(
        "CREATE SEQUENCE counter;
         SELECT hilo_create('s', increment => -2, max_value => -2, min_value => -1000000,
                            start_value => -2, source => $$SELECT -20 * v, -20 * v - 18
                              FROM (SELECT nextval('public.counter') v
                                      FROM generate_series(1, $2 / 10 + 1)) n$$)",
    );
    let seen = client.draw("s", 25);
    let expected: Vec<i64> = (10..35).map(|at| -2 * at).collect();
    assert_eq!(seen, expected);
    assert_eq!(client.one::<i64>("SELECT first FROM hilo_nextrange('s', 40)") % 2, 0);
    client.run("CREATE TABLE t (id bigint); INSERT INTO t VALUES (-20), (-24)");
    let lacks = "SELECT concat_ws(' ', first, last, reason)
                   FROM hilo_find_gaps('s', 't', 'id') ORDER BY first DESC LIMIT 2";
    let perhaps = "-22 -22 not received, rolled back, deleted or unknown";
    assert_eq!(client.all::<String>(lacks), ["-2 -18 not received", perhaps]);
    cluster.kill9_postmaster();
    cluster.start();
    let mut client = cluster.connect("postgres");
    let after = client.draw("s", 1_000);
    assert_unique("s", &[seen, after].concat());
    let lost = "SELECT count(*) > 0 AND bool_and(first <= -20) FROM hilo_gaps";
    assert!(client.one::<bool>(lost));
    cluster.finish();
}

/// Promise 2: nothing of an answer is served before the synchronous standby has it, whoever ends
/// while it waits for that.
#[test]
fn nothing_of_an_answer_is_served_that_no_standby_has() {
    let cluster = Cluster::builder()
        .config("hilo.reserve_timeout", "60s")
        .config("max_worker_processes", "20")
        .start_with_hilo();
    let mut client = cluster.connect("postgres");
    client.run("CREATE SEQUENCE counter; SELECT hilo_attach('s', 'counter')");
    let mut seen = client.draw("s", 10);
    cluster.await_absent_standby();
    thread::scope(|scope| {
        let waiting = scope.spawn(|| cluster.connect("postgres").draw("s", 50_000));
        for _ in 0..3 {
            cluster.terminate_worker_awaiting_standby();
            let sources = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
                            WHERE backend_type = 'hilo source'";
            client.one::<i64>(sources);
            assert!(!waiting.is_finished(), "values were served that no standby has");
        }
        cluster.configure("synchronous_standby_names", "");
        cluster.reload();
        seen.extend(waiting.join().expect("it draws"));
    });
    assert_unique("s", &seen);
    drop(client);
    cluster.finish();
}
