//! The rows that one position has in `_hilo.hilo_free_range`, in its epoch.
//!
//! The worker remembers them. The index leads to every row that somebody may still see, and an old
//! snapshot keeps all that there ever were. Whoever writes any of these rows writes the position in
//! the same transaction. So they are as they were left if the position is still the version that
//! was written then. Rows that a restore brings come to positions that nobody serves.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;

use pgrx::pg_sys;

use hilo_core::numbers::{Epoch, Index, SequenceId};
use hilo_core::range::Range;

use crate::backend::Global;
use crate::catalog::rows::catalog_tables::{self, CatalogTable};
use crate::catalog::rows::columns::free_range as column;
use crate::catalog::rows::scan::Match;
use crate::catalog::rows::table::{Row, Table};
use crate::catalog::sequence::positions::Position;
use crate::errors::HiloError;
use crate::process::memory::{self, TryGrow};

/// The incarnation of a free range: no server's memory holds it.
pub(in crate::catalog) const FREE: i64 = 0;

/// The most rows of one position that are remembered.
const MOST: usize = 2_048;
const MOST_OF_ALL: usize = 131_072;

/// A row.
#[derive(Clone, Copy)]
pub(in crate::catalog) struct RangeRow {
    pub incarnation: i64,
    pub range: Range,
    place: pg_sys::ItemPointerData,
}

impl RangeRow {
    fn from_row(row: &Row) -> RangeRow {
        RangeRow {
            incarnation: row.int8(column::INCARNATION),
            range: Range::new(
                Index(row.int8(column::FIRST_INDEX)),
                Index(row.int8(column::END_INDEX)),
            ),
            place: row.place(),
        }
    }

    /// The order of the rows in the index.
    fn rank(&self) -> (i64, Index) {
        (self.incarnation, self.range.start)
    }
}

/// The table's rows on disk, and the position that they belong to.
type Key = (pg_sys::Oid, SequenceId, i32);

/// The rows of a position as they were left by the transaction that wrote its version `writer`;
/// `None`: there are too many.
struct Left {
    epoch: Epoch,
    writer: pg_sys::TransactionId,
    rows: Option<Vec<RangeRow>>,
}

static LEFT: Global<RefCell<Option<HashMap<Key, Left>>>> = Global::new(RefCell::new(None));

/// How many rows, and how many positions, are remembered.
static COUNT: Global<Cell<usize>> = Global::new(Cell::new(0));

/// The rows of a position's epoch.
pub struct RangeRows {
    table: Table,
    sequence: SequenceId,
    node: i32,
    epoch: Epoch,
    /// All rows, in the order of the index; `None`: each is looked up.
    known: Option<Vec<RangeRow>>,
    written: bool,
}

impl RangeRows {
    /// Opens the rows for reading.
    pub fn read(position: &Position) -> Result<RangeRows, HiloError> {
        Ok(Self::new(CatalogTable::FreeRange.read()?, position))
    }

    /// Opens the rows for a transaction that gives the position another epoch, or deletes it.
    pub fn write(position: &Position) -> Result<RangeRows, HiloError> {
        Ok(Self::new(CatalogTable::FreeRange.write()?, position))
    }

    fn new(table: Table, position: &Position) -> RangeRows {
        let Position { sequence, node, epoch, .. } = *position;
        RangeRows { table, sequence, node, epoch, known: None, written: false }
    }

    /// Opens the rows of a locked position whose version `writer` has written. Call
    /// [`keep`](Self::keep) afterwards.
    pub(in crate::catalog) fn recall(
        position: &Position,
        writer: pg_sys::TransactionId,
    ) -> Result<RangeRows, HiloError> {
        let mut rows = Self::write(position)?;
        let left = LEFT.borrow_mut().as_mut().and_then(|left| left.remove(&rows.key()));
        if let Some(left) = &left {
            COUNT.set(COUNT.get() - weight(&left.rows));
        }
        rows.known = match left.filter(|left| (left.epoch, left.writer) == (rows.epoch, writer)) {
            Some(left) => left.rows,
            None => rows.all()?,
        };
        Ok(rows)
    }

    /// All rows, unless they are too many.
    fn all(&self) -> Result<Option<Vec<RangeRow>>, HiloError> {
        let mut all = Vec::new();
        self.look_up(&self.keys(), &mut all, |_, before| before <= MOST)?;
        Ok(Some(all).filter(|all| all.len() <= MOST))
    }

    /// Remembers the rows for the next transaction that finds the version of the position that
    /// `writer` wrote. That is this transaction, if it has written any of them.
    pub(in crate::catalog) fn keep(self, writer: pg_sys::TransactionId) {
        let key = self.key();
        let rows = self.known.filter(|rows| rows.len() <= MOST);
        let weight = weight(&rows);
        let mut left = LEFT.borrow_mut();
        let left = left.get_or_insert_default();
        if COUNT.get() + weight > MOST_OF_ALL {
            left.clear();
            COUNT.set(0);
        }
        // A frozen transaction number may be any transaction's.
        let known = writer >= pg_sys::FirstNormalTransactionId;
        if known && left.try_push((key, Left { epoch: self.epoch, writer, rows })).is_ok() {
            COUNT.set(COUNT.get() + weight);
        }
    }

    /// Whether any row was written.
    pub(in crate::catalog) fn are_written(&self) -> bool {
        self.written
    }

    fn key(&self) -> Key {
        // SAFETY: an open relation has its row of pg_class. VACUUM FULL gives it another file, in
        // which each row has another place.
        let file = unsafe { (*(*self.table.relation()).rd_rel).relfilenode };
        (file, self.sequence, self.node)
    }

    fn keys(&self) -> [(i16, Match<'static>); 3] {
        [
            (column::SEQUENCE, Match::Int8(self.sequence.0)),
            (column::NODE, Match::Int4(self.node)),
            (column::EPOCH, Match::Int8(self.epoch.0)),
        ]
    }

    fn free_keys(&self) -> [(i16, Match<'static>); 4] {
        let [sequence, node, epoch] = self.keys();
        [sequence, node, epoch, (column::INCARNATION, Match::Int8(FREE))]
    }

    /// The rows of free ranges, and of lent ranges, if they are known.
    fn known(&self) -> Option<(&[RangeRow], &[RangeRow])> {
        let known = self.known.as_ref()?;
        Some(known.split_at(known.partition_point(|row| row.incarnation <= FREE)))
    }

    /// Adds the rows in the table that match `keys`. `wants` gets each range and how many rows come
    /// before it, and ends the list.
    fn look_up(
        &self,
        keys: &[(i16, Match)],
        rows: &mut Vec<RangeRow>,
        wants: impl Fn(Range, usize) -> bool,
    ) -> Result<(), HiloError> {
        self.table.scan(catalog_tables::FREE_RANGE_PKEY, keys, |row| {
            let found = RangeRow::from_row(&row);
            row.free();
            let wanted = wants(found.range, rows.len());
            if wanted {
                rows.try_push(found)?;
            }
            Ok(wanted)
        })
    }

    fn found(&self, keys: &[(i16, Match)]) -> Result<Vec<RangeRow>, HiloError> {
        let mut found = Vec::new();
        self.look_up(keys, &mut found, |_, _| true)?;
        Ok(found)
    }

    /// Whether there is no row.
    pub(in crate::catalog) fn is_empty(&self) -> bool {
        match &self.known {
            Some(known) => known.is_empty(),
            None => self.table.find(catalog_tables::FREE_RANGE_PKEY, &self.keys()).is_none(),
        }
    }

    /// The free ranges, lowest first.
    pub(in crate::catalog) fn free(&self) -> Result<Vec<RangeRow>, HiloError> {
        self.free_from(Index::ZERO, |_, _| true)
    }

    /// The free ranges that contain an index of at least `from`, lowest first. `wants` gets each
    /// range and how many come before it, and ends the list.
    pub(in crate::catalog) fn free_from(
        &self,
        from: Index,
        wants: impl Fn(Range, usize) -> bool,
    ) -> Result<Vec<RangeRow>, HiloError> {
        let mut rows: Vec<RangeRow> =
            self.last_free(Some(from)).into_iter().filter(|row| row.range.end > from).collect();
        if let Some((free, _)) = self.known() {
            for row in &free[free.partition_point(|row| row.range.start < from)..] {
                if !wants(row.range, rows.len()) {
                    break;
                }
                rows.try_push(*row)?;
            }
            return Ok(rows);
        }
        let [a, b, c, d] = self.free_keys();
        let after = [a, b, c, d, (column::FIRST_INDEX, Match::Int8Greater(from.0 - 1))];
        self.look_up(&after, &mut rows, wants)?;
        Ok(rows)
    }

    /// The highest free range that starts before an index.
    pub(in crate::catalog) fn last_free(&self, before: Option<Index>) -> Option<RangeRow> {
        if let Some((free, _)) = self.known() {
            let end = before
                .map_or(free.len(), |before| free.partition_point(|row| row.range.start < before));
            return free[..end].last().copied();
        }
        let [a, b, c, d] = self.free_keys();
        let before = before.map(|before| (column::FIRST_INDEX, Match::Int8Less(before.0)));
        let found = match before {
            Some(before) => self.table.last(catalog_tables::FREE_RANGE_PKEY, &[a, b, c, d, before]),
            None => self.table.last(catalog_tables::FREE_RANGE_PKEY, &[a, b, c, d]),
        };
        found.map(|row| RangeRow::from_row(&row))
    }

    /// The free range that starts at an index.
    pub(in crate::catalog) fn free_at(&self, start: Index) -> Option<RangeRow> {
        if let Some((free, _)) = self.known() {
            let at = free.binary_search_by_key(&start, |row| row.range.start).ok()?;
            return Some(free[at]);
        }
        let [a, b, c, d] = self.free_keys();
        let keys = [a, b, c, d, (column::FIRST_INDEX, Match::Int8(start.0))];
        self.table.find(catalog_tables::FREE_RANGE_PKEY, &keys).map(|row| RangeRow::from_row(&row))
    }

    /// The ranges that are in some server's memory, or were when that server's life ended.
    pub(in crate::catalog) fn lent(&self) -> Result<Vec<RangeRow>, HiloError> {
        match self.known() {
            Some((_, lent)) => memory::try_collect(lent.iter().copied()),
            None => {
                let [a, b, c] = self.keys();
                self.found(&[a, b, c, (column::INCARNATION, Match::Int8Greater(FREE))])
            }
        }
    }

    /// All rows.
    pub(in crate::catalog) fn of_all(&self) -> Result<Vec<RangeRow>, HiloError> {
        match &self.known {
            Some(known) => memory::try_collect(known.iter().copied()),
            None => self.found(&self.keys()),
        }
    }

    /// Adds a row.
    pub(in crate::catalog) fn insert(&mut self, range: &Range, incarnation: i64) {
        let place = self.table.insert(&mut self.values(range, incarnation));
        self.note(RangeRow { incarnation, range: *range, place });
    }

    /// Deletes a row that was found.
    pub(in crate::catalog) fn delete(&mut self, row: &RangeRow) {
        self.forget(row);
        self.table.delete_at(row.place);
    }

    /// Gives a range that was found to the memory of `incarnation`.
    pub(in crate::catalog) fn lend(&mut self, row: &RangeRow, incarnation: i64) {
        self.forget(row);
        let place = self.table.update_at(row.place, &mut self.values(&row.range, incarnation));
        self.note(RangeRow { incarnation, place, ..*row });
    }

    fn note(&mut self, row: RangeRow) {
        self.written = true;
        // If memory is refused nothing is remembered, and the rows are read where they are needed.
        self.known.take_if(|known| known.try_reserve(1).is_err());
        if let Some(known) = &mut self.known {
            let at = known.partition_point(|other| other.rank() < row.rank());
            known.insert(at, row);
        }
    }

    /// Forgets all rows if this one has changed since it was remembered.
    fn forget(&mut self, row: &RangeRow) {
        self.written = true;
        let values = self.values(&row.range, row.incarnation);
        let Some(known) = &mut self.known else { return };
        let there = self.table.at(row.place).filter(|there| {
            values.iter().zip(1..).all(|(value, column)| there.datum(column) == *value)
        });
        match known.binary_search_by_key(&row.rank(), RangeRow::rank) {
            Ok(at) if there.is_some() => known.remove(at),
            _ => {
                let what = format!("the free ranges of sequence {} that it has", self.sequence);
                HiloError::CatalogMismatch(what).raise()
            }
        };
    }

    fn values(&self, range: &Range, incarnation: i64) -> [Option<pg_sys::Datum>; column::WIDTH] {
        [
            Some(self.sequence.0.into()),
            Some(self.node.into()),
            Some(self.epoch.0.into()),
            Some(range.start.0.into()),
            Some(range.end.0.into()),
            Some(incarnation.into()),
        ]
    }
}

fn weight(rows: &Option<Vec<RangeRow>>) -> usize {
    1 + rows.as_ref().map_or(0, Vec::len)
}
