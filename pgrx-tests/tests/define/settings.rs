//! `CREATE EXTENSION` makes the same objects under every setting that a role may have.

use std::collections::BTreeSet;

use hilo_tests::extension::{assert_equal_objects, objects};
use hilo_tests::{Client, ClientExt, Cluster};

/// A setting, and a value that is not its default.
type Setting = (String, String);

/// Settings that end the session, let a plan take minutes, keep the transaction from writing, or say how long something may take.
const LEFT_OUT: &str = "'transaction_read_only', 'default_transaction_read_only', 'role', 'session_authorization',
    'statement_timeout', 'transaction_timeout', 'lock_timeout', 'idle_in_transaction_session_timeout', 'idle_session_timeout',
    'client_encoding', 'exit_on_error', 'seed', 'transaction_isolation', 'transaction_deferrable',
    'client_connection_check_interval', 'debug_discard_caches', 'local_preload_libraries', 'tcp_user_timeout',
    'log_statement_stats', 'ignore_system_indexes', 'jit_dump_bitcode', 'allow_system_table_mods'";

/// Every setting of a role. Each has all of its values if they are few, its least and its greatest
/// number, or a text that matters.
fn settings(client: &mut Client) -> Vec<Setting> {
    let query = format!(
        "SELECT s.name, v.value FROM pg_settings s
          CROSS JOIN LATERAL (
             SELECT unnest(ARRAY['on', 'off']) WHERE s.vartype = 'bool'
              UNION ALL SELECT unnest(s.enumvals) WHERE s.vartype = 'enum'
              UNION ALL SELECT unnest(ARRAY[s.min_val, s.max_val]) WHERE s.vartype IN ('integer', 'real')
              UNION ALL SELECT t.value FROM (VALUES
                  ('DateStyle', 'German'), ('DateStyle', 'SQL, DMY'), ('search_path', 'trap, pg_catalog, public'), ('search_path', ''),
                  ('default_text_search_config', 'pg_catalog.german'), ('TimeZone', 'Asia/Kathmandu'), ('lc_numeric', 'C'),
                  ('default_table_access_method', 'heap'), ('createrole_self_grant', 'set, inherit'),
                  ('restrict_nonsystem_relation_kind', 'foreign-table')) AS t (name, value) WHERE t.name = s.name
          ) AS v (value)
          WHERE s.context IN ('user', 'superuser') AND s.name NOT IN ({LEFT_OUT}) AND s.name NOT LIKE 'geqo%' AND s.name NOT LIKE '%collapse_limit' AND s.name NOT LIKE 'log_%' AND s.name NOT LIKE 'debug_%'
            AND s.name NOT LIKE 'hilo.%' AND v.value <> s.setting AND v.value <> s.boot_val
          ORDER BY v.value, s.name"
    );
    let rows = client.query(&query, &[]).expect("the settings");
    rows.iter().map(|row| (row.get(0), row.get(1))).collect()
}

/// The objects of an extension that is created under these settings. `None`: it is not created under them.
fn made_under(client: &mut Client, settings: &[Setting]) -> Option<BTreeSet<String>> {
    client.run("BEGIN");
    for (name, value) in settings {
        let value = value.replace('\'', "''");
        let set = format!("SAVEPOINT s; SET LOCAL \"{name}\" = '{value}'");
        if client.batch_execute(&set).is_err() {
            client.run("ROLLBACK TO s");
        }
    }
    let made = match client.batch_execute("CREATE EXTENSION hilo SCHEMA public") {
        Ok(()) => {
            client.run("RESET ALL");
            Some(objects(client))
        }
        Err(error) => {
            let state = error.code().map(|code| code.code().to_owned());
            assert!(
                settings.len() > 1 || state.is_some_and(|it| it != "XX000"),
                "{settings:?}: {error:?}"
            );
            None
        }
    };
    client.run("ROLLBACK");
    made
}

/// Many settings at a time, each with a value that is not its default. Where the extension cannot be
/// created under all of them, it is tried with one after the other.
#[test]
fn the_extension_is_the_same_under_every_setting() {
    let cluster = Cluster::builder().preload(true).start();
    let mut client = cluster.connect("postgres");
    client.run("CREATE SCHEMA trap");
    let expected = made_under(&mut client, &[]).expect("it is created");
    let all = settings(&mut client);
    assert!(all.len() > 150, "{}", all.len());
    assert!(all.contains(&("standard_conforming_strings".into(), "off".into())));
    let mut refused = Vec::new();
    for some in all.chunks(12) {
        // One name may have two values.
        if let Some(made) = made_under(&mut client, some) {
            assert_same(&expected, &made, some);
            continue;
        }
        for one in some {
            match made_under(&mut client, std::slice::from_ref(one)) {
                Some(made) => assert_same(&expected, &made, std::slice::from_ref(one)),
                None => refused.push(one.clone()),
            }
        }
    }
    assert!(refused.len() < 6, "{refused:?}");
    cluster.finish();
}

#[track_caller]
fn assert_same(expected: &BTreeSet<String>, made: &BTreeSet<String>, settings: &[Setting]) {
    if expected != made {
        println!("under {settings:?}:");
    }
    assert_equal_objects(expected, made);
}

/// Whatever is in the extension's tables and texts is read and written alike where backslashes are escapes.
#[test]
fn functions_do_the_same_where_backslashes_are_escapes() {
    let cluster = Cluster::with_hilo();
    let mut client = cluster.connect("postgres");
    if client.one::<i32>("SELECT current_setting('server_version_num')::int") >= 190_000 {
        println!("SKIPPED: backslashes are no escapes from PostgreSQL 19 on");
        return;
    }
    client.run(
        "SET standard_conforming_strings = off; SET escape_string_warning = off;
         CREATE SEQUENCE c INCREMENT 50; SELECT hilo_create('a', block_size => 50), hilo_create('b', block_size => 50);
         SELECT hilo_attach('a', 'c', 'hibernate'), hilo_attach('b', 'c', 'hibernate-pooled-lo')",
    );
    let twice = "SELECT count(*) FROM hilo_check() WHERE what LIKE '%values come twice%'";
    assert_eq!(client.one::<i64>(twice), 1);
    let report: String = client.one("SELECT hilo_report()");
    assert!(report.contains("values come twice"));
    assert!(!report.contains("cannot be read"), "{report}");
    cluster.finish();
}
