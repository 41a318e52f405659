//! The position of a gapless sequence is exactly what has been committed. The transaction that
//! counts on from it locks the row from its first draw to its end, as one that updates a counter
//! table would. It writes the row once, before it commits.
//!
//! The row is found without a predicate lock, and locked in its newest version whatever the
//! transaction's snapshot. So transactions of any isolation level follow each other on it, and none
//! fails because of the number alone.

use std::cell::Cell;

use pgrx::pg_sys;

use hilo_core::numbers::{Epoch, Index, SequenceId};

use crate::catalog::rows::catalog_tables::{self, CatalogTable};
use crate::catalog::rows::table::{LockWait, Row, RowLock, Table};
use crate::catalog::sequence::definitions::{self, Sequence};
use crate::catalog::sequence::node;
use crate::catalog::sequence::places::keys;
use crate::catalog::sequence::positions::{Position, own_write, server};
use crate::errors::HiloError;

/// A position that this transaction has locked.
#[derive(Clone, Copy, Debug)]
pub struct Counter {
    table: pg_sys::Oid,
    place: pg_sys::ItemPointerData,
    pub position: Position,
    /// Whether this transaction has written the row, so that a rollback undoes its meaning too.
    pub own: bool,
}

/// A position that [`lock`] has locked.
pub struct Locked {
    pub counter: Counter,
    /// The definition, unless the position has the epoch that the caller knows.
    pub sequence: Option<Sequence>,
    /// Where the row's HOT chain begins, for the next time.
    pub root: Option<pg_sys::ItemPointerData>,
}

/// Locks the position of a gapless sequence, after waiting for the transaction that has locked it.
/// `known` is the epoch whose definition the caller knows, `root` the root that the last call
/// returned. `None`: there is no such position, or the sequence is not gapless.
///
/// Whoever changes the meaning of the numbers gives the row another epoch. So a definition that was
/// read before a version of the row was locked belongs to that version. The position of an ordinary
/// sequence, which its worker needs, is never locked here.
pub fn lock(
    id: SequenceId,
    known: Epoch,
    root: Option<pg_sys::ItemPointerData>,
) -> Result<Option<Locked>, HiloError> {
    let node = node::LocalNode::read()?.id;
    let table = CatalogTable::Position.write()?;
    let (sequence, root, failure) = (Cell::new(None), Cell::new(root), Cell::new(None));
    let in_chain = || {
        let found = table.in_chain(root.get()?).map(|row| (Position::from_row(&row), row));
        found.filter(|(at, _)| (at.sequence, at.node) == (id, node)).map(|(_, row)| row)
    };
    let in_index = || {
        let row = table.find(catalog_tables::POSITION_PKEY, &keys((id, node)))?;
        root.set(table.root_of(&row));
        Some(row)
    };
    let find = || {
        let row = own_write(&table, id, node).or_else(in_chain).or_else(in_index)?;
        if !row.is_own() && Position::from_row(&row).epoch == known {
            sequence.set(None);
            return Some(row);
        }
        let found = definitions::by_id(id).map_err(|error| failure.set(Some(error))).ok()??;
        let gapless = found.definition.gapless;
        sequence.set(Some(found));
        gapless.then_some(row)
    };
    let none = || failure.take().map_or(Ok(None), Err);
    let Some(row) = find() else { return none() };
    let locked = if row.is_own() {
        // No other transaction sees it.
        RowLock::Locked(row)
    } else {
        let first = match Position::from_row(&row).is_ours() {
            true => Some(row),
            false => {
                // Replication may still replace the definition and the position, and locks the
                // definition to do so.
                definitions::lock_existing(id)?;
                None
            }
        };
        let first = Cell::new(first);
        table.lock_found(|| first.take().or_else(find), LockWait::Block)
    };
    match locked {
        RowLock::Locked(row) => {
            let counter = Counter::from_row(&table, &row);
            Ok(Some(Locked { counter, sequence: sequence.take(), root: root.get() }))
        }
        RowLock::Missing | RowLock::Skipped => none(),
    }
}

impl Counter {
    fn from_row(table: &Table, row: &Row) -> Counter {
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

    /// Writes that the indexes before `next` are taken, and follows the row to its new place.
    /// Writes nothing if this transaction has dropped the sequence.
    ///
    /// # Errors
    /// `CatalogMismatch` if the row has changed since it was locked.
    pub fn write(&mut self, next: Index) -> Result<(), HiloError> {
        let table = match Table::write(self.table) {
            // This transaction has dropped the extension.
            Err(HiloError::NotInstalled | HiloError::Replaced) => return Ok(()),
            found => found?,
        };
        let Position { sequence, node, .. } = self.position;
        let row = match table.at(self.place).filter(|row| self.is_at(row)) {
            Some(row) => row,
            None => {
                let Some(row) = table.find(catalog_tables::POSITION_PKEY, &keys((sequence, node)))
                else {
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
        self.place = table.replace(&row, &mut position.values());
        self.position = position;
        self.own = true;
        Ok(())
    }
}
