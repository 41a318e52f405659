//! Where this process has found or left the rows of positions. The index leads to all versions of a
//! row that somebody may still see. These are many if an open transaction writes each in a
//! subtransaction. While there is an old snapshot, they are all that the worker has ever written.

use std::cell::RefCell;
use std::collections::HashMap;

use pgrx::pg_sys;

use hilo_core::numbers::SequenceId;

use crate::backend::Global;
use crate::catalog::rows::columns::position as column;
use crate::catalog::rows::scan::{Index, Match};
use crate::catalog::rows::table::{Row, Table};
use crate::process::memory::TryGrow;

/// The sequence and the node of a row: its first two columns, and its key.
pub(in crate::catalog) type Owner = (SequenceId, i32);

pub(in crate::catalog) fn keys((sequence, node): Owner) -> [(i16, Match<'static>); 2] {
    [(column::SEQUENCE, Match::Int8(sequence.0)), (column::NODE, Match::Int4(node))]
}

type ByOwner = HashMap<(pg_sys::Oid, Owner), pg_sys::ItemPointerData>;

/// The last known place of a row, by its owner.
pub(in crate::catalog) struct Places(Global<RefCell<Option<ByOwner>>>);

impl Places {
    pub const fn new() -> Places {
        Places(Global::new(RefCell::new(None)))
    }

    /// Notes a place. If memory is refused, the index finds the row.
    pub fn note(&self, table: &Table, owner: Owner, place: pg_sys::ItemPointerData) {
        const MOST: usize = 65_536;
        let mut places = self.0.borrow_mut();
        let places = places.get_or_insert_default();
        if places.len() >= MOST {
            places.clear();
        }
        let _ = places.try_push(((table.id(), owner), place));
    }

    /// The row at the noted place, as `at` reads it, if it is still there.
    pub fn row(
        &self,
        table: &Table,
        owner: Owner,
        at: impl FnOnce(pg_sys::ItemPointerData) -> Option<Row>,
    ) -> Option<Row> {
        let place = *self.0.borrow().as_ref()?.get(&(table.id(), owner))?;
        let is_its =
            |row: &Row| (SequenceId(row.int8(column::SEQUENCE)), row.int4(column::NODE)) == owner;
        at(place).filter(is_its)
    }

    /// The current row. The noted places are the roots of HOT chains.
    pub fn find(&self, table: &Table, index: Index, owner: Owner) -> Option<Row> {
        self.row(table, owner, |root| table.in_chain(root)).or_else(|| {
            let row = table.find(index, &keys(owner))?;
            if let Some(root) = table.root_of(&row) {
                self.note(table, owner, root);
            }
            Some(row)
        })
    }
}
