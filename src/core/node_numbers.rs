//! The parts of a document about a server: which node it is, and how it numbers a sequence.

use std::fmt;

use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize};

/// A server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Node {
    /// Its number among the nodes.
    #[cfg_attr(feature = "schema", schemars(range(min = 0, max = 1023)))]
    #[serde(deserialize_with = "within::<0, 1023, _, _>")]
    pub id: i32,
    /// Its hilo.node_count.
    #[cfg_attr(feature = "schema", schemars(range(min = 1, max = 1024)))]
    #[serde(deserialize_with = "within::<1, 1024, _, _>")]
    pub count: i32,
    /// Tells it from other servers, as long as it runs.
    pub server: String,
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
fn within<'de, const LOW: i64, const HIGH: i64, N, D>(from: D) -> Result<N, D::Error>
where
    N: TryFrom<i64>,
    D: Deserializer<'de>,
{
    let found = i64::deserialize(from)?;
    match N::try_from(found) {
        Ok(number) if (LOW..=HIGH).contains(&found) => Ok(number),
        _ => {
            Err(D::Error::custom(format!("expected a number from {LOW} to {HIGH}, found {found}")))
        }
    }
}
