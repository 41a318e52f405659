//! Takes up the orphaned slices, whose sessions found no room to return them: what is left in them goes to
//! the pool, or else to the catalog.

use hilo_core::range::Range;

use super::Worker;
use super::evict::{From, Outcome, write};
use super::transaction;
use crate::catalog;
use crate::errors::HiloError;
use crate::shared::slices::{IndexSpace, Slice};

/// The most slices in one transaction.
const BATCH: usize = 256;

/// An orphaned slice, its index space, and what is left in it.
type Orphan = (&'static Slice, IndexSpace, Range);

impl Worker {
    /// Returns or writes what the orphaned slices of this database hold, and frees them. Returns whether none
    /// is left.
    pub(super) fn adopt_orphans(&mut self) -> bool {
        let mut rest: Vec<Orphan> = Vec::new();
        for slice in self.shared.orphans() {
            let index_space = slice.index_space();
            if index_space.key.database != self.database.to_u32() {
                continue;
            }
            if self.shared.return_range(&index_space, slice.rest()) {
                self.shared.adopt(slice);
            } else {
                rest.push((slice, index_space, slice.rest()));
            }
        }
        let mut all = true;
        for batch in rest.chunks(BATCH) {
            all &= self.write_orphans(batch);
        }
        all
    }

    pub(super) fn has_orphans(&self) -> bool {
        let database = self.database.to_u32();
        self.shared.orphans().any(|slice| slice.index_space().key.database == database)
    }

    /// Writes orphaned slices to the catalog, and frees those that are done. Returns whether all of them are.
    fn write_orphans(&self, batch: &[Orphan]) -> bool {
        let shared = self.shared;
        let done = transaction::run_within(self.patience(), c"hilo: returning slices", || {
            let ids = match catalog::catalog_oids() {
                // What a slice holds of a dropped extension belongs to no sequence any more.
                Err(HiloError::NotInstalled) => return Ok(vec![true; batch.len()]),
                found => found?,
            };
            let mut done = vec![None; batch.len()];
            for (at, (_, index_space, _)) in batch.iter().enumerate() {
                if done[at].is_some() {
                    continue;
                }
                // All slices of one index space are written together: until the commit, each of them still
                // counts as held.
                let same = |(_, (_, other, _)): &(usize, &Orphan)| other == index_space;
                let (places, ranges): (Vec<usize>, Vec<Range>) = batch
                    .iter()
                    .enumerate()
                    .filter(same)
                    .map(|(at, (.., rest))| (at, *rest))
                    .unzip();
                let gone = index_space.key.extension != ids.extension.to_u32();
                let held = !gone
                    && matches!(
                        write(&ids, shared, index_space, &ranges, From::Slice)?,
                        Outcome::RowLocked
                    );
                places.into_iter().for_each(|place| done[place] = Some(!held));
            }
            Ok(done.into_iter().map(|done| done == Some(true)).collect())
        });
        let done: Vec<bool> = done.unwrap_or_default();
        for ((slice, ..), _) in batch.iter().zip(&done).filter(|(_, done)| **done) {
            shared.adopt(slice);
        }
        done.len() == batch.len() && done.iter().all(|done| *done)
    }
}
