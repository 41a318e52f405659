//! Calls as triggers of the extension's own tables. If a user makes a trigger of such a function on another
//! table, the call is refused: the function would misread the row.

use std::ffi::CStr;

use pgrx::prelude::*;

use pg_sys::{TRIGGER_EVENT_BEFORE, TRIGGER_EVENT_INSERT, TRIGGER_EVENT_OPMASK, TRIGGER_EVENT_ROW};

/// The bits that hold the level and the timing of a trigger's call.
const KIND: u32 = TRIGGER_EVENT_ROW | pg_sys::TRIGGER_EVENT_TIMINGMASK;

/// The call as that of a trigger before a row of `hilo.<table>` changes; any other call is refused.
///
/// # Safety
/// `fcinfo` must be a live call.
pub unsafe fn before_row(
    fcinfo: pg_sys::FunctionCallInfo,
    table: &CStr,
) -> *mut pg_sys::TriggerData {
    // SAFETY: the caller guarantees a live call. Its context is null, which is checked, or a node, whose tag
    // tells what it is; a trigger has its relation, which is open.
    unsafe {
        let context = (*fcinfo).context;
        if !context.is_null() && (*context).type_ == pg_sys::NodeTag::T_TriggerData {
            let trigger: *mut pg_sys::TriggerData = context.cast();
            let class = &*(*(*trigger).tg_relation).rd_rel;
            let schema = pg_sys::get_namespace_name(class.relnamespace);
            if (*trigger).tg_event & KIND == TRIGGER_EVENT_ROW | TRIGGER_EVENT_BEFORE
                && CStr::from_ptr(class.relname.data.as_ptr()) == table
                && !schema.is_null()
                && CStr::from_ptr(schema) == c"hilo"
            {
                return trigger;
            }
        }
    }
    ereport!(
        ERROR,
        PgSqlErrorCode::ERRCODE_E_R_I_E_TRIGGER_PROTOCOL_VIOLATED,
        "this function can only be called as a trigger of the catalog of hilo",
        format!("The trigger runs before a row of hilo.{} changes.", table.to_string_lossy())
    );
}

/// The same before a row is inserted.
///
/// # Safety
/// `fcinfo` must be a live call.
pub unsafe fn row_being_inserted(
    fcinfo: pg_sys::FunctionCallInfo,
    table: &CStr,
) -> *mut pg_sys::TriggerData {
    // SAFETY: the caller guarantees a live call, and what `before_row` returns lives as long.
    unsafe {
        let trigger = before_row(fcinfo, table);
        if (*trigger).tg_event & TRIGGER_EVENT_OPMASK != TRIGGER_EVENT_INSERT {
            ereport!(
                ERROR,
                PgSqlErrorCode::ERRCODE_E_R_I_E_TRIGGER_PROTOCOL_VIOLATED,
                "this function can only be called as a trigger of the catalog of hilo",
                "The trigger runs before a row is inserted."
            );
        }
        trigger
    }
}
