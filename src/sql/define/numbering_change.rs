//! The end of a numbering, and the beginning of the next one.
//!
//! A statement ends the old numbering with [`Restart`] or [`Continuation`]. Which of the two it is
//! also says who draws from the next numbering before the commit. Neither can be turned into the
//! other.

use hilo_core::mapping::{Mapping, first_repeat};
use hilo_core::numbers::{Epoch, Index};
use hilo_core::options::Definition;
use hilo_core::range::Range;

use crate::catalog::numbers::range_rows::RangeRows;
use crate::catalog::numbers::ranges;
use crate::catalog::rows::table::{LockWait, RowLock, next_command};
use crate::catalog::sequence::definitions::Sequence;
use crate::catalog::sequence::gaps::{self, Reason};
use crate::catalog::sequence::node::{self, LocalNode};
use crate::catalog::sequence::numbering::{self, Numbering};
use crate::catalog::sequence::positions::{self, LockedPosition, Position};
use crate::catalog::sequence::takeover;
use crate::errors::HiloError;
use crate::session::invalidation::{self, Change};
use crate::session::uncommitted::{Continued, Origin};
use crate::session::{gapless, slice_table, uncommitted};
use crate::shared;
use crate::sql::define::unserved::index_space;

/// How this node begins with a sequence if it has no position.
type First = fn(&Sequence, &LocalNode) -> Result<Position, HiloError>;

/// Begins as with a new sequence, because the caller renumbers it at once.
fn first_position(sequence: &Sequence, here: &LocalNode) -> Result<Position, HiloError> {
    Ok(Position::first(sequence, here.id))
}

/// Locks this node's position, and makes the first one if this node has none yet.
fn lock_position(sequence: &Sequence, first: First) -> Result<LockedPosition, HiloError> {
    let here = node::serves(sequence)?;
    loop {
        match positions::lock(sequence.id, here.id, LockWait::Block)? {
            RowLock::Locked(locked) => return Ok(locked),
            _ => {
                positions::insert(&first(sequence, &here)?)?;
                next_command();
            }
        }
    }
}

/// Locks the numbers of a sequence that is about to end.
pub fn lock(sequence: &Sequence) -> Result<(), HiloError> {
    lock_position(sequence, numbering::join).map(drop)
}

/// Refuses a sequence whose values come from a source.
pub fn refuse_source(sequence: &Sequence) -> Result<(), HiloError> {
    match sequence.definition.source {
        Some(_) => Err(HiloError::HasSource(sequence.name.to_string())),
        None => Ok(()),
    }
}

/// A numbering that has ended. Until this transaction ends, no session takes from the pool, which
/// is frozen.
struct ClosedNumbering<'a> {
    locked: LockedPosition,
    sequence: &'a Sequence,
    /// Where it ended. Reserved indexes below that were served, or are written off. For leases of
    /// open transactions the commit decides whose they are (`session::invalidation`).
    position: Position,
}

/// A numbering after which a user says where the numbers begin. Only this makes the new numbers the
/// transaction's own.
pub struct Restart<'a>(ClosedNumbering<'a>);

/// A numbering whose numbers continue in the next one. If all sessions share these, a rollback
/// serves them again, so this transaction draws none of them.
pub struct Continuation<'a>(ClosedNumbering<'a>);

impl<'a> ClosedNumbering<'a> {
    fn close(
        sequence: &'a Sequence,
        first: First,
        reason: Reason,
    ) -> Result<ClosedNumbering<'a>, HiloError> {
        let locked = lock_position(sequence, first)?;
        let mut position = locked.position;
        if sequence.definition.gapless {
            // Memory has nothing of it except what this transaction has drawn.
            position.next_index = gapless::progress(sequence.id).unwrap_or(position.next_index);
        } else {
            let lost = take_back(&locked, sequence, &mut position)?;
            let definition = &sequence.definition;
            let rows = &mut RangeRows::write(&position)?;
            ranges::write_off(rows, &position, definition, lost, reason)?;
        }
        position.settled_index = position.next_index;
        Ok(ClosedNumbering { locked, sequence, position })
    }

    fn mapping(&self) -> Mapping {
        self.position.mapping(&self.sequence.definition)
    }

    /// Records that the next numbering begins at `index` of this one, rather than where this one
    /// ended. A sequence that this transaction has just made leaves nothing out, since it has just
    /// joined the other nodes.
    fn jump_to(&self, index: Index) -> Result<(), HiloError> {
        let position = &self.position;
        let unused = position.is_first() && position.next_index == Index::ZERO;
        let others = || positions::of_other_nodes(self.sequence.id, position.node);
        if self.locked.is_own() && unused && others()?.is_empty() {
            return Ok(());
        }
        let jumped = Range::new(position.next_index, index);
        gaps::record(position, &self.mapping(), &[jumped], Reason::Altered)
    }

    /// Writes the next numbering, under this epoch.
    fn open(
        self,
        epoch: Epoch,
        numbering: Numbering,
        next_index: Index,
        origin: Origin,
    ) -> Result<(), HiloError> {
        let (old, mapping) = (self.position, self.mapping());
        let (system_id, timeline) = positions::server();
        let renumbered = self.locked.rewrite(&Position {
            epoch,
            next_index,
            settled_index: next_index,
            incarnation: 0,
            system_id,
            timeline,
            ..with_numbering(&old, numbering)
        });
        next_command();
        let id = self.sequence.id;
        invalidation::note(id, Change::Renumbered { old, mapping, epoch })?;
        uncommitted::note_origin(renumbered, origin)?;
        gapless::note_renumbering(id)
    }
}

impl<'a> Restart<'a> {
    /// # Errors
    /// `HasSource`
    pub fn close(sequence: &'a Sequence) -> Result<Restart<'a>, HiloError> {
        refuse_source(sequence)?;
        Restart::close_any(sequence)
    }

    /// Closes a numbering, which may be that of a source.
    pub fn close_any(sequence: &'a Sequence) -> Result<Restart<'a>, HiloError> {
        ClosedNumbering::close(sequence, first_position, Reason::Altered).map(Restart)
    }

    /// Closes a numbering of which a copy of this server may serve more values.
    pub fn close_copied(sequence: &'a Sequence) -> Result<Restart<'a>, HiloError> {
        ClosedNumbering::close(sequence, first_position, Reason::Restored).map(Restart)
    }

    /// Begins with a numbering that all sessions are to share: this transaction draws nothing.
    pub fn share(self, numbering: Numbering) -> Result<(), HiloError> {
        let epoch = self.0.position.epoch.restart();
        self.0.open(epoch, numbering, Index::ZERO, Origin::Shared)
    }

    pub fn position(&self) -> &Position {
        &self.0.position
    }

    /// Begins at index `next_index` of `numbering`, for a sequence whose definition is `new` from
    /// now on. The values that it jumps over are a gap.
    pub fn open(
        self,
        new: &Definition,
        numbering: Numbering,
        next_index: Index,
    ) -> Result<(), HiloError> {
        let ended = &self.0;
        let old = ended.mapping();
        let mapping = with_numbering(&ended.position, numbering).mapping(new);
        if !old.cycle && !mapping.cycle && (old.increment > 0) == (mapping.increment > 0) {
            let next = mapping.value(next_index);
            ended.jump_to(next.map_or(old.limit(), |next| old.first_index_from(next)))?;
        }
        let epoch = self.0.position.epoch.restart();
        self.0.open(epoch, numbering, next_index, Origin::New)
    }

    /// Tells the client if the next numbering goes back to values that may have been served. A
    /// sequence that has served nothing yet has nothing to repeat.
    pub fn notice(&self, new: &Definition, numbering: Numbering, next_index: Index) {
        let ClosedNumbering { sequence, position, .. } = &self.0;
        if position.is_first() && position.next_index == Index::ZERO {
            return;
        }
        let (old, new) = (self.0.mapping(), with_numbering(position, numbering).mapping(new));
        if let Some((first, last)) = first_repeat(&old, position.next_index, &new, next_index) {
            pgrx::notice!(
                "values from {first} to {last} of hilo sequence \"{}\" may be served again",
                sequence.name
            );
        }
    }
}

impl<'a> Continuation<'a> {
    /// Closes a numbering. The next one begins after what another server may have served.
    ///
    /// # Errors
    /// `HasSource`
    pub fn close(sequence: &'a Sequence) -> Result<Continuation<'a>, HiloError> {
        refuse_source(sequence)?;
        let mut ended = ClosedNumbering::close(sequence, numbering::join, Reason::Altered)?;
        if !sequence.definition.gapless && ended.position.may_lack() {
            takeover::skip(sequence, &mut ended.position)?;
        }
        Ok(Continuation(ended))
    }

    pub fn position(&self) -> &Position {
        &self.0.position
    }

    pub fn mapping(&self) -> Mapping {
        self.0.mapping()
    }

    /// Records the indexes between its end and `index` as a gap, because the next numbering begins
    /// there.
    pub fn jump_to(&self, index: Index) -> Result<(), HiloError> {
        self.0.jump_to(index)
    }

    /// Ends it without a next numbering, because the sequence is about to be dropped.
    ///
    /// # Errors
    /// The errors of [`invalidation::note`].
    pub fn end(self) -> Result<(), HiloError> {
        let ClosedNumbering { sequence, position, .. } = &self.0;
        let (old, epoch) = (*position, position.epoch.next());
        let change = Change::Renumbered { old, mapping: self.mapping(), epoch };
        invalidation::note(sequence.id, change)
    }

    /// Continues at index `next_index` of `numbering`.
    pub fn open(self, numbering: Numbering, next_index: Index) -> Result<(), HiloError> {
        let ended = &self.0;
        let own = ended.locked.is_own().then(|| ended.locked.version());
        let origin = match own {
            _ if ended.sequence.definition.gapless => Origin::Gapless(own),
            None => Origin::Shared,
            Some(version) => Origin::Continues(Continued {
                version,
                mapping: ended.mapping(),
                next_index: ended.position.next_index,
            }),
        };
        let epoch = self.0.position.epoch.next();
        self.0.open(epoch, numbering, next_index, origin)
    }
}

/// Takes the ranges that nobody has served back from memory, and lowers the position to where the
/// numbers end. Returns the ranges below that.
fn take_back(
    locked: &LockedPosition,
    sequence: &Sequence,
    position: &mut Position,
) -> Result<Vec<Range>, HiloError> {
    let shared = shared::get()?;
    let mapping = position.mapping(&sequence.definition);
    if locked.is_own() {
        // This transaction has drawn values that it has not written back yet.
        let reached = uncommitted::progress(&locked.version()).unwrap_or_default();
        position.next_index = reached.max(position.next_index);
        return Ok(uncommitted::skips(&locked.version()));
    }
    if position.incarnation != shared.life() {
        if position.incarnation != 0 {
            let reason = takeover::reason(position);
            let rows = &mut RangeRows::write(position)?;
            ranges::write_off_memory(rows, position, &mapping, &[], reason)?;
        }
        return Ok(Vec::new());
    }
    slice_table::return_slices(|entry| entry.id == sequence.id);
    let index_space = index_space(position)?;
    shared.freeze(&index_space.key);
    let arrived = shared.await_worker(&index_space.key);
    // Nothing more can be leased out of a frozen pool.
    let leased = Range::union(shared.pending_of(&index_space));
    let Some(held) = shared.in_memory_soon(&index_space)?.filter(|_| arrived) else {
        // The content of memory cannot be determined, so all ranges that may be there are written
        // off.
        let rows = &mut RangeRows::write(position)?;
        ranges::write_off_memory(rows, position, &mapping, &leased, Reason::Altered)?;
        return Ok(Vec::new());
    };
    let mut lost: Vec<Range> =
        held.ranges.iter().flat_map(|range| range.without(&leased)).collect();
    if held.has_slot && sequence.definition.source.is_none() {
        // These indexes were reserved by a worker that was replaced before it could publish them.
        let known = held.reserved_to.unwrap_or(position.settled_index);
        lost.push(Range::new(known, position.next_index));
    }
    // Nothing from this index on has left the pool, so it counts as not reserved.
    let next = held.first_untaken.or(held.reserved_to);
    position.next_index = next.unwrap_or(position.next_index);
    Ok(lost)
}

/// `position` in another numbering.
pub fn with_numbering(position: &Position, numbering: Numbering) -> Position {
    let Numbering { base, nodes, stripe } = numbering;
    Position { base, nodes, stripe, ..*position }
}
