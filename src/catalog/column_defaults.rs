//! Which column defaults use a sequence, found by the constants of type `hilo_sequence` in them.
//!
//! Postgres records that an expression depends on the types of its constants, so the candidates
//! come from `pg_depend`. A name that is computed (`'tenant-' || id`) leaves no dependency, as with
//! core's `nextval('x'::text)`.

use std::ffi::{CStr, c_char, c_void};
use std::num::NonZeroUsize;

use pgrx::memcxt::PgMemoryContexts;
use pgrx::prelude::*;
use pgrx::{htup, varlena};

use crate::catalog::column_ref::ColumnRef;
use crate::catalog::dependents::{self, DEFAULTS as ATTRDEF};
use crate::catalog::name::{Name, escape_for_message};
use crate::errors::OrRaise;
use crate::process::memory::{self, TryGrow};

// Fixed by core's initial catalog; pgrx has no names for them.
const ATTRDEF_BY_OID: pg_sys::Oid = pg_sys::Oid::from_u32(2657);

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

/// The column defaults that use the sequence `name`. `type_oid` is that of `hilo_sequence`.
pub fn using(type_oid: pg_sys::Oid, name: &[u8]) -> Vec<ColumnDefault> {
    let needle = printed(name);
    let mut scratch = PgMemoryContexts::new("hilo column defaults");
    let mut found = Vec::new();
    for attrdef in candidates(type_oid) {
        // SAFETY: the scratch context is reset after each round, and nothing that was allocated in
        // it is used later: what is found is copied.
        unsafe {
            let default = scratch.switch_to(|_| {
                let stored = Stored::read(attrdef, pg_sys::AccessShareLock)?;
                let uses = stored.mentions(&needle)
                    && !stored.parse().constants(type_oid, name).is_empty();
                let default = uses.then_some(stored.default);
                stored.close();
                default
            });
            default.into_iter().for_each(|default| found.try_push(default).or_raise());
            scratch.reset();
        }
    }
    found
}

/// Every name of a sequence that a column default contains, with the default.
pub fn all(type_oid: pg_sys::Oid) -> Vec<(ColumnDefault, Name)> {
    let mut scratch = PgMemoryContexts::new("hilo column defaults");
    let mut found = Vec::new();
    for attrdef in candidates(type_oid) {
        // SAFETY: the scratch context is reset after each round, and nothing that was allocated in
        // it is used later: what is found is copied.
        unsafe {
            scratch.switch_to(|_| {
                let Some(stored) = Stored::read(attrdef, pg_sys::AccessShareLock) else { return };
                for constant in stored.parse().search(type_oid, None) {
                    let name =
                        varlena::varlena_to_byte_slice((*constant).constvalue.cast_mut_ptr());
                    memory::check().or_raise();
                    found.try_push((stored.default, Name::from(name))).or_raise();
                }
                stored.close();
            });
            scratch.reset();
        }
    }
    found
}

/// A description for messages: `default value for column id of table orders`, or only the column if
/// the default was dropped meanwhile.
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

/// Drops the default, as DROP … CASCADE does, with a notice. Waits for all other sessions that use
/// the table; does nothing if the default was dropped meanwhile.
pub fn drop_default(default: &ColumnDefault) {
    // The table's lock comes first, as in ALTER TABLE, so that the two cannot deadlock. SAFETY:
    // takes a lock inside a transaction, whose end releases it. The lock is on an OID, so it may be
    // taken even if the table has been dropped.
    unsafe { pg_sys::LockRelationOid(default.relid, pg_sys::AccessExclusiveLock as _) };
    // SAFETY: what is read here is closed at once and not used later. The lock keeps other sessions
    // from changing the row between this check and the deletion.
    let there = unsafe {
        Stored::read(default.attrdef, pg_sys::AccessShareLock)
            .map(|stored| stored.close())
            .is_some()
    };
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
}

/// Makes the default use the sequence `new` wherever it used `old`. Waits for all sessions that
/// write to the table: a statement that is running continues with the expression that it started
/// with, and would no longer find the old name.
pub fn rename_in(default: &ColumnDefault, type_oid: pg_sys::Oid, old: &[u8], new: &[u8]) {
    let mut scratch = PgMemoryContexts::new("hilo column default");
    // SAFETY: the lock, which conflicts with itself, keeps other sessions from changing the default
    // until the transaction ends. What is allocated meanwhile is in the scratch context, which
    // outlives its use.
    unsafe {
        pg_sys::LockRelationOid(default.relid, pg_sys::ShareRowExclusiveLock as _);
        scratch.switch_to(|_| {
            let Some(stored) = Stored::read(default.attrdef, pg_sys::RowExclusiveLock) else {
                return;
            };
            let expression = stored.parse();
            let constants = expression.constants(type_oid, old);
            for constant in &constants {
                let name = pg_sys::cstring_to_text_with_len(new.as_ptr().cast(), new.len() as i32);
                (**constant).constvalue = name.into();
            }
            if !constants.is_empty() {
                stored.replace(&expression);
            }
            stored.close();
        });
    }
}

/// The pg_attrdef rows that depend on the type, each once.
fn candidates(type_oid: pg_sys::Oid) -> Vec<pg_sys::Oid> {
    dependents::of((pg_sys::TypeRelationId, type_oid), ATTRDEF).or_raise()
}

/// A row of pg_attrdef, and the open relation that it came from.
struct Stored {
    default: ColumnDefault,
    relation: pg_sys::Relation,
    lock: pg_sys::LOCKMODE,
    tuple: pg_sys::HeapTuple,
    expression: *mut pg_sys::varlena,
}

impl Stored {
    /// The newest version of the row; `None` if the row no longer exists.
    ///
    /// # Safety
    /// What the result points to lives in the current memory context, and must not be used after
    /// that is reset.
    unsafe fn read(attrdef: pg_sys::Oid, lock: u32) -> Option<Stored> {
        // SAFETY: the key is initialised before the scan uses it, and the tuple is copied before
        // its scan ends.
        unsafe {
            let lock = lock as pg_sys::LOCKMODE;
            let mut key = equals(attrdef::OID, attrdef);
            let relation = pg_sys::table_open(ATTRDEF, lock);
            let scan = pg_sys::systable_beginscan(
                relation,
                ATTRDEF_BY_OID,
                true,
                std::ptr::null_mut(),
                1,
                &mut key,
            );
            let current = pg_sys::systable_getnext(scan);
            let tuple = if current.is_null() { current } else { pg_sys::heap_copytuple(current) };
            pg_sys::systable_endscan(scan);
            if tuple.is_null() {
                pg_sys::table_close(relation, lock);
                return None;
            }
            let default = ColumnDefault {
                attrdef,
                relid: oid_of(column(tuple, relation, attrdef::RELATION)),
                attnum: column(tuple, relation, attrdef::COLUMN).value() as i16,
            };
            let expression = pg_sys::pg_detoast_datum(
                column(tuple, relation, attrdef::EXPRESSION).cast_mut_ptr(),
            );
            Some(Stored { default, relation, lock, tuple, expression })
        }
    }

    /// Whether the stored text could contain the constant. This excludes most of the others without
    /// parsing.
    fn mentions(&self, needle: &[u8]) -> bool {
        // SAFETY: the value is detoasted, and its memory context has not been reset, as `read`
        // demands.
        let text = unsafe { varlena::varlena_to_byte_slice(self.expression) };
        text.windows(needle.len()).any(|part| part == needle)
    }

    fn parse(&self) -> Expression {
        // SAFETY: pg_node_tree has the layout of text, and what Postgres has stored is a valid
        // tree.
        unsafe {
            Expression(pg_sys::stringToNode(pg_sys::text_to_cstring(self.expression.cast())).cast())
        }
    }

    /// Stores another expression, and makes every session replan what it planned with the old one.
    ///
    /// # Safety
    /// The row must have been read under a lock of its table that conflicts with itself.
    unsafe fn replace(&self, expression: &Expression) {
        // SAFETY: each array has the one element that the count says, and the tuple belongs to the
        // relation. The caller holds a lock that keeps other sessions from changing the row.
        unsafe {
            let text = pg_sys::nodeToString(expression.0.cast());
            let mut column = attrdef::EXPRESSION as i32;
            let mut value = pg_sys::Datum::from(pg_sys::cstring_to_text(text));
            let mut is_null = false;
            let changed = pg_sys::heap_modify_tuple_by_cols(
                self.tuple,
                (*self.relation).rd_att,
                1,
                &raw mut column,
                &raw mut value,
                &raw mut is_null,
            );
            pg_sys::CatalogTupleUpdate(self.relation, &mut (*changed).t_self, changed);
            pg_sys::CacheInvalidateRelcacheByRelid(self.default.relid);
            pg_sys::CommandCounterIncrement();
        }
    }

    fn close(self) {
        // SAFETY: `read` opened it with this lock, and this closes it once.
        unsafe { pg_sys::table_close(self.relation, self.lock) }
    }
}

/// A parsed expression, in the memory context that it was parsed in.
struct Expression(*mut pg_sys::Node);

impl Expression {
    /// Its constants of this type and value.
    fn constants(&self, type_oid: pg_sys::Oid, name: &[u8]) -> Vec<*mut pg_sys::Const> {
        self.search(type_oid, Some(name))
    }

    /// Its constants of this type, of any value if `name` is `None`.
    fn search(&self, type_oid: pg_sys::Oid, name: Option<&[u8]>) -> Vec<*mut pg_sys::Const> {
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
fn printed(name: &[u8]) -> Vec<u8> {
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

/// The scan key for a column of type oid.
fn equals(attnum: i16, value: pg_sys::Oid) -> pg_sys::ScanKeyData {
    let mut key = pg_sys::ScanKeyData::default();
    // SAFETY: `key` is a valid place for the result, and the function is one of core's, for columns
    // of type oid.
    unsafe {
        pg_sys::ScanKeyInit(
            &mut key,
            attnum,
            pg_sys::BTEqualStrategyNumber as _,
            pg_sys::F_OIDEQ.into(),
            value.into(),
        )
    };
    key
}

/// A column that is never null in these catalogs.
///
/// # Safety
/// `tuple` must be one of `relation`.
unsafe fn column(
    tuple: pg_sys::HeapTuple,
    relation: pg_sys::Relation,
    attnum: i16,
) -> pg_sys::Datum {
    let attnum = NonZeroUsize::new(attnum as usize).expect("columns are counted from 1");
    // SAFETY: the caller guarantees that the tuple is one of `relation`, so the relation's
    // descriptor describes it.
    unsafe { htup::heap_getattr_raw(tuple, attnum, (*relation).rd_att) }
        .expect("a column of a system catalog is null")
}

fn oid_of(datum: pg_sys::Datum) -> pg_sys::Oid {
    pg_sys::Oid::from_u32(datum.value() as u32)
}
