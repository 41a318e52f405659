//! Removes a column's default under SHARE ROW EXCLUSIVE. Core's own function for that (RemoveAttrDefaultById)
//! takes ACCESS EXCLUSIVE, and so would wait for readers, who have no use for a default.

use pgrx::pg_sys;

use super::column_ref::ColumnRef;
use super::scan::{Index, Match, Snapshot};
use super::table::{Table, next_command};
use crate::errors::HiloError;

// Fixed by core's initial catalog; pgrx has no names for them.
const ATTRDEF: pg_sys::Oid = pg_sys::Oid::from_u32(2604);
const ATTRDEF_BY_COLUMN: Index = Index::Core(pg_sys::Oid::from_u32(2656));

mod attrdef {
    pub const OID: i16 = 1;
    pub const RELATION: i16 = 2;
    pub const COLUMN: i16 = 3;
}

/// Removes the default of a column, if it has one. The caller has locked the table in SHARE ROW EXCLUSIVE mode.
pub fn remove(column: ColumnRef) -> Result<(), HiloError> {
    let table = Table::write(ATTRDEF)?;
    let mut found = None;
    let keys = [(attrdef::RELATION, Match::Oid(column.relid))];
    table.scan(ATTRDEF_BY_COLUMN, &keys, Snapshot::Catalog, |row| {
        let attnum = row.datum(attrdef::COLUMN).map_or(0, |datum| datum.value() as i16);
        let is_it = attnum == column.attnum;
        if is_it {
            found = Some(row);
        }
        !is_it
    });
    let Some(row) = found else { return Ok(()) };
    // SAFETY: this is what core does: the default depends on the column and on what it calls, and nothing
    // depends on it.
    unsafe { pg_sys::deleteDependencyRecordsFor(ATTRDEF, row.oid(attrdef::OID), false) };
    table.delete(&row);
    has_none(column);
    next_command();
    Ok(())
}

/// Records in the column's row that it has no default.
fn has_none(column: ColumnRef) {
    let attributes = pg_sys::AttributeRelationId;
    // SAFETY: the tuple is null, which is checked, or a copy of one of pg_attribute, whose fixed part lies as the
    // struct has it. The lock on the table keeps other sessions from changing the row.
    unsafe {
        let relation = pg_sys::table_open(attributes, pg_sys::RowExclusiveLock as _);
        let tuple = pg_sys::SearchSysCacheCopyAttNum(column.relid, column.attnum);
        if !tuple.is_null() {
            (*(pg_sys::GETSTRUCT(tuple) as *mut pg_sys::FormData_pg_attribute)).atthasdef = false;
            pg_sys::CatalogTupleUpdate(relation, &mut (*tuple).t_self, tuple);
        }
        pg_sys::table_close(relation, pg_sys::RowExclusiveLock as _);
    }
}
