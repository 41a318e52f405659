//! Definitions as a JSON document: what `hilo_export` writes and `hilo_apply` reads.
//!
//! `docs/hilo.schema.json` describes the same form. A field that is left out, or null, stands for
//! its default.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::marker::PhantomData;

use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

pub use crate::document_error::DocumentError;
use crate::document_error::OUT_OF_MEMORY;
use crate::key_format;
use crate::options::{DataType, Definition, Options};
use crate::summary::{Node, Numbering};

/// The only version of the form.
pub const VERSION: u32 = 1;

const PRIVILEGES: [&str; 3] = ["USAGE", "SELECT", "UPDATE"];

#[derive(Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Document {
    #[serde(deserialize_with = "known_version")]
    pub hilo: u32,
    /// In a node's summary: which node it is of
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "optional_object"
    )]
    pub node: Option<Node>,
    #[serde(deserialize_with = "list")]
    pub sequences: Vec<Described>,
}

/// A sequence as a document describes it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Described {
    pub name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub data_type: Option<DataType>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start_value: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub increment: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_value: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_value: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cycle: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ordered: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub block_size: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub slice_size: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key_format: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gapless: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// In seconds
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reserve_ahead: Option<i64>,
    /// A column, as `schema.table.column`. `None`: no column owns the sequence
    #[serde(skip_serializing_if = "Option::is_none")]
    pub owned_by: Option<String>,
    /// `None`: the current role for a new sequence; unchanged for one that exists
    #[serde(skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
    /// `None`: those that a new sequence has; unchanged for one that exists
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "optional_list")]
    pub privileges: Option<Vec<Grant>>,
    /// In a node's summary. A new sequence is numbered like this; one that exists must be
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "optional_object"
    )]
    pub numbering: Option<Numbering>,
}

/// The privileges of one role, or of `public`, each once.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Grant {
    pub grantee: String,
    pub privileges: Vec<String>,
}

// Serde reads an enum from more than a string, so it is read from a string here.

impl TryFrom<String> for DataType {
    type Error = String;

    fn try_from(name: String) -> Result<DataType, String> {
        DataType::by_name(&name).ok_or_else(|| {
            format!("unknown data type \"{name}\", expected smallint, integer or bigint")
        })
    }
}

impl Document {
    /// Reads a document.
    ///
    /// # Errors
    /// Says what is wrong with the first field that is.
    pub fn parse(json: &str) -> Result<Document, DocumentError> {
        let mut reader = serde_json::Deserializer::from_str(json);
        let Object(document): Object<Document> = serde_path_to_error::deserialize(&mut reader)
            .map_err(|error| DocumentError {
                what: plain(error.inner()),
                path: error.path().to_string(),
            })?;
        document.check()?;
        Ok(document)
    }

    fn check(&self) -> Result<(), DocumentError> {
        let mut names = HashMap::new();
        names
            .try_reserve(self.sequences.len())
            .map_err(|_| DocumentError { what: OUT_OF_MEMORY.into(), path: ".".into() })?;
        for (at, described) in self.sequences.iter().enumerate() {
            if let Some(first) = names.insert(described.name.as_str(), at) {
                return Err(DocumentError {
                    what: format!("sequences[{first}] has the same name \"{}\"", described.name),
                    path: format!("sequences[{at}].name"),
                });
            }
            let path = format!("sequences[{at}]");
            described.check_grants(&path)?;
            described.numbering.map_or(Ok(()), |numbering| numbering.check(&path))?;
        }
        Ok(())
    }
}

impl Described {
    /// The fewest fields from which [`Definition::create`] makes this definition.
    pub fn of(name: String, definition: &Definition) -> Described {
        let defaults = Definition::create(&Options {
            data_type: Some(definition.data_type),
            increment: Some(definition.increment),
            ..Options::default()
        });
        let first = match definition.increment > 0 {
            true => definition.min_value,
            false => definition.max_value,
        };
        let (low, high) = defaults
            .map_or((None, None), |defaults| (Some(defaults.min_value), Some(defaults.max_value)));
        let other = |value, default| (Some(value) != default).then_some(value);
        Described {
            name,
            data_type: Some(definition.data_type).filter(|of| *of != DataType::BigInt),
            start_value: other(definition.start_value, Some(first)),
            increment: other(definition.increment, Some(1)),
            min_value: other(definition.min_value, low),
            max_value: other(definition.max_value, high),
            cycle: Some(true).filter(|_| definition.cycle),
            ordered: Some(true).filter(|_| definition.ordered),
            block_size: definition.block_size,
            slice_size: definition.slice_size,
            key_format: own_format(definition).map(str::to_owned),
            gapless: Some(true).filter(|_| definition.gapless),
            source: definition.source.clone(),
            reserve_ahead: definition.reserve_ahead,
            ..Described::default()
        }
    }

    /// The options of the sequence, for [`Definition::create`].
    pub fn options(&self) -> Options {
        Options {
            data_type: self.data_type,
            start_value: self.start_value,
            increment: self.increment,
            min_value: self.min_value,
            max_value: self.max_value,
            cycle: self.cycle,
            ordered: self.ordered,
            block_size: self.block_size,
            slice_size: self.slice_size,
            key_format: self.key_format.clone(),
            gapless: self.gapless,
            source: self.source.clone(),
            reserve_ahead: self.reserve_ahead,
        }
    }

    fn check_grants(&self, path: &str) -> Result<(), DocumentError> {
        let mut grantees = HashSet::new();
        for (at, grant) in self.privileges.iter().flatten().enumerate() {
            let path = format!("{path}.privileges[{at}]");
            if !grantees.insert(&grant.grantee) {
                let what = format!("the grantee \"{}\" appears twice", grant.grantee);
                return Err(DocumentError { what, path: format!("{path}.grantee") });
            }
            for (at, privilege) in grant.privileges.iter().enumerate() {
                let known = PRIVILEGES.contains(&privilege.as_str());
                let what = match (known, grant.privileges[..at].contains(privilege)) {
                    (true, false) => continue,
                    (true, true) => format!("the privilege {privilege} appears twice"),
                    _ => format!(
                        "unknown privilege \"{privilege}\", expected USAGE, SELECT or UPDATE"
                    ),
                };
                return Err(DocumentError { what, path: format!("{path}.privileges[{at}]") });
            }
        }
        Ok(())
    }
}

/// The options with which [`Definition::alter`] makes `new` of `old`; `None` if nothing differs. It
/// says all of them, because a bound that is left out may follow the data type.
pub fn difference(old: &Definition, new: &Definition) -> Option<Options> {
    let format = (own_format(old) != own_format(new))
        .then(|| own_format(new).unwrap_or(key_format::DEFAULT).to_owned());
    let alike = Definition { key_format: old.key_format.clone(), ..new.clone() } == *old;
    (!alike || format.is_some()).then_some(Options {
        data_type: Some(new.data_type),
        start_value: Some(new.start_value),
        increment: Some(new.increment),
        min_value: Some(new.min_value),
        max_value: Some(new.max_value),
        cycle: Some(new.cycle),
        ordered: Some(new.ordered),
        // 0 is what makes a size adaptive.
        block_size: Some(new.block_size.unwrap_or(0)),
        slice_size: Some(new.slice_size.unwrap_or(0)),
        key_format: format,
        gapless: Some(new.gapless),
        // The empty text takes a source away, and 0 what is kept ahead of it.
        source: Some(new.source.clone().unwrap_or_default()),
        reserve_ahead: Some(new.reserve_ahead.unwrap_or(0)),
    })
}

/// The options in which two definitions differ, with both values.
pub fn changes(old: &Definition, new: &Definition) -> Map<String, Value> {
    let (old, mut new) = (all_options(old), all_options(new));
    let mut changes = Map::new();
    for (name, from) in old {
        let to = new.remove(&name).unwrap_or_default();
        if from != to {
            changes.insert(name, json!({"from": from, "to": to}));
        }
    }
    changes
}

/// All options of a definition, by their names.
pub fn all_options(definition: &Definition) -> Map<String, Value> {
    let key_format = own_format(definition).map(str::to_owned);
    match serde_json::to_value(Definition { key_format, ..definition.clone() }) {
        Ok(Value::Object(all)) => all,
        _ => Map::new(),
    }
}

/// The key format of a definition, unless it is the default, written out or not.
fn own_format(definition: &Definition) -> Option<&str> {
    definition.key_format.as_deref().filter(|format| *format != key_format::DEFAULT)
}

fn known_version<'de, D: Deserializer<'de>>(from: D) -> Result<u32, D::Error> {
    match u32::deserialize(from)? {
        VERSION => Ok(VERSION),
        other => Err(D::Error::custom(format!(
            "version {other} of the document is not known; this version of hilo reads {VERSION}"
        ))),
    }
}

/// The entries in braces. Serde would also take a list of the fields' values.
struct Object<T>(T);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Object<T> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Fields<T>(PhantomData<T>);
        impl<'de, T: Deserialize<'de>> Visitor<'de> for Fields<T> {
            type Value = Object<T>;

            fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, fields: A) -> Result<Self::Value, A::Error> {
                T::deserialize(MapAccessDeserializer::new(fields)).map(Object)
            }
        }
        from.deserialize_map(Fields(PhantomData))
    }
}

fn optional_object<'de, D, T>(from: D) -> Result<Option<T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    let object: Option<Object<T>> = Option::deserialize(from)?;
    Ok(object.map(|Object(inner)| inner))
}

/// A list of objects. A lack of memory is an error, and does not end the process.
fn list<'de, D, T>(from: D) -> Result<Vec<T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    struct List<T>(PhantomData<T>);
    impl<'de, T: Deserialize<'de>> Visitor<'de> for List<T> {
        type Value = Vec<T>;

        fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
            f.write_str("an array")
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut from: A) -> Result<Vec<T>, A::Error> {
            let mut all = Vec::new();
            while let Some(Object(next)) = from.next_element()? {
                all.try_reserve(1).map_err(|_| A::Error::custom(OUT_OF_MEMORY))?;
                all.push(next);
            }
            Ok(all)
        }
    }
    from.deserialize_seq(List(PhantomData))
}

fn optional_list<'de, D, T>(from: D) -> Result<Option<Vec<T>>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    struct Wrapped<T>(Vec<T>);
    impl<'de, T: Deserialize<'de>> Deserialize<'de> for Wrapped<T> {
        fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
            list(from).map(Wrapped)
        }
    }
    Ok(Option::<Wrapped<T>>::deserialize(from)?.map(|wrapped| wrapped.0))
}

/// The message of serde, in the words and quotes of SQL and without a place in a text that the
/// caller has not seen.
fn plain(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let text = text.split(" at line ").next().unwrap_or_default();
    text.replace('`', "\"")
        .replace("expected i64", "expected bigint")
        .replace("expected u32", "expected the version")
        .replace("expected a sequence", "expected an array")
        .replace("invalid type: sequence", "invalid type: array")
        .replace("invalid type: map", "invalid type: object")
        .replace("string or map", "string")
}
