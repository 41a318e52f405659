//! The answers of the server to a client that serves from its own memory.
//!
//! `clients/vectors.json` has examples, and what a client makes of each.

use serde::{Deserialize, Serialize};

/// The subject of a row of `hilo_refill`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    Returned,
    Renewed,
    Leased,
}

impl Kind {
    /// The kind of this name.
    pub fn from_name(name: &str) -> Option<Kind> {
        match name {
            "returned" => Some(Kind::Returned),
            "renewed" => Some(Kind::Renewed),
            "leased" => Some(Kind::Leased),
            _ => None,
        }
    }
}

/// A row of `hilo_refill`, by its columns. A row that was not refused has the columns of its kind.
/// Later versions of the server may have more.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Row {
    pub kind: Kind,
    /// The sequence, if a lease was asked for.
    pub name: Option<String>,
    /// The lease, a uuid.
    pub lease: String,
    pub first: Option<i64>,
    pub last: Option<i64>,
    pub increment: Option<i64>,
    pub count: Option<i64>,
    pub expires_at: Option<String>,
    pub key_format: Option<String>,
    pub server_prefix: Option<String>,
    pub suggested: Option<i64>,
    pub sqlstate: Option<String>,
    pub message: Option<String>,
    pub detail: Option<String>,
    pub hint: Option<String>,
}

/// The effect of a row that was not refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Done {
    /// Ended a lease. The server serves this many values again.
    Returned(i64),
    Renewed,
    Leased(Lease),
}

/// A lease as the server describes it, by its columns: a row of `hilo_lease`, and of
/// `hilo_transfer`. Later versions of the server may have more.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lease {
    /// A uuid.
    pub lease: String,
    pub first: i64,
    pub last: i64,
    pub increment: i64,
    pub count: i64,
    pub expires_at: Option<String>,
    pub key_format: String,
    pub server_prefix: String,
    pub suggested: i64,
}

/// The error of a row that was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    pub sqlstate: String,
    pub message: String,
    pub detail: Option<String>,
    pub hint: Option<String>,
}

impl Row {
    /// The result or the refusal in the row. `None`: no server answers like this.
    pub fn outcome(self) -> Option<Result<Done, Refusal>> {
        if let Some(sqlstate) = self.sqlstate {
            let message = self.message.unwrap_or_default();
            return Some(Err(Refusal { sqlstate, message, detail: self.detail, hint: self.hint }));
        }
        Some(Ok(match self.kind {
            Kind::Returned => Done::Returned(self.count?),
            Kind::Renewed => Done::Renewed,
            Kind::Leased => Done::Leased(Lease {
                lease: self.lease,
                first: self.first?,
                last: self.last?,
                increment: self.increment?,
                count: self.count?,
                expires_at: self.expires_at,
                key_format: self.key_format?,
                server_prefix: self.server_prefix?,
                suggested: self.suggested?,
            }),
        }))
    }
}
