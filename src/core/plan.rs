//! The work of `hilo_apply` on a sequence: the difference between what a document says of it and
//! what it is.

use serde_json::{Value, json};

use crate::document::{Described, Entry, Grants, list, without};
use crate::node_numbers::Numbering;
use crate::options::Options;

/// A row of the result.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    pub action: &'static str,
    pub detail: Value,
}

impl Row {
    /// The row of a sequence that is created or dropped: all but the name.
    pub fn of(action: &'static str, entry: &Entry) -> Row {
        let mut detail = json!(entry);
        detail.as_object_mut().map(|fields| fields.remove("name"));
        Row { action, detail }
    }
}

/// The changes of a sequence that exists.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Change {
    /// How the other nodes number it, if this server does not.
    pub numbering: Option<Numbering>,
    pub options: Options,
    /// Whether another column is to own it, or none.
    pub moves: bool,
    /// The new owner.
    pub owner: Option<String>,
    pub revokes: Grants,
    pub grants: Grants,
    /// The rows of all that is changed but the numbering.
    pub rows: Vec<Row>,
}

impl Described {
    /// The changes that make this of `found`. `None`: it is as it should be.
    pub fn change(&self, found: &Described) -> Option<Change> {
        let owners = [&self.entry.owner, &found.entry.owner];
        let is_given = self.entry.owner.is_some() && owners[0] != owners[1];
        let mut held = found.granted.clone().unwrap_or_default();
        if is_given {
            // The privileges of both owners end when one gives the sequence to the other.
            held.retain(|grantee, _| owners.iter().all(|owner| owner.as_ref() != Some(grantee)));
        }
        let mut change = Change {
            moves: self.entry.owned_by != found.entry.owned_by,
            owner: self.entry.owner.clone().filter(|_| is_given),
            ..Change::default()
        };
        if let Some(privileges) = &self.granted {
            change.revokes = without(&held, privileges);
            change.grants = without(privileges, &held);
        }
        if self.definition != found.definition {
            change.options = self.definition.changes_of(&found.definition);
        }
        let mut add = |action, detail| change.rows.push(Row { action, detail });
        let options = self.changes(found);
        if !options.is_empty() {
            add("alter", options.into());
        }
        if is_given {
            add("set_owner", json!({"from": owners[1], "to": owners[0]}));
        }
        for (action, grants) in [("revoke", &change.revokes), ("grant", &change.grants)] {
            list(grants).iter().for_each(|grant| add(action, json!(grant)));
        }
        let [there, here] = [self, found].map(|one| one.entry.numbering.map(Numbering::from));
        change.numbering = there.filter(|_| there != here);
        (!change.rows.is_empty() || change.numbering.is_some()).then_some(change)
    }
}
