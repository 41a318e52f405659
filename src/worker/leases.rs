//! Files the leases that have ended or expired, and writes off those whose transactions were rolled back.
//!
//! A lease is filed under the lock of its position, together with an account of what memory holds: so after a crash
//! nothing of it counts as lost a second time. A reservation files the leases of its sequence, so that what has come
//! back is served before a new block; the others are filed when they are due.

use std::time::{Duration, Instant};

use hilo_core::numbers::{SequenceId, Timestamp};
use hilo_core::range::Range;

use super::Worker;
use super::account::{LentRows, account, put};
use super::evict::{self, From};
use super::transaction;
use crate::catalog::definitions::{self, Sequence};
use crate::catalog::leases::{self, Ended, Lease};
use crate::catalog::positions::{self, Position};
use crate::catalog::ranges;
use crate::catalog::table::{LockWait, RowLock, next_command};
use crate::catalog::takeover::take_over;
use crate::catalog::{self, CatalogOids};
use crate::errors::HiloError;
use crate::ffi;
use crate::shared::Shared;
use crate::shared::key::Key;
use crate::shared::slices::IndexSpace;

/// The most leases, or sequences with leases, in one transaction.
const BATCH: usize = 256;

/// How long the worker sleeps at most while a lease is to expire, because the clock may be set.
const LOOK_AGAIN: Duration = Duration::from_secs(5);

/// When the worker looks for leases that are due.
#[derive(Default)]
pub(super) struct Due {
    /// When the next one is due, if the catalog was read.
    at: Option<Timestamp>,
    known: bool,
    /// Not before this moment, because the last attempt failed.
    not_before: Option<Instant>,
}

/// Files those leases of a locked position that have ended or expired. The position is this life's, whose memory holds
/// `held`. Returns whether there were any: then the caller accounts for that.
pub(super) fn file(
    ids: &CatalogOids,
    position: &Position,
    sequence: &Sequence,
    held: &[Range],
) -> Result<bool, HiloError> {
    let mut filed = false;
    for found in leases::due_of(ids, position.sequence, position.node)? {
        // Another transaction is ending or renewing it: it will be due again.
        let RowLock::Locked(locked) = leases::lock(ids, &found.id, LockWait::Skip)? else {
            continue;
        };
        let lease = &locked.lease;
        // The session that has just committed the lease is about to free its place in memory.
        let overlaps = |range: &Range| !range.intersection(&lease.range).is_empty();
        let pending = lease.epoch == position.epoch && held.iter().any(overlaps);
        if pending || lease.is_open(ffi::now()) {
            continue;
        }
        settle(ids, position, sequence, lease)?;
        locked.delete();
        filed = true;
    }
    if filed {
        next_command();
    }
    Ok(filed)
}

/// Records what becomes of a lease's range.
fn settle(
    ids: &CatalogOids,
    position: &Position,
    sequence: &Sequence,
    lease: &Lease,
) -> Result<(), HiloError> {
    let (part, mut reason, at) = lease.loss(ffi::now());
    if part.is_empty() {
        return Ok(());
    }
    if lease.ended == Some(Ended::Returned) {
        let Some(lost) = lease.lost(Some((sequence, position))) else {
            return put(ids, position, sequence, &[part]);
        };
        reason = lost;
    }
    let gap = lease.gap(part, reason.name());
    ranges::record_values(ids, lease.sequence, lease.node, &gap, at)
}

/// Files the leases of a sequence on a node. `false`: another transaction is in the way.
fn file_all(
    ids: &CatalogOids,
    shared: &'static Shared,
    database: u32,
    (id, node): (SequenceId, i32),
) -> Result<bool, HiloError> {
    let locked = match positions::lock(ids, id, node, LockWait::Skip)? {
        RowLock::Skipped => return Ok(false),
        RowLock::Missing => return leases::forget(ids, id).map(|()| true),
        RowLock::Locked(locked) => locked,
    };
    // Until a position is this server's, replication may change the definition, and locks it to do so.
    let sequence = match locked.position.is_ours() {
        true => definitions::by_id(ids, id)?,
        false => match definitions::lock(ids, id, LockWait::Skip)? {
            RowLock::Locked(locked) => Some(locked.sequence),
            RowLock::Missing => None,
            RowLock::Skipped => return Ok(false),
        },
    };
    let Some(sequence) = sequence else {
        return leases::forget(ids, id).map(|()| true);
    };
    if sequence.definition.gapless {
        // Its position is none of the worker's; what was leased before belongs to an earlier epoch.
        return file(ids, &locked.position, &sequence, &[]).map(|_| true);
    }
    let mut position = locked.position;
    if position.incarnation != shared.life() {
        take_over(ids, shared.life(), &sequence, &mut position)?;
    }
    let key = Key { database, extension: ids.extension.to_u32(), sequence: id };
    let index_space = IndexSpace { key, node, epoch: position.epoch };
    let Some(held) = shared.in_memory(&index_space) else { return Ok(false) };
    file(ids, &position, &sequence, &held.ranges)?;
    account(ids, shared.life(), &mut position, &held, LentRows::Always)?;
    if held.ranges.is_empty() && (locked.position.incarnation == 0 || !held.has_slot) {
        position.incarnation = 0;
    }
    if position != locked.position {
        locked.update(&position);
    }
    Ok(true)
}

impl Worker {
    /// Writes off what rolled back transactions had leased out. Returns whether nothing of that is left.
    pub(super) fn write_off_leases(&mut self) -> bool {
        let database = self.database.to_u32();
        let ours = |index_space: &IndexSpace| index_space.key.database == database;
        let mut dead: Vec<(usize, IndexSpace, Range)> =
            self.shared.dead_pending().filter(|(_, space, _)| ours(space)).collect();
        dead.sort_unstable_by_key(|(_, space, range)| (space.key.sequence, space.epoch, *range));
        let mut all = true;
        for batch in dead.chunks(BATCH) {
            all &= self.write_off_batch(batch);
        }
        all
    }

    fn write_off_batch(&self, batch: &[(usize, IndexSpace, Range)]) -> bool {
        let shared = self.shared;
        let done = transaction::run_within(self.patience(), c"hilo: writing off leases", || {
            let ids = match catalog::catalog_oids() {
                Err(HiloError::NotInstalled) => return Ok(vec![true; batch.len()]),
                found => found?,
            };
            let mut done = Vec::new();
            for same in batch.chunk_by(|one, other| one.1 == other.1) {
                let index_space = &same[0].1;
                let ranges: Vec<Range> = same.iter().map(|(.., range)| *range).collect();
                let gone = index_space.key.extension != ids.extension.to_u32();
                let held = !gone
                    && matches!(
                        evict::write(&ids, shared, index_space, &ranges, From::Lease)?,
                        evict::Outcome::RowLocked
                    );
                done.resize(done.len() + same.len(), !held);
            }
            Ok(done)
        });
        let done = done.unwrap_or_default();
        for ((place, ..), _) in batch.iter().zip(&done).filter(|(_, done)| **done) {
            shared.bury_pending(*place);
        }
        done.len() == batch.len() && done.iter().all(|done| *done)
    }

    pub(super) fn has_dead_leases(&self) -> bool {
        let database = self.database.to_u32();
        self.shared.dead_pending().any(|(_, space, _)| space.key.database == database)
    }

    /// Files the leases that are due.
    pub(super) fn file_leases(&mut self) {
        if let Some(told) = self.shared.take_lease_due(self.place) {
            self.leases.at = Some(self.leases.at.map_or(told, |at| at.min(told)));
        }
        if self.leases.not_before.is_some_and(|moment| moment > Instant::now()) {
            return;
        }
        let due = !self.leases.known || self.leases.at.is_some_and(|at| at <= ffi::now());
        if !due || transaction::is_ending() {
            return;
        }
        let (shared, database) = (self.shared, self.database.to_u32());
        let patience = transaction::BRIEFLY;
        let done = transaction::run_within(patience, c"hilo: filing leases", || {
            let ids = match catalog::catalog_oids() {
                Err(HiloError::NotInstalled) => return Ok((true, None)),
                found => found?,
            };
            if !ids.lock_for_reservation() {
                return Ok((false, Some(Timestamp(i64::MIN))));
            }
            let mut all = true;
            for of in leases::due(&ids, BATCH)? {
                all &= file_all(&ids, shared, database, of)?;
            }
            Ok((all, leases::next_due(&ids)?))
        });
        // What another transaction is in the way of is still due, and is tried again in a moment.
        let (all, next) = done.unwrap_or((false, Some(Timestamp(i64::MIN))));
        self.leases.known = true;
        self.leases.at = next;
        let failed = !all || next.is_some_and(|at| at <= ffi::now());
        self.leases.not_before = failed.then(|| Instant::now() + super::AGAIN / 5);
    }

    /// How long until a lease is due.
    pub(super) fn lease_due_in(&self) -> Option<Duration> {
        let at = self.leases.at?;
        let wait = Duration::from_micros(at.0.saturating_sub(ffi::now().0).max(0) as u64);
        let pause = self.leases.not_before.map(|at| at.saturating_duration_since(Instant::now()));
        Some(wait.min(LOOK_AGAIN).max(pause.unwrap_or_default()))
    }
}
