//! Definitions of sequences as a document: its form, and the place of its first fault.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::entry::within;
pub use crate::entry::{Entry, Grant, Numbering, Privilege};

/// The document that `hilo_export` returns and `hilo_apply` takes. A field that is left out, or
/// null, stands for its default.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Document {
    /// The version of this form.
    #[cfg_attr(feature = "schema", schemars(extend("const" = 1)))]
    #[serde(deserialize_with = "within::<1, 1, _, _>")]
    pub hilo: i64,
    /// Which server this is the summary of, as hilo_node_summary() returns it. hilo_apply() refuses
    /// that of a server with the id of this one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node: Option<Node>,
    /// The sequences, each name once.
    pub sequences: Vec<Entry>,
}

/// A server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Node {
    /// Its number among the nodes.
    pub id: i32,
    /// Its hilo.node_count.
    pub count: i32,
    /// Tells it from other servers, as long as it runs.
    pub server: String,
}

/// The first fault of a document's form, and its place; `.` is the top level.
#[derive(Debug, PartialEq)]
pub struct Fault {
    pub place: String,
    pub what: String,
}

/// The place of a sequence in a document, or of a field of it, which begins with a dot.
pub fn place_of(number: usize, field: &str) -> String {
    format!("sequences[{number}]{field}")
}

impl Document {
    /// # Errors
    /// The first fault of the text.
    pub fn parse(text: &str) -> Result<Document, Fault> {
        let fault =
            |place: String, error: serde_json::Error| Fault { place, what: error.to_string() };
        let mut json = serde_json::from_str(text).map_err(|error| fault(".".into(), error))?;
        refuse_lists(&mut json, "");
        let document: Document = serde_path_to_error::deserialize(json)
            .map_err(|error| fault(error.path().to_string(), error.into_inner()))?;
        let mut names = BTreeSet::new();
        match document.sequences.iter().position(|entry| !names.insert(&entry.name)) {
            Some(number) => Err(Fault {
                place: place_of(number, ".name"),
                what: "another sequence has the same name".into(),
            }),
            None => Ok(document),
        }
    }
}

/// Makes a text of each list that stands where an object belongs, in a field of this name. Its
/// elements would pass for the object's fields, but a text is refused.
fn refuse_lists(value: &mut Value, name: &str) {
    match value {
        // Neither a document nor an element of a list has a name.
        Value::Array(_) if ["", "node", "numbering"].contains(&name) => *value = "a list".into(),
        Value::Array(elements) => elements.iter_mut().for_each(|one| refuse_lists(one, "")),
        Value::Object(fields) => fields.iter_mut().for_each(|(name, one)| refuse_lists(one, name)),
        _ => {}
    }
}
