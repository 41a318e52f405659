//! The sequences that the caller may read, as documents describe them: `hilo_export` and
//! `hilo_node_summary`.

use pgrx::pg_sys::panic::ErrorReport;
use pgrx::prelude::*;

use hilo_core::document::{Described, Document, Entry, Grant, Node, Privilege};
use hilo_core::numbers::SequenceId;

use crate::catalog::columns::column_ref::ColumnRef;
use crate::catalog::rights::missing;
use crate::catalog::rights::privileges::{self, Privileges};
use crate::catalog::rows::encoding::decode;
use crate::catalog::rows::name::Name;
use crate::catalog::rows::roles::{self, PUBLIC};
use crate::catalog::sequence::definitions::{self, Sequence};
use crate::catalog::sequence::node::{self, LocalNode};
use crate::catalog::sequence::{numbering, positions};
use crate::errors::HiloError;
use crate::gucs;
use crate::process::ffi;
use crate::process::memory::{self, TryGrow};
use crate::shared;
use crate::sql::call::border::Call;
use crate::sql::call::jsonb::JsonB;
use crate::sql::call::spi;
use crate::sql::types::sequence_type::SequenceName;

/// A sequence with the privileges on it.
pub struct Known {
    pub sequence: Sequence,
    granted: Vec<(pg_sys::Oid, Privileges)>,
}

/// `hilo_export(name)`
#[pg_extern(sql = false)]
fn hilo_export(_call: Call, name: Option<SequenceName>) -> Result<JsonB, ErrorReport> {
    Ok(written(None, one_or_all(name.as_deref(), true)?, Known::described)?)
}

/// `hilo_node_summary(name)`
#[pg_extern(sql = false)]
fn hilo_node_summary(_call: Call, name: Option<SequenceName>) -> Result<JsonB, ErrorReport> {
    Ok(written(Some(this_node()), one_or_all(name.as_deref(), false)?, Known::summary)?)
}

fn written(
    node: Option<Node>,
    known: Vec<Known>,
    describe: fn(&Known) -> Result<Described, HiloError>,
) -> Result<JsonB, HiloError> {
    let mut sequences = Vec::new();
    for one in &known {
        sequences.try_push(describe(one)?.entry)?;
    }
    JsonB::of(&Document::new(node, sequences))
}

/// The sequence of this name or, without a name, all sequences by name. The transaction's snapshot
/// says which there are; the rest is as of now.
///
/// # Errors
/// `NoSuchSequence` if it `must_exist`; `Permission` if the caller may not read it.
pub fn one_or_all(name: Option<&[u8]>, must_exist: bool) -> Result<Vec<Known>, HiloError> {
    if let Some(name) = name {
        let found = match must_exist {
            true => Some(missing::require(name)?),
            false => definitions::by_name(name)?,
        };
        found.iter().try_for_each(privileges::allow_to_see)?;
        return found.into_iter().map(Known::of).collect();
    }
    let seen = visible(None)?.into_iter().filter_map(|(_, known)| known);
    let mut known = memory::try_collect(seen)?;
    known.sort_unstable_by(|one, other| one.sequence.name.cmp(&other.sequence.name));
    Ok(known)
}

/// The sequences that the transaction sees, all or those with these names, and their present rows.
/// `None`: it has been dropped since.
pub fn visible(names: Option<&[Vec<u8>]>) -> Result<Vec<(Name, Option<Known>)>, HiloError> {
    const ALL: &str = "SELECT v.id, v.name FROM _hilo.hilo_visible v";
    const NAMED: &str = "SELECT v.id, v.name FROM _hilo.hilo_visible v \
                          WHERE v.name OPERATOR(pg_catalog.=) ANY ($1)";
    let read = |row: spi::Row| (row.int8(1).unwrap_or(0), row.bytes(2).unwrap_or_default());
    let seen = match names {
        None => spi::rows(ALL, read),
        Some(names) => spi::rows_of(NAMED, names, read),
    }?;
    let ids = memory::try_collect(seen.iter().map(|(id, _)| *id))?;
    let (mut sequences, mut granted) =
        (definitions::by_ids(&ids)?, privileges::grants_on_all(&ids)?);
    memory::try_collect(seen.into_iter().map(|(id, name)| {
        let granted = granted.remove(&SequenceId(id)).unwrap_or_default();
        let sequence = sequences.remove(&SequenceId(id));
        (Name::from(&name[..]), sequence.map(|sequence| Known { sequence, granted }))
    }))
}

impl Known {
    pub fn of(sequence: Sequence) -> Result<Known, HiloError> {
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
        let entry = Entry {
            owned_by: self.sequence.owned_by.and_then(decoded_column),
            owner: decoded_role(self.sequence.owner),
            privileges: Some(self.privileges()),
            ..Entry::new(decode(&self.sequence.name), definition.options())
        };
        Ok(Described { entry, definition })
    }

    /// The sequence as other servers need to know it: with the numbering of this node, or the one
    /// with which it would begin. The numbering is left out if this node refuses to serve the
    /// sequence.
    pub fn summary(&self) -> Result<Described, HiloError> {
        let (sequence, mut summary) = (&self.sequence, self.described()?);
        let position = match positions::find(sequence.id, node::id())? {
            None => LocalNode::read().and_then(|here| numbering::join(sequence, &here)).ok(),
            found => found,
        };
        summary.entry.numbering = position.map(|position| position.numbering());
        summary.entry.fed = sequence.definition.source.is_some().then_some(true);
        Ok(summary)
    }

    /// The grants by grantee, without roles that do not exist any more.
    fn privileges(&self) -> Vec<Grant> {
        let grant = |(role, set): &(pg_sys::Oid, Privileges)| {
            let privileges = set.names().filter_map(Privilege::by_name).collect();
            Some(Grant { grantee: decoded_role(*role)?, privileges })
        };
        let mut list: Vec<_> = self.granted.iter().filter_map(grant).collect();
        list.sort_unstable_by(|one, other| one.grantee.cmp(&other.grantee));
        list
    }
}

fn decoded_role(role: pg_sys::Oid) -> Option<String> {
    match role {
        PUBLIC => Some("public".to_owned()),
        role => roles::name(role).map(|name| decode(name.to_bytes())),
    }
}

pub fn decoded_column(column: ColumnRef) -> Option<String> {
    column.text().map(|text| decode(text.to_bytes()))
}

/// This server. Its life identifies it, because copies share its system identifier.
pub fn this_node() -> Node {
    let life = shared::get().map_or(positions::server().0, |shared| shared.life());
    Node { id: node::id(), count: gucs::node_count(), server: life.to_string() }
}
