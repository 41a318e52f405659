//! A sequence in a document: its options, who may do what with it, and how the nodes number it.

use std::collections::BTreeSet;
use std::fmt;

use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize};

use crate::named;
use crate::options::{DataType, Options, each_option};

macro_rules! entry {
    ($($(#[doc = $about:literal])* $(#[bounds $bounds:tt])? $option:ident: $type:ty,)+) => {
        /// A sequence in a document.
        #[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
        #[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
        #[serde(deny_unknown_fields)]
        pub struct Entry {
            /// 1 to 255 bytes without control characters. Case matters.
            #[cfg_attr(
                feature = "schema",
                schemars(length(min = 1, max = 255), regex(pattern = r"^[^\u0000-\u001f\u007f]+$"))
            )]
            pub name: String,
            $($(#[doc = $about])*
            $(#[cfg_attr(feature = "schema", schemars $bounds)])?
            #[serde(skip_serializing_if = "Option::is_none")]
            pub $option: Option<$type>,)+
            /// The column with which the sequence is dropped: schema.table.column, each quoted as
            /// in SQL. Default: none.
            #[serde(skip_serializing_if = "Option::is_none")]
            pub owned_by: Option<String>,
            /// The role that owns the sequence. Default: the current role for a new sequence;
            /// unchanged for one that exists.
            #[serde(skip_serializing_if = "Option::is_none")]
            pub owner: Option<String>,
            /// All that is granted. Default: what a new sequence has; unchanged for one that
            /// exists.
            #[serde(skip_serializing_if = "Option::is_none")]
            pub privileges: Option<Vec<Grant>>,
            /// Which numbers the nodes serve. A new sequence is numbered like this. So is one that
            /// this server has not served under its present node id, unless replication brings its
            /// positions. Any other must have this numbering already. Default: as hilo_create
            /// numbers it; unchecked for one that exists.
            #[serde(skip_serializing_if = "Option::is_none")]
            pub numbering: Option<Numbering>,
            /// Whether a source brings the values. Only a summary says so, to everybody who may
            /// read the sequence; hilo_apply refuses such a sequence without its source.
            #[serde(skip_serializing_if = "Option::is_none")]
            pub fed: Option<bool>,
        }

        impl Entry {
            /// A sequence with these options.
            pub fn new(name: String, options: Options) -> Entry {
                Entry { name, $($option: options.$option,)+ ..Entry::default() }
            }

            pub fn is_fed(&self) -> bool {
                self.fed == Some(true)
            }

            pub fn options(&self) -> Options {
                Options { $($option: self.$option.clone(),)+ }
            }
        }
    };
}

each_option!(entry);

/// The privileges of a role.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Grant {
    /// A role, or public for all roles.
    pub grantee: String,
    pub privileges: BTreeSet<Privilege>,
}

named! {
    /// A right, in the order in which documents list them.
    #[derive(PartialOrd, Ord, Serialize, Deserialize)]
    #[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
    #[serde(rename_all = "UPPERCASE")]
    pub enum Privilege {
        Usage = "USAGE",
        Select = "SELECT",
        Update = "UPDATE",
        Lease = "LEASE",
    }
}

/// The numbers that all nodes of a sequence must agree on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Numbering {
    /// The first value of node 0.
    pub base: i64,
    #[cfg_attr(feature = "schema", schemars(range(min = 1, max = 1024)))]
    #[serde(deserialize_with = "within::<1, 1024, _, _>")]
    pub nodes: i32,
    /// How many values a node serves before those of the next node follow.
    #[cfg_attr(feature = "schema", schemars(range(min = 1)))]
    #[serde(deserialize_with = "within::<1, { i64::MAX }, _, _>")]
    pub stripe: i64,
}

impl fmt::Display for Numbering {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Numbering { base, nodes, stripe } = self;
        write!(f, "from {base} with node count {nodes} and stripes of {stripe}")
    }
}

/// Reads a number from `LOW` to `HIGH`; `N` has all of these.
pub(crate) fn within<'de, const LOW: i64, const HIGH: i64, N, D>(from: D) -> Result<N, D::Error>
where
    N: TryFrom<i64>,
    D: Deserializer<'de>,
{
    let found = i64::deserialize(from)?;
    let number = N::try_from(found).ok().filter(|_| (LOW..=HIGH).contains(&found));
    number.ok_or_else(|| {
        D::Error::custom(format!("expected a number from {LOW} to {HIGH}, found {found}"))
    })
}
