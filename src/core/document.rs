//! Definitions of sequences as a document: its form, and the place of its first fault.

use std::collections::{BTreeSet, HashMap};

use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use crate::entry::Entry;
pub use crate::grants::{Grant, Grants, Privilege, list, without};
use crate::name::{self, NameError};
pub use crate::node_numbers::{Node, Numbering, Within};
use crate::options::{Definition, OptionError};

/// The document that `hilo_export` returns and `hilo_apply` takes. A field that is left out, or
/// null, stands for its default.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Document {
    /// The version of this form.
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

/// The first fault of a document, and its place; `.` is the top level.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    pub place: String,
    pub what: What,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum What {
    Form(String),
    Name(NameError),
    Option(OptionError),
}

impl Fault {
    fn of_form(place: String, what: String) -> Fault {
        Fault { place, what: What::Form(what) }
    }
}

impl From<NameError> for What {
    fn from(error: NameError) -> What {
        What::Name(error)
    }
}

impl From<OptionError> for What {
    fn from(error: OptionError) -> What {
        What::Option(error)
    }
}

/// The place of a sequence.
pub fn place_of(at: usize, field: &str) -> String {
    format!("sequences[{at}]{field}")
}

/// Refuses a list of fields without their names, which serde would read.
fn check_objects(document: &Value) -> Result<(), Fault> {
    let check = |place: String, value: &Value| match value.is_array() {
        true => Err(Fault::of_form(place, "expected an object, found an array".into())),
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
    /// The first fault of the text: of its form, or of what only one sequence says.
    pub fn parse(text: &str) -> Result<Document, Fault> {
        let json: Value = serde_json::from_str(text)
            .map_err(|error| Fault::of_form(".".into(), error.to_string()))?;
        check_objects(&json)?;
        let read = serde_path_to_error::deserialize(&json);
        let document: Document = read.map_err(|error| {
            Fault::of_form(error.path().to_string(), error.into_inner().to_string())
        })?;
        let mut first = HashMap::new();
        for (at, entry) in document.sequences.iter().enumerate() {
            if let Some(first) = first.insert(entry.name.as_str(), at) {
                let what = format!("sequences[{first}] has the same name \"{}\"", entry.name);
                return Err(Fault::of_form(place_of(at, ".name"), what));
            }
        }
        Ok(document)
    }
}

impl Entry {
    /// The sequence at this place of the document, whose name has `name` in the server's encoding.
    pub fn definition(&self, at: usize, name: &[u8]) -> Result<Definition, Fault> {
        name::validate(name)
            .map_err(|error| Fault { place: place_of(at, ".name"), what: error.into() })?;
        let definition = Definition::create(&self.options())
            .map_err(|error| Fault { place: place_of(at, ""), what: error.into() })?;
        Ok(definition.plain())
    }

    /// Returns what is granted. A grantee that is no role means all roles if it spells `public`.
    pub fn grants(
        &self,
        at: usize,
        mut is_role: impl FnMut(&str) -> bool,
    ) -> Result<Option<Grants>, Fault> {
        let Some(list) = &self.privileges else { return Ok(None) };
        let fault = |number: usize, field: &str, what: String| {
            Fault::of_form(place_of(at, &format!(".privileges[{number}].{field}")), what)
        };
        let mut grants = Grants::new();
        for (number, Grant { grantee, privileges }) in list.iter().enumerate() {
            let is_public = grantee.eq_ignore_ascii_case("public") && !is_role(grantee);
            let role = if is_public { "public".to_owned() } else { grantee.clone() };
            let mut set = BTreeSet::new();
            if let Some(twice) = privileges.iter().position(|one| !set.insert(*one)) {
                let field = format!("privileges[{twice}]");
                return Err(fault(number, &field, "the privilege appears twice".into()));
            }
            if grants.insert(role, set).is_some() {
                let what = format!("the grantee \"{grantee}\" appears twice");
                return Err(fault(number, "grantee", what));
            }
        }
        grants.retain(|_, set| !set.is_empty());
        Ok(Some(grants))
    }
}
