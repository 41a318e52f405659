//! Writes to the catalog the ranges that no session owns any more. They are orphaned slices, whose
//! sessions found no room to return them, and leases of rolled back transactions.

use std::time::Duration;

use hilo_core::range::Range;

use crate::catalog::rows::catalog_tables;
use crate::process::memory::{self, TryGrow};
use crate::shared::pending::Place;
use crate::shared::slices::IndexSpace;
use crate::worker::Worker;
use crate::worker::evict::{self, From};
use crate::worker::outbound::{self, AfterCommit, Leftover};
use crate::worker::transaction::{self, Failure, LOCKED};

/// The most ranges in one transaction.
const BATCH: usize = 256;

impl Worker {
    /// Returns the orphaned slices of this database to the pools. Writes the others, and the leases
    /// of rolled back transactions, to the catalog. Waits no longer than `patience` for a lock on
    /// the tables. Returns whether nothing is left.
    pub(super) fn adopt_leftovers(&mut self, patience: Duration) -> bool {
        let (shared, database) = (self.shared, self.database.to_u32());
        let (mut slices, mut all) = (Vec::new(), true);
        for slice in shared.orphans() {
            let Some(state) = slice.orphan_state() else { continue };
            let (index_space, rest) = (slice.index_space(), slice.rest());
            if index_space.key.database != database || !slice.begin_leaving(state) {
                continue;
            }
            if shared.return_range(&index_space, rest) {
                shared.adopt(slice);
            } else {
                slice.stays();
                all &= slices.try_push(Leftover::Slice { slice, state, index_space, rest }).is_ok();
            }
        }
        let ours = |held: &Place| held.index_space.key.database == database;
        let dead = || shared.dead_pending().filter(ours).map(Leftover::Lease);
        // There may be thousands. Leftovers without memory for them are left to the next call.
        let leases = memory::try_collect(dead()).unwrap_or_else(|_| {
            all = false;
            dead().take(BATCH).collect()
        });
        // Until a transaction commits, the ranges that it writes still count as held. So it writes
        // an index space once.
        for mut leftovers in [slices, leases] {
            leftovers.sort_unstable_by_key(|leftover| {
                let IndexSpace { key, node, epoch } = *leftover.index_space();
                (key.extension, key.sequence, node, epoch, leftover.range())
            });
            for batch in leftovers.chunks(BATCH) {
                match self.write_each(batch, patience) {
                    Ok(done) => all &= done,
                    // Somebody has locked a table: nothing can be written now.
                    Err(_) => return false,
                }
                if !transaction::is_ending() {
                    self.serve();
                }
            }
        }
        all
    }

    pub(super) fn has_leftovers(&self) -> bool {
        let database = self.database.to_u32();
        self.shared.orphans().any(|slice| slice.index_space().key.database == database)
            || self.shared.dead_pending().any(|held| held.index_space.key.database == database)
    }

    /// Writes orphans to the catalog in one transaction. If that fails, it writes those of each
    /// index space in a transaction of their own, so that a fault stops only its own sequence.
    /// Returns whether all of them were written; fails only if a table is locked.
    fn write_each(&mut self, batch: &[Leftover], patience: Duration) -> Result<bool, Failure> {
        match self.write(batch, patience) {
            Err(failure) if failure.sqlstate != LOCKED => {}
            done => return done,
        }
        let mut all = true;
        for same in batch.chunk_by(|one, other| one.index_space() == other.index_space()) {
            all &= match self.write(same, patience) {
                Ok(done) => done,
                Err(failure) if failure.sqlstate == LOCKED => return Err(failure),
                Err(failure) => {
                    let sequence = same[0].index_space().key.sequence;
                    self.complain("return or write off values", sequence, &failure);
                    false
                }
            };
        }
        Ok(all)
    }

    /// Writes orphans to the catalog in one transaction. Returns whether all of them were written:
    /// another transaction may have locked a position.
    fn write(&self, batch: &[Leftover], patience: Duration) -> Result<bool, Failure> {
        let shared = self.shared;
        transaction::run_within(patience, c"hilo: writing what is left", || {
            // Ranges of a dropped extension belong to no sequence any more.
            if !catalog_tables::is_installed()? {
                return outbound::begin(shared, batch).map(|_| true);
            }
            let mut all = true;
            for same in batch.chunk_by(|one, other| one.index_space() == other.index_space()) {
                let index_space = same[0].index_space();
                let marked = outbound::begin(shared, same)?;
                let ranges: Vec<Range> = marked.iter().map(Leftover::range).collect();
                let from = match same[0] {
                    Leftover::Slice { .. } => From::Slice,
                    Leftover::Lease(_) => From::Lease,
                };
                if !ranges.is_empty()
                    && let AfterCommit::RowLocked =
                        evict::write(shared, index_space, &ranges, from)?
                {
                    all = false;
                    outbound::cancel(shared, marked.len());
                }
            }
            Ok(all)
        })
    }
}
