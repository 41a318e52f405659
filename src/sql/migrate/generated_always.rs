//! What GENERATED ALWAYS protects, kept for a column that was adopted: a trigger refuses values that were not
//! drawn.

use std::ffi::CStr;

use pgrx::prelude::*;

use super::column::Column;
use crate::catalog::catalog_oids;
use crate::catalog::name::escape_for_message;
use crate::catalog::privileges;
use crate::errors::OrRaise;
use crate::session::memo;
use crate::sql::raw_function::raw_functions;
use crate::sql::spi;

raw_functions!(hilo_generated_always);

/// The trigger of a column; its number tells it from those of other columns.
fn trigger_name(column: &Column) -> String {
    format!("hilo_generated_always_{}", column.attnum)
}

/// The trigger's function, qualified.
fn function() -> Vec<u8> {
    let schema = catalog_oids().and_then(|ids| privileges::extension_schema(ids.extension));
    let sql = format!(
        "SELECT format('%I.hilo_generated_always', nspname) FROM pg_namespace WHERE oid = {}::oid",
        schema.or_raise().to_u32()
    );
    spi::look_up(&sql, |row| row.bytes(1).unwrap_or_default()).pop().unwrap_or_default()
}

/// Protects a column, and says what differs from GENERATED ALWAYS.
pub fn protect(column: &Column) {
    let trigger = trigger_name(column);
    let event = format!("CREATE TRIGGER {trigger} BEFORE INSERT OR UPDATE OF ");
    spi::execute(
        &[
            event.as_bytes(),
            &column.column_sql,
            b" ON ",
            &column.table_sql,
            b" FOR EACH ROW EXECUTE FUNCTION ",
            &function(),
            b"()",
        ]
        .concat(),
    );
    ereport!(
        NOTICE,
        PgSqlErrorCode::ERRCODE_SUCCESSFUL_COMPLETION,
        format!(
            "column {} was GENERATED ALWAYS; trigger {trigger} protects it from now on",
            column.describe()
        ),
        "The trigger accepts a value that the session has just drawn. It refuses OVERRIDING SYSTEM VALUE and values in COPY too, and COPY inserts row by row. Disable it to write values of your own, or drop it to give up the protection."
    );
}

/// Whether the column has the trigger.
pub fn is_protected(column: &Column) -> bool {
    let (table, trigger) = (column.relid.to_u32(), trigger_name(column));
    let sql =
        format!("SELECT 1 FROM pg_trigger WHERE tgrelid = {table}::oid AND tgname = '{trigger}'");
    !spi::look_up(&sql, |_| ()).is_empty()
}

/// Drops the trigger, if the column has it.
pub fn unprotect(column: &Column) {
    if is_protected(column) {
        let drop = format!("DROP TRIGGER {} ON ", trigger_name(column));
        spi::execute(&[drop.as_bytes(), &column.table_sql].concat());
    }
}

/// `hilo_generated_always() RETURNS trigger`: refuses a row in whose column, the first one after UPDATE OF, is a
/// value that this session has not drawn last from a hilo sequence. An update may leave the value as it is.
#[pg_guard]
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn hilo_generated_always(
    fcinfo: pg_sys::FunctionCallInfo,
) -> pg_sys::Datum {
    const BEFORE_ROW: u32 = pg_sys::TRIGGER_EVENT_ROW | pg_sys::TRIGGER_EVENT_BEFORE;
    const KIND: u32 = pg_sys::TRIGGER_EVENT_ROW | pg_sys::TRIGGER_EVENT_TIMINGMASK;
    // SAFETY: Postgres passes a live call, whose context is null, which is checked, or a node, whose tag tells
    // what it is. The data of a trigger lives as long as the call, and its tuples are ones of its relation.
    unsafe {
        let context = (*fcinfo).context;
        let triggered = !context.is_null() && (*context).type_ == pg_sys::NodeTag::T_TriggerData;
        let trigger: *mut pg_sys::TriggerData = context.cast();
        if !triggered
            || (*trigger).tg_event & KIND != BEFORE_ROW
            || (*(*trigger).tg_trigger).tgnattr < 1
        {
            ereport!(
                ERROR,
                PgSqlErrorCode::ERRCODE_E_R_I_E_TRIGGER_PROTOCOL_VIOLATED,
                "this function can only be called as a trigger BEFORE INSERT OR UPDATE OF a column, FOR EACH ROW"
            );
        }
        let columns = (*(*trigger).tg_relation).rd_att;
        let attnum = *(*(*trigger).tg_trigger).tgattr;
        let value = |tuple| {
            let mut null = false;
            let datum = pg_sys::SPI_getbinval(tuple, columns, i32::from(attnum), &mut null);
            (!null).then(|| match pg_sys::SPI_gettypeid(columns, i32::from(attnum)) {
                pg_sys::INT2OID => i64::from(datum.value() as i16),
                pg_sys::INT4OID => i64::from(datum.value() as i32),
                _ => datum.value() as i64,
            })
        };
        let update =
            (*trigger).tg_event & pg_sys::TRIGGER_EVENT_OPMASK == pg_sys::TRIGGER_EVENT_UPDATE;
        let (old, new) = ((*trigger).tg_trigtuple, (*trigger).tg_newtuple);
        let row = if update { new } else { old };
        let written = value(row);
        if update && value(old) == written || written.is_some_and(memo::was_last) {
            return row.into();
        }
        let trigger = CStr::from_ptr((*(*trigger).tg_trigger).tgname).to_string_lossy();
        let column = pg_sys::SPI_fname(columns, i32::from(attnum));
        let column = escape_for_message(CStr::from_ptr(column).to_bytes());
        let message = match update {
            true => format!("column \"{column}\" can only be updated to DEFAULT"),
            false => format!("cannot insert a non-DEFAULT value into column \"{column}\""),
        };
        ereport!(
            ERROR,
            PgSqlErrorCode::ERRCODE_GENERATED_ALWAYS,
            message,
            format!(
                "Column \"{column}\" takes its values from a hilo sequence. To write values of your own, disable trigger {trigger}."
            )
        );
    }
}
