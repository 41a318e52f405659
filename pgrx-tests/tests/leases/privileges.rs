//! Who may take a lease, end it, and see it.

use hilo_tests::{ClientExt, Cluster};

use super::lease;

const ROLES: &str = "CREATE ROLE shop LOGIN; CREATE ROLE app LOGIN; CREATE ROLE other LOGIN; CREATE ROLE reader LOGIN;
    CREATE ROLE member LOGIN IN ROLE app; GRANT CREATE ON SCHEMA public TO shop; GRANT INSERT ON hilo_sequences TO shop;
    SET ROLE shop; SELECT hilo_create('orders'), hilo_create('secret');
    SELECT hilo_grant('orders', 'app', 'UPDATE'), hilo_grant('orders', 'other', 'LEASE'),
           hilo_grant('orders', 'reader', 'USAGE, SELECT')";

/// Taking one needs UPDATE or LEASE. With LEASE alone a role does nothing else.
#[test]
fn taking_a_lease_needs_update_or_lease() {
    let cluster = Cluster::with_hilo();
    cluster.connect("postgres").run(ROLES);
    for role in ["app", "other", "member", "shop"] {
        lease(&mut cluster.connect_as(role, "postgres"), "'orders', 5");
    }
    let mut reader = cluster.connect_as("reader", "postgres");
    reader.refusal("SELECT hilo_lease('orders', 5)").is("42501").details("UPDATE or LEASE").helps();
    let mut other = cluster.connect_as("other", "postgres");
    other.run("SELECT hilo_transfer('orders', 5, 'there', gen_random_uuid())");
    assert_eq!(other.all::<String>("SELECT name FROM hilo_sequences"), ["orders"]);
    for call in [
        "hilo_setval('orders', 5)",
        "hilo_advance('orders', 5000)",
        "hilo_nextval('orders')",
        "hilo_nextrange('orders', 5)",
        "hilo_currval('orders')",
        "hilo_alter('orders', increment => 2)",
    ] {
        other.refusal(&format!("SELECT {call}")).is("42501");
    }
    let mut app = cluster.connect_as("app", "postgres");
    app.refusal("SELECT hilo_lease('secret', 5)").is("42501");
    app.refusal("SELECT hilo_advance('secret', 5)").is("42501");
    reader.refusal("SELECT hilo_advance('orders', 5)").is("42501");
    reader.refusal("SELECT count(*) FROM _hilo.hilo_lease").is("42501");
    cluster.finish();
}

/// Only the role that took it, its members, the owner of the sequence and superusers end it.
#[test]
fn only_some_may_end_a_lease() {
    let cluster = Cluster::with_hilo();
    cluster.connect("postgres").run(ROLES);
    for call in
        ["hilo_lease_return('{}')", "hilo_lease_renew('{}', '1h')", "hilo_lease_revoke('{}')"]
    {
        for (role, may) in [
            ("app", true),
            ("member", true),
            ("shop", true),
            ("postgres", true),
            ("other", false),
            ("reader", false),
        ] {
            let taken = lease(&mut cluster.connect_as("app", "postgres"), "'orders', 5, 'pod'");
            let mut client = cluster.connect_as(role, "postgres");
            let call = format!("SELECT {}", call.replace("{}", &taken.token));
            match may {
                true => client.run(&call),
                false => drop(client.refusal(&call).is("42501").details("Only the role").helps()),
            }
        }
    }
    // By holder, those that the caller may end, and no error for the others.
    let count = "SELECT hilo_lease_revoke(holder => 'pod')";
    lease(&mut cluster.connect_as("other", "postgres"), "'orders', 5, 'pod'");
    assert_eq!(cluster.connect_as("reader", "postgres").one::<i64>(count), 0);
    assert_eq!(cluster.connect_as("other", "postgres").one::<i64>(count), 1);
    let left: i64 = cluster.connect("postgres").one("SELECT count(*) FROM hilo_leases");
    assert!(left > 0);
    assert_eq!(cluster.connect_as("shop", "postgres").one::<i64>(count), left);
    cluster.finish();
}

/// The view shows a role the leases of the sequences that it may read. It shows the name of a lease
/// to those who may end it.
#[test]
fn the_view_shows_what_a_role_may_know() {
    let cluster = Cluster::with_hilo();
    let mut admin = cluster.connect("postgres");
    admin.run(ROLES);
    lease(&mut cluster.connect_as("app", "postgres"), "'orders', 5, 'pod'");
    lease(&mut cluster.connect_as("shop", "postgres"), "'secret', 5");
    let seen = |role: &str| {
        cluster.connect_as(role, "postgres").all::<String>(
            "SELECT concat_ws(' ', name, holder, usename, lease IS NOT NULL) FROM hilo_leases ORDER BY name",
        )
    };
    assert_eq!(seen("shop"), ["orders pod app t", "secret shop t"]);
    assert_eq!(seen("app"), ["orders pod app t"]);
    assert_eq!(seen("other"), ["orders pod app f"]);
    assert_eq!(seen("reader"), ["orders pod app f"]);
    // A role that does not exist any more ends nothing; the lease stays.
    admin.run("RESET ROLE; DROP OWNED BY app; DROP ROLE app");
    assert_eq!(seen("reader").len(), 1);
    assert_eq!(admin.one::<i64>("SELECT hilo_lease_revoke(holder => 'pod')"), 1);
    cluster.finish();
}
