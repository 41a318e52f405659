//! The work of `hilo_apply` on a sequence: the difference between what a document says of it and
//! what it is.

use serde_json::{Map, Value, json};

use crate::compare::all;
use crate::document::{Entry, Grants, Numbering, list, without};
use crate::options::{Definition, Options};

/// A sequence of a document.
pub struct Wanted {
    pub entry: Entry,
    pub definition: Definition,
    pub privileges: Option<Grants>,
}

/// A sequence as it is.
pub struct Found {
    pub definition: Definition,
    pub owner: Option<String>,
    pub owned_by: Option<String>,
    pub privileges: Grants,
    /// How this server numbers it. `None`: it refuses to serve it.
    pub numbering: Option<Numbering>,
}

/// A row of the result.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    pub action: &'static str,
    pub detail: Value,
}

/// The changes of a sequence that exists.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Change {
    pub options: Option<Options>,
    /// Whether another column is to own it, or none.
    pub moves: bool,
    /// The row of the options, and of the column.
    pub altered: Option<Row>,
    /// The row of the new owner.
    pub given: Option<Row>,
    pub revokes: Grants,
    pub grants: Grants,
}

impl Wanted {
    /// `owned_by`: the column that it names, as the catalog spells it. `None`: the sequence is as
    /// it should be.
    pub fn change(&self, found: &Found, owned_by: Option<String>) -> Option<Change> {
        let new_owner =
            self.entry.owner.as_ref().filter(|owner| Some(*owner) != found.owner.as_ref());
        let mut held = found.privileges.clone();
        if new_owner.is_some() {
            // The privileges of both owners end when one gives the sequence to the other.
            held.retain(|grantee, _| ![new_owner, found.owner.as_ref()].contains(&Some(grantee)));
        }
        let privileges = self.privileges.as_ref().unwrap_or(&held);
        let is_like =
            |here: &Numbering| self.entry.numbering.is_some_and(|there| here.is_like(&there));
        let change = Change {
            options: (self.definition != found.definition)
                .then(|| self.definition.changes_of(&found.definition)),
            altered: self.altered(found, owned_by.as_deref()),
            moves: owned_by != found.owned_by,
            given: new_owner.map(|owner| Row {
                action: "set_owner",
                detail: json!({"from": found.owner, "to": owner}),
            }),
            revokes: without(&held, privileges),
            grants: without(privileges, &held),
        };
        let is_told =
            self.entry.numbering.is_none() || found.numbering.as_ref().is_some_and(is_like);
        (change != Change::default() || !is_told).then_some(change)
    }

    /// The row of the options that differ.
    fn altered(&self, found: &Found, owned_by: Option<&str>) -> Option<Row> {
        if self.definition == found.definition && owned_by == found.owned_by.as_deref() {
            return None;
        }
        let new = all(&self.definition, owned_by);
        let mut old = all(&found.definition, found.owned_by.as_deref());
        let differ = new.into_iter().filter_map(|(option, new)| {
            let old = old.remove(&option).filter(|old| *old != new)?;
            Some((option, json!({"from": old, "to": new})))
        });
        let differ: Map<_, _> = differ.collect();
        (!differ.is_empty()).then(|| Row { action: "alter", detail: differ.into() })
    }

    /// The row of a new sequence, with these privileges in the end.
    pub fn created(&self, owner: &str, held: &Grants) -> Row {
        let privileges = self.privileges.as_ref().unwrap_or(held);
        let mut entry = self.entry.clone();
        entry.owner.get_or_insert_with(|| owner.to_owned());
        (entry.numbering, entry.privileges) = (None, Some(list(privileges)));
        Row { action: "create", detail: fields(&entry) }
    }
}

impl Change {
    /// The rows of what is changed.
    pub fn rows(&self) -> Vec<Row> {
        let mut rows: Vec<_> = self.altered.iter().chain(&self.given).cloned().collect();
        for (action, grants) in [("revoke", &self.revokes), ("grant", &self.grants)] {
            rows.extend(list(grants).iter().map(|grant| Row { action, detail: json!(grant) }));
        }
        rows
    }
}

/// The row of a sequence that is to be dropped.
pub fn dropped(entry: &Entry) -> Row {
    Row { action: "drop", detail: fields(entry) }
}

/// All but the name.
fn fields(entry: &Entry) -> Value {
    let mut fields = json!(entry);
    fields.as_object_mut().map(|fields| fields.remove("name"));
    fields
}
