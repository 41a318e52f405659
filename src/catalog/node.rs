//! Who this server is among those that share sequences: the setting `hilo.node_id` says it, or
//! Citus does.
//!
//! Citus gives every node a group, in a table that its coordinator changes when a node joins or
//! leaves. As long as the coordinator counts on, no other node has had that group;
//! `numbering::check_not_had` guards where it does not. The group is read anew by whoever creates,
//! renumbers or reserves, in that transaction. A node that has left has an empty list of nodes:
//! until it joins again, nobody knows who it is.

use std::ffi::CStr;

use pgrx::pg_sys;

use hilo_core::node_id::NodeId;
use hilo_core::options::Definition;

use crate::catalog::definitions::Sequence;
use crate::catalog::scan::Index;
use crate::catalog::table::{Row, Table};
use crate::errors::{HiloError, NoGroup};
use crate::{citus, gucs};

/// Who this server is, as of now.
#[derive(Clone, Copy, Debug)]
pub struct Here {
    pub id: i32,
    /// Its group, if it is one of several nodes of Citus.
    pub group: Option<i32>,
}

/// This server's node.
///
/// # Errors
/// `NoGroup` if Citus is to say it and does not.
pub fn id() -> Result<i32, HiloError> {
    match gucs::node_id() {
        NodeId::Unset => Ok(0),
        NodeId::Number(id) => Ok(id),
        NodeId::Citus => Cluster::read()?.member(),
    }
}

/// The same; `None`: it is not known.
pub fn id_if_known() -> Option<i32> {
    id().ok()
}

/// The group of this node in Citus, if it has one.
pub fn group() -> Option<i32> {
    Cluster::read().ok()?.group
}

/// Refuses a server without an id of its own to take a place among several.
///
/// # Errors
/// `NodeUnset`
pub fn check_set(nodes: i32) -> Result<(), HiloError> {
    match gucs::node_id() {
        NodeId::Unset if nodes > 1 => Err(HiloError::NodeUnset(nodes)),
        _ => Ok(()),
    }
}

impl Here {
    /// # Errors
    /// `NoGroup`, and `NodeId` if the id does not fit `hilo.node_count`.
    pub fn read() -> Result<Here, HiloError> {
        let cluster = match citus::is_here() {
            true => Some(Cluster::read()?),
            false => None,
        };
        let id = match (gucs::node_id(), &cluster) {
            (NodeId::Citus, Some(cluster)) => cluster.member()?,
            _ => id()?,
        };
        let count = gucs::node_count();
        if id >= count {
            return Err(HiloError::NodeId { id, count });
        }
        let group = match cluster.filter(Cluster::has_several) {
            Some(cluster) => Some(cluster.group.ok_or(HiloError::NoGroup(NoGroup::Unknown))?),
            None => None,
        };
        Ok(Here { id, group })
    }

    /// Whether Citus decides which node this is, by its answer or by refusing any other id than the
    /// group.
    pub fn is_of_citus(&self) -> bool {
        self.group.is_some() || matches!(gucs::node_id(), NodeId::Citus)
    }

    /// Whether this server may serve a sequence. Any node of Citus may be asked to, so a worker has
    /// the values of the coordinator, or bounds of its own.
    ///
    /// # Errors
    /// `OnWorker`
    pub fn check(&self, definition: &Definition) -> Result<(), HiloError> {
        match self.group {
            Some(group)
                if group != self.id
                    && definition.source.is_none()
                    && !is_apart(definition, group) =>
            {
                Err(HiloError::OnWorker(group))
            }
            _ => Ok(()),
        }
    }
}

/// Who this server is, if it may serve a sequence.
///
/// # Errors
/// The errors of [`Here::read`] and [`Here::check`].
pub fn serves(sequence: &Sequence) -> Result<Here, HiloError> {
    let here = Here::read()?;
    here.check(&sequence.definition)?;
    Ok(here)
}

/// Whether the bounds are those that Citus gives a sequence of core's on this node.
fn is_apart(definition: &Definition, group: i32) -> bool {
    group_by_bounds(definition) == Some(group)
}

/// The node of Citus to which all values within the bounds belong, as Citus divides those of core's
/// sequences.
pub fn group_by_bounds(definition: &Definition) -> Option<i32> {
    let group = |value: i64| i32::try_from(value.checked_sub(1)? >> 48).ok();
    let of = group(definition.min_value).filter(|of| *of >= 0);
    of.filter(|_| of == group(definition.max_value))
}

/// This node's knowledge of its cluster of Citus.
struct Cluster {
    group: Option<i32>,
    groups: Vec<i32>,
}

impl Cluster {
    fn read() -> Result<Cluster, HiloError> {
        let (Some(local), Some(nodes)) = (citus::local_group(), citus::nodes()) else {
            return Err(HiloError::NoGroup(NoGroup::NoCitus));
        };
        let group = groups(local)?.first().copied();
        Ok(Cluster { group, groups: groups(nodes)? })
    }

    fn member(&self) -> Result<i32, HiloError> {
        match self.group {
            Some(group) if self.groups.contains(&group) => Ok(group),
            Some(group) => Err(HiloError::NoGroup(NoGroup::NoMember(group))),
            None => Err(HiloError::NoGroup(NoGroup::Unknown)),
        }
    }

    fn has_several(&self) -> bool {
        let first = self.group.or(self.groups.first().copied());
        self.groups.iter().any(|group| Some(*group) != first)
    }
}

/// Refuses to take a node's place while Citus lists a clone of that node. This server may be the
/// clone, which has the group of its original until Citus has promoted it, and the original runs.
///
/// # Errors
/// `HasClone`
pub fn check_no_clone() -> Result<(), HiloError> {
    let (Some(local), Some(nodes)) = (citus::local_group(), citus::nodes()) else { return Ok(()) };
    let columns = [c"nodeid", c"groupid", c"nodeisclone", c"nodeprimarynodeid"];
    let [id, group, is_clone, original] = columns.map(|name| attribute(nodes, name));
    // Citus has clones since 13.2.
    if is_clone <= 0 || original <= 0 {
        return Ok(());
    }
    let Some(own) = groups(local)?.first().copied() else { return Ok(()) };
    let nodes = Table::read(nodes)?;
    let rows = |of: &dyn Fn(&Row) -> Option<i32>| nodes.collect(Index::None, &[], of);
    let originals = rows(&|row| row.bool(is_clone).then(|| row.int4(original)))?;
    let is_ours = |row: &Row| !row.bool(is_clone) && row.int4(group) == own;
    let ours = rows(&|row| is_ours(row).then(|| row.int4(id)))?;
    match ours.iter().any(|id| originals.contains(id)) {
        true => Err(HiloError::HasClone(own)),
        false => Ok(()),
    }
}

/// The number of a table's column; 0: it has none of this name.
fn attribute(table: pg_sys::Oid, name: &CStr) -> i16 {
    // SAFETY: a look-up in a system cache, inside a transaction; the name is a C string.
    unsafe { pg_sys::get_attnum(table, name.as_ptr()) }
}

/// The values in column `groupid` of a table of Citus.
fn groups(table: pg_sys::Oid) -> Result<Vec<i32>, HiloError> {
    let column = attribute(table, c"groupid");
    if column <= 0 {
        return Err(HiloError::NoGroup(NoGroup::NoCitus));
    }
    Table::read(table)?.collect(Index::None, &[], |row| Some(row.int4(column)))
}
