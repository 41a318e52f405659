//! What a dump brings back. pg_restore and psql write to the tables of schema hilo through SQL,
//! which the library never does. So a row for which an ordinary trigger fires is a restored one
//! (sql/catalog.sql).
//!
//! A dump shows one snapshot: every value that any session had seen by then lies below its
//! positions and in none of its free ranges. So no values have to be skipped. A restored position
//! is in no server's memory until the first reservation takes it over; what the memory of the
//! dumped server held is then recorded as a gap.

use pgrx::pg_sys;

use hilo_core::numbers::SequenceId;

use crate::catalog::columns::{free_range, lease, position, sequence};
use crate::catalog::positions::{self, REPLICATED, RESTORED};
use crate::catalog::{catalog_oids, definitions};
use crate::errors::{HiloError, OrRaise};
use crate::process::ffi;
use crate::sql::call::trigger::{Event, Fired, refuse, trigger_functions};

trigger_functions!(
    restored;
    hilo_restored_position,
    hilo_restored_free_range,
    hilo_restored_lease,
    hilo_role_own_row,
    hilo_role_skip_row,
    hilo_role_skip_default,
);

fn restored(fired: Fired) -> pg_sys::Datum {
    if fired.event != Event::Insert {
        refuse();
    }
    let row = fired.new_row();
    let replaced = match fired.table() {
        // Its owner does not exist. The current user becomes that, as happens to any object whose
        // ALTER … OWNER failed in a restore.
        b"sequence" => vec![(sequence::OWNER, Some(ffi::current_user().into()))],
        // A role that does not exist. A second such row would collide with the first.
        b"privilege" | b"default_privilege" => return pg_sys::Datum::null(),
        b"position" => {
            let (here, now) = positions::server();
            // A row that came to the dumped server by replication may lack reservations here too.
            // Any other lacks none until this server is promoted.
            let replicated = row.int4(position::TIMELINE) == REPLICATED;
            let timeline = if replicated { REPLICATED } else { now };
            vec![
                (position::INCARNATION, Some(RESTORED.into())),
                (position::SYSTEM_ID, Some(here.into())),
                (position::TIMELINE, Some(timeline.into())),
            ]
        }
        // It may have been served since the dump, if the sequence is in use here.
        b"free_range" => {
            refuse_in_use(row.int8(free_range::SEQUENCE), row.int4(free_range::NODE));
            return fired.accept();
        }
        // Another server may have taken it back since the dump, and served its rest.
        b"lease" => {
            refuse_in_use(row.int8(lease::SEQUENCE), row.int4(lease::NODE));
            vec![(lease::TIMELINE, Some(REPLICATED.into()))]
        }
        _ => refuse(),
    };
    // SAFETY: the columns get values of the types that sql/catalog.sql gives them.
    unsafe { fired.replacing(&replaced) }
}

/// Refuses a row of a sequence that has been used here since it was restored.
fn refuse_in_use(sequence: i64, node: i32) {
    let (ids, sequence) = (catalog_oids().or_raise(), SequenceId(sequence));
    let position = positions::find(&ids, sequence, node).or_raise();
    if position.is_some_and(|position| position.incarnation != RESTORED) {
        let known = definitions::by_id(&ids, sequence).or_raise();
        let name = known.map_or(sequence.to_string(), |known| known.name.to_string());
        HiloError::RestoreInUse(name).raise();
    }
}
