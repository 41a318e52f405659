//! A document that is exported and applied again is the same.

use std::fs;

use hilo_tests::{ClientExt, Cluster};
use serde_json::json;

use crate::document::{apply, document, export, schema};

/// Sequences that use every option, in every direction, with names and roles that need care.
const ALL: &str = r#"
    CREATE ROLE anna; CREATE ROLE "Bert's"; CREATE ROLE "Public"; GRANT CREATE ON SCHEMA public TO anna; GRANT INSERT ON hilo_sequences TO anna;
    SELECT hilo_create('plain'), hilo_create('falling', increment => -3),
           hilo_create('small', data_type => 'smallint'),
           hilo_create('narrow', 5, 2, -10, 100, 'integer', true, true, 10, NULL, 'K-{value:04}'),
           hilo_create('sliced', block_size => 100, slice_size => 7),
           hilo_create('gapless', gapless => true),
           hilo_create('from minus', start_value => -5, min_value => -5),
           hilo_create('default format', key_format => '{name}/{server}{value}'),
           hilo_create('tenants/42/"ö''\', description => 'Größe; "of" tenant 42'), hilo_create('held', 1000);
    SELECT hilo_grant('held', 'Bert''s', 'ALL'), hilo_grant('held', 'PUBLIC', 'USAGE'),
           hilo_grant('held', 'Public', 'SELECT'), hilo_grant('plain', 'anna', 'UPDATE, lease');
    SELECT hilo_set_owner('small', 'anna'), hilo_set_owner('held', 'Bert''s') "#;

/// An export applied where it comes from changes nothing; applied to an empty database it creates everything,
/// and the export from there is the same.
#[test]
fn an_export_makes_the_same_sequences_elsewhere() {
    let cluster = Cluster::with_hilo();
    let mut here = cluster.connect("postgres");
    here.run(ALL);
    here.draw("held", 10);
    let exported = export(&mut here);
    assert!(jsonschema::is_valid(&schema(), &exported), "{exported}");
    assert_eq!(exported["sequences"].as_array().map(Vec::len), Some(10));
    assert!(apply(&mut here, &exported).is_empty());
    assert_eq!(export(&mut here), exported);
    assert_eq!(here.draw("held", 1), [1010]);

    here.run("CREATE DATABASE elsewhere");
    let mut there = cluster.connect("elsewhere");
    there.run("CREATE EXTENSION hilo");
    let rows = apply(&mut there, &exported);
    assert_eq!(rows.len(), 10);
    assert!(rows.iter().all(|row| row.starts_with("create ")), "{rows:?}");
    assert_eq!(export(&mut there), exported);
    assert!(apply(&mut there, &exported).is_empty());
    // Positions are no part of it.
    assert_eq!(there.draw("held", 1), [1000]);
    assert_eq!(there.draw("falling", 2), [-1, -4]);
    let grants = "SELECT string_agg(p::text, ' ' ORDER BY p::text) FROM
        (SELECT name, grantee, privilege FROM _hilo.hilo_privilege p JOIN _hilo.hilo_definition s ON s.id = p.sequence) p";
    assert_eq!(here.one::<String>(grants), there.one::<String>(grants));
    cluster.finish();
}

/// An option at its default is left out, so a plain sequence is its name, its owner and its
/// privileges.
#[test]
fn an_export_says_no_more_than_it_must() {
    let cluster = Cluster::with_hilo();
    let mut admin = cluster.connect("postgres");
    admin.run("SELECT hilo_create('b'), hilo_create('a', 3, 2, 3, 9, 'smallint')");
    assert_eq!(
        export(&mut admin),
        document(json!([
            {"name": "a", "data_type": "smallint", "increment": 2, "min_value": 3, "max_value": 9,
             "owner": "postgres", "privileges": []},
            {"name": "b", "owner": "postgres", "privileges": []}
        ]))
    );
    let one: String = admin.one("SELECT hilo_export('b') #>> '{sequences,0,name}'");
    assert_eq!(one, "b");
    admin.refusal("SELECT hilo_export('c')").is("42704");
    cluster.finish();
}

/// A role exports what view hilo_sequences shows it, and no more.
#[test]
fn a_role_exports_what_it_may_read() {
    let cluster = Cluster::with_hilo();
    let mut admin = cluster.connect("postgres");
    admin.run(
        "CREATE ROLE anna LOGIN; CREATE ROLE watcher LOGIN; GRANT pg_read_all_stats TO watcher;
         SELECT hilo_create('secret'), hilo_create('shown');
         SELECT hilo_grant('shown', 'anna', 'SELECT')",
    );
    let names = "SELECT jsonb_path_query(hilo_export(), '$.sequences[*].name') #>> '{}'";
    for (role, seen) in [("anna", &["shown"][..]), ("watcher", &["secret", "shown"])] {
        let mut client = cluster.connect_as(role, "postgres");
        assert_eq!(client.all::<String>(names), seen);
        assert_eq!(client.all::<String>("SELECT name::text FROM hilo_sequences ORDER BY 1"), seen);
    }
    let mut anna = cluster.connect_as("anna", "postgres");
    anna.refusal("SELECT hilo_export('secret')").is("42501").details("requires");
    cluster.finish();
}

/// A document is UTF-8 whatever the encoding of the database is; what has no equivalent is refused.
#[test]
fn names_keep_their_letters_in_any_encoding() {
    let cluster = Cluster::with_hilo();
    let mut admin = cluster.connect("postgres");
    for encoding in ["LATIN1", "SQL_ASCII"] {
        admin.run(&format!(
            "CREATE DATABASE {encoding} ENCODING {encoding} LOCALE 'C' TEMPLATE template0"
        ));
    }
    let mut latin = cluster.connect("latin1");
    latin.run("CREATE EXTENSION hilo; SELECT hilo_create('größe')");
    let bytes: i32 = latin.one("SELECT octet_length(name::text) FROM hilo_sequences");
    assert_eq!(bytes, 5);
    let exported = export(&mut latin);
    assert_eq!(exported["sequences"][0]["name"], "größe");
    assert!(apply(&mut latin, &exported).is_empty());
    let renamed = document(json!([{"name": "maß"}]));
    assert_eq!(
        latin.one::<String>(&format!("SELECT name FROM {}", crate::document::call(&renamed, ""))),
        "maß"
    );
    assert_eq!(latin.draw("maß", 1), [1]);
    latin
        .refusal(&format!(
            "SELECT {}",
            crate::document::call(&document(json!([{"name": "日"}])), "")
        ))
        .is("22P05");
    let format = json!([{"name": "a", "key_format": "ß{value}"}]);
    latin
        .refusal(&format!("SELECT {}", crate::document::call(&document(format), "")))
        .is("22023")
        .details("sequences[0] of");
    let described = json!([{"name": "a", "description": "Größe"}]);
    latin
        .refusal(&format!("SELECT {}", crate::document::call(&document(described), "")))
        .is("22023")
        .says("description contains non-ASCII characters")
        .details("sequences[0] of");

    let mut ascii = cluster.connect("sql_ascii");
    ascii.run("CREATE EXTENSION hilo; SELECT hilo_create('größe')");
    let exported = export(&mut ascii);
    assert_eq!(exported["sequences"][0]["name"], "größe");
    assert!(apply(&mut ascii, &exported).is_empty());
    ascii.run(r"SELECT hilo_create(E'\xff') IS NULL");
    ascii.refusal("SELECT hilo_export()").is("22021");
    cluster.finish();
}

/// Four thousand sequences take seconds, and tens of megabytes.
#[test]
fn four_thousand_sequences_are_applied_and_exported() {
    let cluster = Cluster::with_hilo();
    let mut admin = cluster.connect("postgres");
    admin.run("SET statement_timeout = '5min'");
    let pid = admin.backend_pid();
    let peak = || {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).expect("it runs");
        let line = status.lines().find(|line| line.starts_with("VmHWM")).expect("it is Linux");
        line.split_whitespace().nth(1).and_then(|kb| kb.parse::<u64>().ok()).expect("a number")
    };
    let before = peak();
    admin.run(
        "CREATE TABLE document AS
         SELECT jsonb_build_object('hilo', 1, 'sequences', jsonb_agg(jsonb_build_object(
                    'name', 'tenant-' || n, 'increment', n, 'key_format', '{value}',
                    'privileges', '[{\"grantee\": \"public\", \"privileges\": [\"USAGE\"]}]'::jsonb))) AS d
           FROM generate_series(1, 4000) n",
    );
    let count = |options: &str| format!("SELECT count(*) FROM document, hilo_apply(d{options})");
    assert_eq!(admin.one::<i64>(&count(", dry_run => true")), 4_000);
    assert_eq!(admin.one::<i64>("SELECT count(*) FROM _hilo.hilo_definition"), 0);
    assert_eq!(admin.one::<i64>(&count("")), 4_000);
    assert_eq!(admin.one::<i64>(&count(", prune => true")), 0);
    let same = "SELECT d = jsonb_set(hilo_export(), '{sequences}', (SELECT jsonb_agg(s - 'owner'
                        ORDER BY substr(s ->> 'name', 8)::int)
                  FROM jsonb_array_elements(hilo_export() -> 'sequences') s)) FROM
                (SELECT jsonb_set(d, '{sequences,0}', d #> '{sequences,0}' #- '{increment}') AS d FROM document) d";
    assert!(admin.one::<bool>(same));
    admin.run("UPDATE document SET d = '{\"hilo\": 1, \"sequences\": []}'");
    assert_eq!(admin.one::<i64>(&count(", true")), 4_000);
    assert_eq!(admin.one::<i64>("SELECT count(*) FROM _hilo.hilo_privilege"), 0);
    let used = peak() - before;
    assert!(used < 128 << 10, "{used} kB");
    cluster.finish();
}
