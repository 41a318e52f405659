//! Each difference is changed, and nothing else.

use hilo_tests::{ClientExt, Cluster};
use serde_json::json;

use crate::document::{apply, apply_with, call, catalog, document, export};

/// Each field is altered to what the document says, and back to its default when the document leaves it out. A
/// second call changes nothing.
#[test]
fn every_option_is_altered_and_goes_back_to_its_default() {
    let cluster = Cluster::with_hilo();
    let mut admin = cluster.connect("postgres");
    for (field, value, default) in [
        ("start_value", json!(7), json!(1)),
        ("increment", json!(10), json!(1)),
        ("min_value", json!(-7), json!(1)),
        ("max_value", json!(900), json!(i64::MAX)),
        ("cycle", json!(true), json!(false)),
        ("ordered", json!(true), json!(false)),
        ("block_size", json!(100), json!(null)),
        ("slice_size", json!(16), json!(null)),
        ("key_format", json!("{value}"), json!(null)),
        ("description", json!("of the shop's orders"), json!(null)),
    ] {
        let name = format!("by {field}");
        let mut changed = json!({"name": name, "start_value": 1, field: value});
        let plain = json!({"name": name, "start_value": 1});
        let plain = document(json!([plain]));
        if field == "start_value" {
            changed[field] = value.clone();
        }
        let changed = document(json!([changed]));
        assert_eq!(apply(&mut admin, &plain).len(), 1);
        assert_eq!(admin.draw(&name, 3), [1, 2, 3]);
        for (to, row) in [
            (&changed, json!({field: {"from": default, "to": value}})),
            (&plain, json!({field: {"from": value, "to": default}})),
        ] {
            let there = apply_with(&mut admin, to, ", dry_run => true");
            assert_eq!(there, apply(&mut admin, to), "{to}");
            let [there] = &there[..] else { panic!("{there:?}") };
            let detail = there.strip_prefix(&format!("alter {name} ")).expect(there);
            assert_eq!(serde_json::from_str::<serde_json::Value>(detail).unwrap(), row);
            assert!(apply(&mut admin, to).is_empty(), "{to}");
        }
        // The position has stayed.
        let next = admin.draw(&name, 1)[0];
        assert!((4..=5).contains(&next), "{field}: {next}");
    }
    let retyped = document(json!([{"name": "typed", "data_type": "smallint"}]));
    apply(&mut admin, &document(json!([{"name": "typed"}])));
    assert_eq!(
        apply(&mut admin, &retyped),
        [
            r#"alter typed {"data_type": {"to": "smallint", "from": "bigint"}, "max_value": {"to": 32767, "from": 9223372036854775807}}"#
        ]
    );
    assert!(apply(&mut admin, &retyped).is_empty());
    cluster.finish();
}

/// Owner and privileges become those of the document; what the document leaves out stays.
#[test]
fn owners_and_privileges_become_those_of_the_document() {
    let cluster = Cluster::with_hilo();
    let mut admin = cluster.connect("postgres");
    admin.run(
        "CREATE ROLE anna; CREATE ROLE bert; SELECT hilo_create('a');
         SELECT hilo_grant('a', 'anna', 'ALL'), hilo_grant('a', 'public', 'SELECT')",
    );
    let mut of = |sequence| apply(&mut admin, &document(json!([sequence])));
    assert!(of(json!({"name": "a"})).is_empty());
    let bert = json!([{"grantee": "bert", "privileges": ["UPDATE", "USAGE"]},
                      {"grantee": "anna", "privileges": ["USAGE"]},
                      {"grantee": "public", "privileges": []}]);
    assert_eq!(
        of(json!({"name": "a", "privileges": bert})),
        [
            r#"revoke a {"grantee": "anna", "privileges": ["SELECT", "UPDATE", "LEASE"]}"#,
            r#"revoke a {"grantee": "public", "privileges": ["SELECT"]}"#,
            r#"grant a {"grantee": "bert", "privileges": ["USAGE", "UPDATE"]}"#,
        ]
    );
    assert!(of(json!({"name": "a", "privileges": bert})).is_empty());
    // A privilege that appears twice is granted once.
    let twice = json!([{"grantee": "bert", "privileges": ["UPDATE", "UPDATE"]},
                       {"grantee": "anna", "privileges": ["USAGE"]},
                       {"grantee": "bert", "privileges": ["USAGE"]}]);
    assert!(of(json!({"name": "a", "privileges": twice})).is_empty());
    // The new owner's own privileges, and those of the old one, are part of their ownership.
    let owned = json!({"name": "a", "owner": "bert", "privileges": [
        {"grantee": "postgres", "privileges": ["SELECT"]}, {"grantee": "bert", "privileges": ["USAGE"]}]});
    assert_eq!(
        of(owned.clone()),
        [
            r#"set_owner a {"to": "bert", "from": "postgres"}"#,
            r#"revoke a {"grantee": "anna", "privileges": ["USAGE"]}"#,
            r#"grant a {"grantee": "bert", "privileges": ["USAGE"]}"#,
            r#"grant a {"grantee": "postgres", "privileges": ["SELECT"]}"#,
        ]
    );
    assert!(of(owned).is_empty());
    assert!(of(json!({"name": "a"})).is_empty());
    assert_eq!(of(json!({"name": "a", "privileges": []})).len(), 2);
    let exported = export(&mut admin);
    assert_eq!(exported["sequences"], json!([{"name": "a", "owner": "bert", "privileges": []}]));
    cluster.finish();
}

/// A trial returns the rows of the real call, whatever it would do. It leaves nothing behind in the
/// catalog or in memory, even while its transaction is open.
#[test]
fn a_dry_run_returns_the_same_rows_and_changes_nothing() {
    // The worker reserves nothing between two looks at the catalog.
    let cluster = Cluster::builder().config("hilo.prefetch", "off").start_with_hilo();
    let mut admin = cluster.connect("postgres");
    admin.run("CREATE ROLE anna; SELECT hilo_create(n) FROM unnest(array['steps', 'sizes', 'gone', 'given']) n");
    let mut other = cluster.connect("postgres");
    for name in ["steps", "sizes", "gone", "given"] {
        assert_eq!(other.draw(name, 10).last(), Some(&10));
    }
    admin.draw("steps", 1);
    let wanted = document(json!([
        {"name": "new", "start_value": 5, "privileges": [{"grantee": "anna", "privileges": ["USAGE"]}]},
        {"name": "steps", "increment": 100}, {"name": "sizes", "max_value": 1000, "ordered": true},
        {"name": "given", "owner": "anna", "privileges": [{"grantee": "public", "privileges": ["SELECT"]}]}
    ]));
    let before = catalog(&mut admin);
    admin.run("BEGIN");
    let tried = apply_with(&mut admin, &wanted, ", true, dry_run => true");
    assert_eq!(tried.len(), 6, "{tried:?}");
    assert_eq!(catalog(&mut admin), before);
    // Others draw on while the transaction is open, and so does it itself, in steps of 1.
    let mut values = other.draw("steps", 50);
    assert!(values.iter().any(|value| value % 10 == 5), "{values:?}");
    values.extend(admin.draw("steps", 1));
    assert!(values.iter().all(|value| (11..200).contains(value)), "{values:?}");
    assert_eq!(other.draw("gone", 1), [11]);
    admin.refusal("SELECT hilo_nextval('new')").is("42704");
    admin.run("ROLLBACK");
    let tried_again = apply_with(&mut admin, &wanted, ", true, true");
    assert_eq!(tried_again, tried);
    assert_eq!(apply_with(&mut admin, &wanted, ", true"), tried);
    other.refusal("SELECT hilo_nextval('gone')").is("42704");
    assert_eq!(admin.draw("new", 1), [5]);
    assert!(apply_with(&mut admin, &wanted, ", true").is_empty());
    cluster.finish();
}

/// With prune, what the document does not contain goes, unless a column default uses it; without, it
/// stays. The refusal does not wait for the locks of other sequences.
#[test]
fn prune_drops_what_the_document_does_not_contain() {
    let cluster = Cluster::with_hilo();
    let mut admin = cluster.connect("postgres");
    admin.run(
        "SELECT hilo_create('kept'), hilo_create('used'), hilo_create('unused', 5);
         CREATE TABLE t (id bigint DEFAULT hilo_nextval('used'))",
    );
    let kept = document(json!([{"name": "kept"}]));
    assert!(apply(&mut admin, &kept).is_empty());
    let before = catalog(&mut admin);
    let mut other = cluster.connect("postgres");
    other.run("BEGIN; SELECT hilo_alter('kept', ordered => true)");
    admin.run("SET lock_timeout = '50ms'");
    let changed = document(json!([{"name": "kept", "max_value": 100}]));
    for options in [", prune => true", ", true, true"] {
        admin
            .refusal(&format!("SELECT {}", call(&changed, options)))
            .is("2BP01")
            .details("default value for column id of table t depends on hilo sequence \"used\"")
            .hints("cascade");
        assert_eq!(catalog(&mut admin), before);
    }
    other.run("ROLLBACK");
    admin.run("RESET lock_timeout; DROP TABLE t");
    assert_eq!(
        apply_with(&mut admin, &kept, ", true"),
        [
            r#"drop unused {"owner": "postgres", "privileges": [], "start_value": 5}"#,
            r#"drop used {"owner": "postgres", "privileges": []}"#,
        ]
    );
    assert_eq!(apply_with(&mut admin, &document(json!([])), ", true").len(), 1);
    assert!(catalog(&mut admin).is_empty());
    cluster.finish();
}

/// A role may do by a document what it may do by hand, and prunes only what is its own.
#[test]
fn a_role_applies_no_more_than_it_may() {
    let cluster = Cluster::with_hilo();
    let mut admin = cluster.connect("postgres");
    admin.run("CREATE ROLE anna LOGIN; CREATE ROLE bert LOGIN; SELECT hilo_create('others')");
    let of = |sequence| format!("SELECT {}", call(&document(json!([sequence])), ""));
    let mut anna = cluster.connect_as("anna", "postgres");
    let new = json!({"name": "hers"});
    anna.refusal(&of(new.clone())).is("42501").says("to create").details("sequences[0]");
    admin.run("GRANT CREATE ON SCHEMA public TO anna; GRANT INSERT ON hilo_sequences TO anna");
    anna.run(&of(new));
    for changed in [
        json!({"name": "others", "increment": 2}),
        json!({"name": "others", "privileges": [{"grantee": "anna", "privileges": ["USAGE"]}]}),
        json!({"name": "others", "owner": "anna"}),
        json!({"name": "hers", "owner": "bert"}),
        json!({"name": "another", "owner": "bert"}),
        // Whether it is already so is none of her business.
        json!({"name": "others", "owner": "postgres"}),
    ] {
        anna.refusal(&of(changed)).is("42501").details("sequences[0]");
    }
    anna.run(&format!("SELECT {}", call(&document(json!([])), ", true")));
    assert_eq!(admin.all::<String>("SELECT name::text FROM hilo_sequences"), ["others"]);
    cluster.finish();
}

/// It is part of the caller's transaction: what it created serves there, and a rollback undoes it.
#[test]
fn it_is_part_of_the_transaction() {
    let cluster = Cluster::with_hilo();
    let mut admin = cluster.connect("postgres");
    admin.run("SELECT hilo_create('a'); SELECT hilo_nextval('a')");
    let wanted = document(json!([{"name": "a", "max_value": 100}, {"name": "b"}]));
    let before = catalog(&mut admin);
    admin.run("BEGIN ISOLATION LEVEL REPEATABLE READ");
    assert_eq!(apply(&mut admin, &wanted).len(), 2);
    assert_eq!(admin.draw("b", 2), [1, 2]);
    admin.run("SAVEPOINT s");
    assert_eq!(apply(&mut admin, &document(json!([{"name": "c"}]))).len(), 1);
    admin.run("ROLLBACK TO s");
    admin.refusal("SELECT hilo_nextval('c')").is("42704");
    admin.run("ROLLBACK");
    assert_eq!(catalog(&mut admin), before);
    admin.refusal("SELECT hilo_nextval('b')").is("42704");
    admin.run("BEGIN READ ONLY");
    admin.refusal(&format!("SELECT {}", call(&wanted, ", dry_run => true"))).is("25006");
    admin.run("ROLLBACK");
    assert_eq!(apply(&mut admin, &wanted).len(), 2);
    assert_eq!(admin.draw("b", 1), [1]);
    cluster.finish();
}

/// A change that hilo_alter refuses for one sequence, such as bounds that exclude what was served,
/// changes none.
#[test]
fn one_refusal_leaves_all_as_they_were() {
    let cluster = Cluster::with_hilo();
    let mut admin = cluster.connect("postgres");
    admin.run("SELECT hilo_create('b'), hilo_create('a'); SELECT hilo_nextvals('b', 10)");
    let before = catalog(&mut admin);
    let narrow = document(
        json!([{"name": "c"}, {"name": "b", "max_value": 5}, {"name": "a", "ordered": true}]),
    );
    admin
        .refusal(&format!("SELECT {}", call(&narrow, "")))
        .is("22023")
        .says("current value (10) cannot be greater than max_value (5)")
        .details("The error is at sequences[1] of the document.")
        .hints("restart_with");
    assert_eq!(catalog(&mut admin), before);
    cluster.finish();
}

/// The owning column is an option like others: linked, moved and unlinked, also together with the owner.
#[test]
fn the_owning_column_becomes_that_of_the_document() {
    let cluster = Cluster::with_hilo();
    let mut admin = cluster.connect("postgres");
    admin.run(
        "CREATE ROLE anna; CREATE TABLE t (id int, \"Other\" int); CREATE SCHEMA shop;
         CREATE TABLE shop.hers (id int); ALTER TABLE shop.hers OWNER TO anna",
    );
    let of = |owner: &str, column: serde_json::Value| {
        document(json!([{"name": "a", "owner": owner, "owned_by": column}]))
    };
    for (owner, column, rows) in [
        ("postgres", json!("public.t.id"), 1),
        ("postgres", json!("public.t.\"Other\""), 1),
        ("anna", json!("shop.hers.id"), 2),
        ("anna", json!(null), 1),
        ("postgres", json!("public.t.id"), 2),
        ("anna", json!(null), 2),
        ("anna", json!("shop.hers.id"), 1),
    ] {
        let wanted = of(owner, column.clone());
        let tried = apply_with(&mut admin, &wanted, ", dry_run => true");
        assert_eq!(apply(&mut admin, &wanted), tried);
        assert_eq!(tried.len(), rows, "{tried:?}");
        assert!(apply(&mut admin, &wanted).is_empty());
        let exported = export(&mut admin);
        assert_eq!(exported["sequences"][0].get("owned_by").unwrap_or(&json!(null)), &column);
        assert!(apply(&mut admin, &exported).is_empty());
    }
    for wrong in [of("postgres", json!("shop.hers.id")), of("anna", json!("t.id"))] {
        admin.refusal(&format!("SELECT {}", call(&wrong, ""))).details("sequences[0]");
    }
    // A function of another's, in the same schema, that such a call could mean.
    admin.run("CREATE FUNCTION hilo_alter(name hilo_sequence, owned_by text) RETURNS void LANGUAGE sql AS ''");
    // The caller's search_path says which table it is.
    admin.run("SET search_path = shop, public");
    let given = of("anna", json!("hers.id"));
    assert!(apply(&mut admin, &given).is_empty());
    admin.run("SELECT hilo_drop('a')");
    assert_eq!(apply(&mut admin, &given).len(), 1);
    assert_eq!(export(&mut admin)["sequences"][0]["owned_by"], json!("shop.hers.id"));
    admin.run("DROP TABLE shop.hers");
    assert_eq!(export(&mut admin), document(json!([])));
    cluster.finish();
}

/// Default privileges are what a new sequence has if the document does not say; what it says is all there is.
#[test]
fn default_privileges_fill_in_what_is_left_out() {
    let cluster = Cluster::with_hilo();
    let mut admin = cluster.connect("postgres");
    admin.run("CREATE ROLE anna; SELECT hilo_default_grant('anna', 'USAGE')");
    let update = json!([{"grantee": "anna", "privileges": ["UPDATE"]}]);
    let wanted = document(json!([
        {"name": "left out"}, {"name": "none", "privileges": []}, {"name": "other", "privileges": update}
    ]));
    let tried = apply_with(&mut admin, &wanted, ", dry_run => true");
    assert_eq!(apply(&mut admin, &wanted), tried);
    assert!(apply(&mut admin, &wanted).is_empty());
    let usage = json!([{"grantee": "anna", "privileges": ["USAGE"]}]);
    let exported = export(&mut admin);
    let held = |at: usize| exported["sequences"][at]["privileges"].clone();
    assert_eq!([held(0), held(1), held(2)], [usage, json!([]), update]);
    cluster.finish();
}
