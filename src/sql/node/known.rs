//! The sequences that the caller may read, as documents describe them: `hilo_export` and
//! `hilo_node_summary`.

use std::ffi::CString;

use pgrx::pg_sys::panic::ErrorReport;
use pgrx::prelude::*;

use hilo_core::document::{Document, Entry, Grant, Node};
use hilo_core::plan::Described;

use crate::catalog::columns::column_ref::ColumnRef;
use crate::catalog::rights::missing;
use crate::catalog::rights::privileges::{self, Privileges};
use crate::catalog::rows::encoding::decode;
use crate::catalog::rows::roles;
use crate::catalog::sequence::definitions::{self, Sequence};
use crate::catalog::sequence::{node, numbering, positions};
use crate::errors::HiloError;
use crate::gucs;
use crate::process::{ffi, memory};
use crate::shared;
use crate::sql::call::border::Call;
use crate::sql::call::jsonb::JsonB;
use crate::sql::types::sequence_type::SequenceName;

/// A sequence with the privileges on it.
pub struct Known {
    pub sequence: Sequence,
    granted: Vec<(pg_sys::Oid, Privileges)>,
}

/// `hilo_export(name)`
#[pg_extern(sql = false)]
fn hilo_export(_call: Call, name: Option<SequenceName>) -> Result<JsonB, ErrorReport> {
    if let Some(name) = &name {
        missing::require(name)?;
    }
    written(None, all(name, Known::described)?)
}

/// `hilo_node_summary(name)`
#[pg_extern(sql = false)]
fn hilo_node_summary(_call: Call, name: Option<SequenceName>) -> Result<JsonB, ErrorReport> {
    written(Some(this_node()), all(name, Known::summary)?)
}

fn written(node: Option<Node>, described: Vec<Described>) -> Result<JsonB, ErrorReport> {
    let sequences = memory::try_collect(described.into_iter().map(|one| one.entry))?;
    Ok(JsonB::serialize(&Document { hilo: 1, node, sequences })?)
}

/// The sequence of this name, if there is one, or without a name, all sequences by name.
///
/// # Errors
/// `Permission` if the caller may not read it.
pub fn all(
    name: Option<SequenceName>,
    describe: fn(&Known) -> Result<Described, HiloError>,
) -> Result<Vec<Described>, HiloError> {
    let known = match name {
        None => visible(None)?,
        Some(name) => {
            let found = definitions::by_name(&name)?;
            found.iter().try_for_each(privileges::allow_to_see)?;
            memory::try_collect_results(found.into_iter().map(Known::read))?
        }
    };
    memory::try_collect_results(known.iter().map(describe))
}

/// The sequences that the transaction sees and the caller may read, all or those with these names,
/// by name.
pub fn visible(names: Option<&[Vec<u8>]>) -> Result<Vec<Known>, HiloError> {
    let sequences = definitions::seen(names)?;
    let ids = memory::try_collect(sequences.iter().map(|sequence| sequence.id.0))?;
    let mut granted = privileges::grants_on_all(&ids)?;
    let known = sequences.into_iter().map(|sequence| {
        let granted = granted.remove(&sequence.id).unwrap_or_default();
        Known { sequence, granted }
    });
    memory::try_collect(known.filter(|one| privileges::shows(&one.sequence, &one.granted)))
}

impl Known {
    pub fn read(sequence: Sequence) -> Result<Known, HiloError> {
        let granted = privileges::grants_on(sequence.id)?;
        Ok(Known { sequence, granted })
    }

    pub fn is_own(&self) -> bool {
        privileges::acts_as(ffi::current_user(), self.sequence.owner)
    }

    /// Whoever acts as the owner sees the query that runs as the owner.
    pub fn described(&self) -> Result<Described, HiloError> {
        memory::check()?;
        let mut definition = self.sequence.definition.clone().plain();
        if definition.source.is_some() && !self.is_own() {
            (definition.source, definition.reserve_ahead) = (None, None);
        }
        // Without roles that do not exist any more.
        let grant = |(role, set): &(pg_sys::Oid, Privileges)| {
            let grantee = decoded(roles::name_or_public(*role))?;
            Some(Grant { grantee, privileges: set.each().collect() })
        };
        let mut privileges: Vec<_> = self.granted.iter().filter_map(grant).collect();
        privileges.sort_unstable();
        let entry = Entry {
            owned_by: decoded(self.sequence.owned_by.and_then(ColumnRef::text)),
            owner: decoded(roles::name(self.sequence.owner)),
            privileges: Some(privileges),
            ..Entry::new(decode(&self.sequence.name), definition.options())
        };
        Ok(Described { entry, definition })
    }

    /// The sequence as other servers need to know it: with the numbering of this node, or the one
    /// with which it would begin. The numbering is left out if this node refuses to serve the
    /// sequence.
    pub fn summary(&self) -> Result<Described, HiloError> {
        let (sequence, mut summary) = (&self.sequence, self.described()?);
        let position = numbering::found_or_joined(sequence, node::id())?;
        summary.entry.numbering = position.map(|position| position.numbering());
        summary.entry.fed = sequence.definition.source.is_some().then_some(true);
        Ok(summary)
    }
}

/// The text of a name of the catalog, in UTF-8.
pub fn decoded(name: Option<CString>) -> Option<String> {
    name.map(|name| decode(name.to_bytes()))
}

/// This server. Its life identifies it, because copies share its system identifier.
pub fn this_node() -> Node {
    let life = shared::get().map_or(positions::server().0, |shared| shared.life());
    Node { id: node::id(), count: gucs::node_count(), server: life.to_string() }
}
