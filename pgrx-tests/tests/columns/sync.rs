//! hilo_sync moves a sequence past the values of a column, and never back.

use std::thread;

use hilo_tests::{ClientExt, LONG, wait_until};

use crate::adopt::{cluster, insert};

/// hilo_sync moves the sequence beyond the column's values where it would serve one again, and never back.
#[test]
fn sync_raises_and_never_lowers() {
    let (cluster, mut client) = cluster();
    client.run("SELECT hilo_create('s', block_size => 100); CREATE TABLE t (id bigint DEFAULT hilo_nextval('s'))");
    let sync = "SELECT hilo_sync('s', 't', 'id')";
    assert_eq!(client.one::<i64>(sync), 1);
    assert_eq!(insert(&mut client), 1);
    client.run("INSERT INTO t VALUES (50), (1000)");
    assert_eq!(client.one::<i64>(sync), 1001);
    assert_eq!(insert(&mut client), 1001);
    client.run("DELETE FROM t");
    assert_eq!(client.one::<i64>(sync), 1002);
    // A value that another session holds and the column has: it is not served again.
    let mut other = cluster.connect("postgres");
    let held = other.draw("s", 20);
    client.run(&format!("INSERT INTO t VALUES ({})", held[19] + 1));
    client.one::<i64>(sync);
    let next = other.draw("s", 1)[0];
    assert!(next > held[19] + 1, "{next} after {held:?}");
    // Values that another session holds and the column lacks stay as they are.
    let mine = other.draw("s", 4)[3];
    let first = client.draw("s", 40)[39];
    client.run(&format!("INSERT INTO t VALUES ({first})"));
    let gaps: i64 = client.one("SELECT count(*) FROM hilo_gaps");
    client.one::<i64>(sync);
    assert_eq!(other.draw("s", 1)[0], mine + 1);
    assert_eq!(client.one::<i64>("SELECT count(*) FROM hilo_gaps"), gaps);
    client.run("INSERT INTO t VALUES (9223372036854775807)");
    assert_eq!(client.one::<Option<i64>>(sync), None);
    client.refusal("INSERT INTO t DEFAULT VALUES").is("2200H");
    cluster.finish();
}

/// hilo_sync leaves a sequence that cycles alone, and waits in no deadlock with those who drop tables.
#[test]
fn sync_beside_cycles_and_drops() {
    let (cluster, mut client) = cluster();
    client.run("SELECT hilo_create('c', max_value => 10, cycle => true); CREATE TABLE c (id bigint DEFAULT hilo_nextval('c'))");
    client.run("INSERT INTO c VALUES (10)");
    assert_eq!(client.one::<i64>("SELECT hilo_sync('c', 'c', 'id')"), 1);
    assert_eq!(client.draw("c", 2), [1, 2]);
    client.run("SELECT hilo_create('s'); CREATE TABLE t (id bigint DEFAULT hilo_nextval('s')); SELECT hilo_alter('s', owned_by => 't.id')");
    let mut dropper = cluster.connect("postgres");
    dropper.run("BEGIN; LOCK TABLE t IN ACCESS EXCLUSIVE MODE");
    let pid = client.backend_pid();
    thread::scope(|scope| {
        let syncing = scope.spawn(|| {
            let refusal = client.refusal("SELECT hilo_sync('s', 't', 'id')");
            assert!(
                ["42P01", "42704"].contains(&refusal.report().code().code()),
                "{:?}",
                refusal.report()
            );
        });
        wait_until("hilo_sync waits for the table", LONG, || {
            cluster.connect("postgres").sees_waiting(pid)
        });
        dropper.run("DROP TABLE t; COMMIT");
        syncing.join().expect("it is told that the table is gone");
    });
    cluster.finish();
}

/// Keys count as the numbers in them. Other texts do not, and it says how many there are.
#[test]
fn keys_count_as_their_numbers() {
    let (cluster, mut client) = cluster();
    client.run(
        "SELECT hilo_create('s', key_format => 'S-{value:03}'); CREATE TABLE t (id varchar(9));
         INSERT INTO t VALUES ('S-007'), ('S-12'), ('S-011'), ('s-900'), (NULL);
         CREATE TABLE c (id character(8)); INSERT INTO c VALUES ('S-1234')",
    );
    let (mut listening, heard) = cluster.connect_listening("postgres", "postgres");
    assert_eq!(listening.one::<i64>("SELECT hilo_sync('s', 't', 'id')"), 12);
    let heard: Vec<_> = heard.take();
    assert_eq!(heard.len(), 1, "{heard:?}");
    assert!(
        heard[0].message().contains("public.t.id holds 2 values that are no keys"),
        "{heard:?}"
    );
    assert_eq!(client.one::<String>("SELECT hilo_nextkey('s')"), "S-012");
    assert_eq!(client.one::<i64>("SELECT hilo_sync('s', 'c', 'id')"), 1235);
    cluster.finish();
}

/// Calls for a sequence of core's, which programs make after a load, do nothing to a column that has moved. `hilo_check`
/// names the column, and its fix does what the calls were to do.
#[test]
fn calls_for_a_sequence_of_core_do_nothing_and_the_fix_does() {
    let (cluster, mut client) = cluster();
    client.run(
        "CREATE TABLE t (id bigserial PRIMARY KEY); SELECT hilo_adopt('t', 'id');
         INSERT INTO t SELECT generate_series(1, 50)",
    );
    for call in [
        "setval(pg_get_serial_sequence('t', 'id'), 51)",
        "currval(pg_get_serial_sequence('t', 'id'))",
        "to_regclass('t_id_seq')::oid::bigint",
        "(SELECT 1::bigint FROM pg_class WHERE relname = 't_id_seq')",
        "(SELECT 1::bigint FROM pg_sequences WHERE sequencename = 't_id_seq')",
    ] {
        assert_eq!(client.one::<Option<i64>>(&format!("SELECT {call}")), None, "{call}");
    }
    client
        .run("ALTER SEQUENCE IF EXISTS t_id_seq RESTART WITH 51; DROP SEQUENCE IF EXISTS t_id_seq");
    client.refusal("INSERT INTO t DEFAULT VALUES").is("23505");
    let fix: String = client.one("SELECT fix FROM hilo_check() WHERE fix IS NOT NULL");
    client.run(&fix);
    assert_eq!(insert(&mut client), 51);
    client.run("CREATE SEQUENCE IF NOT EXISTS t_id_seq");
    assert!(client.one::<bool>(
        "SELECT EXISTS (SELECT FROM hilo_check() WHERE what LIKE 'sequence public.t_id_seq of Postgres lives on%')"
    ));
    cluster.finish();
}
