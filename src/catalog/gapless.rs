//! The position of a gapless sequence is exactly what has been committed. The transaction that counts on from it
//! has locked the row from its first draw to its end, as one that updates a counter table would, and writes the
//! row once, before it commits.
//!
//! The row is found without a predicate lock, and locked in its newest version whatever the transaction's snapshot.
//! So transactions of any isolation level follow each other on it, and none fails because of the number alone.

use std::cell::Cell;

use pgrx::pg_sys;

use hilo_core::numbers::{Index, SequenceId};

use super::positions::{Position, keys, server, written};
use super::table::{LockWait, Row, RowLock, Table};
use super::{CatalogOids, catalog_oids, definitions, numbering};
use crate::errors::HiloError;

/// A position that this transaction has locked.
#[derive(Clone, Copy, Debug)]
pub struct Counter {
    table: pg_sys::Oid,
    place: pg_sys::ItemPointerData,
    pub position: Position,
    /// Whether this transaction has written the row, so that a rollback also takes back what it means.
    pub own: bool,
}

/// Locks the position of a sequence, and waits for the transaction that has locked it. `None`: there is none or,
/// after a wait, the sequence is no longer gapless.
pub fn lock(ids: &CatalogOids, id: SequenceId) -> Result<Option<Counter>, HiloError> {
    let node = numbering::node()?;
    let table = Table::write(ids.position)?;
    let find = || {
        let find = || table.find_current(ids.position_pkey, &keys(id, node));
        written(&table, id, node).or_else(find)
    };
    let Some(row) = find() else { return Ok(None) };
    let known = Position::from_row(&row);
    if row.is_own() {
        return Ok(Some(Counter::of(&table, &row)));
    }
    if !known.is_ours() {
        // Replication may still replace the definition and the position, and locks the definition to do so.
        definitions::lock_existing(id)?;
    }
    let first = Cell::new(Some(row));
    let again = || {
        let row = find()?;
        // Whoever changes what the numbers mean raises the epoch.
        let same = Position::from_row(&row).epoch == known.epoch;
        (same || is_gapless(ids, id)).then_some(row)
    };
    let locked = table.lock_found(|| first.take().or_else(again), LockWait::Block);
    Ok(match locked {
        RowLock::Locked(row) => Some(Counter::of(&table, &row)),
        RowLock::Missing | RowLock::Skipped => None,
    })
}

fn is_gapless(ids: &CatalogOids, id: SequenceId) -> bool {
    let found = definitions::current(ids, id);
    found.is_ok_and(|found| found.is_some_and(|sequence| sequence.definition.gapless))
}

impl Counter {
    fn of(table: &Table, row: &Row) -> Counter {
        Counter {
            table: table.id(),
            place: row.place(),
            position: Position::from_row(row),
            own: row.is_own(),
        }
    }

    fn is_at(&self, row: &Row) -> bool {
        let found = Position::from_row(row);
        let Position { sequence, node, epoch, next_index, .. } = self.position;
        (found.sequence, found.node, found.epoch, found.next_index)
            == (sequence, node, epoch, next_index)
    }

    /// Writes that the values before `next` are taken, and follows the row to its new place. Nothing is written if
    /// this transaction has dropped the sequence.
    ///
    /// # Errors
    /// `CatalogMismatch` if the row is not as it was when it was locked.
    pub fn write(&mut self, next: Index) -> Result<(), HiloError> {
        let table = match Table::write(self.table) {
            // This transaction has dropped the extension.
            Err(HiloError::NotInstalled) => return Ok(()),
            found => found?,
        };
        let Position { sequence, node, .. } = self.position;
        let row = match table.at(self.place).filter(|row| self.is_at(row)) {
            Some(row) => row,
            None => {
                let ids = catalog_oids()?;
                let Some(row) = table.find_current(ids.position_pkey, &keys(sequence, node)) else {
                    return Ok(());
                };
                if !self.is_at(&row) {
                    let what = format!("the position that was locked of sequence {sequence}");
                    return Err(HiloError::CatalogMismatch(what));
                }
                row
            }
        };
        let (system_id, timeline) = server();
        let (next_index, settled_index) = (next, next);
        let position = Position {
            next_index,
            settled_index,
            incarnation: 0,
            system_id,
            timeline,
            ..self.position
        };
        self.place = table.update(&row, &mut position.values());
        self.position = position;
        self.own = true;
        Ok(())
    }
}
