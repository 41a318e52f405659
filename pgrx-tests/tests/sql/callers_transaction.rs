//! An error in a call leaves the caller's transaction as an error in any of core's statements does.
//! It is undone to where the error occurred, and nothing else is.

use hilo_tests::{Client, ClientExt, Cluster, LONG, wait_until};

/// Waits until `pid` waits for a lock, and cancels it.
fn cancel_when_waiting(cluster: &Cluster, pid: i32) -> std::thread::JoinHandle<()> {
    let mut admin = cluster.connect("postgres");
    std::thread::spawn(move || {
        let waits =
            format!("SELECT wait_event_type = 'Lock' FROM pg_stat_activity WHERE pid = {pid}");
        wait_until("the call waits for the lock", LONG, || {
            admin.one::<Option<bool>>(&waits) == Some(true)
        });
        admin.run(&format!("SELECT pg_cancel_backend({pid})"));
    })
}

/// The session is out of any transaction, and what it commits is there.
fn is_sound(session: &mut Client, admin: &mut Client, what: &str) {
    admin.run("TRUNCATE kept");
    session.run("INSERT INTO kept VALUES (1)");
    session.run("BEGIN; INSERT INTO kept VALUES (2); COMMIT");
    session.run("BEGIN; INSERT INTO kept VALUES (3); ROLLBACK");
    assert_eq!(admin.all::<i32>("SELECT n FROM kept ORDER BY n"), [1, 2], "{what}");
}

/// hilo_create(if_not_exists) waits for another's name: whatever ends the wait ends the statement alone.
#[test]
fn a_wait_for_a_name_that_is_being_created() {
    let cluster = Cluster::with_hilo();
    let mut admin = cluster.connect("postgres");
    admin.run("CREATE TABLE kept (n integer)");
    let mut other = cluster.connect("postgres");
    other.run("BEGIN; SELECT hilo_create('taken')");
    let create = "SELECT hilo_create('taken', if_not_exists => true)";
    let caught = "DO $$ BEGIN
            INSERT INTO kept VALUES (4);
            PERFORM hilo_create('taken', if_not_exists => true);
        EXCEPTION WHEN lock_not_available OR query_canceled THEN NULL; END $$";
    for (setting, sqlstate) in
        [("SET lock_timeout = '200ms'", "55P03"), ("SET statement_timeout = '200ms'", "57014")]
    {
        let mut session = cluster.connect("postgres");
        session.run(setting);
        session.refusal(create).is(sqlstate);
        is_sound(&mut session, &mut admin, setting);
        session.run("BEGIN; INSERT INTO kept VALUES (5)");
        session.refusal(create).is(sqlstate);
        session.refusal("SELECT 1").is("25P02");
        session.run("ROLLBACK");
        is_sound(&mut session, &mut admin, setting);
        session.run("BEGIN; INSERT INTO kept VALUES (6); SAVEPOINT here");
        session.refusal(create).is(sqlstate);
        session.run("ROLLBACK TO here; INSERT INTO kept VALUES (7); COMMIT");
        assert_eq!(admin.all::<i32>("SELECT n FROM kept WHERE n > 5 ORDER BY n"), [6, 7]);
        session.run(caught);
        is_sound(&mut session, &mut admin, setting);
        session.run(&format!("BEGIN; INSERT INTO kept VALUES (8); {caught}; COMMIT"));
        assert_eq!(admin.all::<i32>("SELECT n FROM kept WHERE n > 2"), [8], "{setting}");
    }
    let mut session = cluster.connect("postgres");
    for sql in [create, caught] {
        let canceller = cancel_when_waiting(&cluster, session.backend_pid());
        match sql == create {
            true => drop(session.refusal(sql).is("57014")),
            false => session.run(sql),
        }
        canceller.join().expect("it cancels");
        is_sound(&mut session, &mut admin, sql);
    }
    // The case that it was meant for: the other was first, and then it was not.
    let mut waiting = cluster.connect("postgres");
    let pid = waiting.backend_pid();
    let waiter = std::thread::spawn(move || {
        waiting.run("SELECT hilo_create('taken', if_not_exists => true)");
        waiting
    });
    let waits = format!("SELECT wait_event_type = 'Lock' FROM pg_stat_activity WHERE pid = {pid}");
    wait_until("the call waits for the lock", LONG, || {
        admin.one::<Option<bool>>(&waits) == Some(true)
    });
    other.run("COMMIT");
    let mut waiting = waiter.join().expect("it is told that the sequence exists");
    is_sound(&mut waiting, &mut admin, "the other was first");
    assert_eq!(waiting.one::<i64>("SELECT hilo_nextval('taken')"), 1);
    cluster.finish();
}

/// Errors that no wait has to do with: the row cannot be written.
#[test]
fn a_name_that_cannot_be_written() {
    let cluster = Cluster::with_hilo();
    let mut admin = cluster.connect("postgres");
    admin.run(
        "CREATE TABLE kept (n integer); ALTER TABLE _hilo.hilo_definition ADD COLUMN further integer",
    );
    let mut session = cluster.connect("postgres");
    for _ in 0..2 {
        session.refusal("SELECT hilo_create('new', if_not_exists => true)").is("55000");
        is_sound(&mut session, &mut admin, "a column too many");
    }
    admin.run("ALTER TABLE _hilo.hilo_definition DROP COLUMN further");
    session.run("SELECT hilo_create('new', if_not_exists => true)");
    cluster.finish();
}

/// hilo_check waits for no table, partition or index; what it can read it reads.
#[test]
fn tables_that_somebody_has_locked() {
    let cluster = Cluster::with_hilo();
    let mut admin = cluster.connect("postgres");
    admin.run(
        "CREATE TABLE kept (n integer); SELECT hilo_create('orders');
         CREATE TABLE parts (id bigint DEFAULT hilo_nextval('orders'), n integer) PARTITION BY LIST (n);
         CREATE TABLE part_1 (extra text, n integer, id bigint);
         ALTER TABLE part_1 DROP COLUMN extra; ALTER TABLE parts ATTACH PARTITION part_1 FOR VALUES IN (1);
         CREATE TABLE part_2 PARTITION OF parts FOR VALUES IN (2); ALTER TABLE part_2 ALTER id DROP DEFAULT;
         CREATE INDEX ON parts (id);
         INSERT INTO parts VALUES (1000000, 1), (2000000, 2);
         CREATE TABLE alone (id bigint PRIMARY KEY DEFAULT hilo_nextval('orders')); INSERT INTO alone VALUES (3000000)",
    );
    let find = "SELECT object || ' ' || substring(what FROM '\\d+') FROM hilo_check() WHERE object LIKE 'column%' ORDER BY 1";
    let (parts, less, alone) = (
        "column public.parts.id 2000000",
        "column public.parts.id 1000000",
        "column public.alone.id 3000000",
    );
    let mut locker = cluster.connect("postgres");
    let mut session = cluster.connect("postgres");
    session.run("SET lock_timeout = '10s'; SET statement_timeout = '30s'");
    for (lock, expected) in [
        ("SELECT 1", vec![alone, parts]),
        ("LOCK TABLE part_2", vec![alone, less]),
        ("LOCK TABLE part_1", vec![alone, parts]),
        ("LOCK TABLE parts", vec![alone]),
        ("LOCK TABLE alone", vec![parts]),
        ("ALTER INDEX alone_pkey RENAME TO alone_key", vec![alone, parts]),
        ("TRUNCATE part_2", vec![alone, less]),
        ("DROP INDEX parts_id_idx", vec![alone]),
    ] {
        locker.run(&format!("BEGIN; {lock}"));
        assert_eq!(session.all::<String>(find), expected, "{lock}");
        is_sound(&mut session, &mut admin, lock);
        locker.run("ROLLBACK");
    }
    assert_eq!(session.all::<String>(find), [alone, parts]);
    cluster.finish();
}
