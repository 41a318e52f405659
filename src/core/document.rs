//! Definitions of sequences as a document: its form, and the place of its first fault.

use std::collections::{BTreeSet, HashMap};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

pub use crate::entry::Entry;
pub use crate::grants::{Grant, Grants, Privilege, list, without};
pub use crate::node_numbers::{Node, Numbered, Within};
use crate::options::{Definition, OptionError};

/// The document that `hilo_export` returns and `hilo_apply` takes. A field that is left out, or
/// null, stands for its default.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Document {
    /// The version of this form.
    #[cfg_attr(feature = "schema", schemars(with = "i64", extend("const" = 1)))]
    pub hilo: Version,
    /// Which server this is the summary of, as hilo_node_summary() returns it. hilo_apply() refuses
    /// that of a server with the id of this one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node: Option<Node>,
    /// The sequences, each name once.
    pub sequences: Vec<Entry>,
}

/// The one version that there is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "i64", into = "i64")]
pub struct Version;

impl TryFrom<i64> for Version {
    type Error = String;

    fn try_from(version: i64) -> Result<Version, String> {
        match version {
            1 => Ok(Version),
            _ => Err(format!(
                "version {version} of the document is not known; this version of hilo reads 1"
            )),
        }
    }
}

impl From<Version> for i64 {
    fn from(_: Version) -> i64 {
        1
    }
}

/// The first fault of a document's form, and its place; `.` is the top level.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    pub place: String,
    pub what: String,
}

/// The place of a sequence.
pub fn place_of(at: usize, field: &str) -> String {
    format!("sequences[{at}]{field}")
}

/// Refuses a list of fields without their names, which serde would read.
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

impl Entry {
    /// Returns what is granted. A grantee that is no role means all roles if it spells `public`.
    pub fn grants(
        &self,
        at: usize,
        mut is_role: impl FnMut(&str) -> bool,
    ) -> Result<Option<Grants>, Fault> {
        let Some(list) = &self.privileges else { return Ok(None) };
        let mut grants = Grants::new();
        for (number, Grant { grantee, privileges }) in list.iter().enumerate() {
            let fault = |field: String, what: String| {
                let place = place_of(at, &format!(".privileges[{number}].{field}"));
                Err(Fault { place, what: format!("{what} appears twice") })
            };
            let is_public = grantee.eq_ignore_ascii_case("public") && !is_role(grantee);
            let role = if is_public { "public" } else { grantee };
            let mut set = BTreeSet::new();
            if let Some(twice) = privileges.iter().position(|one| !set.insert(*one)) {
                return fault(format!("privileges[{twice}]"), "the privilege".into());
            }
            if grants.insert(role.to_owned(), set).is_some() {
                return fault("grantee".into(), format!("the grantee \"{grantee}\""));
            }
        }
        grants.retain(|_, set| !set.is_empty());
        Ok(Some(grants))
    }
}

/// A sequence as a document describes it, or as it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Described {
    pub entry: Entry,
    pub definition: Definition,
    /// The grants. `None`: the document does not say, or nobody asks.
    pub granted: Option<Grants>,
}

impl Described {
    pub fn new(entry: Entry) -> Result<Described, OptionError> {
        let definition = Definition::create(&entry.options())?.plain();
        Ok(Described { entry, definition, granted: None })
    }

    /// The options, each with its value.
    fn options(&self) -> Value {
        let mut options = json!(self.definition);
        options["owned_by"] = json!(self.entry.owned_by);
        options
    }

    /// The options that differ in `old`: each says `from` and `to`.
    pub fn changes(&self, old: &Described) -> Map<String, Value> {
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
