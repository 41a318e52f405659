//! No session, absent or present, keeps a place from others: neither a slot nor a place among the workers.

use std::thread;

use hilo_tests::{Client, ClientExt, Cluster, LONG, assert_unique, wait_until};

/// As few as hilo.max_sequences allows.
const PLACES: usize = 16;

fn with_few_places() -> Cluster {
    Cluster::builder()
        .config("hilo.max_sequences", &PLACES.to_string())
        .config("hilo.worker_idle_timeout", "100ms")
        .config("hilo.max_backend_slices", "64")
        .start_with_hilo()
}

/// Creates and drops more databases than there are places, with what `used` does to the sequence of
/// each in between. Then the first database still has a place for a sequence.
fn databases_come_and_go(used: impl Fn(&Cluster, Client), drop: &str) {
    let cluster = with_few_places();
    let mut admin = cluster.connect("postgres");
    admin.run("SELECT hilo_create('s')");
    admin.run("CREATE DATABASE template");
    cluster.connect("template").run("CREATE EXTENSION hilo; SELECT hilo_create('s')");
    for _ in 0..PLACES + 4 {
        wait_until("no session is in the template", LONG, || {
            admin.batch_execute("CREATE DATABASE shop TEMPLATE template").is_ok()
        });
        used(&cluster, cluster.connect("shop"));
        wait_until("the database is dropped", LONG, || admin.batch_execute(drop).is_ok());
    }
    assert_eq!(admin.draw("s", 3), [1, 2, 3]);
    cluster.finish();
}

/// A session of which a sequence was altered, and nobody drew.
#[test]
fn databases_with_altered_sequences_come_and_go() {
    databases_come_and_go(
        |_, mut client| client.run("SELECT hilo_alter('s', max_value => 1000)"),
        "DROP DATABASE shop",
    );
}

/// Whose worker was terminated before the last session left.
#[test]
fn databases_whose_worker_was_terminated_come_and_go() {
    databases_come_and_go(
        |cluster, mut client| {
            assert_eq!(client.draw("s", 100).len(), 100);
            cluster.terminate_worker("shop");
        },
        "DROP DATABASE shop",
    );
}

/// Dropped with force, while a session holds values and another has an alteration open.
#[test]
fn databases_dropped_with_force_come_and_go() {
    let open = std::cell::RefCell::new(Vec::new());
    databases_come_and_go(
        |cluster, mut client| {
            assert_eq!(client.draw("s", 100).len(), 100);
            let mut altering = cluster.connect("shop");
            altering.run("BEGIN; SELECT hilo_alter('s', max_value => 1000)");
            altering.draw("s", 1);
            open.borrow_mut().extend([client, altering]);
        },
        "DROP DATABASE shop WITH (FORCE)",
    );
}

/// Creates more sequences than there are slots.
fn more_than_there_are_places(client: &mut Client) -> Vec<String> {
    let names: Vec<String> = (0..PLACES + 8).map(|number| format!("s{number}")).collect();
    for name in &names {
        client.run(&format!("SELECT hilo_create('{name}')"));
    }
    names
}

/// One session alone goes through more sequences than there are places. When they come back soon,
/// `hilo_check` says that there are too few.
#[test]
fn a_session_lets_its_own_go() {
    let cluster = with_few_places();
    let mut client = cluster.connect("postgres");
    let names = more_than_there_are_places(&mut client);
    let mut seen = vec![Vec::new(); names.len()];
    let found = "SELECT count(*) FROM hilo_check() \
                 WHERE what LIKE '%lost their slots%' AND what_to_do LIKE 'Raise hilo.max_sequences%'";
    for round in 0..3 {
        for (name, seen) in names.iter().zip(&mut seen) {
            seen.extend(client.draw(name, 5));
        }
        assert_eq!(client.one::<i64>(found), i64::from(round > 0), "round {round}");
    }
    for (name, seen) in names.iter().zip(&seen) {
        assert_unique(name, seen);
    }
    cluster.finish();
}

/// An idle session that holds values of as many sequences as there are places delays no other session; it
/// continues without a number twice.
#[test]
fn an_idle_session_holds_up_nobody() {
    let cluster = with_few_places();
    let mut idle = cluster.connect("postgres");
    let names = more_than_there_are_places(&mut idle);
    let mut seen = vec![Vec::new(); names.len()];
    for (name, seen) in names.iter().zip(&mut seen).take(PLACES) {
        seen.extend(idle.draw(name, 5));
    }
    let mut other = cluster.connect("postgres");
    for client in [&mut other, &mut idle] {
        for (name, seen) in names.iter().zip(&mut seen).rev() {
            seen.extend(client.draw(name, 5));
        }
    }
    for (name, seen) in names.iter().zip(&seen) {
        assert_unique(name, seen);
    }
    cluster.finish();
}

/// The places of dropped sequences are free at once, whichever session still holds values of them.
#[test]
fn dropped_sequences_have_no_place() {
    let cluster = with_few_places();
    let mut idle = cluster.connect("postgres");
    let names = more_than_there_are_places(&mut idle);
    for name in &names[..PLACES] {
        idle.draw(name, 5);
    }
    let mut other = cluster.connect("postgres");
    for name in &names[..PLACES] {
        other.run(&format!("SELECT hilo_drop('{name}')"));
    }
    for name in &names[PLACES..] {
        assert_eq!(other.draw(name, 3), [1, 2, 3]);
    }
    cluster.finish();
}

/// Many databases with a session each that stays connected share a few workers: each gets its numbers.
#[test]
fn databases_share_the_workers() {
    const DATABASES: usize = 40;
    let cluster = Cluster::builder()
        .config("max_worker_processes", "8")
        .config("max_connections", "80")
        .config("hilo.reserve_timeout", "60s")
        .start_with_hilo();
    let mut admin = cluster.connect("postgres");
    admin.run("CREATE DATABASE template");
    let mut template = cluster.connect("template");
    template.run("CREATE EXTENSION hilo; SELECT hilo_create('s')");
    cluster.close(template);
    for number in 0..DATABASES {
        admin.run(&format!("CREATE DATABASE d{number} TEMPLATE template STRATEGY file_copy"));
    }
    let draw = &|number: usize| -> Result<Client, String> {
        let mut client = cluster.connect(&format!("d{number}"));
        let mut seen = Vec::new();
        for count in [1, 1, 200, 3, 1_000] {
            let sql = format!("SELECT hilo_nextval('s') FROM generate_series(1, {count})");
            let rows = client.query(&sql, &[]).map_err(|error| format!("d{number}: {error:?}"))?;
            seen.extend(rows.iter().map(|row| row.get::<_, i64>(0)));
        }
        assert_unique(&format!("d{number}"), &seen);
        Ok(client)
    };
    // Each stays connected until all have theirs.
    let outcomes: Vec<_> = thread::scope(|scope| {
        let sessions: Vec<_> =
            (0..DATABASES).map(|number| scope.spawn(move || draw(number))).collect();
        sessions.into_iter().map(|session| session.join().expect("it has ended")).collect()
    });
    let starved: Vec<_> = outcomes.iter().filter_map(|outcome| outcome.as_ref().err()).collect();
    assert!(starved.is_empty(), "{} databases starved, such as {}", starved.len(), starved[0]);
    cluster.finish();
}
