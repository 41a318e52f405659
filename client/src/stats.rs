//! Snapshots of what a client has done.

use std::sync::Arc;

/// A client's counters for one sequence.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct SequenceStats {
    /// The name of the sequence.
    pub name: Arc<str>,
    /// Values served, all from memory.
    pub hits: u64,
    /// Leases received.
    pub refills: u64,
    /// Callers who had to wait for one.
    pub waits: u64,
    /// Refusals of the server.
    pub errors: u64,
    /// Values per second, the mean over a minute.
    pub rate: f64,
    /// Values that can be served without the server.
    pub left: u64,
    /// Open leases with these values.
    pub leases: u64,
}

/// A client's counters in all.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Stats {
    /// Sequences that were named.
    pub sequences: u64,
    /// Values served, all from memory.
    pub hits: u64,
    /// Leases received.
    pub refills: u64,
    /// Callers who had to wait for one.
    pub waits: u64,
    /// Refusals of the server.
    pub errors: u64,
    /// Values per second, the mean over a minute.
    pub rate: f64,
    /// Values that can be served without the server.
    pub left: u64,
    /// Open leases with these values.
    pub leases: u64,
    /// Statements sent, each with one commit.
    pub statements: u64,
    /// How often the server could not be reached, or did not answer.
    pub failures: u64,
    /// Statements for which the server had no room, or no time: they were sent again, in smaller
    /// parts.
    pub overloads: u64,
    /// Connections made.
    pub connects: u64,
    /// Whether the last attempt to reach the server has succeeded.
    pub connected: bool,
}

/// The values that a shutdown has returned.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Returned {
    /// Leases that were ended.
    pub leases: u64,
    /// Values that the server serves again.
    pub values: u64,
    /// Leases whose return it refused. They were revoked, if the server allowed that, and else are
    /// open.
    pub refused: u64,
}
