//! The values of a column of any user's table in order, read without running code that any user
//! supplied.
//!
//! No statement is planned, because the planner evaluates expressions that the owners of indexes
//! supplied. The values are read from a plain btree index whose operators are core's; whatever else
//! the index holds is not read.

use pgrx::pg_sys;
use pgrx::prelude::*;

use hilo_core::direction::Direction;
use hilo_core::options::DataType;

use crate::catalog::rows::relations;
use crate::catalog::rows::table::writer_of;
use crate::catalog::sequence::definitions::data_type_from;
use crate::errors::HiloError;

/// The verdict on a value that was found.
pub enum Verdict {
    /// The value is the one that the search looks for.
    Found,
    /// The search goes on at this value: no value before it can be the one.
    SeekTo(i64),
    /// No further value can be the one.
    Stop,
}

const SHARE: pg_sys::LOCKMODE = pg_sys::AccessShareLock as _;

/// An open relation and the lock on it. Dropping it closes the relation and releases the lock.
pub struct Open(pub pg_sys::Relation);

impl Open {
    /// Opens a relation. `None`: it was dropped, or another session has locked it and the caller
    /// does not wait. To open it, core looks up its operators and runs none.
    pub fn new(id: pg_sys::Oid, at_once: bool) -> Option<Open> {
        // SAFETY: any OID can be locked, even that of a relation that has been dropped: then the
        // result is null. A relation that is open here is neither changed nor dropped meanwhile.
        let relation = unsafe {
            if at_once && !pg_sys::ConditionalLockRelationOid(id, SHARE) {
                return None;
            }
            let relation = pg_sys::try_relation_open(id, SHARE);
            if at_once {
                pg_sys::UnlockRelationOid(id, SHARE);
            }
            relation
        };
        (!relation.is_null()).then(|| Open(relation))
    }

    fn id(&self) -> pg_sys::Oid {
        // SAFETY: the relation is open.
        unsafe { (*self.0).rd_id }
    }

    /// The type of a column, if it is one of core's integers.
    pub fn integer_type(&self, column: i16) -> Option<DataType> {
        // SAFETY: a catalog look-up, which returns 0 if there is no such column.
        data_type_from(unsafe { pg_sys::get_atttype(self.id(), column) })
    }

    /// An index that has the column's values in order, if there is one that nobody else has locked.
    pub fn index_on(&self, column: i16) -> Result<Option<(Open, DataType)>, HiloError> {
        let Some(kind) = self.integer_type(column) else { return Ok(None) };
        // SAFETY: the relation is open; the list is a copy in the current memory context.
        let indexes = unsafe { relations::oids(pg_sys::RelationGetIndexList(self.0)) }?;
        let fit = indexes.into_iter().filter(|index| fits(kind, *index, column));
        let open = fit.filter_map(|index| Open::new(index, true)).next();
        Ok(open.map(|index| (index, kind)))
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        // After an error the end of the subtransaction closes it.
        if !std::thread::panicking() {
            // SAFETY: opened once, with this lock.
            unsafe { pg_sys::relation_close(self.0, SHARE) }
        }
    }
}

/// The btree operator class that core has for an integer type.
fn operators(kind: DataType) -> pg_sys::Oid {
    match kind {
        DataType::SmallInt => pg_sys::INT2_BTREE_OPS_OID,
        DataType::Integer => pg_sys::INT4_BTREE_OPS_OID,
        DataType::BigInt => pg_sys::INT8_BTREE_OPS_OID,
    }
}

/// The function that compares a value of an integer type with a bigint: `<=` for ascending numbers,
/// `>=` for descending ones.
fn comparison(kind: DataType, direction: Direction) -> u32 {
    use Direction::*;
    match (kind, direction) {
        (DataType::SmallInt, Ascending) => pg_sys::F_INT28LE,
        (DataType::SmallInt, Descending) => pg_sys::F_INT28GE,
        (DataType::Integer, Ascending) => pg_sys::F_INT48LE,
        (DataType::Integer, Descending) => pg_sys::F_INT48GE,
        (DataType::BigInt, Ascending) => pg_sys::F_INT8LE,
        (DataType::BigInt, Descending) => pg_sys::F_INT8GE,
    }
}

/// A value of an integer type.
pub fn number(kind: DataType, datum: pg_sys::Datum) -> i64 {
    match kind {
        DataType::SmallInt => datum.value() as i16 as i64,
        DataType::Integer => datum.value() as i32 as i64,
        DataType::BigInt => datum.value() as i64,
    }
}

/// Whether an index contains all rows, begins with the column, orders it as core does, and has no
/// expression and no predicate.
fn fits(kind: DataType, index: pg_sys::Oid, column: i16) -> bool {
    let none = pg_sys::Datum::null();
    let cache = pg_sys::SysCacheIdentifier::INDEXRELID as _;
    // SAFETY: the row is one of pg_index, whose first columns are not null and lie as the
    // struct has them. It is released below, after the last use of what it holds.
    unsafe {
        let row = pg_sys::SearchSysCache(cache, index.into(), none, none, none);
        if row.is_null() {
            return false;
        }
        let attribute = |number: u32| {
            let mut null = false;
            let datum = pg_sys::SysCacheGetAttr(cache, row, number as i16, &mut null);
            (!null).then_some(datum)
        };
        let form = pg_sys::GETSTRUCT(row) as *const pg_sys::FormData_pg_index;
        let usable = (*form).indisvalid && (*form).indisready && (*form).indislive;
        // Row versions older than the index may be missing from it for transactions that began
        // before it.
        let old = !(*form).indcheckxmin
            || pg_sys::TransactionIdPrecedes(writer_of(row), pg_sys::TransactionXmin);
        let first = *(*form).indkey.values.as_ptr() == column;
        let plain = attribute(pg_sys::Anum_pg_index_indexprs).is_none()
            && attribute(pg_sys::Anum_pg_index_indpred).is_none();
        let ours = attribute(pg_sys::Anum_pg_index_indclass).is_some_and(|datum| {
            let classes = datum.cast_mut_ptr::<pg_sys::oidvector>();
            *(*classes).values.as_ptr() == operators(kind)
        });
        pg_sys::ReleaseSysCache(row);
        usable && old && first && plain && ours
    }
}

/// An ordered scan of an index, with the latest snapshot.
pub struct Scan {
    scan: pg_sys::IndexScanDesc,
    slot: *mut pg_sys::TupleTableSlot,
    snapshot: pg_sys::Snapshot,
    kind: DataType,
    direction: Direction,
    order: pg_sys::ScanDirection::Type,
    entries_left: usize,
}

impl Scan {
    /// Reads at most `entries` of the index, against the `direction` of the numbers.
    pub fn new(
        table: &Open,
        index: &Open,
        kind: DataType,
        direction: Direction,
        entries: usize,
    ) -> Scan {
        // SAFETY: the index is the table's, and both stay open for longer than the scan.
        unsafe {
            let snapshot = pg_sys::RegisterSnapshot(pg_sys::GetLatestSnapshot());
            let slot = pg_sys::table_slot_create(table.0, std::ptr::null_mut());
            let (heap, by) = (table.0, index.0);
            #[cfg(any(feature = "pg15", feature = "pg16", feature = "pg17"))]
            let scan = pg_sys::index_beginscan(heap, by, snapshot, 1, 0);
            #[cfg(feature = "pg18")]
            let scan = pg_sys::index_beginscan(heap, by, snapshot, std::ptr::null_mut(), 1, 0);
            #[cfg(not(any(
                feature = "pg15",
                feature = "pg16",
                feature = "pg17",
                feature = "pg18"
            )))]
            let scan = pg_sys::index_beginscan(heap, by, snapshot, std::ptr::null_mut(), 1, 0, 0);
            // The value is read from the index.
            (*scan).xs_want_itup = true;
            let stored = match *(*index.0).rd_indoption & pg_sys::INDOPTION_DESC as i16 {
                0 => Direction::Ascending,
                _ => Direction::Descending,
            };
            let order = if direction == stored {
                pg_sys::ScanDirection::BackwardScanDirection
            } else {
                pg_sys::ScanDirection::ForwardScanDirection
            };
            Scan { scan, slot, snapshot, kind, direction, order, entries_left: entries }
        }
    }

    /// The first value from `bound` on that `judge` wants.
    pub fn search(&mut self, mut bound: i64, mut judge: impl FnMut(i64) -> Verdict) -> Option<i64> {
        loop {
            self.seek(bound);
            let value = self.next()?;
            match judge(value) {
                Verdict::Found => return Some(value),
                // Without progress the loop would not end.
                Verdict::SeekTo(next) if self.direction.is_beyond(value, next) => bound = next,
                _ => return None,
            }
        }
    }

    /// Goes to the values from `bound` on in the direction of the search.
    pub fn seek(&mut self, bound: i64) {
        let strategy = match self.direction {
            Direction::Ascending => pg_sys::BTLessEqualStrategyNumber,
            Direction::Descending => pg_sys::BTGreaterEqualStrategyNumber,
        };
        let comparison = pg_sys::Oid::from_u32(comparison(self.kind, self.direction));
        let mut key = pg_sys::ScanKeyData::default();
        // SAFETY: the key is for the index's first column, whose operator family compares it with a
        // bigint, and the scan copies it.
        unsafe {
            pg_sys::ScanKeyEntryInitialize(
                &mut key,
                0,
                1,
                strategy as _,
                pg_sys::INT8OID,
                pg_sys::InvalidOid,
                comparison,
                bound.into(),
            );
            pg_sys::index_rescan(self.scan, &mut key, 1, std::ptr::null_mut(), 0);
        }
    }

    /// The next value that a visible row has, after [`seek`](Self::seek).
    pub fn next(&mut self) -> Option<i64> {
        while self.entries_left > 0 {
            self.entries_left -= 1;
            check_for_interrupts!();
            // SAFETY: the scan is open. The columns of an entry are extracted before the next one
            // is fetched, into arrays that are large enough for any index.
            unsafe {
                if pg_sys::index_getnext_tid(self.scan, self.order).is_null() {
                    return None;
                }
                if !pg_sys::index_fetch_heap(self.scan, self.slot) {
                    continue;
                }
                let (mut values, mut nulls) = (
                    [pg_sys::Datum::null(); pg_sys::INDEX_MAX_KEYS as usize],
                    [true; pg_sys::INDEX_MAX_KEYS as usize],
                );
                pg_sys::index_deform_tuple(
                    (*self.scan).xs_itup,
                    (*self.scan).xs_itupdesc,
                    values.as_mut_ptr(),
                    nulls.as_mut_ptr(),
                );
                return (!nulls[0]).then(|| number(self.kind, values[0]));
            }
        }
        None
    }
}

impl Drop for Scan {
    fn drop(&mut self) {
        // After an error the end of the subtransaction releases all three.
        if !std::thread::panicking() {
            // SAFETY: `new` made all three, and each is released once.
            unsafe {
                pg_sys::index_endscan(self.scan);
                pg_sys::ExecDropSingleTupleTableSlot(self.slot);
                pg_sys::UnregisterSnapshot(self.snapshot);
            }
        }
    }
}
