//! Files the leases that have ended or expired.
//!
//! A lease is filed under the lock of its position, together with an account of what memory holds.
//! So after a crash nothing of it counts as lost a second time. A transaction files a few hundred
//! leases, and callers are served before the next one, however many leases end at the same time.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use hilo_core::numbers::{SequenceId, Timestamp};
use hilo_core::range::Range;

use crate::catalog::lease::lease_id::LeaseId;
use crate::catalog::lease::leases::{self, Lease};
use crate::catalog::numbers::owned_position::{self, LentRows};
use crate::catalog::rows::catalog_tables;
use crate::catalog::rows::table::{LockWait, RowLock, next_command};
use crate::catalog::sequence::definitions::Sequence;
use crate::catalog::sequence::positions::{self, Position};
use crate::catalog::sequence::{gaps, node};
use crate::errors::HiloError;
use crate::process::ffi;
use crate::process::memory::TryGrow;
use crate::shared::Shared;
use crate::shared::key::Key;
use crate::shared::slices::IndexSpace;
use crate::shared::workers::LeaseNews;
use crate::worker::Worker;
use crate::worker::transaction::{self, BRIEFLY, Failure, LOCKED};

/// The most leases in one transaction.
const BATCH: usize = 256;

/// How long the worker sleeps at most while a lease is to expire, because the clock may be set.
const LOOK_AGAIN: Duration = Duration::from_secs(5);

/// How often the worker looks at all leases: rows may have come that no session has told it of, as
/// in a restore.
const LOOK_AT_ALL: Duration = Duration::from_secs(60);

/// All leases.
const ALL: LeaseNews =
    LeaseNews { ended: Some(Timestamp(i64::MIN)), expires: Some(Timestamp(i64::MIN)) };

/// When the worker looks for leases that are due.
#[derive(Default)]
pub(super) struct Due {
    /// Where it looks next. All earlier leases were filed or deferred, or came in no transaction of
    /// a session.
    next: LeaseNews,
    /// When it last looked at all.
    all_at: Option<Instant>,
    /// Leases that cannot be filed now, until `again_at`: the others do not wait for them.
    deferred: Deferred,
    again_at: Option<Instant>,
    /// Where it looks then.
    again: LeaseNews,
}

impl Due {
    /// Whether the catalog was read.
    pub fn is_known(&self) -> bool {
        self.all_at.is_some()
    }

    /// Whether leases have ended or expired that must be looked for.
    fn is_now(&self) -> bool {
        self.next.ended.is_some() || self.next.expires.is_some_and(|at| at <= ffi::now())
    }
}

/// Leases that are left for a later look.
#[derive(Default)]
struct Deferred {
    /// All leases of these sequences on these nodes.
    of: HashSet<(SequenceId, i32)>,
    one_by_one: HashSet<LeaseId>,
}

impl Deferred {
    fn has(&self, lease: &Lease) -> bool {
        self.of.contains(&(lease.sequence, lease.node)) || self.one_by_one.contains(&lease.id)
    }

    fn is_empty(&self) -> bool {
        self.of.is_empty() && self.one_by_one.is_empty()
    }
}

/// Up to a batch of the leases that are due, without those that are deferred, and where to look
/// next.
fn find(from: LeaseNews, deferred: &Deferred) -> Result<(Vec<Lease>, LeaseNews), HiloError> {
    let (mut found, mut next) = (Vec::new(), from);
    if let Some(at) = from.ended {
        let ended = leases::ended(at, BATCH, |lease| deferred.has(lease))?;
        (found, next.ended) = (ended.leases, ended.next);
    }
    if let Some(at) = from.expires.filter(|at| *at <= ffi::now()) {
        let most = BATCH - found.len();
        let expired = leases::expired(at, most, |lease| deferred.has(lease))?;
        found.try_extend(expired.leases)?;
        next.expires = expired.next;
    }
    Ok((found, next))
}

/// Files leases of one position; memory holds the ranges `held` of its epoch. Returns the ranges
/// that come back, and how many values were used; `None`: there was nothing to file.
fn end_leases(
    sequence: &Sequence,
    position: &Position,
    due: &[Lease],
    held: &[Range],
    deferred: &mut Deferred,
) -> Result<Option<(Vec<Range>, i64)>, HiloError> {
    let (mut any, mut used, mut rests, mut gaps) = (false, 0, Vec::new(), Vec::new());
    for found in due {
        let locked = match leases::lock(&found.id, LockWait::Skip)? {
            RowLock::Locked(locked) => locked,
            RowLock::Missing => continue,
            // Another transaction is ending or renewing the lease.
            RowLock::Skipped => {
                deferred.one_by_one.insert(found.id);
                continue;
            }
        };
        let lease = &locked.lease;
        // The session that has just committed the lease is about to free its place in memory.
        let overlaps = |range: &Range| !range.intersection(&lease.range).is_empty();
        let pending = lease.epoch == position.epoch && held.iter().any(overlaps);
        // It may have been renewed meanwhile.
        if pending || lease.is_open(ffi::now()) {
            deferred.one_by_one.insert(lease.id);
            continue;
        }
        let (part, lost, at) = lease.outcome(ffi::now(), Some((sequence, position)));
        match lost {
            _ if part.is_empty() => {}
            None => rests.push(part),
            Some(reason) => gaps.push(lease.gap(part, reason, at)),
        }
        locked.delete();
        used += lease.range.len() - part.len();
        any = true;
    }
    gaps::add(sequence.id, position.node, &gaps)?;
    Ok(any.then_some((rests, used)))
}

/// Files leases of one sequence on one node. If the sequence or the position does not exist, they
/// stay. Whoever drops a sequence deletes its leases, and pg_restore brings the leases before the
/// sequences.
fn file(shared: &'static Shared, due: &[Lease], deferred: &mut Deferred) -> Result<(), HiloError> {
    let Lease { sequence: id, node, .. } = due[0];
    let RowLock::Locked(locked) = positions::lock(id, node, LockWait::Skip)? else {
        deferred.of.insert((id, node));
        return Ok(());
    };
    let RowLock::Locked(sequence) = locked.definition()? else {
        deferred.of.insert((id, node));
        return Ok(());
    };
    let position = &locked.position;
    if sequence.definition.gapless || is_elsewhere(position) {
        // The position is none of the worker's, and nothing comes back to it.
        return end_leases(&sequence, position, due, &[], deferred).map(|_| next_command());
    }
    owned_position::with_position(shared.life(), &sequence, &locked, |owned| {
        let key = Key::here(catalog_tables::catalog_oids()?.extension, id);
        let index_space = IndexSpace { key, node, epoch: owned.epoch };
        let Some(held) = shared.in_memory(&index_space)? else {
            deferred.of.insert((id, node));
            return Ok(());
        };
        let Some((rests, used)) = end_leases(&sequence, owned, due, &held.ranges, deferred)? else {
            return Ok(());
        };
        next_command();
        owned.correct_served(used);
        shared.correct_served(&key, node, used);
        if !rests.is_empty() {
            owned.store_free(&rests)?;
            shared.reload(&key);
        }
        owned.record_held_ranges(&held, LentRows::Always)?;
        if held.ranges.is_empty() && (position.incarnation == 0 || !held.has_slot) {
            owned.release();
        }
        Ok(())
    })
}

/// Whether another server serves as this position's node now, which this server was before.
fn is_elsewhere(position: &Position) -> bool {
    position.is_replicated() && node::id() != position.node
}

/// Whether two leases belong to one position.
fn is_same_position(one: &Lease, other: &Lease) -> bool {
    (one.sequence, one.node) == (other.sequence, other.node)
}

impl Worker {
    /// Files some of the leases that are due. The others are filed by the next calls.
    pub(super) fn file_leases(&mut self) {
        let due = &mut self.leases;
        due.next = due.next.and(self.shared.take_lease_news(self.place));
        if due.again_at.is_some_and(|at| at <= Instant::now()) {
            due.next = due.next.and(due.again);
            (due.deferred, due.again_at, due.again) = Default::default();
        }
        if (due.is_known() && !due.is_now()) || transaction::is_ending() {
            return;
        }
        if due.all_at.is_none_or(|at| at.elapsed() > LOOK_AT_ALL) {
            (due.next, due.all_at) = (ALL, Some(Instant::now()));
        }
        let (from, mut deferred) = (due.next, std::mem::take(&mut due.deferred));
        let pause = self.look(&mut deferred);
        let due = &mut self.leases;
        if pause.is_some() || !deferred.is_empty() {
            due.again = due.again.and(from);
            let pause = pause.unwrap_or(crate::worker::AGAIN / 5);
            due.again_at.get_or_insert_with(|| Instant::now() + pause);
        }
        due.deferred = deferred;
    }

    /// Files some leases, and notes where to look next. Returns when to look again at least, if
    /// nothing more can be done now, or if there was a fault.
    fn look(&mut self, deferred: &mut Deferred) -> Option<Duration> {
        let (shared, from) = (self.shared, self.leases.next);
        let mut batch = Vec::new();
        let done = transaction::run_within(BRIEFLY, c"hilo: filing leases", || {
            if !catalog_tables::is_installed()? {
                return Ok(LeaseNews::default());
            }
            if !catalog_tables::lock_for_reservation()? {
                return Err(HiloError::InUse("_hilo.hilo_lease".into()));
            }
            let (found, next) = find(from, deferred)?;
            batch = found;
            batch.sort_unstable_by_key(|lease| (lease.sequence, lease.node, lease.range.start));
            for same in batch.chunk_by(is_same_position) {
                file(shared, same, deferred)?;
            }
            Ok(next)
        });
        match done {
            Ok(next) => {
                self.leases.next = next;
                None
            }
            // Somebody has locked a table, so that nothing can be written now.
            Err(failure) if failure.sqlstate == LOCKED || batch.is_empty() => {
                self.leases.next = LeaseNews::default();
                Some(crate::worker::AGAIN / 5)
            }
            // The next look passes over the leases that are deferred then.
            Err(_) => self.file_each(&batch, deferred).then_some(crate::worker::AGAIN),
        }
    }

    /// Files the leases of each position in a transaction of its own, so that one fault takes no
    /// other sequence down with it. Returns whether there was a fault.
    fn file_each(&mut self, batch: &[Lease], deferred: &mut Deferred) -> bool {
        let shared = self.shared;
        let mut any = false;
        for same in batch.chunk_by(is_same_position) {
            let done: Result<(), Failure> =
                transaction::run_within(BRIEFLY, c"hilo: filing leases", || {
                    file(shared, same, deferred)
                });
            if let Err(failure) = done {
                deferred.of.insert((same[0].sequence, same[0].node));
                if failure.sqlstate != LOCKED {
                    self.complain("file the leases", same[0].sequence, &failure);
                }
                any = true;
            }
        }
        any
    }

    /// How long until a lease is due.
    pub(super) fn lease_due_in(&self) -> Option<Duration> {
        let again = self.leases.again_at.map(|at| at.saturating_duration_since(Instant::now()));
        let first = self.leases.next.ended.or(self.leases.next.expires);
        let due = first.map(|at| {
            let wait = Duration::from_micros(at.0.saturating_sub(ffi::now().0).max(0) as u64);
            wait.min(LOOK_AGAIN)
        });
        again.into_iter().chain(due).min()
    }
}
