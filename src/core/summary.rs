//! The description that a server gives of itself in a document, for others.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::document_error::DocumentError;
use crate::node_id;

/// Who a server is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Node {
    pub id: i32,
    /// Its `hilo.node_count`
    pub count: i32,
    /// Its mark among other servers, as long as it runs
    pub server: String,
}

/// Which numbers the nodes of a sequence serve, and how far one of them has reserved.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Numbering {
    pub base: i64,
    pub nodes: i32,
    pub stripe: i64,
    /// `None`: nothing is reserved
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reserved_to: Option<i64>,
}

impl Numbering {
    /// Whether a node can have it; `path` is where in a document it is.
    ///
    /// # Errors
    /// Says which field is wrong.
    pub fn check(&self, path: &str) -> Result<(), DocumentError> {
        let fault = |field: &str, what: String| {
            Err(DocumentError { what, path: format!("{path}.numbering.{field}") })
        };
        match self {
            Numbering { nodes, .. } if !(1..=node_id::HIGHEST + 1).contains(nodes) => fault(
                "nodes",
                format!("the number of nodes is {nodes}, and must be from 1 to 1024"),
            ),
            Numbering { stripe: ..=0, .. } => {
                fault("stripe", "a stripe has at least one value".into())
            }
            _ => Ok(()),
        }
    }

    /// Whether two nodes with these numberings serve disjoint numbers, apart from how far they have
    /// come.
    pub fn is_as(&self, other: &Numbering) -> bool {
        (self.base, self.nodes, self.stripe) == (other.base, other.nodes, other.stripe)
    }
}

impl fmt::Display for Numbering {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(
            f,
            "from {} with node count {} and stripes of {}",
            self.base, self.nodes, self.stripe
        )
    }
}
