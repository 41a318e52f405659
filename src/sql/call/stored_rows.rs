//! Results of functions that return many rows, or one that is a record. A struct says which columns
//! there are; `scripts/symbols` compares it with what SQL declares.

use std::marker::PhantomData;

use pgrx::callconv::{BoxRet, FcInfo};
use pgrx::datum::Datum;
use pgrx::memcxt::PgMemoryContexts;
use pgrx::prelude::*;

use hilo_core::numbers::{SequenceId, Timestamp};

use crate::catalog::lease::lease_id::{LeaseId, uuid_datum};
use crate::catalog::rows::name::{Name, escape_for_message};
use crate::catalog::rows::table::text_datum;
use crate::sql::call::border::Call;
use crate::sql::call::text::Written;

/// A value of a column of a result.
pub trait Column {
    /// `None` for NULL.
    fn datum(self) -> Option<pg_sys::Datum>;
}

impl<T: Column> Column for Option<T> {
    fn datum(self) -> Option<pg_sys::Datum> {
        self.and_then(T::datum)
    }
}

macro_rules! columns {
    ($($type:ty: |$own:ident| $datum:expr;)+) => { $(
        impl Column for $type {
            fn datum(self) -> Option<pg_sys::Datum> {
                let $own = self;
                $datum
            }
        }
    )+ };
}

columns! {
    i64: |own| own.into_datum();
    i32: |own| own.into_datum();
    i16: |own| own.into_datum();
    f64: |own| own.into_datum();
    bool: |own| own.into_datum();
    pg_sys::Oid: |own| own.into_datum();
    Vec<i64>: |own| own.into_datum();
    SequenceId: |own| own.0.into_datum();
    Timestamp: |own| own.0.into_datum();
    LeaseId: |own| Some(uuid_datum(&own));
    &str: |own| Some(text_datum(own.as_bytes()));
    // A message of core's may have lost what is not UTF-8 in it.
    String: |own| Some(text_datum(escape_for_message(own.as_bytes()).as_bytes()));
    Name: |own| Some(text_datum(&own));
    Written: |own| Some(text_datum(&own.0));
}

/// A struct whose fields are the columns of a result, which [`row!`](row) makes.
pub trait Row {
    /// Calls `use_them` with the values and which of them are NULL.
    fn with_columns<T>(self, use_them: impl FnOnce(&mut [pg_sys::Datum], &mut [bool]) -> T) -> T;
}

/// A struct whose fields are the columns that SQL declares for a result, by name and in order.
macro_rules! row {
    ($(#[$doc:meta])* struct $row:ident $(<$lifetime:lifetime>)? {
        $($column:ident: $type:ty,)+
    }) => {
        $(#[$doc])*
        struct $row $(<$lifetime>)? { $($column: $type,)+ }

        impl$(<$lifetime>)? $crate::sql::call::stored_rows::Row for $row$(<$lifetime>)? {
            fn with_columns<T>(
                self,
                use_them: impl FnOnce(&mut [pgrx::pg_sys::Datum], &mut [bool]) -> T,
            ) -> T {
                let values = [
                    $($crate::sql::call::stored_rows::Column::datum(self.$column),)+
                ];
                let mut nulls = values.map(|value| value.is_none());
                let mut datums = values.map(|value| value.unwrap_or(pgrx::pg_sys::Datum::null()));
                use_them(&mut datums, &mut nulls)
            }
        }
    };
}

pub(crate) use row;

/// The rows of the current call, in a tuplestore: what exceeds work_mem is on disk.
pub struct Rows<R> {
    store: *mut pg_sys::Tuplestorestate,
    columns: pg_sys::TupleDesc,
    /// The values of one row, until the store has copied them.
    scratch: PgMemoryContexts,
    rows: PhantomData<fn(R)>,
}

impl<R: Row> Rows<R> {
    /// Tells the executor that the result comes in a tuplestore.
    pub fn begin(call: Call) -> Rows<R> {
        const MATERIALIZE: i32 = pg_sys::SetFunctionReturnMode::SFRM_Materialize as i32;
        const RANDOM: i32 = pg_sys::SetFunctionReturnMode::SFRM_Materialize_Random as i32;
        // SAFETY: `resultinfo` is null, which is checked, or a node whose tag tells its type, and
        // lives as long as the call. The store and the columns are in the query's memory context,
        // as the executor requires.
        unsafe {
            let info = (*call.raw()).resultinfo.cast::<pg_sys::ReturnSetInfo>();
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
            pg_sys::get_call_result_type(call.raw(), std::ptr::null_mut(), &mut columns);
            let any_order = (*info).allowedModes & RANDOM != 0;
            let store = pg_sys::tuplestore_begin_heap(any_order, false, pg_sys::work_mem);
            (*info).returnMode = pg_sys::SetFunctionReturnMode::SFRM_Materialize;
            (*info).setResult = store;
            (*info).setDesc = columns;
            pg_sys::MemoryContextSwitchTo(before);
            let scratch = PgMemoryContexts::new("hilo row");
            Rows { store, columns, scratch, rows: PhantomData }
        }
    }

    /// Adds a row. A statement can be cancelled there, however many rows there are.
    pub fn add(&mut self, row: R) {
        check_for_interrupts!();
        let (store, columns) = (self.store, self.columns);
        // SAFETY: the row has the columns that SQL declares (`scripts/symbols`). The store copies
        // their values, of which nothing remains in the context that is reset.
        unsafe {
            self.scratch.switch_to(|_| {
                row.with_columns(|values, nulls| {
                    let (values, nulls) = (values.as_mut_ptr(), nulls.as_mut_ptr());
                    pg_sys::tuplestore_putvalues(store, columns, values, nulls);
                });
            });
            self.scratch.reset();
        }
    }
}

// SAFETY: the executor reads the tuplestore, whatever the datum is.
unsafe impl<R> BoxRet for Rows<R> {
    unsafe fn box_into<'fcx>(self, _: &mut FcInfo<'fcx>) -> Datum<'fcx> {
        Datum::null()
    }
}

/// The one row of a function with OUT arguments.
pub struct Record<R>(pub R);

// SAFETY: the datum is a composite value of the type that the function declares, in the current
// memory context, which is the caller's.
unsafe impl<R: Row> BoxRet for Record<R> {
    unsafe fn box_into<'fcx>(self, fcinfo: &mut FcInfo<'fcx>) -> Datum<'fcx> {
        // SAFETY: the row has the columns that SQL declares (`scripts/symbols`), so there are as
        // many values as the tuple needs.
        self.0.with_columns(|values, nulls| unsafe {
            let mut columns = std::ptr::null_mut();
            pg_sys::get_call_result_type(fcinfo.as_mut_ptr(), std::ptr::null_mut(), &mut columns);
            let columns = pg_sys::BlessTupleDesc(columns);
            let tuple = pg_sys::heap_form_tuple(columns, values.as_mut_ptr(), nulls.as_mut_ptr());
            fcinfo.return_raw_datum(pg_sys::HeapTupleHeaderGetDatum((*tuple).t_data))
        })
    }
}
