//! One call for all that a client needs, with an answer for each row. And leases that the caller
//! names, so that a lost answer is asked for again.

use std::sync::Barrier;
use std::thread;

use hilo_tests::{Client, ClientExt, Cluster, LONG, wait_until};

use super::{assert_explained, gaps, give_back, lease, wait_until_filed};

const ID: &str = "5a2c9b66-0c3e-4b7e-9d54-5b6f3a1e7c01";

/// `hilo_lease` of a sequence, named [`ID`].
fn lease_by_name(sequence: &str, n: i64) -> String {
    format!("'{sequence}', {n}, 'app', '1 hour', '{ID}'")
}

/// A row of `hilo_refill`: kind, name, count, and the SQLSTATE of what was refused.
type Refilled = (String, Option<String>, Option<i64>, Option<String>);

fn refill(client: &mut Client, arguments: &str) -> Vec<Refilled> {
    let sql = format!("SELECT kind, name, count, sqlstate FROM hilo_refill({arguments})");
    let rows = client.query(&sql, &[]).unwrap_or_else(|error| panic!("{sql}: {error:?}"));
    rows.iter().map(|row| (row.get(0), row.get(1), row.get(2), row.get(3))).collect()
}

fn lease_row(name: &str, count: i64, code: Option<&str>) -> Refilled {
    let count = code.is_none().then_some(count);
    ("leased".into(), Some(name.into()), count, code.map(Into::into))
}

/// The call may be repeated, in the same transaction and in later ones, also after a renewal, and takes nothing more.
#[test]
fn the_same_call_gets_the_same_lease() {
    let cluster = Cluster::with_hilo();
    let mut client = cluster.connect("postgres");
    client.run("SELECT hilo_create('s')");
    client.run("BEGIN");
    let first = lease(&mut client, &lease_by_name("s", 10));
    assert_eq!((first.token.as_str(), first.first, first.last), (ID, 1, 10));
    for turn in [
        "COMMIT",
        "SELECT 1",
        "SELECT hilo_lease_renew('5a2c9b66-0c3e-4b7e-9d54-5b6f3a1e7c01', '1 day')",
    ] {
        assert_eq!(
            lease(&mut client, &lease_by_name("s", 10)).values(),
            first.values(),
            "before {turn}"
        );
        client.run(turn);
    }
    let mut other = cluster.connect("postgres");
    assert_eq!(lease(&mut other, &lease_by_name("s", 10)).values(), first.values());
    assert_eq!(other.one::<i64>("SELECT count(*) FROM hilo_leases"), 1);
    assert_eq!(give_back(&mut client, &first, 5), 6);
    drop((client, other));
    assert_explained(&cluster, "s", &[1, 2, 3, 4]);
    cluster.finish();
}

/// Another call that names it is told so, and takes nothing.
#[test]
fn a_name_stands_for_one_call() {
    let cluster = Cluster::with_hilo();
    let mut client = cluster.connect("postgres");
    client.run(
        "SELECT hilo_create('s'), hilo_create('t'); CREATE ROLE app LOGIN;
         SELECT hilo_grant_all('app', 'UPDATE')",
    );
    let first = lease(&mut client, &lease_by_name("s", 10));
    let call = |sequence, n| format!("SELECT hilo_lease({})", lease_by_name(sequence, n));
    client.refusal(&call("t", 10)).is("42710").details("another sequence").helps();
    client.refusal(&call("s", 9)).is("42710").details("more values");
    client.refusal(&call("nothing", 10)).is("42704");
    let mut app = cluster.connect_as("app", "postgres");
    app.refusal(&call("s", 10)).is("42710").details("Another role took it");
    client.run("SELECT hilo_setval('s', 5000, false)");
    client.refusal(&call("s", 10)).is("42710").details("renumbered");
    for end in ["hilo_lease_revoke('{}')", "hilo_lease_return('{}')"] {
        let end = end.replace("{}", ID);
        client.run(&format!("BEGIN; SELECT {end}"));
        client.refusal(&call("s", 10)).is("42710").details("It was re");
        client.run("ROLLBACK");
    }
    assert_eq!(client.one::<i64>("SELECT count(*) FROM hilo_leases"), 1);
    assert_eq!(give_back(&mut client, &first, 1), 0, "it was renumbered");
    // When nothing is known of it any more, the name is free.
    wait_until_filed(&mut client);
    assert_eq!(lease(&mut client, &lease_by_name("t", 3)).values(), [1, 2, 3]);
    cluster.finish();
}

/// However many ask at once.
#[test]
fn two_calls_at_once_get_one_lease() {
    const SESSIONS: usize = 6;
    const ROUNDS: usize = 40;
    let cluster = Cluster::with_hilo();
    cluster.connect("postgres").run("SELECT hilo_create('s')");
    let barrier = Barrier::new(SESSIONS);
    let hold = |session: usize| -> Vec<i64> {
        let mut client = cluster.connect("postgres");
        let one = |round: usize| {
            barrier.wait();
            client.run("BEGIN");
            let call = format!("'s', 10, 'app', NULL, md5('{round}')::uuid");
            let first = lease(&mut client, &call).first;
            // In some rounds sessions roll back: the others do not get what is lost.
            let rolls_back = round % 4 == 3 && session.is_multiple_of(2);
            client.run(if rolls_back { "ROLLBACK" } else { "COMMIT" });
            if rolls_back { 0 } else { first }
        };
        (0..ROUNDS).map(one).collect()
    };
    let firsts: Vec<Vec<i64>> = thread::scope(|scope| {
        let hold = &hold;
        let holds: Vec<_> =
            (0..SESSIONS).map(|session| scope.spawn(move || hold(session))).collect();
        holds.into_iter().map(|hold| hold.join().expect("it ends")).collect()
    });
    let mut client = cluster.connect("postgres");
    for round in 0..ROUNDS {
        let mut got: Vec<i64> = firsts.iter().map(|of| of[round]).filter(|&at| at > 0).collect();
        got.dedup();
        let open = format!("SELECT first FROM hilo_leases WHERE lease = md5('{round}')::uuid");
        assert_eq!(got, client.all::<i64>(&open), "{round}: {firsts:?}");
    }
    client.run("SELECT hilo_lease_return(lease, last + 1) FROM hilo_leases");
    let used: Vec<i64> = (0..ROUNDS).map(|round| firsts[1][round]).collect();
    let used: Vec<i64> = used.iter().flat_map(|&first| first..first + 10).collect();
    let dead = "SELECT count(*) FROM hilo_blocks WHERE tier = 'leased'";
    wait_until("what was rolled back is written off", LONG, || client.one::<i64>(dead) == 0);
    drop(client);
    let mut used = used;
    used.sort();
    assert_explained(&cluster, "s", &used);
    cluster.finish();
}

/// The second caller waits for the first one's transaction, and takes the lease itself if that is rolled back.
#[test]
fn a_name_is_free_after_a_rollback() {
    let cluster = Cluster::with_hilo();
    let mut client = cluster.connect("postgres");
    client.run("SELECT hilo_create('s')");
    client.run("BEGIN");
    let lost = lease(&mut client, &lease_by_name("s", 10));
    thread::scope(|scope| {
        let mut other = cluster.connect("postgres");
        let pid = other.backend_pid();
        let second = scope.spawn(move || lease(&mut other, &lease_by_name("s", 10)));
        let mut observer = cluster.connect("postgres");
        wait_until("it waits", LONG, || observer.sees_waiting(pid));
        client.run("ROLLBACK");
        let second = second.join().expect("it ends");
        assert_eq!(second.token, ID);
        assert_ne!(second.first, lost.first);
    });
    cluster.finish();
}

/// Leases come back, are renewed and are taken in one transaction, with a row for each.
#[test]
fn one_call_returns_renews_and_leases() {
    let cluster = Cluster::with_hilo();
    let mut client = cluster.connect("postgres");
    client.run(
        "SELECT hilo_create('s'), hilo_create('t', increment => -10, key_format => 'T{value}')",
    );
    let (used, kept) = (lease(&mut client, "'s', 10"), lease(&mut client, "'s', 10, 'app'"));
    let sql = format!(
        "SELECT kind, name, lease::text, first, last, increment, count, expires_at IS NOT NULL, key_format, suggested > 0
           FROM hilo_refill(ARRAY['{}']::uuid[], ARRAY[8], ARRAY['{}']::uuid[], ARRAY['t', 's'], ARRAY[3, 4],
                            ARRAY['{ID}', md5('2')::uuid], 'app', '1 hour')",
        used.token, kept.token
    );
    let rows = client.query(&sql, &[]).expect("all is done");
    let kinds: Vec<String> = rows.iter().map(|row| row.get(0)).collect();
    assert_eq!(kinds, ["returned", "renewed", "leased", "leased"]);
    assert_eq!((rows[0].get::<_, &str>(2), rows[0].get::<_, i64>(6)), (used.token.as_str(), 3));
    assert_eq!((rows[1].get::<_, &str>(2), rows[1].get::<_, bool>(7)), (kept.token.as_str(), true));
    let t = (rows[2].get::<_, &str>(1), rows[2].get::<_, &str>(2), rows[2].get::<_, i64>(3));
    assert_eq!(t, ("t", ID, -1));
    assert_eq!((rows[2].get::<_, i64>(4), rows[2].get::<_, i64>(5)), (-21, -10));
    assert_eq!((rows[2].get::<_, &str>(8), rows[2].get::<_, bool>(9)), ("T{value}", true));
    assert_eq!(rows[3].get::<_, i64>(3), 21);
    let holders =
        "SELECT count(*) FROM hilo_leases WHERE holder = 'app' AND expires_at IS NOT NULL";
    assert_eq!(client.one::<i64>(holders), 3);
    assert_eq!(refill(&mut client, ""), []);
    cluster.finish();
}

/// A request that is refused fails by itself, says why, and takes nothing of the others.
#[test]
fn what_is_refused_fails_alone() {
    let cluster = Cluster::with_hilo();
    let mut client = cluster.connect("postgres");
    client.run(
        "SELECT hilo_create('s'), hilo_create('spent', max_value => 2), hilo_create('secret'),
                hilo_create('gapless', gapless => true), hilo_nextrange('spent', 2);
         CREATE ROLE app LOGIN; SELECT hilo_grant(name, 'app', 'UPDATE') FROM hilo_sequences WHERE name <> 'secret'",
    );
    let others = lease(&mut client, "'secret', 5");
    let mut app = cluster.connect_as("app", "postgres");
    let rows = refill(
        &mut app,
        &format!(
            "ARRAY['{}', '{ID}']::uuid[], ARRAY[1, 1], ARRAY['{ID}']::uuid[],
             ARRAY['s', 'nothing', E'a\nb', 'spent', 'secret', 'gapless', 's', 's'], ARRAY[5, 5, 5, 5, 5, 5, 0, 7]",
            others.token
        ),
    );
    let codes: Vec<_> = rows[..3].iter().map(|row| row.3.as_deref()).collect();
    assert_eq!(codes, [Some("42501"), Some("42704"), Some("42704")]);
    let expected = [
        lease_row("s", 5, None),
        lease_row("nothing", 5, Some("42704")),
        lease_row("a\nb", 5, Some("22023")),
        lease_row("spent", 5, Some("2200H")),
        lease_row("secret", 5, Some("42501")),
        lease_row("gapless", 5, Some("0A000")),
        lease_row("s", 0, Some("22023")),
        lease_row("s", 7, None),
    ];
    assert_eq!(rows[3..], expected);
    let report = "SELECT message || '|' || coalesce(detail, '-') || '|' || hint FROM hilo_refill(names => '{gapless}', sizes => '{1}')";
    let report: String = app.one(report);
    assert!(report.starts_with("cannot lease values of hilo sequence \"gapless\""), "{report}");
    assert!(report.contains("|Leased values") && report.contains("|Draw values"), "{report}");
    assert_eq!(gaps(&mut client, "s"), [], "nothing was lost");
    assert_eq!(client.one::<i64>("SELECT max(last) FROM hilo_leases WHERE name = 's'"), 12);
    cluster.finish();
}

/// Sequences that somebody has renumbered in an open transaction, and leases that somebody has
/// locked, are refused. All of them together are refused soon enough for a client's timeout, and
/// the settings are as before.
#[test]
fn what_is_locked_does_not_hold_up_the_rest() {
    let cluster = Cluster::with_hilo();
    let mut client = cluster.connect("postgres");
    let mut holder = cluster.connect("postgres");
    client.run("SELECT hilo_create('s' || n) FROM generate_series(1, 60) n");
    let tokens: Vec<String> =
        (1..=60).map(|n| lease(&mut client, &format!("'s{n}', 5")).token).collect();
    holder.run("BEGIN; SELECT hilo_setval('s' || n, 5000, false) FROM generate_series(1, 40) n");
    holder.run("SELECT FROM _hilo.hilo_lease WHERE lease::text < '8' FOR UPDATE");
    let locked = tokens.iter().filter(|token| token.as_str() < "8").count();
    // A second for each one that is locked would be too long.
    client.run("SET statement_timeout = '20s'; SET lock_timeout = '11s'");
    let arrays = "(SELECT array_agg(lease ORDER BY name, lease) FROM hilo_leases),
        (SELECT array_agg(first + 5 ORDER BY name, lease) FROM hilo_leases), '{}',
        (SELECT array_agg('s' || n) FROM generate_series(1, 60) n), array_fill(5::bigint, '{60}')";
    client.run("BEGIN");
    let rows = refill(&mut client, arrays);
    let of = |kind: &str, code: Option<&str>| {
        rows.iter().filter(|row| row.0 == kind && row.3.as_deref() == code).count()
    };
    assert_eq!((of("returned", Some("55P03")), of("returned", None)), (locked, 60 - locked));
    assert_eq!((of("leased", Some("55P03")), of("leased", None)), (40, 20));
    let settings = "SELECT concat_ws(' ', current_setting('lock_timeout'), current_setting('hilo.reserve_timeout'))";
    assert_eq!(client.one::<String>(settings), "11s 5s");
    client.run("COMMIT");
    cluster.finish();
}

/// Arrays that do not belong together change nothing.
#[test]
fn arrays_belong_together() {
    let cluster = Cluster::with_hilo();
    let mut client = cluster.connect("postgres");
    client.run("SELECT hilo_create('s')");
    for arguments in [
        format!("returns => '{{{ID}}}'"),
        "nexts => '{1}'".into(),
        "names => '{s}'".into(),
        "names => '{s}', sizes => '{1,2}'".into(),
        "names => '{s}', sizes => '{1}', leases => '{}'".into(),
    ] {
        client.refusal(&format!("SELECT hilo_refill({arguments})")).is("22023").says("one length");
    }
    for arguments in [
        "names => '{s,NULL}', sizes => '{1,1}'",
        "names => '{s}', sizes => '{NULL}'",
        "names => '{s}', sizes => '{1}', leases => '{NULL}'",
        "names => NULL",
        "renewals => '{NULL}'",
        "sizes => NULL",
    ] {
        client
            .refusal(&format!("SELECT hilo_refill({arguments})"))
            .is("22023")
            .says("null")
            .helps();
    }
    let twice = format!("names => '{{s,s}}', sizes => '{{1,1}}', leases => '{{{ID},{ID}}}'");
    client.refusal(&format!("SELECT hilo_refill({twice})")).is("22023").says("same name").helps();
    assert_eq!(client.one::<i64>("SELECT count(*) FROM hilo_leases"), 0);
    cluster.finish();
}

/// It works in a schema that was renamed, whatever has its old name.
#[test]
fn a_schema_is_renamed() {
    let cluster = Cluster::with_hilo();
    let mut client = cluster.connect("postgres");
    client.run(
        "SELECT hilo_create('s'); ALTER SCHEMA public RENAME TO numbers; CREATE SCHEMA public",
    );
    let refill = "SELECT first FROM numbers.hilo_refill(names => '{s}', sizes => '{1}')";
    assert_eq!(client.all::<i64>(refill), [1]);
    cluster.finish();
}
