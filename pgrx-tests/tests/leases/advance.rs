//! `hilo_advance`: nothing up to a value is served any more, and a sequence never goes back.

use hilo_tests::{Client, ClientExt, Cluster, assert_unique};

use super::{
    assert_explained, gap, gaps, give_back, has, lease, wait_until_back, wait_until_filed,
};

#[test]
fn it_moves_a_sequence_on_and_never_back() {
    let cluster = Cluster::with_hilo();
    let mut client = cluster.connect("postgres");
    client.run("SELECT hilo_create('s'), hilo_create('falling', increment => -2)");
    let advance = |client: &mut Client, name: &str, to: i64| {
        client.one::<i64>(&format!("SELECT hilo_advance('{name}', {to})"))
    };
    assert_eq!(advance(&mut client, "s", 0), 1);
    assert_eq!(advance(&mut client, "s", 41), 42);
    for to in [41, 40, 1, -5, i64::MIN] {
        assert_eq!(advance(&mut client, "s", to), 42, "{to}");
    }
    assert_eq!(client.draw("s", 2), [42, 43]);
    assert_eq!(advance(&mut client, "s", 43), 44);
    let lost = gaps(&mut client, "s").len();
    assert_eq!(advance(&mut client, "s", 43), 44);
    assert_eq!(gaps(&mut client, "s").len(), lost, "a second time changes nothing");
    assert_eq!(advance(&mut client, "falling", -7), -9);
    assert_eq!(advance(&mut client, "falling", 5), -9);
    assert_eq!(client.draw("falling", 1), [-9]);
    cluster.finish();
}

/// A range below it that is free, returned or held is not served any more; one that is leased stays
/// with its holder.
#[test]
fn nothing_below_it_is_served() {
    let cluster = Cluster::with_hilo();
    let mut client = cluster.connect("postgres");
    client.run("SELECT hilo_create('s')");
    let taken = lease(&mut client, "'s', 10");
    let mut other = cluster.connect("postgres");
    other.run("SELECT hilo_nextval('s') FROM generate_series(1, 20)");
    // A range that is to come back is yet to be served, also before the worker has filed it.
    assert_eq!(give_back(&mut client, &taken, 4), 7);
    assert!(client.one::<i64>("SELECT hilo_advance('s', 25)") > 25);
    let next = client.draw("s", 100);
    assert!(next.iter().all(|value| *value > 25), "{next:?}");
    let next = other.draw("s", 100);
    assert!(next.iter().all(|value| *value > 25), "{next:?}");
    wait_until_filed(&mut client);
    assert!(has(&gaps(&mut client, "s"), &gap(4, 10, "altered")));
    let open = lease(&mut client, "'s', 10");
    let to = open.last + 1000;
    assert_eq!(client.one::<i64>(&format!("SELECT hilo_advance('s', {to})")), to + 1);
    assert_eq!(give_back(&mut client, &open, open.first), 0);
    cluster.finish();
}

#[test]
fn it_is_transactional_and_refuses_what_it_cannot_do() {
    let cluster = Cluster::with_hilo();
    let mut client = cluster.connect("postgres");
    client.run(
        "SELECT hilo_create('s', max_value => 100), hilo_create('c', max_value => 9, cycle => true)",
    );
    client.run("BEGIN; SELECT hilo_advance('s', 50); ROLLBACK");
    assert_eq!(client.draw("s", 1), [1]);
    client.refusal("SELECT hilo_advance('c', 5)").is("0A000").helps();
    client.refusal("SELECT hilo_advance('s', NULL)").is("22023").helps();
    client.refusal("SELECT hilo_advance('nothing', 1)").is("42704").helps();
    assert!(client.one::<bool>("SELECT hilo_advance('s', 100) IS NULL"));
    assert!(client.one::<bool>("SELECT hilo_advance('s', 100) IS NULL"));
    client.refusal("SELECT hilo_nextval('s')").is("2200H");
    cluster.finish();
    let cluster = Cluster::builder().node(0, 2).start_with_hilo();
    let mut client = cluster.connect("postgres");
    client.run("SELECT hilo_create('s'); SET hilo.on_every_node = off");
    for to in [50, 0] {
        client.refusal(&format!("SELECT hilo_advance('s', {to})")).is("55000").helps();
    }
    cluster.finish();
}

/// A range that comes back from a lease that was open is not served either, also if the sequence
/// was beyond the value already. Leases beyond it are left alone, and so is everything else.
#[test]
fn what_comes_back_from_below_it_is_not_served() {
    let cluster = Cluster::with_hilo();
    let mut client = cluster.connect("postgres");
    client.run("SELECT hilo_create('s')");
    let below = lease(&mut client, "'s', 100");
    let across = lease(&mut client, "'s', 100");
    let beyond = lease(&mut client, "'s', 100");
    for _ in 0..2 {
        assert_eq!(client.one::<i64>("SELECT hilo_advance('s', 150)"), 301);
    }
    assert_eq!(gaps(&mut client, "s"), [], "nothing is renumbered");
    assert_eq!(give_back(&mut client, &below, 10), 0);
    assert_eq!(give_back(&mut client, &across, 160), 0);
    assert_eq!(give_back(&mut client, &beyond, 210), 91);
    wait_until_filed(&mut client);
    wait_until_back(&mut client, 210);
    assert_eq!(gaps(&mut client, "s"), [gap(10, 100, "altered"), gap(160, 200, "altered")]);
    let mut used: Vec<i64> = (1..10).chain(101..160).chain(201..210).collect();
    used.extend(client.draw("s", 5));
    assert!(used.ends_with(&[210, 211, 212, 213, 214]), "{used:?}");
    drop(client);
    assert_explained(&cluster, "s", &used);
    cluster.finish();
}

/// It is undone with its transaction.
#[test]
fn a_rolled_back_advance_leaves_leases_alone() {
    let cluster = Cluster::with_hilo();
    let mut client = cluster.connect("postgres");
    client.run("SELECT hilo_create('s')");
    let taken = lease(&mut client, "'s', 100");
    client.run("BEGIN; SELECT hilo_advance('s', 50); ROLLBACK");
    assert_eq!(give_back(&mut client, &taken, 10), 91);
    wait_until_back(&mut client, 10);
    assert_eq!(client.draw("s", 1), [10]);
    cluster.finish();
}

/// A lease whose transaction is open is below it, too: that transaction takes it again.
#[test]
fn a_lease_that_has_not_committed_is_below_it() {
    let cluster = Cluster::with_hilo();
    let mut client = cluster.connect("postgres");
    client.run("SELECT hilo_create('s')");
    let mut other = cluster.connect("postgres");
    other.run("BEGIN");
    lease(&mut other, "'s', 100");
    let next = client.one::<i64>("SELECT hilo_advance('s', 50)");
    assert!(next > 100, "{next}");
    other.refusal("COMMIT").is("40001").helps();
    let again = lease(&mut other, "'s', 100");
    assert!(again.first >= next, "{again:?} after {next}");
    // Its own lease is not in its way.
    other.run("BEGIN");
    let own = lease(&mut other, "'s', 10");
    let next = other.one::<i64>(&format!("SELECT hilo_advance('s', {})", own.last));
    other.run("COMMIT");
    assert!(next > own.last, "{next} after {own:?}");
    assert_eq!(give_back(&mut other, &own, own.first + 1), 0);
    cluster.finish();
}

/// hilo_sync moves a sequence beyond what a column holds: such a value does not come back from a lease either.
#[test]
fn a_sync_does_not_let_values_of_the_column_come_back() {
    let cluster = Cluster::with_hilo();
    let mut client = cluster.connect("postgres");
    client.run("CREATE TABLE t (id bigint PRIMARY KEY); SELECT hilo_create('s')");
    let [taken, clear] = [(); 2].map(|()| lease(&mut client, "'s', 100"));
    client.run("INSERT INTO t VALUES (50)");
    assert_eq!(client.one::<i64>("SELECT hilo_sync('s', 't', 'id')"), 201);
    assert_eq!(give_back(&mut client, &taken, 10), 0);
    assert_eq!(give_back(&mut client, &clear, 110), 91);
    wait_until_back(&mut client, 110);
    assert_eq!(client.draw("s", 2), [110, 111]);
    // A value that another transaction has just leased is not known to be in the column.
    let mut other = cluster.connect("postgres");
    other.run("BEGIN");
    let pending = lease(&mut other, "'s', 100");
    client.run(&format!("INSERT INTO t VALUES ({})", pending.first + 9));
    let next = client.one::<i64>("SELECT hilo_sync('s', 't', 'id')");
    assert!(next > pending.last, "{next} after {pending:?}");
    other.refusal("COMMIT").is("40001").helps();
    cluster.finish();
}

/// However many leases are open, those of which the column holds values are found, with an index
/// and without, and all others come back.
#[test]
fn a_sync_finds_its_values_in_many_leases() {
    let cluster = Cluster::with_hilo();
    let mut client = cluster.connect("postgres");
    for (number, column) in
        ["bigint PRIMARY KEY", "integer", "numeric", "bigint"].into_iter().enumerate()
    {
        let name = format!("s{number}");
        client.run(&format!(
            "SELECT hilo_create('{name}', increment => 3);
             CREATE TABLE {name} (id {column});
             INSERT INTO {name} SELECT -n FROM generate_series(1, 20000) AS n;
             SELECT count(*) FROM (SELECT hilo_lease('{name}', 2), hilo_nextrange('{name}', 1)
                                     FROM generate_series(1, 300)) AS l"
        ));
        // Every third lease; values between those of a lease are none of it.
        client.run(&format!(
            "CREATE TEMP TABLE held AS
               SELECT lease, first, row_number() OVER (ORDER BY first) AS at FROM hilo_leases WHERE name = '{name}';
             INSERT INTO {name} SELECT first + CASE WHEN at % 3 = 0 THEN 3 ELSE 1 END FROM held;
             ANALYZE {name}; SELECT hilo_sync('{name}', '{name}', 'id')"
        ));
        let wrong = "SELECT count(*) FROM held JOIN _hilo.hilo_lease l USING (lease) WHERE l.passed <> (at % 3 = 0)";
        assert_eq!(client.one::<i64>(wrong), 0, "{column}");
        client.run("DROP TABLE held");
    }
    cluster.finish();
}

/// How a sequence is made, what it is advanced to (NULL: nothing is left), what changes then, and its next
/// value.
const AT_THE_END: [(&str, i64, &str, Option<i64>); 9] = [
    (
        "start_value => -16, increment => 2, min_value => -16, max_value => -14",
        0,
        "max_value => 26",
        Some(2),
    ),
    (
        "min_value => 0, max_value => 5, increment => 2",
        5,
        "max_value => 26, increment => 1",
        Some(6),
    ),
    ("min_value => 0, max_value => 5, increment => 2", 5, "increment => 1", None),
    ("min_value => 0, max_value => 5, increment => 2", 5, "cycle => true, max_value => 7", Some(6)),
    ("max_value => 3", 10, "max_value => 100, ordered => true", Some(11)),
    ("max_value => 3, gapless => true", 10, "max_value => 100", Some(11)),
    ("max_value => 3", 3_000_000, "increment => -5, min_value => -9", Some(1)),
    ("increment => -1, min_value => -5", -9, "min_value => -100", Some(-10)),
    (
        "start_value => 9223372036854775800, increment => 5, max_value => 9223372036854775806",
        i64::MAX,
        "max_value => 9223372036854775807, increment => 1",
        None,
    ),
];

/// Nothing up to it comes with wider bounds or another increment, also where nothing was left, whether
/// all was served or not.
#[test]
fn nothing_below_it_comes_at_the_end_of_a_sequence() {
    let cluster = Cluster::with_hilo();
    let mut client = cluster.connect("postgres");
    let all = AT_THE_END.iter().flat_map(|case| [(case, 0), (case, 2)]);
    for (number, ((options, to, change, next), drawn)) in all.enumerate() {
        let name = format!("s{number}");
        client.run(&format!("SELECT hilo_create('{name}', {options})"));
        client.draw(&name, drawn);
        let advance = format!("SELECT hilo_advance('{name}', {to})");
        for _ in 0..2 {
            assert_eq!(client.one::<Option<i64>>(&advance), None, "{options}");
        }
        client.refusal(&format!("SELECT hilo_nextval('{name}')")).is("2200H");
        client.run(&format!("SELECT hilo_alter('{name}', {change})"));
        match next {
            Some(next) => assert_eq!(client.draw(&name, 1), [*next], "{options}, {change}"),
            None => drop(client.refusal(&format!("SELECT hilo_nextval('{name}')")).is("2200H")),
        }
    }
    cluster.finish();
}

/// Nor with another increment, where it lies between two values.
#[test]
fn nothing_below_it_comes_with_another_increment() {
    let cluster = Cluster::with_hilo();
    let mut client = cluster.connect("postgres");
    client.run("CREATE TABLE t (id bigint); INSERT INTO t VALUES (5), (1000)");
    let moves = ["hilo_advance('{}', 5)", "hilo_sync('{}', 't', 'id')"];
    for (number, (options, next)) in
        [("", Some(6)), (", max_value => 5", None), (", gapless => true, max_value => 9", Some(6))]
            .into_iter()
            .enumerate()
    {
        for (at, advance) in moves.iter().enumerate() {
            if at == 1 && options.is_empty() {
                continue;
            }
            let name = format!("s{number}_{at}");
            client.run(&format!(
                "SELECT hilo_create('{name}', increment => 2, min_value => 0{options})"
            ));
            assert_eq!(client.draw(&name, 3), [0, 2, 4]);
            let advance = format!("SELECT {}", advance.replace("{}", &name));
            assert_eq!(client.one::<Option<i64>>(&advance), next, "{options}: {advance}");
            client.run(&format!("SELECT hilo_alter('{name}', increment => 1, max_value => 99)"));
            assert_eq!(client.draw(&name, 2), [6, 7], "{options}: {advance}");
        }
    }
    cluster.finish();
}

/// Each node of several continues beyond it within its own stripes.
#[test]
fn nothing_below_it_comes_on_a_node_of_several() {
    let cluster =
        Cluster::builder().node(0, 2).config("hilo.on_every_node", "on").start_with_hilo();
    let mut client = cluster.connect("postgres");
    client.run("SELECT hilo_create('s', max_value => 3000)");
    assert_eq!(client.one::<Option<i64>>("SELECT hilo_advance('s', 5000)"), None);
    client.run("SELECT hilo_alter('s', max_value => 100000)");
    assert!(client.draw("s", 3000).iter().all(|value| *value > 5000));
    cluster.finish();
}

/// A sequence of which another session has returned 13, with a column that holds 80; what was drawn
/// of it.
fn with_numbers_below(cluster: &Cluster, client: &mut Client, name: &str) -> Vec<i64> {
    client.run(&format!(
        "SELECT hilo_create('{name}', block_size => 32);
         CREATE TABLE {name} (id bigint); INSERT INTO {name} VALUES (80)"
    ));
    let mut other = cluster.connect("postgres");
    let mut seen = other.draw(name, 10);
    seen.extend(client.draw(name, 20));
    assert!(!seen.contains(&13), "{seen:?}");
    cluster.close(other);
    seen
}

/// Promise 1: to advance a sequence shares everybody's numbers. Whoever has done so draws them
/// after the commit, and a rollback brings none back.
#[test]
fn an_advance_makes_no_numbers_of_its_own() {
    let cluster = Cluster::with_hilo();
    let mut client = cluster.connect("postgres");
    let mut number = 0;
    for advance in
        ["hilo_advance('{}', 80)", "hilo_advance('{}', 13)", "hilo_sync('{}', '{}', 'id')"]
    {
        for end in ["ROLLBACK", "ROLLBACK TO before; COMMIT", "COMMIT"] {
            let name = format!("a{number}");
            number += 1;
            let mut seen = with_numbers_below(&cluster, &mut client, &name);
            client.run("BEGIN; SAVEPOINT before");
            client.run(&format!("SELECT {}", advance.replace("{}", &name)));
            for call in
                ["nextval('{}')", "nextvals('{}', 2)", "nextrange('{}', 2)", "lease('{}', 2)"]
            {
                client.run("SAVEPOINT call");
                let call = call.replace("{}", &name);
                client.refusal(&format!("SELECT hilo_{call}")).is("55000").helps();
                client.run("ROLLBACK TO call");
            }
            client.run(end);
            seen.extend(client.draw(&name, 60));
            seen.extend(cluster.connect("postgres").draw(&name, 60));
            assert_unique(&format!("{name}: {advance}, {end}"), &seen);
        }
    }
    // A call with nothing to move leaves the numbers alone.
    client.run("BEGIN; SELECT hilo_advance('a0', 0), hilo_sync('a0', 'a0', 'id')");
    assert_eq!(client.draw("a0", 1).len(), 1);
    client.run("COMMIT");
    cluster.finish();
}

/// Promises 1 and 5: a transaction that has made the numbers draws on after an advance. No ROLLBACK
/// TO brings a number back, and what that leaves out is a gap.
#[test]
fn an_advance_of_own_numbers() {
    let cluster = Cluster::with_hilo();
    let mut client = cluster.connect("postgres");
    client.run("CREATE TABLE seen (id bigint)");
    for (number, make) in ["hilo_create('{}')", "hilo_setval('{}', 9)"].into_iter().enumerate() {
        let name = format!("s{number}");
        if number > 0 {
            client.run(&format!("SELECT hilo_create('{name}')"));
        }
        client.run(&format!("BEGIN; SELECT {}", make.replace("{}", &name)));
        let mut seen = client.draw(&name, 2);
        for (to, change) in [(30, "ROLLBACK TO a"), (60, "RELEASE a"), (90, "ROLLBACK TO a")] {
            client.run("SAVEPOINT a");
            seen.extend(client.draw(&name, 2));
            let next = client.one::<i64>(&format!("SELECT hilo_advance('{name}', {to})"));
            assert_eq!(next, to + 1);
            seen.extend(client.draw(&name, 3));
            client.run(change);
            seen.extend(client.draw(&name, 2));
        }
        client.run("COMMIT");
        seen.extend(cluster.connect("postgres").draw(&name, 3));
        assert_unique(make, &seen);
        client.run("TRUNCATE seen");
        client.execute("INSERT INTO seen SELECT unnest($1::bigint[])", &[&seen]).expect("stored");
        let unknown = format!(
            "SELECT count(*) FROM hilo_find_gaps('{name}', 'seen', 'id') WHERE reason LIKE '%unknown'"
        );
        assert_eq!(client.one::<i64>(&unknown), 0, "{make}");
        let both = format!(
            "SELECT count(*) FROM seen, hilo_gaps WHERE name = '{name}' AND id BETWEEN first AND last"
        );
        assert_eq!(client.one::<i64>(&both), 0, "{make}");
    }
    cluster.finish();
}
