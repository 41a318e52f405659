//! Which node this server is (`hilo.node_id`), and whether it may number sequences: a worker of
//! Citus gets its values from the coordinator.

use pgrx::pg_sys;

use hilo_core::options::Definition;

use crate::catalog::rows::scan::Index;
use crate::catalog::rows::table::{Row, Table};
use crate::catalog::sequence::definitions::Sequence;
use crate::errors::HiloError;
use crate::{citus, gucs};

/// The node that this server is now.
#[derive(Clone, Copy, Debug)]
pub struct LocalNode {
    pub id: i32,
    /// Its group in Citus, if it is a worker.
    worker: Option<i32>,
}

/// The id of this server's node.
pub fn id() -> i32 {
    gucs::node_id().unwrap_or(0)
}

/// Refuses a server without `hilo.node_id` if several nodes serve the sequence.
///
/// # Errors
/// `NodeUnset`
pub fn check_set(nodes: i32) -> Result<(), HiloError> {
    match gucs::node_id() {
        None if nodes > 1 => Err(HiloError::NodeUnset(nodes)),
        _ => Ok(()),
    }
}

impl LocalNode {
    /// # Errors
    /// `NodeId` if the id does not fit `hilo.node_count`.
    pub fn read() -> Result<LocalNode, HiloError> {
        let (id, count) = (id(), gucs::node_count());
        match id < count {
            true => Ok(LocalNode { id, worker: worker()? }),
            false => Err(HiloError::NodeId { id, count }),
        }
    }

    /// Whether this server may serve a sequence. Citus calls `hilo_nextval` on any node, so a
    /// worker that numbered a sequence by itself would serve the values of others.
    ///
    /// # Errors
    /// `OnWorker`
    pub fn check(&self, definition: &Definition) -> Result<(), HiloError> {
        match self.worker {
            Some(group) if definition.source.is_none() => Err(HiloError::OnWorker(group)),
            _ => Ok(()),
        }
    }
}

/// The group of this server, if it is a worker of Citus. A worker that was removed keeps its group.
fn worker() -> Result<Option<i32>, HiloError> {
    const GROUP: i16 = 1;
    let Some(table) = citus::local_group() else { return Ok(None) };
    let groups = Table::read(table)?.collect(Index::None, &[], |row| Some(row.int4(GROUP)))?;
    Ok(groups.into_iter().find(|group| *group != 0))
}

/// Refuses to continue a copy of the coordinator's rows while Citus lists a clone of the
/// coordinator, since this server may be that clone. A clone is no worker until Citus has promoted
/// it, and the coordinator runs until then.
///
/// # Errors
/// `HasClone`
pub fn check_no_clone() -> Result<(), HiloError> {
    let Some(nodes) = citus::nodes() else { return Ok(()) };
    // SAFETY: look-ups in a system cache, inside a transaction; the names are C strings.
    let [id, group, is_clone, original] =
        [c"nodeid", c"groupid", c"nodeisclone", c"nodeprimarynodeid"]
            .map(|name| unsafe { pg_sys::get_attnum(nodes, name.as_ptr()) });
    // Citus has clones since 13.2.
    if is_clone <= 0 || original <= 0 {
        return Ok(());
    }
    let node = |row: &Row| {
        let original = row.bool(is_clone).then(|| row.int4(original));
        Some((row.int4(id), row.int4(group), original))
    };
    let nodes = Table::read(nodes)?.collect(Index::None, &[], node)?;
    let is_coordinator = |of: i32| nodes.iter().any(|(id, group, _)| *id == of && *group == 0);
    match nodes.iter().filter_map(|(.., original)| *original).any(is_coordinator) {
        true => Err(HiloError::HasClone),
        false => Ok(()),
    }
}

/// The node that this server is, if it may serve a sequence.
///
/// # Errors
/// The errors of [`LocalNode::read`] and [`LocalNode::check`].
pub fn serves(sequence: &Sequence) -> Result<LocalNode, HiloError> {
    let here = LocalNode::read()?;
    here.check(&sequence.definition)?;
    Ok(here)
}
