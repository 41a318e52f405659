//! Calls as triggers of the extension's own tables. If a user makes a trigger of such a function on
//! another table, the call is refused: the function would misread the row.

use std::ffi::CStr;

use pgrx::prelude::*;

use pg_sys::{TRIGGER_EVENT_BEFORE, TRIGGER_EVENT_INSERT, TRIGGER_EVENT_OPMASK, TRIGGER_EVENT_ROW};

/// The bits that hold the level and the timing of a trigger's call.
const KIND: u32 = TRIGGER_EVENT_ROW | pg_sys::TRIGGER_EVENT_TIMINGMASK;

/// The call as that of a trigger before a row of one of these tables of schema hilo changes, and
/// which of them; any other call is refused.
///
/// # Safety
/// `fcinfo` must be a live call.
pub unsafe fn before_row(
    fcinfo: pg_sys::FunctionCallInfo,
    tables: &[&CStr],
) -> (*mut pg_sys::TriggerData, usize) {
    // SAFETY: the caller guarantees a live call. Its context is null, which is checked, or a node,
    // whose tag tells what it is; a trigger has its relation, which is open.
    unsafe {
        let context = (*fcinfo).context;
        if !context.is_null() && (*context).type_ == pg_sys::NodeTag::T_TriggerData {
            let trigger: *mut pg_sys::TriggerData = context.cast();
            let class = &*(*(*trigger).tg_relation).rd_rel;
            let schema = pg_sys::get_namespace_name(class.relnamespace);
            let name = CStr::from_ptr(class.relname.data.as_ptr());
            if let Some(found) = tables.iter().position(|table| *table == name)
                && (*trigger).tg_event & KIND == TRIGGER_EVENT_ROW | TRIGGER_EVENT_BEFORE
                && !schema.is_null()
                && CStr::from_ptr(schema) == c"hilo"
            {
                return (trigger, found);
            }
        }
    }
    ereport!(
        ERROR,
        PgSqlErrorCode::ERRCODE_E_R_I_E_TRIGGER_PROTOCOL_VIOLATED,
        "this function can only be called as a trigger of the catalog of hilo",
        "The trigger runs before a row of a table in schema hilo changes."
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
        let (trigger, _) = before_row(fcinfo, &[table]);
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
