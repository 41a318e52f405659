//! A server and its numbers, as documents say it.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Node {
    /// Its number among the nodes.
    pub id: Within<0, 1023>,
    /// Its hilo.node_count.
    pub count: Within<1, 1024>,
    /// Tells it from other servers, as long as it runs.
    pub server: String,
}

/// The numbers that all nodes of a sequence must agree on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Numbering {
    pub base: i64,
    pub nodes: i32,
    pub stripe: i64,
}

impl fmt::Display for Numbering {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Numbering { base, nodes, stripe } = self;
        write!(f, "from {base} with node count {nodes} and stripes of {stripe}")
    }
}

/// How the nodes number a sequence, in a document.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Numbered {
    /// The first value of node 0.
    pub base: i64,
    pub nodes: Within<1, 1024>,
    /// How many values a node serves before those of the next node follow.
    pub stripe: Within<1, { i64::MAX }>,
    /// The furthest value that the node of the summary has reserved; null: it has reserved none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reserved_to: Option<i64>,
}

impl From<Numbering> for Numbered {
    fn from(Numbering { base, nodes, stripe }: Numbering) -> Numbered {
        Numbered { base, nodes: Within(nodes.into()), stripe: Within(stripe), reserved_to: None }
    }
}

impl From<Numbered> for Numbering {
    fn from(Numbered { base, nodes, stripe, .. }: Numbered) -> Numbering {
        Numbering { base, nodes: nodes.0 as i32, stripe: stripe.0 }
    }
}

/// A number from `LOW` to `HIGH`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "i64", into = "i64")]
pub struct Within<const LOW: i64, const HIGH: i64>(pub i64);

impl<const LOW: i64, const HIGH: i64> TryFrom<i64> for Within<LOW, HIGH> {
    type Error = String;

    fn try_from(number: i64) -> Result<Self, String> {
        match (LOW..=HIGH).contains(&number) {
            true => Ok(Within(number)),
            false => Err(format!("expected a number from {LOW} to {HIGH}, found {number}")),
        }
    }
}

impl<const LOW: i64, const HIGH: i64> From<Within<LOW, HIGH>> for i64 {
    fn from(number: Within<LOW, HIGH>) -> i64 {
        number.0
    }
}

#[cfg(feature = "schema")]
impl<const LOW: i64, const HIGH: i64> schemars::JsonSchema for Within<LOW, HIGH> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> std::borrow::Cow<'static, str> {
        format!("from {LOW} to {HIGH}").into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({"type": "integer", "minimum": LOW, "maximum": HIGH})
    }
}
