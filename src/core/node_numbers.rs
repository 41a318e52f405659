//! A server and its numbers, as documents say it.

use serde::{Deserialize, Serialize};

/// A server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Node {
    /// Its number among the nodes.
    pub id: Within<0, 1023>,
    /// Its hilo.node_count.
    pub count: Within<1, 1024>,
    /// Tells it from other servers, as long as it runs.
    pub server: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Numbering {
    /// The first value of node 0.
    pub base: i64,
    pub nodes: Within<1, 1024>,
    /// How many values a node serves before those of the next node follow.
    pub stripe: Within<1, { i64::MAX }>,
    /// The furthest value that the node of the summary has reserved; null: it has reserved none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reserved_to: Option<i64>,
}

impl Numbering {
    /// Whether the values of both are the same.
    pub fn is_like(&self, other: &Numbering) -> bool {
        Numbering { reserved_to: None, ..*self } == Numbering { reserved_to: None, ..*other }
    }
}

impl std::fmt::Display for Numbering {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Numbering { base, nodes: Within(nodes), stripe: Within(stripe), .. } = self;
        write!(f, "from {base} with node count {nodes} and stripes of {stripe}")
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
