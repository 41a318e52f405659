//! `hilo_create_missing`: creates the sequences that column defaults name and that do not exist,
//! each behind all that its columns hold.
//!
//! Locking: first the tables, in the order of their OIDs, so that nobody adds values or changes a
//! default until the transaction ends. Then the extension, as in `hilo_apply`, and then the new
//! sequences.
//!
//! This is no SQL: it reads columns without running their owners' code, which no query does.

use std::collections::{BTreeMap, BTreeSet};

use pgrx::prelude::*;

use hilo_core::direction::Direction;
use hilo_core::key_format::KeyFormat;
use hilo_core::options::{DataType, Definition, Options};

use crate::catalog::column_ref::ColumnRef;
use crate::catalog::definitions;
use crate::catalog::name::Name;
use crate::catalog::relations;
use crate::catalog::stored::{Fraction, Numbers, Stored, base_type};
use crate::catalog::table::{bytes_of, text_datum};
use crate::catalog::{column_defaults, privileges};
use crate::errors::{HiloError, OrRaise};
use crate::gucs;
use crate::process::ffi;
use crate::process::memory::TryGrow;
use crate::sql::call::args::{Args, sql_functions};
use crate::sql::call::stored_rows::StoredRows;
use crate::sql::call::values;
use crate::sql::column::lock;
use crate::sql::define::ddl::Duplicate;
use crate::sql::define::ddl_checks;
use crate::sql::define::{ddl, owners, renumber};
use crate::sql::node::apply;

sql_functions!(hilo_create_missing);

/// The columns whose defaults name a sequence, by its name.
type Missing = BTreeMap<Name, Vec<ColumnRef>>;

/// `hilo_create_missing()`: a row for each column whose default names a sequence that it has
/// created.
fn hilo_create_missing(args: Args) {
    ddl_checks::begin_write(c"hilo_create_missing()");
    let missing = lock_tables().or_raise();
    let mut rows = StoredRows::begin(args);
    for (name, columns) in missing {
        check_for_interrupts!();
        // Another session may have created it before this one got the locks.
        if definitions::by_name(&name).or_raise().is_some() {
            continue;
        }
        let next = create(&name, &columns).or_raise().map(Into::into);
        for column in columns {
            let (name, column_name) = (text_datum(&name), name_datum(column));
            let values = [Some(name), Some(column.relid.into()), Some(column_name), next];
            // SAFETY: the function is declared to return a text, a regclass, a name and a bigint.
            unsafe { rows.add_some(values) };
        }
    }
}

/// The name of a column, as a datum of type name.
fn name_datum(column: ColumnRef) -> pg_sys::Datum {
    let name = column.names().map(|[_, _, column]| column).unwrap_or_default();
    let input = pg_sys::Oid::from_u32(pg_sys::F_NAMEIN);
    // SAFETY: the input function of name takes a C string, which it does not change, and copies it.
    unsafe { pg_sys::OidInputFunctionCall(input, name.as_ptr().cast_mut(), pg_sys::InvalidOid, -1) }
}

/// The missing sequences that can be created, once all of their tables are locked.
fn lock_tables() -> Result<Missing, HiloError> {
    let mut tables = BTreeSet::new();
    // A wait may bring more.
    loop {
        let (missing, skipped) = missing()?;
        let named = missing.values().flatten().map(|column| column.relid.to_u32());
        let more: BTreeSet<u32> = named.filter(|table| !tables.contains(table)).collect();
        if more.is_empty() {
            skipped.into_iter().for_each(Skipped::report);
            if !missing.is_empty() {
                apply::lock_out_others()?;
            }
            return Ok(missing);
        }
        privileges::may_create()?;
        more.iter().for_each(|table| lock::against_writers(pg_sys::Oid::from_u32(*table)));
        tables.extend(more);
    }
}

/// A sequence that is not created, and why.
struct Skipped {
    name: Name,
    detail: String,
    /// Whether a table of the caller's lacks it.
    lacked: bool,
}

/// The columns whose defaults name a sequence that does not exist. Sequences that the caller cannot
/// begin behind what a column holds are returned apart. Either the table is another role's, and one
/// role's column must not decide what another role's sequence is like. Or its rows cannot be read
/// without running code of its owner's.
fn missing() -> Result<(Missing, Vec<Skipped>), HiloError> {
    let mut named = Missing::new();
    for (default, name) in column_defaults::all() {
        if is_elsewhere(default.relid) || definitions::by_name(&name)?.is_some() {
            continue;
        }
        let column = ColumnRef { relid: default.relid, attnum: default.attnum };
        let columns = named.entry(name).or_default();
        if !columns.contains(&column) {
            columns.try_push(column)?;
        }
    }
    let (user, mut missing, mut skipped) = (ffi::current_user(), Missing::new(), Vec::new());
    for (name, mut columns) in named {
        let Some(detail) = obstacle(&columns)? else {
            leave_out_inherited(&mut columns)?;
            missing.insert(name, columns);
            continue;
        };
        let lacked =
            columns.iter().any(|one| privileges::acts_as(user, relations::owner(one.relid)));
        skipped.try_push(Skipped { name, detail, lacked })?;
    }
    Ok((missing, skipped))
}

/// Leaves out each column that inherits from another one, which stands for both; sorts the others.
fn leave_out_inherited(columns: &mut Vec<ColumnRef>) -> Result<(), HiloError> {
    // A child has the column under the same name.
    let place = |table: pg_sys::Oid, column: &ColumnRef| {
        (table.to_u32(), column.names().map(|[_, _, name]| name))
    };
    let mut inherited = BTreeSet::new();
    for column in columns.iter() {
        let tables = relations::with_children(column.relid)?;
        let children = tables.into_iter().filter(|table| *table != column.relid);
        inherited.extend(children.map(|child| place(child, column)));
    }
    columns.retain(|column| !inherited.contains(&place(column.relid, column)));
    columns.sort_unstable_by_key(|column| (column.relid.to_u32(), column.attnum));
    Ok(())
}

/// The obstacle that keeps the caller from beginning a sequence behind all values of these columns.
fn obstacle(columns: &[ColumnRef]) -> Result<Option<String>, HiloError> {
    let (user, owner) =
        (ffi::current_user(), columns.first().map(|one| relations::owner(one.relid)));
    for column in columns {
        let theirs = relations::owner(column.relid);
        let uses = format!("Column {} uses it", column.describe());
        if !privileges::acts_as(user, theirs) {
            return Ok(Some(format!("{uses}, whose table belongs to another role.")));
        }
        if owner != Some(theirs) {
            return Ok(Some(format!("{uses}, and so do columns of other roles' tables.")));
        }
        match values::open_stored(*column) {
            Ok(_) => {}
            Err(HiloError::NotStored { .. }) => {
                return Ok(Some(format!(
                    "{uses}, whose rows are not read: only a table that is stored in this database \
                     has any."
                )));
            }
            Err(error) => return Err(error),
        }
    }
    Ok(None)
}

/// Whether a table is a temporary one of another session, which nobody else can read.
fn is_elsewhere(table: pg_sys::Oid) -> bool {
    // SAFETY: look-ups in system caches, inside a transaction.
    unsafe {
        pg_sys::get_rel_persistence(table) as u8 == pg_sys::RELPERSISTENCE_TEMP
            && pg_sys::isOtherTempNamespace(pg_sys::get_rel_namespace(table))
    }
}

impl Skipped {
    /// A warning if a table of the caller's lacks it.
    fn report(self) {
        let Skipped { name, detail, lacked } = self;
        let level = if lacked { PgLogLevel::WARNING } else { PgLogLevel::NOTICE };
        HiloError::NotCreated { name: name.to_string(), detail, lacked }.report(level);
    }
}

/// Creates a sequence behind what these columns hold. Returns its next value; `None`: there is
/// none, because a column holds the last one that its type has.
fn create(name: &Name, columns: &[ColumnRef]) -> Result<Option<i64>, HiloError> {
    let (mut narrowest, mut furthest) = (DataType::BigInt, None);
    for column in columns {
        let held = max_of(*column, name)?;
        narrowest = narrowest.within(held.data_type);
        furthest = furthest.max(held.largest);
        if held.others > 0 {
            let (column, name) = (column.describe(), name.to_string());
            HiloError::NoKeys { column, others: held.others, name }.warn();
        }
    }
    // The narrowest type, so that the sequence ends with an error of its own; but wide enough for
    // what they hold.
    let fits = |data_type: &DataType| furthest.is_none_or(|value| value <= data_type.max());
    let data_type = [narrowest, DataType::Integer].into_iter().find(fits);
    let options = Options { data_type, ..Options::default() };
    let definition = Definition::create(&options)?;
    let created = ddl::create(name.clone(), definition, None, None, Duplicate::Refuse)
        .ok_or_else(|| HiloError::Duplicate(name.to_string()))?;
    let next = match furthest.filter(|last| *last >= created.definition.min_value) {
        None => Some(created.definition.start_value),
        Some(last) => {
            let next = last.checked_add(1).filter(|next| *next <= created.definition.max_value);
            renumber::begin_with(&created, next);
            next
        }
    };
    if let Some(locked) = definitions::lock_existing(created.id)?
        && let Some(column) = columns.first()
    {
        owners::set_owner(locked, relations::owner(column.relid));
    }
    Ok(next)
}

/// The values of a column, as a sequence sees them.
#[derive(Default)]
struct ColumnMax {
    /// The type of integers.
    data_type: Option<DataType>,
    /// The largest number, or number in a key.
    largest: Option<i64>,
    /// How many other values it holds, which are no numbers of the sequence.
    others: i64,
}

/// Reads a column of a table that the caller has locked. Keys are those that this server makes of
/// the sequence `name` in the default format.
///
/// # Errors
/// As for [`Stored::open`].
fn max_of(column: ColumnRef, name: &[u8]) -> Result<ColumnMax, HiloError> {
    let (base, stored) = (base_type(column), Stored::open(column)?);
    let mut held =
        ColumnMax { data_type: definitions::data_type_from(base), ..ColumnMax::default() };
    match base {
        _ if Numbers::are_in(column) => {
            let numbers = Numbers::of(column, Fraction::Upper);
            held.largest = stored.furthest(Direction::Rising, i64::MAX, numbers)?;
        }
        pg_sys::TEXTOID | pg_sys::VARCHAROID | pg_sys::BPCHAROID => {
            let frame = KeyFormat::default().frame(name, gucs::server_prefix_bytes());
            stored.each(|key| {
                // SAFETY: the column is of a type with the layout of text; one of type character
                // fills up with blanks.
                match frame.read(unsafe { bytes_of(key) }.trim_ascii_end()) {
                    Ok(number) => held.largest = held.largest.max(Some(number)),
                    Err(_) => held.others += 1,
                }
            })?;
        }
        _ => stored.each(|_| held.others += 1)?,
    }
    Ok(held)
}
