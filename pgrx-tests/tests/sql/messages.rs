//! An error, a warning or a notice fits the call that caused it. It says what is missing and what
//! to do, and nothing that does not help.

use hilo_tests::extension::install_older;
use hilo_tests::{ClientExt, Cluster};

/// Without hilo in shared_preload_libraries, before PostgreSQL 17, CREATE EXTENSION and ALTER
/// EXTENSION … UPDATE succeed. They say once what to write and that a restart is needed; with it
/// they say nothing.
#[test]
fn not_preloaded_is_a_warning_when_the_extension_is_created_or_updated() {
    for preload in [false, true] {
        let cluster = Cluster::builder().preload(preload).start();
        install_older();
        let lacks = !preload && cluster.version() < 17;
        let statements = [
            // The session has not loaded the library yet, then it has.
            ("CREATE EXTENSION hilo", lacks),
            ("DROP EXTENSION hilo; CREATE EXTENSION hilo", lacks),
            ("DROP EXTENSION hilo; CREATE EXTENSION hilo VERSION '0.9.0'", false),
            ("ALTER EXTENSION hilo UPDATE", lacks),
        ];
        let (mut client, heard) = cluster.connect_listening("postgres", "postgres");
        let warns = |statement: &str, expected: bool| {
            let warnings = heard.take();
            assert_eq!(warnings.len(), expected as usize, "{statement}: {warnings:?}");
            for warning in warnings {
                assert_eq!(warning.severity(), "WARNING");
                assert_eq!(warning.code().code(), "55000");
                assert!(warning.message().contains("must be loaded when the server starts"));
                let hint = warning.hint().unwrap_or_default();
                assert!(hint.contains("shared_preload_libraries = 'hilo'"), "{hint}");
                assert!(hint.contains("restart the server"), "{hint}");
            }
        };
        for (statement, expected) in statements {
            client.run(statement);
            warns(statement, expected);
        }
        client.run("DROP EXTENSION hilo; CREATE EXTENSION hilo VERSION '0.9.0'");
        let (mut another, heard) = cluster.connect_listening("postgres", "postgres");
        another.run("ALTER EXTENSION hilo UPDATE");
        assert_eq!(heard.take().len(), lacks as usize);
        // Another extension, created while the library is loaded, is not ours to warn about.
        another.run("LOAD 'hilo'; DROP EXTENSION plpgsql CASCADE; CREATE EXTENSION plpgsql");
        assert!(heard.messages().iter().all(|message| !message.contains("hilo must")));
        cluster.finish();
    }
}

/// Rust's backtraces, set in the server's environment, change no report. That goes for errors that
/// core raises below hilo, and for those of the worker.
#[test]
fn no_report_has_a_backtrace() {
    let cluster = Cluster::builder()
        .environment("RUST_BACKTRACE", "full")
        .environment("RUST_LIB_BACKTRACE", "1")
        .config("log_error_verbosity", "verbose")
        .start_with_hilo();
    let mut client = cluster.connect("postgres");
    for call in ["hilo_create('orders')", "hilo_drop('orders')"] {
        let refusal = client.refusal(&format!("BEGIN READ ONLY; SELECT {call}")).is("25006");
        assert_eq!(refusal.report().detail(), None);
        client.run("ROLLBACK");
    }
    // A position that no library has written.
    client.meddle(
        "SELECT hilo_create('broken');
         UPDATE _hilo.hilo_position SET next_index = 9223372036854775807, settled_index = 0, incarnation = 5",
    );
    client.run("SET hilo.reserve_timeout = '1s'");
    client.refusal("SELECT hilo_nextval('broken')");
    let log = cluster.log();
    for frame in ["backtrace", "pgrx_pg_sys", "core::ops"] {
        assert!(!log.contains(frame), "{log}");
    }
    cluster.finish();
}

/// A name that no sequence has: the hint is the nearest name, whatever the function, and "create it" only
/// where a value was wanted.
#[test]
fn a_missing_sequence_hints_at_what_was_meant() {
    let cluster = Cluster::with_hilo();
    let mut client = cluster.connect("postgres");
    client.run(
        "SELECT hilo_create('orders'), hilo_create('Invoice Lines'), hilo_create('tenants/42/items');
         CREATE SEQUENCE ledger; CREATE SCHEMA shop; CREATE SEQUENCE shop.\"Carts\"; CREATE TABLE plain (id int)",
    );
    let using = [
        "hilo_nextval('{}')",
        "hilo_nextvals('{}', 2)",
        "hilo_nextrange('{}', 2)",
        "hilo_next_hi('{}')",
        "hilo_nextkey('{}')",
        "hilo_setval('{}', 2)",
    ];
    let managing = [
        "hilo_currval('{}')",
        "hilo_key('{}', 1)",
        "hilo_alter('{}', increment => 2)",
        "hilo_rename('{}', 'something')",
        "hilo_drop('{}')",
        "hilo_grant('{}', 'public', 'ALL')",
        "hilo_revoke('{}', 'public', 'ALL')",
        "hilo_set_owner('{}', 'postgres')",
        "hilo_stat_reset('{}')",
    ];
    for call in using.iter().chain(&managing) {
        let mut missing = |name: &str| {
            let named = name.replace('\'', "''");
            client.refusal(&format!("SELECT {}", call.replace("{}", &named))).is("42704").says(name)
        };
        for (typed, meant) in [
            ("order", "orders"),
            ("ordres", "orders"),
            ("Orders", "orders"),
            ("ORDERS", "orders"),
            ("public.orders", "orders"),
            ("\"public\".\"Orders\"", "orders"),
            ("\"orders\"", "orders"),
            ("invoice lines", "Invoice Lines"),
            ("tenants/43/items", "tenants/42/items"),
            ("items.orders", "orders"),
        ] {
            let refusal = missing(typed);
            assert_eq!(refusal.report().hint(), Some(&*format!("Did you mean \"{meant}\"?")));
        }
        for (typed, found) in [
            ("ledger", "public.ledger"),
            ("Ledger", "public.ledger"),
            ("public.ledger", "public.ledger"),
            ("shop.\"Carts\"", "shop.\"Carts\""),
        ] {
            missing(typed)
                .details(&format!("is a sequence of Postgres: {found}."))
                .hints("nextval")
                .hints("hilo_adopt");
        }
        for typed in ["nothing at all", "shop.carts", "plain", "x", "a.b.c.d", "..", "\"", "' or '"]
        {
            let hint = missing(typed).report().hint().unwrap_or_default().to_owned();
            let creates = using.contains(call);
            assert_eq!(hint.starts_with("Create it with hilo_create."), creates, "{call}: {hint}");
            assert_eq!(hint.contains("hilo_sequences"), !creates, "{call}: {hint}");
        }
    }
    client.run("SELECT hilo_drop('order', if_exists => true)");
    cluster.finish();
}

/// The hint names only sequences that the views show to the caller.
#[test]
fn a_hint_names_only_what_the_caller_may_see() {
    let cluster = Cluster::with_hilo();
    let mut admin = cluster.connect("postgres");
    admin.run(
        "CREATE ROLE clerk LOGIN; CREATE ROLE watcher LOGIN IN ROLE pg_read_all_stats;
         SELECT hilo_create('orders'), hilo_create('orderz'), hilo_create('hidden');
         SELECT hilo_grant('orderz', 'clerk', 'SELECT')",
    );
    let mut clerk = cluster.connect_as("clerk", "postgres");
    clerk.refusal("SELECT hilo_nextval('ordera')").is("42704").hints("\"orderz\"");
    for unseen in ["ORDERS", "hiden", "public.hidden"] {
        let refusal = clerk.refusal(&format!("SELECT hilo_nextval('{unseen}')")).is("42704");
        let hint = refusal.report().hint().unwrap_or_default();
        assert!(!hint.contains("\"hidden\"") && !hint.contains("\"orders\""), "{hint}");
    }
    let mut watcher = cluster.connect_as("watcher", "postgres");
    watcher.refusal("SELECT hilo_nextval('hiden')").is("42704").hints("\"hidden\"");
    cluster.finish();
}

/// The whole name counts first; of names that differ in their schema, that of the search path.
#[test]
fn a_hint_prefers_the_whole_name() {
    let cluster = Cluster::with_hilo();
    let mut client = cluster.connect("postgres");
    client.run(
        "CREATE SCHEMA shop; CREATE SCHEMA billing;
         SELECT hilo_create('billing.orders_id_seq'), hilo_create('orders_id_seq'), hilo_create('shop.orders_id_seq'),
                hilo_create('billing.lines'), hilo_create('shop.lines')",
    );
    for (path, typed, meant) in [
        ("public", "orders_id_sq", "orders_id_seq"),
        ("billing", "orders_id_sq", "orders_id_seq"),
        ("public", "shop.orders_id_sq", "shop.orders_id_seq"),
        ("public", "biling.orders_id_seq", "billing.orders_id_seq"),
        ("shop, public", "linse", "shop.lines"),
        ("billing, public", "linse", "billing.lines"),
    ] {
        client.run(&format!("SET search_path = {path}, public"));
        let refusal = client.refusal(&format!("SELECT hilo_nextval('{typed}')")).is("42704");
        assert_eq!(refusal.report().hint(), Some(&*format!("Did you mean \"{meant}\"?")), "{path}");
    }
    cluster.finish();
}

/// With ten thousand sequences the error still comes at once, and finds the name.
#[test]
fn a_hint_is_found_among_ten_thousand_sequences() {
    let cluster = Cluster::with_hilo();
    let mut client = cluster.connect("postgres");
    client.run(
        "SELECT hilo_create('tenants/' || id || '/orders') FROM generate_series(1, 9998) AS id;
         SELECT hilo_create('zebra')",
    );
    client.run("SET statement_timeout = '2s'");
    client.refusal("SELECT hilo_nextval('zebrra')").is("42704").hints("Did you mean \"zebra\"?");
    client.refusal("SELECT hilo_nextval('Zebra')").is("42704").hints("Did you mean \"zebra\"?");
    client.refusal("SELECT hilo_nextval('none like it')").is("42704").hints("hilo_create");
    cluster.finish();
}

/// 42501 says what the call takes, what the role has, and the hilo_grant that helps: after that grant the
/// call works.
#[test]
fn a_refusal_names_the_missing_right_and_its_grant() {
    let cluster = Cluster::with_hilo();
    let mut admin = cluster.connect("postgres");
    admin.run("CREATE ROLE \"Ann's\" LOGIN; SELECT hilo_create('or''ders', block_size => 10)");
    admin.run("CREATE TABLE t (id bigint); GRANT SELECT ON t TO PUBLIC");
    let mut ann = cluster.connect_as("Ann's", "postgres");
    for (call, needs, wanted) in [
        ("hilo_nextval('or''ders')", "USAGE or UPDATE", "USAGE"),
        ("hilo_nextvals('or''ders', 2)", "USAGE or UPDATE", "USAGE"),
        ("hilo_nextkey('or''ders')", "USAGE or UPDATE", "USAGE"),
        ("hilo_nextrange('or''ders', 2)", "UPDATE", "UPDATE"),
        ("hilo_next_hi('or''ders')", "UPDATE", "UPDATE"),
        ("hilo_setval('or''ders', 50)", "UPDATE", "UPDATE"),
        ("hilo_lease('or''ders', 2)", "UPDATE or LEASE", "LEASE"),
        ("hilo_currval('or''ders')", "USAGE or SELECT", "USAGE"),
        ("hilo_key('or''ders', 1)", "USAGE or SELECT", "USAGE"),
        ("hilo_find_gaps('or''ders', 't', 'id')", "USAGE, SELECT, UPDATE or LEASE", "SELECT"),
    ] {
        let call = format!("SELECT {call}");
        let others = ["USAGE", "SELECT", "UPDATE", "LEASE"];
        // The answers to each role that has nothing, and after a right was granted that is not
        // enough.
        let mut grants = vec![("", "no privilege".to_owned())];
        for other in others.iter().filter(|other| !needs.contains(*other)) {
            grants.push((other, format!("only {other}")));
        }
        let grant = |right: &str| format!("SELECT hilo_grant('or''ders', 'Ann''s', '{right}');");
        for (granted, held) in grants {
            if !granted.is_empty() {
                admin.run(&grant(granted));
            }
            let refusal = ann.refusal(&call).is("42501");
            let detail = format!(
                "The operation requires {needs}. Role \"Ann's\" has {held} on the sequence."
            );
            assert_eq!(refusal.report().detail(), Some(&*detail), "{call}");
            refusal.hints(&grant(wanted));
            admin.run("SELECT hilo_revoke('or''ders', 'Ann''s', 'ALL')");
        }
        admin.run(&grant(wanted));
        if call.contains("currval") {
            ann.run("SELECT hilo_nextval('or''ders')");
        }
        ann.run(&call);
        admin.run("SELECT hilo_revoke('or''ders', 'Ann''s', 'ALL')");
    }
    ann.refusal("SELECT hilo_stat_reset()").is("42501").details("superuser").hints("Name");
    cluster.finish();
}

/// hilo_create without the right to create says which view INSERT is needed on.
#[test]
fn a_refused_creation_says_what_to_grant() {
    let cluster = Cluster::builder().preload(true).start();
    let mut admin = cluster.connect("postgres");
    admin.run(
        "CREATE ROLE \"A b\" LOGIN; CREATE SCHEMA mine AUTHORIZATION \"A b\"; CREATE SCHEMA \"Numbers\";
         CREATE EXTENSION hilo SCHEMA \"Numbers\"; GRANT USAGE ON SCHEMA \"Numbers\" TO PUBLIC;
         ALTER DATABASE postgres SET search_path = mine, \"Numbers\"",
    );
    let mut client = cluster.connect_as("A b", "postgres");
    let grant = "GRANT INSERT ON \"Numbers\".hilo_sequences TO \"A b\";";
    for call in
        ["SELECT hilo_create('mine')", "SET hilo.auto_create = on; SELECT hilo_nextval('mine')"]
    {
        client
            .refusal(call)
            .is("42501")
            .says("permission denied to create hilo sequences")
            .details("role \"A b\" needs INSERT on the view \"Numbers\".hilo_sequences")
            .hints(grant);
    }
    admin.run(grant);
    client.run("SELECT hilo_create('mine')");
    cluster.finish();
}

/// A numbering that goes back says which values may be served again; one that does not says nothing.
#[test]
fn going_back_is_noticed() {
    let cluster = Cluster::with_hilo();
    let (mut client, heard) = cluster.connect_listening("postgres", "postgres");
    let steps: &[(&str, Option<(i64, i64)>)] = &[
        (
            "SELECT hilo_create('up'), hilo_create('down', increment => -2), hilo_create('round', max_value => 10, cycle => true)",
            None,
        ),
        // Nothing has been served yet.
        ("SELECT hilo_setval('up', 100, false)", None),
        ("SELECT hilo_nextval('up') FROM generate_series(1, 50)", None),
        ("SELECT hilo_setval('up', 149)", None),
        ("SELECT hilo_setval('up', 150, false)", None),
        ("SELECT hilo_setval('up', 150, false)", None),
        ("SELECT hilo_setval('up', 1000)", None),
        ("SELECT hilo_setval('up', 1000)", None),
        ("SELECT hilo_setval('up', 999)", Some((1000, 1000))),
        ("SELECT hilo_setval('up', 1, false)", Some((1, 999))),
        ("SELECT hilo_nextval('up') FROM generate_series(1, 500)", None),
        ("SELECT hilo_alter('up', restart_with => 501)", None),
        ("SELECT hilo_alter('up', restart_with => 499)", Some((499, 500))),
        ("SELECT hilo_alter('up', max_value => 2000)", None),
        ("SELECT hilo_setval('up', 2000)", None),
        ("SELECT hilo_setval('up', 1500)", Some((1501, 2000))),
        ("SELECT hilo_alter('up', increment => 5)", None),
        // The other direction, over what was served.
        ("SELECT hilo_setval('up', 10, false)", Some((10, 1500))),
        ("SELECT hilo_nextval('up') FROM generate_series(1, 4)", None), // 10, 15, 20, 25
        ("SELECT hilo_alter('up', increment => -1, min_value => -100, restart_with => 9)", None),
        ("SELECT hilo_alter('up', increment => 5, restart_with => 10)", None),
        ("SELECT hilo_nextval('up') FROM generate_series(1, 4)", None),
        ("SELECT hilo_alter('up', increment => -1, restart_with => 22)", Some((22, 10))),
        ("SELECT hilo_nextval('down') FROM generate_series(1, 50)", None), // -1 … -99
        ("SELECT hilo_setval('down', -99)", None),
        ("SELECT hilo_setval('down', -51)", Some((-53, -99))),
        ("SELECT hilo_setval('down', -1001)", None),
        ("SELECT hilo_alter('down', restart_with => -1)", Some((-1, -1001))),
        // Its values come again anyway.
        ("SELECT hilo_nextval('round') FROM generate_series(1, 5)", None),
        ("SELECT hilo_setval('round', 1)", None),
    ];
    for (statement, expected) in steps {
        client.run(statement);
        let notices = heard.messages();
        let expected: Vec<String> = expected
            .iter()
            .map(|(first, last)| {
                let name = if statement.contains("'up'") { "up" } else { "down" };
                format!(
                    "values from {first} to {last} of hilo sequence \"{name}\" may be served again"
                )
            })
            .collect();
        assert_eq!(notices, expected, "{statement}");
    }
    // The values that the transaction itself has drawn count, and so does what another session
    // draws.
    client.run("SELECT hilo_create('fresh'); BEGIN; SELECT hilo_setval('fresh', 10)");
    client.run("SELECT hilo_nextval('fresh') FROM generate_series(1, 5)");
    client.run("SELECT hilo_setval('fresh', 12)");
    assert_eq!(
        heard.messages(),
        ["values from 13 to 15 of hilo sequence \"fresh\" may be served again"]
    );
    client.run("COMMIT");
    cluster.connect("postgres").draw("fresh", 7);
    client.run("SELECT hilo_setval('fresh', 12)");
    assert_eq!(
        heard.messages(),
        ["values from 13 to 19 of hilo sequence \"fresh\" may be served again"]
    );
    cluster.finish();
}
