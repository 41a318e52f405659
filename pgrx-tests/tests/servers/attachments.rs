//! An attachment that cannot work is refused, and one that no longer works says why.

use hilo_tests::{Client, ClientExt, Cluster, LONG, wait_until};

/// The databases `centre` and `branch` of one server, and of both the foreign server for the other
/// one.
fn with_both() -> (Cluster, Client, Client) {
    let cluster = Cluster::builder().config("max_worker_processes", "20").start_with_hilo();
    cluster.connect("postgres").run("CREATE DATABASE branch TEMPLATE template0");
    cluster.connect("postgres").run("CREATE DATABASE centre TEMPLATE template0");
    cluster.connect("postgres").run("CREATE ROLE guest LOGIN");
    let at = cluster.socket_directory().display();
    let [centre, branch] = ["centre", "branch"].map(|name| {
        let mut client = cluster.connect(name);
        client.run("CREATE EXTENSION hilo; CREATE EXTENSION dblink");
        for there in ["centre", "branch"] {
            client.run(&format!(
                "CREATE SERVER {there} FOREIGN DATA WRAPPER dblink_fdw OPTIONS (host '{at}', dbname '{there}');
                 CREATE USER MAPPING FOR postgres SERVER {there} OPTIONS (user 'postgres')"
            ));
        }
        client
    });
    (cluster, centre, branch)
}

/// Uses up what the branch holds, and more.
const DRAW: &str = "SELECT count(hilo_nextval('s')) FROM generate_series(1, 1000000)";

/// The text of the last failure of its source, with DETAIL and HINT.
fn last_error(client: &mut Client) -> String {
    client.one("SELECT last_error FROM hilo_stat_sources WHERE name = 's'")
}

/// Each reason why a centre gives nothing has its own words, and what they advise helps.
#[test]
fn a_centre_that_gives_nothing_has_one_text_for_each_reason() {
    let (_cluster, mut centre, mut branch) = with_both();
    centre.run("SELECT hilo_create('s', max_value => 1000000000)");
    branch.run("SELECT hilo_attach_server('s', 'centre')");
    centre.run("SELECT hilo_setval('s', 50000000)");
    let again = "Call hilo_attach_server('s', 'centre').";
    branch
        .refusal(DRAW)
        .is("55000")
        .says("must be attached to server \"centre\" again: it has been renumbered there");
    assert!(last_error(&mut branch).ends_with(again));
    branch.run("SELECT hilo_attach_server('s', 'centre')");
    branch.run("SELECT hilo_nextval('s')");

    centre.run("SELECT hilo_rename('s', 't')");
    branch
        .refusal(DRAW)
        .is("55000")
        .says("has been renamed on server \"centre\": it is \"t\" there");
    assert!(last_error(&mut branch).ends_with("Call hilo_attach_server('s', 'centre', 't')."));
    branch.run("SELECT hilo_attach_server('s', 'centre', 't')");
    branch.run("SELECT hilo_nextval('s')");

    centre.run("SELECT hilo_drop('t')");
    branch
        .refusal(DRAW)
        .is("55000")
        .says("hilo sequence \"t\" has been dropped on server \"centre\"");
    centre.run("SELECT hilo_create('t', start_value => 500000000)");
    branch
        .refusal(DRAW)
        .is("55000")
        .says("has been dropped on server \"centre\" and created again");
    branch.run("SELECT hilo_attach_server('s', 'centre', 't')");
    assert!(branch.one::<i64>("SELECT hilo_nextval('s')") >= 500_000_000);

    branch.run("ALTER USER MAPPING FOR postgres SERVER centre OPTIONS (SET user 'guest')");
    let asking = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE backend_type = 'hilo source'";
    branch.one::<i64>(asking);
    for privileges in ["USAGE", ""] {
        if !privileges.is_empty() {
            centre.run("SELECT hilo_grant('t', 'guest', 'USAGE')");
        } else {
            centre.run("SELECT hilo_revoke('t', 'guest', 'USAGE')");
        }
        branch
            .refusal(DRAW)
            .is("42501")
            .says("server \"centre\": permission denied for hilo sequence \"t\"");
        assert!(last_error(&mut branch).contains("Grant LEASE on it there"));
    }
    centre.run("SELECT hilo_grant('t', 'guest', 'LEASE')");
    hilo_tests::wait_until("the branch gets values again", hilo_tests::LONG, || {
        branch.query_one("SELECT hilo_nextval('s')", &[]).is_ok()
    });
}

/// The error of a connection names the server, and says in its DETAIL what happened.
#[test]
fn a_failed_connection_names_the_server_and_the_cause() {
    let (cluster, mut centre, mut branch) = with_both();
    centre.run("SELECT hilo_create('s')");
    branch
        .refusal("SELECT hilo_attach_server('s', 'none')")
        .is("42704")
        .says("server \"none\" does not exist")
        .helps();
    branch.refusal("SELECT hilo_attach_server('s', 'dbname=centre')").is("42704");
    branch.run(
        "SELECT hilo_attach_server('s', 'centre'); ALTER SERVER centre OPTIONS (SET dbname 'gone')",
    );
    branch
        .refusal("SELECT hilo_nextval('s')")
        .says("its source failed: server \"centre\": could not establish connection");
    assert!(last_error(&mut branch).contains("database \"gone\" does not exist"));
    cluster.expect_in_log("database \"gone\" does not exist");
    branch
        .refusal("SELECT hilo_attach_server('s', 'centre')")
        .says("server \"centre\"")
        .details("gone")
        .hints("Look whether server \"centre\" answers");
}

/// The HINT is right in the state that raised the error, and no part of the report is empty.
#[test]
fn what_a_server_refuses_comes_with_advice_that_helps() {
    let (_cluster, mut centre, mut branch) = with_both();
    centre.run("SELECT hilo_create('s', max_value => 100000000)");
    branch.run(
        "CREATE ROLE shop; GRANT INSERT ON hilo_sequences TO shop;
         CREATE USER MAPPING FOR shop SERVER centre OPTIONS (user 'postgres', password 'none')",
    );
    let attach = "SELECT hilo_attach_server('s', 'centre')";
    branch.run("SET ROLE shop");
    let refused = branch.refusal(attach).is("42501").hints("USAGE ON FOREIGN SERVER");
    assert_eq!(refused.report().detail(), None);
    let grant = refused.report().hint().and_then(|hint| hint.strip_prefix("Grant it here: "));
    let grant = grant.expect("it is a statement").to_owned();
    branch.run(&format!("RESET ROLE; {grant}; SET ROLE shop"));
    // The centre does not ask for the password, which dblink wants of roles like that. Its text
    // differs by version.
    branch.refusal(attach).is("2F003").details("Non-superuser");
    branch.run("RESET ROLE; SELECT hilo_attach_server('s', 'centre')");
    branch.refusal("SELECT hilo_detach('s')").is("22023").says("start must not be null");
    centre.run("ALTER DATABASE centre SET default_transaction_read_only = on");
    branch.refusal(DRAW).is("25006");
    assert!(last_error(&mut branch).ends_with("must lead to a primary that may write."));
    centre.run("ALTER DATABASE centre RESET default_transaction_read_only");
    branch.run("SELECT hilo_detach('s', 99000000)");
    branch.refusal("SELECT hilo_detach('s')").is("55000").says("has no source");
}

/// A query that a branch gives up is cancelled at the centre, where sessions that wait for a lock would pile up.
#[test]
fn what_a_branch_gives_up_ends_at_the_centre() {
    let (cluster, mut centre, mut branch) = with_both();
    cluster.configure("hilo.source_timeout", "200ms");
    cluster.reload();
    centre.run("SELECT hilo_create('s')");
    branch.run("SELECT hilo_attach_server('s', 'centre')");
    centre.run("BEGIN; LOCK TABLE _hilo.hilo_lease");
    let failures = "SELECT coalesce(max(failures), 0) FROM _hilo.hilo_source";
    hilo_tests::wait_until("it has been asked many times", hilo_tests::LONG, || {
        branch.refusal("SELECT hilo_nextval('s')");
        branch.one::<i32>(failures) >= 6
    });
    let waiting = "SELECT count(*) FROM pg_stat_activity WHERE datname = 'centre' AND wait_event_type = 'Lock'";
    let waiting: i64 = branch.one(waiting);
    assert!(waiting <= 2, "{waiting} sessions wait at the centre");
    centre.run("ROLLBACK");
    hilo_tests::wait_until("the branch gets values", hilo_tests::LONG, || {
        branch.query_one("SELECT hilo_nextval('s')", &[]).is_ok()
    });
}

/// A sequence that would get its own values is refused, however many sequences of the two servers
/// are between.
#[test]
fn a_sequence_that_would_be_its_own_source_is_refused() {
    let (cluster, mut centre, mut branch) = with_both();
    for client in [&mut centre, &mut branch] {
        client.run("SELECT hilo_create('a'), hilo_create('b'), hilo_create('c')");
    }
    let itself = |client: &mut Client, attach: &str| {
        client.refusal(attach).is("55000").says("would be its own source").helps();
    };
    itself(&mut centre, "SELECT hilo_attach_server('a', 'centre')");
    centre.run("SELECT hilo_attach_server('c', 'centre', 'b')");
    itself(&mut centre, "SELECT hilo_attach_server('b', 'centre', 'c')");
    centre.run("SELECT hilo_attach_server('a', 'branch')");
    itself(&mut branch, "SELECT hilo_attach_server('a', 'centre')");
    branch.run("SELECT hilo_attach_server('a', 'centre', 'c')");
    itself(&mut centre, "SELECT hilo_attach_server('b', 'branch', 'a')");
    // A role sees the source of a sequence that it may read, and of no other.
    let mut guest = cluster.connect_as("guest", "centre");
    let seen = "SELECT count(*) FROM _hilo.hilo_upstream";
    assert_eq!((centre.one::<i64>(seen), guest.one::<i64>(seen)), (2, 0));
    centre.run("SELECT hilo_grant('a', 'guest', 'LEASE')");
    assert_eq!(guest.one::<i64>(seen), 1);
    branch.run("ALTER USER MAPPING FOR postgres SERVER centre OPTIONS (SET user 'guest')");
    itself(&mut branch, "SELECT hilo_attach_server('a', 'centre')");
    centre.run("SELECT hilo_detach('a', 1000)");
    branch.run("SELECT hilo_attach_server('b', 'centre', 'a')");
    assert!(branch.one::<i64>("SELECT hilo_nextval('b')") >= 1000);
}

/// A branch that has served numbers of its own is attached again to a centre below or beyond them,
/// and not to one among them.
#[test]
fn a_branch_bars_what_it_has_served_and_nothing_between() {
    let (_cluster, mut centre, mut branch) = with_both();
    centre.run("SELECT hilo_create('s', data_type => 'integer')");
    branch.run("SELECT hilo_attach_server('s', 'centre')");
    let mut seen = branch.draw("s", 10);
    branch.run("SELECT hilo_detach('s', 2000000000)");
    seen.extend(branch.draw("s", 10));
    branch.run("SELECT hilo_attach_server('s', 'centre')");
    seen.extend(branch.draw("s", 1_000));
    let refused = "SELECT count(*) FROM hilo_gaps WHERE reason = 'discarded'";
    assert_eq!(branch.one::<i64>(refused), 0);
    let attach = "SELECT hilo_attach_server('s', 'centre')";
    // A request of the branch that comes in between takes what it has served before, and refuses it.
    let mut error = None;
    wait_until("the attachment is refused", LONG, || {
        centre.run("SELECT hilo_setval('s', 2)");
        error = branch.batch_execute(attach).err();
        error.is_some()
    });
    let error =
        error.as_ref().and_then(|error| error.as_db_error()).expect("the server refuses it");
    assert_eq!(error.code().code(), "55000");
    assert!(error.message().contains("continues with 3: it may have served up to"), "{error}");
    assert!(error.hint().is_some(), "{error:?}");
    centre.run("SELECT hilo_advance('s', 1000000)");
    branch.run(attach);
    seen.extend(branch.draw("s", 1_000));
    centre.run("SELECT hilo_setval('s', 1999999990)");
    branch.run(attach);
    seen.extend(branch.draw("s", 9));
    hilo_tests::assert_unique("s", &seen);
    assert!(seen.contains(&1_999_999_999));
}

/// A branch and its centre, or two branches, serve no value in common.
#[test]
fn branches_are_compared_without_complaint() {
    let (_cluster, mut centre, mut branch) = with_both();
    centre.run("SELECT hilo_create('s', start_value => 5); SELECT hilo_nextval('s')");
    branch.run("SELECT hilo_attach_server('s', 'centre')");
    branch.run("SELECT hilo_nextval('s')");
    // As if each were a server of its own.
    let own = "SELECT jsonb_set(hilo_node_summary(), '{node,server}', '\"another\"')::text";
    let summaries: [String; 2] = [centre.one(own), branch.one(own)];
    for (client, summary) in [(&mut branch, 0), (&mut centre, 1)] {
        let compare =
            format!("SELECT what FROM hilo_compare('{}')", summaries[summary].replace('\'', "''"));
        assert_eq!(client.all::<String>(&compare), [""; 0]);
    }
    let twin = format!("SELECT count(*) FROM hilo_compare('{}')", summaries[0]);
    assert!(centre.one::<i64>(&twin) > 0);
}

/// A role that may read a sequence, but not its source, compares it as its owner does. Its summary makes no sequence that
/// numbers itself.
#[test]
fn a_reader_compares_branches_without_their_sources() {
    let (cluster, mut centre, mut branch) = with_both();
    centre.run("SELECT hilo_create('s'); SELECT hilo_nextval('s')");
    branch.run("SELECT hilo_attach_server('s', 'centre')");
    branch.run("SELECT hilo_nextval('s')");
    for owner in [&mut centre, &mut branch] {
        owner.run("SELECT hilo_grant('s', 'guest', 'SELECT')");
    }
    let own = "SELECT jsonb_set(hilo_node_summary(), '{node,server}', '\"another\"')::text";
    let guests = ["centre", "branch"].map(|database| cluster.connect_as("guest", database));
    let [mut at_centre, mut at_branch] = guests;
    let summaries: [String; 2] = [at_centre.one(own), at_branch.one(own)];
    assert!(!summaries[1].contains("source"), "{}", summaries[1]);
    for (client, summary) in [(&mut at_branch, 0), (&mut at_centre, 1)] {
        let compare = format!("SELECT what FROM hilo_compare('{}')", summaries[summary]);
        assert_eq!(client.all::<String>(&compare), [""; 0]);
    }
    centre.run("SELECT hilo_drop('s')");
    let apply = format!("SELECT hilo_apply('{}')", summaries[1]);
    centre
        .refusal(&apply.replace("\"id\": 0", "\"id\": 1"))
        .is("55000")
        .says("the source of hilo sequence \"s\" is not known")
        .details("sequences[0]")
        .helps();
    let of_owner: String = branch.one("SELECT hilo_node_summary() ->> 'sequences'");
    branch.run("SELECT hilo_drop('s')");
    let again =
        format!("hilo_apply('{{\"hilo\": 1, \"sequences\": {}}}')", of_owner.replace('\'', "''"));
    assert_eq!(branch.all::<String>(&format!("SELECT action FROM {again}")), ["create"]);
    assert!(branch.all::<String>(&format!("SELECT action FROM {again}")).is_empty());
}
