//! Leases of sequences that fall, have steps, bounds or stripes.

use hilo_tests::{ClientExt, Cluster, assert_unique};

use super::{gaps, give_back, lease, wait_until_back, wait_until_filed};

/// The values of a lease and its rest follow the increment.
#[test]
fn increments_of_any_kind() {
    let cluster = Cluster::with_hilo();
    let mut client = cluster.connect("postgres");
    client.run(
        "SELECT hilo_create('falling', increment => -3), hilo_create('steps', start_value => 5, increment => 7),
                hilo_create('low', min_value => -9223372036854775808, start_value => -9223372036854775808)",
    );
    let falling = lease(&mut client, "'falling', 4");
    assert_eq!(falling.values(), [-1, -4, -7, -10]);
    assert_eq!(give_back(&mut client, &falling, -7), 2);
    let steps = lease(&mut client, "'steps', 3");
    assert_eq!(steps.values(), [5, 12, 19]);
    assert_eq!(give_back(&mut client, &steps, 12), 2);
    let low = lease(&mut client, "'low', 2");
    assert_eq!(low.first, i64::MIN);
    assert_eq!(give_back(&mut client, &low, i64::MIN + 1), 1);
    for (name, next) in [("falling", [-7, -10, -13]), ("steps", [12, 19, 26])] {
        wait_until_back(&mut client, next[0]);
        assert_eq!(client.draw(name, 3), next, "{name}");
    }
    wait_until_back(&mut client, i64::MIN + 1);
    assert_eq!(client.draw("low", 1), [i64::MIN + 1]);
    cluster.finish();
}

/// At a bound a lease gets what is left, and then the sequence is exhausted until something comes back.
#[test]
fn at_a_bound_a_lease_gets_what_is_left() {
    let cluster = Cluster::with_hilo();
    let mut client = cluster.connect("postgres");
    client.run(
        "SELECT hilo_create('up', max_value => 25, block_size => 20),
                hilo_create('down', increment => -1, min_value => -25, block_size => 20),
                hilo_create('end', start_value => 9223372036854775806)",
    );
    for (name, sign) in [("up", 1), ("down", -1)] {
        let first = lease(&mut client, &format!("'{name}', 20"));
        assert_eq!((first.first, first.count), (sign, 20));
        let rest = lease(&mut client, &format!("'{name}', 20"));
        assert_eq!((rest.first, rest.last, rest.count), (21 * sign, 25 * sign, 5));
        for call in ["hilo_lease('{}', 1)", "hilo_nextval('{}')"] {
            client.refusal(&format!("SELECT {}", call.replace("{}", name))).is("2200H");
        }
        assert_eq!(give_back(&mut client, &rest, 23 * sign), 3);
        // From the commit of the return on there is something left.
        assert_eq!(client.draw(name, 1), [23 * sign]);
        let again = lease(&mut client, &format!("'{name}', 20"));
        assert_eq!(again.values(), [24 * sign, 25 * sign]);
        assert_eq!(gaps(&mut client, name), []);
    }
    // The last value of bigint is for hilo_nextval: a holder that had used it could not say so.
    let last = lease(&mut client, "'end', 10");
    assert_eq!(last.values(), [i64::MAX - 1]);
    client.refusal("SELECT hilo_lease('end', 1)").is("2200H");
    assert_eq!(give_back(&mut client, &last, i64::MAX), 0);
    assert_eq!(client.draw("end", 1), [i64::MAX]);
    cluster.finish();
}

/// A transaction that narrows the bounds keeps to them before it commits, as only it can know. It is told so at once, and
/// nothing is reserved for what it cannot have.
#[test]
fn a_lease_beyond_bounds_that_are_not_committed_reserves_nothing() {
    let cluster = Cluster::with_hilo();
    let mut client = cluster.connect("postgres");
    let mut other = cluster.connect("postgres");
    for (name, sign) in [("up", 1), ("down", -1)] {
        client.run(&format!("SELECT hilo_create('{name}', increment => {sign})"));
        client.draw(name, 10);
        let bound = if sign > 0 { "max_value => 200" } else { "min_value => -200" };
        client.run(&format!("BEGIN; SELECT hilo_alter('{name}', {bound})"));
        let lease_all = format!("'{name}', 1000000");
        while lease(&mut client, &lease_all).last != 200 * sign {}
        let reserved =
            format!("SELECT blocks_reserved FROM hilo_stat_sequences WHERE name = '{name}'");
        let before: i64 = other.one(&reserved);
        client.refusal(&format!("SELECT hilo_lease({lease_all})")).is("2200H");
        client.run("ROLLBACK");
        assert_eq!(other.one::<i64>(&reserved), before);
    }
    cluster.finish();
}

/// The values that this session holds itself are not the last ones.
#[test]
fn the_slice_of_the_session_is_leased_at_the_end() {
    let cluster = Cluster::with_hilo();
    let mut client = cluster.connect("postgres");
    client.run("SELECT hilo_create('s', max_value => 100, block_size => 7)");
    let mut seen = client.draw("s", 40);
    let mut other = cluster.connect("postgres");
    while seen.len() < 100 {
        match other.query_one("SELECT first, count FROM hilo_lease('s', 7)", &[]) {
            Ok(row) => seen.extend((0..row.get::<_, i64>(1)).map(|at| row.get::<_, i64>(0) + at)),
            Err(_) => break,
        }
    }
    while seen.len() < 100 {
        seen.extend(lease(&mut client, "'s', 7").values());
    }
    assert_unique("s", &seen);
    cluster.finish();
}

/// Nodes lease from their own stripes, and a lease ends with its stripe.
#[test]
fn a_lease_lies_within_a_stripe() {
    let clusters = [0, 1].map(|node| Cluster::builder().node(node, 2).start_with_hilo());
    let mut seen = Vec::new();
    for (node, cluster) in clusters.iter().enumerate() {
        let mut client = cluster.connect("postgres");
        client.run("SELECT hilo_create('s', increment => 2)");
        let mut own = Vec::new();
        let mut short = 0;
        for _ in 0..12 {
            let taken = lease(&mut client, "'s', 300");
            short += i64::from(taken.count < 300);
            own.extend(taken.values());
        }
        assert!(short >= 2, "{short} leases end with a stripe");
        let taken = lease(&mut client, "'s', 50");
        own.extend(taken.first_values(20));
        assert_eq!(give_back(&mut client, &taken, taken.first + 40), taken.count - 20);
        wait_until_filed(&mut client);
        own.extend(client.draw("s", 100));
        let node_of = |value: &i64| (value - 1) / 2 / 1024 % 2;
        assert!(own.iter().all(|value| node_of(value) == node as i64), "node {node}: {own:?}");
        assert_eq!(gaps(&mut client, "s"), []);
        seen.extend(own);
    }
    assert_unique("s", &seen);
}

/// A lease waits for what it asks for, and is served by returned ranges first, each by itself.
#[test]
fn rests_are_leased_one_by_one() {
    let cluster = Cluster::with_hilo();
    let mut client = cluster.connect("postgres");
    client.run("SELECT hilo_create('s')");
    let all: Vec<_> = (0..6).map(|_| lease(&mut client, "'s', 10")).collect();
    for taken in [&all[1], &all[3]] {
        assert_eq!(give_back(&mut client, taken, taken.first + 5), 5);
    }
    wait_until_back(&mut client, 16);
    wait_until_back(&mut client, 36);
    let firsts: Vec<_> = (0..3).map(|_| lease(&mut client, "'s', 10").first).collect();
    assert_eq!(firsts, [16, 36, 61]);
    cluster.finish();
}
