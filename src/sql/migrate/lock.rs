//! The locks of a move from one kind of sequence to the other. SHARE ROW EXCLUSIVE on the tables keeps all
//! writers out and lets readers go on; the old sequence is locked so that nobody draws from it any more.
//!
//! A session may have drawn from the old sequence before it writes to the table, or the other way round. So
//! that neither waits for us while we wait for it, we never wait for one of the two locks while we hold the
//! other.

use pgrx::pg_sys;

use crate::catalog::relations::with_children;
use crate::errors::OrRaise;

const TABLE: pg_sys::LOCKMODE = pg_sys::ShareRowExclusiveLock as _;
const SEQUENCE: pg_sys::LOCKMODE = pg_sys::AccessExclusiveLock as _;

/// Locks a table, all that inherit from it, and the sequences that `sources` finds once the tables are locked.
/// Returns the tables, the given one first, and those sequences.
pub fn tables_and_sequences(
    relid: pg_sys::Oid,
    sources: impl Fn(&[pg_sys::Oid]) -> Vec<pg_sys::Oid>,
) -> (Vec<pg_sys::Oid>, Vec<pg_sys::Oid>) {
    loop {
        let tables = tables(relid);
        let sequences = sources(&tables);
        // SAFETY: any OID can be locked. What is released here was locked here.
        let busy = unsafe {
            let taken = sequences
                .iter()
                .take_while(|oid| pg_sys::ConditionalLockRelationOid(**oid, SEQUENCE))
                .count();
            match sequences.get(taken) {
                None => return (tables, sequences),
                Some(busy) => {
                    sequences[..taken]
                        .iter()
                        .for_each(|oid| pg_sys::UnlockRelationOid(*oid, SEQUENCE));
                    tables.iter().for_each(|oid| pg_sys::UnlockRelationOid(*oid, TABLE));
                    *busy
                }
            }
        };
        // SAFETY: as above. The wait lasts until those who use the sequence now have ended.
        unsafe {
            pg_sys::LockRelationOid(busy, SEQUENCE);
            pg_sys::UnlockRelationOid(busy, SEQUENCE);
        }
    }
}

/// Locks a table and all that inherit from it against writers.
pub fn tables(relid: pg_sys::Oid) -> Vec<pg_sys::Oid> {
    // SAFETY: any OID can be locked; the end of the transaction releases the lock.
    unsafe { pg_sys::LockRelationOid(relid, TABLE) };
    let mut locked = vec![relid];
    loop {
        // A table gets no further heirs once it is locked, but those locked last may have got some before.
        let all = with_children(relid).or_raise();
        let found: Vec<_> = all.into_iter().filter(|oid| !locked.contains(oid)).collect();
        if found.is_empty() {
            return locked;
        }
        for oid in found {
            // SAFETY: as above.
            unsafe { pg_sys::LockRelationOid(oid, TABLE) };
            locked.push(oid);
        }
    }
}
