//! Who a server is among those that share sequences, as the setting `hilo.node_id` says it.

/// The highest number that a node can have.
pub const HIGHEST: i32 = 1023;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeId {
    /// It is not set. Then the server is node 0, and cannot join others.
    Unset,
    Number(i32),
    /// The number is that of the server's group in Citus.
    Citus,
}

impl NodeId {
    /// Reads a value of the setting. `None`: it is not one.
    pub fn parse(text: &str) -> Option<NodeId> {
        match text.trim() {
            "" => Some(NodeId::Unset),
            word if word.eq_ignore_ascii_case("citus") => Some(NodeId::Citus),
            number => {
                let number = number.parse().ok().filter(|id| (0..=HIGHEST).contains(id));
                number.map(NodeId::Number)
            }
        }
    }
}
