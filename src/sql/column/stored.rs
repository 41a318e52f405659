//! The values of a column as they lie in the heaps of its table and of all that inherits from it.
//! They are read from there or from a plain index. The executor and the planner take no part, so no
//! code of the table's owner runs. Such code is in indexes, constraints, partition keys,
//! statistics, policies, rules, domains and defaults. Row security hides no row.

use pgrx::memcxt::PgMemoryContexts;
use pgrx::prelude::*;

use hilo_core::direction::Direction;
use hilo_core::key_format::Frame;
use hilo_core::options::DataType;

use crate::catalog::columns::column_ref::ColumnRef;
use crate::catalog::rows::name::escape_for_message;
use crate::catalog::rows::relations;
use crate::catalog::rows::table::bytes_of;
use crate::catalog::sequence::definitions::data_type_from;
use crate::errors::HiloError;
use crate::process::memory::{self, TryGrow};
use crate::sql::column::column_values::{Open, Scan, Verdict, number};

/// How a number between two whole numbers is rounded.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Fraction {
    Lower,
    Upper,
    /// It counts as no number: no sequence serves it.
    Nothing,
}

/// The type of a column, below all domains; 0 for a column that does not exist.
pub fn base_type(column: ColumnRef) -> pg_sys::Oid {
    // SAFETY: a look-up in a system cache, inside a transaction.
    match unsafe { pg_sys::get_atttype(column.relid, column.attnum) } {
        pg_sys::InvalidOid => pg_sys::InvalidOid,
        // SAFETY: as above, of a type that exists.
        kind => unsafe { pg_sys::getBaseType(kind) },
    }
}

/// How the values of a column are read as numbers.
pub struct Numbers {
    form: Form,
    fraction: Fraction,
}

enum Form {
    Integer(DataType),
    Numeric,
    /// The number in a key of this form. Other texts count as no number.
    Key(Frame),
}

impl Numbers {
    /// How a column is read: as numbers, or as `keys`.
    pub fn new(column: ColumnRef, keys: Option<&Frame>, fraction: Fraction) -> Numbers {
        let form = match (keys, data_type_from(base_type(column))) {
            (Some(frame), _) => Form::Key(frame.clone()),
            (None, Some(kind)) => Form::Integer(kind),
            (None, None) => Form::Numeric,
        };
        Numbers { form, fraction }
    }

    /// Whether a column is of an integer type, or of numeric.
    pub fn are_in(column: ColumnRef) -> bool {
        let base = base_type(column);
        base == pg_sys::NUMERICOID || data_type_from(base).is_some()
    }

    /// Whether a column may hold keys.
    pub fn may_be_keys_in(column: ColumnRef) -> bool {
        [pg_sys::TEXTOID, pg_sys::VARCHAROID, pg_sys::BPCHAROID].contains(&base_type(column))
    }

    /// A value as a number; `None` if there is no bigint for it.
    pub fn read(&self, value: pg_sys::Datum) -> Option<i64> {
        match &self.form {
            Form::Integer(kind) => return Some(number(*kind, value)),
            Form::Key(frame) => {
                // SAFETY: the column is of a type with the layout of text; one of type character
                // fills up with blanks.
                let text = unsafe { bytes_of(value) };
                return frame.read(text.trim_ascii_end()).ok();
            }
            Form::Numeric => {}
        }
        // SAFETY: the column is of type numeric. Core's function prints it, without an exponent,
        // and the text is read while its memory context lives.
        let text = unsafe {
            let printed = pgrx::direct_function_call_as_datum(pg_sys::numeric_out, &[Some(value)]);
            std::ffi::CStr::from_ptr(printed?.cast_mut_ptr()).to_str().ok()?
        };
        let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
        let towards_zero: i128 = whole.parse().ok()?;
        let between = fraction.bytes().any(|digit| digit != b'0');
        let number = match (between, self.fraction, text.starts_with('-')) {
            (false, ..) | (_, Fraction::Lower, false) | (_, Fraction::Upper, true) => towards_zero,
            (_, Fraction::Upper, false) => towards_zero + 1,
            (_, Fraction::Lower, true) => towards_zero - 1,
            (_, Fraction::Nothing, _) => return None,
        };
        i64::try_from(number).ok()
    }
}

/// The heap of a table, which stays open, with an index on the column if there is one.
struct Heap {
    table: Open,
    column: i16,
    index: Option<(Open, DataType)>,
}

/// The heaps that hold a column.
pub struct Stored(Vec<Heap>);

impl Stored {
    /// Opens the heaps that hold the column. Waits for transactions that have locked any of them.
    ///
    /// # Errors
    /// `NotStored` if some of the values are computed, or lie elsewhere.
    pub fn open(column: ColumnRef) -> Result<Stored, HiloError> {
        let mut heaps = Vec::new();
        each_heap(column, false, |heap| heaps.try_push(heap))?;
        Ok(Stored(heaps))
    }

    /// Visits all values that are not null, in no order. Memory that `visit` pallocs is freed
    /// afterwards.
    pub fn each(&self, mut visit: impl FnMut(pg_sys::Datum)) -> Result<(), HiloError> {
        self.0.iter().try_for_each(|heap| heap.each(None, &mut visit))
    }

    /// The furthest number up to `bound`.
    pub fn furthest(
        &self,
        direction: Direction,
        bound: i64,
        numbers: &Numbers,
    ) -> Result<Option<i64>, HiloError> {
        let mut furthest: Option<i64> = None;
        let mut add = |value: i64| {
            if !direction.is_beyond(value, bound) {
                furthest = Some(furthest.map_or(value, |known| direction.further(value, known)));
            }
        };
        for heap in &self.0 {
            match heap.index_scan(direction, usize::MAX) {
                Some(mut scan) => {
                    scan.seek(bound);
                    scan.next().into_iter().for_each(&mut add);
                }
                None => {
                    heap.each(None, |value| numbers.read(value).into_iter().for_each(&mut add))?
                }
            }
        }
        Ok(furthest)
    }

    /// The numbers that lie within spans, each from its lowest to its highest number. They are
    /// found by an index where there is one, otherwise by one scan for all spans.
    pub fn within(
        &self,
        mut spans: Vec<(i64, i64)>,
        numbers: &Numbers,
    ) -> Result<Vec<i64>, HiloError> {
        spans.sort_unstable();
        // Without spans that lie within others, the highest numbers rise like the lowest.
        spans.dedup_by(|next, before| next.1 <= before.1);
        let mut found = Vec::new();
        for heap in &self.0 {
            let Some(mut scan) = heap.index_scan(Direction::Descending, usize::MAX) else {
                let mut full = Ok(());
                heap.each(None, |value| {
                    let Some(value) = numbers.read(value) else { return };
                    let after = spans.partition_point(|(low, _)| *low <= value);
                    if after > 0 && value <= spans[after - 1].1 && full.is_ok() {
                        full = found.try_push(value);
                    }
                })?;
                full?;
                continue;
            };
            for (low, high) in &spans {
                scan.seek(*low);
                let mut more = true;
                while more && let Some(value) = scan.next().filter(|value| value <= high) {
                    found.try_push(value)?;
                    more = value < *high;
                }
            }
        }
        Ok(found)
    }

    /// Visits the numbers from `low` to `high`, as often as they are there, in the `direction` of
    /// the numbers.
    pub fn in_order(
        &self,
        (low, high): (i64, i64),
        direction: Direction,
        numbers: &Numbers,
        mut visit: impl FnMut(i64),
    ) -> Result<(), HiloError> {
        let (first, last) = match direction {
            Direction::Ascending => (low, high),
            Direction::Descending => (high, low),
        };
        if let [heap] = &self.0[..]
            && let Some(mut scan) = heap.index_scan(direction.reverse(), usize::MAX)
        {
            scan.seek(first);
            let mut more = true;
            while more && let Some(value) = scan.next() {
                more = !direction.is_beyond(value, last);
                if more {
                    visit(value);
                }
            }
            return Ok(());
        }
        let sorted = Sorted::new(direction);
        self.each(|value| {
            let number = numbers.read(value).filter(|number| (low..=high).contains(number));
            number.into_iter().for_each(|number| sorted.add(number));
        })?;
        sorted.each(visit);
        Ok(())
    }
}

/// Visits the heaps that hold a column. `at_once`: only those that nobody has locked, and in which
/// row security hides nothing.
///
/// # Errors
/// `NotStored` if some of the values are computed, or lie elsewhere, unless `at_once`.
fn each_heap(
    column: ColumnRef,
    at_once: bool,
    mut visit: impl FnMut(Heap) -> Result<(), HiloError>,
) -> Result<(), HiloError> {
    // SAFETY: a catalog look-up. The name, null if there is none, is a copy in the current memory
    // context.
    let name = unsafe { pg_sys::get_attname(column.relid, column.attnum, true) };
    for relation in relations::with_children(column.relid)? {
        check_for_interrupts!();
        memory::check()?;
        let Some(table) = Open::new(relation, at_once) else { continue };
        let readable = match table.has_rows(relation == column.relid) {
            Err(_) if at_once => false,
            found => found? && !(at_once && table.has_row_security()),
        };
        if !readable || name.is_null() {
            continue;
        }
        // SAFETY: as above. Children may have the column under another number; 0: it is gone.
        let number = unsafe { pg_sys::get_attnum(relation, name) };
        if number <= 0 {
            continue;
        }
        if !at_once && table.computes(number) {
            return Err(table.not_stored_error("Its column is computed when it is read."));
        }
        let index = table.index_on(number)?;
        visit(Heap { table, column: number, index })?;
    }
    Ok(())
}

/// A value that a search has found.
#[derive(Clone, Copy)]
pub struct Found {
    pub value: i64,
    /// Whether only the end of a table without an index was read.
    pub partly: bool,
}

/// Searches the values of a column from `bound` on, against the `direction` of the numbers, for the
/// first that `judge` accepts. In a table with partitions, the result is the furthest of the values
/// found in each. It waits for nobody: see [`each_heap`]. A table also yields nothing if too many
/// entries at the end of its index are dead. Without an index, its last pages are read.
pub fn search(
    column: ColumnRef,
    direction: Direction,
    bound: i64,
    mut judge: impl FnMut(i64) -> Verdict,
) -> Result<Option<Found>, HiloError> {
    /// How many entries of an index are read at most, dead ones included.
    const MOST_ENTRIES: usize = 4096;
    let mut furthest: Option<Found> = None;
    let mut add = |value, partly| {
        if furthest.is_none_or(|known| direction.is_beyond(value, known.value)) {
            furthest = Some(Found { value, partly });
        }
    };
    each_heap(column, true, |heap| {
        if let Some(mut scan) = heap.index_scan(direction, MOST_ENTRIES) {
            scan.search(bound, &mut judge).into_iter().for_each(|value| add(value, false));
            return Ok(());
        }
        let Some(kind) = heap.table.integer_type(heap.column) else { return Ok(()) };
        heap.each(Some(LAST_PAGES), |value| {
            let value = number(kind, value);
            if !direction.is_beyond(value, bound) && matches!(judge(value), Verdict::Found) {
                add(value, true);
            }
        })
    })?;
    Ok(furthest)
}

/// How much of a table without an index a search reads: the end, where the newest rows are.
const LAST_PAGES: u32 = 32;

impl Heap {
    /// A scan of the index, against the direction of the numbers, of at most so many entries.
    fn index_scan(&self, direction: Direction, most: usize) -> Option<Scan> {
        let (index, kind) = self.index.as_ref()?;
        Some(Scan::new(&self.table, index, *kind, direction, most))
    }

    /// Visits the values that are not null, with `most` only in the last pages.
    fn each(
        &self,
        most: Option<u32>,
        mut visit: impl FnMut(pg_sys::Datum),
    ) -> Result<(), HiloError> {
        const ROWS_AT_ONCE: usize = 256;
        let at = self.column as usize - 1;
        let mut scratch = PgMemoryContexts::new("hilo column values");
        // SAFETY: the table is open for longer than the scan. Without an index the scan is one of
        // the heap. Its limits, which lie within the table, are set before it reads the first page.
        // Its slot has the row that was returned last. A value is used while its row is the scan's
        // current one. After an error the end of the transaction releases the scan and the
        // snapshot.
        unsafe {
            let main = pg_sys::ForkNumber::MAIN_FORKNUM;
            let pages = pg_sys::RelationGetNumberOfBlocksInFork(self.table.0, main);
            let snapshot = pg_sys::RegisterSnapshot(pg_sys::GetLatestSnapshot());
            let none = std::ptr::null_mut();
            let scan = pg_sys::systable_beginscan(
                self.table.0,
                pg_sys::InvalidOid,
                false,
                snapshot,
                0,
                none,
            );
            if let Some(most) = most {
                pg_sys::heap_setscanlimits((*scan).scan, pages.saturating_sub(most), most);
            }
            let mut rows = 0;
            while !pg_sys::systable_getnext(scan).is_null() {
                rows += 1;
                if rows % ROWS_AT_ONCE == 0 {
                    check_for_interrupts!();
                    memory::check()?;
                    scratch.reset();
                }
                let slot = (*scan).slot;
                if i32::from((*slot).tts_nvalid) < i32::from(self.column) {
                    pg_sys::slot_getsomeattrs_int(slot, self.column.into());
                }
                if !*(*slot).tts_isnull.add(at) {
                    scratch.switch_to(|_| visit(*(*slot).tts_values.add(at)));
                }
            }
            pg_sys::systable_endscan(scan);
            pg_sys::UnregisterSnapshot(snapshot);
        }
        Ok(())
    }
}

impl Open {
    fn not_stored_error(&self, why: &'static str) -> HiloError {
        // SAFETY: an open relation has its row of pg_class, with a name that ends with a zero byte.
        let name = unsafe { std::ffi::CStr::from_ptr((*(*self.0).rd_rel).relname.data.as_ptr()) };
        HiloError::NotStored { relation: escape_for_message(name.to_bytes()), why }
    }

    /// Whether the heap has rows of its own that can be read here. A temporary child of another
    /// session has none.
    fn has_rows(&self, is_root: bool) -> Result<bool, HiloError> {
        // SAFETY: an open relation has its row of pg_class; RecoveryInProgress reads a flag of
        // shared memory.
        let (class, own, recovery) =
            unsafe { (&*(*self.0).rd_rel, (*self.0).rd_islocaltemp, pg_sys::RecoveryInProgress()) };
        let why = match (class.relkind as u8, class.relpersistence as u8) {
            (pg_sys::RELKIND_PARTITIONED_TABLE, _) => return Ok(false),
            (pg_sys::RELKIND_VIEW, _) => "It is a view.",
            (pg_sys::RELKIND_FOREIGN_TABLE, _) => "It is a foreign table.",
            (kind, _) if ![pg_sys::RELKIND_RELATION, pg_sys::RELKIND_MATVIEW].contains(&kind) => {
                "It is not a table."
            }
            (_, pg_sys::RELPERSISTENCE_TEMP) if !own && is_root => {
                "It is a temporary table of another session."
            }
            (_, pg_sys::RELPERSISTENCE_TEMP) if !own => return Ok(false),
            (_, pg_sys::RELPERSISTENCE_UNLOGGED) if recovery => {
                "It is unlogged, so a standby does not have its rows."
            }
            _ if !class.relispopulated => "It has not been populated.",
            _ if class.relam != pg_sys::HEAP_TABLE_AM_OID => {
                "It has a table access method other than heap."
            }
            _ => return Ok(true),
        };
        Err(self.not_stored_error(why))
    }

    fn has_row_security(&self) -> bool {
        // SAFETY: an open relation has its row of pg_class.
        unsafe { (*(*self.0).rd_rel).relrowsecurity }
    }

    /// Whether a column is generated and not stored.
    #[cfg(any(feature = "pg15", feature = "pg16", feature = "pg17"))]
    fn computes(&self, _column: i16) -> bool {
        false
    }

    /// Whether a column is generated and not stored.
    #[cfg(not(any(feature = "pg15", feature = "pg16", feature = "pg17")))]
    fn computes(&self, column: i16) -> bool {
        // SAFETY: the relation is open, and has a column of this number.
        let attribute = unsafe { crate::process::ffi::attribute((*self.0).rd_att, column) };
        attribute.attgenerated as u8 == pg_sys::ATTRIBUTE_GENERATED_VIRTUAL
    }
}

/// Core's sort of bigints, which needs no more memory than `work_mem`.
struct Sorted(*mut pg_sys::Tuplesortstate);

impl Sorted {
    fn new(direction: Direction) -> Sorted {
        const LESS: u32 = 412;
        const GREATER: u32 = 413;
        let operator = match direction {
            Direction::Ascending => LESS,
            Direction::Descending => GREATER,
        };
        let (operator, none) = (pg_sys::Oid::from_u32(operator), pg_sys::InvalidOid);
        // SAFETY: core's operators of bigint. After an error the end of the transaction releases
        // all of it.
        Sorted(unsafe {
            let memory = pg_sys::work_mem;
            let alone = std::ptr::null_mut();
            pg_sys::tuplesort_begin_datum(pg_sys::INT8OID, operator, none, false, memory, alone, 0)
        })
    }

    fn add(&self, number: i64) {
        // SAFETY: the sort has not been performed.
        unsafe { pg_sys::tuplesort_putdatum(self.0, number.into(), false) }
    }

    /// Visits the numbers in order.
    fn each(self, mut visit: impl FnMut(i64)) {
        // SAFETY: the sort is performed once, read to its end, and released once. A bigint is
        // passed by value.
        unsafe {
            pg_sys::tuplesort_performsort(self.0);
            while let Some(number) = self.next() {
                visit(number);
            }
            pg_sys::tuplesort_end(self.0);
        }
    }

    fn next(&self) -> Option<i64> {
        let (mut value, mut null) = (pg_sys::Datum::null(), false);
        let none = std::ptr::null_mut();
        // SAFETY: as in `each`.
        let found = unsafe {
            #[cfg(feature = "pg15")]
            let found = pg_sys::tuplesort_getdatum(self.0, true, &mut value, &mut null, none);
            #[cfg(not(feature = "pg15"))]
            let found =
                pg_sys::tuplesort_getdatum(self.0, true, false, &mut value, &mut null, none);
            found
        };
        found.then(|| value.value() as i64)
    }
}
