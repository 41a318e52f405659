//! The examples of `clients/vectors.json`, which say what a server answers to a client.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::{Client, ClientExt};

/// The file.
pub const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../clients/vectors.json");

/// The columns that depend on the clock, on the rate, or on the wording of the server.
const FREE: [&str; 5] = ["expires_at", "suggested", "message", "detail", "hint"];

type Columns = BTreeMap<String, Value>;

/// Has a server of hilo, or of hilo_lite, answer each call that has a `setup`. Its rows are those of the file.
pub fn answer_all(client: &mut Client) {
    let text = std::fs::read_to_string(FILE).expect("the vectors");
    let vectors: Vec<Value> = serde_json::from_str(&text).expect("the vectors");
    let vectors = vectors.iter().filter_map(|vector| Some((vector, vector.get("setup")?)));
    let mut count = 0;
    for (vector, setup) in vectors {
        for statement in list(setup) {
            client.run(statement.as_str().expect("a statement"));
        }
        let texts = |key: &str, field: &str, sql_type: &str| {
            let texts = list(&vector[key]).iter().map(|one| match one.get(field) {
                Some(Value::String(text)) => format!("'{text}'"),
                Some(number) => number.to_string(),
                None => format!("'{}'", one.as_str().expect("a text")),
            });
            format!("ARRAY[{}]::{sql_type}[]", texts.collect::<Vec<_>>().join(", "))
        };
        let arguments = [
            texts("returns", "lease", "uuid"),
            texts("returns", "next", "bigint"),
            texts("renewals", "", "uuid"),
            texts("leases", "name", "text"),
            texts("leases", "size", "bigint"),
            texts("leases", "lease", "uuid"),
            "'vectors'::text, '1 hour'::interval".to_owned(),
        ];
        let call =
            format!("SELECT to_json(r)::text FROM hilo_refill({}) AS r", arguments.join(", "));
        let rows: Vec<Columns> = client.all::<String>(&call).iter().map(|row| fixed(row)).collect();
        let meant = list(&vector["rows"]).iter().map(|row| fixed(&row.to_string()));
        assert_eq!(rows, meant.collect::<Vec<_>>(), "{}", vector["name"]);
        // The same lease asked for by itself: the row without what only hilo_refill says.
        for asked in list(&vector["leases"]) {
            let [name, lease] =
                ["name", "lease"].map(|field| asked[field].as_str().expect("a text"));
            let is_of = |row: &&Columns| row.get("lease").is_some_and(|of| of == lease);
            let Some(row) = rows.iter().find(is_of).filter(|row| !row.contains_key("sqlstate"))
            else {
                continue;
            };
            let call = format!(
                "SELECT to_json(r)::text FROM hilo_lease('{name}', {}, 'vectors', '1 hour', '{lease}') AS r",
                asked["size"]
            );
            let mut meant = row.clone();
            meant.retain(|column, _| !["kind", "name"].contains(&column.as_str()));
            assert_eq!(fixed(&client.one::<String>(&call)), meant, "{name}");
        }
        count += 1;
    }
    assert!(count > 10, "{count} vectors");
}

fn list(value: &Value) -> &[Value] {
    value.as_array().expect("a list")
}

/// The columns of a row that are the same on each server.
fn fixed(row: &str) -> Columns {
    let mut columns: Columns = serde_json::from_str(row).expect("a row");
    columns.retain(|name, value| !value.is_null() && !FREE.contains(&name.as_str()));
    columns
}
