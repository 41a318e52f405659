//! A centre and its branches, as in docs/multi-node.md: several servers draw from one sequence.

use std::thread;

use hilo_tests::{Client, ClientExt, Cluster, LONG, Mode, assert_unique, wait_until};

fn centre() -> Cluster {
    let centre = Cluster::builder().config("max_worker_processes", "20").start_with_hilo();
    centre.connect("postgres").run("SELECT hilo_create('orders', start_value => 100)");
    centre
}

fn branch_of(centre: &Cluster) -> Cluster {
    let branch = Cluster::builder()
        .own_identity()
        .config("max_worker_processes", "20")
        .config("hilo.source_timeout", "2s")
        .start_with_hilo();
    let at = centre.socket_directory().display();
    branch.connect("postgres").run(&format!(
        "CREATE EXTENSION dblink;
         CREATE SERVER centre FOREIGN DATA WRAPPER dblink_fdw
             OPTIONS (host '{at}', dbname 'postgres', connect_timeout '3');
         CREATE USER MAPPING FOR postgres SERVER centre OPTIONS (user 'postgres');
         SELECT hilo_attach_server('orders', 'centre')"
    ));
    branch
}

/// Draws on all these servers at the same time.
fn draw_on(servers: &[&Cluster], count: usize) -> Vec<i64> {
    let draw = |server: &&Cluster| server.connect("postgres").draw("orders", count);
    thread::scope(|scope| {
        let threads: Vec<_> =
            servers.iter().map(|server| scope.spawn(move || draw(server))).collect();
        threads.into_iter().flat_map(|one| one.join().expect("a server failed")).collect()
    })
}

/// Two branches and the centre draw while each of them is killed or stopped. A copy of a branch
/// draws beside it.
#[test]
fn a_centre_and_its_branches_serve_no_value_twice() {
    let centre = centre();
    let (one, two) = (branch_of(&centre), branch_of(&centre));
    let mut seen = draw_on(&[&centre, &one, &two], 5_000);
    centre.kill9_postmaster();
    seen.extend(draw_on(&[&one, &two], 50));
    centre.start();
    seen.extend(draw_on(&[&centre, &one, &two], 5_000));
    one.kill9_postmaster();
    one.start();
    two.restart();
    seen.extend(draw_on(&[&centre, &one, &two], 5_000));
    let copy = one.clone_by_base_backup();
    one.wait_for_replay(&copy);
    copy.promote();
    seen.extend(draw_on(&[&centre, &one, &two, &copy], 5_000));
    assert_unique("orders", &seen);
    let kept = "SELECT count(*) FROM hilo_gaps WHERE reason <> 'crash'";
    assert_eq!(two.connect("postgres").one::<i64>(kept), 0);
}

/// Both are on the same timeline. Each is a receiver of its own, before and after a restart.
#[test]
fn two_copies_of_one_branch_are_two_receivers() {
    let centre = centre();
    let branch = branch_of(&centre);
    let mut seen = draw_on(&[&branch], 100);
    let copies = [branch.clone_by_base_backup(), branch.clone_by_base_backup()];
    copies.iter().for_each(|copy| branch.wait_for_replay(copy));
    branch.kill9_postmaster();
    copies.iter().for_each(Cluster::promote);
    for count in [50_000, 5_000, 60_000] {
        seen.extend(draw_on(&[&copies[0]], count));
        seen.extend(draw_on(&[&copies[1]], 5_000));
        copies[0].restart();
    }
    assert_unique("orders", &seen);
    let receivers: Vec<String> = centre.connect("postgres").all("SELECT holder FROM hilo_leases");
    let names: std::collections::HashSet<_> = receivers.iter().collect();
    assert_eq!((receivers.len(), names.len()), (3, 3), "{receivers:?}");
}

/// A copy of its files runs beside a branch, on the same timeline: neither can tell. The one whose
/// request comes after a later one of the other's learns of it, parts from the other, and goes on.
#[test]
fn a_branch_finds_a_copy_of_itself_and_goes_on() {
    let centre = centre();
    let branch = branch_of(&centre);
    draw_on(&[&branch], 100);
    let copy = branch.clone_by_base_backup();
    branch.wait_for_replay(&copy);
    copy.stop(Mode::Fast);
    std::fs::remove_file(copy.data_directory().join("standby.signal")).expect("it was a standby");
    copy.start();
    let mut of_copy = draw_on(&[&copy], 100_000);
    let mut client = branch.connect("postgres");
    let found = "SELECT count(*) FROM hilo_check() WHERE what LIKE 'a copy of this server%'";
    wait_until("the branch finds the copy", LONG, || {
        client.draw("orders", 1_000);
        client.one::<i64>(found) == 1
    });
    branch.expect_in_log("a copy of this server asks for values of hilo sequence \"orders\"");
    // Only what both had when the copy was made may have come twice.
    let mut seen = draw_on(&[&branch], 100_000);
    of_copy.extend(draw_on(&[&copy], 100_000));
    seen.extend(draw_on(&[&branch], 100_000));
    assert_unique("orders", &[seen, of_copy].concat());
    let gap = "SELECT count(*) > 0 FROM hilo_gaps WHERE reason = 'restored'";
    assert!(client.one::<bool>(gap));
    client.run("SELECT hilo_attach_server('orders', 'centre')");
    assert_eq!(client.one::<i64>(found), 0);
}

/// The advice of the page for a copy of the files keeps column defaults, and the original does not notice.
#[test]
fn a_copy_that_forgets_what_it_holds_serves_nothing_of_the_original() {
    let centre = centre();
    let branch = branch_of(&centre);
    branch
        .connect("postgres")
        .run("CREATE TABLE orders (id bigint DEFAULT hilo_nextval('orders'), line text)");
    let mut seen = draw_on(&[&branch], 100);
    branch.stop(Mode::Fast);
    let copy = branch.clone_by_copy();
    branch.start();
    copy.start();
    let mut client = copy.connect("postgres");
    client.run("SELECT hilo_detach('orders', 1000000000000)");
    client.run("SELECT hilo_attach_server('orders', 'centre')");
    for _ in 0..3 {
        seen.extend(draw_on(&[&branch, &copy], 50_000));
    }
    seen.push(client.one("INSERT INTO orders (line) VALUES ('one') RETURNING id"));
    assert_unique("orders", &seen);
    for server in [&branch, &copy] {
        let found = "SELECT count(*) FROM hilo_check() WHERE object LIKE 'sequence %'";
        assert_eq!(server.connect("postgres").one::<i64>(found), 0);
    }
}

/// No request is for more than a lease may have, and one that the centre refuses is given up.
#[test]
fn no_request_stops_a_branch_for_good() {
    let centre = centre();
    let branch = branch_of(&centre);
    let mut client = branch.connect("postgres");
    let mut seen = client.draw("orders", 10);
    let mut there = centre.connect("postgres");
    there.run("SELECT hilo_rename('orders', 'away')");
    draw_until_refused(&mut client);
    there.run("SELECT hilo_rename('away', 'orders')");
    wait_until("it is served again", LONG, || {
        let Ok(row) = client.query_one("SELECT hilo_nextval('orders')", &[]) else { return false };
        seen.push(row.get::<_, i64>(0));
        true
    });
    client.run("SET hilo.reserve_timeout = '500ms'");
    // So many come, if at all, by many requests.
    let _ = client.batch_execute("SELECT hilo_nextrange('orders', 1000000000001)");
    client.run("RESET hilo.reserve_timeout");
    let most = "SELECT coalesce(max(wanted), 0) <= 1000000000 FROM _hilo.hilo_source";
    assert!(client.one::<bool>(most));
    seen.extend(client.draw("orders", 50_000));
    assert_unique("orders", &seen);
}

/// The centre's standby lacks what was given out last: it skips that, and the branch goes on there.
#[test]
fn a_promoted_centre_gives_nothing_out_twice() {
    let centre = centre();
    let branch = branch_of(&centre);
    let mut seen = draw_on(&[&branch], 100);
    let standby = centre.clone_by_base_backup();
    standby.stop(Mode::Fast);
    seen.extend(draw_on(&[&centre, &branch], 3_000));
    centre.stop(Mode::Immediate);
    standby.start();
    standby.promote();
    let at = standby.socket_directory().display();
    let moved = format!("ALTER SERVER centre OPTIONS (SET host '{at}')");
    branch.connect("postgres").run(&moved);
    seen.extend(draw_on(&[&standby, &branch], 50_000));
    assert_unique("orders", &seen);
}

/// The commands of the page, with a password and a role that is no superuser.
#[test]
fn the_commands_of_the_page_make_a_branch() {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/multi-node.md");
    let page = std::fs::read_to_string(page).expect("the page");
    let page = page.split("\n## ").find(|part| part.starts_with("Branches\n")).expect("a section");
    let block = |fence: &str| page.split(fence).nth(1).and_then(|rest| rest.split("```").next());
    // An address of its own, since other servers listen too.
    let address = format!("127.79.{}.{}", fastrand::u8(1..255), fastrand::u8(1..255));
    let centre = Cluster::builder().config("listen_addresses", &address).start_with_hilo();
    let rules = centre.data_directory().join("pg_hba.conf");
    let others = std::fs::read_to_string(&rules).expect("rules");
    let rule = "host all branch 127.0.0.0/8 scram-sha-256\n";
    std::fs::write(&rules, format!("{rule}{others}")).expect("rules");
    centre.reload();
    let each = |client: &mut Client, script: &str| {
        script.split(';').filter(|one| !one.trim().is_empty()).for_each(|one| client.run(one));
    };
    each(&mut centre.connect("postgres"), block("```sql\n").expect("commands of the centre"));
    let branch = Cluster::builder().own_identity().start_with_hilo();
    let mut client = branch.connect("postgres");
    let commands = block("```text\n").expect("commands of a branch");
    let commands = commands.replace("centre.example", &address).replace("'app'", "'postgres'");
    client.run("CREATE ROLE shop; GRANT CREATE ON SCHEMA public TO shop; GRANT INSERT ON hilo_sequences TO shop");
    each(&mut client, &commands);
    let source = "SELECT received > 0 AND last_error IS NULL FROM hilo_stat_sources";
    assert!(client.one::<bool>(source));
    let mut seen = client.draw("orders", 5_000);
    seen.extend(draw_on(&[&centre, &branch], 5_000));
    assert_unique("orders", &seen);
}

fn draw_until_refused(client: &mut Client) -> String {
    let draw = "SELECT count(hilo_nextval('orders')) FROM generate_series(1, 10000000)";
    client.refusal(draw).report().message().to_owned()
}

/// After a renumbering at the centre a branch says so, and follows when it is attached again.
#[test]
fn a_renumbered_centre_stops_its_branches_until_they_are_attached_again() {
    let centre = centre();
    let branch = branch_of(&centre);
    let mut client = branch.connect("postgres");
    client.draw("orders", 10);
    centre.connect("postgres").run("SELECT hilo_setval('orders', 50000000)");
    let refused = draw_until_refused(&mut client);
    assert!(refused.contains("must be attached to server \"centre\" again"), "{refused}");
    client.run("SELECT hilo_attach_server('orders', 'centre')");
    assert!(client.one::<i64>("SELECT hilo_nextval('orders')") > 50_000_000);
    client.refusal("SELECT hilo_detach('orders')").is("22023").helps();
    client.refusal("SELECT hilo_detach('orders', 50000000)").is("55000").helps();
    assert_eq!(client.one::<i64>("SELECT hilo_detach('orders', 90000000)"), 90_000_000);
    assert_eq!(client.one::<i64>("SELECT hilo_nextval('orders')"), 90_000_000);
    for (name, says) in
        [("none", "there is no hilo sequence \"none\""), ("g", "cannot have branches")]
    {
        centre
            .connect("postgres")
            .run("SELECT hilo_create('g', gapless => true, if_not_exists => true)");
        let attach = format!("SELECT hilo_attach_server('{name}', 'centre')");
        client.refusal(&attach).is("55000").says(says).helps();
    }
}

/// A branch leaves out what it has had, when a centre that was set back gives it again, and passes it.
#[test]
fn a_centre_that_was_set_back_repeats_nothing_at_its_branches() {
    let centre = centre();
    let branch = branch_of(&centre);
    let mut client = branch.connect("postgres");
    let mut seen = client.draw("orders", 10);
    seen.push(client.one("SELECT last FROM hilo_nextrange('orders', 100000)"));
    let furthest = seen[10];
    centre.connect("postgres").run("SELECT hilo_setval('orders', 90)");
    client.run("SELECT hilo_attach_server('orders', 'centre')");
    assert!(client.one::<bool>("SELECT dblink_get_connections() IS NULL"));
    seen.extend(client.draw("orders", 9));
    assert!(seen.contains(&91), "what it has not had is served");
    wait_until("the branch is beyond what it has had", LONG, || {
        // It may have got many before.
        let draw = "SELECT hilo_nextval('orders') FROM generate_series(1, 1000)";
        client.query(draw, &[]).is_ok_and(|rows| {
            seen.extend(rows.iter().map(|row| row.get::<_, i64>(0)));
            seen[seen.len() - 1] > furthest
        })
    });
    seen.extend(client.draw("orders", 1_000));
    assert_unique("orders", &seen);
}

/// A centre that is frozen holds up neither other sequences nor a stop, and what was asked of it
/// comes when it goes on.
#[test]
fn a_frozen_centre_holds_up_its_branches_only_when_they_have_nothing_left() {
    let centre = centre();
    let branch = branch_of(&centre);
    let mut client = branch.connect("postgres");
    client.run("SELECT hilo_create('other')");
    let mut seen = client.draw("orders", 10);
    let frozen = centre.freeze();
    client.run("SET hilo.reserve_timeout = '20s'");
    let draw = "SELECT hilo_nextval('orders')";
    let mut held = Vec::new();
    while let Ok(row) = client.query_one(draw, &[]) {
        held.push(row.get::<_, i64>(0));
    }
    seen.extend(held);
    client.draw("other", 1_000);
    branch.stop(Mode::Fast);
    drop(frozen);
    branch.start();
    let mut client = branch.connect("postgres");
    wait_until("the centre answers", LONG, || client.query_one(draw, &[]).is_ok());
    seen.extend(client.draw("orders", 5_000));
    assert_unique("orders", &seen);
}
