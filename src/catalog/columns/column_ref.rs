//! A column of a table by OID and number: what `_hilo.hilo_definition.owned_by` holds. Renaming the
//! table or the column, or moving the table to another schema, changes neither.

use std::ffi::{CStr, CString};

use pgrx::pg_sys;

use crate::catalog::rows::name::{escape_for_message, quote};
use crate::catalog::rows::record::Field;
use crate::catalog::rows::relations;

/// A column of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ColumnRef {
    pub relid: pg_sys::Oid,
    pub attnum: i16,
}

impl ColumnRef {
    /// The column of nothing, for a table or a column that does not exist.
    pub const NOWHERE: ColumnRef = ColumnRef { relid: pg_sys::InvalidOid, attnum: 0 };

    /// As the type `_hilo.hilo_column` stores it. The columns of a table lie together in an index.
    pub fn pack(self) -> i64 {
        (i64::from(self.relid.to_u32()) << 16) | i64::from(self.attnum as u16)
    }

    pub fn unpack(packed: i64) -> ColumnRef {
        ColumnRef { relid: pg_sys::Oid::from_u32((packed >> 16) as u32), attnum: packed as i16 }
    }

    /// The column of this name. `None`: the table has no such column.
    pub fn by_name(relid: pg_sys::Oid, column: &CStr) -> Option<ColumnRef> {
        // SAFETY: a look-up in a system cache, inside a transaction; the name is a C string.
        let attnum = unsafe { pg_sys::get_attnum(relid, column.as_ptr()) };
        (attnum > 0).then_some(ColumnRef { relid, attnum })
    }

    /// The names of its schema, its table and itself; `None` if it does not exist.
    pub fn names(self) -> Option<[CString; 3]> {
        // SAFETY: a look-up in a system cache, inside a transaction. The result is null or a C
        // string.
        let column =
            unsafe { relations::copy_name(pg_sys::get_attname(self.relid, self.attnum, true)) };
        // A column that was dropped still has a name, by which it is not found.
        let column = column.filter(|name| ColumnRef::by_name(self.relid, name) == Some(self))?;
        Some([relations::schema(self.relid)?, relations::name(self.relid)?, column])
    }

    /// `schema.table.column`, each quoted if necessary; `None` if it does not exist.
    pub fn text(self) -> Option<CString> {
        let parts = self.names()?.map(|name| quote(&name).into_bytes());
        CString::new(parts.join(&b'.')).ok()
    }

    /// For messages: `schema.table.column`, or `-` if it does not exist.
    pub fn describe(self) -> String {
        self.text().map_or("-".into(), |text| escape_for_message(text.to_bytes()))
    }
}

impl Field for ColumnRef {
    fn read(datum: pg_sys::Datum) -> Option<ColumnRef> {
        let column = ColumnRef::unpack(datum.value() as i64);
        (column != ColumnRef::NOWHERE).then_some(column)
    }

    fn datum(&self) -> Option<pg_sys::Datum> {
        Some(self.pack().into())
    }
}
