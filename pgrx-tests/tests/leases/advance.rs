//! `hilo_advance`: nothing up to a value is served any more, and a sequence never goes back.

use hilo_tests::{ClientExt, Cluster};

use super::{gap, gaps, give_back, lease, wait_until_filed};

#[test]
fn it_moves_a_sequence_on_and_never_back() {
    let cluster = Cluster::with_hilo();
    let mut client = cluster.connect("postgres");
    client.run("SELECT hilo_create('s'), hilo_create('falling', increment => -2)");
    let advance = |client: &mut hilo_tests::Client, name: &str, to: i64| {
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

/// What is free, returned or held below it is not served any more; what is leased stays with its holder.
#[test]
fn nothing_below_it_is_served() {
    let cluster = Cluster::with_hilo();
    let mut client = cluster.connect("postgres");
    client.run("SELECT hilo_create('s')");
    let taken = lease(&mut client, "'s', 10");
    let mut other = cluster.connect("postgres");
    other.run("SELECT hilo_nextval('s') FROM generate_series(1, 20)");
    // What is to come back is yet to be served, also before the worker has filed it.
    assert_eq!(give_back(&mut client, &taken, 4), 7);
    assert!(client.one::<i64>("SELECT hilo_advance('s', 25)") > 25);
    let next = client.draw("s", 100);
    assert!(next.iter().all(|value| *value > 25), "{next:?}");
    let next = other.draw("s", 100);
    assert!(next.iter().all(|value| *value > 25), "{next:?}");
    wait_until_filed(&mut client);
    assert!(gaps(&mut client, "s").contains(&gap(4, 10, "altered")));
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
    client.run("SELECT hilo_create('s')");
    client.refusal("SELECT hilo_advance('s', 50)").is("55000").helps();
    cluster.finish();
}
