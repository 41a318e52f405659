//! Privileges as documents list them.

use std::collections::HashSet;

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
    #[derive(PartialOrd, Ord, Hash, Serialize, Deserialize)]
    #[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
    #[serde(rename_all = "UPPERCASE")]
    pub enum Privilege {
        Usage = "USAGE",
        Select = "SELECT",
        Update = "UPDATE",
        Lease = "LEASE",
    }
}

/// Sorts a list, so that equal lists compare as equal.
///
/// # Errors
/// The place in the list of a grantee or privilege that is there twice.
pub fn sort(list: &mut Vec<Grant>) -> Result<(), String> {
    let mut grantees = HashSet::new();
    for (at, Grant { grantee, privileges }) in list.iter_mut().enumerate() {
        let mut known = HashSet::new();
        if let Some(twice) = privileges.iter().position(|one| !known.insert(*one)) {
            return Err(format!("[{at}].privileges[{twice}]"));
        }
        if !grantees.insert(grantee.clone()) {
            return Err(format!("[{at}].grantee"));
        }
        privileges.sort_unstable();
    }
    list.retain(|grant| !grant.privileges.is_empty());
    list.sort_unstable_by(|one, other| one.grantee.cmp(&other.grantee));
    Ok(())
}

/// The privileges in one list and not in the other. Both lists are sorted.
pub fn without(some: &[Grant], others: &[Grant]) -> impl Iterator<Item = Grant> {
    some.iter().filter_map(|grant| {
        let same = others.binary_search_by(|other| other.grantee.cmp(&grant.grantee));
        let held = same.map_or(&[][..], |at| &others[at].privileges);
        let mut rest = grant.clone();
        rest.privileges.retain(|one| !held.contains(one));
        (!rest.privileges.is_empty()).then_some(rest)
    })
}
