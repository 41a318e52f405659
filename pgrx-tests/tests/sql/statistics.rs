//! The state that the views, hilo_find_gaps and the log report is true at any moment.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;

use hilo_tests::{Client, ClientExt, Cluster, LONG, came_true, wait_until};

const SESSIONS: i64 = 8;

/// Every column of hilo_stat_sequences is right: each value that was drawn is counted once, and what is
/// reserved is served, in one tier, or lost.
#[test]
fn counts_every_value_once() {
    let cluster = Cluster::with_hilo();
    let mut client = cluster.connect("postgres");
    client.run("SELECT hilo_create('counted'), hilo_create('sorted', ordered => true)");
    let sessions: Vec<Client> = thread::scope(|scope| {
        let draw = |_| {
            scope.spawn(|| {
                let mut session = cluster.connect("postgres");
                session.run("SELECT hilo_nextval('counted') FROM generate_series(1, 5000)");
                session.run("SELECT hilo_nextval('sorted') FROM generate_series(1, 500)");
                session.run("SELECT hilo_nextrange('counted', 77)");
                session.run("SELECT hilo_nextval('counted') FROM generate_series(1, 50)");
                session
            })
        };
        let running: Vec<_> = (0..SESSIONS).map(draw).collect();
        running.into_iter().map(|session| session.join().unwrap()).collect()
    });

    assert_eq!(stat(&mut client, "served", "counted"), SESSIONS * 5127);
    assert_eq!(stat(&mut client, "served", "sorted"), SESSIONS * 500);
    assert_all_accounted_for(&mut client);
    assert_eq!(stat(&mut client, "slices", "sorted"), 0);
    // Slices of 1, 1, 2, 4 … 256, or smaller where little was there.
    let slices = stat(&mut client, "slices", "counted");
    assert!((SESSIONS * 20..SESSIONS * 5000).contains(&slices), "{slices}");
    let held: i64 = client
        .one("SELECT sum(left_in_slice)::bigint FROM hilo_stat_backends WHERE name = 'counted'");
    assert_eq!(stat(&mut client, "in_slices", "counted"), held);
    assert!(stat(&mut client, "blocks_reserved", "counted") >= 1);
    assert!(
        client.one::<bool>(
            "SELECT bool_and(blocks_prefetched < blocks_reserved AND waits > 0 AND rate > 0
                             AND wait_time_total >= wait_time_max AND wait_time_max > 0
                             AND used_fraction = 0 AND exhausted_in IS NULL
                             AND errors = 0 AND last_error IS NULL AND last_error_at IS NULL)
             FROM hilo_stat_sequences"
        ),
        "{}",
        cluster.psql("postgres", "SELECT * FROM hilo_stat_sequences")
    );

    drop(sessions);
    wait_until("the sessions have returned their slices", LONG, || {
        stat(&mut client, "in_slices", "counted") == 0
    });
    assert_eq!(stat(&mut client, "served", "counted"), SESSIONS * 5127);
    assert_all_accounted_for(&mut client);
    let returned = stat(&mut client, "in_returned", "counted");
    let recycled = stat(&mut client, "recycled", "counted");
    client.run("SELECT hilo_nextval('counted') FROM generate_series(1, 3000)");
    assert_eq!(stat(&mut client, "served", "counted"), SESSIONS * 5127 + 3000);
    let left = stat(&mut client, "in_returned", "counted");
    assert_eq!(stat(&mut client, "recycled", "counted") - recycled, returned - left);
    cluster.finish();
}

/// The ranges of one sequence in hilo_blocks never overlap, however often one looks while sessions come,
/// draw, set and go.
#[test]
fn blocks_never_overlap() {
    const LOOKS: usize = 1000;
    let cluster = Cluster::with_hilo();
    let mut client = cluster.connect("postgres");
    client.run(
        "SELECT hilo_create('apart'), hilo_create('small', block_size => 10),
                hilo_create('falling', increment => -3), hilo_create('sorted', ordered => true)",
    );
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        for number in 0..SESSIONS {
            let (cluster, done) = (&cluster, &done);
            scope.spawn(move || {
                while !done.load(Relaxed) {
                    let mut session = cluster.connect("postgres");
                    for _ in 0..20 {
                        session.run(
                            "SELECT hilo_nextval('apart'), hilo_nextval('small'), hilo_nextval('falling'),
                                    hilo_nextval('sorted') FROM generate_series(1, 37)",
                        );
                    }
                    if number == 0 {
                        session.run("SELECT hilo_setval('apart', 1), hilo_nextrange('falling', 5)");
                    }
                }
            });
        }
        let mut seen = 0;
        for _ in 0..LOOKS {
            let row = client
                .query_one(
                    "SELECT count(*), count(*) FILTER (WHERE low <= before), coalesce(min(count), 1) > 0
                     FROM (SELECT *, lag(high) OVER (PARTITION BY name ORDER BY low) AS before
                           FROM (SELECT name, count, least(first, last) AS low, greatest(first, last) AS high
                                 FROM hilo_blocks) b) b",
                    &[],
                )
                .unwrap();
            let overlaps: i64 = row.get(1);
            if overlaps > 0 || !row.get::<_, bool>(2) {
                done.store(true, Relaxed);
                panic!("{overlaps} ranges overlap");
            }
            seen += row.get::<_, i64>(0);
        }
        done.store(true, Relaxed);
        assert!(seen > LOOKS as i64);
    });
    cluster.finish();
}

/// With ten thousand sequences in memory each view answers.
#[test]
fn views_answer_with_ten_thousand_sequences() {
    let cluster = Cluster::builder().config("hilo.max_sequences", "12000").start_with_hilo();
    let mut client = cluster.connect("postgres");
    client.run("SELECT hilo_create('many/' || i) FROM generate_series(1, 10000) AS i");
    client.run("SELECT hilo_nextval('many/' || i) FROM generate_series(1, 10000) AS i");
    assert_eq!(client.one::<i64>("SELECT count(*) FROM hilo_stat_sequences"), 10_000);
    client.run(&format!("SET statement_timeout = {}", LONG.as_millis()));
    for view in [
        "hilo_sequences",
        "hilo_stat_sequences",
        "hilo_stat_rates",
        "hilo_stat_backends",
        "hilo_blocks",
        "hilo_gaps",
        "hilo_check()",
        "hilo_report()",
    ] {
        client.run(&format!("SELECT * FROM {view}"));
    }
    cluster.finish();
}

/// The log warns when 80, 90 and 95 % of a sequence are reserved, once each, and never for one that
/// cycles.
#[test]
fn warns_once_when_a_sequence_nears_its_end() {
    let cluster = Cluster::builder().config("hilo.prefetch", "off").start_with_hilo();
    let mut client = cluster.connect("postgres");
    client.run(
        "SELECT hilo_create('ending', max_value => 1000, block_size => 10),
                hilo_create('sinking', increment => -1, min_value => -1000, block_size => 10),
                hilo_create('round', max_value => 1000, block_size => 10, cycle => true)",
    );
    let said = |name: &str, level: u8| {
        cluster.log_count(&format!("WARNING:  hilo sequence \"{name}\" has used {level} %"))
    };
    let mut drawn = 0;
    for (upto, levels) in [(600, [0, 0, 0]), (880, [1, 0, 0]), (930, [1, 1, 0]), (1000, [1, 1, 1])]
    {
        for name in ["ending", "sinking", "round"] {
            client.run(&format!(
                "SELECT hilo_nextval('{name}') FROM generate_series(1, {})",
                upto - drawn
            ));
        }
        drawn = upto;
        for name in ["ending", "sinking"] {
            wait_until(&format!("{name} is reported as {levels:?} at {upto}"), LONG, || {
                [80, 90, 95].map(|level| said(name, level)) == levels
            });
        }
    }
    client.run("SELECT hilo_nextval('round') FROM generate_series(1, 1000)");
    assert_eq!([80, 90, 95].map(|level| said("round", level)), [0, 0, 0]);
    cluster.restart();
    client = cluster.connect("postgres");
    client.refusal("SELECT hilo_nextval('ending')").is("2200H");
    assert_eq!([80, 90, 95].map(|level| said("ending", level)), [1, 1, 1]);
    cluster.finish();
}

/// The rest of a sequence is told as a person reads it. Its fraction has steps of 0.0001, and its time
/// whole seconds or, if it is long, whole days. Beyond a thousand years it is null.
#[test]
fn what_is_left_is_rounded() {
    let cluster = Cluster::with_hilo();
    let mut client = cluster.connect("postgres");
    client.run(
        "SELECT hilo_create('short', max_value => 100000000), hilo_create('tiny', max_value => 1000),
                hilo_create('long', max_value => 2000000000000), hilo_create('endless')",
    );
    client.draw("tiny", 500);
    let ends = "SELECT count(*) FROM hilo_stat_sequences WHERE rate > 0 AND CASE name
                  WHEN 'short' THEN exhausted_in = date_trunc('second', exhausted_in)
                  WHEN 'long' THEN exhausted_in >= '11 days'
                                   AND exhausted_in = date_trunc('day', exhausted_in)
                  WHEN 'endless' THEN exhausted_in IS NULL END";
    wait_until("the ends are known", LONG, || {
        for name in ["short", "long", "endless"] {
            client.draw(name, 123);
        }
        client.one::<i64>(ends) == 3
    });
    let used = "SELECT bool_and(used_fraction = round(used_fraction::numeric, 4)::float8)
                   AND bool_or(used_fraction > 0) AND bool_or(used_fraction = 0)";
    for view in ["hilo_sequences", "hilo_stat_sequences"] {
        assert!(client.one::<bool>(&format!("{used} FROM {view}")), "{view}");
    }
    cluster.finish();
}

/// hilo_find_gaps knows of each missing value where it is or how it was lost, once, whatever happened.
#[test]
fn every_gap_is_explained_once() {
    let cluster = Cluster::with_hilo();
    let mut client = cluster.connect("postgres");
    client.run("SELECT hilo_create('told', block_size => 1000, slice_size => 64)");
    client.run("CREATE TABLE told (id bigint PRIMARY KEY DEFAULT hilo_nextval('told'))");
    let insert = |client: &mut Client, rows: i32| {
        client.run(&format!(
            "INSERT INTO told SELECT hilo_nextval('told') FROM generate_series(1, {rows})"
        ));
    };
    insert(&mut client, 20);
    let mut other = cluster.connect("postgres");
    insert(&mut other, 5);
    insert(&mut client, 200);
    client.run("DELETE FROM told WHERE id IN (2, 3)");
    assert_told(&mut client, &["slice", "current", "rolled back, deleted or unknown"]);

    // Returned in the middle: kept in memory, and over a restart in the catalog.
    drop(other);
    wait_until("the session has returned its slice", LONG, || {
        reasons(&mut client).contains(&"returned".to_owned())
    });
    assert_told(&mut client, &["returned"]);
    cluster.restart();
    client = cluster.connect("postgres");
    assert_told(&mut client, &["free"]);

    // A crash: known before anybody has drawn again, and the same after.
    insert(&mut client, 1);
    let victim = cluster.connect("postgres").backend_pid();
    let mut bystander = cluster.connect("postgres");
    let pid = bystander.backend_pid();
    assert_ne!(pid, victim);
    cluster.crash(pid);
    client = cluster.connect_when_up("postgres");
    assert_told(&mut client, &["crash"]);
    let lost = count_told(&mut client, "crash");
    insert(&mut client, 1);
    assert_told(&mut client, &["crash"]);
    assert_eq!(count_told(&mut client, "crash"), lost);

    // setval takes what others hold; an increment that changes does not hide it.
    let mut holder = cluster.connect("postgres");
    insert(&mut holder, 20);
    client.run("SELECT hilo_setval('told', 50000)");
    assert_told(&mut client, &["crash", "altered"]);
    let before = (count_told(&mut client, "crash"), count_told(&mut client, "altered"));
    client.run("SELECT hilo_alter('told', increment => 7, restart_with => 100000)");
    insert(&mut client, 3);
    let jumped = 100_000 - 50_001;
    let expected = (before.0, before.1 + jumped);
    assert_eq!((count_told(&mut client, "crash"), count_told(&mut client, "altered")), expected);
    let twice = "SELECT count(*) FROM (SELECT v FROM hilo_find_gaps('told', 'told', 'id') g,
                        generate_series(first, last, CASE WHEN last = first THEN 1 ELSE (last - first) / (count - 1) END) v
                        WHERE first < 60000 GROUP BY v HAVING count(*) > 1) t";
    assert_eq!(client.one::<i64>(twice), 0);
    cluster.finish();
}

/// On a node of several only its own values are looked for.
#[test]
fn gaps_of_one_node_are_its_own() {
    let cluster = Cluster::builder()
        .config("hilo.node_count", "3")
        .config("hilo.on_every_node", "on")
        .config("hilo.node_id", "1")
        .start_with_hilo();
    let mut client = cluster.connect("postgres");
    client.run("SELECT hilo_create('ours', block_size => 100), hilo_create('fives', increment => 5, block_size => 512)");
    client.run("CREATE TABLE ours (id bigint); CREATE TABLE fives (id numeric)");
    for name in ["ours", "fives"] {
        client.run(&format!(
            "INSERT INTO {name} SELECT hilo_nextval('{name}') FROM generate_series(1, 3000)"
        ));
        client.run(&format!("DELETE FROM {name} WHERE id IN (SELECT id FROM {name} ORDER BY id OFFSET 1500 LIMIT 10)"));
        // Another node's rows are beside them.
        client.run(&format!("INSERT INTO {name} VALUES (1), (2), (6), (11)"));
        let gaps = format!("hilo_find_gaps('{name}', '{name}', 'id')");
        let unknown = "WHERE reason LIKE 'rolled back%'";
        assert_eq!(
            client.one::<i64>(&format!("SELECT sum(count)::bigint FROM {gaps} {unknown}")),
            10
        );
        let step: i64 =
            client.one(&format!("SELECT increment FROM hilo_sequences WHERE name = '{name}'"));
        assert!(client.one::<bool>(&format!(
            "SELECT bool_and(last - first = (count - 1) * {step}) FROM {gaps}"
        )));
        let all = format!(
            "SELECT (SELECT sum(count) FROM {gaps})::bigint + (SELECT count(*) FROM {name} WHERE id > 11)
                    = (SELECT next_index FROM _hilo.hilo_position p JOIN _hilo.hilo_definition s ON s.id = p.sequence
                       WHERE s.name = '{name}')"
        );
        assert!(client.one::<bool>(&all));
    }
    // A search for the values of thirty million stripes can be cancelled, before it has found many.
    client.run("CREATE TABLE far (id bigint); SELECT hilo_create('far')");
    client.run("SELECT hilo_advance('far', 100000000000)");
    client.run("SET statement_timeout = '300ms'; SET temp_file_limit = '1GB'");
    client.refusal("SELECT count(*) FROM hilo_find_gaps('far', 'far', 'id')").is("57014");
    cluster.finish();
}

/// hilo_check finds settings that defeat each other, and reservations that fail.
#[test]
fn checks_the_server() {
    let cluster =
        Cluster::builder().config("fsync", "on").config("full_page_writes", "on").start_with_hilo();
    let mut client = cluster.connect("postgres");
    let found = |client: &mut Client| -> Vec<String> {
        client.all("SELECT object FROM hilo_check() WHERE severity <> 'note'")
    };
    assert_eq!(found(&mut client), Vec::<String>::new());
    for (name, value, object) in [
        ("hilo.node_id", "3", "setting hilo.node_id"),
        ("hilo.max_block_size", "10", "setting hilo.min_block_size"),
        ("hilo.prefetch", "off", "setting hilo.prefetch"),
        ("hilo.window", "1", "setting hilo.sample_interval"),
        ("full_page_writes", "off", "setting full_page_writes"),
    ] {
        let before: String = client.one(&format!("SELECT current_setting('{name}')"));
        if name == "hilo.window" {
            cluster.configure("hilo.sample_interval", "5s");
        }
        cluster.configure(name, value);
        cluster.reload();
        wait_until(&format!("{object} is found"), LONG, || {
            found(&mut client).contains(&object.to_owned())
        });
        cluster.configure(name, &before);
        cluster.reload();
        wait_until(&format!("{object} is no longer found"), LONG, || found(&mut client).is_empty());
    }

    client.run("SELECT hilo_create('stuck')");
    client.meddle("UPDATE _hilo.hilo_position SET timeline = -1");
    assert_eq!(found(&mut client), ["node 0"]);
    // As pg_upgrade leaves it, from a clean stop.
    client.meddle("UPDATE _hilo.hilo_position SET system_id = 42, timeline = 1");
    assert_eq!(found(&mut client), Vec::<String>::new());
    client.meddle("UPDATE _hilo.hilo_position SET system_id = 0");
    let mut holder = cluster.connect("postgres");
    holder.meddle("BEGIN; UPDATE _hilo.hilo_position SET epoch = epoch");
    client.run("SET hilo.reserve_timeout = '300ms'");
    client.refusal("SELECT hilo_nextval('stuck')").is("55P03");
    assert_eq!(found(&mut client), ["sequence \"stuck\""]);
    holder.run("ROLLBACK");
    client.run("RESET hilo.reserve_timeout");
    client.run("SELECT hilo_nextval('stuck')");
    assert_eq!(found(&mut client), Vec::<String>::new());
    cluster.finish();

    // The launcher of logical replication has the only place.
    let crowded = Cluster::builder()
        .config("max_worker_processes", "1")
        .config("hilo.reserve_timeout", "200ms")
        .start_with_hilo();
    let mut client = crowded.connect("postgres");
    let launcher =
        "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'logical replication launcher'";
    wait_until("the launcher runs", LONG, || client.one::<i64>(launcher) == 1);
    client.run("SELECT hilo_create('waits')");
    client.refusal("SELECT hilo_nextval('waits')").is("53400");
    let workers = "SELECT count(*) FROM hilo_check() WHERE object = 'setting max_worker_processes'";
    assert_eq!(client.one::<i64>(workers), 1);
    crowded.finish();

    let bare = Cluster::builder().start();
    let mut client = bare.connect("postgres");
    client.run("CREATE EXTENSION hilo");
    let setting = if bare.version() < 17 { "shared" } else { "session" };
    let sql = format!(
        "SELECT count(*) FROM hilo_check() WHERE object = 'setting {setting}_preload_libraries'"
    );
    assert_eq!(client.one::<i64>(&sql), 1);
}

/// pg_stat_activity names what a caller waits for, from PostgreSQL 17 on in words of hilo's own.
#[test]
fn waits_have_names() {
    let cluster = Cluster::with_hilo();
    let mut holder = cluster.connect("postgres");
    holder.run("SELECT hilo_create('held')");
    holder.run("BEGIN; SELECT hilo_setval('held', 5)");
    let mut client = cluster.connect("postgres");
    client.run("SET hilo.reserve_timeout = '60s'");
    let named = holder.one::<bool>("SELECT current_setting('server_version_num')::int >= 170000");
    let expected = if named { "HiloBlock" } else { "Extension" };
    let pid = client.backend_pid();
    thread::scope(|scope| {
        let call = scope.spawn(|| client.one::<i64>("SELECT hilo_nextval('held')"));
        let mut watcher = cluster.connect("postgres");
        let event = format!(
            "SELECT wait_event FROM pg_stat_activity WHERE pid = {pid} AND wait_event_type = 'Extension'"
        );
        wait_until("the call waits by name", LONG, || watcher.all::<String>(&event) == [expected]);
        holder.run("COMMIT");
        assert_eq!(call.join().unwrap(), 6);
    });
    cluster.finish();
}

/// A standby shows what is in its catalog: gaps and checks, without the primary's memory.
#[test]
fn a_standby_can_be_inspected() {
    let primary = Cluster::with_hilo();
    let mut client = primary.connect("postgres");
    client.run("SELECT hilo_create('seen', block_size => 100)");
    client.run("CREATE TABLE seen (id bigint PRIMARY KEY DEFAULT hilo_nextval('seen'))");
    client.run("INSERT INTO seen SELECT hilo_nextval('seen') FROM generate_series(1, 20)");
    client.run("DELETE FROM seen WHERE id = 7");
    let standby = primary.clone_by_base_backup();
    primary.wait_for_replay(&standby);
    let mut reader = standby.connect("postgres");
    let gaps = "SELECT DISTINCT reason FROM hilo_find_gaps('seen', 'seen', 'id')";
    assert_eq!(reader.all::<String>(gaps), ["rolled back, deleted or unknown"]);
    let first = "SELECT min(first) FROM hilo_find_gaps('seen', 'seen', 'id')";
    assert_eq!(reader.one::<i64>(first), 7);
    let wrong = "SELECT object FROM hilo_check() WHERE object !~ 'fsync|full_page_writes'";
    assert_eq!(reader.all::<String>(wrong), Vec::<String>::new());
    for view in ["hilo_stat_sequences", "hilo_stat_rates", "hilo_stat_backends", "hilo_blocks"] {
        assert_eq!(reader.one::<i64>(&format!("SELECT count(*) FROM {view}")), 0, "{view}");
    }
}

pub fn stat(client: &mut Client, column: &str, name: &str) -> i64 {
    client.one(&format!("SELECT {column} FROM hilo_stat_sequences WHERE name = '{name}'"))
}

/// Each value that is reserved has been served, or is in one tier, or lost.
#[track_caller]
fn assert_all_accounted_for(client: &mut Client) {
    let others = "SELECT name || ': ' || row_to_json(st)::text FROM hilo_stat_sequences st JOIN hilo_sequences s USING (name)
         WHERE served + in_slices + in_current + in_standby + in_returned + lost <> max_reserved";
    let mut rows: Vec<String> = Vec::new();
    // A block that the worker has reserved comes into memory after the commit.
    let none = came_true(LONG, || {
        rows = client.all(others);
        rows.is_empty()
    });
    assert!(none, "{rows:?}");
}

fn reasons(client: &mut Client) -> Vec<String> {
    client.all("SELECT DISTINCT reason FROM hilo_find_gaps('told', 'told', 'id')")
}

fn count_told(client: &mut Client, reason: &str) -> i64 {
    client.one(&format!(
        "SELECT coalesce(sum(count), 0)::bigint FROM hilo_find_gaps('told', 'told', 'id') WHERE reason = '{reason}'"
    ))
}

/// These reasons are among those given, each value up to the position is in the table or in one row, and
/// no row overlaps another.
#[track_caller]
fn assert_told(client: &mut Client, expected: &[&str]) {
    let found = reasons(client);
    assert!(expected.iter().all(|reason| found.iter().any(|other| other == reason)), "{found:?}");
    let row = client
        .query_one(
            "SELECT sum(count)::bigint + (SELECT count(*) FROM told), count(*) FILTER (WHERE first <= before),
                    greatest((SELECT max_reserved FROM hilo_sequences WHERE name = 'told'), max(last))
             FROM (SELECT *, lag(last) OVER (ORDER BY first) AS before FROM hilo_find_gaps('told', 'told', 'id')) g",
            &[],
        )
        .unwrap();
    assert_eq!((row.get::<_, i64>(0), row.get::<_, i64>(1)), (row.get::<_, i64>(2), 0));
}
