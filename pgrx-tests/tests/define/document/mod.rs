//! Definitions as a document: `hilo_export` describes every sequence completely. `hilo_apply` makes
//! the sequences as a document describes them, or changes nothing and says which field is wrong.

mod bad_documents;
mod changes;
mod concurrency;
mod rights;
mod round_trip;

use std::fs;
use std::path::Path;

use hilo_tests::{Client, ClientExt};
use serde_json::{Value, json};

/// The document that `hilo_export` returns.
#[track_caller]
fn export(client: &mut Client) -> Value {
    let text: String = client.one("SELECT hilo_export()::text");
    serde_json::from_str(&text).expect("it is JSON")
}

/// A document of these sequences.
fn document(sequences: Value) -> Value {
    json!({"hilo": 1, "sequences": sequences})
}

fn call(document: &Value, options: &str) -> String {
    let literal = document.to_string().replace('\'', "''");
    format!("hilo_apply('{literal}'{options})")
}

/// The rows that `hilo_apply` returns: action, name and detail, in one text each.
#[track_caller]
fn apply_with(client: &mut Client, document: &Value, options: &str) -> Vec<String> {
    let call = call(document, options);
    client.all(&format!("SELECT concat_ws(' ', action, name, detail) FROM {call}"))
}

#[track_caller]
fn apply(client: &mut Client, document: &Value) -> Vec<String> {
    apply_with(client, document, "")
}

/// The schema that the documentation has.
fn schema() -> Value {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/hilo.schema.json");
    let text = fs::read_to_string(file).expect("cannot read the schema");
    serde_json::from_str(&text).expect("the schema is JSON")
}

/// Everything that the catalog holds.
#[track_caller]
fn catalog(client: &mut Client) -> Vec<String> {
    client.all(
        "SELECT s::text FROM _hilo.hilo_definition s UNION ALL SELECT p::text FROM _hilo.hilo_position p
          UNION ALL SELECT p::text FROM _hilo.hilo_privilege p UNION ALL SELECT f::text FROM _hilo.hilo_free_range f
          UNION ALL SELECT g::text FROM _hilo.hilo_gap g ORDER BY 1",
    )
}
