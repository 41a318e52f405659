//! Privileges as documents list them.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::named;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Grant {
    /// A role, or public for all roles.
    pub grantee: String,
    #[cfg_attr(feature = "schema", schemars(extend("uniqueItems" = true)))]
    pub privileges: Vec<Privilege>,
}

named! {
    /// A right, in the order in which documents list them.
    #[derive(PartialOrd, Ord, Serialize, Deserialize)]
    #[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
    #[serde(rename_all = "UPPERCASE")]
    pub enum Privilege {
        Usage = "USAGE",
        Select = "SELECT",
        Update = "UPDATE",
        Lease = "LEASE",
    }
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
