//! A lease belongs to the server that made it: what a dump or replication takes elsewhere is not served there.

use std::io::Write;
use std::process::Stdio;

use hilo_tests::{ClientExt, Cluster, LONG, assert_unique, wait_until};

use super::{gap, gaps, give_back, lease, wait_until_back, wait_until_filed};

/// Runs a dump in the database `copy`, and returns what psql complains about.
fn restore(cluster: &Cluster, dump: &str, on_error: &str) -> String {
    let mut psql = cluster.tool("psql", "copy");
    let mut psql = psql
        .args(["-X", "-q", "-v", on_error])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("psql runs");
    psql.stdin.take().unwrap().write_all(dump.as_bytes()).expect("psql reads");
    let output = psql.wait_with_output().expect("psql ends");
    let complaints = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{complaints}");
    complaints
}

/// A restored lease is shown, and can be ended, but nothing of it is served again. The dumped
/// server may have taken it back and served it since.
#[test]
fn a_restored_lease_comes_back_as_a_gap() {
    let cluster = Cluster::with_hilo();
    cluster.connect("postgres").run("CREATE DATABASE shop");
    cluster.connect("postgres").run("CREATE DATABASE copy");
    let mut shop = cluster.connect("shop");
    shop.run("CREATE EXTENSION hilo; SELECT hilo_create('s')");
    let [back, open, used] = [(); 3].map(|()| lease(&mut shop, "'s', 10, 'app', '1 hour'"));
    let revoked = lease(&mut shop, "'s', 10");
    shop.run("SELECT hilo_nextval('s')");
    let dump = cluster.pg_dump("shop", &[]);
    let rows = cluster.pg_dump("shop", &["--data-only", "--table=_hilo.hilo_lease"]);
    assert_eq!(give_back(&mut shop, &back, 4), 7);
    assert_eq!(give_back(&mut shop, &used, used.last + 1), 0);
    restore(&cluster, &dump, "ON_ERROR_STOP=1");
    let mut copy = cluster.connect("copy");
    let shown = "SELECT string_agg(concat_ws(' ', first, last, holder), ', ' ORDER BY first) FROM hilo_leases";
    assert_eq!(copy.one::<String>(shown), "1 10 app, 11 20 app, 21 30 app, 31 40");
    assert_eq!(give_back(&mut copy, &back, 4), 0);
    assert_eq!(give_back(&mut copy, &used, used.last + 1), 0);
    copy.run(&format!("SELECT hilo_lease_revoke('{}')", revoked.token));
    let next = copy.draw("s", 500);
    assert!(next.iter().all(|value| *value > 41), "{next:?}");
    wait_until_filed(&mut copy);
    let known = gaps(&mut copy, "s");
    assert_eq!(known[..2], [gap(4, 10, "restored"), gap(31, 40, "revoked")], "{known:?}");
    assert_eq!(copy.one::<i64>("SELECT count(*) FROM hilo_leases"), 1);
    // Leases that the copy makes itself are its own.
    let own = lease(&mut copy, "'s', 10");
    assert_eq!(give_back(&mut copy, &own, own.first + 1), 9);
    wait_until_back(&mut copy, own.first + 1);
    assert_eq!(cluster.connect("copy").draw("s", 9), own.values()[1..]);
    assert_eq!(give_back(&mut shop, &open, 15), 6);
    // Rows of a sequence that is in use are refused.
    let again = restore(&cluster, &rows, "ON_ERROR_STOP=0");
    assert!(again.contains("is in use and cannot be restored"), "{again}");
    cluster.finish();
}

/// pg_restore brings the leases before the sequences. A worker that is there in between leaves them
/// alone.
#[test]
fn a_lease_that_is_restored_before_its_sequence_is_filed_after_it() {
    let cluster = Cluster::with_hilo();
    cluster.connect("postgres").run("CREATE DATABASE shop");
    cluster.connect("postgres").run("CREATE DATABASE copy");
    let mut shop = cluster.connect("shop");
    shop.run("CREATE EXTENSION hilo; SELECT hilo_create('s')");
    let expired = lease(&mut shop, "'s', 10, 'app', '1 hour'");
    let leases = cluster.pg_dump("shop", &["--data-only", "--table=_hilo.hilo_lease"]);
    let tables = ["--data-only", "--table=_hilo.hilo_definition", "--table=_hilo.hilo_position"];
    let sequences = cluster.pg_dump("shop", &tables);
    let mut copy = cluster.connect("copy");
    copy.run("CREATE EXTENSION hilo; SELECT hilo_create('other')");
    restore(&cluster, &leases, "ON_ERROR_STOP=1");
    // In the copy it is due.
    copy.meddle(
        "UPDATE _hilo.hilo_lease SET expires_at = now() - interval '1 hour', due_at = now() - interval '1 hour'",
    );
    lease(&mut copy, "'other', 5, 'app', '1ms'");
    wait_until("the worker has filed what it can", LONG, || {
        gaps(&mut copy, "other") == [gap(1, 5, "expired")]
            && copy.one::<i64>("SELECT count(*) FROM _hilo.hilo_gap") == 1
    });
    restore(&cluster, &sequences, "ON_ERROR_STOP=1");
    wait_until_filed(&mut copy);
    assert_eq!(gaps(&mut copy, "s")[0], gap(expired.first, expired.last, "expired"));
    cluster.finish();
}

/// Logical replication brings no leases, by the first copy or later. A replica that takes over serves nothing that was
/// leased, and ends no lease of the server that it replaces.
#[test]
fn a_replica_keeps_leases_out() {
    let start = || Cluster::builder().logical().start_with_hilo();
    let (publisher, replica) = (start(), start());
    let mut there = publisher.connect("postgres");
    there.run("SELECT hilo_create('s'); CREATE PUBLICATION own FOR ALL TABLES");
    let first = lease(&mut there, "'s', 100");
    replica.subscribe("own", &publisher, "own", "");
    let second = lease(&mut there, "'s', 100, ttl => '1 hour'");
    let third = lease(&mut there, "'s', 100");
    there.run(&format!("SELECT hilo_lease_renew('{}', '2 hours')", second.token));
    assert_eq!(give_back(&mut there, &third, third.first + 10), 90);
    wait_until_filed(&mut there);
    let seen = there.draw("s", 100);
    publisher.wait_for_apply("own");
    let mut here = replica.connect("postgres");
    assert_eq!(here.one::<i64>("SELECT count(*) FROM _hilo.hilo_lease"), 0);
    here.run("ALTER SUBSCRIPTION own DISABLE");
    publisher.kill9_postmaster();
    let next = here.draw("s", 3000);
    assert_unique(
        "s",
        &[seen, first.values(), second.values(), third.first_values(10), next].concat(),
    );
    here.refusal(&format!("SELECT hilo_lease_return('{}')", first.token)).is("42704").helps();
    let own = lease(&mut here, "'s', 10");
    assert_eq!(give_back(&mut here, &own, own.first), 10);
    replica.finish();
}

/// A server becomes another node, and a second server takes its former place. The leases that the first one made end
/// there, and leave alone what the second one serves from.
#[test]
fn leases_of_a_former_node_leave_its_successor_alone() {
    let start = || Cluster::builder().logical().own_identity().node(0, 3).start_with_hilo();
    let (first, second) = (start(), start());
    let mut here = first.connect("postgres");
    here.run(
        "SELECT hilo_create('s'); CREATE PUBLICATION old FOR TABLE _hilo.hilo_definition, _hilo.hilo_position",
    );
    let [back, late] = [(); 2].map(|()| lease(&mut here, "'s', 10, ttl => '1 hour'"));
    second.subscribe("old", &first, "old", "");
    let mut there = second.connect("postgres");
    there.run("DROP SUBSCRIPTION old");
    first.configure("hilo.node_id", "2");
    first.reload();
    wait_until("it is another node", LONG, || here.one::<String>("SHOW hilo.node_id") == "2");
    let mut seen = here.draw("s", 100);
    seen.extend(there.draw("s", 100));
    there.run("CREATE PUBLICATION new FOR TABLE _hilo.hilo_position");
    first.subscribe("new", &second, "new", "");
    let row = "SELECT concat_ws(' ', epoch, next_index, settled_index, incarnation, system_id)
                 FROM _hilo.hilo_position WHERE node = 0";
    assert_eq!(here.one::<String>(row), there.one::<String>(row));
    assert_eq!(give_back(&mut here, &back, back.first + 4), 0);
    here.run(&format!("SELECT hilo_lease_renew('{}', '1ms')", late.token));
    wait_until_filed(&mut here);
    assert_eq!(here.one::<String>(row), there.one::<String>(row));
    let expected =
        [gap(back.first + 4, back.last, "altered"), gap(late.first, late.last, "expired")];
    let mut known = gaps(&mut here, "s");
    known.retain(|known| known.0 <= late.last);
    assert_eq!(known, expected);
    seen.extend(here.draw("s", 500));
    seen.extend(there.draw("s", 500));
    seen.extend(late.values());
    seen.extend(back.values());
    assert_unique("s", &seen);
    first.finish();
}
