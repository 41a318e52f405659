//! Which column defaults use a sequence, found by the constants of type `hilo_sequence` in them.
//!
//! Postgres records that an expression depends on the types of its constants, so the candidates
//! come from `pg_depend`. A name that is computed (`'tenant-' || id`) leaves no dependency, as with
//! core's `nextval('x'::text)`.

use std::ffi::{CStr, c_char, c_void};

use pgrx::memcxt::PgMemoryContexts;
use pgrx::prelude::*;
use pgrx::varlena;

use crate::catalog::columns::column_ref::ColumnRef;
use crate::catalog::rows::catalog_tables::catalog_oids;
use crate::catalog::rows::dependents::{self, DEFAULTS as ATTRDEF};
use crate::catalog::rows::name::{Name, escape_for_message};
use crate::catalog::rows::scan::{Index, Match};
use crate::catalog::rows::table::{Row, Table, bytes_of, next_command};
use crate::errors::HiloError;
use crate::process::memory::{self, TryGrow};
use crate::process::scratch::Scratch;

/// Fixed by core's initial catalog; pgrx has no name for it.
const ATTRDEF_BY_OID: Index = Index::Core(pg_sys::Oid::from_u32(2657));

mod attrdef {
    pub const OID: i16 = 1;
    pub const RELATION: i16 = 2;
    pub const COLUMN: i16 = 3;
    pub const EXPRESSION: i16 = 4;
}

/// The default of one column of a table, a partition, a foreign table or a view.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ColumnDefault {
    pub attrdef: pg_sys::Oid,
    pub relid: pg_sys::Oid,
    pub attnum: i16,
}

/// The OID of type hilo_sequence.
pub fn name_type() -> Result<pg_sys::Oid, HiloError> {
    Ok(catalog_oids()?.name_type)
}

/// The column defaults that use the sequence `name`.
pub fn using(name: &[u8]) -> Result<Vec<ColumnDefault>, HiloError> {
    using_among(name, usize::MAX)
}

/// Whether one of the first `most` column defaults uses the sequence `name`.
pub fn is_used(name: &[u8], most: usize) -> Result<bool, HiloError> {
    Ok(!using_among(name, most)?.is_empty())
}

fn using_among(name: &[u8], most: usize) -> Result<Vec<ColumnDefault>, HiloError> {
    let (needle, type_oid) = (constant_end(name), name_type()?);
    let mut found = Vec::new();
    each(type_oid, most, |stored| {
        // Skip the defaults whose text lacks the constant, because parsing is expensive.
        let mentions = stored.text().windows(needle.len()).any(|part| part == needle);
        if mentions && !stored.parse().constants(type_oid, Some(name)).is_empty() {
            found.try_push(stored.default)?;
        }
        Ok(())
    })?;
    Ok(found)
}

/// Every name of a sequence that a column default contains, with the default.
pub fn all() -> Result<Vec<(ColumnDefault, Name)>, HiloError> {
    let (mut found, type_oid) = (Vec::new(), name_type()?);
    each(type_oid, usize::MAX, |stored| {
        for constant in stored.parse().constants(type_oid, None) {
            // SAFETY: a constant of this type that is not null is a varlena in memory.
            let name =
                unsafe { varlena::varlena_to_byte_slice((*constant).constvalue.cast_mut_ptr()) };
            memory::check()?;
            found.try_push((stored.default, Name::from(name)))?;
        }
        Ok(())
    })?;
    Ok(found)
}

/// Visits the first `most` defaults that depend on the type. Memory that `visit` pallocs is freed
/// afterwards.
fn each(
    type_oid: pg_sys::Oid,
    most: usize,
    mut visit: impl FnMut(Stored) -> Result<(), HiloError>,
) -> Result<(), HiloError> {
    let table = Table::read(ATTRDEF)?;
    let mut scratch = Scratch::new("hilo column defaults");
    let all = dependents::find((pg_sys::TypeRelationId, type_oid), ATTRDEF)?;
    for attrdef in all.into_iter().take(most) {
        let round = || match Stored::read(&table, attrdef) {
            Some(stored) => visit(stored),
            None => Ok(()),
        };
        // SAFETY: what is found is copied.
        unsafe { scratch.round(round) }?;
    }
    Ok(())
}

/// A description for messages: `default value for column id of table orders`, or only the column if
/// the default has been dropped.
pub fn describe(default: &ColumnDefault) -> String {
    // SAFETY: the address is valid. The result is null, which is checked, or a C string, which is
    // copied.
    unsafe {
        let text = pg_sys::getObjectDescription(&address(default), true);
        match text.is_null() {
            true => ColumnRef { relid: default.relid, attnum: default.attnum }.describe(),
            false => escape_for_message(CStr::from_ptr(text).to_bytes()),
        }
    }
}

/// Describes the defaults that use the sequences with these names.
pub fn describe_users(users: &[(ColumnDefault, Name)]) -> Result<Vec<String>, HiloError> {
    memory::try_collect(users.iter().map(|(default, name)| {
        format!("{} depends on hilo sequence \"{name}\"", describe(default))
    }))
}

/// Drops the defaults, which use sequences that are dropped. With `keep` it drops nothing, and
/// returns the error that `refusal` makes of their descriptions.
pub fn drop_all(
    defaults: &[ColumnDefault],
    keep: bool,
    refusal: impl FnOnce(Vec<String>) -> HiloError,
) -> Result<(), HiloError> {
    if keep && !defaults.is_empty() {
        return Err(refusal(memory::try_collect(defaults.iter().map(describe))?));
    }
    defaults.iter().try_for_each(drop_default)
}

/// Drops the default, as DROP … CASCADE does, with a notice. Waits for all other sessions that use
/// the table; does nothing if the default has been dropped before it has the lock.
pub fn drop_default(default: &ColumnDefault) -> Result<(), HiloError> {
    // The table's lock comes first, as in ALTER TABLE, so that the two cannot deadlock. SAFETY:
    // takes a lock inside a transaction, whose end releases it. The lock is on an OID, so it may be
    // taken even if the table has been dropped.
    unsafe { pg_sys::LockRelationOid(default.relid, pg_sys::AccessExclusiveLock as _) };
    // The lock keeps other sessions from changing the row between this check and the deletion.
    let table = Table::read(ATTRDEF)?;
    let there = Stored::read(&table, default.attrdef).is_some();
    drop(table);
    if there {
        ereport!(
            NOTICE,
            PgSqlErrorCode::ERRCODE_SUCCESSFUL_COMPLETION,
            format!("drop cascades to {}", describe(default))
        );
        // SAFETY: the object at this address exists, as was just checked, and the lock keeps other
        // sessions from dropping it.
        unsafe {
            pg_sys::performDeletion(&address(default), pg_sys::DropBehavior::DROP_CASCADE, 0)
        };
    }
    Ok(())
}

/// Makes the default use the sequence `new` wherever it used `old`. Waits for all sessions that
/// write to the table, because a running statement keeps its expression, and would not find the old
/// name.
pub fn rename_in(default: &ColumnDefault, old: &[u8], new: &[u8]) -> Result<(), HiloError> {
    let type_oid = name_type()?;
    let mut scratch = PgMemoryContexts::new("hilo column default");
    // SAFETY: the lock, which conflicts with itself, keeps other sessions from changing the default
    // until the transaction ends. All that is allocated meanwhile is in the scratch context, which
    // outlives its use.
    unsafe {
        pg_sys::LockRelationOid(default.relid, pg_sys::ShareRowExclusiveLock as _);
        scratch.switch_to(|_| {
            let table = Table::write(ATTRDEF)?;
            let Some(stored) = Stored::read(&table, default.attrdef) else { return Ok(()) };
            let expression = stored.parse();
            let constants = expression.constants(type_oid, Some(old));
            for constant in &constants {
                let name = pg_sys::cstring_to_text_with_len(new.as_ptr().cast(), new.len() as i32);
                (**constant).constvalue = name.into();
            }
            if !constants.is_empty() {
                stored.replace(&table, &expression);
            }
            Ok(())
        })
    }
}

/// A row of pg_attrdef.
struct Stored {
    default: ColumnDefault,
    row: Row,
}

impl Stored {
    /// The newest version of the row; `None` if the row no longer exists.
    fn read(table: &Table, attrdef: pg_sys::Oid) -> Option<Stored> {
        let key = [(attrdef::OID, Match::Oid(attrdef))];
        let row = table.find(ATTRDEF_BY_OID, &key)?;
        let (relid, attnum) = (row.oid(attrdef::RELATION), row.int4(attrdef::COLUMN) as i16);
        Some(Stored { default: ColumnDefault { attrdef, relid, attnum }, row })
    }

    fn text(&self) -> &[u8] {
        // SAFETY: pg_node_tree has the layout of text, and the bytes live as long as the row.
        self.row.datum(attrdef::EXPRESSION).map_or(&[], |text| unsafe { bytes_of(text) })
    }

    fn parse(&self) -> Expression {
        let text = self.text();
        // SAFETY: what Postgres has stored is a valid tree; the copy of its text is a C string.
        unsafe {
            let text = pg_sys::pnstrdup(text.as_ptr().cast(), text.len());
            Expression(pg_sys::stringToNode(text).cast())
        }
    }

    /// Stores another expression, and makes every session replan what it planned with the old one.
    ///
    /// # Safety
    /// The row must have been read under a lock of its table that conflicts with itself.
    unsafe fn replace(&self, table: &Table, expression: &Expression) {
        // SAFETY: the tree is one that was parsed, and its text is a C string.
        let text = unsafe { pg_sys::cstring_to_text(pg_sys::nodeToString(expression.0.cast())) };
        table.change(&self.row, &[(attrdef::EXPRESSION, Some(text.into()))]);
        // SAFETY: the relation exists, as the caller has locked it.
        unsafe { pg_sys::CacheInvalidateRelcacheByRelid(self.default.relid) };
        next_command();
    }
}

/// A parsed expression, in the memory context that it was parsed in.
struct Expression(*mut pg_sys::Node);

impl Expression {
    /// The constants of this type in the expression: those with the value `name`, or all.
    fn constants(&self, type_oid: pg_sys::Oid, name: Option<&[u8]>) -> Vec<*mut pg_sys::Const> {
        let mut search = Search { type_oid, name, found: Vec::new() };
        // SAFETY: the walk ends before `search` does, and the callback expects this type of
        // context.
        unsafe { visit(self.0, (&raw mut search).cast()) };
        search.found
    }
}

struct Search<'a> {
    type_oid: pg_sys::Oid,
    name: Option<&'a [u8]>,
    found: Vec<*mut pg_sys::Const>,
}

/// A callback of expression_tree_walker.
#[pg_guard]
unsafe extern "C-unwind" fn visit(node: *mut pg_sys::Node, context: *mut c_void) -> bool {
    if node.is_null() {
        return false;
    }
    // SAFETY: `search` passes a `Search`, and a node's tag tells its type. A constant of hilo's
    // type that is not null is a varlena in memory.
    unsafe {
        if (*node).type_ == pg_sys::NodeTag::T_Const {
            let search = &mut *context.cast::<Search>();
            let constant: *mut pg_sys::Const = node.cast();
            if (*constant).consttype == search.type_oid
                && !(*constant).constisnull
                && search.name.is_none_or(|name| {
                    varlena::varlena_to_byte_slice((*constant).constvalue.cast_mut_ptr()) == name
                })
            {
                search.found.push(constant);
            }
            return false;
        }
        pg_sys::expression_tree_walker(node, Some(visit), context)
    }
}

/// How outfuncs.c prints the end of a constant with these bytes: each byte as a number, with the
/// sign that C's `char` gives it.
fn constant_end(name: &[u8]) -> Vec<u8> {
    let mut text = String::from(" ");
    for byte in name {
        text += &format!("{} ", *byte as c_char);
    }
    text.push(']');
    text.into_bytes()
}

fn address(default: &ColumnDefault) -> pg_sys::ObjectAddress {
    pg_sys::ObjectAddress { classId: ATTRDEF, objectId: default.attrdef, objectSubId: 0 }
}
