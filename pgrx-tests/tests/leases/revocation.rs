//! Whoever may revoke a lease waits for nobody who holds it, whatever the holder's transaction
//! does; and it wins.

use hilo_tests::{Client, ClientExt, Cluster};

use super::{
    assert_explained, gap, gaps, give_back, has, lease, wait_until_back, wait_until_filed,
};

/// A server with a sequence from which a role may lease; the sessions of a superuser, who is in a
/// hurry, and of that role.
fn start() -> (Cluster, Client, Client) {
    let cluster = Cluster::with_hilo();
    let mut admin = cluster.connect("postgres");
    admin.run(
        "CREATE ROLE app LOGIN; CREATE TABLE t (id bigint); GRANT SELECT ON t TO app;
         SELECT hilo_create('s'), hilo_grant('s', 'app', 'UPDATE');
         SET lock_timeout = '50ms'",
    );
    let app = cluster.connect_as("app", "postgres");
    (cluster, admin, app)
}

/// A holder that has renewed, returned or revoked its lease, and has not committed, keeps nobody
/// from revoking it. A holder's call then comes too late: it is refused, and the lease is one gap.
#[test]
fn a_revocation_does_not_wait_for_the_holder() {
    let (cluster, mut admin, mut app) = start();
    let mut gone = Vec::new();
    for (action, by, fails) in [
        ("hilo_lease_renew('{}', '1h')", "holder => 'pod'", true),
        ("hilo_lease_return('{}', NULL)", "holder => 'pod'", true),
        ("hilo_lease_return('{}')", "'{}'", true),
        ("hilo_lease_renew('{}', NULL)", "'{}', 'pod'", true),
        ("hilo_lease_revoke('{}')", "holder => 'pod'", false),
        ("hilo_lease_revoke(holder => 'pod')", "'{}'", false),
    ] {
        let taken = lease(&mut app, "'s', 10, 'pod'");
        let of = |call: &str| call.replace("{}", &taken.token);
        app.run(&format!("BEGIN; SELECT {}", of(action)));
        let revoked: i64 = admin.one(&format!("SELECT hilo_lease_revoke({})", of(by)));
        assert_eq!(revoked, 1, "{action}");
        match fails {
            true => drop(app.refusal("COMMIT").is("42704").says("is not open").helps()),
            false => app.run("COMMIT"),
        }
        wait_until_filed(&mut admin);
        gone.push(gap(taken.first, taken.last, "revoked"));
    }
    let known = gaps(&mut admin, "s");
    assert!(gone.iter().all(|gap| has(&known, gap)), "{known:?}");
    let next = admin.draw("s", 1)[0];
    drop((app, admin));
    assert_explained(&cluster, "s", &[next]);
    cluster.finish();
}

/// Nor does a drop of the sequence, after which it does not matter what the holder has done.
#[test]
fn a_drop_does_not_wait_for_the_holder() {
    let (cluster, mut admin, mut app) = start();
    for action in
        ["hilo_lease_renew('{}', '1h')", "hilo_lease_return('{}')", "hilo_lease_revoke('{}')"]
    {
        let taken = lease(&mut app, "'s', 10");
        app.run(&format!("BEGIN; SELECT {}", action.replace("{}", &taken.token)));
        admin.run("SELECT hilo_drop('s')");
        app.run("COMMIT");
        admin.run("SELECT hilo_create('s'), hilo_grant('s', 'app', 'UPDATE')");
    }
    cluster.finish();
}

/// Nor does it wait for a transaction that moves the sequence beyond values of the lease; only a
/// return does.
#[test]
fn a_revocation_does_not_wait_for_an_advance() {
    let (cluster, mut admin, mut app) = start();
    admin.run("INSERT INTO t VALUES (5), (15), (25), (35)");
    let mut holder = cluster.connect_as("app", "postgres");
    for call in ["hilo_sync('s', 't', 'id')", "hilo_advance('s', 100000)"] {
        let taken = lease(&mut holder, "'s', 10, 'pod'");
        let kept = lease(&mut holder, "'s', 10");
        app.run(&format!("BEGIN; SELECT {call}"));
        holder.run("SET lock_timeout = '50ms'");
        let give = format!("SELECT hilo_lease_return('{}')", kept.token);
        holder.refusal(&give).is("55P03");
        holder.run(&format!("SELECT hilo_lease_renew('{}', '1h')", kept.token));
        assert_eq!(admin.one::<i64>("SELECT hilo_lease_revoke(holder => 'pod')"), 1, "{call}");
        app.run("COMMIT");
        assert_eq!(holder.one::<i64>(&give), 0, "{call}: what was passed does not come back");
        wait_until_filed(&mut admin);
        let found = gaps(&mut admin, "s");
        assert!(has(&found, &gap(taken.first, taken.last, "revoked")), "{call}: {found:?}");
        assert!(has(&found, &gap(kept.first, kept.last, "altered")), "{call}: {found:?}");
    }
    cluster.finish();
}

/// A revocation that is rolled back to a savepoint has not happened; a range that was returned in
/// the transaction is passed by it, too.
#[test]
fn an_end_belongs_to_its_transaction() {
    let (cluster, mut admin, mut app) = start();
    let taken = lease(&mut app, "'s', 10");
    app.run(&format!("BEGIN; SAVEPOINT a; SELECT hilo_lease_return('{}')", taken.token));
    app.refusal(&format!("SELECT hilo_lease_renew('{}', NULL)", taken.token)).is("42704");
    app.run("ROLLBACK TO a");
    assert_eq!(give_back(&mut app, &taken, taken.first + 4), 6);
    app.run("COMMIT");
    wait_until_back(&mut admin, taken.first + 4);
    assert_eq!(gaps(&mut admin, "s"), []);
    let again = lease(&mut app, "'s', 6");
    assert_eq!(again.first, taken.first + 4);
    admin.run(&format!("INSERT INTO t VALUES ({})", again.last));
    app.run("BEGIN");
    assert_eq!(give_back(&mut app, &again, again.first), 6);
    app.run("SELECT hilo_sync('s', 't', 'id'); COMMIT");
    wait_until_filed(&mut admin);
    assert_eq!(gaps(&mut admin, "s"), [gap(again.first, again.last, "altered")]);
    cluster.finish();
}
