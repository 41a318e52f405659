//! What a lease is, and how it ends.

use hilo_tests::{ClientExt, Cluster, LONG, assert_unique, wait_until};

use super::{gaps, give_back, lease};

/// Leases and draws never get the same value, and what comes back is served before anything new.
#[test]
fn what_comes_back_is_served_before_anything_new() {
    let cluster = Cluster::with_hilo();
    let mut client = cluster.connect("postgres");
    client.run("SELECT hilo_create('orders')");
    let first = lease(&mut client, "'orders', 100, 'app-1'");
    assert_eq!((first.first, first.last, first.count), (1, 100, 100));
    let second = lease(&mut client, "'orders', 100, 'app-2'");
    let mut seen = [first.used(40), second.values(), client.draw("orders", 50)].concat();
    assert_unique("orders", &seen);
    assert_eq!(give_back(&mut client, &first, 41), 60);
    let row = "SELECT count(*) FROM hilo.lease WHERE holder = 'app-1'";
    wait_until("the worker has filed the lease", LONG, || client.one::<i64>(row) == 0);
    let mut other = cluster.connect("postgres");
    let next = other.draw("orders", 60);
    assert_eq!(next, (41..=100).collect::<Vec<_>>());
    seen.extend(next);
    assert_unique("orders", &seen);
    assert_eq!(gaps(&mut client, "orders"), []);
    client.refusal(&format!("SELECT hilo_lease_return('{}')", first.token)).is("42704").helps();
    cluster.finish();
}
