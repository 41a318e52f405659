//! Who this server is among those that share sequences: the setting `hilo.node_id` says it. And
//! whether it may number them: a worker of Citus gets its values from the coordinator.

use hilo_core::options::Definition;

use crate::catalog::definitions::Sequence;
use crate::catalog::scan::Index;
use crate::catalog::table::Table;
use crate::errors::HiloError;
use crate::{citus, gucs};

/// Who this server is, as of now.
#[derive(Clone, Copy, Debug)]
pub struct Here {
    pub id: i32,
    /// Its group, if it is a worker of Citus.
    worker: Option<i32>,
}

/// This server's node.
pub fn id() -> i32 {
    gucs::node_id().unwrap_or(0)
}

/// Refuses a server without an id of its own to take a place among several.
///
/// # Errors
/// `NodeUnset`
pub fn check_set(nodes: i32) -> Result<(), HiloError> {
    match gucs::node_id() {
        None if nodes > 1 => Err(HiloError::NodeUnset(nodes)),
        _ => Ok(()),
    }
}

impl Here {
    /// # Errors
    /// `NodeId` if the id does not fit `hilo.node_count`.
    pub fn read() -> Result<Here, HiloError> {
        let (id, count) = (id(), gucs::node_count());
        match id < count {
            true => Ok(Here { id, worker: worker()? }),
            false => Err(HiloError::NodeId { id, count }),
        }
    }

    /// Whether this server may serve a sequence. Citus calls `hilo_nextval` on any node, so a
    /// worker that numbered it by itself would serve the values of the others.
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

/// The group of this server, if it is a worker of Citus. One that was removed keeps its group.
fn worker() -> Result<Option<i32>, HiloError> {
    const GROUP: i16 = 1;
    let Some(table) = citus::local_group() else { return Ok(None) };
    let groups = Table::read(table)?.collect(Index::None, &[], |row| Some(row.int4(GROUP)))?;
    Ok(groups.into_iter().find(|group| *group != 0))
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
