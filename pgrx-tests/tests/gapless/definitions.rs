//! Definitions: created, altered, taken over and owned like other sequences.

use std::thread;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use hilo_tests::{Client, ClientExt, Cluster, LONG, wait_until};

use super::{INSERT, assert_gapless, assert_table, with_invoices};

/// An ordinary sequence becomes gapless behind all that was reserved: what other sessions hold of it is void, and
/// recorded.
#[test]
fn an_ordinary_sequence_becomes_gapless() {
    let cluster = Cluster::with_hilo();
    let mut client = cluster.connect("postgres");
    client.run("SELECT hilo_create('bills'); CREATE TABLE bills (id bigint UNIQUE DEFAULT hilo_nextval('bills'))");
    let draw = "INSERT INTO bills SELECT hilo_nextval('bills') FROM generate_series(1, 50)";
    let mut holders: Vec<_> = (0..3).map(|_| cluster.connect("postgres")).collect();
    holders.iter_mut().for_each(|holder| holder.run(draw));
    client.run("SELECT hilo_alter('bills', gapless => true)");
    let from: i64 = client.one("SELECT max_reserved + 1 FROM hilo_sequences WHERE name = 'bills'");
    for (round, holder) in holders.iter_mut().enumerate() {
        holder.run(
            "BEGIN; INSERT INTO bills DEFAULT VALUES; ROLLBACK; INSERT INTO bills DEFAULT VALUES",
        );
        assert_eq!(holder.one::<i64>("SELECT max(id) FROM bills"), from + round as i64);
    }
    // All that is missing lies before, and is explained.
    let missing =
        client.all::<String>("SELECT DISTINCT reason FROM hilo_find_gaps('bills', 'bills', 'id')");
    assert!(missing.iter().all(|reason| reason == "altered"), "{missing:?}");
    let recorded = "SELECT coalesce(sum(count), 0)::bigint FROM hilo_gaps WHERE name = 'bills'";
    assert_eq!(client.one::<i64>(recorded), from - 1 - 150);
    // Its slot goes: nothing of it stays in memory.
    client.run("SELECT hilo_create('other'); SELECT hilo_nextval('other')");
    assert_eq!(client.one::<i64>("SELECT count(*) FROM hilo_blocks WHERE name = 'bills'"), 0);
    // And back, at its next number.
    client.run("SELECT hilo_alter('bills', gapless => false)");
    assert_eq!(client.one::<i64>("SELECT hilo_nextval('bills')"), from + 3);
    holders[0].run("INSERT INTO bills SELECT hilo_nextval('bills') FROM generate_series(1, 50)");
    assert!(client.one::<bool>("SELECT count(*) > 0 FROM hilo_blocks WHERE name = 'bills'"));
    cluster.finish();
}

/// The transaction that makes an ordinary sequence gapless draws nothing from it: a rollback brings back an ordinary
/// sequence, which serves no value twice.
#[test]
fn its_transaction_does_not_draw() {
    let cluster = Cluster::with_hilo();
    let mut client = cluster.connect("postgres");
    client.run("SELECT hilo_create('bills'); SELECT hilo_nextval('bills')");
    for draw in ["hilo_nextval('bills')", "hilo_nextvals('bills', 2)", "hilo_nextrange('bills', 2)"]
    {
        client.run("BEGIN; SELECT hilo_alter('bills', gapless => true)");
        let refusal = client.refusal(&format!("SELECT {draw}"));
        refusal.is("55000").says("gapless").hints("restart_with");
        client.run("ROLLBACK");
    }
    assert_eq!(client.one::<i64>("SELECT hilo_nextval('bills')"), 2);
    // Nor of one that it has created itself, since a savepoint can be rolled back.
    client.run(
        "BEGIN; SELECT hilo_create('own'); SELECT hilo_nextval('own');
         SAVEPOINT a; SELECT hilo_alter('own', gapless => true)",
    );
    client.refusal("SELECT hilo_nextval('own')").is("55000");
    client.run("ROLLBACK TO a");
    assert_eq!(client.one::<i64>("SELECT hilo_nextval('own')"), 2);
    client.run("COMMIT");
    // One that was gapless before draws on, whatever else is altered, and becomes no ordinary one meanwhile.
    client.run("SELECT hilo_alter('bills', gapless => true)");
    client.run("BEGIN; SELECT hilo_alter('bills', max_value => 1000)");
    let next: i64 = client.one("SELECT hilo_nextval('bills')");
    client.run("SELECT hilo_alter('bills', gapless => false)");
    client.refusal("SELECT hilo_nextval('bills')").is("55000");
    client.run("ROLLBACK");
    assert_eq!(client.one::<i64>("SELECT hilo_nextval('bills')"), next);
    cluster.finish();
}

#[test]
fn a_restart_makes_a_sequence_gapless_from_there() {
    let cluster = Cluster::with_hilo();
    let mut client = cluster.connect("postgres");
    client.run(
        "SELECT hilo_create('bills'); SELECT hilo_nextval('bills') FROM generate_series(1, 10);
         CREATE TABLE bills (id bigint UNIQUE DEFAULT hilo_nextval('bills'));
         BEGIN; SELECT hilo_alter('bills', gapless => true, restart_with => 1); INSERT INTO bills DEFAULT VALUES;
         SAVEPOINT a; INSERT INTO bills DEFAULT VALUES; ROLLBACK TO a; INSERT INTO bills DEFAULT VALUES; COMMIT",
    );
    assert_table(&mut client, "bills", 2);
    cluster.finish();
}

/// Sessions that draw all the time while the sequence changes its kind: none fails, and no value comes twice.
#[test]
fn sessions_draw_while_it_changes_its_kind() {
    let cluster = with_invoices();
    let stop = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let mut client = cluster.connect("postgres");
                while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                    client.run(INSERT);
                }
            });
        }
        let mut client = cluster.connect("postgres");
        for round in 0..10 {
            let before = super::count(&mut client);
            wait_until("the sessions draw", LONG, || super::count(&mut client) > before + 20);
            client.run(&format!("SELECT hilo_alter('invoices', gapless => {})", round % 2 == 1));
        }
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
    });
    let mut client = cluster.connect("postgres");
    let unexplained = "SELECT count(*) FROM hilo_find_gaps('invoices', 'invoices', 'id') WHERE reason <> 'altered'";
    assert_eq!(client.one::<i64>(unexplained), 0);
    cluster.finish();
}

#[test]
fn alterations_go_on_at_the_next_number() {
    let cluster = with_invoices();
    let mut client = cluster.connect("postgres");
    client.run(&format!("{INSERT}; {INSERT}"));
    for change in [
        "max_value => 5000",
        "min_value => 0",
        "data_type => 'integer'",
        "key_format => 'R-{value:06}'",
        "ordered => true",
        "ordered => false",
        "start_value => 2",
        "owned_by => 'invoices.id'",
        "gapless => true",
    ] {
        let at = super::count(&mut client);
        client.run(&format!("SELECT hilo_alter('invoices', {change})"));
        client.run(&format!("BEGIN; {INSERT}; ROLLBACK; {INSERT}"));
        assert_eq!(client.one::<i64>("SELECT max(id) FROM invoices"), at + 1, "{change}");
        client.run(&format!(
            "BEGIN; SELECT hilo_alter('invoices', {change}); {INSERT}; COMMIT; {INSERT}"
        ));
        assert_eq!(
            client.one::<i64>("SELECT max(id) FROM invoices"),
            at + 3,
            "{change} in one transaction"
        );
    }
    client
        .refusal("SELECT hilo_alter('invoices', max_value => 3)")
        .is("22023")
        .says("current value");
    assert_eq!(
        client.one::<String>("SELECT hilo_nextkey('invoices')"),
        format!("R-{:06}", super::count(&mut client) + 1)
    );
    cluster.finish();
}

/// setval is transactional here too, and tells what may come again.
#[test]
fn setval_forward_and_back() {
    let cluster = with_invoices();
    let (mut client, heard) = cluster.connect_listening("postgres", "postgres");
    client.run(&format!("{INSERT}; {INSERT}; {INSERT}"));
    heard.take();
    client.run("BEGIN; SELECT hilo_setval('invoices', 1)");
    assert_eq!(
        heard.messages(),
        ["values from 2 to 3 of hilo sequence \"invoices\" may be served again"]
    );
    let mut other = cluster.connect("postgres");
    other.run("SET lock_timeout = '100ms'");
    other.refusal(INSERT).is("55P03");
    client.run("ROLLBACK");
    other.run(INSERT);
    client.run("DELETE FROM invoices WHERE id > 2; SELECT hilo_setval('invoices', 2)");
    other.run(INSERT);
    assert_gapless(&mut client, 3);
    client.run("SELECT hilo_setval('invoices', 10)");
    other.run(INSERT);
    let missing = "SELECT string_agg(first || '-' || last || ' ' || reason, ',') FROM hilo_find_gaps('invoices', 'invoices', 'id')";
    assert!(
        client.one::<Option<String>>(missing).is_none()
            || client.one::<String>(missing).contains("4-10")
    );
    client.run("DELETE FROM invoices WHERE id > 3; SELECT hilo_sync('invoices', 'invoices', 'id')");
    assert_eq!(client.one::<i64>("SELECT hilo_nextval('invoices')"), 12, "sync never goes back");
    cluster.finish();
}

/// Owned by a column: dropped with it, restarted with its table.
#[test]
fn a_column_can_own_it() {
    let cluster = Cluster::with_hilo();
    let mut client = cluster.connect("postgres");
    client.run("CREATE TABLE bills (id bigint UNIQUE)");
    client.run("SELECT hilo_create('bills', gapless => true, owned_by => 'bills.id'); ALTER TABLE bills ALTER id SET DEFAULT hilo_nextval('bills')");
    let insert = "INSERT INTO bills DEFAULT VALUES";
    client.run(&format!("{insert}; {insert}; TRUNCATE bills RESTART IDENTITY; {insert}"));
    assert_table(&mut client, "bills", 1);
    client.run(&format!(
        "BEGIN; {insert}; TRUNCATE bills RESTART IDENTITY; {insert}; {insert}; ROLLBACK; {insert}"
    ));
    assert_table(&mut client, "bills", 2);
    client.run(&format!("BEGIN; {insert}; DROP TABLE bills; COMMIT"));
    assert_eq!(client.one::<i64>("SELECT count(*) FROM hilo_sequences"), 0);
    cluster.finish();
}

/// Nothing warns of a missing pool, and nothing shows one.
#[test]
fn the_views_show_it_as_it_is() {
    let cluster = with_invoices();
    let mut client = cluster.connect("postgres");
    client.run(&format!("{INSERT}; {INSERT}"));
    for view in ["hilo_stat_sequences", "hilo_stat_backends", "hilo_blocks", "hilo_gaps"] {
        assert_eq!(client.one::<i64>(&format!("SELECT count(*) FROM {view}")), 0, "{view}");
    }
    assert_eq!(
        client.all::<String>(
            "SELECT object || what FROM hilo_check() WHERE object NOT LIKE 'setting %'"
        ),
        [""; 0]
    );
    client.run("SELECT hilo_release('invoices', 'id')");
    assert_eq!(client.one::<i64>("INSERT INTO invoices DEFAULT VALUES RETURNING id"), 3);
    cluster.finish();
}

/// The worker finds that this node has no position of a sequence. Until it makes one, another session begins a numbering
/// there, which is gapless: the worker reserves nothing of it.
#[test]
fn a_sequence_becomes_gapless_while_the_worker_joins() {
    let cluster = Cluster::builder().node(1, 2).start_with_hilo();
    let mut client = cluster.connect("postgres");
    client.run(
        "SET hilo.on_every_node = on; SELECT hilo_create('other'), hilo_create('first'), hilo_create('bills')",
    );
    drop(client);
    cluster.configure("hilo.node_id", "0");
    cluster.configure("hilo.node_count", "1");
    cluster.restart();
    let mut client = cluster.connect("postgres");
    client.draw("other", 1);
    let mut holder = cluster.connect("postgres");
    holder.meddle(
        "BEGIN; INSERT INTO _hilo.hilo_position SELECT (jsonb_populate_record(p, '{\"node\": 0}')).*
         FROM _hilo.hilo_position p WHERE sequence = (SELECT id FROM _hilo.hilo_definition WHERE name = 'first')",
    );
    let mut users = ["first", "bills"].map(|name| (name, cluster.connect("postgres")));
    let worker = cluster.wait_for_worker("postgres");
    kill(Pid::from_raw(worker), Signal::SIGSTOP).expect("the worker runs");
    let waits_for = |client: &mut Client, pid: i32, what: &str| {
        client.one::<bool>(&format!(
            "SELECT coalesce(wait_event IN ({what}), false) FROM pg_stat_activity WHERE pid = {pid}"
        ))
    };
    thread::scope(|scope| {
        for (name, user) in &mut users {
            let pid = user.backend_pid();
            scope.spawn(move || user.draw(name, 1));
            wait_until("it waits", LONG, || {
                waits_for(&mut client, pid, "'Extension', 'HiloBlock'")
            });
        }
        kill(Pid::from_raw(worker), Signal::SIGCONT).expect("the worker stands");
        wait_until("the worker waits", LONG, || waits_for(&mut client, worker, "'transactionid'"));
        client.run(
            "SET hilo.on_every_node = on; SELECT hilo_alter('bills', gapless => true, restart_with => 1)",
        );
        holder.run("ROLLBACK");
    });
    assert_eq!(client.draw("bills", 1), [2]);
    assert_eq!(client.one::<i64>("SELECT count(*) FROM hilo_blocks WHERE name = 'bills'"), 0);
    cluster.finish();
}
