//! A lease with a ttl ends at its time, by whatever clock the server has, and none of its values is served again.

use hilo_tests::{Client, ClientExt, Cluster, LONG, assert_unique, clock_library, wait_until};

use super::{Lease, assert_explained, gap, gaps, give_back, has, lease, wait_until_filed};

fn expiry_gaps(client: &mut Client, name: &str) -> Vec<(i64, i64, String)> {
    wait_until("the lease has expired", LONG, || !gaps(client, name).is_empty());
    gaps(client, name)
}

/// At its time it becomes a gap, its row is filed by the worker, and what comes late is refused.
#[test]
fn an_expired_lease_is_a_gap() {
    let cluster = Cluster::with_hilo();
    let mut client = cluster.connect("postgres");
    client.run("SELECT hilo_create('s')");
    let short = lease(&mut client, "'s', 10, 'app', '300ms'");
    let long = lease(&mut client, "'s', 10, 'app', '1 hour'");
    assert_eq!(expiry_gaps(&mut client, "s"), [gap(1, 10, "expired")]);
    for call in
        ["hilo_lease_return('{}', 3)", "hilo_lease_renew('{}', '1h')", "hilo_lease_revoke('{}')"]
    {
        client.refusal(&format!("SELECT {}", call.replace("{}", &short.token))).is("42704").helps();
    }
    // The worker files it with nothing else to do, and what the view shows stays the same.
    let before: String = client.one("SELECT g::text FROM hilo_gaps g");
    let rows = "SELECT count(*) FROM _hilo.hilo_lease";
    wait_until("the worker has filed it", LONG, || client.one::<i64>(rows) == 1);
    assert_eq!(client.one::<String>("SELECT g::text FROM hilo_gaps g"), before);
    let mut seen = client.draw("s", 500);
    seen.extend(short.values());
    seen.extend(long.values());
    assert_unique("s", &seen);
    seen.retain(|value| *value > 20);
    drop(client);
    assert_explained(&cluster, "s", &seen);
    cluster.finish();
}

/// A renewed lease lives on, and can be returned.
#[test]
fn a_renewed_lease_lives_on() {
    let cluster = Cluster::with_hilo();
    let mut client = cluster.connect("postgres");
    client.run("SELECT hilo_create('s'), hilo_create('t')");
    let renewed = lease(&mut client, "'s', 10, ttl => '1500ms'");
    let forever = lease(&mut client, "'s', 10, ttl => '1500ms'");
    let at: bool = client.one(&format!(
        "SELECT hilo_lease_renew('{}', '1 hour') > now() + interval '59 minutes'",
        renewed.token
    ));
    assert!(at);
    let never: bool =
        client.one(&format!("SELECT hilo_lease_renew('{}', NULL) IS NULL", forever.token));
    assert!(never);
    // Another one that expires after they would have.
    lease(&mut client, "'t', 10, ttl => '1500ms'");
    expiry_gaps(&mut client, "t");
    wait_until_filed(&mut client);
    assert_eq!(client.one::<i64>("SELECT count(*) FROM hilo_leases"), 2);
    assert_eq!(give_back(&mut client, &renewed, 3), 8);
    assert_eq!(give_back(&mut client, &forever, 13), 8);
    assert_eq!(gaps(&mut client, "s"), []);
    cluster.finish();
}

/// It expires while nobody is connected, and while the server is down; whoever looks sees it, and the next worker files
/// it.
#[test]
fn it_expires_while_nobody_is_there() {
    let cluster = Cluster::builder().config("hilo.worker_idle_timeout", "0").start_with_hilo();
    let mut client = cluster.connect("postgres");
    client.run("SELECT hilo_create('s')");
    lease(&mut client, "'s', 10, ttl => '500ms'");
    let worker = cluster.wait_for_worker("postgres");
    drop(client);
    let mut client = cluster.connect("template1");
    wait_until("the worker has left", LONG, || {
        !client.one::<bool>(&format!(
            "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE pid = {worker})"
        ))
    });
    drop(client);
    let mut client = cluster.connect("postgres");
    assert_eq!(expiry_gaps(&mut client, "s"), [gap(1, 10, "expired")]);
    let taken = lease(&mut client, "'s', 10, ttl => '500ms'");
    drop(client);
    cluster.kill9_postmaster();
    cluster.start();
    let mut client = cluster.connect("postgres");
    wait_until("both have expired", LONG, || {
        has(&gaps(&mut client, "s"), &gap(taken.first, taken.last, "expired"))
    });
    let late = format!("SELECT hilo_lease_return('{}')", taken.token);
    client.refusal(&late).is("42704").helps();
    let mut seen = client.draw("s", 100);
    wait_until_filed(&mut client);
    assert_eq!(client.one::<i64>("SELECT count(*) FROM _hilo.hilo_lease"), 0);
    seen.extend(1..=10);
    seen.extend(taken.values());
    assert_unique("s", &seen);
    cluster.finish();
}

/// A lease whose transaction lasts longer than its ttl has expired when it commits.
#[test]
fn a_slow_transaction_commits_an_expired_lease() {
    let cluster = Cluster::with_hilo();
    let mut client = cluster.connect("postgres");
    client.run("SELECT hilo_create('s'); BEGIN");
    lease(&mut client, "'s', 10, ttl => '1ms'");
    client.run("COMMIT");
    assert_eq!(expiry_gaps(&mut client, "s"), [gap(1, 10, "expired")]);
    wait_until_filed(&mut client);
    assert_eq!(gaps(&mut client, "s"), [gap(1, 10, "expired")]);
    cluster.finish();
}

/// A clock that jumps ahead ends leases early, and one that jumps back ends them late. Neither has a value served
/// twice. Not tested where libfaketime is not installed.
#[test]
fn no_clock_causes_a_value_to_be_served_twice() {
    let Some(library) = clock_library() else {
        eprintln!("without libfaketime there is nothing to set");
        return;
    };
    // The worker may have another clock than the sessions, because not every process notices that it is set.
    let cluster =
        Cluster::builder().clock(library).config("hilo.worker_idle_timeout", "0").start_with_hilo();
    cluster.connect("postgres").run("SELECT hilo_create('s')");
    let (mut seen, mut kept, mut refused) = (Vec::new(), Vec::new(), 0);
    for offset in ["+0", "+3h", "-3h", "+9h", "+0", "+20h", "+0"] {
        cluster.set_clock(offset);
        let mut client = cluster.connect("postgres");
        client.run("SELECT hilo_nextval('s')");
        seen.push(client.one::<i64>("SELECT hilo_currval('s')"));
        for taken in std::mem::take(&mut kept) {
            let Lease { first, ref token, .. } = taken;
            let call = format!("SELECT hilo_lease_return('{token}', {})", first + 1);
            match client.batch_execute(&call) {
                Ok(()) => seen.extend(taken.first_values(1)),
                Err(error) => {
                    assert_eq!(error.code().map(|state| state.code()), Some("42704"), "{error:?}");
                    seen.extend(taken.values());
                    refused += 1;
                }
            }
        }
        seen.extend(client.draw("s", 60));
        kept.extend((0..3).map(|_| lease(&mut client, "'s', 10, ttl => '2 hours'")));
        let worker = cluster.worker_pid("postgres");
        drop(client);
        worker.into_iter().for_each(|worker| cluster.wait_until_gone(worker));
    }
    seen.extend(kept.iter().flat_map(Lease::values));
    let mut client = cluster.connect("postgres");
    assert!(refused >= 6, "{refused} leases had expired");
    seen.extend(client.draw("s", 1000));
    assert_unique("s", &seen);
    cluster.finish();
}
