//! One of hilo's tables, open: its rows, and writes of tuples.

use std::cell::Cell;

use pgrx::pg_sys;

use crate::catalog::rows::name::{Name, escape_for_message};
use crate::errors::{HiloError, OrRaise};
use crate::process::ffi;
use crate::process::memory;

/// An open table, which is closed when dropped. Locks taken for writing are held to the end of the
/// transaction.
pub struct Table {
    relation: pg_sys::Relation,
    unlock: pg_sys::LOCKMODE,
    /// How many blocks it is known to have.
    blocks: Cell<pg_sys::BlockNumber>,
    /// The rows that scans find.
    pub(in crate::catalog) see: Snapshot,
}

/// Which versions of a row a scan sees.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Snapshot {
    /// Core's catalog snapshot, taken now: what is committed, and what the earlier commands of this
    /// transaction have written.
    Catalog,
    /// That of the transaction, as its queries have it.
    Transaction,
    /// Core's `SnapshotSelf`: what the current command has written, too. A row that is being
    /// replaced may be missed.
    OwnWrites,
    /// Core's `SnapshotAny`: every version, whoever has written it and whatever became of it.
    Any,
}

/// The way to treat a row that another transaction has locked, as core's `LockWaitPolicy`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
pub enum LockWait {
    Block = pg_sys::LockWaitPolicy::LockWaitBlock,
    Skip = pg_sys::LockWaitPolicy::LockWaitSkip,
}

/// The rights of others on a row that is locked, as core's `LockTupleMode`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
pub enum Strength {
    /// Others may do nothing.
    Alone = pg_sys::LockTupleMode::LockTupleExclusive,
    /// Others may lock it with [`Shared`](Self::Shared).
    Changing = pg_sys::LockTupleMode::LockTupleNoKeyExclusive,
    /// Others may change it except for its key, and lock it with either of these.
    Shared = pg_sys::LockTupleMode::LockTupleKeyShare,
}

/// The result of locking a row.
pub enum RowLock<T> {
    Locked(T),
    Missing,
    /// Another transaction has locked it ([`LockWait::Skip`] only).
    Skipped,
}

impl<T> RowLock<T> {
    pub fn map<U>(self, of: impl FnOnce(T) -> U) -> RowLock<U> {
        match self {
            RowLock::Locked(row) => RowLock::Locked(of(row)),
            RowLock::Missing => RowLock::Missing,
            RowLock::Skipped => RowLock::Skipped,
        }
    }
}

/// The values of one row, with NULLs.
pub struct Row {
    pub tuple: pg_sys::HeapTuple,
    values: Vec<pg_sys::Datum>,
    nulls: Vec<bool>,
}

impl Row {
    /// A copy of a tuple, with its columns extracted.
    ///
    /// # Safety
    /// `tuple` must be a tuple of the table that `columns` describes.
    pub unsafe fn from_tuple(tuple: pg_sys::HeapTuple, columns: pg_sys::TupleDesc) -> Row {
        // SAFETY: the caller guarantees that the tuple is one that `columns` describes. Both
        // vectors have an element for every column.
        unsafe {
            let count = (*columns).natts as usize;
            let (mut values, mut nulls) = (vec![pg_sys::Datum::null(); count], vec![true; count]);
            let tuple = pg_sys::heap_copytuple(tuple);
            pg_sys::heap_deform_tuple(tuple, columns, values.as_mut_ptr(), nulls.as_mut_ptr());
            Row { tuple, values, nulls }
        }
    }

    /// Frees the memory of the tuple, for loops over many rows. Values that outlive it must be
    /// copies.
    pub fn free(self) {
        // SAFETY: `of` has allocated the tuple, and nothing refers to it after the row.
        unsafe { pg_sys::heap_freetuple(self.tuple) }
    }

    /// A column by its attribute number; `None` if it is NULL.
    pub fn datum(&self, column: i16) -> Option<pg_sys::Datum> {
        let at = column as usize - 1;
        // A table of an older version may lack the column.
        (!*self.nulls.get(at)?).then(|| self.values[at])
    }

    /// The (sub)transaction that wrote this version; `FrozenTransactionId` for a frozen version.
    /// The number in a frozen version's header may be another transaction's by now.
    pub fn writer(&self) -> pg_sys::TransactionId {
        // SAFETY: the tuple is a copy of a heap tuple, made by `of`.
        unsafe { writer_of(self.tuple) }
    }

    /// Whether surely nobody had locked or replaced this version when it was read.
    pub fn is_untouched(&self) -> bool {
        // SAFETY: the tuple is a copy of a heap tuple, made by `of`.
        let flags = unsafe { (*(*self.tuple).t_data).t_infomask };
        flags & pg_sys::HEAP_XMAX_INVALID as u16 != 0
    }

    /// Whether the current transaction wrote this version.
    pub fn is_own(&self) -> bool {
        is_own_transaction(self.writer())
    }

    /// Where this version lies.
    pub fn place(&self) -> pg_sys::ItemPointerData {
        // SAFETY: the tuple is a copy of a heap tuple, made by `of`.
        unsafe { (*self.tuple).t_self }
    }

    pub fn int8(&self, column: i16) -> i64 {
        self.datum(column).map_or(0, |datum| datum.value() as i64)
    }

    pub fn int4(&self, column: i16) -> i32 {
        self.datum(column).map_or(0, |datum| datum.value() as i32)
    }

    pub fn bool(&self, column: i16) -> bool {
        self.datum(column).is_some_and(|datum| datum.value() & 0xff != 0)
    }

    pub fn oid(&self, column: i16) -> pg_sys::Oid {
        pg_sys::Oid::from_u32(self.datum(column).map_or(0, |datum| datum.value() as u32))
    }

    pub fn text(&self, column: i16) -> Option<String> {
        // SAFETY: the callers ask for text columns only, and the datum lies in memory that lives as
        // long as the row's.
        self.datum(column).map(|datum| unsafe { text_of(datum) })
    }

    /// The name of a sequence, in a text column that is not null.
    pub fn name(&self, column: i16) -> Name {
        // SAFETY: as in `text`.
        self.datum(column).map_or(Name::from(&[][..]), |datum| unsafe { bytes_of(datum) }.into())
    }
}

/// The transaction that wrote a tuple; `FrozenTransactionId` if the tuple is frozen.
///
/// # Safety
/// `tuple` must be a heap tuple, with the header that is stored.
pub unsafe fn writer_of(tuple: pg_sys::HeapTuple) -> pg_sys::TransactionId {
    const FROZEN: u16 = pg_sys::HEAP_XMIN_FROZEN as u16;
    // SAFETY: the caller guarantees that the tuple has its stored header. The tuple is frozen if
    // both bits of FROZEN are set.
    unsafe {
        let header = (*tuple).t_data;
        if (*header).t_infomask & FROZEN == FROZEN {
            return pg_sys::FrozenTransactionId;
        }
        (*header).t_choice.t_heap.t_xmin
    }
}

/// Whether this is the current transaction or one of its subtransactions that was not rolled back.
pub fn is_own_transaction(transaction: pg_sys::TransactionId) -> bool {
    // SAFETY: only compares a number with the transaction state of this backend; any number will
    // do.
    unsafe { pg_sys::TransactionIdIsCurrentTransactionId(transaction) }
}

/// The text in a varlena datum, in the form of [`escape_for_message`].
///
/// # Safety
/// `datum` must point to a text, or to a type of the same layout.
pub unsafe fn text_of(datum: pg_sys::Datum) -> String {
    // SAFETY: the caller guarantees that the datum points to a text; the result is a copy.
    escape_for_message(unsafe { bytes_of(datum) })
}

/// The bytes in a varlena datum, in the database's encoding. Checks that memory for copies of them
/// is left.
///
/// # Safety
/// As for [`text_of`]. The bytes live as long as the datum, or as the current memory context.
pub unsafe fn bytes_of<'a>(datum: pg_sys::Datum) -> &'a [u8] {
    // SAFETY: the caller guarantees that it is a varlena. Detoasting copies it, if necessary, into
    // the current memory context.
    let bytes = unsafe {
        pgrx::varlena_to_byte_slice(pg_sys::pg_detoast_datum_packed(datum.cast_mut_ptr()))
    };
    memory::check_available_for_text(bytes).or_raise();
    bytes
}

/// A text datum in the current memory context.
pub fn text_datum(bytes: &[u8]) -> pg_sys::Datum {
    // SAFETY: copies `len` bytes from a slice of that length, into palloc'ed memory.
    unsafe { pg_sys::cstring_to_text_with_len(bytes.as_ptr().cast(), bytes.len() as i32).into() }
}

impl Table {
    /// Opens a table to read it.
    ///
    /// # Errors
    /// `NotInstalled` if the table no longer exists, as after DROP EXTENSION; `Replaced` if there
    /// is another one.
    pub fn read(id: pg_sys::Oid) -> Result<Table, HiloError> {
        Self::open(id, pg_sys::AccessShareLock as _, pg_sys::AccessShareLock as _)
    }

    /// Opens a table to write to it.
    ///
    /// # Errors
    /// As for [`Table::read`].
    pub fn write(id: pg_sys::Oid) -> Result<Table, HiloError> {
        Self::open(id, pg_sys::RowExclusiveLock as _, pg_sys::NoLock as _)
    }

    fn open(
        id: pg_sys::Oid,
        lock: pg_sys::LOCKMODE,
        unlock: pg_sys::LOCKMODE,
    ) -> Result<Table, HiloError> {
        // SAFETY: inside a transaction; the result is null if the table does not exist, which is
        // checked.
        let relation = unsafe { pg_sys::try_table_open(id, lock) };
        if relation.is_null() {
            Err(HiloError::Replaced)
        } else {
            Ok(Table { relation, unlock, blocks: Cell::new(0), see: Snapshot::Catalog })
        }
    }

    pub fn id(&self) -> pg_sys::Oid {
        // SAFETY: the relation stays open as long as `self` lives.
        unsafe { (*self.relation).rd_id }
    }

    pub(in crate::catalog) fn relation(&self) -> pg_sys::Relation {
        self.relation
    }

    fn columns(&self) -> usize {
        // SAFETY: the relation is open, so it has its descriptor.
        unsafe { (*(*self.relation).rd_att).natts as usize }
    }

    pub(in crate::catalog) fn row(&self, tuple: pg_sys::HeapTuple) -> Row {
        // SAFETY: the callers pass tuples of this relation. The row is a copy, which outlives the
        // scan's buffer pin.
        unsafe { Row::from_tuple(tuple, (*self.relation).rd_att) }
    }

    /// Locks the version of a row that was found, in order to change it. `Missing`: it has been
    /// replaced or deleted.
    pub(in crate::catalog) fn lock(
        &self,
        row: Row,
        wait: LockWait,
        strength: Strength,
    ) -> RowLock<Row> {
        let mut found = pg_sys::TM_FailureData::default();
        let mut buffer: pg_sys::Buffer = 0;
        // SAFETY: the copied tuple says where the version lies. heap_lock_tuple returns the buffer
        // pinned, and it is released once.
        let result = unsafe {
            let mut tuple = *row.tuple;
            let result = pg_sys::heap_lock_tuple(
                self.relation,
                &mut tuple,
                pg_sys::GetCurrentCommandId(true),
                strength as u32,
                wait as u32,
                // A shared lock also covers the versions that other transactions are making.
                strength == Strength::Shared,
                &mut buffer,
                &mut found,
            );
            pg_sys::ReleaseBuffer(buffer);
            result
        };
        use pg_sys::TM_Result as Tm;
        match result {
            Tm::TM_Ok | Tm::TM_SelfModified => RowLock::Locked(row),
            Tm::TM_WouldBlock | Tm::TM_BeingModified => RowLock::Skipped,
            _ => RowLock::Missing,
        }
    }

    /// Locks the row that `find` finds.
    pub fn lock_found(&self, find: impl Fn() -> Option<Row>, wait: LockWait) -> RowLock<Row> {
        self.lock_found_as(find, wait, Strength::Alone)
    }

    /// Locks the row that `find` finds, with this strength.
    pub fn lock_found_as(
        &self,
        find: impl Fn() -> Option<Row>,
        wait: LockWait,
        strength: Strength,
    ) -> RowLock<Row> {
        loop {
            let Some(row) = find() else { return RowLock::Missing };
            match self.lock(row, wait, strength) {
                RowLock::Missing => continue,
                done => return done,
            }
        }
    }

    /// Adds a row. Returns where it lies.
    pub fn insert(&self, values: &mut [Option<pg_sys::Datum>]) -> pg_sys::ItemPointerData {
        let tuple = self.form(values);
        // SAFETY: `form` has made the tuple for this relation; it is freed once.
        unsafe {
            pg_sys::CatalogTupleInsert(self.relation, tuple);
            let place = (*tuple).t_self;
            pg_sys::heap_freetuple(tuple);
            place
        }
    }

    /// Replaces a row that is locked.
    ///
    /// Returns where the new version lies.
    pub fn update(
        &self,
        row: &Row,
        values: &mut [Option<pg_sys::Datum>],
    ) -> pg_sys::ItemPointerData {
        self.update_at(row.place(), values)
    }

    /// Replaces the row at a place, as [`update`](Self::update) does.
    pub(in crate::catalog) fn update_at(
        &self,
        mut at: pg_sys::ItemPointerData,
        values: &mut [Option<pg_sys::Datum>],
    ) -> pg_sys::ItemPointerData {
        let tuple = self.form(values);
        // SAFETY: `form` has made the tuple for this relation, and the callers have found the old
        // one there.
        unsafe {
            pg_sys::CatalogTupleUpdate(self.relation, &raw mut at, tuple);
            let new = (*tuple).t_self;
            pg_sys::heap_freetuple(tuple);
            new
        }
    }

    /// Replaces some columns of a row that is locked. Returns where the new version lies.
    pub fn change(
        &self,
        row: &Row,
        columns: &[(i16, Option<pg_sys::Datum>)],
    ) -> pg_sys::ItemPointerData {
        let mut values: Vec<_> = (1..=row.nulls.len() as i16).map(|at| row.datum(at)).collect();
        for (column, value) in columns {
            values[*column as usize - 1] = *value;
        }
        self.update(row, &mut values)
    }

    /// The version that lies at a place where there was one, if it is in force for this
    /// transaction.
    pub fn at(&self, place: pg_sys::ItemPointerData) -> Option<Row> {
        let mut tuple = pg_sys::HeapTupleData { t_self: place, ..Default::default() };
        let mut buffer: pg_sys::Buffer = 0;
        if !self.has_block_of(&place) {
            return None;
        }
        // SAFETY: the block exists, and heap_fetch accepts whatever lies at the place now. The row
        // is copied before its page is released.
        unsafe {
            let snapshot = &raw mut pg_sys::SnapshotSelfData;
            if !pg_sys::heap_fetch(self.relation, snapshot, &mut tuple, &mut buffer, false) {
                return None;
            }
            let row = self.row(&mut tuple);
            pg_sys::ReleaseBuffer(buffer);
            Some(row)
        }
    }

    /// Whether the table has the block of a place. While it is open, hence locked, it loses none.
    pub(in crate::catalog) fn has_block_of(&self, place: &pg_sys::ItemPointerData) -> bool {
        let block = block_of(place);
        if block >= self.blocks.get() {
            let fork = pg_sys::ForkNumber::MAIN_FORKNUM;
            // SAFETY: the relation is open.
            let blocks = unsafe { pg_sys::RelationGetNumberOfBlocksInFork(self.relation, fork) };
            self.blocks.set(blocks);
        }
        block < self.blocks.get()
    }

    /// A tuple of `values`. The table may have dropped columns after these, and no others.
    pub(in crate::catalog) fn form(&self, values: &[Option<pg_sys::Datum>]) -> pg_sys::HeapTuple {
        memory::check().or_raise();
        let columns = self.columns();
        // SAFETY: an open relation has its descriptor, with as many attributes as it says, and `at`
        // is below that number.
        let dropped = |at: usize| unsafe {
            ffi::attribute((*self.relation).rd_att, at as i16 + 1).attisdropped
        };
        if columns < values.len() || (values.len()..columns).any(|at| !dropped(at)) {
            HiloError::CatalogMismatch("the exact columns that the library expects".into()).raise();
        }
        let (mut datums, mut nulls) = split(values);
        datums.resize(columns, pg_sys::Datum::null());
        nulls.resize(columns, true);
        // SAFETY: each array has an element for every column of the descriptor.
        unsafe {
            let desc = (*self.relation).rd_att;
            pg_sys::heap_form_tuple(desc, datums.as_mut_ptr(), nulls.as_mut_ptr())
        }
    }

    /// Deletes a row that was found.
    pub fn delete(&self, row: &Row) {
        self.delete_at(row.place());
    }

    /// Deletes the row at a place.
    pub(in crate::catalog) fn delete_at(&self, mut at: pg_sys::ItemPointerData) {
        // SAFETY: the callers have found a row there.
        unsafe { pg_sys::CatalogTupleDelete(self.relation, &raw mut at) }
    }
}

impl Drop for Table {
    fn drop(&mut self) {
        // After an error the transaction's abort closes it.
        if !std::thread::panicking() {
            // SAFETY: opened by `open`, closed once.
            unsafe { pg_sys::table_close(self.relation, self.unlock) }
        }
    }
}

/// The block of a place.
pub(in crate::catalog) fn block_of(place: &pg_sys::ItemPointerData) -> pg_sys::BlockNumber {
    (u32::from(place.ip_blkid.bi_hi) << 16) | u32::from(place.ip_blkid.bi_lo)
}

/// Values and their NULLs, as core takes them.
pub fn split(values: &[Option<pg_sys::Datum>]) -> (Vec<pg_sys::Datum>, Vec<bool>) {
    let datum = |value: &Option<_>| value.unwrap_or(pg_sys::Datum::null());
    values.iter().map(|value| (datum(value), value.is_none())).unzip()
}

/// Makes the rows that were written visible to the transaction's next command.
pub fn next_command() {
    // SAFETY: rows are written inside a transaction, and not in parallel mode.
    unsafe { pg_sys::CommandCounterIncrement() }
}
