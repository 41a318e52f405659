//! `_hilo.hilo_position`: how far a node has reserved.

use std::cell::Cell;
use std::collections::HashMap;
use std::rc::Rc;

use pgrx::pg_sys;

use hilo_core::mapping::{Mapping, Stripes};
use hilo_core::numbers::{Epoch, Index, SequenceId};
use hilo_core::options::Definition;
use hilo_core::range::Range;

use crate::backend::Global;
use crate::catalog::rows::catalog_tables::{self, CatalogTable};
use crate::catalog::rows::columns::position as column;
use crate::catalog::rows::record::{Field, record};
use crate::catalog::rows::scan::Match;
use crate::catalog::rows::table::{LockWait, Row, RowLock, Table, is_own_transaction};
use crate::catalog::sequence::definitions::{self, Sequence};
use crate::catalog::sequence::places::{Places, keys};
use crate::errors::HiloError;
use crate::gucs;
use crate::process::memory::{self, TryGrow};
use crate::shared::slot::Terms;
use crate::shared::totals::Totals;

/// The `incarnation` of a position that came from a dump, until the first reservation here.
pub const RESTORED: i64 = -1;

/// A row of `_hilo.hilo_position`.
///
/// Indexes below `settled_index` are served, or recorded as a gap or a free range. The indexes from
/// `settled_index` to `next_index` may be in the memory of the server life `incarnation`; if that
/// is 0, they are in no memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Position {
    pub sequence: SequenceId,
    pub node: i32,
    pub epoch: Epoch,
    pub base: i64,
    pub next_index: Index,
    pub settled_index: Index,
    pub incarnation: i64,
    pub nodes: i32,
    pub stripe: i64,
    pub system_id: i64,
    pub timeline: i32,
    /// How many values a server skips by default if it takes over from a copy of this row.
    pub skip: i64,
    /// The node's totals when the row was written, in all epochs.
    pub totals: Totals,
}

record! {
    Position of position {
        sequence in SEQUENCE;
        node in NODE;
        epoch in EPOCH;
        base in BASE;
        next_index in NEXT_INDEX;
        settled_index in SETTLED_INDEX;
        incarnation in INCARNATION;
        nodes in NODES;
        stripe in STRIPE;
        system_id in SYSTEM_ID;
        timeline in TIMELINE;
        skip in SKIP;
        totals of Totals {
            served: SERVED, slices: SLICES, blocks_reserved: BLOCKS_RESERVED,
            blocks_prefetched: BLOCKS_PREFETCHED, waits: WAITS, wait_time: WAIT_TIME,
            recycled: RECYCLED, lost: LOST, errors: ERRORS
        };
    }
}

impl Position {
    const FIRST_EPOCH: Epoch = Epoch(1);

    /// The position at which a new sequence begins on `node`.
    pub fn first(sequence: &Sequence, node: i32) -> Position {
        let (system_id, timeline) = server();
        Position {
            sequence: sequence.id,
            node,
            epoch: Self::FIRST_EPOCH,
            base: match sequence.definition.source {
                None => sequence.definition.start_value,
                Some(_) => sequence.definition.grid_base(),
            },
            next_index: Index::ZERO,
            settled_index: Index::ZERO,
            incarnation: 0,
            nodes: gucs::node_count(),
            stripe: stripe(sequence.definition.block_size),
            system_id,
            timeline,
            skip: 0,
            totals: Totals::default(),
        }
    }

    /// Whether this server has reserved from this position, or made it.
    pub fn is_ours(&self) -> bool {
        // The system identifier alone is not enough: clusters made from one image share it.
        self.system_id == server().0 && !self.is_replicated() && self.incarnation != RESTORED
    }

    /// Whether the row came from another server by logical replication.
    pub fn is_replicated(&self) -> bool {
        self.timeline == REPLICATED
    }

    /// Whether values may have been served from reservations that this row does not show. That is
    /// so if it came by logical replication, or if this server was promoted or restored to an
    /// earlier time afterwards. A server on timeline 1 was neither. If it has a row of another
    /// server, that came with pg_upgrade after a clean shutdown.
    pub fn may_lack(&self) -> bool {
        let (system_id, timeline) = server();
        self.is_replicated()
            || (self.system_id != 0
                && timeline > 1
                && (self.system_id, self.timeline) != (system_id, timeline)
                && (self.has_reserved() || self.system_id == system_id))
    }

    /// The terms under which sessions and the worker serve a sequence with this definition from
    /// this position.
    pub fn terms(&self, sequence: &Sequence) -> Terms {
        let definition = &sequence.definition;
        Terms {
            mapping: self.mapping(definition),
            start_value: definition.start_value,
            ordered: definition.ordered,
            has_source: definition.source.is_some(),
            slice_size: definition.slice_size.unwrap_or(0) as i32,
            block_size: definition.block_size.unwrap_or(0),
        }
    }

    /// Whether this is the numbering that the sequence was created with.
    pub fn is_first(&self) -> bool {
        self.epoch == Self::FIRST_EPOCH
    }

    /// Maps the indexes of this position to values, for a sequence with this definition.
    pub fn mapping(&self, definition: &Definition) -> Mapping {
        Mapping {
            base: self.base,
            increment: definition.increment,
            min_value: definition.min_value,
            max_value: definition.max_value,
            cycle: definition.cycle,
            stripes: Stripes {
                node: self.node as u32,
                nodes: self.nodes as u32,
                size: self.stripe,
            },
        }
    }

    /// Takes back the reserved indexes from `to` on, which the caller owns.
    pub(in crate::catalog) fn lower(&mut self, to: Index) {
        self.next_index = to;
        self.settled_index = self.settled_index.min(to);
    }

    /// Whether anything was reserved in this epoch.
    pub fn has_reserved(&self) -> bool {
        self.next_index > Index::ZERO
    }

    /// The indexes that may be in the memory of `incarnation`, besides the lent ranges.
    pub fn unsettled_range(&self) -> Range {
        Range::new(self.settled_index, self.next_index)
    }

    /// The furthest value reserved; `None` before the first reservation.
    pub fn last_value(&self, definition: &Definition) -> Option<i64> {
        let mapping = self.mapping(definition).without_bounds();
        self.has_reserved().then(|| mapping.value(self.next_index - 1)).flatten()
    }
}

/// The timeline of a row that came by logical replication.
pub const REPLICATED: i32 = -1;

/// The system identifier and the timeline of this server; the timeline is 0 in recovery.
pub fn server() -> (i64, i32) {
    /// Both stay the same once recovery has ended.
    static SERVER: Global<Cell<Option<(i64, i32)>>> = Global::new(Cell::new(None));
    SERVER.get().unwrap_or_else(|| {
        // SAFETY: all three read shared memory that every process is attached to. In recovery the
        // timeline for WAL insertions is not set, so it is not asked for.
        unsafe {
            let identifier = pg_sys::GetSystemIdentifier() as i64;
            if pg_sys::RecoveryInProgress() {
                return (identifier, 0);
            }
            let server = (identifier, pg_sys::GetWALInsertionTimeLine() as i32);
            SERVER.set(Some(server));
            server
        }
    })
}

/// The number of indexes in a stripe: a whole number of blocks, so that each block lies within one
/// stripe.
pub fn stripe(block_size: Option<i64>) -> i64 {
    const LEAST: i64 = 1024;
    let block = block_size.unwrap_or(1).max(1);
    block.saturating_mul((LEAST / block).max(1))
}

/// A version of a position's row that a transaction has written. `writer` is the subtransaction. So
/// a version that was rolled back is not mistaken for the next one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Version {
    pub sequence: SequenceId,
    pub node: i32,
    pub epoch: Epoch,
    pub writer: pg_sys::TransactionId,
}

impl Version {
    fn new(position: &Position) -> Version {
        let Position { sequence, node, epoch, .. } = *position;
        Version { sequence, node, epoch, writer: writer() }
    }
}

/// The (sub)transaction that writes now, as [`Version::writer`].
pub(in crate::catalog) fn writer() -> pg_sys::TransactionId {
    // SAFETY: inside a transaction. The current subtransaction gets a number if it has none.
    unsafe { pg_sys::GetCurrentTransactionId() }
}

/// Where the last version of each row lies that this process has written.
static WRITTEN: Places = Places::new();

/// The version of a row that this process wrote last, if it is in force.
fn remembered(table: &Table, sequence: SequenceId, node: i32) -> Option<Row> {
    WRITTEN.row(table, (sequence, node), |place| table.in_force(place))
}

/// The version of a row that this transaction wrote last, if it is in force.
pub(in crate::catalog) fn own_write(table: &Table, sequence: SequenceId, node: i32) -> Option<Row> {
    remembered(table, sequence, node).filter(Row::is_own)
}

fn newest(table: &Table, sequence: SequenceId, node: i32) -> Option<Row> {
    remembered(table, sequence, node)
        .or_else(|| table.find(catalog_tables::POSITION_PKEY, &keys((sequence, node))))
}

/// A position row that this transaction has locked.
pub struct LockedPosition {
    table: Rc<Table>,
    row: Row,
    pub position: Position,
}

impl LockedPosition {
    /// The definition of the position's sequence. While this lock is held, no session changes what
    /// the indexes mean. Replication may, until the position is this server's: then the definition
    /// is locked here, as replication locks it.
    pub fn definition(&self) -> Result<RowLock<Sequence>, HiloError> {
        let id = self.position.sequence;
        Ok(match self.position.is_ours() {
            true => definitions::by_id(id)?.map_or(RowLock::Missing, RowLock::Locked),
            false => definitions::lock(id, LockWait::Skip)?.map(|locked| locked.sequence),
        })
    }

    /// Replaces the row. All other writes about a position's ranges go through
    /// [`crate::catalog::numbers::owned_position::with_position`].
    pub fn update(&self, position: &Position) {
        let place = self.table.replace(&self.row, &mut position.values());
        WRITTEN.note(&self.table, (position.sequence, position.node), place);
    }

    /// Replaces the row, and returns the new version.
    pub fn rewrite(&self, position: &Position) -> Version {
        self.update(position);
        Version::new(position)
    }

    /// Whether the current transaction has written this version.
    pub fn is_own(&self) -> bool {
        self.row.is_own()
    }

    /// This version, which can be distinguished from others of the same epoch that were rolled
    /// back.
    pub fn version(&self) -> Version {
        Version {
            sequence: self.position.sequence,
            node: self.position.node,
            epoch: self.position.epoch,
            writer: self.row.writer(),
        }
    }

    pub fn delete(&self) {
        self.table.delete(&self.row);
    }
}

/// Locks a node's row.
pub fn lock(
    sequence: SequenceId,
    node: i32,
    wait: LockWait,
) -> Result<RowLock<LockedPosition>, HiloError> {
    let table = Rc::new(CatalogTable::Position.write()?);
    let found = newest(&table, sequence, node);
    Ok(lock_row(&table, sequence, node, found, wait))
}

/// Locks the rows that a node has for these sequences, but for those that another transaction has
/// locked.
pub fn lock_all(
    sequences: &[i64],
    node: i32,
) -> Result<HashMap<SequenceId, RowLock<LockedPosition>>, HiloError> {
    let table = Rc::new(CatalogTable::Position.write()?);
    let mut rows = memory::with_capacity(sequences.len())?;
    let mut others = memory::with_capacity(sequences.len())?;
    for id in sequences {
        match remembered(&table, SequenceId(*id), node) {
            Some(row) => rows.push(row),
            None => others.push(*id),
        }
    }
    if !others.is_empty() {
        let keys = [(column::SEQUENCE, Match::Int8In(&others)), (column::NODE, Match::Int4(node))];
        table.scan(catalog_tables::POSITION_PKEY, &keys, |row| {
            rows.push(row);
            Ok(rows.len() < sequences.len())
        })?;
    }
    memory::try_map(
        rows.len(),
        rows.into_iter().map(|row| {
            let sequence = SequenceId(row.int8(column::SEQUENCE));
            (sequence, lock_row(&table, sequence, node, Some(row), LockWait::Skip))
        }),
    )
}

/// Locks a row that was found, or the version that has replaced it.
fn lock_row(
    table: &Rc<Table>,
    sequence: SequenceId,
    node: i32,
    found: Option<Row>,
    wait: LockWait,
) -> RowLock<LockedPosition> {
    let found = match found {
        // No other transaction sees a version that this transaction wrote, so that needs no lock.
        Some(own) if own.is_own() => RowLock::Locked(own),
        found => {
            let found = Cell::new(found);
            table.lock_found(|| found.take().or_else(|| newest(table, sequence, node)), wait)
        }
    };
    found.map(|row| {
        let position = Position::from_row(&row);
        LockedPosition { table: table.clone(), row, position }
    })
}

/// A node's row as it is now.
pub fn find(sequence: SequenceId, node: i32) -> Result<Option<Position>, HiloError> {
    static ROOTS: Places = Places::new();
    let row = ROOTS.find(
        &CatalogTable::Position.read()?,
        catalog_tables::POSITION_PKEY,
        (sequence, node),
    );
    Ok(row.map(|row| Position::from_row(&row)))
}

pub fn insert(position: &Position) -> Result<Version, HiloError> {
    CatalogTable::Position.write()?.insert(&mut position.values());
    Ok(Version::new(position))
}

/// The rows of all nodes for this sequence.
pub fn of_all_nodes(sequence: SequenceId) -> Result<Vec<Position>, HiloError> {
    let key = &keys((sequence, 0))[..1];
    CatalogTable::Position
        .read()?
        .collect(catalog_tables::POSITION_PKEY, key, |row| Some(Position::from_row(row)))
}

/// The rows of the other nodes, read without visiting the versions of `node`'s row, which may be
/// many.
pub fn of_other_nodes(sequence: SequenceId, node: i32) -> Result<Vec<Position>, HiloError> {
    let table = CatalogTable::Position.read()?;
    let mut all = Vec::new();
    for other in [Match::Int4Less(node), Match::Int4Greater(node)] {
        let keys = [(column::SEQUENCE, Match::Int8(sequence.0)), (column::NODE, other)];
        let found = |row: &Row| Some(Position::from_row(row));
        all.try_extend(table.collect(catalog_tables::POSITION_PKEY, &keys, found)?)?;
    }
    Ok(all)
}

/// Deletes the rows of all nodes for a sequence that is dropped.
pub fn forget(sequence: SequenceId) -> Result<(), HiloError> {
    for position in of_all_nodes(sequence)? {
        if let RowLock::Locked(locked) = lock(sequence, position.node, LockWait::Block)? {
            locked.delete();
        }
    }
    Ok(())
}

/// A node's row with its version, if the current transaction has written it.
pub fn find_own_write(
    sequence: SequenceId,
    node: i32,
) -> Result<Option<(Position, Version)>, HiloError> {
    let row = newest(&CatalogTable::Position.read()?, sequence, node);
    Ok(row.filter(Row::is_own).map(|row| {
        let position = Position::from_row(&row);
        let version = Version { sequence, node, epoch: position.epoch, writer: row.writer() };
        (position, version)
    }))
}

/// Moves a row version that the current transaction has written forward to `next_index`, never
/// back. Returns the row's position then; `None` if the version is not current any more, or the
/// extension has gone.
pub fn advance(version: &Version, next_index: Index) -> Result<Option<Position>, HiloError> {
    if !is_own_transaction(version.writer) {
        return Ok(None);
    }
    let locked = match lock(version.sequence, version.node, LockWait::Block) {
        Ok(RowLock::Locked(locked)) => locked,
        Ok(_) | Err(HiloError::NotInstalled) => return Ok(None),
        Err(error) => return Err(error),
    };
    if locked.version() != *version {
        return Ok(None);
    }
    let mut position = locked.position;
    if position.next_index < next_index {
        (position.next_index, position.settled_index) = (next_index, next_index);
        locked.update(&position);
    }
    Ok(Some(position))
}
