//! A bad document is refused with the place of the error, and changes nothing.

use std::collections::BTreeSet;

use hilo_tests::{ClientExt, Cluster};
use serde_json::{Value, json};

use crate::document::{call, catalog, document, schema};

/// Each is refused, and by the schema too where a schema can say so.
#[test]
fn a_bad_document_is_refused_with_the_place_of_the_error() {
    let cluster = Cluster::with_hilo();
    let mut admin = cluster.connect("postgres");
    admin.run(
        "CREATE TABLE kept (id int); CREATE VIEW view AS SELECT * FROM kept; SELECT hilo_create('there')",
    );
    let before = catalog(&mut admin);
    let validator = jsonschema::validator_for(&schema()).expect("the schema is one");
    let grant = |grant: Value| json!([{"name": "a", "privileges": [grant]}]);
    let [long, longer] = [256, 1001].map(|length| "x".repeat(length));
    // The sequences, the SQLSTATE, the place, and whether a schema can tell.
    for (sequences, sqlstate, place, by_schema) in [
        (json!({}), "22023", "sequences", true),
        (json!(["a"]), "22023", "sequences[0]", true),
        (json!([["a"]]), "22023", "sequences[0]", true),
        (json!([{}]), "22023", "sequences[0]", true),
        (json!([{"name": null}]), "22023", "sequences[0].name", true),
        (json!([{"name": ""}]), "22023", "sequences[0].name", true),
        (json!([{"name": "a\n"}]), "22023", "sequences[0].name", true),
        (json!([{"name": long}]), "22023", "sequences[0].name", true),
        (json!([{"name": "a"}, {"name": "a"}]), "22023", "sequences[1].name", false),
        (json!([{"name": "a", "slicesize": 1}]), "22023", "sequences[0].slicesize", true),
        (json!([{"name": "a", "position": 1}]), "22023", "sequences[0].position", true),
        (json!([{"name": "a", "slice_size": "1"}]), "22023", "sequences[0].slice_size", true),
        (json!([{"name": "a", "slice_size": 0}]), "22023", "sequences[0]", true),
        (json!([{"name": "a", "slice_size": 65537}]), "22023", "sequences[0]", true),
        (json!([{"name": "a", "block_size": 0}]), "22023", "sequences[0]", true),
        (json!([{"name": "a", "increment": 0}]), "22023", "sequences[0]", true),
        (json!([{"name": "a", "increment": 1.5}]), "22023", "sequences[0].increment", true),
        (json!([{"name": "a", "max_value": 1e30}]), "22023", "sequences[0].max_value", true),
        (json!([{"name": "a", "cycle": 1}]), "22023", "sequences[0].cycle", true),
        (json!([{"name": "a", "data_type": "text"}]), "22023", "sequences[0].data_type", true),
        (json!([{"name": "a", "min_value": 5, "max_value": 4}]), "22023", "sequences[0]", false),
        (
            json!([{"name": "a", "data_type": "smallint", "max_value": 40000}]),
            "22023",
            "sequences[0]",
            false,
        ),
        (json!([{"name": "a", "ordered": true, "slice_size": 5}]), "22023", "sequences[0]", false),
        (json!([{"name": "a", "key_format": "none"}]), "22023", "sequences[0]", true),
        (json!([{"name": "a", "description": longer}]), "22023", "sequences[0]", true),
        (json!([{"name": "a", "owned_by": 1}]), "22023", "sequences[0].owned_by", true),
        (json!([{"name": "a", "owned_by": "x"}]), "22023", "sequences[0].owned_by", false),
        (json!([{"name": "a", "owned_by": "x.id"}]), "42P01", "sequences[0].owned_by", false),
        (json!([{"name": "a", "owned_by": "kept.no"}]), "42703", "sequences[0].owned_by", false),
        (json!([{"name": "a", "owned_by": "view.id"}]), "42809", "sequences[0]", false),
        (json!([{"name": "a", "owner": 1}]), "22023", "sequences[0].owner", true),
        (
            json!([{"name": "b"}, {"name": "a", "owner": "nobody"}]),
            "42704",
            "sequences[1].owner",
            false,
        ),
        (json!([{"name": "a", "privileges": "USAGE"}]), "22023", "sequences[0].privileges", true),
        (grant(json!("public")), "22023", "sequences[0].privileges[0]", true),
        (grant(json!({"grantee": "public"})), "22023", "sequences[0].privileges[0]", true),
        (grant(json!(["public", ["USAGE"]])), "22023", "sequences[0].privileges[0]", true),
        (
            grant(json!({"grantee": "public", "privileges": ["DELETE"]})),
            "22023",
            "sequences[0].privileges[0].privileges[0]",
            true,
        ),
        (
            grant(json!({"grantee": "nobody", "privileges": ["USAGE"]})),
            "42704",
            "sequences[0].privileges[0].grantee",
            false,
        ),
    ] {
        let document = document(sequences);
        for options in ["", ", true", ", true, true"] {
            admin
                .refusal(&format!("SELECT {}", call(&document, options)))
                .is(sqlstate)
                .details(&format!("The error is at {place} of the document."));
        }
        assert_eq!(!validator.is_valid(&document), by_schema, "{document}");
    }
    for whole in [json!([]), json!(1), json!({}), json!({"hilo": 1}), json!([1, []])] {
        admin
            .refusal(&format!("SELECT {}", call(&whole, "")))
            .is("22023")
            .details("top level")
            .hints("hilo.schema.json");
        assert!(!validator.is_valid(&whole));
    }
    let newer = json!({"hilo": 2, "sequences": []});
    admin
        .refusal(&format!("SELECT {}", call(&newer, "")))
        .is("22023")
        .says("found 2")
        .details("The error is at hilo of the document.");
    let nameless = document(json!([{"name": null}]));
    admin
        .refusal(&format!("SELECT {}", call(&nameless, "")))
        .says("invalid type: null, expected a string");
    admin.refusal("SELECT hilo_apply(NULL)").is("22023").helps();
    assert_eq!(catalog(&mut admin), before);
    cluster.finish();
}

/// No function that anybody may call has a plan which the server would compile first. That takes
/// seconds, and no cancel ends it.
#[test]
fn no_plan_is_compiled() {
    let cluster = Cluster::with_hilo();
    let mut admin = cluster.connect("postgres");
    admin.run(
        "CREATE FUNCTION pg_temp.explain(call text) RETURNS text LANGUAGE plpgsql AS
         $$ DECLARE plan text; BEGIN EXECUTE 'EXPLAIN (FORMAT json) ' || call INTO plan; RETURN plan; END $$",
    );
    let calls: Vec<String> = admin.all(
        "SELECT format('SELECT * FROM %s(%s)', p.oid::regproc,
                       (SELECT string_agg(format('NULL::%s', t.oid::regtype), ', ' ORDER BY t.at)
                          FROM unnest(p.proargtypes) WITH ORDINALITY AS t (oid, at)))
           FROM pg_proc p JOIN pg_language l ON l.oid = p.prolang AND l.lanname = 'sql'
           JOIN pg_depend d ON d.classid = 'pg_proc'::regclass AND d.objid = p.oid AND d.deptype = 'e'
           JOIN pg_extension e ON d.refclassid = 'pg_extension'::regclass AND d.refobjid = e.oid AND e.extname = 'hilo'
          WHERE has_function_privilege('pg_monitor', p.oid, 'EXECUTE')
            AND 'jit=off' <> ALL (coalesce(p.proconfig, '{}'))",
    );
    assert!(calls.len() > 10, "{calls:?}");
    for call in calls {
        let plan: Value = serde_json::from_str(
            &admin.one::<String>(&format!("SELECT plan FROM pg_temp.explain($${call}$$) AS plan")),
        )
        .expect("it is JSON");
        let cost = plan[0]["Plan"]["Total Cost"].as_f64().expect("a plan has a cost");
        assert!(cost < 100_000.0, "{call}: {cost}");
    }
    cluster.finish();
}

/// A summary with every option is valid by the schema, and has each field that a sequence has there.
#[test]
fn a_summary_with_every_option_has_all_fields_of_the_schema() {
    let cluster = Cluster::with_hilo();
    let mut admin = cluster.connect("postgres");
    admin.run(
        "CREATE TABLE t (id int);
         SELECT hilo_create('a', 5, 2, 3, 99, 'integer', true, false, 10, 5, '{value}', owned_by => 't.id', description => 'x');
         SELECT hilo_create('b', ordered => true, gapless => true),
                hilo_create('c', source => 'SELECT 1', reserve_ahead => '1 min')",
    );
    let summary: String = admin.one("SELECT hilo_node_summary()::text");
    let summary: Value = serde_json::from_str(&summary).expect("it is JSON");
    let schema = schema();
    assert!(jsonschema::is_valid(&schema, &summary), "{summary}");
    let names = |fields: &Value| -> BTreeSet<String> {
        fields.as_object().expect("it has fields").keys().cloned().collect()
    };
    let all = summary["sequences"].as_array().expect("a list").iter().flat_map(names);
    assert_eq!(all.collect::<BTreeSet<_>>(), names(&schema["$defs"]["Entry"]["properties"]));
    cluster.finish();
}
