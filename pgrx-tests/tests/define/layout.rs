//! Nothing of hilo's is in the way of a program that asks for a name, and nothing of others' in
//! the way of hilo.

use std::fs;
use std::path::{Path, PathBuf};

use hilo_tests::{Client, ClientExt, Cluster};

const NONE: [&str; 0] = [];

fn file(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(path)
}

/// Databases with the extension in public, and in a schema of its own that is in the search_path.
fn databases(cluster: &Cluster) -> [Client; 2] {
    ["public", "hilo"].map(|schema| {
        let mut admin = cluster.connect("postgres");
        admin.run(&format!("CREATE DATABASE \"in {schema}\""));
        admin.run(&format!(
            "ALTER DATABASE \"in {schema}\" SET search_path = \"$user\", public, hilo"
        ));
        let mut client = cluster.connect(&format!("in {schema}"));
        client.run(&format!(
            "CREATE SCHEMA IF NOT EXISTS {schema}; CREATE EXTENSION hilo SCHEMA {schema}"
        ));
        client
    })
}

/// Objects of the extension of these catalogs, by its membership.
fn members(client: &mut Client, query: &str) -> Vec<String> {
    let member = "SELECT FROM pg_catalog.pg_depend d JOIN pg_catalog.pg_extension e ON e.oid = d.refobjid
                   WHERE e.extname = 'hilo' AND d.deptype = 'e' AND d.refclassid = 'pg_catalog.pg_extension'::regclass";
    client.all(&query.replace("MEMBER", member))
}

/// Relations with their indexes, types with those of rows and arrays, functions, and the rest.
#[test]
fn every_relation_type_and_function_begins_with_hilo() {
    let cluster = Cluster::builder().preload(true).start();
    for mut client in databases(&cluster) {
        let without = members(
            &mut client,
            "WITH relation AS (
                 SELECT c.oid, c.relname FROM pg_class c
                  WHERE EXISTS (MEMBER AND d.classid = 'pg_class'::regclass AND d.objid = c.oid)
             ), index AS (
                 SELECT c.oid, c.relname FROM relation r JOIN pg_index i ON i.indrelid = r.oid JOIN pg_class c ON c.oid = i.indexrelid
             ), type AS (
                 SELECT t.oid, t.typname, t.typarray FROM pg_type t
                  WHERE EXISTS (MEMBER AND d.classid = 'pg_type'::regclass AND d.objid = t.oid)
                     OR t.typrelid IN (SELECT oid FROM relation)
             ), named (name) AS (
                 SELECT relname FROM relation UNION SELECT relname FROM index
                  UNION SELECT typname FROM type WHERE oid NOT IN (SELECT typarray FROM pg_type)
                  UNION SELECT ltrim(a.typname::text, '_')::name FROM type t JOIN pg_type a ON a.oid = t.typarray
                  UNION SELECT conname FROM pg_constraint WHERE conrelid IN (SELECT oid FROM relation)
                  UNION SELECT p.proname FROM pg_proc p
                         WHERE EXISTS (MEMBER AND d.classid = 'pg_proc'::regclass AND d.objid = p.oid)
                  UNION SELECT o.opcname FROM pg_opclass o
                         WHERE EXISTS (MEMBER AND d.classid = 'pg_opclass'::regclass AND d.objid = o.oid))
             SELECT name::text FROM named WHERE NOT starts_with(name::text, 'hilo_')",
        );
        assert_eq!(without, NONE);
        let schemas = members(
            &mut client,
            "SELECT n.nspname::text FROM pg_namespace n
              WHERE EXISTS (MEMBER AND d.classid = 'pg_namespace'::regclass AND d.objid = n.oid)",
        );
        assert_eq!(schemas, ["_hilo"]);
    }
    cluster.finish();
}

/// docs/reference.md describes what is in the extension's schema.
#[test]
fn users_see_at_most_fifty_functions_and_all_are_described() {
    let reference = fs::read_to_string(file("docs/reference.md")).expect("the page");
    let cluster = Cluster::builder().preload(true).start();
    for mut client in databases(&cluster) {
        let public = "IN (SELECT extnamespace FROM pg_extension WHERE extname = 'hilo')";
        let functions = members(
            &mut client,
            &format!(
                "SELECT DISTINCT proname::text FROM pg_proc p WHERE pronamespace {public}
                    AND EXISTS (MEMBER AND d.classid = 'pg_proc'::regclass AND d.objid = p.oid)"
            ),
        );
        assert!((30..=50).contains(&functions.len()), "{}: {functions:?}", functions.len());
        let views = members(
            &mut client,
            &format!(
                "SELECT relname::text FROM pg_class c WHERE relnamespace {public}
                    AND EXISTS (MEMBER AND d.classid = 'pg_class'::regclass AND d.objid = c.oid)"
            ),
        );
        let types = members(
            &mut client,
            &format!(
                "SELECT typname::text FROM pg_type t WHERE typnamespace {public} AND typrelid = 0 AND typelem = 0
                    AND EXISTS (MEMBER AND d.classid = 'pg_type'::regclass AND d.objid = t.oid)"
            ),
        );
        assert_eq!(types, ["hilo_sequence"]);
        for name in functions.iter().chain(&views) {
            let is_described = [format!("`{name}`"), format!("`{name}(")];
            assert!(is_described.iter().any(|text| reference.contains(text)), "{name}");
        }
        let relations = format!(
            "SELECT relname::text FROM pg_class WHERE relkind NOT IN ('v', 'c') AND relnamespace {public}"
        );
        assert_eq!(client.all::<String>(&relations), NONE);
    }
    cluster.finish();
}

/// Names that programs like, and that hilo's own objects could be called by.
const NAMES: [&str; 19] = [
    "role",
    "task",
    "state",
    "slot",
    "source",
    "sequence",
    "position",
    "gap",
    "lease",
    "finding",
    "grid",
    "definition",
    "privilege",
    "column_ref",
    "readable",
    "reserved",
    "described",
    "free_range",
    "sample",
];

/// Enums are made where a program finds none of the name, and used; tables and types are dropped if they exist.
#[test]
fn programs_that_ask_for_everyday_names_find_none_of_hilo() {
    let cluster = Cluster::builder().preload(true).start();
    for mut client in databases(&cluster) {
        for name in NAMES {
            client.run(&format!(
                "DROP TYPE IF EXISTS \"{name}\"; DROP TABLE IF EXISTS \"{name}\"; DROP VIEW IF EXISTS \"{name}\""
            ));
            // SQLAlchemy asks whether the type is visible, others whether there is any.
            for asks in [
                format!("to_regtype('\"{name}\"') IS NULL"),
                format!("NOT EXISTS (SELECT FROM pg_type WHERE typname = '{name}')"),
                format!(
                    "NOT EXISTS (SELECT FROM pg_catalog.pg_type t JOIN pg_catalog.pg_namespace n ON n.oid = t.typnamespace
                                  WHERE pg_catalog.pg_type_is_visible(t.oid) AND t.typname = '{name}')"
                ),
            ] {
                client.run(&format!(
                    "DO $$ BEGIN IF {asks} THEN CREATE TYPE \"{name}\" AS ENUM ('admin', 'user'); END IF; END $$;
                     CREATE TABLE t (id bigint, v \"{name}\"); INSERT INTO t VALUES (1, 'admin')"
                ));
                client.refusal("INSERT INTO t VALUES (2, 'superhero')").is("22P02").says(name);
                assert_eq!(client.one::<String>("SELECT v::text FROM t"), "admin", "{name}");
                client.run(&format!("DROP TABLE t; DROP TYPE \"{name}\""));
            }
            client.run(&format!(
                "DO $$ BEGIN IF NOT EXISTS (SELECT FROM information_schema.tables WHERE table_name = '{name}')
                             THEN CREATE TABLE \"{name}\" (id bigint PRIMARY KEY); END IF; END $$;
                 CREATE TABLE IF NOT EXISTS \"{name}\" (id bigint); INSERT INTO \"{name}\" VALUES (7);
                 CREATE INDEX {name}_idx ON \"{name}\" (id); DROP TABLE \"{name}\""
            ));
        }
    }
    cluster.finish();
}

/// A name there could lead to a function of somebody else, or nowhere when the schema has another name. Bodies of
/// SQL are bound, so what they depend on tells; of others, the text does.
#[test]
fn no_body_calls_a_function_of_the_extensions_schema() {
    let cluster = Cluster::builder().preload(true).start();
    let mut client = cluster.connect("postgres");
    // No word of any body is this name.
    client.run("CREATE SCHEMA nowhere_else; CREATE EXTENSION hilo SCHEMA nowhere_else");
    let bound = members(
        &mut client,
        "SELECT pg_describe_object(u.classid, u.objid, 0) || ' calls ' || u.refobjid::regprocedure
           FROM pg_depend u JOIN pg_proc p ON p.oid = u.refobjid AND p.pronamespace = 'nowhere_else'::regnamespace
          WHERE u.refclassid = 'pg_proc'::regclass AND u.classid IN ('pg_proc'::regclass, 'pg_rewrite'::regclass, 'pg_attrdef'::regclass)
            AND (u.classid <> 'pg_proc'::regclass
                 OR EXISTS (MEMBER AND d.classid = u.classid AND d.objid = u.objid))",
    );
    assert_eq!(bound, NONE);
    let texts = members(
        &mut client,
        "SELECT p.oid::regprocedure::text FROM pg_proc p
          WHERE EXISTS (MEMBER AND d.classid = 'pg_proc'::regclass AND d.objid = p.oid)
            AND p.prosqlbody IS NULL AND (p.prosrc ~ 'nowhere_else' OR EXISTS (
                SELECT FROM unnest(p.proconfig) c WHERE c ~ 'nowhere_else'))",
    );
    assert_eq!(texts, NONE);
    // Bodies that are texts, and so read again in each session, name the schema of all that they call.
    let open = members(
        &mut client,
        "SELECT p.oid::regprocedure::text FROM pg_proc p JOIN pg_language l ON l.oid = p.prolang
          WHERE EXISTS (MEMBER AND d.classid = 'pg_proc'::regclass AND d.objid = p.oid)
            AND l.lanname NOT IN ('c', 'internal') AND p.prosqlbody IS NULL
            AND NOT coalesce('search_path=pg_catalog, pg_temp' = ANY (p.proconfig), false)
            AND NOT p.prosrc ~ '^\\s*BEGIN\\s+RAISE [^;]*;\\s*END\\s*$'",
    );
    assert_eq!(open, NONE);
    cluster.finish();
}

/// Where each literal begins, and its text, in SQL.
fn literals(sql: &str) -> Vec<(usize, String, bool)> {
    let mut found = Vec::new();
    for (at, line) in sql.lines().enumerate() {
        let code = line.split("--").next().unwrap_or(line);
        let mut parts = code.split('\'');
        let mut before = parts.next().unwrap_or_default().to_owned();
        while let (Some(text), after) = (parts.next(), parts.next()) {
            found.push((at + 1, text.to_owned(), before.ends_with('E')));
            before = after.unwrap_or_default().to_owned();
        }
    }
    found
}

/// With standard_conforming_strings = off, which each role may set, a backslash means something else.
#[test]
fn no_literal_of_the_script_has_a_backslash() {
    for folder in ["sql", "src/sql/report"] {
        for entry in fs::read_dir(file(folder)).expect("the folder") {
            let path = entry.expect("a file").path();
            if path.extension().is_none_or(|extension| extension != "sql") {
                continue;
            }
            let sql = fs::read_to_string(&path).expect("a part of the script");
            for (line, text, is_escaped) in literals(&sql) {
                assert!(
                    is_escaped || !text.contains('\\'),
                    "{}:{line}: a backslash in a literal; write it as [\\\\] or in E'…': {text}",
                    path.display()
                );
            }
        }
    }
}
