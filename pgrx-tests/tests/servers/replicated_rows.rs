//! Rows of hilo's own tables that replication delivers early, late, twice or through another server.

use hilo_tests::{Client, ClientExt, Cluster, LONG, Seen, Way, wait_until};

fn logical(id: usize, count: usize) -> Cluster {
    let builder = Cluster::builder().logical().own_identity().node(id, count);
    builder.config("hilo.failover_skip", "100").start_with_hilo()
}

/// A definition that is here before any position, as while tables are being copied, is not served
/// from the start. Nobody here knows yet what was served.
#[test]
fn a_definition_without_a_position_is_not_served() {
    let (publisher, subscriber) = (logical(0, 1), logical(1, 2));
    let mut there = publisher.connect("postgres");
    there
        .run("SELECT hilo_create('early'); CREATE PUBLICATION own FOR TABLE _hilo.hilo_definition");
    let seen = Seen::new(Way::Rising);
    seen.session().saw(&there.draw("early", 5_000));
    subscriber.subscribe("own", &publisher, "own", "");
    let mut here = subscriber.connect("postgres");
    for call in ["hilo_nextval('early')", "hilo_alter('early', increment => 2)"] {
        let refusal = here.refusal(&format!("SELECT {call}"));
        refusal
            .is("55000")
            .says("no position of hilo sequence \"early\"")
            .hints("_hilo.hilo_position");
    }
    let summary: String = there.one("SELECT hilo_node_summary()::text");
    let apply = format!("SELECT count(*) FROM hilo_apply('{summary}')");
    assert_eq!(here.one::<i64>(&apply), 0, "another server knows no more");
    // If that server is lost, the HINT says this.
    here.run(
        "BEGIN; SET LOCAL hilo.on_every_node = on;
         SELECT hilo_alter('early', restart_with => 200000)",
    );
    assert!(here.one::<i64>("SELECT hilo_nextval('early')") >= 200_000);
    here.run("ROLLBACK");
    there.run("ALTER PUBLICATION own ADD TABLE _hilo.hilo_position");
    here.run("ALTER SUBSCRIPTION own REFRESH PUBLICATION");
    subscriber.wait_for_copy();
    here.refusal("SELECT hilo_nextval('early')").is("55000").says("hilo.node_count = 1");
    here.run("SELECT hilo_setval('early', 100000)");
    seen.session().saw(&here.draw("early", 1_000));
    seen.assert_unique();
    subscriber.finish();
}

/// Where replication brings the rows, the summary of another server numbers nothing that is here.
/// The position of this server's own id may be yet to arrive, from a server that this one is to
/// replace.
#[test]
fn a_summary_numbers_nothing_that_replication_brings() {
    let (publisher, subscriber) = (logical(0, 2), logical(1, 2));
    let mut there = publisher.connect("postgres");
    there.run(
        "SELECT hilo_create('s'); CREATE PUBLICATION own FOR TABLE _hilo.hilo_definition, _hilo.hilo_position",
    );
    subscriber.subscribe("own", &publisher, "own", "");
    subscriber.wait_for_copy();
    let mut here = subscriber.connect("postgres");
    here.run("ALTER SUBSCRIPTION own DISABLE");
    wait_until("nothing arrives", LONG, || {
        here.one::<bool>("SELECT bool_and(pid IS NULL) FROM pg_stat_subscription")
    });
    there.run("SELECT hilo_alter('s', restart_with => 5000)");
    let summary: String = there.one("SELECT hilo_node_summary()::text");
    let apply = format!("SELECT count(*) FROM hilo_apply('{summary}')");
    assert_eq!(here.one::<i64>(&apply), 0);
    assert_eq!(here.one::<i64>("SELECT count(*) FROM _hilo.hilo_position WHERE node = 1"), 0);
    let compare = format!("SELECT what FROM hilo_compare('{summary}') WHERE severity = 'error'");
    let complaints: Vec<String> = here.all(&compare);
    assert!(complaints.iter().any(|what| what.contains("from 5000")), "{complaints:?}");
    here.run("ALTER SUBSCRIPTION own ENABLE");
    wait_until("the renumbering has arrived", LONG, || here.all::<String>(&compare).is_empty());
    assert_eq!(here.draw("s", 1), [5000 + 1024]);
    subscriber.finish();
    publisher.finish();
}

/// A replica that was restored from a dump takes over what its publisher has become since, the
/// definition with the position. Else its indexes would mean smaller values.
#[test]
fn what_is_copied_replaces_what_was_restored() {
    let (publisher, subscriber) = (logical(0, 1), logical(0, 1));
    let mut there = publisher.connect("postgres");
    there.run("SELECT hilo_create('altered'), hilo_create('mine')");
    let seen = Seen::new(Way::Rising);
    seen.session().saw(&there.draw("altered", 10));
    let mut here = subscriber.connect("postgres");
    here.run("DROP EXTENSION hilo");
    subscriber.restore("postgres", &publisher.pg_dump("postgres", &[]));
    let mine = here.draw("mine", 1);
    there.run("SELECT hilo_alter('altered', increment => 7, key_format => 'A{value}')");
    there.run("SELECT hilo_alter('mine', increment => 7, key_format => 'M{value}')");
    seen.session().saw(&there.draw("altered", 20_000));
    there.run(
        "CREATE PUBLICATION own FOR TABLE _hilo.hilo_definition, _hilo.hilo_position, _hilo.hilo_privilege, _hilo.hilo_gap",
    );
    subscriber.subscribe("own", &publisher, "own", "");
    let defined = |name: &str| {
        format!("SELECT increment || ' ' || key_format FROM hilo_sequences WHERE name = '{name}'")
    };
    assert_eq!(here.one::<String>(&defined("altered")), "7 A{value}");
    assert_eq!(here.one::<String>(&defined("mine")), "1 M{value}", "used here since the dump");
    publisher.kill9_postmaster();
    seen.session().saw(&here.draw("altered", 1_000));
    seen.assert_unique();
    assert!(here.draw("mine", 1)[0] > mine[0]);
    subscriber.finish();
}

fn sequence(id: i64, owner: &str, rest: &str) -> String {
    format!(
        "INSERT INTO _hilo.hilo_definition (id, name, data_type, start_value, increment, min_value, max_value, cycle, ordered,
                                     owner, created_at, block_size, source)
           VALUES ({id}, 's-{id}', 'bigint', 1, 1, 1, 1000000, false, false, '{owner}', now(), {rest})"
    )
}

fn position(id: i64, node: i32, reserved: i64) -> String {
    format!(
        "INSERT INTO _hilo.hilo_position VALUES ({id}, {node}, 1, 1, {reserved}, {reserved}, 0, 2, 1024, 77, 1)"
    )
}

fn bring_grants_twice(client: &mut Client) {
    for table in [
        "privilege VALUES (1, 'clerk', 'USAGE', 'postgres')",
        "default_privilege VALUES ('clerk', 'x%', 'public', 'SELECT')",
    ] {
        for _ in 0..2 {
            client.run(&format!("INSERT INTO _hilo.hilo_{table}"));
        }
    }
}

/// Whoever may write to the tables applies all kinds of rows, without a right to read them or to
/// call a function of hilo's own.
#[test]
fn who_may_only_write_applies_all_kinds_of_rows() {
    let cluster = logical(0, 1);
    let mut client = cluster.connect("postgres");
    client.run(
        "CREATE ROLE clerk; CREATE ROLE applier IN ROLE pg_write_all_data;
         SELECT hilo_create('mine', source => 'SELECT 1, 2'), hilo_create('s'), hilo_nextval('s')",
    );
    let created = "SELECT created_at::text FROM _hilo.hilo_definition WHERE id = 2";
    let source = |set: &str| format!("UPDATE _hilo.hilo_definition SET owner = 'clerk', {set}");
    client.run("SET session_replication_role = replica; SET ROLE applier");
    client.run(&sequence(2, "nobody_here", "NULL, 'SELECT 1, 2'"));
    client.run("RESET ROLE");
    let before: String = client.one(created);
    client.refusal("DROP ROLE applier").is("2BP01");
    client.run("SET ROLE applier");
    for sql in [
        sequence(1, "clerk", "NULL, NULL"),
        sequence(1, "nobody_here", "100, NULL"),
        sequence(2, "nobody_here", "50, 'SELECT 3, 4'"),
        position(1, 0, 500),
        position(1, 0, 700),
        position(1, 1, 900),
        "UPDATE _hilo.hilo_position SET served = 3".into(),
        "INSERT INTO _hilo.hilo_free_range VALUES (1, 1, 1, 0, 10)".into(),
        source("source = NULL"),
    ] {
        client.run(&sql);
    }
    bring_grants_twice(&mut client);
    for call in ["has_name('s')", "has_id(1)", "has_position(1, 0)", "depend_on('clerk')"] {
        client.refusal(&format!("SELECT _hilo.hilo_{call}")).is("42501");
    }
    client.run("RESET ROLE");
    assert_eq!(client.one::<String>(created), before, "the known row has its time of creation");
    let sequences: Vec<String> = client.all(
        "SELECT concat_ws(' ', name, owner, block_size, source ~ 'on another server') FROM _hilo.hilo_definition ORDER BY name",
    );
    // A query that runs here stays with its owner.
    assert_eq!(sequences, ["mine postgres f", "s clerk", "s-1 clerk 100", "s-2 clerk 50 t"],);
    let positions: Vec<String> = client.all(
        "SELECT concat_ws(' ', sequence, node, next_index, served) FROM _hilo.hilo_position WHERE sequence = 1 ORDER BY 1",
    );
    assert_eq!(positions, ["1 0 700 3", "1 1 900 3"]);
    client.run("SET ROLE applier; DELETE FROM _hilo.hilo_privilege; DELETE FROM _hilo.hilo_default_privilege; DELETE FROM _hilo.hilo_definition; RESET ROLE");
    assert_eq!(client.one::<i64>("SELECT count(*) FROM _hilo.hilo_position"), 0);
    cluster.finish();
}

/// A transaction that is brought the positions of this server, and stays open, locks none of them.
#[test]
fn nobody_waits_for_who_is_brought_our_positions() {
    let cluster = logical(0, 2);
    let mut client = cluster.connect("postgres");
    client.run("SELECT hilo_create('s', block_size => 10, slice_size => 1), hilo_nextval('s')");
    let mut worker = cluster.connect("postgres");
    worker.run(
        "BEGIN; SET LOCAL session_replication_role = replica;
         INSERT INTO _hilo.hilo_position SELECT * FROM _hilo.hilo_position",
    );
    client.run("SET statement_timeout = '20s'");
    client.draw("s", 100);
    worker.run("COMMIT");
    cluster.finish();
}

/// One worker is brought rows that are here, and rows that are not. A second one changes nothing, whatever it is of, and no
/// query comes with a sequence.
#[test]
fn one_worker_is_brought_all_kinds_of_rows() {
    let cluster = logical(0, 2);
    let mut client = cluster.connect("postgres");
    client.run("CREATE ROLE clerk; SET session_replication_role = replica");
    for sql in [
        sequence(1, "clerk", "NULL, NULL"),
        sequence(1, "nobody_here", "100, 'SELECT 1, 2'"),
        sequence(2, "nobody_here", "NULL, 'SELECT 1, 2'"),
        sequence(2, "nobody_here", "NULL, 'SELECT 1, 2'"),
        position(1, 0, 500),
        position(1, 0, 700),
        position(1, 1, 900),
        "UPDATE _hilo.hilo_position SET served = served + 1".into(),
        "UPDATE _hilo.hilo_definition SET key_format = name || '{value}'".into(),
        sequence(3, "clerk", "NULL, NULL"),
        position(3, 1, 30),
        position(3, 1, 40),
        "INSERT INTO _hilo.hilo_lease SELECT * FROM _hilo.hilo_lease".into(),
        "INSERT INTO _hilo.hilo_free_range VALUES (1, 1, 1, 0, 10)".into(),
    ] {
        client.run(&sql);
    }
    bring_grants_twice(&mut client);
    let sequences: Vec<String> = client.all(
        "SELECT concat_ws(' ', id, owner, block_size, key_format, source ~ 'on another server') FROM _hilo.hilo_definition ORDER BY id",
    );
    assert_eq!(sequences, ["1 clerk 100 s-1{value} t", "2 postgres s-2{value} t", "3 clerk"]);
    let positions: Vec<String> = client.all(
        "SELECT concat_ws(' ', sequence, node, next_index, served, timeline) FROM _hilo.hilo_position ORDER BY 1",
    );
    assert_eq!(positions, ["1 0 700 1 -1", "1 1 900 1 -1", "3 1 40 0 -1"]);
    let rows = "SELECT concat_ws(' ', (SELECT count(*) FROM _hilo.hilo_privilege), (SELECT count(*) FROM _hilo.hilo_default_privilege),
                              (SELECT count(*) FROM _hilo.hilo_free_range))";
    assert_eq!(client.one::<String>(rows), "1 1 0");
    client.refusal("DROP ROLE clerk").is("2BP01");
    client.run("DELETE FROM _hilo.hilo_privilege; DELETE FROM _hilo.hilo_default_privilege; DELETE FROM _hilo.hilo_definition");
    assert_eq!(client.one::<String>(rows), "0 0 0");
    assert_eq!(client.one::<i64>("SELECT count(*) FROM _hilo.hilo_position"), 0);
    cluster.finish();
}

/// Rows that are here already are replaced. No column is forgotten.
#[test]
fn known_rows_are_replaced() {
    let cluster = logical(0, 2);
    let mut client = cluster.connect("postgres");
    client.run("SET session_replication_role = replica");
    client.run(&sequence(1, "nobody_here", "NULL, NULL"));
    client.run(&position(1, 1, 500));
    client.run(&sequence(1, "nobody_here", "100, NULL"));
    client.run(&position(1, 1, 700));
    let rows = "SELECT concat_ws(' ', s.block_size, p.next_index, p.timeline)
                  FROM _hilo.hilo_definition s JOIN _hilo.hilo_position p ON p.sequence = s.id";
    assert_eq!(client.one::<String>(rows), "100 700 -1");
    client.run(
        "CREATE ROLE clerk; CREATE TABLE t (id bigint); CREATE TABLE before AS SELECT to_jsonb(d) AS row FROM _hilo.hilo_definition d;
         INSERT INTO _hilo.hilo_definition (id, name, owner, created_at, owned_by, extension, former, data_type, start_value, increment, min_value,
                max_value, cycle, ordered, block_size, slice_size, key_format, gapless, source, reserve_ahead, description)
         VALUES (1, 'other', 'clerk', '2000-01-01', 'public.t.id', 'x', '{}', 'integer', 2, 3, 2,
                 9, true, true, 50, 5, '{value}', true, 'SELECT 1, 2', 60, 'for orders')",
    );
    let kept = "SELECT b.key FROM before, jsonb_each(row) b JOIN (SELECT e.* FROM _hilo.hilo_definition d, jsonb_each(to_jsonb(d)) e) n
                 USING (key) WHERE b.value = n.value ORDER BY 1";
    // The time of creation, the extension and what a source is asked are this server's own.
    assert_eq!(client.all::<String>(kept), ["created_at", "extension", "id", "reserve_ahead"]);
    let forgotten = "SELECT attname::text FROM pg_attribute, pg_proc
                      WHERE attnum > 0 AND attname NOT IN ('sequence', 'node') AND prosrc !~ ('ROW [(][^)]*NEW[.]' || attname || '[,)]')
                        AND (attrelid, proname) = ('_hilo.hilo_position'::regclass, 'hilo_replicated_position')";
    assert_eq!(client.all::<String>(forgotten), [""; 0]);
    cluster.finish();
}

/// A publisher, and a subscriber to which its rows are copied a second time, while a transaction of
/// the subscriber's keeps `change` to itself. That commits once the copy waits.
fn copied_during(sequence: &str, change: &str, waits: &str) -> ([Cluster; 2], Client) {
    let (publisher, subscriber) = (logical(0, 1), logical(0, 1));
    let mut there = publisher.connect("postgres");
    there.run(&format!(
        "SELECT hilo_create('{sequence}'), hilo_nextval('{sequence}');
         CREATE PUBLICATION own FOR TABLE _hilo.hilo_definition, _hilo.hilo_position"
    ));
    subscriber.subscribe("own", &publisher, "own", "");
    let mut here = subscriber.connect("postgres");
    let mut other = subscriber.connect("postgres");
    here.run("DROP SUBSCRIPTION own");
    here.run(&format!("BEGIN; {change}"));
    let address = publisher.address();
    other.run(&format!("CREATE SUBSCRIPTION own CONNECTION '{address}' PUBLICATION own"));
    wait_until("the copy waits", LONG, || other.one::<bool>(waits));
    here.run("COMMIT");
    subscriber.wait_for_copy();
    ([publisher, subscriber], other)
}

/// A copied position that waits for a transaction of this server does not take the place of what that
/// has committed.
#[test]
fn a_copy_does_not_replace_what_has_become_ours_meanwhile() {
    let the_position_waits = "SELECT EXISTS (SELECT FROM pg_locks w JOIN pg_locks t USING (pid)
                                              WHERE NOT w.granted AND t.locktype = 'tuple'
                                                AND t.relation = '_hilo.hilo_position'::regclass)";
    let ([_publisher, subscriber], mut client) =
        copied_during("set", "SELECT hilo_setval('set', 100000)", the_position_waits);
    assert_eq!(client.draw("set", 1), [100_001]);
    subscriber.finish();
}

/// Copied rows that wait for a transaction of this server, which drops the sequence, are not lost.
#[test]
fn what_is_dropped_during_a_copy_comes_with_it() {
    let both_wait = "SELECT count(DISTINCT pid) = 2 FROM pg_locks WHERE NOT granted";
    let ([_publisher, subscriber], mut client) =
        copied_during("dropped", "SELECT hilo_drop('dropped')", both_wait);
    let rows = "SELECT count(*) FROM _hilo.hilo_definition s JOIN _hilo.hilo_position p ON p.sequence = s.id";
    assert_eq!(client.one::<i64>(rows), 1);
    subscriber.finish();
}

/// Our own row that comes back over another server is nobody's twin.
#[test]
fn our_own_row_over_a_detour_is_no_twin() {
    let clusters = [logical(0, 2), logical(1, 2)];
    for cluster in &clusters {
        let mut client = cluster.connect("postgres");
        client.run(
            "SELECT hilo_create('mine'); CREATE PUBLICATION own FOR TABLE _hilo.hilo_position",
        );
    }
    let [first, second] = &clusters;
    second.subscribe("there", first, "own", "");
    first.subscribe("back", second, "own", "WITH (copy_data = false)");
    let mut client = first.connect("postgres");
    client.draw("mine", 20_000);
    first.wait_for_apply("there");
    second.wait_for_apply("back");
    assert_eq!(first.log_count("another server reserves values"), 0);
    let found = "SELECT count(*) FROM hilo_check() WHERE object = 'node 0'";
    assert_eq!(client.one::<i64>(found), 0);
    first.stop(hilo_tests::Mode::Immediate);
}

/// A position that the publisher serves is taken over by those who use it here, and by nobody else.
/// The worker, which reads ahead of a session that uses many sequences, leaves it alone.
#[test]
fn what_the_publisher_serves_is_not_read_ahead() {
    let (publisher, subscriber) = (logical(0, 1), logical(0, 1));
    let mut there = publisher.connect("postgres");
    there.run(
        "SELECT hilo_create('m-' || n) FROM generate_series(1, 20) n;
         CREATE PUBLICATION own FOR TABLE _hilo.hilo_definition, _hilo.hilo_position",
    );
    let seen = Seen::new(Way::Rising);
    seen.session().saw(&there.draw("m-1", 10));
    subscriber.subscribe("own", &publisher, "own", "");
    let mut here = subscriber.connect("postgres");
    // These names follow each other, and do not count.
    here.run(
        "SELECT hilo_create('a-' || translate(to_char(n, 'FM0000'), '0123456789', 'abcdefghij'))
           FROM generate_series(1, 1000) n;
         SELECT hilo_create('z')",
    );
    let ready = "SELECT count(*) FROM hilo_stat_sequences WHERE name = 'z' AND blocks_reserved > 0";
    let mut used = 0;
    while here.one::<i64>(ready) == 0 {
        used += 1;
        let number = format!("{used:04}");
        let letters: String = number.bytes().map(|digit| (digit - b'0' + b'a') as char).collect();
        here.draw(&format!("a-{letters}"), 1);
    }
    // Rows between a and z have been looked at, and nothing of them stays in memory.
    let held = "SELECT count(*) FROM hilo_stat_sequences WHERE name LIKE 'm-%'";
    wait_until("their slots are free", LONG, || here.one::<i64>(held) == 0);
    let taken = "SELECT count(*) FROM _hilo.hilo_position p JOIN _hilo.hilo_definition s ON s.id = p.sequence
                  WHERE s.name LIKE 'm-%' AND p.timeline <> -1";
    assert_eq!(here.one::<i64>(taken), 0);
    // So what the publisher serves from now on still arrives.
    seen.session().saw(&there.draw("m-1", 50_000));
    publisher.wait_for_apply("own");
    publisher.kill9_postmaster();
    seen.session().saw(&here.draw("m-1", 1_000));
    seen.assert_unique();
    subscriber.finish();
}

/// A publisher whose tables were emptied, although its own trigger refuses that, empties no subscriber's.
#[test]
fn truncate_of_a_publisher_is_refused_here() {
    let (publisher, subscriber) = (logical(0, 2), logical(1, 2));
    let mut there = publisher.connect("postgres");
    there.run(
        "SELECT hilo_create('s');
         CREATE PUBLICATION own FOR TABLE _hilo.hilo_definition, _hilo.hilo_position, _hilo.hilo_free_range, _hilo.hilo_lease",
    );
    subscriber.subscribe("own", &publisher, "own", "");
    subscriber.wait_for_copy();
    let mut here = subscriber.connect("postgres");
    here.run("SELECT hilo_alter('s', restart_with => 1)");
    let drawn = here.draw("s", 10);
    let rows = "SELECT concat_ws(' ', (SELECT count(*) FROM _hilo.hilo_definition), (SELECT count(*) FROM _hilo.hilo_position))";
    let before: String = here.one(rows);
    for table in ["position", "definition", "free_range", "lease"] {
        there.run(&format!("ALTER TABLE _hilo.hilo_{table} DISABLE TRIGGER refuse_write"));
    }
    there.run("TRUNCATE _hilo.hilo_position, _hilo.hilo_definition, _hilo.hilo_free_range, _hilo.hilo_lease");
    let refused = "is a table of the extension hilo";
    wait_until("it is refused", LONG, || subscriber.log_count(refused) > 1);
    assert_eq!(here.one::<String>(rows), before);
    here.run("ALTER SUBSCRIPTION own DISABLE");
    assert!(here.draw("s", 10)[0] > drawn[9]);
    subscriber.finish();
    publisher.finish();
}
