//! The fate of a client's callers while the server is away, and of their numbers if either is
//! killed.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::time::Duration;

use hilo_client::{Client, Error, Unavailable};
use hilo_tests::{ClientExt, Cluster, LONG, Mode, wait_until};

use super::proxy::{Fault, Proxy};
use super::{builder, draw, losses, open_leases, runtime, wait_until_filed};

/// Tells the other process of a test where the server is.
const SOCKET: &str = "HILO_CLIENT_TEST_SOCKET";

/// A value in memory is served without the server; then callers wait, and get values when it is
/// back.
#[test]
fn an_outage_is_lived_through_and_waited_for() {
    let cluster = Cluster::with_hilo();
    let mut connection = cluster.connect("postgres");
    connection.run("SELECT hilo_create('s')");
    drop(connection);
    let runtime = runtime();
    let client = runtime.block_on(builder(&cluster).connect()).expect("a client");
    let s = client.sequence("s");
    let mut seen = runtime.block_on(draw(&s, 10));
    cluster.stop(Mode::Fast);
    let left = client.stats().left;
    assert!(left >= 50, "{left}");
    seen.extend(runtime.block_on(draw(&s, left as usize)));
    assert_eq!(client.stats().waits, 1, "only the first of all");
    let waiting = runtime.spawn({
        let s = s.clone();
        async move { draw(&s, 100).await }
    });
    wait_until("somebody waits in vain", LONG, || client.stats().failures >= 3);
    assert!(!client.stats().connected && !waiting.is_finished());
    cluster.start();
    seen.extend(runtime.block_on(waiting).expect("it ends"));
    assert!(client.stats().connected && client.stats().connects >= 2);
    runtime.block_on(client.shutdown()).expect("all comes back");
    let mut connection = cluster.connect("postgres");
    assert_eq!(open_leases(&mut connection), 0);
    wait_until_filed(&mut connection);
    seen.extend(connection.draw("s", 200));
    assert_eq!(losses(&mut connection, "s", &seen), []);
    cluster.finish();
}

/// Callers wait no longer than they want to, or not at all.
#[test]
fn callers_fail_as_configured() {
    let cluster = Cluster::with_hilo();
    let mut connection = cluster.connect("postgres");
    connection.run("SELECT hilo_create('s')");
    drop(connection);
    let runtime = runtime();
    let patience = Duration::from_millis(200);
    let impatient = builder(&cluster).patience(patience);
    let impatient = runtime.block_on(impatient.connect()).expect("a client");
    let failing = builder(&cluster).unavailable(Unavailable::Fail);
    let failing = runtime.block_on(failing.connect()).expect("a client");
    for client in [&impatient, &failing] {
        runtime.block_on(client.warm_up(&["s"])).expect("values");
    }
    cluster.stop(Mode::Fast);
    for client in [&impatient, &failing] {
        let s = client.sequence("s");
        let left = client.stats().left;
        runtime.block_on(draw(&s, left as usize));
        let range = runtime.block_on(s.next_range(5));
        let error = runtime.block_on(s.next()).expect_err("no server");
        match (client.holder() == impatient.holder(), &error) {
            (true, Error::Timeout { sequence, waited, silent, source, .. }) => {
                assert_eq!((&**sequence, *waited), ("s", patience));
                let (silent, source) = (silent.expect("it is away"), source.as_ref());
                assert!(silent >= patience, "{error}");
                let said =
                    [format!("silent for {silent:?}"), source.expect("a reason").to_string()];
                assert!(said.iter().all(|said| error.to_string().contains(said)), "{error}");
                assert!(matches!(range, Err(Error::Timeout { .. })), "{range:?}");
            }
            (false, Error::Unreachable { .. }) => {
                assert!(matches!(range, Err(Error::Unreachable { .. })), "{range:?}");
                assert!(matches!(s.try_next(), Err(Error::Unreachable { .. })));
            }
            _ => panic!("{error:?}"),
        }
    }
    // A shutdown is as patient.
    let error = runtime.block_on(impatient.shutdown()).expect_err("no server");
    assert!(matches!(error, Error::Unreachable { .. }), "{error:?}");
    cluster.start();
    let s = failing.sequence("s");
    wait_until("it is back", LONG, || runtime.block_on(s.next()).is_ok());
    runtime.block_on(failing.shutdown()).expect("all comes back");
    cluster.finish();
}

/// A server that crashes in every way keeps what it has leased out, and the client notices nothing but a pause.
#[test]
fn a_crash_of_the_server_costs_no_lease() {
    let cluster = Cluster::with_hilo();
    cluster.expect_crash();
    let mut connection = cluster.connect("postgres");
    connection.run("SELECT hilo_create('s')");
    drop(connection);
    let runtime = runtime();
    let client = runtime.block_on(builder(&cluster).connect()).expect("a client");
    let s = client.sequence("s");
    let mut seen = Vec::new();
    for _ in 0..5 {
        seen.extend(runtime.block_on(draw(&s, 137)));
        cluster.stop(Mode::Immediate);
        cluster.start();
    }
    seen.extend(runtime.block_on(draw(&s, 137)));
    runtime.block_on(client.shutdown()).expect("all comes back");
    let mut connection = cluster.connect("postgres");
    assert_eq!(open_leases(&mut connection), 0);
    wait_until_filed(&mut connection);
    seen.extend(connection.draw("s", 2000));
    let lost = losses(&mut connection, "s", &seen);
    assert!(lost.iter().all(|(.., reason)| reason == "crash" || reason == "discarded"), "{lost:?}");
    cluster.finish();
}

/// A client that is killed leaves leases in its name, which can be revoked, and are nobody else's.
#[test]
fn a_client_that_is_killed_leaves_leases_with_its_name() {
    let cluster = Cluster::with_hilo();
    let mut connection = cluster.connect("postgres");
    connection.run("SELECT hilo_create('s')");
    let mut child = Command::new(std::env::current_exe().expect("this program"))
        .args(["--exact", "client::outages::draws_until_it_is_killed", "--ignored", "--nocapture"])
        .env(SOCKET, cluster.socket_directory())
        .stdout(Stdio::piped())
        .spawn()
        .expect("another process");
    let mut lines = BufReader::new(child.stdout.take().expect("its output")).lines();
    let mut line = || lines.next().expect("it goes on").expect("text");
    let holder = loop {
        if let Some(holder) = line().strip_prefix("holder ") {
            break holder.to_owned();
        }
    };
    let mut seen: Vec<i64> = (0..300).map(|_| line().parse().expect("a value")).collect();
    child.kill().expect("it dies");
    child.wait().expect("it is dead");
    // It had served more than was read.
    seen.extend(lines.map_while(Result::ok).filter_map(|line| line.parse::<i64>().ok()));
    // Its session ends after it, and may take another lease before that.
    let sessions = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'hilo-client'";
    wait_until("its session has ended", LONG, || connection.one::<i64>(sessions) == 0);
    assert!(open_leases(&mut connection) > 0);
    let revoked = connection.query_one("SELECT hilo_lease_revoke(holder => $1)", &[&holder]);
    assert!(revoked.expect("they are revoked").get::<_, i64>(0) > 0);
    assert_eq!(open_leases(&mut connection), 0);
    wait_until_filed(&mut connection);
    seen.extend(connection.draw("s", 200));
    // It may have served all that was revoked, if it died while it waited for its next lease.
    let lost = losses(&mut connection, "s", &seen);
    assert!(lost.iter().all(|(.., reason)| reason == "revoked"), "{lost:?}");
    let revoked = "SELECT count(*) FROM hilo_gaps WHERE reason = 'revoked'";
    assert!(connection.one::<i64>(revoked) > 0);
    cluster.finish();
}

/// The other process of the test above.
#[test]
#[ignore = "runs within another test"]
fn draws_until_it_is_killed() {
    let Some(socket) = std::env::var_os(SOCKET) else { return };
    let runtime = runtime();
    let mut config = tokio_postgres::Config::new();
    config.host_path(socket).user("postgres").dbname("postgres");
    let client = runtime.block_on(Client::builder(config).connect()).expect("a client");
    println!("\nholder {}", client.holder());
    loop {
        println!("{}", runtime.block_on(client.sequence("s").next()).expect("a value"));
    }
}

/// A client that is dropped without a shutdown leaves its leases open; with a ttl, they expire.
#[test]
fn a_lease_that_nobody_renews_expires() {
    let cluster = Cluster::with_hilo();
    let mut connection = cluster.connect("postgres");
    connection.run("SELECT hilo_create('s')");
    let runtime = runtime();
    let ttl = Duration::from_secs(1);
    let client = runtime.block_on(builder(&cluster).ttl(ttl).connect()).expect("a client");
    let mut seen = runtime.block_on(draw(&client.sequence("s"), 10));
    drop(client);
    wait_until("the lease has expired", LONG, || open_leases(&mut connection) == 0);
    seen.extend(connection.draw("s", 200));
    let lost = losses(&mut connection, "s", &seen);
    assert!(!lost.is_empty() && lost.iter().all(|(.., reason)| reason == "expired"), "{lost:?}");
    cluster.finish();
}

/// A client renews all that it holds, in one statement, long before it expires.
#[test]
fn a_client_renews_what_it_holds() {
    let cluster = Cluster::with_hilo();
    let mut connection = cluster.connect("postgres");
    connection.run("SELECT hilo_create('s' || n) FROM generate_series(1, 100) n");
    let runtime = runtime();
    let ttl = Duration::from_secs(2);
    let client = runtime.block_on(builder(&cluster).ttl(ttl).connect()).expect("a client");
    let names: Vec<String> = (1..=100).map(|n| format!("s{n}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    runtime.block_on(client.warm_up(&names)).expect("values");
    let leased_at: String = connection.one("SELECT max(leased_at)::text FROM hilo_leases");
    // Three times as long as a lease lasts by itself.
    wait_until("they have been renewed", LONG, || {
        connection.one(&format!(
            "SELECT min(expires_at) > '{leased_at}'::timestamptz + '6 s' FROM hilo_leases"
        ))
    });
    assert_eq!(open_leases(&mut connection), 100);
    let statements = client.stats().statements;
    assert!((3..=10).contains(&statements), "{statements}");
    let returned = runtime.block_on(client.shutdown()).expect("all comes back");
    assert_eq!(returned.leases, 100);
    assert_eq!(connection.one::<i64>("SELECT count(*) FROM hilo_gaps"), 0);
    cluster.finish();
}

/// After an outage that is longer than the ttl, what has expired is served on, and not returned.
#[test]
fn an_expired_lease_is_served_to_its_end() {
    let cluster = Cluster::with_hilo();
    let mut connection = cluster.connect("postgres");
    connection.run("SELECT hilo_create('s')");
    let proxy = Proxy::to(&cluster);
    let runtime = runtime();
    let ttl = Duration::from_millis(1500);
    let connecting =
        Client::builder(proxy.config()).patience(LONG).timeout(LONG).ttl(ttl).connect();
    let client = runtime.block_on(connecting).expect("a client");
    let s = client.sequence("s");
    let mut seen = runtime.block_on(draw(&s, 10));
    // The renewal hangs until the lease has expired.
    proxy.set(Fault::HoldStart);
    wait_until("the lease has expired", LONG, || open_leases(&mut connection) == 0);
    let left = client.stats().left;
    seen.extend(runtime.block_on(draw(&s, left as usize)));
    assert_eq!(client.stats().waits, 1, "only the first of all");
    proxy.set(Fault::None);
    seen.extend(runtime.block_on(draw(&s, 200)));
    runtime.block_on(client.shutdown()).expect("the rest comes back");
    assert_eq!(open_leases(&mut connection), 0);
    wait_until_filed(&mut connection);
    seen.extend(connection.draw("s", 200));
    assert_eq!(losses(&mut connection, "s", &seen), [], "what expired was served");
    cluster.finish();
}
