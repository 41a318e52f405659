//! Reads `pg_depend`: which objects depend on another one.

use pgrx::pg_sys;

use crate::catalog::rows::scan::{Index, Match};
use crate::catalog::rows::table::{Row, Table};
use crate::errors::HiloError;

// Fixed by core's initial catalog; pgrx has no names for them.
const DEPEND: pg_sys::Oid = pg_sys::Oid::from_u32(2608);
const BY_REFERENCE: pg_sys::Oid = pg_sys::Oid::from_u32(2674);
pub const DEFAULTS: pg_sys::Oid = pg_sys::Oid::from_u32(2604);
pub const RULES: pg_sys::Oid = pg_sys::Oid::from_u32(2618);

mod column {
    pub const CLASS: i16 = 1;
    pub const OBJECT: i16 = 2;
    pub const REF_CLASS: i16 = 4;
    pub const REF_OBJECT: i16 = 5;
}

/// The rows of the catalog `class` that depend on the object, each once.
pub fn find(
    (ref_class, object): (pg_sys::Oid, pg_sys::Oid),
    class: pg_sys::Oid,
) -> Result<Vec<pg_sys::Oid>, HiloError> {
    let keys =
        [(column::REF_CLASS, Match::Oid(ref_class)), (column::REF_OBJECT, Match::Oid(object))];
    let object = |row: &Row| (row.oid(column::CLASS) == class).then(|| row.oid(column::OBJECT));
    let mut found = Table::read(DEPEND)?.collect(Index::Core(BY_REFERENCE), &keys, object)?;
    found.sort_unstable_by_key(|oid| oid.to_u32());
    found.dedup();
    Ok(found)
}
