//! What a dump brings back. pg_restore and psql write to the tables of schema hilo through SQL,
//! which the library never does. So a row for which an ordinary trigger fires is a restored one
//! (sql/catalog.sql).
//!
//! A dump shows one snapshot: every value that any session had seen by then lies below its
//! positions and in none of its free ranges. So no values have to be skipped. A restored position
//! is in no server's memory until the first reservation takes it over; what the memory of the
//! dumped server held is then recorded as a gap.

use pgrx::prelude::*;

use hilo_core::numbers::SequenceId;

use crate::catalog::positions::{self, REPLICATED, RESTORED};
use crate::catalog::{catalog_oids, definitions};
use crate::errors::{HiloError, OrRaise};
use crate::sql::call::raw_function::raw_functions;
use crate::sql::call::trigger::row_being_inserted;

raw_functions!(hilo_restored_position, hilo_restored_free_range, hilo_restored_lease);

/// `hilo.restored_position() RETURNS trigger`: makes the position this server's, in no server's
/// memory.
#[pg_guard]
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn hilo_restored_position(
    fcinfo: pg_sys::FunctionCallInfo,
) -> pg_sys::Datum {
    // SAFETY: Postgres passes a live call to a trigger function. The columns are replaced by values
    // of their own types, and each array has an element for every column replaced.
    unsafe {
        let trigger = row_being_inserted(fcinfo, c"position");
        let (row, descriptor) = ((*trigger).tg_trigtuple, (*(*trigger).tg_relation).rd_att);
        let mut columns = [c"incarnation", c"system_id", c"timeline"]
            .map(|name| pg_sys::SPI_fnumber(descriptor, name.as_ptr()));
        let mut null = false;
        let timeline = pg_sys::SPI_getbinval(row, descriptor, columns[2], &mut null).value() as i32;
        let (here, now) = positions::server();
        // A row that came to the dumped server by replication may lack reservations here too. Any
        // other lacks none until this server is promoted.
        let timeline = if timeline == REPLICATED { timeline } else { now };
        let mut values = [RESTORED.into(), here.into(), timeline.into()];
        let mut nulls = [false; 3];
        pg_sys::heap_modify_tuple_by_cols(
            row,
            descriptor,
            columns.len() as i32,
            columns.as_mut_ptr(),
            values.as_mut_ptr(),
            nulls.as_mut_ptr(),
        )
        .into()
    }
}

/// `hilo.restored_free_range() RETURNS trigger`: refuses a free range of a sequence that is in use
/// here, because it may have been served since the dump.
#[pg_guard]
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn hilo_restored_free_range(
    fcinfo: pg_sys::FunctionCallInfo,
) -> pg_sys::Datum {
    // SAFETY: Postgres passes a live call to a trigger function. Both columns are passed by value,
    // and a NULL, which the NOT NULL constraints refuse only after this trigger, is read as 0.
    let (row, sequence, node) = unsafe {
        let trigger = row_being_inserted(fcinfo, c"free_range");
        let (row, descriptor) = ((*trigger).tg_trigtuple, (*(*trigger).tg_relation).rd_att);
        let value = |name: &std::ffi::CStr| {
            let mut null = false;
            pg_sys::SPI_getbinval(
                row,
                descriptor,
                pg_sys::SPI_fnumber(descriptor, name.as_ptr()),
                &mut null,
            )
        };
        (row, SequenceId(value(c"sequence").value() as i64), value(c"node").value() as i32)
    };
    refuse_in_use(sequence, node);
    row.into()
}

/// Refuses a row of a sequence that has been used here since it was restored.
fn refuse_in_use(sequence: SequenceId, node: i32) {
    let ids = catalog_oids().or_raise();
    let position = positions::find(&ids, sequence, node).or_raise();
    if position.is_some_and(|position| position.incarnation != RESTORED) {
        let known = definitions::by_id(&ids, sequence).or_raise();
        let name = known.map_or(sequence.to_string(), |known| known.name.to_string());
        HiloError::RestoreInUse(name).raise();
    }
}

/// `hilo.restored_lease() RETURNS trigger`: marks the lease as another server's, which may have
/// taken it back since the dump and served its rest. Refuses one of a sequence that is in use here.
#[pg_guard]
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn hilo_restored_lease(fcinfo: pg_sys::FunctionCallInfo) -> pg_sys::Datum {
    // SAFETY: Postgres passes a live call to a trigger function. The columns read are passed by
    // value, and a NULL, which the NOT NULL constraints refuse only after this trigger, is read as
    // 0. The column replaced is an integer.
    unsafe {
        let trigger = row_being_inserted(fcinfo, c"lease");
        let (row, descriptor) = ((*trigger).tg_trigtuple, (*(*trigger).tg_relation).rd_att);
        let number = |name: &std::ffi::CStr| pg_sys::SPI_fnumber(descriptor, name.as_ptr());
        let mut null = false;
        let mut value =
            |name| pg_sys::SPI_getbinval(row, descriptor, number(name), &mut null).value();
        refuse_in_use(SequenceId(value(c"sequence") as i64), value(c"node") as i32);
        let (mut column, mut timeline) = (number(c"timeline"), pg_sys::Datum::from(REPLICATED));
        let mut null = false;
        pg_sys::heap_modify_tuple_by_cols(
            row,
            descriptor,
            1,
            &raw mut column,
            &raw mut timeline,
            &raw mut null,
        )
        .into()
    }
}
