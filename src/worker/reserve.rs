//! One reservation: what is written for one sequence inside the worker's transaction.

use std::collections::HashMap;

use hilo_core::numbers::{Epoch, Index, SequenceId};
use hilo_core::policy::{self, Ahead, Remaining, Settings};
use hilo_core::range::Range;
use hilo_core::rate::Demand;
use hilo_core::source::LendRequest;

use crate::catalog::lease::leases;
use crate::catalog::numbers::owned_position::{
    self, CountedPosition, Kind, LentRows, OwnedPosition, SourcedPosition,
};
use crate::catalog::rows::catalog_tables::catalog_oids;
use crate::catalog::rows::name::Name;
use crate::catalog::rows::table;
use crate::catalog::rows::table::{LockWait, RowLock, next_command};
use crate::catalog::sequence::definitions::{self, Sequence};
use crate::catalog::sequence::node::LocalNode;
use crate::catalog::sequence::numbering;
use crate::catalog::sequence::positions::{self, LockedPosition};
use crate::errors::HiloError;
use crate::gucs;
use crate::process::{ffi, memory};
use crate::shared::Shared;
use crate::shared::askers::Owner;
use crate::shared::inventory::HeldRanges;
use crate::shared::key::Key;
use crate::shared::shared_name::SharedName;
use crate::shared::slices::IndexSpace;
use crate::shared::slot::Terms;
use crate::shared::totals::Totals;
use crate::worker::askers::Asks;
use crate::worker::auto_create;
use crate::worker::plan::Plan;

/// The result of a reservation.
pub enum Outcome {
    /// Another transaction has locked the row, the definition or a table, or the row has an earlier
    /// epoch than the slot.
    Locked,
    /// The sequence has gone, or it is gapless.
    Gone,
    /// The slot holds ranges of another node than this server is now.
    OtherNode,
    /// Nobody waits for it, and this server has not served it, or not since it was promoted or
    /// restored, or may not serve it. Or its own blocks are large.
    NotOurs,
    /// The row does not name this life of memory, so the slot's ranges do not belong to it.
    Foreign,
    Reserved(Box<Reserved>),
}

/// A reservation that was written: what the slot is told after the commit.
pub struct Reserved {
    pub name: Name,
    pub epoch: Epoch,
    pub terms: Terms,
    /// Where the position is now.
    pub next_index: Index,
    /// The position when it was locked.
    pub totals: Totals,
    /// Whether what was leaving memory is in the catalog.
    pub left: bool,
    /// The level of exhaustion to warn of, once the block is published.
    pub passed: Option<u8>,
    pub taken: Taken,
}

/// The ranges that a slot gets.
pub struct Taken {
    /// In order; none if none was needed.
    pub blocks: Vec<Range>,
    /// Free ranges that were reloaded from the catalog.
    pub free: Vec<Range>,
    /// Zero if more can be reserved. Otherwise the end of the highest free range that stays in the
    /// catalog; the highest index if the worker has yet to file ended leases.
    pub free_end: Index,
    /// The block size that was decided on.
    pub size: i64,
    pub threshold: i64,
    /// The source that has been asked and not answered.
    pub asks: Option<Asks>,
    /// Whether there is nothing to lend before the source answers.
    pub awaits: bool,
}

/// The rows of the sequences that are reserved for together, found by one scan of each table at the
/// most.
pub struct Batch {
    positions: HashMap<SequenceId, RowLock<LockedPosition>>,
    definitions: HashMap<SequenceId, Sequence>,
}

impl Batch {
    /// Locks the positions that exist, and then reads the definitions: the meaning of the indexes
    /// changes under these locks only.
    ///
    /// # Errors
    /// `OutOfMemory`, and those of reading the catalog.
    pub fn lock(plans: &[Plan], here: &LocalNode) -> Result<Batch, HiloError> {
        let there = plans.iter().filter(|plan| plan.create.is_none());
        let ids = memory::try_collect(there.map(|plan| plan.index_space.key.sequence.0))?;
        let positions = positions::lock_all(&ids, here.id)?;
        Ok(Batch { positions, definitions: definitions::by_ids(&ids)? })
    }

    fn position(
        &mut self,
        id: SequenceId,
        here: &LocalNode,
    ) -> Result<RowLock<LockedPosition>, HiloError> {
        match self.positions.remove(&id) {
            Some(found) => Ok(found),
            None => {
                // Its definition may have changed since it was read.
                self.definitions.remove(&id);
                positions::lock(id, here.id, LockWait::Skip)
            }
        }
    }

    fn definition(&mut self, locked: &LockedPosition) -> Result<RowLock<Sequence>, HiloError> {
        match self.definitions.remove(&locked.position.sequence) {
            Some(found) if locked.position.is_ours() => Ok(RowLock::Locked(found)),
            _ => locked.definition(),
        }
    }
}

/// Reserves for one sequence.
pub fn reserve(
    shared: &'static Shared,
    here: &LocalNode,
    batch: &mut Batch,
    plan: &Plan,
) -> Result<Outcome, HiloError> {
    let Key { extension, sequence: id, .. } = plan.index_space.key;
    // The slot is that of an extension that was dropped. A restored one may have a sequence with
    // the same id.
    if extension != catalog_oids()?.extension.to_u32() {
        return Ok(Outcome::Gone);
    }
    if plan.index_space.node >= 0 && plan.index_space.node != here.id {
        return Ok(Outcome::OtherNode);
    }
    // Once the sequence exists, the slot has no request any more.
    if let Some(request) = &plan.create {
        return first_of_all(shared, here, plan, request);
    }
    let locked = match batch.position(id, here)? {
        RowLock::Skipped => return Ok(Outcome::Locked),
        RowLock::Missing if plan.is_ahead() => return Ok(Outcome::NotOurs),
        RowLock::Missing => return first_on_node(shared, here, batch, plan),
        RowLock::Locked(locked) => locked,
    };
    // A position that another server serves is taken over only when a session uses it.
    if plan.is_ahead() && (!locked.position.is_ours() || locked.position.may_lack()) {
        return Ok(Outcome::NotOurs);
    }
    let sequence = match batch.definition(&locked)? {
        RowLock::Skipped => return Ok(Outcome::Locked),
        // Nothing is reserved of a gapless sequence.
        RowLock::Locked(sequence) if !sequence.definition.gapless => sequence,
        RowLock::Locked(_) | RowLock::Missing => return Ok(Outcome::Gone),
    };
    match here.check(&sequence.definition) {
        Err(_) if plan.is_ahead() => return Ok(Outcome::NotOurs),
        may => may?,
    }
    let block_size = sequence.definition.block_size;
    if plan.is_ahead() && policy::ahead(1, &gucs::refill(block_size)).is_none() {
        return Ok(Outcome::NotOurs);
    }
    if locked.position.epoch < plan.index_space.epoch {
        return Ok(Outcome::Locked);
    }
    // Memory has no range before the row names its life, and the row does so while it has any.
    let same = locked.position.epoch == plan.index_space.epoch;
    if same && plan.seen.holds && locked.position.incarnation != shared.life() {
        return Ok(Outcome::Foreign);
    }
    owned_position::with_position(shared.life(), &sequence, &locked, |owned| {
        take(shared, plan, &sequence, owned)
    })
    .map(|reserved| Outcome::Reserved(Box::new(reserved)))
}

/// Takes a block at the position, and free ranges below it, for a slot; writes the ranges that
/// leave the slot to the catalog.
fn take(
    shared: &'static Shared,
    plan: &Plan,
    sequence: &Sequence,
    owned: &mut OwnedPosition,
) -> Result<Reserved, HiloError> {
    let same = plan.index_space.node == owned.node && plan.index_space.epoch == owned.epoch;
    let leaving: &[Range] = if same { plan.leaving.as_slice() } else { &[] };
    if !leaving.is_empty() {
        // A block among them that was not acknowledged may be served after this commit.
        owned.force_write();
    }
    // If a session is just taking a range, the held ranges are recorded the next time.
    let index_space =
        IndexSpace { key: plan.index_space.key, node: owned.node, epoch: owned.epoch };
    let held = match owned.is_unused() {
        true => Some(HeldRanges::default()),
        false => shared.in_memory(&index_space)?,
    };
    let catalog_current = held.is_some();
    if let Some(held) = held {
        owned.store_free(leaving)?;
        let rows = match leaving.is_empty() {
            true => LentRows::IfHeldBack,
            false => LentRows::Always,
        };
        owned.record_held_ranges(&held.without(leaving)?, rows)?;
    }
    let totals = owned.totals;
    let available = if same { plan.seen.available } else { 0 };
    let taken = match owned.kind() {
        Kind::Counted(mut counted) => reserve_block(sequence, &mut counted, plan, available)?,
        Kind::Sourced(mut sourced) => lend_received(sequence, &mut sourced, plan, available)?,
    };
    owned.count(plan.counted.total_beside(totals));
    Ok(Reserved {
        name: sequence.name.clone(),
        epoch: owned.epoch,
        terms: owned.terms(sequence),
        next_index: owned.next_index,
        totals,
        left: catalog_current && same,
        passed: None,
        taken,
    })
}

/// Adds a sequence that a session has asked for. Its position is written once, with the block.
fn first_of_all(
    shared: &'static Shared,
    here: &LocalNode,
    plan: &Plan,
    request: &SharedName,
) -> Result<Outcome, HiloError> {
    let id = plan.index_space.key.sequence;
    let Some((sequence, position)) = auto_create::create(here, id, request)? else {
        return Ok(Outcome::Gone);
    };
    owned_position::with_new_position(shared.life(), &sequence, position, |owned| {
        take(shared, plan, &sequence, owned)
    })
    .map(|reserved| Outcome::Reserved(Box::new(reserved)))
}

/// Makes the position of a node that has not drawn from this sequence before. The definition is
/// locked until the position exists: see sql/triggers.sql.
fn first_on_node(
    shared: &'static Shared,
    here: &LocalNode,
    batch: &mut Batch,
    plan: &Plan,
) -> Result<Outcome, HiloError> {
    match definitions::lock(plan.index_space.key.sequence, LockWait::Skip)? {
        RowLock::Skipped => Ok(Outcome::Locked),
        RowLock::Missing => Ok(Outcome::Gone),
        RowLock::Locked(locked) => {
            if locked.sequence.definition.source.is_some() && gucs::node_count() > 1 {
                let (name, nodes) = (locked.sequence.name.to_string(), gucs::node_count());
                return Err(HiloError::SourceNodes { name, nodes });
            }
            positions::insert(&numbering::join(&locked.sequence, here)?)?;
            table::next_command();
            reserve(shared, here, batch, plan)
        }
    }
}

/// The policy for one reservation.
struct Sizes {
    settings: Settings,
    room: Remaining,
    /// The block that suits the demand.
    block: i64,
    /// How much to read ahead, if no session waits.
    ahead: Option<Ahead>,
}

impl Sizes {
    fn new(sequence: &Sequence, plan: &Plan, room: Remaining) -> Sizes {
        let settings = gucs::refill(sequence.definition.block_size);
        let block = policy::next_block(plan.needs.block, &plan.needs.demand, room, &settings);
        let ahead = policy::ahead(block, &settings).filter(|_| plan.is_ahead());
        Sizes { settings, room, block, ahead }
    }

    /// How many indexes to take for a slot that has `available` ones, if sessions wait for `need`.
    fn count(&self, available: i64, need: i64, demand: &Demand) -> i64 {
        let Sizes { settings, room, block, .. } = self;
        policy::reservation_size(available, need, *block, demand, *room, settings)
    }
}

/// Takes a block at the position, and free ranges below it. `available`: how much of the position's
/// epoch the slot has.
fn reserve_block(
    sequence: &Sequence,
    position: &mut CountedPosition,
    plan: &Plan,
    available: i64,
) -> Result<Taken, HiloError> {
    let Plan { needs, room, .. } = plan;
    let free = position.lend(room.ranges, room.from)?;
    let (limit, start) = (position.terms(sequence).mapping.limit(), position.next_index);
    let whole = limit - Index::ZERO;
    let sizes =
        Sizes::new(sequence, plan, Remaining { whole, left: Range::new(start, limit).len() });
    let restored: i64 = free.iter().map(Range::len).sum();
    let count = match sizes.ahead {
        Some(_) if restored > 0 => 0,
        Some(ahead) => ahead.count.min(sizes.room.left),
        None => {
            let need = if needs.count <= 1 && restored > 0 { 0 } else { needs.count };
            sizes.count(available, need, &needs.demand)
        }
    };
    let block = Range::with_len(start, count);
    let left = Remaining { left: limit - block.end, ..sizes.room };
    let threshold = match sizes.ahead {
        Some(ahead) if left.left > 0 => ahead.threshold,
        _ => policy::threshold(sizes.block, &needs.demand, left, &sizes.settings),
    };
    position.reserve(block, policy::failover_skip(whole, needs.demand.per_second, &sizes.settings));
    Ok(Taken {
        blocks: Some(block).filter(|block| !block.is_empty()).into_iter().collect(),
        free,
        free_end: free_end(sequence, position, limit)?,
        size: sizes.block,
        threshold,
        asks: None,
        awaits: false,
    })
}

/// See [`Taken::free_end`].
fn free_end(
    sequence: &Sequence,
    position: &mut CountedPosition,
    limit: Index,
) -> Result<Index, HiloError> {
    if position.next_index < limit || sequence.definition.ordered {
        return Ok(Index::ZERO);
    }
    next_command();
    match leases::any_ended(sequence.id, position.node)? {
        true => Ok(Index::MAX),
        false => position.free_end(),
    }
}

/// Takes ranges that a source has brought, and asks it for more if few are left.
fn lend_received(
    sequence: &Sequence,
    position: &mut SourcedPosition,
    plan: &Plan,
    available: i64,
) -> Result<Taken, HiloError> {
    let mut state = position.state()?;
    let Plan { needs, room, .. } = plan;
    let whole = position.terms(sequence).mapping.limit() - Index::ZERO;
    let sizes = Sizes::new(sequence, plan, Remaining { whole, left: whole });
    let count = match sizes.ahead {
        Some(ahead) => ahead.count,
        None => sizes.count(available, needs.count, &needs.demand),
    };
    let (from, need) = (room.from, needs.count);
    let lent = position.lend_received(&LendRequest {
        room: room.ranges,
        from,
        count,
        places: room.blocks,
        need,
    })?;
    let len: i64 = lent.blocks.iter().map(Range::len).sum();
    let pace = policy::SourcePace {
        ahead: sequence.definition.reserve_ahead,
        latency: state.latency as f64 / 1_000_000.0,
    };
    let held = available + len + lent.left;
    // A source does not take values back, and answers one request after the other.
    let wanted = match plan.is_ahead() {
        true => 0,
        false => {
            let Sizes { block, settings, .. } = &sizes;
            policy::request_size(held, lent.unmet, *block, &needs.demand, &pace, whole, settings)
        }
    };
    let is_asked = position.request(&mut state, wanted)?;
    let key = plan.index_space.key;
    let owner = Owner { database: key.database, role: sequence.owner.to_u32() };
    let asks = is_asked.then(|| Asks { owner, key, rests: state.rests(ffi::now()) });
    let awaits =
        is_asked && len == 0 && lent.returned.is_empty() && (lent.left == 0 || lent.unmet > 0);
    Ok(Taken {
        blocks: lent.blocks,
        free: lent.returned,
        free_end: Index::ZERO,
        size: sizes.block,
        threshold: policy::threshold(sizes.block, &needs.demand, sizes.room, &sizes.settings),
        asks,
        awaits,
    })
}
