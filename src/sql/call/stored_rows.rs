//! The result of a function that returns many rows, in a tuplestore: what exceeds work_mem is on
//! disk.

use pgrx::pg_sys;
use pgrx::prelude::*;

use crate::catalog::table::split;
use crate::sql::call::args::Args;

/// The rows of the current call that are known so far.
pub struct StoredRows {
    store: *mut pg_sys::Tuplestorestate,
    columns: pg_sys::TupleDesc,
}

impl StoredRows {
    /// Tells the executor that the result comes in a tuplestore. The function is declared to return
    /// a set of records.
    pub fn begin(args: Args) -> StoredRows {
        const MATERIALIZE: i32 = pg_sys::SetFunctionReturnMode::SFRM_Materialize as i32;
        const RANDOM: i32 = pg_sys::SetFunctionReturnMode::SFRM_Materialize_Random as i32;
        // SAFETY: `resultinfo` is null, which is checked, or a node whose tag tells its type, and
        // lives as long as the call. The store and the columns are in the query's memory context,
        // as the executor requires.
        unsafe {
            let info = (*args.raw()).resultinfo.cast::<pg_sys::ReturnSetInfo>();
            if info.is_null()
                || (*info).type_ != pg_sys::NodeTag::T_ReturnSetInfo
                || (*info).allowedModes & MATERIALIZE == 0
            {
                ereport!(
                    ERROR,
                    PgSqlErrorCode::ERRCODE_FEATURE_NOT_SUPPORTED,
                    "set-valued function called in context that cannot accept a set"
                );
            }
            let of_query = (*(*info).econtext).ecxt_per_query_memory;
            let before = pg_sys::MemoryContextSwitchTo(of_query);
            let mut columns = std::ptr::null_mut();
            pg_sys::get_call_result_type(args.raw(), std::ptr::null_mut(), &mut columns);
            let any_order = (*info).allowedModes & RANDOM != 0;
            let store = pg_sys::tuplestore_begin_heap(any_order, false, pg_sys::work_mem);
            (*info).returnMode = pg_sys::SetFunctionReturnMode::SFRM_Materialize;
            (*info).setResult = store;
            (*info).setDesc = columns;
            pg_sys::MemoryContextSwitchTo(before);
            StoredRows { store, columns }
        }
    }

    /// Adds a row, whose values are those of the declared columns.
    ///
    /// # Safety
    /// `values` must have a value for each declared column, of its type.
    pub unsafe fn add<const N: usize>(&mut self, values: [pg_sys::Datum; N]) {
        // SAFETY: the caller guarantees the same.
        unsafe { self.add_some(values.map(Some)) }
    }

    /// The same, where values may be NULL.
    ///
    /// # Safety
    /// As for [`add`](Self::add).
    pub unsafe fn add_some<const N: usize>(&mut self, values: [Option<pg_sys::Datum>; N]) {
        let (mut values, mut nulls) = split(&values);
        // SAFETY: the caller guarantees that the values are those of the columns; the store copies
        // them.
        unsafe {
            pg_sys::tuplestore_putvalues(
                self.store,
                self.columns,
                values.as_mut_ptr(),
                nulls.as_mut_ptr(),
            )
        }
    }
}
