//! `_hilo.hilo_definition`: the definitions of the sequences.

use std::collections::HashMap;

use pgrx::pg_sys;

use hilo_core::name;
use hilo_core::numbers::{SequenceId, Timestamp};
use hilo_core::options::{DataType, Definition, each_option};

use crate::catalog::columns::column_ref::ColumnRef;
use crate::catalog::rows::catalog_tables::{self, CatalogTable, INTERNALS};
use crate::catalog::rows::columns::sequence as column;
use crate::catalog::rows::name::Name;
use crate::catalog::rows::record::{Field, record};
use crate::catalog::rows::scan::{Index, Match};
use crate::catalog::rows::table::{LockWait, Row, RowLock, Snapshot, Table};
use crate::catalog::rows::{relations, roles, script};
use crate::errors::HiloError;
use crate::process::ffi;
use crate::process::memory::{self, TryGrow};
use crate::shared::random_id;

/// A row of `_hilo.hilo_definition`.
#[derive(Clone, Debug, PartialEq)]
pub struct Sequence {
    pub id: SequenceId,
    pub name: Name,
    pub owner: pg_sys::Oid,
    pub created_at: Timestamp,
    /// The column that owns the sequence, if any.
    pub owned_by: Option<ColumnRef>,
    /// The extension whose script created the sequence, if any.
    pub extension: Option<Name>,
    /// The core sequence that this one replaced, if any, as `sql/column/sequences.sql` writes it.
    pub former: Option<Name>,
    pub definition: Definition,
}

impl Sequence {
    /// A new sequence.
    pub fn new(name: Name, owner: pg_sys::Oid, definition: Definition) -> Sequence {
        Sequence::with_id(SequenceId(random_id()), name, owner, definition)
    }

    /// A new sequence with an id that was chosen before.
    pub fn with_id(
        id: SequenceId,
        name: Name,
        owner: pg_sys::Oid,
        definition: Definition,
    ) -> Sequence {
        let (created_at, extension) = (ffi::now(), script::extension());
        let (owned_by, former) = (None, None);
        Sequence { id, name, owner, created_at, owned_by, extension, former, definition }
    }

    /// Whether its values come from a sequence on another server (`sql/branches.sql`).
    pub fn is_branch(&self) -> bool {
        self.definition.source.as_deref().is_some_and(|source| source.starts_with("-- server "))
    }
}

macro_rules! sequence {
    ($($(#[$about:meta])* $option:ident: $type:ty,)+) => {
        record! {
            Sequence of sequence {
                id in ID;
                name in NAME;
                owner in OWNER;
                created_at in CREATED_AT;
                owned_by in OWNED_BY;
                extension in EXTENSION;
                former in FORMER;
                definition of Definition { $($option: $option),+ };
            }
        }
    };
}

each_option!(sequence);

impl Field for DataType {
    fn read(datum: pg_sys::Datum) -> Option<DataType> {
        data_type_from(pg_sys::Oid::from_u32(datum.value() as u32))
    }

    fn datum(&self) -> Option<pg_sys::Datum> {
        let oid = match self {
            DataType::SmallInt => pg_sys::INT2OID,
            DataType::Integer => pg_sys::INT4OID,
            DataType::BigInt => pg_sys::INT8OID,
        };
        oid.datum()
    }
}

/// The data type that an argument of type regtype names; `None` if no sequence can have it.
pub fn data_type_from(oid: pg_sys::Oid) -> Option<DataType> {
    match oid {
        pg_sys::INT2OID => Some(DataType::SmallInt),
        pg_sys::INT4OID => Some(DataType::Integer),
        pg_sys::INT8OID => Some(DataType::BigInt),
        _ => None,
    }
}

/// The sequence that has this name now, whatever the transaction's snapshot.
pub fn by_name(name: &[u8]) -> Result<Option<Sequence>, HiloError> {
    let table = CatalogTable::Definition.read()?;
    let keys = [(column::NAME, Match::Text(name))];
    let row = table.find(catalog_tables::DEFINITION_NAME_KEY, &keys);
    Ok(row.map(|row| Sequence::from_row(&row)))
}

/// The sequence that has this id now.
pub fn by_id(id: SequenceId) -> Result<Option<Sequence>, HiloError> {
    let table = CatalogTable::Definition.read()?;
    let row = table.find(catalog_tables::DEFINITION_PKEY, &[(column::ID, Match::Int8(id.0))]);
    Ok(row.map(|row| Sequence::from_row(&row)))
}

/// The sequences with these ids that exist now.
pub fn by_ids(ids: &[i64]) -> Result<HashMap<SequenceId, Sequence>, HiloError> {
    let keys = [(column::ID, Match::Int8In(ids))];
    let found = |row: &Row| Some(Sequence::from_row(row));
    let found =
        CatalogTable::Definition.read()?.collect(catalog_tables::DEFINITION_PKEY, &keys, found)?;
    memory::try_map(found.len(), found.into_iter().map(|sequence| (sequence.id, sequence)))
}

/// The sequences that the transaction sees, or those of them with these names, by name.
pub fn seen(names: Option<&[Vec<u8>]>) -> Result<Vec<Sequence>, HiloError> {
    let keys = names.map(|names| (column::NAME, Match::TextIn(names)));
    let table = CatalogTable::Definition.read()?.seeing(Snapshot::Transaction);
    let found = |row: &Row| Some(Sequence::from_row(row));
    table.collect(catalog_tables::DEFINITION_NAME_KEY, keys.as_slice(), found)
}

/// The conditions on `owned_by`, which is `column`: for one column of the table, or for all if
/// `attnum` is `None`.
fn owner_keys(column: i16, relid: pg_sys::Oid, attnum: Option<i16>) -> [(i16, Match<'static>); 2] {
    // A table's numbers of columns are from 1 to 1600.
    let (after, before) = attnum.map_or((0, i16::MAX), |attnum| (attnum - 1, attnum + 1));
    let packed = |attnum| ColumnRef { relid, attnum }.pack();
    [(column, Match::Int8Greater(packed(after))), (column, Match::Int8Less(packed(before)))]
}

/// The sequences that a column owns or, if `attnum` is `None`, any column of the table.
pub fn of_column(relid: pg_sys::Oid, attnum: Option<i16>) -> Result<Vec<Sequence>, HiloError> {
    let keys = owner_keys(column::OWNED_BY, relid, attnum);
    let sequence = |row: &Row| Some(Sequence::from_row(row));
    CatalogTable::Definition.read()?.collect(
        catalog_tables::DEFINITION_OWNED_BY_IDX,
        &keys,
        sequence,
    )
}

/// Whether a column of the table, or `attnum`, owns a sequence, in a database whose objects are of
/// another version than the library. Table and type are found by their names; if a version lacks
/// one of them, no column owned a sequence.
pub fn owns_in_other_version(relid: pg_sys::Oid, attnum: Option<i16>) -> Result<bool, HiloError> {
    let table =
        relations::by_name(INTERNALS, catalog_tables::NAMES[CatalogTable::Definition as usize]);
    let index = relations::by_name(INTERNALS, c"hilo_definition_owned_by_idx");
    // SAFETY: a look-up in a system cache, inside a transaction, by a name that is a C string.
    let column = unsafe { pg_sys::get_attnum(table, c"owned_by".as_ptr()) };
    if index == pg_sys::InvalidOid || column <= 0 {
        return Ok(false);
    }
    let keys = owner_keys(column, relid, attnum);
    let by_owned = Index::Named(c"hilo_definition_owned_by_idx");
    Ok(Table::read(table)?.find(by_owned, &keys).is_some())
}

/// Collects what `of` makes of each sequence that exists now.
pub fn collect<T>(
    mut of: impl FnMut(Sequence) -> Result<Option<T>, HiloError>,
) -> Result<Vec<T>, HiloError> {
    let mut found = Vec::new();
    CatalogTable::Definition.read()?.scan(catalog_tables::DEFINITION_PKEY, &[], |row| {
        let one = of(Sequence::from_row(&row));
        row.free();
        found.try_extend(one?)?;
        Ok(true)
    })?;
    Ok(found)
}

/// The ids of up to `most` sequences that will probably be used after `id`, without gapless ones.
/// Their names count on from its name, or else follow in the order of their bytes.
pub fn following(id: SequenceId, most: usize) -> Result<Vec<SequenceId>, HiloError> {
    /// How many names are looked up at once. If none of them exists, the count has ended.
    const AT_ONCE: usize = 32;
    let (mut found, mut left) = (Vec::new(), most);
    let Some(before) = by_id(id)? else { return Ok(found) };
    let mut add = |row: Row| {
        if !row.bool(column::gapless) {
            found.push(SequenceId(row.int8(column::ID)));
        }
        row.free();
        left -= 1;
        left > 0
    };
    let table = CatalogTable::Definition.read()?;
    let mut successors = name::successors(&before.name);
    loop {
        let names: Vec<_> = successors.by_ref().take(AT_ONCE).collect();
        let mut rows = memory::with_capacity(AT_ONCE)?;
        table.scan(
            catalog_tables::DEFINITION_NAME_KEY,
            &[(column::NAME, Match::TextIn(&names))],
            |row| {
                rows.push(row);
                Ok(rows.len() < AT_ONCE)
            },
        )?;
        if rows.is_empty() {
            break;
        }
        // In the order of their numbers.
        rows.sort_by_cached_key(|row| {
            let name = row.name(column::NAME);
            (name.len(), name)
        });
        if !rows.into_iter().all(&mut add) {
            return Ok(found);
        }
    }
    let after = [(column::NAME, Match::TextGreater(&before.name))];
    table.scan(catalog_tables::DEFINITION_NAME_KEY, &after, |row| Ok(add(row)))?;
    Ok(found)
}

/// Adds a row. If its name is taken, a unique violation is raised.
pub(in crate::catalog) fn insert(sequence: &Sequence) -> Result<(), HiloError> {
    roles::depend_on(sequence.owner)?;
    CatalogTable::Definition.write()?.insert(&mut sequence.values());
    Ok(())
}

/// A sequence whose row is locked, as defined by the newest version of the row.
pub struct LockedSequence {
    table: Table,
    row: Row,
    pub sequence: Sequence,
}

impl LockedSequence {
    /// Replaces the row.
    pub fn update(&self, sequence: &Sequence) {
        self.table.update(&self.row, &mut sequence.values());
        crate::catalog::rows::table::next_command();
    }

    pub fn delete(&self) {
        self.table.delete(&self.row);
        crate::catalog::rows::table::next_command();
    }
}

/// Locks the row of a sequence.
pub fn lock(id: SequenceId, wait: LockWait) -> Result<RowLock<LockedSequence>, HiloError> {
    let table = CatalogTable::Definition.write()?;
    let find = || table.find(catalog_tables::DEFINITION_PKEY, &[(column::ID, Match::Int8(id.0))]);
    let found = table.lock_found(find, wait);
    Ok(found.map(|row| {
        let sequence = Sequence::from_row(&row);
        LockedSequence { table, row, sequence }
    }))
}

/// Locks the row of a sequence, after waiting for a transaction that changes it. `None`: the
/// sequence does not exist.
pub fn lock_existing(id: SequenceId) -> Result<Option<LockedSequence>, HiloError> {
    Ok(match lock(id, LockWait::Block)? {
        RowLock::Locked(locked) => Some(locked),
        RowLock::Missing | RowLock::Skipped => None,
    })
}
