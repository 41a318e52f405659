//! Sequences as documents describe them and as they are: what differs, and which changes make it
//! the same.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::document::{Entry, Grant, Numbering, Privilege};
use crate::options::{Definition, OptionError};

/// A sequence as a document describes it, or as it is.
#[derive(Debug)]
pub struct Described {
    pub entry: Entry,
    pub definition: Definition,
}

/// A change of a sequence, as a row of the result.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "action", content = "detail", rename_all = "snake_case")]
pub enum Change {
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
    pub fn new(entry: Entry) -> Result<Described, OptionError> {
        let definition = Definition::create(&entry.options())?.plain();
        Ok(Described { entry, definition })
    }

    /// The options that differ in `old`: each says `from` and `to`.
    pub fn differences(&self, old: &Described) -> Map<String, Value> {
        let mut differ = Map::new();
        if self.definition == old.definition && self.entry.owned_by == old.entry.owned_by {
            return differ;
        }
        let [new, old] = [self, old].map(|one| {
            let mut options = json!(one.definition);
            options["owned_by"] = json!(one.entry.owned_by);
            options
        });
        for (option, to) in new.as_object().into_iter().flatten() {
            let from = &old[option];
            if from != to {
                differ.insert(option.clone(), json!({"from": from, "to": to}));
            }
        }
        differ
    }

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
            changes.extend(without(&held, privileges).into_iter().map(Change::Revoke));
            changes.extend(without(privileges, &held).into_iter().map(Change::Grant));
        }
        changes
    }
}

/// The privileges in one list and not in the other.
fn without(some: &[Grant], others: &[Grant]) -> Vec<Grant> {
    let mut rest = BTreeMap::<&String, BTreeSet<Privilege>>::new();
    for grant in some {
        rest.entry(&grant.grantee).or_default().extend(&grant.privileges);
    }
    for grant in others {
        rest.entry(&grant.grantee).or_default().retain(|one| !grant.privileges.contains(one));
    }
    rest.retain(|_, privileges| !privileges.is_empty());
    rest.into_iter()
        .map(|(grantee, privileges)| Grant { grantee: grantee.clone(), privileges })
        .collect()
}

/// Pairs the elements of both lists that have the same name, in the order of the names.
pub fn by_name<N: Ord, A, B>(
    ones: impl IntoIterator<Item = (N, A)>,
    others: impl IntoIterator<Item = (N, B)>,
) -> BTreeMap<N, (Option<A>, Option<B>)> {
    let mut pairs: BTreeMap<_, (Option<_>, Option<_>)> = BTreeMap::new();
    for (name, one) in ones {
        pairs.entry(name).or_default().0 = Some(one);
    }
    for (name, other) in others {
        pairs.entry(name).or_default().1 = Some(other);
    }
    pairs
}
