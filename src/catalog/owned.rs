//! The positions that this server's life serves, and what is written about their ranges.
//!
//! Every index below `settled_index` is served, free, leased, recorded as a gap, or in a row of
//! `_hilo.hilo_free_range` that says whose memory holds it. From there to `next_index`, any index
//! may be in the memory of the life that `incarnation` names. So after a crash the catalog alone
//! says what to write off, each index once. This needs those rows and the position to change in one
//! transaction. Therefore [`own`] is the worker's only way to all of them, and it writes the
//! position last. A session that renumbers the sequence writes off all ranges and then the
//! position.

use std::cell::Cell;
use std::ops::Deref;

use hilo_core::numbers::Index;
use hilo_core::past::Span;
use hilo_core::range::Range;
use hilo_core::source::{self, Chosen, Known, Lost, Wish};

use crate::catalog::definitions::Sequence;
use crate::catalog::gaps::{self, Reason};
use crate::catalog::positions::{self, LockedPosition, Position};
use crate::catalog::source_query::Answer;
use crate::catalog::sources::{self, Supply};
use crate::catalog::takeover::{discards_free, reason, skip};
use crate::catalog::{leases, node, ranges};
use crate::errors::HiloError;
use crate::process::ffi;
use crate::process::memory::TryGrow;
use crate::shared::inventory::InMemory;
use crate::shared::totals::Totals;

/// When each range in memory below the pool gets a row of its own.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum LentRows {
    Always,
    /// If a range that a session keeps for long holds `settled_index` back.
    IfHeldBack,
}

/// A locked position of this server, for the life whose memory has its ranges.
pub struct Owned<'a> {
    sequence: &'a Sequence,
    position: Position,
    /// Whether the row is written even if it has not changed.
    touched: bool,
    /// Whether there may be rows of ranges below the position; `None`: that was not looked at.
    has_rows: Cell<Option<bool>>,
}

/// Makes a locked position this server's, for the life `life`, and has `work` write what becomes of
/// its ranges. Then the position is written, whatever `work` returns: what a takeover writes off
/// without its position would be written off again.
///
/// # Errors
/// `NodeUnset`, those of `work`, and those of writing to the catalog. The transaction has to be
/// rolled back then.
pub fn own<T>(
    life: i64,
    sequence: &Sequence,
    locked: &LockedPosition,
    work: impl FnOnce(&mut Owned) -> Result<T, HiloError>,
) -> Result<T, HiloError> {
    let mut owned = Owned::of(sequence, locked.position);
    let done = owned.hold(life, work)?;
    if owned.touched || owned.position != locked.position {
        locked.update(&owned.position);
    }
    Ok(done)
}

/// The same for the position of a sequence that this transaction has added: its row is written for
/// the first time.
///
/// # Errors
/// As for [`own`].
pub fn own_new<T>(
    life: i64,
    sequence: &Sequence,
    position: Position,
    work: impl FnOnce(&mut Owned) -> Result<T, HiloError>,
) -> Result<T, HiloError> {
    let mut owned = Owned::of(sequence, position);
    let done = owned.hold(life, work)?;
    positions::insert(&owned.position)?;
    Ok(done)
}

impl Deref for Owned<'_> {
    type Target = Position;
    fn deref(&self) -> &Position {
        &self.position
    }
}

impl Owned<'_> {
    fn of(sequence: &Sequence, position: Position) -> Owned<'_> {
        Owned { sequence, position, touched: false, has_rows: Cell::new(None) }
    }

    /// Takes the position over, and does `work`.
    fn hold<T>(
        &mut self,
        life: i64,
        work: impl FnOnce(&mut Self) -> Result<T, HiloError>,
    ) -> Result<T, HiloError> {
        self.take_over(life)?;
        let done = work(self)?;
        if self.sequence.definition.source.is_some() {
            // A row says of each range in memory that it is there.
            self.position.settled_index = self.next_index;
        }
        Ok(done)
    }

    /// Ranges that an earlier life had in memory are written off; ranges that another server may
    /// have reserved beyond the position are skipped.
    fn take_over(&mut self, life: i64) -> Result<(), HiloError> {
        let Owned { sequence, ref mut position, .. } = *self;
        let (system_id, timeline) = positions::server();
        if position.may_lack() && sequence.definition.source.is_none() {
            node::check_no_clone()?;
        }
        if !position.is_ours() {
            node::check_set(position.nodes)?;
        }
        if position.incarnation != life {
            let mapping = position.mapping(&sequence.definition);
            if position.incarnation != 0 {
                ranges::write_off_memory(position, &mapping, &[], reason(position))?;
            }
            let replicated = position.is_replicated();
            let definition = &sequence.definition;
            if discards_free(position, definition) {
                ranges::write_off(position, definition, Vec::new(), Reason::Restored)?;
            }
            if replicated {
                // The other server's values belong to the old epoch, so this server continues under
                // a new one.
                position.epoch = position.epoch.next();
            }
            position.incarnation = life;
            position.settled_index = position.next_index;
        }
        // The other server has not got the values that the source gives from now on.
        if position.may_lack() && sequence.definition.source.is_none() {
            skip(sequence, position)?;
        }
        (position.system_id, position.timeline) = (system_id, timeline);
        Ok(())
    }

    /// Whether nothing has been reserved in this epoch. Then there is no row of a range, and memory
    /// holds nothing. Only the position tells it. A new slot does not know whether sessions hold
    /// ranges of its sequence: it would have to look at all of theirs.
    pub fn is_unused(&self) -> bool {
        self.sequence.definition.source.is_none() && !self.position.has_reserved()
    }

    /// Whether there may be rows of ranges below the position. Most sequences have none, and one
    /// look tells it for all that is done here.
    fn has_rows(&self) -> Result<bool, HiloError> {
        if let Some(known) = self.has_rows.get() {
            return Ok(known);
        }
        let any = !self.is_unused() && ranges::any(&self.position)?;
        self.has_rows.set(Some(any));
        Ok(any)
    }

    /// To be called by whatever writes rows of ranges.
    fn writes_rows(&self) {
        self.has_rows.set(Some(true));
    }

    /// Has the row written even if it does not change, so that the commit waits for the standby.
    pub fn touch(&mut self) {
        self.touched = true;
    }

    /// Brings the catalog up to date with what memory holds.
    ///
    /// `settled_index` follows the lowest range that is held. A range that a session keeps for long
    /// would hold it back, and a crash would then write off all that was served since. In that case
    /// `settled_index` rises to the first index that no session has taken from the pool. The ranges
    /// below that get rows of their own. With [`LentRows::Always`] this is done in any case.
    pub fn account(&mut self, held: &InMemory, rows: LentRows) -> Result<(), HiloError> {
        if self.sequence.definition.source.is_some() {
            // In a copy of the database, the rows are of what the other one's memory held.
            self.supply()?;
            return ranges::trim_lent(self, &held.ranges, rows == LentRows::Always);
        }
        let has_rows = self.has_rows()?;
        let position = &mut self.position;
        let end = position.next_index;
        let taken_to = held.first_untaken.unwrap_or(end).min(end).max(position.settled_index);
        let lowest = held
            .ranges
            .iter()
            .filter(|range| range.end > position.settled_index)
            .map(|range| range.start.max(position.settled_index))
            .min()
            .unwrap_or(end);
        let held_back = lowest == position.settled_index && lowest < taken_to;
        if rows == LentRows::Always || held_back {
            position.settled_index = taken_to;
            ranges::write_lent(position, position.incarnation, &held.ranges)?;
            self.writes_rows();
            return Ok(());
        }
        position.settled_index = lowest.min(end);
        match has_rows {
            true => ranges::forget_lent(position, &held.ranges),
            false => Ok(()),
        }
    }

    /// Writes ranges that leave memory: they become free, or, for an ordered sequence, which never
    /// goes back, they are written off.
    pub fn put(&self, leaving: &[Range]) -> Result<(), HiloError> {
        if leaving.is_empty() {
            return Ok(());
        }
        self.writes_rows();
        match self.sequence.definition.ordered {
            true => self.write_off(leaving),
            false => {
                let mapping = self.position.mapping(&self.sequence.definition);
                ranges::put_free(self, &mapping, leaving)
            }
        }
    }

    /// Writes the ranges that leave memory with the pool: the position is lowered by what is at the
    /// top.
    pub fn put_and_lower(&mut self, leaving: &[Range]) -> Result<(), HiloError> {
        if self.sequence.definition.ordered {
            let mut rest = Range::union(leaving.to_vec());
            // The others remain: the sequence never goes back to them.
            if let Some(top) = rest.pop_if(|last| last.end == self.position.next_index) {
                self.position.lower(top.start);
            }
            return self.put(&rest);
        }
        self.put(leaving)?;
        match self.sequence.definition.source {
            None => ranges::lower(&mut self.position),
            // Ranges above are not reserved at the position, and free.
            Some(_) => ranges::lower_into(&mut self.position),
        }
    }

    /// Records that ranges which had no other owner will not be served.
    pub fn write_off(&self, lost: &[Range]) -> Result<(), HiloError> {
        let lost = Range::union(lost.to_vec());
        gaps::record(self, &self.mapping(&self.sequence.definition), &lost, Reason::Discarded)
    }

    /// Lends free ranges to memory: see [`ranges::lend`].
    pub fn lend(&self, limit: usize, from: Index) -> Result<Vec<Range>, HiloError> {
        match self.sequence.definition.ordered || !self.has_rows()? {
            true => Ok(Vec::new()),
            false => ranges::lend(self, self.incarnation, limit, from),
        }
    }

    /// The known state of the source. In a copy of the database, what the source has brought is the
    /// other's: it is written off.
    pub fn supply(&mut self) -> Result<Supply, HiloError> {
        let mut supply = sources::of(self)?;
        let before = supply.database;
        if supply.take_over() {
            if ![0, supply.database].contains(&before) {
                let definition = &self.sequence.definition;
                let mapping = self.mapping(definition);
                ranges::write_off_memory(self, &mapping, &[], Reason::Restored)?;
                ranges::write_off(self, definition, Vec::new(), Reason::Restored)?;
            }
            sources::write(self, &supply)?;
        }
        Ok(supply)
    }

    /// Notes that the source has failed.
    pub fn note_failure(&self, supply: &mut Supply, error: String) -> Result<(), HiloError> {
        supply.failures = supply.failures.saturating_add(1);
        (supply.last_error, supply.last_error_at) = (Some(error), Some(ffi::now()));
        sources::write(self, supply)
    }

    /// Lends to memory what it gets next of what the source has brought. The position is where that
    /// ends.
    pub fn lend_received(&mut self, wish: &Wish) -> Result<Chosen, HiloError> {
        let chosen = ranges::lend_chosen(self, self.incarnation, wish)?;
        if let Some(last) = chosen.blocks.last() {
            self.position.next_index = last.end;
        }
        Ok(chosen)
    }

    /// Asks the source for `wanted` values, unless that is 0 or it has been asked: another process
    /// makes the request once this is committed. Returns whether it has been asked.
    pub fn request(&self, supply: &mut Supply, wanted: i64) -> Result<bool, HiloError> {
        if supply.open_request().is_some() {
            return Ok(true);
        }
        // An answer that follows refused ones may be lost, too.
        let wanted = if supply.failures > 0 { wanted.min(1) } else { wanted };
        if wanted > 0 {
            supply.ask(wanted);
            sources::write(self, supply)?;
        }
        Ok(wanted > 0)
    }

    /// Ends the open request with its answer, which took so many microseconds: its ranges become
    /// free. Returns why they do not. The same request would be answered the same, and what it
    /// would have brought is lost. So is a part that may have been served before.
    pub fn receive(
        &mut self,
        supply: &mut Supply,
        answer: &Answer,
        took: i64,
    ) -> Result<Option<HiloError>, HiloError> {
        let Owned { sequence, ref position, .. } = *self;
        let mapping = position.mapping(&sequence.definition);
        let mut held = ranges::free_of(position)?;
        held.try_extend(ranges::lent_ranges(position)?)?;
        held.try_extend(leases::leased_ranges(position)?)?;
        supply.request = None;
        let known =
            Known { mapping: &mapping, held: &held, own: &supply.own, brought: &supply.brought };
        let brought = match source::ranges(&answer.rows, &known) {
            _ if answer.has_null => Err(HiloError::AnswerType),
            brought => brought.map_err(HiloError::from),
        };
        // It may have been refused before: each value becomes a gap once.
        let gaps = || -> Result<Vec<_>, HiloError> {
            let gaps = gaps::of_node(position.sequence, position.node)?;
            Ok(gaps.iter().map(|gap| (gap.first, gap.last)).collect())
        };
        let brought = match brought {
            Ok(brought) if brought.barred.is_empty() => brought.ranges,
            Ok(brought) => {
                self.record_lost(&known.lost(&brought.barred, &gaps()?))?;
                brought.ranges
            }
            Err(refused) => {
                self.record_lost(&known.lost_of(&answer.rows, &gaps()?))?;
                self.note_failure(supply, refused.in_full())?;
                return Ok(Some(refused));
            }
        };
        self.writes_rows();
        ranges::put_free(position, &mapping.without_bounds(), &brought)?;
        let value = |index| mapping.value(index).unwrap_or(position.base);
        for range in &brought {
            let (first, last) = (value(range.start), value(range.last()));
            supply.brought.add(Span::new(first, last, mapping.increment));
        }
        let count: i64 = brought.iter().map(Range::len).sum();
        supply.received = supply.received.saturating_add(count);
        (supply.latency, supply.failures) = (took.max(0), 0);
        sources::write(position, supply)?;
        Ok(None)
    }

    /// Records what is not served of an answer.
    fn record_lost(&self, lost: &Lost) -> Result<(), HiloError> {
        self.write_off(&lost.new)?;
        let mapping = self.mapping(&self.sequence.definition);
        gaps::record(self, &mapping, &lost.doubtful, Reason::Altered)
    }

    /// Reserves a block at the position. `skip` is what a server now skips that takes over from a
    /// copy of the row.
    pub fn reserve(&mut self, block: Range, skip: i64) {
        self.position.next_index = block.end.max(self.next_index);
        if !block.is_empty() {
            // After a restart the rate is not known yet, so this falls by no more than is reserved
            // meanwhile.
            self.position.skip = skip.max(self.skip - block.len());
        }
    }

    /// Notes what was counted.
    pub fn count(&mut self, totals: Totals) {
        self.position.totals = Totals { served: totals.served.max(0), ..totals };
    }

    /// Corrects how many values were served.
    pub fn correct_served(&mut self, by: i64) {
        let totals = self.position.totals;
        self.count(Totals { served: totals.served + by, ..totals });
    }

    /// Notes that no memory holds anything.
    pub fn release(&mut self) {
        self.position.incarnation = 0;
    }
}
