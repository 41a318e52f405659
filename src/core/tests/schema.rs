//! `docs/hilo.schema.json` is what the types of a document say of themselves.
#![cfg(feature = "schema")]

use std::fs;

use hilo_core::document::Document;
use serde_json::{Value, json};

/// Gives numbers the bounds of their type, and each description one line.
fn complete(schema: &mut Value) {
    match schema {
        Value::Object(fields) => {
            let bounds = match fields.remove("format") {
                Some(format) if format == "int32" => Some((i32::MIN.into(), i32::MAX.into())),
                Some(_) => Some((i64::MIN, i64::MAX)),
                None => None,
            };
            if let Some((minimum, maximum)) = bounds.filter(|_| !fields.contains_key("const")) {
                fields.entry("minimum").or_insert(json!(minimum));
                fields.entry("maximum").or_insert(json!(maximum));
            }
            if let Some(Value::String(text)) = fields.get_mut("description") {
                *text = text.replace('\n', " ");
            }
            fields.values_mut().for_each(complete);
        }
        Value::Array(items) => items.iter_mut().for_each(complete),
        _ => {}
    }
}

#[test]
fn the_schema_of_the_documentation_is_that_of_the_types() {
    let mut schema = json!(schemars::schema_for!(Document));
    schema["title"] = json!("hilo sequences");
    complete(&mut schema);
    let text = serde_json::to_string_pretty(&schema).unwrap() + "\n";
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/hilo.schema.json");
    if std::env::var_os("UPDATE_EXPECT").is_some() {
        fs::write(path, &text).unwrap();
    }
    let found = fs::read_to_string(path).unwrap();
    assert!(found == text, "docs/hilo.schema.json differs: UPDATE_EXPECT=1 make unit writes it");
}
