//! The extreme values of a column of any user's table, read without running code that any user
//! supplied and without waiting for a lock.
//!
//! No statement is planned, because the planner evaluates expressions that the owners of indexes
//! supplied. The values are read in order from a plain btree index whose operators are core's;
//! whatever else the index holds is not read.

use std::ffi::c_char;

use pgrx::pg_sys;
use pgrx::prelude::*;

use hilo_core::direction::Direction;

use crate::catalog::relations;
use crate::catalog::table::writer_of;
use crate::errors::HiloError;
use crate::process::memory;

/// How many entries of an index are read at most, dead ones included.
const MOST_ENTRIES: usize = 4096;

/// The verdict on a value that was found.
pub enum Verdict {
    /// It is the value that the search looks for.
    Found,
    /// It is not, nor is any value that comes before this one in the direction of the search.
    SeekTo(i64),
    /// It is not, and no further value can be.
    Stop,
}

/// Searches the values of a column from `bound` on, against the `direction` of the numbers, for the
/// first one that `judge` wants. In a table with partitions, the result is the furthest of the
/// values found in each. A table yields nothing if another session holds a conflicting lock on it
/// or if it has no index that fits. Nor does it if too many entries at the end of its index are
/// dead.
pub fn search(
    table: pg_sys::Oid,
    column: i16,
    direction: Direction,
    bound: i64,
    mut judge: impl FnMut(i64) -> Verdict,
) -> Result<Option<i64>, HiloError> {
    // Children may have the column under another number, so it is looked up by name. SAFETY: a
    // catalog look-up inside a transaction. The result is null, which is checked, or a copy in the
    // current memory context.
    let column = unsafe { pg_sys::get_attname(table, column, true) };
    if column.is_null() {
        return Ok(None);
    }
    let mut furthest: Option<i64> = None;
    for relation in with_children(table)? {
        check_for_interrupts!();
        memory::check()?;
        let Some(open) = Open::table(relation) else { continue };
        if let Some(value) = open.search(column, direction, bound, &mut judge)? {
            furthest = Some(furthest.map_or(value, |known| direction.further(value, known)));
        }
    }
    Ok(furthest)
}

/// A table and all tables that inherit from it; nothing if the table itself cannot be locked at
/// once.
fn with_children(table: pg_sys::Oid) -> Result<Vec<pg_sys::Oid>, HiloError> {
    if !lock(table) {
        return Ok(Vec::new());
    }
    let all = relations::with_children(table);
    unlock(table);
    all
}

const SHARE: pg_sys::LOCKMODE = pg_sys::AccessShareLock as _;

pub(super) fn lock(relation: pg_sys::Oid) -> bool {
    // SAFETY: takes the lock or does not; any OID can be locked, even that of a relation that has
    // been dropped.
    unsafe { pg_sys::ConditionalLockRelationOid(relation, SHARE) }
}

fn unlock(relation: pg_sys::Oid) {
    // SAFETY: releases a lock that `lock` took.
    unsafe { pg_sys::UnlockRelationOid(relation, SHARE) }
}

/// An open relation and the lock on it. Dropping it closes the relation and releases the lock.
pub(super) struct Open(pub(super) pg_sys::Relation);

impl Open {
    /// Opens a relation that was locked with [`lock`]; `None` if it was dropped before. To open it,
    /// core looks up its operators and runs none.
    pub(super) fn open_locked(id: pg_sys::Oid) -> Option<Open> {
        // SAFETY: the relation is locked, so it is not changed or dropped while it is open. The
        // result is null if it was dropped before.
        let relation = unsafe { pg_sys::try_relation_open(id, pg_sys::NoLock as _) };
        if relation.is_null() {
            unlock(id);
            return None;
        }
        Some(Open(relation))
    }

    /// Opens a table if its rows can be read here and row security hides none of them.
    fn table(id: pg_sys::Oid) -> Option<Open> {
        let open = Open::open_locked(Some(id).filter(|id| lock(*id))?)?;
        let table = open.0;
        // SAFETY: an open relation has its row of pg_class; RecoveryInProgress reads a flag of
        // shared memory.
        let readable = unsafe {
            let class = &*(*table).rd_rel;
            let kind = class.relkind as u8;
            let persistence = class.relpersistence as u8;
            kind == pg_sys::RELKIND_RELATION
                && !class.relrowsecurity
                && (persistence != pg_sys::RELPERSISTENCE_TEMP || (*table).rd_islocaltemp)
                && (persistence != pg_sys::RELPERSISTENCE_UNLOGGED || !pg_sys::RecoveryInProgress())
        };
        readable.then_some(open)
    }

    fn id(&self) -> pg_sys::Oid {
        // SAFETY: the relation is open.
        unsafe { (*self.0).rd_id }
    }

    fn search(
        &self,
        column: *const c_char,
        direction: Direction,
        bound: i64,
        judge: &mut impl FnMut(i64) -> Verdict,
    ) -> Result<Option<i64>, HiloError> {
        // SAFETY: a catalog look-up; `column` is a C string. It returns 0 if there is no such
        // column.
        let number = unsafe { pg_sys::get_attnum(self.id(), column) };
        let found = self.index_on(number)?;
        Ok(found.and_then(|(index, kind)| {
            Scan::new(self, &index, kind, direction, MOST_ENTRIES).search(bound, judge)
        }))
    }

    /// An index that has the column's values in order, if there is one that nobody else has locked.
    pub(super) fn index_on(&self, column: i16) -> Result<Option<(Open, IntegerType)>, HiloError> {
        // SAFETY: a catalog look-up, which returns 0 if there is no such column.
        let Some(kind) = IntegerType::of(unsafe { pg_sys::get_atttype(self.id(), column) }) else {
            return Ok(None);
        };
        let fit = self.indexes()?.into_iter().filter(|index| kind.fits(*index, column));
        let mut open = fit.filter(|index| lock(*index)).filter_map(Open::open_locked);
        Ok(open.next().map(|index| (index, kind)))
    }

    fn indexes(&self) -> Result<Vec<pg_sys::Oid>, HiloError> {
        // SAFETY: the relation is open; the list is a copy in the current memory context.
        unsafe { relations::oids(pg_sys::RelationGetIndexList(self.0)) }
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

/// An integer type that core has a btree operator class for.
#[derive(Clone, Copy)]
pub(super) enum IntegerType {
    Int2,
    Int4,
    Int8,
}

impl IntegerType {
    pub(super) fn of(type_oid: pg_sys::Oid) -> Option<IntegerType> {
        match type_oid {
            pg_sys::INT2OID => Some(IntegerType::Int2),
            pg_sys::INT4OID => Some(IntegerType::Int4),
            pg_sys::INT8OID => Some(IntegerType::Int8),
            _ => None,
        }
    }

    fn operators(self) -> pg_sys::Oid {
        match self {
            IntegerType::Int2 => pg_sys::INT2_BTREE_OPS_OID,
            IntegerType::Int4 => pg_sys::INT4_BTREE_OPS_OID,
            IntegerType::Int8 => pg_sys::INT8_BTREE_OPS_OID,
        }
    }

    /// The function that compares a value with a bigint: that of `<=` for rising numbers, that of
    /// `>=` for falling ones.
    fn comparison(self, direction: Direction) -> u32 {
        use Direction::*;
        match (self, direction) {
            (IntegerType::Int2, Rising) => pg_sys::F_INT28LE,
            (IntegerType::Int2, Falling) => pg_sys::F_INT28GE,
            (IntegerType::Int4, Rising) => pg_sys::F_INT48LE,
            (IntegerType::Int4, Falling) => pg_sys::F_INT48GE,
            (IntegerType::Int8, Rising) => pg_sys::F_INT8LE,
            (IntegerType::Int8, Falling) => pg_sys::F_INT8GE,
        }
    }

    pub(super) fn value(self, datum: pg_sys::Datum) -> i64 {
        match self {
            IntegerType::Int2 => datum.value() as i16 as i64,
            IntegerType::Int4 => datum.value() as i32 as i64,
            IntegerType::Int8 => datum.value() as i64,
        }
    }

    /// Whether an index has all rows, begins with the column, orders it as core does, and holds no
    /// expression and no predicate.
    fn fits(self, index: pg_sys::Oid, column: i16) -> bool {
        let none = pg_sys::Datum::null();
        let cache = pg_sys::SysCacheIdentifier::INDEXRELID as i32;
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
                *(*classes).values.as_ptr() == self.operators()
            });
            pg_sys::ReleaseSysCache(row);
            usable && old && first && plain && ours
        }
    }
}

/// An ordered scan of an index, with the latest snapshot.
pub(super) struct Scan {
    scan: pg_sys::IndexScanDesc,
    slot: *mut pg_sys::TupleTableSlot,
    snapshot: pg_sys::Snapshot,
    kind: IntegerType,
    direction: Direction,
    order: pg_sys::ScanDirection::Type,
    entries_left: usize,
}

impl Scan {
    /// Reads at most `entries` of the index, against the `direction` of the numbers.
    pub(super) fn new(
        table: &Open,
        index: &Open,
        kind: IntegerType,
        direction: Direction,
        entries: usize,
    ) -> Scan {
        // SAFETY: the index is the table's, and both stay open for longer than the scan.
        unsafe {
            let snapshot = pg_sys::RegisterSnapshot(pg_sys::GetLatestSnapshot());
            let slot = pg_sys::table_slot_create(table.0, std::ptr::null_mut());
            #[cfg(any(feature = "pg15", feature = "pg16", feature = "pg17"))]
            let scan = pg_sys::index_beginscan(table.0, index.0, snapshot, 1, 0);
            #[cfg(not(any(feature = "pg15", feature = "pg16", feature = "pg17")))]
            let scan =
                pg_sys::index_beginscan(table.0, index.0, snapshot, std::ptr::null_mut(), 1, 0);
            // The value is read from the index.
            (*scan).xs_want_itup = true;
            let stored = match *(*index.0).rd_indoption & pg_sys::INDOPTION_DESC as i16 {
                0 => Direction::Rising,
                _ => Direction::Falling,
            };
            let order = if direction == stored {
                pg_sys::ScanDirection::BackwardScanDirection
            } else {
                pg_sys::ScanDirection::ForwardScanDirection
            };
            Scan { scan, slot, snapshot, kind, direction, order, entries_left: entries }
        }
    }

    fn search(&mut self, bound: i64, judge: &mut impl FnMut(i64) -> Verdict) -> Option<i64> {
        let mut bound = bound;
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
    pub(super) fn seek(&mut self, bound: i64) {
        let strategy = match self.direction {
            Direction::Rising => pg_sys::BTLessEqualStrategyNumber,
            Direction::Falling => pg_sys::BTGreaterEqualStrategyNumber,
        };
        let comparison = pg_sys::Oid::from_u32(self.kind.comparison(self.direction));
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
    pub(super) fn next(&mut self) -> Option<i64> {
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
                return (!nulls[0]).then(|| self.kind.value(values[0]));
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
