//! The changes of `hilo_apply`: what a document says of a sequence, compared with what it is.

use serde::Serialize;
use serde_json::{Map, Value};

use crate::document::{Described, Entry, Grant, Numbering};
use crate::grants::without;

/// A change of a sequence, as a row of the result.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "action", content = "detail", rename_all = "snake_case")]
pub enum Change {
    /// All but the name.
    Create(Entry),
    Drop(Entry),
    /// Numbers the sequence as the other nodes do.
    Number(Numbering),
    /// The options, and the column that owns it: each says `from` and `to`.
    Alter(Map<String, Value>),
    SetOwner {
        from: Option<String>,
        to: String,
    },
    Revoke(Grant),
    Grant(Grant),
}

impl Described {
    /// The changes that lead from `found` to this description, in the order in which they are made.
    pub fn changes(&self, found: &Described) -> Vec<Change> {
        let (wanted, old) = (&self.entry, &found.entry);
        let mut changes = Vec::new();
        if let Some(numbering) = wanted.numbering.filter(|_| wanted.numbering != old.numbering) {
            changes.push(Change::Number(numbering));
        }
        let options = self.differences(found);
        if !options.is_empty() {
            changes.push(Change::Alter(options));
        }
        let mut held = old.privileges.clone().unwrap_or_default();
        if let Some(owner) = wanted.owner.clone().filter(|_| wanted.owner != old.owner) {
            // The privileges of both owners end when one gives the sequence to the other.
            held.retain(|grant| {
                grant.grantee != owner && Some(&grant.grantee) != old.owner.as_ref()
            });
            changes.push(Change::SetOwner { from: old.owner.clone(), to: owner });
        }
        if let Some(privileges) = &wanted.privileges {
            changes.extend(without(&held, privileges).map(Change::Revoke));
            changes.extend(without(privileges, &held).map(Change::Grant));
        }
        changes
    }
}
