//! What sessions have left behind for want of a place: to the pool, or else to the catalog.

use hilo_core::range::Range;

use super::Worker;
use super::evict::{From, Outcome, write};
use super::transaction;
use crate::catalog;
use crate::errors::HiloError;
use crate::shared::slices::{IndexSpace, Slice};

/// The most slices in one transaction.
const BATCH: usize = 256;

/// A slice that was left behind, and what is in it.
type Orphan = (&'static Slice, IndexSpace, Range);

impl Worker {
    /// Takes over the slices that were left behind in this database. Whether none is left.
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

    /// Whether all of them are in the catalog.
    fn write_orphans(&self, batch: &[Orphan]) -> bool {
        let shared = self.shared;
        let done = transaction::run_within(self.patience(), c"hilo: returning slices", || {
            let ids = match catalog::catalog_oids() {
                // What is of an extension that was dropped is nobody's.
                Err(HiloError::NotInstalled) => return Ok(vec![true; batch.len()]),
                found => found?,
            };
            let mut done = vec![None; batch.len()];
            for (at, (_, index_space, _)) in batch.iter().enumerate() {
                if done[at].is_some() {
                    continue;
                }
                // All of one sequence together: until the commit each of its slices is still held.
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
