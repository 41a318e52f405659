//! The locks of a move from one kind of sequence to the other. They are those of core's ALTER
//! TABLE, ACCESS EXCLUSIVE, on the tables and on the sequences.
//!
//! Whoever comes to a table while such a lock is waited for waits behind it, even to read. So an
//! attempt to get all of the locks gives up soon, releases what it has, and rests before the next
//! one. For the same reason there is no deadlock with those who lock in another order: an attempt
//! ends before core looks for one (`deadlock_timeout`).
//!
//! Where sessions write to several of the tables all the time, an attempt succeeds only by luck,
//! whether short or long. Where transactions last long, only a long attempt succeeds. So short and
//! long attempts take turns, and each length has as much of the time as any other.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use pgrx::prelude::*;

use crate::catalog::rows::name::escape_for_message;
use crate::catalog::rows::relations::{self, with_children};
use crate::errors::HiloError;
use crate::process::ffi;
use crate::process::time_limit;
use crate::shared::wait_event::WaitEvent;
use crate::sql::column::sequence_column::SequenceColumn;

const MOVE: pg_sys::LOCKMODE = pg_sys::AccessExclusiveLock as _;

/// How long every second attempt may last. Every fourth may last twice as long, every eighth four
/// times, and so on up to the longest.
const SHORTEST: Duration = Duration::from_millis(20);
const LONGEST: Duration = Duration::from_millis(400);

/// How many times as long as an attempt the rest after it lasts.
const REST: u32 = 4;

/// Locks the tables of the columns and all that inherit from them, and then what `more` locks, in
/// short attempts, for no longer than `lock_timeout`. Returns the tables.
pub fn for_move(
    columns: &[SequenceColumn],
    more: impl Fn() -> Result<(), HiloError>,
) -> Result<Vec<pg_sys::Oid>, HiloError> {
    // SAFETY: reads settings of this process, neither of which is negative.
    let [timeout, deadlock] = unsafe { [pg_sys::LockTimeout, pg_sys::DeadlockTimeout] }
        .map(|ms| Duration::from_millis(ms as u64));
    let timeout = if timeout.is_zero() { Duration::MAX } else { timeout };
    let longest = LONGEST.min(deadlock / 2);
    let (began, mut attempts) = (Instant::now(), 0_u32);
    let name =
        |column: &SequenceColumn| relations::identifier(column.place.relid).unwrap_or_default();
    let names = || columns.iter().map(name).collect::<BTreeSet<_>>();
    let names = || escape_for_message(&names().into_iter().collect::<Vec<_>>().join(&b", "[..]));
    let attempt = || {
        let mut all = Vec::new();
        for column in columns {
            all.extend(tables(column.place.relid, MOVE)?);
        }
        more()?;
        Ok(all)
    };
    loop {
        attempts += 1;
        let patience = SHORTEST.saturating_mul(1 << attempts.trailing_zeros()).min(longest);
        let left = timeout.saturating_sub(began.elapsed());
        if let Ok(tables) = time_limit::within(patience.min(left), attempt) {
            return Ok(tables);
        }
        if attempts == 1 {
            say_waiting(&names());
        }
        let left = timeout.saturating_sub(began.elapsed());
        rest((patience * REST).min(left));
        if began.elapsed() >= timeout {
            return Err(HiloError::InUse(names()));
        }
    }
}

fn say_waiting(tables: &str) {
    ereport!(
        NOTICE,
        PgSqlErrorCode::ERRCODE_SUCCESSFUL_COMPLETION,
        format!("waiting for other transactions that use table {tables}"),
        "Nobody waits for this call longer than half a second at a time. It goes on for as long as \
         lock_timeout allows."
    );
}

fn rest(time: Duration) {
    let end = Instant::now() + time;
    loop {
        check_for_interrupts!();
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return;
        }
        ffi::sleep(left.as_millis() as i64 + 1, WaitEvent::TABLE.code());
    }
}

/// Locks a core sequence that is going to be dropped.
pub fn sequence(oid: pg_sys::Oid) {
    // SAFETY: any OID can be locked; the end of the transaction releases the lock.
    unsafe { pg_sys::LockRelationOid(oid, MOVE) }
}

/// Locks a table and all that inherit from it against writers.
pub fn against_writers(relid: pg_sys::Oid) -> Result<(), HiloError> {
    tables(relid, pg_sys::ShareRowExclusiveLock as _).map(drop)
}

/// Locks a table and all that inherit from it, and returns them.
fn tables(relid: pg_sys::Oid, mode: pg_sys::LOCKMODE) -> Result<Vec<pg_sys::Oid>, HiloError> {
    // SAFETY: any OID can be locked; the end of the transaction releases the lock.
    unsafe { pg_sys::LockRelationOid(relid, mode) };
    let mut locked = vec![relid];
    loop {
        // A table gets no more children once it is locked, but the tables that were locked last may
        // have got some before.
        let all = with_children(relid)?;
        let found: Vec<_> = all.into_iter().filter(|oid| !locked.contains(oid)).collect();
        if found.is_empty() {
            return Ok(locked);
        }
        for oid in found {
            // SAFETY: as above.
            unsafe { pg_sys::LockRelationOid(oid, mode) };
            locked.push(oid);
        }
    }
}
