//! A role that may not change what a document names learns nothing of it, and locks nothing.

use hilo_tests::{ClientExt, Cluster};
use serde_json::{Value, json};

use crate::document::{apply, call, document};

fn guess(max_value: i64) -> Value {
    document(json!([{"name": "vs", "owned_by": "victim.id", "max_value": max_value}]))
}

/// Whether a guess is right, and whether somebody has locked the table: the refusal is the same, at
/// once.
#[test]
fn a_document_is_no_oracle() {
    let cluster = Cluster::with_hilo();
    let mut admin = cluster.connect("postgres");
    admin.run(
        "CREATE ROLE low LOGIN; GRANT CREATE ON SCHEMA public TO low; GRANT INSERT ON hilo_sequences TO low; CREATE TABLE victim (id bigint);
         SELECT hilo_create('vs', owned_by => 'victim.id', max_value => 777)",
    );
    assert!(apply(&mut admin, &guess(777)).is_empty());
    let mut low = cluster.connect_as("low", "postgres");
    low.run("SET lock_timeout = '50ms'; SELECT hilo_create('own')");
    for lock in ["SELECT 1", "LOCK TABLE victim"] {
        admin.run(&format!("BEGIN; {lock}"));
        for document in [guess(777), guess(778)] {
            for options in ["", ", prune => true", ", dry_run => true"] {
                let refusal = low.refusal(&format!("SELECT {}", call(&document, options)));
                refusal.is("42501").says("must be owner of hilo sequence \"vs\"");
            }
        }
        let new = document(json!([{"name": "new", "owned_by": "victim.id"}]));
        for sql in [
            format!("SELECT {}", call(&new, "")),
            "SELECT hilo_create('new', owned_by => 'victim.id')".into(),
            "SELECT hilo_alter('own', owned_by => 'victim.id')".into(),
        ] {
            low.refusal(&sql).is("42501").says("must be owner of table victim");
        }
        for function in ["hilo_adopt", "hilo_release"] {
            low.refusal(&format!("SELECT {function}('victim', 'id')")).is("42501");
        }
        for reading in ["hilo_sync('own', 'victim', 'id')", "hilo_find_gaps('own', 'victim', 'id')"]
        {
            low.refusal(&format!("SELECT {reading}"))
                .is("42501")
                .says("permission denied for column");
        }
        low.run("SELECT hilo_create_missing()");
        admin.run("COMMIT");
    }
    // It may see the sequences that it may change, and then the table is locked.
    low.run("CREATE TABLE hers (id bigint)");
    low.run("BEGIN");
    let hers = document(json!([{"name": "own", "owned_by": "hers.id"}]));
    assert_eq!(apply(&mut low, &hers).len(), 1);
    admin.run("SET lock_timeout = '50ms'");
    admin.refusal("DROP TABLE hers").is("55P03");
    low.run("COMMIT");
    cluster.finish();
}
