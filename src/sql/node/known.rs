//! The sequences that the caller may read, as documents describe them.

use std::collections::HashMap;

use pgrx::pg_sys;

use hilo_core::document::{Entry, Grants, Node, Numbering, Privilege, Within, list};
use hilo_core::numbers::SequenceId;
use hilo_core::options::Definition;

use crate::catalog::definitions::{self, Sequence};
use crate::catalog::missing;
use crate::catalog::name::Name;
use crate::catalog::node::{self, Here};
use crate::catalog::numbering;
use crate::catalog::positions::{self, Position};
use crate::catalog::privileges::{self, Privileges};
use crate::catalog::roles::{self, PUBLIC};
use crate::errors::HiloError;
use crate::gucs;
use crate::process::{ffi, memory};
use crate::shared;
use crate::sql::call::spi;
use crate::sql::draw::nextval;
use crate::sql::node::json::decode;

/// A sequence, with what is granted on it.
pub struct Known {
    pub sequence: Sequence,
    granted: Vec<(pg_sys::Oid, Privileges)>,
}

/// The sequence of this name. Without one it is an error if it `must_exist`.
///
/// # Errors
/// `NoSuchSequence`; `Permission` if the caller may not read it.
pub fn by_name(name: &[u8], must_exist: bool) -> Result<Option<Known>, HiloError> {
    let found = match must_exist {
        true => Some(missing::require(name)?),
        false => definitions::by_name(name)?,
    };
    let Some(sequence) = found else { return Ok(None) };
    if !privileges::may_see(&sequence, ffi::current_user())? {
        nextval::allow(&sequence, Privileges::ALL)?;
    }
    let granted = privileges::grants_on(sequence.id)?;
    Ok(Some(Known { sequence, granted }))
}

/// All of them, by name. The transaction's snapshot says which they are. The rest is as of now.
pub fn all() -> Result<Vec<Known>, HiloError> {
    let ids = spi::rows("SELECT v.id FROM _hilo.hilo_visible v", |row| row.int8(1).unwrap_or(0));
    let mut known = memory::try_collect(by_ids(&ids)?.into_values())?;
    known.sort_unstable_by(|one, other| one.sequence.name.cmp(&other.sequence.name));
    Ok(known)
}

/// The sequences that the transaction sees, or those of them with these names. `None`: it has been
/// dropped or renamed since.
pub fn visible(names: Option<&[Vec<u8>]>) -> Result<HashMap<Name, Option<Known>>, HiloError> {
    const ALL: &str = "SELECT v.id, v.name FROM _hilo.hilo_visible v";
    const NAMED: &str = "SELECT v.id, v.name FROM _hilo.hilo_visible v \
                          WHERE v.name OPERATOR(pg_catalog.=) ANY ($1)";
    let read = |row: spi::Row| (row.int8(1).unwrap_or(0), row.bytes(2).unwrap_or_default());
    let seen = match names {
        None => spi::rows(ALL, read),
        Some(names) => spi::rows_of(NAMED, names, read),
    };
    let ids = memory::try_collect(seen.iter().map(|(id, _)| *id))?;
    let mut known = by_ids(&ids)?;
    let with_known = |(id, name): (i64, Vec<u8>)| {
        let known = known.remove(&SequenceId(id));
        (Name::from(&name[..]), known.filter(|known| *known.sequence.name == name[..]))
    };
    memory::try_map(seen.len(), seen.into_iter().map(with_known))
}

/// The sequences with these ids that exist.
fn by_ids(ids: &[i64]) -> Result<HashMap<SequenceId, Known>, HiloError> {
    let mut granted = privileges::grants_on_all(ids)?;
    let with_grants =
        |(id, sequence)| (id, Known { sequence, granted: granted.remove(&id).unwrap_or_default() });
    memory::try_map(ids.len(), definitions::by_ids(ids)?.into_iter().map(with_grants))
}

impl Known {
    pub fn is_own(&self) -> bool {
        privileges::acts_as(ffi::current_user(), self.sequence.owner)
    }

    /// The definition, in which only who acts as the owner sees what runs as the owner.
    pub fn definition(&self) -> Definition {
        let mut definition = self.sequence.definition.clone().plain();
        if definition.source.is_some() && !self.is_own() {
            (definition.source, definition.reserve_ahead) = (None, None);
        }
        definition
    }

    pub fn owner(&self) -> Option<String> {
        roles::name(self.sequence.owner).map(|name| decode(name.to_bytes()))
    }

    pub fn owned_by(&self) -> Option<String> {
        let column = self.sequence.owned_by?.text()?;
        Some(decode(column.to_bytes()))
    }

    pub fn grants(&self) -> Grants {
        grants(&self.granted)
    }

    /// The fewest fields that make the same sequence.
    pub fn entry(&self) -> Result<Entry, HiloError> {
        memory::check()?;
        Ok(Entry {
            owned_by: self.owned_by(),
            owner: self.owner(),
            privileges: Some(list(&self.grants())),
            ..Entry::new(decode(&self.sequence.name), self.definition().options())
        })
    }

    /// How this node numbers the sequence, or will when it first serves it. `None`: it refuses to
    /// serve it.
    pub fn numbering(&self) -> Result<Option<Numbering>, HiloError> {
        let position = own_position(&self.sequence)?;
        Ok(position.map(|position| {
            let numbering::Numbering { base, nodes, stripe } = position.numbering();
            let reserved_to = position.last_value(&self.sequence.definition);
            Numbering { base, nodes: Within(nodes.into()), stripe: Within(stripe), reserved_to }
        }))
    }
}

/// The position of this server or, if it has not served the sequence yet, the one that it will
/// begin with. `None`: it refuses to serve the sequence.
pub fn own_position(sequence: &Sequence) -> Result<Option<Position>, HiloError> {
    match positions::find(sequence.id, node::id())? {
        None => Ok(Here::read().and_then(|here| numbering::join(sequence, &here)).ok()),
        found => Ok(found),
    }
}

/// This server. Its life tells it from others: copies share its system identifier.
pub fn this_node() -> Node {
    let life = shared::get().map_or(positions::server().0, |shared| shared.life());
    Node {
        id: Within(node::id().into()),
        count: Within(gucs::node_count().into()),
        server: life.to_string(),
    }
}

const PRIVILEGES: [(Privileges, Privilege); 4] = [
    (Privileges::USAGE, Privilege::Usage),
    (Privileges::SELECT, Privilege::Select),
    (Privileges::UPDATE, Privilege::Update),
    (Privileges::LEASE, Privilege::Lease),
];

/// The grants, without roles that do not exist any more.
pub fn grants(granted: &[(pg_sys::Oid, Privileges)]) -> Grants {
    let mut grants = Grants::new();
    for (role, set) in granted {
        let name = match *role {
            PUBLIC => Some("public".to_owned()),
            role => roles::name(role).map(|name| decode(name.to_bytes())),
        };
        let held = PRIVILEGES.iter().filter(|(one, _)| set.any_of(*one)).map(|(_, one)| *one);
        if let Some(name) = name {
            grants.insert(name, held.collect());
        }
    }
    grants
}

/// The same back, of one role.
pub fn privileges_of<'a>(set: impl IntoIterator<Item = &'a Privilege>) -> Privileges {
    let bits = |wanted: &Privilege| PRIVILEGES.into_iter().find(|(_, one)| one == wanted);
    let all = set.into_iter().filter_map(bits);
    all.fold(Privileges::NONE, |set, (one, _)| set.or(one))
}
