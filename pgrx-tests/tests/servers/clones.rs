//! Servers whose data directory was copied while the original keeps running: hilo recognises what can be
//! recognised.

use hilo_tests::{ClientExt, Cluster, LONG, Mode, Seen, Way, wait_until};

/// A base backup that was promoted knows it by its timeline. It skips what the original may have
/// reserved since, says so in its log, and hilo_check says it before the first use.
#[test]
fn a_promoted_copy_skips_what_the_original_may_serve() {
    let original = Cluster::builder().config("hilo.failover_skip", "50000").start_with_hilo();
    let mut there = original.connect("postgres");
    there.run("SELECT hilo_create('copied'), hilo_create('unused')");
    let seen = [Seen::new(Way::Rising), Seen::new(Way::Rising)];
    seen[0].session().saw(&there.draw("copied", 100));
    let copy = original.clone_by_base_backup();
    original.wait_for_replay(&copy);
    copy.promote();
    let mut here = copy.connect("postgres");
    let found = "SELECT what FROM hilo_check() WHERE object = 'node 0'";
    assert!(here.one::<String>(found).contains("before this server was promoted or copied"));
    for (name, seen) in ["copied", "unused"].into_iter().zip(&seen) {
        seen.session().saw(&there.draw(name, 10_000));
        seen.session().saw(&here.draw(name, 10_000));
        seen.session().saw(&there.draw(name, 10_000));
        seen.assert_unique();
    }
    assert_eq!(
        copy.log_count("was reserved before this server was promoted, restored or copied"),
        1
    );
    assert_eq!(here.all::<String>(found), Vec::<String>::new());
    assert_eq!(original.log_count("skipping the next"), 0);
    copy.finish();
    original.finish();
}

/// A copy that is given a hilo.node_id of its own before it starts serves other numbers. It does so
/// however it was made and for however long both run.
#[test]
fn a_copy_with_an_id_of_its_own_serves_other_numbers() {
    let original = Cluster::builder().node(0, 3).start_with_hilo();
    original.connect("postgres").run("SELECT hilo_create('copied')");
    let seen = Seen::new(Way::Rising);
    seen.session().saw(&original.connect("postgres").draw("copied", 100));
    original.stop(Mode::Fast);
    let copy = original.clone_by_copy();
    copy.configure("hilo.node_id", "1");
    original.start();
    copy.start();
    let backup = original.clone_by_base_backup();
    backup.configure("hilo.node_id", "2");
    backup.restart();
    backup.promote();
    for _ in 0..3 {
        for cluster in [&original, &copy, &backup] {
            seen.session().saw(&cluster.connect("postgres").draw("copied", 3_000));
        }
    }
    seen.assert_unique();
    assert_eq!(seen.count(), 27_100);
}

/// A copy made file by file of a stopped server is its twin in everything. Where the rows of hilo
/// are replicated from one to the other, the twin is known by its life. It is said in the log and
/// by hilo_check, and its position is kept out.
#[test]
fn a_twin_is_recognised_by_what_it_replicates() {
    let original = Cluster::builder().logical().start_with_hilo();
    let mut there = original.connect("postgres");
    there.run("CREATE PUBLICATION own FOR TABLE _hilo.hilo_definition, _hilo.hilo_position, _hilo.hilo_privilege");
    there.run("SELECT hilo_create('copied'); SELECT hilo_grant('copied', 'public', 'USAGE')");
    there.draw("copied", 10);
    drop(there);
    original.stop(Mode::Fast);
    let twin = original.clone_by_copy();
    original.start();
    twin.start();
    let mut here = twin.connect("postgres");
    let mine = here.draw("copied", 5)[0];
    let mut there = original.connect("postgres");
    assert_eq!(there.draw("copied", 1)[0], mine, "what nobody can tell from inside");
    assert_eq!(here.one::<i64>("SELECT count(*) FROM hilo_check() WHERE object = 'node 0'"), 0);
    twin.subscribe("own", &original, "own", "");
    there.draw("copied", 20_000);
    original.wait_for_apply("own");
    let warning = "another server reserves values as node 0, which is the node of this server";
    wait_until("the copy logs the warning", LONG, || twin.log_count(warning) > 0);
    let found = "SELECT severity || ': ' || what FROM hilo_check() WHERE object = 'node 0'";
    let found = here.one::<String>(found);
    assert!(found.starts_with("error: ") && found.contains("serves the same values"), "{found}");
    assert_eq!(here.draw("copied", 1)[0], mine + 5, "its position is its own");
    twin.finish();
    original.finish();
}

/// A standby that pg_createsubscriber has made a server of its own knows it too, by its system
/// identifier. It says so until each sequence was used. From pg_upgrade it can be told by its
/// timeline.
#[test]
fn a_converted_standby_skips_what_the_original_may_serve() {
    let original =
        Cluster::builder().logical().config("hilo.failover_skip", "50000").start_with_hilo();
    if original.version() < 17 {
        println!("SKIPPED: pg_createsubscriber is part of PostgreSQL 17");
        return;
    }
    let mut there = original.connect("postgres");
    there.run("SELECT hilo_create('copied'), hilo_create('later')");
    let seen = [Seen::new(Way::Rising), Seen::new(Way::Rising)];
    for (name, seen) in ["copied", "later"].into_iter().zip(&seen) {
        seen.session().saw(&there.draw(name, 100));
    }
    let copy = original.clone_by_base_backup();
    original.wait_for_replay(&copy);
    copy.stop(Mode::Fast);
    original.convert_to_subscriber(&copy);
    copy.start();
    let mut here = copy.connect("postgres");
    let found = "SELECT what FROM hilo_check() WHERE object = 'node 0'";
    let says = "from which this server was made by pg_createsubscriber";
    let first: String = here.one(found);
    assert!(first.starts_with("2 positions") && first.contains(says), "{first}");
    for (name, seen) in ["copied", "later"].into_iter().zip(&seen) {
        seen.session().saw(&there.draw(name, 10_000));
        seen.session().saw(&here.draw(name, 10_000));
        seen.assert_unique();
    }
    assert_eq!(here.all::<String>(found), Vec::<String>::new());
    copy.finish();
    original.finish();
}

/// A dump of a replica brings positions that lack what its publisher has reserved since: hilo_check says
/// so, and the first use skips it.
#[test]
fn a_restored_replica_skips_what_the_publisher_may_serve() {
    let start = || Cluster::builder().logical().config("hilo.failover_skip", "50000");
    let (publisher, replica) = (start().start_with_hilo(), start().start_with_hilo());
    let restored = start().own_identity().preload(true).start();
    let mut there = publisher.connect("postgres");
    there.run("CREATE PUBLICATION own FOR TABLE _hilo.hilo_definition, _hilo.hilo_position, _hilo.hilo_privilege");
    there.run("SELECT hilo_create('copied')");
    let seen = Seen::new(Way::Rising);
    seen.session().saw(&there.draw("copied", 100));
    replica.subscribe("own", &publisher, "own", "");
    restored.restore("postgres", &replica.pg_dump("postgres", &["--no-subscriptions"]));
    let found = "SELECT what FROM hilo_check() WHERE object = 'node 0'";
    let of_replica: String = replica.connect("postgres").one(found);
    assert!(of_replica.contains("arrived by replication"), "{of_replica}");
    let mut here = restored.connect("postgres");
    let of_restored: String = here.one(found);
    assert!(of_restored.contains("were restored from a dump"), "{of_restored}");
    seen.session().saw(&there.draw("copied", 10_000));
    seen.session().saw(&here.draw("copied", 10_000));
    seen.assert_unique();
    assert_eq!(here.all::<String>(found), Vec::<String>::new());
    restored.finish();
}
