//! The indexes of a table, kept open while many of its rows are replaced: to open them costs as
//! much as to replace a row.

use std::cell::Cell;
use std::marker::PhantomData;

use pgrx::pg_sys;

use crate::backend::Global;
use crate::catalog::rows::table::{Row, Table, split};

/// The table whose indexes are kept open, and these indexes.
static KEPT: Global<Cell<Option<(pg_sys::Oid, pg_sys::CatalogIndexState)>>> =
    Global::new(Cell::new(None));

/// The indexes of a table, kept open while this value lives. Only one value lives at a time.
pub struct KeptIndexes<'a> {
    indexes: pg_sys::CatalogIndexState,
    _open: PhantomData<&'a pg_sys::RelationData>,
}

/// The indexes of a table, if they are kept open.
fn kept(table: pg_sys::Oid) -> Option<pg_sys::CatalogIndexState> {
    KEPT.get().filter(|(kept, _)| *kept == table).map(|(_, indexes)| indexes)
}

impl<'a> KeptIndexes<'a> {
    fn open(relation: &'a pg_sys::RelationData) -> KeptIndexes<'a> {
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

impl Table {
    /// Keeps the table's indexes open, for [`replace`](Self::replace).
    pub fn keep_indexes(&self) -> KeptIndexes<'_> {
        // SAFETY: the relation stays open as long as `self` lives.
        KeptIndexes::open(unsafe { &*self.relation() })
    }

    /// Replaces a row that is locked, whose indexed columns stay as they are. Returns where the new
    /// version lies.
    ///
    /// Core would have a unique index look whether another row has the key, and so visit every
    /// version of this row. No other row has it: the locked version proves that.
    pub fn replace(
        &self,
        row: &Row,
        values: &mut [Option<pg_sys::Datum>],
    ) -> pg_sys::ItemPointerData {
        let (relation, tuple, kept) = (self.relation(), self.form(values), kept(self.id()));
        let mut at = row.place();
        // SAFETY: `form` has made the tuple for this relation, and the old one was found there. The
        // indexes are open, and those of this table. With a state that has none, core adds no
        // entries; a version in the page of the old one needs none.
        unsafe {
            let indexes = kept.unwrap_or_else(|| pg_sys::CatalogOpenIndexes(relation));
            let mut none = pg_sys::ResultRelInfo { ri_NumIndices: 0, ..*indexes };
            pg_sys::CatalogTupleUpdateWithInfo(relation, &raw mut at, tuple, &mut none);
            let new = (*tuple).t_self;
            if (*(*tuple).t_data).t_infomask2 & pg_sys::HEAP_ONLY_TUPLE as u16 == 0 {
                for index in 0..(*indexes).ri_NumIndices as usize {
                    self.add_entry(indexes, index, values, new);
                }
            }
            if kept.is_none() {
                pg_sys::CatalogCloseIndexes(indexes);
            }
            pg_sys::heap_freetuple(tuple);
            new
        }
    }

    /// Adds an entry for a version of a row to an index of plain columns, which has one for an
    /// earlier version.
    ///
    /// # Safety
    /// `indexes` must be those of this table, `index` the number of one of them, and the version
    /// one of this table that has `values`.
    unsafe fn add_entry(
        &self,
        indexes: pg_sys::CatalogIndexState,
        index: usize,
        values: &[Option<pg_sys::Datum>],
        mut version: pg_sys::ItemPointerData,
    ) {
        // SAFETY: as the caller guarantees. An index of plain columns has the number of each.
        unsafe {
            let info = *(*indexes).ri_IndexRelationInfo.add(index);
            let columns = &(&(*info).ii_IndexAttrNumbers)[..(*info).ii_NumIndexAttrs as usize];
            let entry: Vec<_> = columns.iter().map(|column| values[*column as usize - 1]).collect();
            let (mut entry, mut nulls) = split(&entry);
            pg_sys::index_insert(
                *(*indexes).ri_IndexRelationDescs.add(index),
                entry.as_mut_ptr(),
                nulls.as_mut_ptr(),
                &mut version,
                self.relation(),
                pg_sys::IndexUniqueCheck::UNIQUE_CHECK_NO,
                true,
                info,
            );
        }
    }
}
