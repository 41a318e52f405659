//! What a dump brings back. pg_restore and psql write to the tables of schema hilo through SQL,
//! which the library never does. So a row for which an ordinary trigger fires is a restored one
//! (sql/catalog.sql).
//!
//! A dump shows one snapshot: every value that any session had seen by then lies below its
//! positions and in none of its free ranges. So no values have to be skipped. A restored position
//! is in no server's memory until the first reservation takes it over; what the memory of the
//! dumped server held is then recorded as a gap.

use std::ffi::CStr;

use pgrx::prelude::*;

use crate::catalog::columns;
use crate::catalog::positions::{self, REPLICATED, RESTORED};
use crate::catalog::scan::{Index, Match, Snapshot};
use crate::catalog::table::Table;
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
    unsafe {
        let trigger = row_being_inserted(fcinfo, c"free_range");
        let (row, descriptor) = ((*trigger).tg_trigtuple, (*(*trigger).tg_relation).rd_att);
        let value = |name: &CStr| {
            let mut null = false;
            pg_sys::SPI_getbinval(
                row,
                descriptor,
                pg_sys::SPI_fnumber(descriptor, name.as_ptr()),
                &mut null,
            )
        };
        let sequence = value(c"sequence").value() as i64;
        refuse_in_use(trigger, sequence, value(c"node").value() as i32);
        row.into()
    }
}

/// Refuses a row of a sequence that has been used here since it was restored. A dump of an older
/// version is restored into SQL objects of that version, of which the library reads no more.
///
/// # Safety
/// `trigger` must be that of a live call.
unsafe fn refuse_in_use(trigger: *mut pg_sys::TriggerData, sequence: i64, node: i32) {
    let see = Snapshot::Catalog;
    // SAFETY: the relation of a trigger is open, so it has its row of pg_class.
    let table = |name: &CStr| unsafe {
        let schema = (*(*(*trigger).tg_relation).rd_rel).relnamespace;
        Table::read(pg_sys::get_relname_relid(name.as_ptr(), schema)).or_raise()
    };
    let key = [
        (columns::position::SEQUENCE, Match::Int8(sequence)),
        (columns::position::NODE, Match::Int4(node)),
    ];
    let position = table(c"position").find(Index::Named(c"position_pkey"), &key, see);
    if position.is_some_and(|row| row.int8(columns::position::INCARNATION) != RESTORED) {
        let key = [(columns::sequence::ID, Match::Int8(sequence))];
        let known = table(c"sequence").find(Index::Named(c"sequence_pkey"), &key, see);
        let name = known.and_then(|row| row.text(columns::sequence::NAME));
        HiloError::RestoreInUse(name.unwrap_or(sequence.to_string())).raise();
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
        refuse_in_use(trigger, value(c"sequence") as i64, value(c"node") as i32);
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
