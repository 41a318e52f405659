//! The counts of a sequence continue, whatever becomes of memory.

use hilo_tests::{Client, ClientExt, Cluster, LONG, wait_until};

use crate::statistics::stat;

/// The counters that hilo_stat_sequences shows, and that the catalog keeps.
const TOTALS: [&str; 9] = [
    "served",
    "slices",
    "blocks_reserved",
    "blocks_prefetched",
    "waits",
    "wait_time_total",
    "recycled",
    "lost",
    "errors",
];

/// All counters of `s`: what the view shows, and what the catalog says.
fn totals(client: &mut Client) -> [Vec<f64>; 2] {
    let of = |prefix: &str| {
        let names = TOTALS.map(|name| {
            format!("{prefix}{name}").replace("total_wait_time_total", "total_wait_time")
        });
        format!("ARRAY[{}]::float8[]", names.join(", "))
    };
    let shown = format!("SELECT {} FROM hilo_stat_sequences WHERE name = 's'", of(""));
    let kept = format!("SELECT {} FROM hilo_sequences WHERE name = 's'", of("total_"));
    [client.all(&shown).pop().unwrap_or_default(), client.one(&kept)]
}

/// Every total is there again, and continues from there, when the worker has left or the server has
/// restarted. So it is when the slot has gone to another sequence. hilo_stat_reset alone begins
/// anew.
#[test]
fn totals_count_on() {
    let cluster = Cluster::builder().config("hilo.max_sequences", "32").start_with_hilo();
    let mut client = cluster.connect("postgres");
    client.run("SELECT hilo_create('s', block_size => 100)");
    client.run("SELECT hilo_create('n' || n) FROM generate_series(1, 100) n");
    // Another session takes what one returns from the middle of a block.
    let mut other = cluster.connect("postgres");
    other.draw("s", 20);
    client.draw("s", 1);
    drop(other);
    let returned = "SELECT in_returned FROM hilo_stat_sequences WHERE name = 's'";
    wait_until("the session has returned its rest", LONG, || client.one::<i64>(returned) > 0);
    client.draw("s", 500);
    // A setval makes slices worthless.
    let mut other = cluster.connect("postgres");
    other.draw("s", 10);
    client.run("SELECT hilo_setval('s', 1000000)");
    cluster.close(other);
    client.draw("s", 300);
    // A reservation fails.
    client.run("ALTER TABLE _hilo.hilo_position ADD COLUMN strange integer");
    client.refusal("SELECT hilo_nextval('s') FROM generate_series(1, 1000000)");
    client.run("ALTER TABLE _hilo.hilo_position DROP COLUMN strange");
    client.draw("s", 200);
    let [before, _] = totals(&mut client);
    for (name, total) in TOTALS.iter().zip(&before) {
        assert!(*total > 0.0, "{name}: {before:?}");
    }

    let goes_on = |client: &mut Client, by: u32, how: &str| {
        let active = "SELECT count(*) FROM hilo_stat_sequences WHERE name = 's'";
        wait_until(how, LONG, || client.one::<i64>(active) == 0);
        let [_, kept] = totals(client);
        client.draw("s", by as usize);
        let [now, _] = totals(client);
        assert!(kept.iter().zip(&now).all(|(kept, now)| kept <= now), "{how}: {kept:?}, {now:?}");
        assert_eq!(now[0], kept[0] + f64::from(by), "{how}");
        kept
    };
    drop(client);
    cluster.connect("template1").run("SELECT 1");
    let mut client = cluster.connect("postgres");
    let kept = goes_on(&mut client, 6, "the worker leaves a database that nobody uses");
    assert!(before.iter().zip(&kept).all(|(before, kept)| before <= kept), "{before:?}, {kept:?}");
    let [before, _] = totals(&mut client);
    drop(client);
    cluster.restart();
    let mut client = cluster.connect("postgres");
    let kept = goes_on(&mut client, 1, "the server restarts");
    assert!(before.iter().zip(&kept).all(|(before, kept)| before <= kept), "{before:?}, {kept:?}");
    for n in 1..=100 {
        client.draw(&format!("n{n}"), 1);
    }
    goes_on(&mut client, 1, "the slot is another sequence's");
    client.run("SELECT hilo_stat_reset('s')");
    assert_eq!(totals(&mut client)[0], [0.0; 9]);
    drop(client);
    cluster.restart();
    assert_eq!(totals(&mut cluster.connect("postgres"))[1], [0.0; 9]);
    cluster.finish();
}

/// The count of served values continues, whatever becomes of memory: the worker leaves, the server
/// restarts, the slot goes to another sequence.
#[test]
fn served_counts_on() {
    let cluster = Cluster::builder().config("hilo.max_sequences", "32").start_with_hilo();
    let mut client = cluster.connect("postgres");
    client.run("SELECT hilo_create('s')");
    client.run("SELECT hilo_create('n' || n) FROM generate_series(1, 100) n");
    let told = "SELECT total_served FROM hilo_sequences WHERE name = 's'";
    let active = "SELECT count(*) FROM hilo_stat_sequences WHERE name = 's'";
    client.draw("s", 1234);
    assert_eq!(stat(&mut client, "served", "s"), 1234);
    // The worker leaves a database that nobody uses.
    drop(client);
    cluster.connect("template1").run("SELECT 1");
    let mut client = cluster.connect("postgres");
    wait_until("no slot is left", LONG, || client.one::<i64>(active) == 0);
    assert_eq!(client.one::<i64>(told), 1234);
    client.draw("s", 6);
    assert_eq!(stat(&mut client, "served", "s"), 1240);
    // A slice that a session holds beyond a setval was not served.
    let mut other = cluster.connect("postgres");
    other.draw("s", 10);
    client.run("SELECT hilo_setval('s', 1000000)");
    drop(other);
    client.draw("s", 50);
    drop(client);
    cluster.restart();
    let mut client = cluster.connect("postgres");
    assert_eq!(client.one::<i64>(told), 1300);
    client.draw("s", 1);
    assert_eq!(stat(&mut client, "served", "s"), 1301);
    for n in 1..=100 {
        client.draw(&format!("n{n}"), 1);
    }
    wait_until("the slot is another sequence's", LONG, || client.one::<i64>(active) == 0);
    assert_eq!(client.one::<i64>(told), 1301);
    client.draw("s", 1);
    assert_eq!(stat(&mut client, "served", "s"), 1302);
    client.run("SELECT hilo_stat_reset('s')");
    client.draw("s", 2);
    assert_eq!(stat(&mut client, "served", "s"), 2);
    drop(client);
    cluster.restart();
    let mut client = cluster.connect("postgres");
    assert_eq!(client.one::<i64>(told), 2);
    cluster.finish();
}

/// The part of a lease that its holder has used was served, and what comes back was not.
#[test]
fn served_is_what_was_used_of_leases() {
    let cluster = Cluster::with_hilo();
    let mut client = cluster.connect("postgres");
    client.run("SELECT hilo_create('s')");
    client.draw("s", 10);
    for used in [0, 7, 50] {
        let end = format!(
            "SELECT hilo_lease_return(lease, first + {used}) FROM hilo_lease('s', 100, 'me') OFFSET 0"
        );
        client.run(&end);
    }
    let filed = "SELECT count(*) = 0 FROM hilo_leases";
    wait_until("the leases are filed", LONG, || {
        client.one::<bool>(filed) && stat(&mut client, "served", "s") == 10 + 57
    });
    client.run("SELECT l.* FROM hilo_lease('s', 100, 'gone') l");
    assert_eq!(stat(&mut client, "served", "s"), 67);
    client.run("SELECT hilo_lease_revoke(holder => 'gone')");
    client.draw("s", 1000);
    assert_eq!(stat(&mut client, "served", "s"), 1067);
    drop(client);
    cluster.restart();
    let mut client = cluster.connect("postgres");
    assert_eq!(client.one::<i64>("SELECT total_served FROM hilo_sequences"), 1067);
    cluster.finish();
}

/// hilo_stat_reset counts from zero again, including what a session continues to serve from the
/// slice that it had. Others' slices that setval has made worthless are lost, not served.
#[test]
fn resets_and_loses_truly() {
    let cluster = Cluster::with_hilo();
    let mut client = cluster.connect("postgres");
    let mut other = cluster.connect("postgres");
    client.run("SELECT hilo_create('again', slice_size => 64, block_size => 10000)");
    client.run("SELECT hilo_nextval('again') FROM generate_series(1, 70)");
    assert!(stat(&mut client, "in_slices", "again") > 10);
    client.run("SELECT hilo_stat_reset('again')");
    for column in
        ["served", "slices", "blocks_reserved", "blocks_prefetched", "waits", "recycled", "lost"]
    {
        assert_eq!(stat(&mut client, column, "again"), 0, "{column}");
    }
    client.run("SELECT hilo_nextval('again') FROM generate_series(1, 10)");
    assert_eq!(stat(&mut client, "served", "again"), 10);
    client.run("SELECT hilo_stat_reset()");
    assert_eq!(stat(&mut client, "served", "again"), 0);

    let held = stat(&mut client, "in_slices", "again");
    other.run("SELECT hilo_setval('again', 100000)");
    client.run("SELECT hilo_nextval('again') FROM generate_series(1, 5)");
    assert_eq!(stat(&mut client, "served", "again"), 5);
    assert!(stat(&mut client, "lost", "again") >= held);
    cluster.finish();
}
