//! The setting `hilo.node_id`: which node a server is.

/// The highest number that a node can have.
pub const HIGHEST: i32 = 1023;

/// Reads a value of the setting. `Some(None)`: it is empty, so the server is node 0, and cannot
/// join others. `None`: it is no value of the setting.
pub fn parse(text: &str) -> Option<Option<i32>> {
    match text.trim() {
        "" => Some(None),
        number => number.parse().ok().filter(|id| (0..=HIGHEST).contains(id)).map(Some),
    }
}
