//! Definitions of sequences as a document: its form, and the place of its first fault.

use std::collections::{BTreeMap, HashMap};

use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value, json};

pub use crate::entry::Entry;
pub use crate::grants::{Grant, Privilege};
pub use crate::node_numbers::{Node, Numbering};
use crate::options::{Definition, OptionError};

/// The document that `hilo_export` returns and `hilo_apply` takes. A field that is left out, or
/// null, stands for its default.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Document {
    /// The version of this form.
    #[cfg_attr(feature = "schema", schemars(extend("const" = 1)))]
    #[serde(deserialize_with = "version")]
    hilo: i64,
    /// Which server this is the summary of, as hilo_node_summary() returns it. hilo_apply() refuses
    /// that of a server with the id of this one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node: Option<Node>,
    /// The sequences, each name once.
    pub sequences: Vec<Entry>,
}

/// Reads the one version that there is.
fn version<'de, D: Deserializer<'de>>(from: D) -> Result<i64, D::Error> {
    match i64::deserialize(from)? {
        1 => Ok(1),
        version => Err(D::Error::custom(format!(
            "version {version} of the document is not known; this version of hilo reads 1"
        ))),
    }
}

/// The first fault of a document's form, and its place; `.` is the top level.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    pub place: String,
    pub what: String,
}

/// The place of a field of a sequence in a document.
pub fn place_of(at: usize, field: &str) -> String {
    format!("sequences[{at}]{field}")
}

/// Refuses a list in the place of an object, which serde would accept.
fn check_objects(document: &Value) -> Result<(), Fault> {
    let check = |place: String, value: &Value| match value.is_array() {
        true => Err(Fault { place, what: "expected an object, found an array".into() }),
        false => Ok(()),
    };
    check(".".into(), document)?;
    check("node".into(), &document["node"])?;
    for (at, sequence) in document["sequences"].as_array().into_iter().flatten().enumerate() {
        check(place_of(at, ""), sequence)?;
        check(place_of(at, ".numbering"), &sequence["numbering"])?;
        for (number, grant) in sequence["privileges"].as_array().into_iter().flatten().enumerate() {
            check(place_of(at, &format!(".privileges[{number}]")), grant)?;
        }
    }
    Ok(())
}

impl Document {
    pub fn new(node: Option<Node>, sequences: Vec<Entry>) -> Document {
        Document { hilo: 1, node, sequences }
    }

    /// # Errors
    /// The first fault of the text.
    pub fn parse(text: &str) -> Result<Document, Fault> {
        let json: Value = serde_json::from_str(text)
            .map_err(|error| Fault { place: ".".into(), what: error.to_string() })?;
        check_objects(&json)?;
        let read = serde_path_to_error::deserialize(&json);
        let document: Document = read.map_err(|error| Fault {
            place: error.path().to_string(),
            what: error.into_inner().to_string(),
        })?;
        let mut first = HashMap::new();
        for (at, entry) in document.sequences.iter().enumerate() {
            if let Some(first) = first.insert(&entry.name, at) {
                let what = format!("sequences[{first}] has the same name \"{}\"", entry.name);
                return Err(Fault { place: place_of(at, ".name"), what });
            }
        }
        Ok(document)
    }
}

/// A sequence as a document describes it, or as it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Described {
    pub entry: Entry,
    pub definition: Definition,
}

impl Described {
    pub fn new(entry: Entry) -> Result<Described, OptionError> {
        let definition = Definition::create(&entry.options())?.plain();
        Ok(Described { entry, definition })
    }

    /// The options, each with its value.
    fn options(&self) -> Value {
        let mut options = json!(self.definition);
        options["owned_by"] = json!(self.entry.owned_by);
        options
    }

    /// The options that differ in `old`: each says `from` and `to`.
    pub fn differences(&self, old: &Described) -> Map<String, Value> {
        let columns = [self, old].map(|one| &one.entry.owned_by);
        if self.definition == old.definition && columns[0] == columns[1] {
            return Map::new();
        }
        let (new, old) = (self.options(), old.options());
        let all = new.as_object().into_iter().flatten();
        let differ = all.filter(|(option, to)| old[option.as_str()] != **to);
        let change = |(option, to): (&String, &Value)| {
            (option.clone(), json!({"from": old[option.as_str()], "to": to}))
        };
        differ.map(change).collect()
    }
}

/// Pairs the elements of both lists that have the same name, in the order of the names.
pub fn by_name<N: Ord, A, B>(
    ones: impl IntoIterator<Item = (N, A)>,
    others: impl IntoIterator<Item = (N, B)>,
) -> BTreeMap<N, (Option<A>, Option<B>)> {
    let alone = ones.into_iter().map(|(name, one)| (name, (Some(one), None)));
    let mut pairs: BTreeMap<_, (_, Option<B>)> = alone.collect();
    for (name, other) in others {
        pairs.entry(name).or_default().1 = Some(other);
    }
    pairs
}
