//! `hilo_transfer`: another server gets values for good, by requests that it repeats until it has the answer. Whatever is
//! lost on the way, no value comes twice, and each is accounted for.

use std::sync::Barrier;
use std::thread;

use hilo_tests::{Client, ClientExt, Cluster, LONG, assert_unique, wait_until};

use super::{assert_explained, gap, gaps, has, wait_until_filed};

const FIRST: &str = "018f0000-0000-7000-8000-000000000001";
const SECOND: &str = "018f0000-0000-7000-8000-000000000002";
const THIRD: &str = "018f0000-0000-7000-8000-000000000003";

fn call(sequence: &str, n: i64, receiver: &str, request: &str) -> String {
    format!("SELECT * FROM hilo_transfer('{sequence}', {n}, '{receiver}', '{request}')")
}

/// The answer that `s` gives by a request.
fn transfer(client: &mut Client, n: i64, receiver: &str, request: &str) -> Vec<i64> {
    try_transfer(client, n, receiver, request).unwrap_or_else(|error| panic!("{error:?}"))
}

fn try_transfer(
    client: &mut Client,
    n: i64,
    receiver: &str,
    request: &str,
) -> Result<Vec<i64>, postgres::Error> {
    let row = client.query_one(&call("s", n, receiver, request), &[])?;
    let (first, last, step): (i64, i64, i64) =
        (row.get("first"), row.get("last"), row.get("increment"));
    let values: Vec<i64> = (0..row.get("count")).map(|at| first + at * step).collect();
    assert_eq!(values.last(), Some(&last));
    assert!(row.get::<_, Option<std::time::SystemTime>>("expires_at").is_none());
    Ok(values)
}

/// Which numbering a request is told.
fn numbering(client: &mut Client, request: &str) -> String {
    client.one(&format!(
        "SELECT t.numbering FROM hilo_transfer('s', 1, 'branch', '{request}') t
           JOIN hilo_sequences q ON q.name = 's' AND q.numbering = t.numbering"
    ))
}

/// A repeated request gets its values again. The next one counts them as used, in the same commit,
/// and leaves no row, no gap and nothing free behind.
#[test]
fn a_request_is_repeated_until_the_next_one() {
    let cluster = Cluster::with_hilo();
    let mut client = cluster.connect("postgres");
    client.run("SELECT hilo_create('s')");
    let first = transfer(&mut client, 10, "branch", FIRST);
    assert_eq!(first, (1..=10).collect::<Vec<_>>());
    let mut other = cluster.connect("postgres");
    for n in [10, 5, 20] {
        assert_eq!(transfer(&mut other, n, "branch", FIRST), first);
    }
    other.run("BEGIN");
    transfer(&mut other, 10, "branch", SECOND);
    other.run("ROLLBACK");
    assert_eq!(transfer(&mut client, 10, "branch", FIRST), first, "the next one was rolled back");
    let beside = transfer(&mut client, 10, "another", "018f0000-0000-7000-8000-00000000000a");
    let mut used = first;
    for at in 2..30 {
        used.extend(transfer(
            &mut client,
            10,
            "branch",
            &format!("018f0000-0000-7000-8000-{at:012}"),
        ));
        assert_eq!(client.one::<i64>("SELECT count(*) FROM hilo_leases"), 2, "{at}");
    }
    wait_until_filed(&mut client);
    assert_eq!(client.one::<i64>("SELECT count(*) FROM _hilo.hilo_lease"), 2);
    assert_unique("s", &[&used[..], &beside].concat());
    // A value that is still the latest is in a lease.
    used.truncate(used.len() - 10);
    used.sort();
    drop((client, other));
    assert_explained(&cluster, "s", &used);
    cluster.finish();
}

/// Also if it comes late: it is refused, or gets values of its own. Nothing that counts as used is given out again.
#[test]
fn a_request_that_comes_after_the_next_one_gets_nothing_twice() {
    let cluster = Cluster::with_hilo();
    let mut client = cluster.connect("postgres");
    client.run("SELECT hilo_create('s')");
    let mut seen = transfer(&mut client, 10, "branch", FIRST);
    let second = transfer(&mut client, 10, "branch", SECOND);
    client.refusal(&call("s", 10, "branch", FIRST)).is("42710").helps();
    wait_until_filed(&mut client);
    client
        .refusal(&call("s", 10, "branch", FIRST))
        .is("42710")
        .details("another one since")
        .helps();
    assert_eq!(transfer(&mut client, 10, "branch", SECOND), second, "it is still the latest");
    // Random ones do not tell which came first.
    let random = "5a2c9b66-0c3e-4b7e-9d54-5b6f3a1e7c01";
    seen.extend(transfer(&mut client, 10, "branch", random));
    seen.extend(transfer(&mut client, 10, "branch", THIRD));
    wait_until_filed(&mut client);
    seen.extend(transfer(&mut client, 10, "branch", random));
    assert_unique("s", &[seen, second].concat());
    cluster.finish();
}

#[test]
fn a_request_stands_for_one_receiver_role_and_sequence() {
    let cluster = Cluster::with_hilo();
    let mut client = cluster.connect("postgres");
    client.run(
        "SELECT hilo_create('s'), hilo_create('t'), hilo_create('secret'); CREATE ROLE app LOGIN;
         SELECT hilo_grant('s', 'app', 'LEASE'), hilo_grant('t', 'app', 'USAGE')",
    );
    let first = transfer(&mut client, 10, "branch", FIRST);
    client
        .refusal(&call("s", 10, "another", FIRST))
        .is("42710")
        .details("Another receiver")
        .helps();
    client.refusal(&call("t", 10, "branch", FIRST)).is("42710").details("another sequence");
    client.run(&format!("SELECT hilo_lease('t', 5, NULL, NULL, '{SECOND}')"));
    client.refusal(&call("t", 5, "branch", SECOND)).is("42710").details("Another receiver");
    let mut app = cluster.connect_as("app", "postgres");
    app.refusal(&call("s", 10, "branch", FIRST)).is("42710").details("Another role");
    app.refusal(&call("t", 10, "branch", THIRD)).is("42501");
    app.refusal(&call("secret", 10, "branch", THIRD)).is("42501");
    // A receiver of this name is another role's: its request ends nothing of others.
    let own = transfer(&mut app, 10, "branch", THIRD);
    assert_eq!(client.one::<i64>("SELECT count(*) FROM hilo_leases WHERE name = 's'"), 2);
    assert_eq!(transfer(&mut client, 10, "branch", FIRST), first);
    assert_unique("s", &[first, own].concat());
    for (wrong, code) in [
        ("'s', 10, NULL, gen_random_uuid()", "22023"),
        ("'s', 10, 'branch', NULL", "22023"),
        ("'s', NULL, 'branch', gen_random_uuid()", "22023"),
        ("'s', 0, 'branch', gen_random_uuid()", "22023"),
        ("'nothing', 10, 'branch', gen_random_uuid()", "42704"),
    ] {
        client.refusal(&format!("SELECT hilo_transfer({wrong})")).is(code).helps();
    }
    client.run("BEGIN ISOLATION LEVEL REPEATABLE READ");
    client.refusal(&call("s", 10, "branch", SECOND)).is("0A000").helps();
    client.run("ROLLBACK");
    assert_eq!(gaps(&mut client, "s"), [], "what was refused has taken nothing");
    cluster.finish();
}

/// A receiver that says what it has the answer of makes a gap of what it has given up. So it does
/// where a copy of it has asked by its name.
#[test]
fn what_a_receiver_has_given_up_is_a_gap() {
    let cluster = Cluster::with_hilo();
    let mut client = cluster.connect("postgres");
    client.run("SELECT hilo_create('s')");
    let call = |request: &str, answered: &str| {
        format!(
            "SELECT first FROM _hilo.hilo_transfer('s', 10, 'branch', '{request}', '{answered}')"
        )
    };
    let none = "00000000-0000-0000-0000-000000000000";
    for (request, answered, first) in
        [(FIRST, none, 1), (FIRST, none, 1), (SECOND, FIRST, 11), (THIRD, FIRST, 21)]
    {
        assert_eq!(client.one::<i64>(&call(request, answered)), first);
    }
    wait_until_filed(&mut client);
    assert_eq!(gaps(&mut client, "s"), [gap(11, 20, "revoked")]);
    client.refusal(&call(SECOND, FIRST)).is("42710").says("comes after a later one").helps();
    assert_eq!(client.one::<i64>(&call(THIRD, FIRST)), 21);
    assert_eq!(gaps(&mut client, "s"), [gap(11, 20, "revoked")], "what is refused takes nothing");
    cluster.finish();
}

/// The numbering is another one when numbers begin elsewhere, or go in other steps, and the same
/// when they are only moved on. Then what was given out stays its receiver's, and a lost answer is
/// asked for again.
#[test]
fn the_numbering_tells_restarts_from_advances() {
    let cluster = Cluster::with_hilo();
    let mut client = cluster.connect("postgres");
    client.run("SELECT hilo_create('s')");
    let first = transfer(&mut client, 10, "branch", FIRST);
    let mut known = vec![numbering(&mut client, FIRST)];
    client.run(
        "SELECT hilo_advance('s', 5000), hilo_alter('s', max_value => 100000, block_size => 64)",
    );
    assert_eq!(transfer(&mut client, 10, "branch", FIRST), first);
    assert_eq!(numbering(&mut client, FIRST), known[0]);
    for (at, change) in [
        "SELECT hilo_setval('s', 5000)",
        "SELECT hilo_alter('s', restart_with => 5000)",
        "SELECT hilo_alter('s', increment => 10)",
        "SELECT hilo_drop('s'), hilo_create('s', increment => 10)",
    ]
    .into_iter()
    .enumerate()
    {
        client.run(change);
        let renumbered =
            numbering(&mut client, &format!("018f0000-0000-7000-8000-1000000000{at:02}"));
        assert!(!known.contains(&renumbered), "{change}: {renumbered} of {known:?}");
        known.push(renumbered);
    }
    cluster.finish();
}

/// A receiver: it repeats a request until the answer is its own.
fn receive(cluster: &Cluster, number: usize, rounds: usize) -> Vec<i64> {
    let mut random = fastrand::Rng::with_seed(number as u64);
    let receiver = format!("branch {number}");
    let mut seen = Vec::new();
    for round in 0..rounds {
        let request = format!("018f0000-0000-7000-80{number:02}-{round:012}");
        // It asks over several connections at once: the first copies of a request come late, or are lost.
        let copies = random.usize(1..4);
        let barrier = Barrier::new(copies);
        let n = random.i64(1..300);
        let ask = |loses: bool| {
            let mut client = cluster.connect("postgres");
            barrier.wait();
            client.run("BEGIN");
            let answer = try_transfer(&mut client, n, &receiver, &request);
            let ends = client.simple_query(if loses { "ROLLBACK" } else { "COMMIT" });
            answer.ok().filter(|_| ends.is_ok() && !loses)
        };
        let ask = &ask;
        let answers: Vec<Option<Vec<i64>>> = thread::scope(|scope| {
            let asked: Vec<_> = (0..copies)
                .map(|copy| scope.spawn(move || ask(copy > 0 && (copy + round) % 3 == 0)))
                .collect();
            asked.into_iter().map(|asked| asked.join().expect("it ends")).collect()
        });
        let mut answers: Vec<Vec<i64>> = answers.into_iter().flatten().collect();
        answers.dedup();
        assert_eq!(answers.len(), 1, "{receiver}, {request}: one answer");
        seen.extend(answers.remove(0));
    }
    seen
}

#[test]
fn receivers_and_sessions_at_the_same_time_share_no_value() {
    const RECEIVERS: usize = 4;
    let cluster = Cluster::with_hilo();
    cluster.connect("postgres").run("SELECT hilo_create('s')");
    let parts: Vec<Vec<i64>> =
        thread::scope(|scope| {
            let cluster = &cluster;
            let mut parts: Vec<_> = (0..RECEIVERS)
                .map(|number| scope.spawn(move || receive(cluster, number, 25)))
                .collect();
            parts.push(scope.spawn(|| {
                (0..20).flat_map(|_| cluster.connect("postgres").draw("s", 50)).collect()
            }));
            parts.into_iter().map(|part| part.join().expect("it ends")).collect()
        });
    let seen = parts.concat();
    assert_unique("s", &seen);
    let mut client = cluster.connect("postgres");
    assert_eq!(client.one::<i64>("SELECT count(*) FROM hilo_leases"), RECEIVERS as i64);
    // The latest of each.
    client.run("SELECT hilo_lease_return(lease, last + 1) FROM hilo_leases");
    let dead = "SELECT count(*) FROM hilo_blocks WHERE tier = 'leased'";
    wait_until("what was rolled back is written off", LONG, || client.one::<i64>(dead) == 0);
    drop(client);
    let mut seen = seen;
    seen.sort();
    assert_explained(&cluster, "s", &seen);
    cluster.finish();
}

/// The centre is killed before the commit, and after it, when the answer is lost.
#[test]
fn a_request_survives_a_crash_of_the_centre() {
    let cluster = Cluster::with_hilo();
    let mut client = cluster.connect("postgres");
    client.run("SELECT hilo_create('s')");
    let mut used = transfer(&mut client, 10, "branch", FIRST);
    client.run("BEGIN");
    let lost = transfer(&mut client, 10, "branch", SECOND);
    cluster.kill9_postmaster();
    cluster.start();
    let mut client = cluster.connect("postgres");
    assert_eq!(transfer(&mut client, 10, "branch", FIRST), used, "the next one was not committed");
    let second = transfer(&mut client, 10, "branch", SECOND);
    cluster.kill9_postmaster();
    cluster.start();
    let mut client = cluster.connect("postgres");
    assert_eq!(transfer(&mut client, 10, "branch", SECOND), second);
    used.extend(second);
    used.extend(transfer(&mut client, 10, "branch", THIRD));
    assert_unique("s", &[&used[..], &lost].concat());
    client.run("SELECT hilo_lease_return(lease, last + 1) FROM hilo_leases");
    drop(client);
    assert_explained(&cluster, "s", &used);
    cluster.finish();
}

/// A standby takes over that lacks the last requests. It knows neither them nor that earlier ones
/// were counted, and gives out nothing that the old centre may have given out.
#[test]
fn a_promoted_centre_that_lags_gives_nothing_out_twice() {
    let primary = Cluster::with_hilo();
    let mut client = primary.connect("postgres");
    client.run("SELECT hilo_create('s')");
    let mut seen = transfer(&mut client, 100, "branch", FIRST);
    let standby = primary.clone_by_base_backup();
    primary.wait_for_replay(&standby);
    standby.connect("postgres").run("ALTER SYSTEM SET primary_conninfo = 'host=/nowhere'");
    standby.connect("postgres").run("SELECT pg_reload_conf()");
    wait_until("the standby has lost its primary", LONG, || {
        client.one::<i64>("SELECT count(*) FROM pg_stat_replication") == 0
    });
    let received = transfer(&mut client, 100, "branch", SECOND);
    let unanswered = transfer(&mut client, 100, "branch", THIRD);
    seen.extend(client.draw("s", 300));
    primary.kill9_postmaster();
    standby.promote();
    let mut client = standby.connect("postgres");
    let third = transfer(&mut client, 100, "branch", THIRD);
    assert_ne!(third, unanswered, "this server does not know it");
    assert_eq!(transfer(&mut client, 100, "branch", THIRD), third);
    wait_until_filed(&mut client);
    let known = gaps(&mut client, "s");
    let skipped = gap(unanswered[0], *unanswered.last().unwrap(), "restored");
    assert!(has(&known, &skipped), "{skipped:?} is not in {known:?}");
    assert_eq!(client.one::<i64>("SELECT count(*) FROM _hilo.hilo_lease"), 1);
    seen.extend(client.draw("s", 3000));
    assert_unique("s", &[seen, received, unanswered, third].concat());
    standby.finish();
}
