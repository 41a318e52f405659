//! A transaction that has defined a sequence draws from it before its commit.

use std::env::var_os;
use std::fs;
use std::process::Command;

use hilo_tests::{Client, ClientExt, Cluster, assert_unique, run};

/// A migration creates a sequence, a table that defaults to it and a million rows in one
/// transaction. No number is missing, and the next transaction continues after them.
#[test]
fn a_migration_creates_and_fills_in_one_transaction() {
    let cluster = Cluster::with_hilo();
    let mut client = cluster.connect("postgres");
    client.run(
        "BEGIN;
         SELECT hilo_create('orders');
         CREATE TABLE orders (id bigint PRIMARY KEY DEFAULT hilo_nextval('orders'), n integer);
         INSERT INTO orders (n) SELECT n FROM generate_series(1, 1000000) n;
         COMMIT",
    );
    assert_eq!(
        client.one::<String>("SELECT concat_ws(' ', count(*), min(id), max(id)) FROM orders"),
        "1000000 1 1000000"
    );
    let mut other = cluster.connect("postgres");
    assert_eq!(other.one::<i64>("SELECT hilo_nextval('orders')"), 1_000_001);
    cluster.finish();
}

/// The same rolled back leaves nothing: neither the sequence nor its numbers.
#[test]
fn a_migration_rolled_back_leaves_nothing() {
    let cluster = Cluster::with_hilo();
    let mut client = cluster.connect("postgres");
    client.run("BEGIN; SELECT hilo_create('orders')");
    assert_eq!(client.draw("orders", 1_000), (1..=1_000).collect::<Vec<_>>());
    client.run("ROLLBACK");
    client.refusal("SELECT hilo_nextval('orders')").is("42704");
    client.refusal("SELECT hilo_currval('orders')").is("42704");
    client.run("SELECT hilo_create('orders', start_value => 5)");
    assert_eq!(client.draw("orders", 2), [5, 6]);
    assert_eq!(cluster.connect("postgres").draw("orders", 1).len(), 1);
}

/// A savepoint that is rolled back takes definitions back, but no value that was served.
#[test]
fn savepoints_take_back_definitions_and_no_values() {
    let cluster = Cluster::with_hilo();
    let mut client = cluster.connect("postgres");
    client.run("BEGIN; SELECT hilo_create('kept'); SAVEPOINT one");
    assert_eq!(client.draw("kept", 3), [1, 2, 3]);
    client.run("SELECT hilo_create('gone')");
    assert_eq!(client.draw("gone", 2), [1, 2]);
    client.run("ROLLBACK TO one");
    assert!(client.draw("kept", 1)[0] > 3);
    client.run("SAVEPOINT two");
    client.refusal("SELECT hilo_nextval('gone')").is("42704");
    client.run("ROLLBACK TO two; SELECT hilo_create('gone', start_value => 70)");
    assert_eq!(client.draw("gone", 2), [70, 71]);
    client.run("RELEASE one");
    let last = client.draw("kept", 1_000)[999];
    client.run("COMMIT");

    let mut other = cluster.connect("postgres");
    assert!(other.draw("kept", 1)[0] > last);
    assert_eq!(other.draw("gone", 1), [72]);
}

/// Values that a transaction has drawn from a sequence of its own count when it alters that. They
/// do so under savepoints too, and when these are rolled back.
#[test]
fn altering_ones_own_continues_after_what_was_drawn() {
    let cluster = Cluster::with_hilo();
    let mut client = cluster.connect("postgres");
    client.run("BEGIN; SELECT hilo_create('own')");
    assert_eq!(client.draw("own", 3), [1, 2, 3]);
    client.run("SELECT hilo_alter('own', increment => 10)");
    assert_eq!(client.draw("own", 2), [13, 23]);
    client.run("SAVEPOINT one; SELECT hilo_alter('own', increment => 100)");
    assert_eq!(client.draw("own", 2), [123, 223]);
    client.run("ROLLBACK TO one");
    assert!(client.draw("own", 1)[0] > 223);
    client.run("SELECT hilo_alter('own', increment => 1)");
    let last = client.draw("own", 2)[1];
    assert!(last > 233, "{last}");
    client.run("COMMIT");
    assert_eq!(cluster.connect("postgres").draw("own", 1), [last + 1]);
    cluster.finish();
}

/// Many savepoints, kept and rolled back at random depths, with values drawn all the time.
#[test]
fn nested_savepoints_never_repeat_a_value() {
    let cluster = Cluster::with_hilo();
    let mut client = cluster.connect("postgres");
    let mut rng = fastrand::Rng::with_seed(6);
    client.run("SELECT hilo_create('outside'); BEGIN; SELECT hilo_create('inside')");
    client.run("SELECT hilo_alter('inside', increment => 2)");
    client.run("SELECT hilo_alter('outside', max_value => 1000000)");
    let (mut inside, mut outside) = (Vec::new(), Vec::new());
    let mut depth = 0;
    for _ in 0..300 {
        match rng.u8(0..4) {
            0 => {
                depth += 1;
                client.run(&format!("SAVEPOINT s{depth}"));
            }
            1 if depth > 0 => {
                client.run(&format!("ROLLBACK TO s{depth}; RELEASE s{depth}"));
                depth -= 1;
            }
            2 if depth > 0 => {
                client.run(&format!("RELEASE s{depth}"));
                depth -= 1;
            }
            _ => {
                let count = rng.usize(1..40);
                inside.extend(client.draw("inside", count));
                outside.extend(client.draw("outside", count));
            }
        }
    }
    client.run("COMMIT");
    inside.extend(client.draw("inside", 10));
    outside.extend(client.draw("outside", 10));
    for values in [inside, outside] {
        assert!(values.windows(2).all(|pair| pair[0] < pair[1]), "{values:?}");
    }
}

/// setval and alter take effect at once for their own transaction, and with its commit for
/// everybody else. They have no effect when they are rolled back.
#[test]
fn changes_are_transactional() {
    let cluster = Cluster::with_hilo();
    let mut client = cluster.connect("postgres");
    let mut other = cluster.connect("postgres");
    client.run("SELECT hilo_create('changed', ordered => true)");
    assert_eq!(client.draw("changed", 2), [1, 2]);
    assert_eq!(other.draw("changed", 1), [3]);

    client.run("BEGIN; SELECT hilo_setval('changed', 1000)");
    assert_eq!(client.draw("changed", 2), [1001, 1002]);
    client.run("ROLLBACK");
    assert_eq!(other.draw("changed", 1), [4]);
    assert_eq!(client.draw("changed", 1), [5]);

    client.run("BEGIN; SELECT hilo_setval('changed', 1000)");
    client.run("SELECT hilo_alter('changed', increment => 10)");
    assert_eq!(client.draw("changed", 2), [1010, 1020]);
    client.run("COMMIT");
    assert_eq!(other.draw("changed", 1), [1030]);
    assert_eq!(client.draw("changed", 1), [1040]);
}

/// PREPARE TRANSACTION is refused after a definition that this session's memory has a part of, and
/// not after another one. After mere serving it is not, and the values of the prepared transaction
/// stay used whatever becomes of it.
#[test]
fn a_transaction_that_defined_cannot_be_prepared() {
    let cluster = Cluster::builder().config("max_prepared_transactions", "5").start_with_hilo();
    let mut client = cluster.connect("postgres");
    client.run("SELECT hilo_create('there')");
    for change in [
        "SELECT hilo_create('new')",
        "SELECT hilo_setval('there', 100)",
        "SELECT hilo_alter('there', increment => 5)",
    ] {
        client.run(&format!("BEGIN; {change}"));
        client.refusal("PREPARE TRANSACTION 'refused'").is("0A000").helps();
        client.run("ROLLBACK");
    }
    for change in ["hilo_rename('there', 'elsewhere')", "hilo_drop('there')"] {
        client.run(&format!("BEGIN; SELECT {change}; PREPARE TRANSACTION 'changed'"));
        client.run("ROLLBACK PREPARED 'changed'");
    }
    for change in ["hilo_rename('there', 'renamed')", "hilo_rename('renamed', 'there')"] {
        client.run(&format!("BEGIN; SELECT {change}; PREPARE TRANSACTION 'changed'"));
        client.run("COMMIT PREPARED 'changed'");
    }
    client.refusal("SELECT hilo_nextval('renamed')").is("42704");
    client.run("BEGIN");
    let used = client.draw("there", 3);
    client.run("PREPARE TRANSACTION 'served'");
    let next = client.draw("there", 1)[0];
    client.run("ROLLBACK PREPARED 'served'");
    assert!(next > used[2]);
    assert!(client.draw("there", 1)[0] > next);
}

/// No other session sees a sequence, or what was set, before the commit; all do right after it.
#[test]
fn commits_are_seen_by_every_session_at_once() {
    let cluster = Cluster::with_hilo();
    let mut client = cluster.connect("postgres");
    let mut others: Vec<Client> = (0..4).map(|_| cluster.connect("postgres")).collect();
    client.run("BEGIN; SELECT hilo_create('new')");
    for other in &mut others {
        other.refusal("SELECT hilo_nextval('new')").is("42704");
    }
    client.run("COMMIT");
    for round in 1..=3 {
        for other in &mut others {
            other.draw("new", 5);
        }
        let floor = round * 1_000_000;
        client.run(&format!("SELECT hilo_setval('new', {floor})"));
        for other in &mut others {
            assert!(other.draw("new", 1)[0] > floor);
        }
    }
    client.run("SELECT hilo_drop('new')");
    for other in &mut others {
        other.refusal("SELECT hilo_nextval('new')").is("42704");
    }
}

/// Whatever a transaction alters of a sequence that it has created, and whatever of that it rolls back to a
/// savepoint: no value comes twice.
#[test]
fn alterations_of_ones_own_rolled_back_one_after_the_other() {
    let cluster = Cluster::with_hilo();
    let mut client = cluster.connect("postgres");
    client.run("BEGIN; SELECT hilo_create('grid', increment => 10)");
    let mut seen: Vec<i64> = client.all("SELECT hilo_nextvals('grid', 3)");
    for round in 0..6 {
        let increment = [1, 3, 7][round % 3];
        client.run(&format!("SAVEPOINT a; SELECT hilo_alter('grid', increment => {increment})"));
        seen.extend(client.all::<i64>("SELECT hilo_nextvals('grid', 4)"));
        client.run("SAVEPOINT deep; SELECT hilo_alter('grid', increment => 2)");
        seen.extend(client.all::<i64>("SELECT hilo_nextvals('grid', 2)"));
        client.run("ROLLBACK TO deep; SELECT hilo_alter('grid', increment => 2)");
        seen.extend(client.all::<i64>("SELECT hilo_nextvals('grid', 2)"));
        client.run("ROLLBACK TO deep");
        seen.extend(client.all::<i64>("SELECT hilo_nextvals('grid', 2)"));
        client.run("ROLLBACK TO a");
        if round % 2 == 0 {
            seen.extend(client.all::<i64>("SELECT hilo_nextvals('grid', 2)"));
        }
    }
    client.run("COMMIT; SELECT hilo_alter('grid', increment => 1)");
    seen.extend(client.all::<i64>("SELECT hilo_nextvals('grid', 5)"));
    assert_unique("grid", &seen);
}

/// A sequence that cycles is served on after an alteration that was rolled back.
#[test]
fn a_cycle_is_served_on_after_a_rollback() {
    let cluster = Cluster::with_hilo();
    let mut client = cluster.connect("postgres");
    client.run("SELECT hilo_create('round', max_value => 5, cycle => true), hilo_nextval('round')");
    client.run("BEGIN; SELECT hilo_alter('round', increment => 2)");
    client.refusal("SELECT hilo_nextval('round')").is("55000").helps();
    client.run("ROLLBACK");
    let rest: Vec<i64> = client.all("SELECT hilo_nextvals('round', 6)");
    assert!(rest.iter().all(|value| (1..=5).contains(value)), "{rest:?}");
    assert!(rest.contains(&5) && rest.contains(&1), "{rest:?}");
}

/// A library that runs the SQL of a setting in its callback before each commit. Loaded before hilo,
/// it is called after hilo.
const LATE: &str = r#"
#include "postgres.h"
#include "access/xact.h"
#include "executor/spi.h"
#include "fmgr.h"
#include "utils/guc.h"
#include "utils/snapmgr.h"

PG_MODULE_MAGIC;
void _PG_init(void);

static void late(XactEvent event, void *arg)
{
    const char *sql = NULL;

    if (event == XACT_EVENT_PRE_COMMIT)
        sql = GetConfigOption("late.sql", true, false);
    if (sql == NULL || *sql == '\0')
        return;
    PushActiveSnapshot(GetTransactionSnapshot());
    SPI_connect();
    SPI_execute(sql, false, 0);
    SPI_finish();
    PopActiveSnapshot();
}

void _PG_init(void)
{
    RegisterXactCallback(late, NULL);
}
"#;

/// Once a transaction has written down how far it has served, nothing is left of what it has
/// defined. Another library's callback that draws from it then is refused.
#[test]
fn a_callback_that_comes_later_draws_nothing() {
    let Some(pg_config) = var_os("PGRX_PG_CONFIG_PATH").filter(|_| var_os("HILO_LOAD").is_none())
    else {
        println!("skipped: there are no headers, or sessions load hilo");
        return;
    };
    let cluster = Cluster::builder().preload(true).start();
    let (source, library) = (cluster.file("late.c"), cluster.file("late.so"));
    fs::write(&source, LATE).expect("cannot write the source");
    let headers = run(Command::new(pg_config).arg("--includedir-server"));
    let mut compiler = Command::new("cc");
    compiler.args(["-shared", "-fPIC", "-I", headers.trim(), "-o"]).arg(&library).arg(&source);
    run(&mut compiler);
    cluster.configure("shared_preload_libraries", &format!("{},hilo", library.display()));
    cluster.restart();
    let mut client = cluster.connect("postgres");
    client
        .run("CREATE EXTENSION hilo; CREATE TABLE drawn (id bigint); SELECT hilo_create('other')");
    let draw = "INSERT INTO drawn SELECT hilo_nextval(''s'')";
    for defined in ["", "SELECT hilo_nextval('s')", "SELECT hilo_alter('s', increment => 2)"] {
        client.run(&format!("BEGIN; SELECT hilo_create('s'); {defined}"));
        client.run(&format!("SET LOCAL late.sql = '{draw}'"));
        client.refusal("COMMIT").is("2200H");
        client.refusal("SELECT hilo_nextval('s')").is("42704");
    }
    // A sequence that the transaction has not defined is drawn from as ever.
    let draw = draw.replace("''s''", "''other''");
    client.run(&format!("BEGIN; SELECT hilo_create('s'); SET LOCAL late.sql = '{draw}'; COMMIT"));
    let mut drawn = client.all::<i64>("SELECT id FROM drawn");
    assert_eq!(drawn.len(), 1);
    drawn.extend(client.draw("other", 10));
    assert_unique("other", &drawn);
    cluster.finish();
}
