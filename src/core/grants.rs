//! Privileges as documents list them.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Grant {
    /// A role, or public for all roles.
    pub grantee: String,
    pub privileges: Vec<Privilege>,
}

/// In the order in which documents list them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Privilege {
    Usage,
    Select,
    Update,
    Lease,
}

/// Privileges by grantee.
pub type Grants = BTreeMap<String, BTreeSet<Privilege>>;

/// The list of a document.
pub fn list(grants: &Grants) -> Vec<Grant> {
    let grant = |(grantee, set): (&String, &BTreeSet<_>)| Grant {
        grantee: grantee.clone(),
        privileges: set.iter().copied().collect(),
    };
    grants.iter().map(grant).collect()
}

/// The privileges that `some` have and `others` do not.
pub fn without(some: &Grants, others: &Grants) -> Grants {
    let none = BTreeSet::new();
    let rest = |(grantee, set): (&String, &BTreeSet<_>)| {
        let rest: BTreeSet<_> = set - others.get(grantee).unwrap_or(&none);
        (!rest.is_empty()).then(|| (grantee.clone(), rest))
    };
    some.iter().filter_map(rest).collect()
}
