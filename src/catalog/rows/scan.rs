//! Scans of a table by index, which take no predicate lock. Core takes none on its own catalogs
//! either: else two serializable transactions that have nothing in common but hilo's tables could
//! fail with 40001.

use std::ffi::CStr;

use pgrx::pg_sys;

use crate::catalog::rows::table::{Row, Snapshot, Table, text_datum};
use crate::errors::{HiloError, OrRaise};
use crate::process::memory::{self, TryGrow};

/// The index that a scan uses.
#[derive(Clone, Copy, Debug)]
pub enum Index {
    /// No index: all rows are visited.
    None,
    /// An index of core's with a fixed OID. While core ignores its indexes
    /// (`ignore_system_indexes`), the scan visits all rows instead, in no order.
    Core(pg_sys::Oid),
    /// An index of ours, by its name in the table's schema: rows come in its order, even while core
    /// ignores its own indexes. No process remembers its OID. REINDEX CONCURRENTLY puts another
    /// index in its place, and drops it as soon as no transaction has a lock on the table.
    Named(&'static CStr),
}

impl Index {
    /// Its OID, or InvalidOid. The index exists for as long as the table is locked, as `table` is.
    pub(in crate::catalog) fn oid(self, table: &Table) -> pg_sys::Oid {
        match self {
            Index::None => pg_sys::InvalidOid,
            Index::Core(oid) => oid,
            // SAFETY: a look-up in a system cache, inside a transaction, by a name that is a C
            // string. An open relation has its row of pg_class.
            Index::Named(name) => match unsafe {
                let schema = (*(*table.relation()).rd_rel).relnamespace;
                pg_sys::get_relname_relid(name.as_ptr(), schema)
            } {
                pg_sys::InvalidOid => {
                    HiloError::CatalogMismatch(format!("_hilo.{}", name.to_string_lossy())).raise()
                }
                oid => oid,
            },
        }
    }
}

/// The condition on a key column: equal to the value, except that the last columns may be greater
/// or less.
#[derive(Clone, Copy)]
pub enum Match<'a> {
    Int8(i64),
    /// One of these values. The index, which must be ours, is scanned once for all of them.
    Int8In(&'a [i64]),
    Int4(i32),
    Text(&'a [u8]),
    /// One of these texts.
    TextIn(&'a [Vec<u8>]),
    TextGreater(&'a [u8]),
    Oid(pg_sys::Oid),
    OidGreater(pg_sys::Oid),
    Int8Greater(i64),
    Int8Less(i64),
    Int4Greater(i32),
    Int4Less(i32),
    Uuid(&'a [u8; 16]),
    TimestampLess(i64),
    /// Not before this time.
    TimestampFrom(i64),
}

impl Match<'_> {
    /// The strategy and the function that compare a column with the value, and the value.
    fn parts(&self) -> (u32, u32, pg_sys::Datum) {
        use pg_sys::{BTEqualStrategyNumber as EQ, BTGreaterStrategyNumber as GT};
        use pg_sys::{BTLessStrategyNumber as LT, *};
        match *self {
            Match::Int8(value) => (EQ, F_INT8EQ, value.into()),
            Match::Int8In(values) => {
                (EQ, F_INT8EQ, array(INT8OID, values, |value| (*value).into()))
            }
            Match::Int4(value) => (EQ, F_INT4EQ, value.into()),
            Match::Oid(value) => (EQ, F_OIDEQ, value.into()),
            Match::Text(bytes) => (EQ, F_TEXTEQ, text_datum(bytes)),
            Match::TextIn(texts) => (EQ, F_TEXTEQ, array(TEXTOID, texts, |text| text_datum(text))),
            Match::Uuid(bytes) => (EQ, F_UUID_EQ, bytes.as_ptr().into()),
            Match::TextGreater(bytes) => (GT, F_TEXT_GT, text_datum(bytes)),
            Match::OidGreater(value) => (GT, F_OIDGT, value.into()),
            Match::Int8Greater(value) => (GT, F_INT8GT, value.into()),
            Match::Int4Greater(value) => (GT, F_INT4GT, value.into()),
            Match::Int8Less(value) => (LT, F_INT8LT, value.into()),
            Match::Int4Less(value) => (LT, F_INT4LT, value.into()),
            Match::TimestampLess(value) => (LT, F_TIMESTAMPTZ_LT, value.into()),
            Match::TimestampFrom(value) => {
                (BTGreaterEqualStrategyNumber, F_TIMESTAMPTZ_GE, value.into())
            }
        }
    }

    fn key(&self, column: i16) -> pg_sys::ScanKeyData {
        let (strategy, function, datum) = self.parts();
        let mut key = pg_sys::ScanKeyData::default();
        let function = pg_sys::Oid::from_u32(function);
        // SAFETY: `key` is a valid place for the result. The datum is passed by value or is text in
        // the current memory context, which lives longer than the scan.
        unsafe { pg_sys::ScanKeyInit(&mut key, column, strategy as _, function, datum) };
        if matches!(self, Match::Int8In(_) | Match::TextIn(_)) {
            key.sk_flags |= pg_sys::SK_SEARCHARRAY as i32;
        }
        key
    }
}

/// An array of these elements in the current memory context.
fn array<T>(
    element: pg_sys::Oid,
    values: &[T],
    datum: impl Fn(&T) -> pg_sys::Datum,
) -> pg_sys::Datum {
    let mut values = memory::try_collect(values.iter().map(datum)).or_raise();
    let (mut length, mut by_value, mut align) = (0, false, 0);
    // SAFETY: the type is one of core's. Its properties are filled in, and as many elements copied
    // as there are.
    unsafe {
        pg_sys::get_typlenbyvalalign(element, &mut length, &mut by_value, &mut align);
        let (count, length) = (values.len() as i32, length.into());
        pg_sys::construct_array(values.as_mut_ptr(), count, element, length, by_value, align).into()
    }
}

/// The snapshot for a scan, and the one with which its tuples are then compared.
///
/// Core takes predicate locks for every MVCC snapshot. So in a serializable transaction the scan
/// uses `SnapshotAny`, which finds all versions, and those that the snapshot sees are picked
/// from them.
struct ScanSnapshot {
    given: pg_sys::Snapshot,
    /// The MVCC snapshot, registered while the scan runs; null: none is needed.
    registered: pg_sys::Snapshot,
}

impl ScanSnapshot {
    fn new(table: &Table) -> ScanSnapshot {
        let fixed = match table.see {
            Snapshot::Catalog | Snapshot::Transaction => None,
            Snapshot::OwnWrites => Some(&raw mut pg_sys::SnapshotSelfData),
            Snapshot::Any => Some(&raw mut pg_sys::SnapshotAnyData),
        };
        if let Some(given) = fixed {
            return ScanSnapshot { given, registered: std::ptr::null_mut() };
        }
        // SAFETY: inside a transaction. A registered snapshot is released by `drop`, or by the
        // transaction's abort.
        unsafe {
            let taken = match table.see {
                Snapshot::Transaction => pg_sys::GetTransactionSnapshot(),
                _ => pg_sys::GetCatalogSnapshot(table.id()),
            };
            let registered = pg_sys::RegisterSnapshot(taken);
            let given = match pg_sys::XactIsoLevel == pg_sys::XACT_SERIALIZABLE as i32 {
                true => &raw mut pg_sys::SnapshotAnyData,
                false => registered,
            };
            ScanSnapshot { given, registered }
        }
    }

    /// Whether the scan's current tuple is to be seen.
    ///
    /// # Safety
    /// `scan` must have just returned a tuple.
    unsafe fn sees(&self, scan: pg_sys::SysScanDesc) -> bool {
        if self.registered.is_null() || std::ptr::eq(self.given, self.registered) {
            return true;
        }
        // SAFETY: a heap's scan keeps its tuple in a slot of this type, with its page pinned. The
        // page is locked while the tuple's header is read, as required.
        unsafe {
            let slot = (*scan).slot as *mut pg_sys::BufferHeapTupleTableSlot;
            let (tuple, buffer) = ((*slot).base.tuple, (*slot).buffer);
            pg_sys::LockBuffer(buffer, pg_sys::BUFFER_LOCK_SHARE as _);
            let sees = pg_sys::HeapTupleSatisfiesVisibility(tuple, self.registered, buffer);
            pg_sys::LockBuffer(buffer, pg_sys::BUFFER_LOCK_UNLOCK as _);
            sees
        }
    }
}

impl Drop for ScanSnapshot {
    fn drop(&mut self) {
        if !self.registered.is_null() {
            // SAFETY: `new` has registered it. The scan that was given it has ended.
            unsafe { pg_sys::UnregisterSnapshot(self.registered) };
        }
    }
}

impl Table {
    /// The table, whose scans use another snapshot than core's catalog snapshot.
    pub fn seeing(mut self, see: Snapshot) -> Table {
        self.see = see;
        self
    }

    /// Visits the rows whose columns match `keys` until `visit` returns false, in the order of an
    /// index of ours. Columns are attribute numbers, and the first columns of `index`.
    ///
    /// # Errors
    /// `OutOfMemory`, and what `visit` returns.
    pub fn scan(
        &self,
        index: Index,
        keys: &[(i16, Match)],
        mut visit: impl FnMut(Row) -> Result<bool, HiloError>,
    ) -> Result<(), HiloError> {
        let mut goes_on = Ok(true);
        self.scan_from(false, index, keys, |row| {
            goes_on = memory::check().and_then(|()| visit(row));
            matches!(goes_on, Ok(true))
        });
        goes_on.map(drop)
    }

    /// The first row that [`Table::scan`] finds.
    pub fn find(&self, index: Index, keys: &[(i16, Match)]) -> Option<Row> {
        self.first_from(false, index, keys)
    }

    /// The last row that a scan by an index of ours finds.
    pub fn last(&self, index: Index, keys: &[(i16, Match)]) -> Option<Row> {
        self.first_from(true, index, keys)
    }

    fn first_from(&self, end: bool, index: Index, keys: &[(i16, Match)]) -> Option<Row> {
        let mut found = None;
        self.scan_from(end, index, keys, |row| {
            found = Some(row);
            false
        });
        found
    }

    /// Scans the table; from the end, or for an array, it needs an index of ours.
    fn scan_from(
        &self,
        end: bool,
        index: Index,
        keys: &[(i16, Match)],
        mut visit: impl FnMut(Row) -> bool,
    ) {
        use pg_sys::ScanDirection::{BackwardScanDirection, ForwardScanDirection};
        let direction = if end { BackwardScanDirection } else { ForwardScanDirection };
        // Only core's ordered scans use an index while core ignores those of its catalogs.
        let by_order = matches!(index, Index::Named(_));
        let mut keys: Vec<_> = keys.iter().map(|(column, equals)| equals.key(*column)).collect();
        let (count, keys) = (keys.len() as i32, keys.as_mut_ptr());
        let (snapshot, table, index) = (ScanSnapshot::new(self), self.relation(), index.oid(self));
        let (given, by_index) = (snapshot.given, index != pg_sys::InvalidOid);
        // SAFETY: the relation is open and the index is one of its indexes, which stays locked for
        // the scan. The scan is ended below, or by the transaction's abort.
        unsafe {
            let ordered = by_order.then(|| pg_sys::index_open(index, pg_sys::AccessShareLock as _));
            let scan = match ordered {
                Some(index) => pg_sys::systable_beginscan_ordered(table, index, given, count, keys),
                None => pg_sys::systable_beginscan(table, index, by_index, given, count, keys),
            };
            loop {
                let tuple = match ordered {
                    Some(_) => pg_sys::systable_getnext_ordered(scan, direction),
                    None => pg_sys::systable_getnext(scan),
                };
                if tuple.is_null() {
                    break;
                }
                if snapshot.sees(scan) && !visit(self.row(tuple)) {
                    break;
                }
            }
            match ordered {
                Some(index) => {
                    pg_sys::systable_endscan_ordered(scan);
                    pg_sys::index_close(index, pg_sys::AccessShareLock as _);
                }
                None => pg_sys::systable_endscan(scan),
            }
        }
    }

    /// The values that `of` makes of the rows whose columns match `keys`, which are freed.
    ///
    /// # Errors
    /// `OutOfMemory`
    pub fn collect<T>(
        &self,
        index: Index,
        keys: &[(i16, Match)],
        mut of: impl FnMut(&Row) -> Option<T>,
    ) -> Result<Vec<T>, HiloError> {
        let mut found = Vec::new();
        self.scan(index, keys, |row| {
            let result = found.try_extend(of(&row));
            row.free();
            result.map(|()| true)
        })?;
        Ok(found)
    }

    /// Adds a row with these values in its first columns and `rest` in the others, unless a row has
    /// these values.
    pub fn ensure(&self, index: Index, keys: &[(i16, Match)], rest: &[Option<pg_sys::Datum>]) {
        if self.find(index, keys).is_none() {
            let keys = keys.iter().map(|(_, key)| Some(key.parts().2));
            self.insert(&mut keys.chain(rest.iter().copied()).collect::<Vec<_>>());
        }
    }

    /// Deletes the rows whose columns match `keys`.
    pub fn delete_all(&self, index: Index, keys: &[(i16, Match)]) {
        self.scan_from(false, index, keys, |row| {
            self.delete(&row);
            true
        });
    }
}
