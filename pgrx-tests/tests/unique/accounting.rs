//! Every reserved number was seen, is free, or is in a gap, and only one of these. There is no
//! number without a row, and no row without a number.

use std::process::Command;
use std::thread;

use hilo_tests::{Client, ClientExt, Cluster, LONG, assert_accounted, assert_unique, wait_until};

/// How many numbers of a sequence lie below its position and are neither free nor in a gap. Ends with its name.
const REST: &str = "SELECT count(*) FROM _hilo.hilo_definition s JOIN _hilo.hilo_position p ON p.sequence = s.id,
     generate_series(0, p.next_index - 1) i
     WHERE NOT EXISTS (SELECT FROM _hilo.hilo_free_range f WHERE f.sequence = s.id AND i >= f.first_index AND i < f.end_index)
       AND NOT EXISTS (SELECT FROM _hilo.hilo_gap g WHERE g.sequence = s.id AND p.base + i >= g.first_value AND p.base + i <= g.last_value)
       AND s.name = ";

/// Promise 5: more sessions leave than a sequence has room for what they return, while the worker waits
/// for a synchronous standby that is silent. Each leaves at once, and every number is found.
#[test]
fn of_what_many_return_while_the_standby_is_silent() {
    const SESSIONS: usize = 60;
    let cluster = Cluster::builder()
        .config("max_connections", "100")
        .config("hilo.max_slice_size", "16")
        .config("hilo.reserve_timeout", "60s")
        .start_with_hilo();
    let mut client = cluster.connect("postgres");
    client.run("SELECT hilo_create('s', block_size => 4000), hilo_create('other')");
    let mut sessions: Vec<Client> = (0..SESSIONS).map(|_| cluster.connect("postgres")).collect();
    let mut seen = Vec::new();
    // In turn, so that their slices lie scattered.
    for count in 1..=7 {
        for session in &mut sessions {
            seen.extend(session.draw("s", count));
        }
    }
    let pids: Vec<i32> = sessions.iter_mut().map(|session| session.backend_pid()).collect();
    cluster.await_absent_standby();
    thread::scope(|scope| {
        let waiting = scope.spawn(|| cluster.connect("postgres").draw("other", 1));
        cluster.wait_for_worker_awaiting_standby();
        drop(sessions);
        wait_until("all sessions have left", LONG, || {
            client
                .query("SELECT FROM pg_stat_activity WHERE pid = ANY ($1)", &[&pids])
                .expect("it can be asked")
                .is_empty()
        });
        cluster.configure("synchronous_standby_names", "");
        cluster.reload();
        assert_eq!(waiting.join().expect("it is served"), [1]);
    });
    for _ in 0..3 {
        seen.extend(cluster.connect("postgres").draw("s", 2_000));
    }
    drop(client);
    cluster.restart();
    assert_accounted(&mut cluster.connect("postgres"), "s", &seen);
    cluster.finish();
}

/// Promise 5: hilo.node_id is changed and changed back while sessions draw.
#[test]
fn of_a_node_that_was_another_for_a_while() {
    let cluster = Cluster::builder()
        .config("hilo.node_id", "0")
        .config("hilo.node_count", "2")
        .config("hilo.on_every_node", "on")
        .start_with_hilo();
    let mut client = cluster.connect("postgres");
    client.run("SELECT hilo_create('s', block_size => 16)");
    let mut seen = client.draw("s", 5);
    for node in ["1", "0"] {
        cluster.configure("hilo.node_id", node);
        cluster.reload();
        wait_until("the session knows its node", LONG, || {
            client.one::<String>("SHOW hilo.node_id") == node
        });
        let mut drawn = Vec::new();
        wait_until("the node serves", LONG, || {
            match client.query("SELECT hilo_nextval('s')", &[]) {
                Ok(rows) => drawn.extend(rows.iter().map(|row| row.get::<_, i64>(0))),
                // A call may fall between the two.
                Err(error) => assert!(error.as_db_error().is_some(), "{error:?}"),
            }
            drawn.len() >= 5
        });
        seen.extend(drawn);
    }
    drop(client);
    cluster.restart();
    seen.extend(cluster.connect("postgres").draw("s", 1));
    cluster.restart();
    assert_unique("s", &seen);
    // The first stripe is this node's, and long enough for what was drawn.
    seen.retain(|&value| value <= 1024);
    assert_accounted(&mut cluster.connect("postgres"), "s", &seen);
    cluster.finish();
}

/// Promise 5: a crash records what it took, and not again what earlier ones had taken.
#[test]
fn of_several_crashes() {
    let cluster = Cluster::builder().config("max_connections", "80").start_with_hilo();
    let mut client = cluster.connect("postgres");
    client.run("SELECT hilo_create('s')");
    let mut sessions: Vec<Client> = (0..40).map(|_| cluster.connect("postgres")).collect();
    let mut seen = Vec::new();
    for _ in 0..6 {
        for session in &mut sessions {
            seen.extend(session.all::<i64>("SELECT hilo_nextvals('s', 20)"));
        }
        for session in &mut sessions {
            seen.extend(
                session
                    .all::<i64>("SELECT generate_series(first, last) FROM hilo_nextrange('s', 50)"),
            );
        }
    }
    for session in &mut sessions[..4] {
        seen.extend(session.all::<i64>("SELECT hilo_nextvals('s', 20000)"));
    }
    for crash in 1..=3 {
        cluster.crash(client.backend_pid());
        client = cluster.connect_when_up("postgres");
        seen.extend(client.draw("s", 1));
        let counted: i64 = client.one("SELECT sum(count)::bigint FROM hilo_gaps");
        let distinct: i64 = client.one(
            "SELECT sum(upper(r) - lower(r))::bigint
               FROM (SELECT unnest(range_agg(int8range(first, last, '[]'))) AS r FROM hilo_gaps) g",
        );
        assert_eq!(counted, distinct, "after crash {crash}");
    }
    assert_unique("s", &seen);
    cluster.finish();
}

/// Promise 5: all that was reserved of a sequence is served, and its place goes to another one beside a
/// transaction that holds its row. A clean stop still finds the catalog told so.
#[test]
fn of_a_used_up_pool_that_made_room_beside_an_open_renumbering() {
    const PLACES: usize = 16;
    let cluster = Cluster::builder()
        .config("hilo.max_sequences", &PLACES.to_string())
        .config("hilo.prefetch", "off")
        .start_with_hilo();
    let mut client = cluster.connect("postgres");
    client.run("SELECT hilo_create('s', block_size => 10)");
    let mut other = cluster.connect("postgres");
    let seen = other.draw("s", 10);
    cluster.close(other);
    let mut holder = cluster.connect("postgres");
    holder.run("BEGIN; SELECT hilo_setval('s', 1000)");
    // More sequences than there are places, again and again.
    for round in 0..3 {
        for number in 0..2 * PLACES {
            let name = format!("n{number}");
            client.run(&format!("SELECT hilo_create('{name}', if_not_exists => true)"));
            assert_eq!(client.draw(&name, 1), [round + 1]);
        }
    }
    holder.run("ROLLBACK");
    drop((client, holder));
    cluster.restart();
    let mut client = cluster.connect("postgres");
    assert_eq!(client.draw("s", 1), [11]);
    assert_eq!(client.one::<i64>("SELECT count(*) FROM hilo_gaps"), 0);
    assert_unique("s", &seen);
    cluster.finish();
}

/// The same where the server becomes another node meanwhile.
#[test]
fn of_a_used_up_pool_of_a_former_node_beside_an_open_renumbering() {
    let cluster = Cluster::builder().node(0, 2).config("hilo.prefetch", "off").start_with_hilo();
    let mut client = cluster.connect("postgres");
    client.run("SELECT hilo_create('s', block_size => 10), hilo_create('other')");
    let mut drawer = cluster.connect("postgres");
    assert_eq!(drawer.draw("s", 10), (1..=10).collect::<Vec<i64>>());
    cluster.close(drawer);
    let mut holder = cluster.connect("postgres");
    holder.run("BEGIN; SELECT hilo_setval('s', 5000)");
    cluster.configure("hilo.node_id", "1");
    cluster.reload();
    let taken_up = "SELECT current_setting('hilo.node_id') = '1'";
    wait_until("the server is node 1", LONG, || client.one::<bool>(taken_up));
    // The worker is that node too when it has served it.
    client.draw("other", 1);
    holder.run("ROLLBACK");
    drop((client, holder));
    cluster.configure("hilo.node_id", "0");
    cluster.restart();
    let mut client = cluster.connect("postgres");
    assert_eq!(client.draw("s", 1), [11]);
    assert_eq!(client.one::<i64>("SELECT count(*) FROM hilo_gaps"), 0);
    cluster.finish();
}

/// Promise 5: a transaction that has set a sequence skips numbers to reach a block: they are recorded.
#[test]
fn what_a_block_skips_is_recorded() {
    let cluster = Cluster::with_hilo();
    let mut client = cluster.connect("postgres");
    client.run(
        "SELECT hilo_create('plain', block_size => 64), hilo_create('ordered', block_size => 64, ordered => true)",
    );
    for name in ["plain", "ordered"] {
        for undone in ["", "; SAVEPOINT s; SELECT hilo_next_hi('NAME'); ROLLBACK TO s"] {
            let undone = undone.replace("NAME", name);
            client.run(&format!(
                "BEGIN; SELECT hilo_setval('{name}', 6401, false), hilo_nextval('{name}'), hilo_next_hi('{name}'){undone};
                 COMMIT"
            ));
            let blocks = if undone.is_empty() { 1 } else { 2 };
            assert_eq!(client.one::<i64>(&format!("{REST}'{name}'")), 1 + blocks * 64, "{name}");
        }
    }
    drop(client);
    cluster.finish();
}

/// Promise 5: sessions that leave several slices of one sequence behind while it has no place in
/// memory. A clean stop has nothing left in any memory.
#[test]
fn slices_left_behind_are_free_after_a_clean_stop() {
    let cluster = Cluster::builder()
        .config("hilo.max_sequences", "4")
        .config("hilo.worker_idle_timeout", "60s")
        .start_with_hilo();
    let mut client = cluster.connect("postgres");
    client.run("SELECT hilo_create('n' || i) FROM generate_series(1, 20) i");
    let mut sessions: Vec<_> = (0..6).map(|_| cluster.connect("postgres")).collect();
    for number in 1..=20 {
        for session in &mut sessions {
            session.run(&format!("SELECT hilo_nextval('n{number}') FROM generate_series(1, 25)"));
        }
    }
    let worker = cluster.worker_pid("postgres").expect("a worker");
    let signal = |name: &str| {
        let done = Command::new("kill").args([name, &worker.to_string()]).status();
        assert!(done.expect("kill").success());
    };
    signal("-STOP");
    drop(sessions);
    let alone = "SELECT count(*) = 1 FROM pg_stat_activity WHERE backend_type = 'client backend'";
    wait_until("the sessions have left", LONG, || client.one(alone));
    signal("-CONT");
    drop(client);
    cluster.restart();
    let mut client = cluster.connect("postgres");
    for table in ["position", "free_range"] {
        let sql = format!("SELECT count(*) FROM _hilo.hilo_{table} WHERE incarnation <> 0");
        assert_eq!(client.one::<i64>(&sql), 0, "{table}");
    }
    drop(client);
    cluster.finish();
}

/// Promise 5: what was served to its last number leaves no gap after a clean stop.
#[test]
fn a_pool_that_is_used_up_leaves_no_gap() {
    let cluster = Cluster::builder()
        .config("hilo.max_sequences", "3")
        .config("hilo.worker_idle_timeout", "60s")
        .start_with_hilo();
    let mut client = cluster.connect("postgres");
    client.run(
        "SELECT hilo_create('ten', max_value => 10), hilo_create('slice', block_size => 1000, slice_size => 100)",
    );
    client.run("SELECT hilo_create('n' || i) FROM generate_series(1, 9) i");
    client.run("SELECT hilo_nextval('ten') FROM generate_series(1, 10)");
    // Its place goes to others while this session holds a slice, which it then uses up.
    client.draw("slice", 50);
    let mut other = cluster.connect("postgres");
    for number in 1..=9 {
        other.run(&format!("SELECT hilo_nextval('n{number}')"));
    }
    for _ in 0..5 {
        client.draw("slice", 50);
    }
    drop((client, other));
    cluster.restart();
    let mut client = cluster.connect("postgres");
    client.refusal("SELECT hilo_nextval('ten')").is("2200H");
    client.run("SELECT hilo_nextval(name::text) FROM hilo_sequences WHERE name <> 'ten'");
    let gaps: Vec<String> = client.all("SELECT g::text FROM hilo_gaps g");
    assert!(gaps.is_empty(), "{gaps:#?}");
    drop(client);
    cluster.finish();
}

/// The gaps of a sequence that an alteration has left.
fn alteration_gaps(client: &mut Client, name: &str) -> Vec<(i64, i64)> {
    let sql = "SELECT first, last FROM hilo_gaps WHERE name = $1 AND reason = 'altered' ORDER BY 1";
    let rows = client.query(sql, &[&name]).expect("the gaps can be read");
    rows.iter().map(|row| (row.get(0), row.get(1))).collect()
}

/// How many values a column lacks because of them.
fn count_lacking(client: &mut Client, name: &str) -> i64 {
    client.one(&format!(
        "SELECT COALESCE(sum(count), 0)::bigint FROM hilo_find_gaps('{name}', '{name}', 'id') WHERE reason = 'altered'"
    ))
}

/// Promise 5: what a sequence jumps over is a gap, once.
#[test]
fn of_what_is_jumped_over() {
    let cluster = Cluster::with_hilo();
    let mut client = cluster.connect("postgres");
    for (number, (jump, first, last, next)) in [
        ("hilo_advance('{}', 50)", 6, 50, 51),
        ("hilo_sync('{}', 'fifty', 'id')", 6, 50, 51),
        ("hilo_setval('{}', 50)", 6, 50, 51),
        ("hilo_setval('{}', 50, false)", 6, 49, 50),
        ("hilo_alter('{}', restart_with => 50)", 6, 49, 50),
        ("hilo_alter('{}', restart_with => 50, increment => 7)", 6, 49, 50),
    ]
    .into_iter()
    .enumerate()
    {
        let name = format!("s{number}");
        client.run("DROP TABLE IF EXISTS fifty; CREATE TABLE fifty AS SELECT 50::bigint AS id");
        client.run(&format!("SELECT hilo_create('{name}'); CREATE TABLE {name} (id bigint)"));
        client.run(&format!(
            "INSERT INTO {name} SELECT hilo_nextval('{name}') FROM generate_series(1, 5)"
        ));
        let jump = jump.replace("{}", &name);
        client.run(&format!("BEGIN; SELECT {jump}; ROLLBACK"));
        assert_eq!(alteration_gaps(&mut client, &name), [], "{jump}, rolled back");
        client.run(&format!("SELECT {jump}"));
        client.run(&format!("INSERT INTO {name} SELECT hilo_nextval('{name}')"));
        assert_eq!(client.one::<i64>(&format!("SELECT max(id) FROM {name}")), next, "{jump}");
        assert_eq!(alteration_gaps(&mut client, &name), [(first, last)], "{jump}");
        assert_eq!(count_lacking(&mut client, &name), last - first + 1, "{jump}");
        // When it goes back, what it is yet to serve is not missing.
        client.run(&format!("SELECT hilo_alter('{name}', restart_with => 20, increment => 1)"));
        assert_eq!(count_lacking(&mut client, &name), 20 - first, "{jump}");
        assert_eq!(alteration_gaps(&mut client, &name), [(first, last)], "{jump}");
    }
    client.run("SELECT hilo_create('falling', increment => -2); CREATE TABLE falling (id bigint)");
    assert_eq!(client.draw("falling", 2), [-1, -3]);
    client.run("SELECT hilo_setval('falling', -11)");
    assert_eq!(alteration_gaps(&mut client, "falling"), [(-5, -11)]);
    client.run("SELECT hilo_advance('falling', -20)");
    // They belong to two numberings, so they are two gaps.
    assert_eq!(alteration_gaps(&mut client, "falling"), [(-13, -19), (-5, -11)]);
    // Up to its end, and over it.
    client.run("SELECT hilo_create('ending', max_value => 20); CREATE TABLE ending (id bigint)");
    assert!(client.one::<bool>("SELECT hilo_advance('ending', 20) IS NULL"));
    assert_eq!(alteration_gaps(&mut client, "ending"), [(1, 20)]);
    cluster.finish();
}
