//! The indexes of a table, kept open while many of its rows are replaced: to open them costs as
//! much as to replace a row.

use std::cell::Cell;
use std::marker::PhantomData;

use pgrx::pg_sys;

use crate::backend::Global;

/// The table whose indexes are kept open, and these.
static KEPT: Global<Cell<Option<(pg_sys::Oid, pg_sys::CatalogIndexState)>>> =
    Global::new(Cell::new(None));

/// The indexes of a table, kept open for as long as this lives. There is one at a time.
pub struct KeptIndexes<'a> {
    indexes: pg_sys::CatalogIndexState,
    _open: PhantomData<&'a pg_sys::RelationData>,
}

/// The indexes of a table, if they are kept open.
pub(super) fn of(table: pg_sys::Oid) -> Option<pg_sys::CatalogIndexState> {
    KEPT.get().filter(|(kept, _)| *kept == table).map(|(_, indexes)| indexes)
}

impl<'a> KeptIndexes<'a> {
    pub(super) fn open(relation: &'a pg_sys::RelationData) -> KeptIndexes<'a> {
        // SAFETY: the relation is open, and stays so for `'a`.
        let indexes =
            unsafe { pg_sys::CatalogOpenIndexes(std::ptr::from_ref(relation).cast_mut()) };
        KEPT.set(Some((relation.rd_id, indexes)));
        KeptIndexes { indexes, _open: PhantomData }
    }
}

impl Drop for KeptIndexes<'_> {
    fn drop(&mut self) {
        KEPT.set(None);
        // After an error the transaction's abort closes them.
        if !std::thread::panicking() {
            // SAFETY: opened by `open`, closed once.
            unsafe { pg_sys::CatalogCloseIndexes(self.indexes) }
        }
    }
}
