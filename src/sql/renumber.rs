//! Changes of how a sequence is numbered: `hilo_alter` and `hilo_setval`.

use hilo_core::direction::Direction;
use hilo_core::numbers::Index;
use hilo_core::options::{Definition, Options};
use hilo_core::range::Range;

use super::args::{Args, sql_functions};
use super::ddl::{check_key_format, options};
use super::definer::{By, begin_write, lock_named, lock_owned, required_name};
use super::owned_by::Purpose;
use super::unserved::index_space;
use super::{nextval, owned_by, served_again};
use crate::catalog::column_ref::ColumnRef;
use crate::catalog::definitions::{self, LockedSequence, Sequence};
use crate::catalog::gaps::Reason;
use crate::catalog::missing;
use crate::catalog::node::{self, Here};
use crate::catalog::numbering::{self, Numbering};
use crate::catalog::positions::{self, LockedPosition, Position};
use crate::catalog::privileges::Privileges;
use crate::catalog::ranges;
use crate::catalog::table::{LockWait, RowLock, next_command};
use crate::catalog::{CatalogOids, catalog_oids, takeover};
use crate::errors::{HiloError, OrRaise};
use crate::gucs;
use crate::session::invalidation::{self, Change};
use crate::session::uncommitted::Origin;
use crate::session::{gapless, lease, memo, slice_table, uncommitted};
use crate::shared;

sql_functions!(hilo_alter, hilo_setval);

/// How a new numbering relates to the one before it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Start {
    /// It continues after the last value.
    Continues,
    /// It starts at a value that the caller states.
    Restarts,
}

/// How this node begins with a sequence of which it has no position.
type First = fn(&CatalogOids, &Sequence, &Here) -> Result<Position, HiloError>;

/// Like a new sequence, because the caller renumbers it at once, from a value that its owner states.
fn stated(_: &CatalogOids, sequence: &Sequence, here: &Here) -> Result<Position, HiloError> {
    Ok(Position::first(sequence, here.id))
}

/// The same, but the value is not the owner's: where the other nodes tell how they number it, they come first.
///
/// # Errors
/// `NotNumbered`
fn restarted(_: &CatalogOids, sequence: &Sequence, here: &Here) -> Result<Position, HiloError> {
    numbering::check_told(sequence, here)?;
    Ok(Position::first(sequence, here.id))
}

/// Locks this node's position, and makes the first one if this node has none yet.
fn lock_position(sequence: &Sequence, first: First) -> LockedPosition {
    let ids = catalog_oids().or_raise();
    let here = node::serves(sequence).or_raise();
    loop {
        match positions::lock(&ids, sequence.id, here.id, LockWait::Block).or_raise() {
            RowLock::Locked(locked) => return locked,
            _ => {
                positions::insert(&first(&ids, sequence, &here).or_raise()).or_raise();
                next_command();
            }
        }
    }
}

/// The first index of this node that no session has taken in order, as far as is known. This session returns
/// what it holds first.
fn first_untaken(sequence: &Sequence, position: &Position) -> Index {
    slice_table::return_slices(|entry| entry.id == sequence.id);
    let index_space = index_space(position);
    let held = shared::get().ok().and_then(|shared| shared.in_memory_soon(&index_space));
    held.and_then(|held| held.first_untaken).unwrap_or(position.next_index)
}

/// Closes the numbering of a locked position: freezes the pool, so that no session takes from it until this
/// transaction ends, and returns the position at which the numbering ends. What was reserved below that and
/// not served is written off. A numbering that continues the old one starts after what another server
/// may have reserved.
fn close(locked: &LockedPosition, sequence: &Sequence, start: Start) -> Position {
    let ids = catalog_oids().or_raise();
    let shared = shared::get().or_raise();
    let mut position = locked.position;
    if sequence.definition.gapless {
        // Nothing of it is in memory but what this transaction has drawn.
        position.next_index = gapless::reached(sequence.id).unwrap_or(position.next_index);
        position.settled_index = position.next_index;
        return position;
    }
    let mapping = position.mapping(&sequence.definition);
    let mut lost = Vec::new();
    if locked.is_own() {
        // This transaction has drawn values that it has not written back yet.
        position.next_index =
            uncommitted::reached(&locked.version()).unwrap_or_default().max(position.next_index);
        lost = uncommitted::passed(&locked.version());
    } else if position.incarnation == shared.life() {
        slice_table::return_slices(|entry| entry.id == sequence.id);
        let index_space = index_space(&position);
        lease::freeze(shared, &index_space.key);
        let arrived = shared.await_worker(&index_space.key);
        match shared.in_memory_soon(&index_space).filter(|_| arrived) {
            // What is in memory cannot be determined, so everything that may be there is written off.
            None => ranges::write_off_memory(&ids, &position, &mapping, Reason::Altered).or_raise(),
            Some(held) => {
                // What this transaction has leased out commits or rolls back with the new numbering.
                let own = Range::union(lease::own(&index_space));
                lost = held.ranges.iter().flat_map(|range| range.without(&own)).collect();
                if held.has_slot {
                    // This was reserved by a worker that was replaced before it could publish it.
                    let known = held.reserved_to.unwrap_or(position.settled_index);
                    lost.push(Range::new(known, position.next_index));
                }
                // Nothing from this index on has left the pool, so it counts as not reserved.
                let next = held.first_untaken.or(held.reserved_to);
                position.next_index = next.unwrap_or(position.next_index);
            }
        }
    } else if position.incarnation != 0 {
        let reason = takeover::reason(&position);
        ranges::write_off_memory(&ids, &position, &mapping, reason).or_raise();
    }
    ranges::write_off(&ids, &position, &mapping, lost, Reason::Altered).or_raise();
    position.settled_index = position.next_index;
    if start == Start::Continues && position.may_lack() {
        takeover::skip(&ids, sequence, &mut position).or_raise();
    }
    position
}

/// Renumbers a sequence: it continues under the next epoch, from index `next_index` of `numbering` on.
fn renumber(
    locked: &LockedPosition,
    sequence: &Sequence,
    old: &Position,
    numbering: Numbering,
    next_index: Index,
    start: Start,
) {
    let epoch = old.epoch.next();
    let origin = match start {
        Start::Restarts => Origin::New,
        Start::Continues if sequence.definition.gapless => {
            Origin::Gapless(locked.is_own().then(|| locked.version()))
        }
        Start::Continues if locked.is_own() => {
            Origin::Continues(locked.version(), old.mapping(&sequence.definition))
        }
        Start::Continues => Origin::Shared,
    };
    let (system_id, timeline) = positions::server();
    let renumbered = locked.rewrite(&Position {
        epoch,
        base: numbering.base,
        next_index,
        settled_index: next_index,
        incarnation: 0,
        nodes: numbering.nodes,
        stripe: numbering.stripe,
        system_id,
        timeline,
        ..*old
    });
    next_command();
    invalidation::note(sequence.id, Change::Renumbered { node: old.node, epoch }).or_raise();
    uncommitted::wrote(renumbered.or_raise(), origin).or_raise();
    gapless::renumbered(sequence.id).or_raise();
}

/// `hilo_alter(name, …)`: changes the options that are not null. Only the owner may do so.
fn hilo_alter(args: Args) {
    begin_write(c"hilo_alter()");
    let name = required_name(args);
    let (options, restart) = (options(args), args.int8(11));
    let owned_by =
        args.optional(13).map(|_| owned_by::parse(args.bytes(13), Purpose::Own).or_raise());
    let owned = lock_owned(name);
    alter(&owned, &options, owned_by.unwrap_or(owned.sequence.owned_by), restart);
}

/// Changes the options of a locked sequence and the column that owns it, and restarts it if `restart` says where.
pub(super) fn alter(
    owned: &LockedSequence,
    options: &Options,
    owned_by: Option<ColumnRef>,
    restart: Option<i64>,
) {
    let old = owned.sequence.clone();
    if let Some(column) = owned_by.filter(|_| owned_by != old.owned_by) {
        owned_by::check(column, old.owner).or_raise();
    }
    // An error in the options is raised before the pool is frozen.
    old.definition.alter(options, None, restart).or_raise();
    let nodes = gucs::node_count();
    if options.gapless == Some(true) && !old.definition.gapless && nodes > 1 {
        HiloError::GaplessNodes { name: old.name.to_string(), nodes }.raise();
    }
    if !renumbers(&old.definition, options) && restart.is_none() {
        return redefine(owned, options, owned_by);
    }
    let mut new = Sequence { owned_by, ..old.clone() };
    let (start, first): (_, First) = match restart {
        Some(_) => (Start::Restarts, stated),
        None => (Start::Continues, numbering::joined),
    };
    let locked = lock_position(&old, first);
    let position = close(&locked, &old, start);
    let last = position.last_value(&old.definition);
    new.definition =
        old.definition.alter(options, last.or(Some(position.base)), restart).or_raise();
    check_key_format(&new.definition, &new.name).or_raise();
    let (numbering, next_index) = match restart {
        Some(base) => {
            (numbering::starting_at(&old, &position, &new.definition, base).or_raise(), Index::ZERO)
        }
        None => continued(&position, &old).or_raise(),
    };
    owned.update(&new);
    invalidation::note(old.id, Change::Terms).or_raise();
    if start == Start::Restarts {
        let mapping = numbered(&position, numbering).mapping(&new.definition);
        served_again::notice(&old, &position, &mapping, next_index);
    }
    renumber(&locked, &old, &position, numbering, next_index, start);
}

/// Changes options that leave each index its value. The position stays as it is, so this transaction draws
/// from the pool as every other session does, and its rollback returns nothing.
fn redefine(locked: &LockedSequence, options: &Options, owned_by: Option<ColumnRef>) {
    let old = &locked.sequence;
    let position =
        positions::find(&catalog_oids().or_raise(), old.id, node::id().or_raise()).or_raise();
    let current = position.map(|position| {
        let written = positions::find_written(old.id, position.node).or_raise();
        let next_index = match written.and_then(|(_, version)| uncommitted::reached(&version)) {
            Some(reached) => reached,
            None => first_untaken(old, &position),
        };
        let taken = Position { next_index, ..position };
        taken.last_value(&old.definition).unwrap_or(position.base)
    });
    let mut new = Sequence { owned_by, ..old.clone() };
    new.definition = old.definition.alter(options, current, None).or_raise();
    check_key_format(&new.definition, &new.name).or_raise();
    locked.update(&new);
    invalidation::note(old.id, Change::Terms).or_raise();
}

/// Makes a sequence continue beyond `taken`, and beyond all that it has served. Returns the next value; `None`:
/// there is none left.
///
/// # Errors
/// `NodesRestart` if other nodes serve the sequence too.
pub(super) fn advance(sequence: &Sequence, taken: i64) -> Result<Option<i64>, HiloError> {
    let locked = lock_position(sequence, restarted);
    if locked.position.nodes > 1 {
        return Err(HiloError::NodesRestart(sequence.name.to_string()));
    }
    // It starts where nobody says, so beyond what another server may have served.
    let position = close(&locked, sequence, Start::Continues);
    let mapping = position.mapping(&sequence.definition);
    let index = mapping.first_index_beyond(taken).max(position.next_index);
    let next = mapping.value(index);
    let last = mapping.value(mapping.limit() - 1).unwrap_or(position.base);
    let (numbering, next_index) = match next {
        Some(next) => with(sequence, &position, next)?,
        None => after(sequence, &position, last)?,
    };
    renumber(&locked, sequence, &position, numbering, next_index, Start::Restarts);
    Ok(next)
}

/// Makes a sequence continue with `next`; `None`: with nothing, because it is exhausted.
pub(super) fn continue_with(sequence: &Sequence, next: Option<i64>) {
    let locked = lock_position(sequence, restarted);
    let position = close(&locked, sequence, Start::Restarts);
    let definition = &sequence.definition;
    let last = match Direction::of(definition.increment) {
        Direction::Rising => definition.max_value,
        Direction::Falling => definition.min_value,
    };
    let continued = match next {
        Some(next) => with(sequence, &position, next),
        None => after(sequence, &position, last),
    };
    let (numbering, next_index) = continued.or_raise();
    renumber(&locked, sequence, &position, numbering, next_index, Start::Restarts);
}

/// Ends the numbering of a sequence that is about to be dropped, and returns the value that it would have
/// served next; `None`: it is exhausted. What others hold of it is written off.
///
/// # Errors
/// `NodesShare` if other nodes serve the sequence too.
pub(super) fn end(sequence: &Sequence) -> Result<Option<i64>, HiloError> {
    let locked = lock_position(sequence, numbering::joined);
    if locked.position.nodes > 1 {
        return Err(HiloError::NodesShare(sequence.name.to_string()));
    }
    let position = close(&locked, sequence, Start::Continues);
    Ok(position.mapping(&sequence.definition).value(position.next_index))
}

/// Restarts a sequence at its start value, as TRUNCATE … RESTART IDENTITY does.
pub(super) fn restart(sequence: &Sequence) {
    let base = sequence.definition.start_value;
    let locked = lock_position(sequence, restarted);
    let position = close(&locked, sequence, Start::Restarts);
    let numbering =
        numbering::starting_at(sequence, &position, &sequence.definition, base).or_raise();
    renumber(&locked, sequence, &position, numbering, Index::ZERO, Start::Restarts);
}

/// How a sequence continues after its last value when its increment, its cycle option or its laps change.
/// Several nodes have reached different values, so there the caller must state the value at which all
/// restart.
fn continued(position: &Position, old: &Sequence) -> Result<(Numbering, Index), HiloError> {
    let numbering = position.numbering();
    if position.nodes > 1 {
        return Err(HiloError::NodesRestart(old.name.to_string()));
    }
    Ok(match position.last_value(&old.definition) {
        Some(last) => (Numbering { base: last, ..numbering }, Index(1)),
        None => (numbering, Index::ZERO),
    })
}

/// Whether these options change the value of an index. Another increment does, and so does the start or end
/// of cycling; for a sequence that cycles, so do other bounds or another data type, because they change its
/// laps. Whatever changes in a gapless sequence waits for the transaction that draws from it, and gets an epoch of
/// its own, by which the others learn of it.
fn renumbers(old: &Definition, options: &Options) -> bool {
    if options.gapless.is_some_and(|new| new != old.gapless)
        || (old.gapless && *options != Options::default())
    {
        return true;
    }
    let cycle = options.cycle.unwrap_or(old.cycle);
    let laps = options.min_value.is_some_and(|new| new != old.min_value)
        || options.max_value.is_some_and(|new| new != old.max_value)
        || options.data_type.is_some_and(|new| new != old.data_type);
    options.increment.is_some_and(|new| new != old.increment)
        || cycle != old.cycle
        || (cycle && laps)
}

/// `hilo_setval(name, value, is_called)`: continues after `value` or, unless `is_called`, with it. Returns
/// `value`.
fn hilo_setval(args: Args) -> i64 {
    begin_write(c"hilo_setval()");
    let (name, value, called) =
        (args.name(0), args.int8(1).unwrap_or(0), args.bool(2).unwrap_or(true));
    let missing = || missing::to_create(name);
    let found = definitions::by_name(name).or_raise().ok_or_else(missing).or_raise();
    nextval::allow(&found, Privileges::UPDATE).or_raise();
    check_value(&found, value);
    let sequence = lock_named(name, By::Anybody).or_raise().ok_or_else(missing).or_raise().sequence;
    nextval::allow(&sequence, Privileges::UPDATE).or_raise();
    check_value(&sequence, value);
    let locked = lock_position(&sequence, restarted);
    let position = close(&locked, &sequence, Start::Restarts);
    let continued = if called { after } else { with };
    let (numbering, next_index) = continued(&sequence, &position, value).or_raise();
    let mapping = numbered(&position, numbering).mapping(&sequence.definition);
    served_again::notice(&sequence, &position, &mapping, next_index);
    renumber(&locked, &sequence, &position, numbering, next_index, Start::Restarts);
    if called {
        memo::set_last(sequence.id, value);
    }
    value
}

fn check_value(sequence: &Sequence, value: i64) {
    let (min, max) = (sequence.definition.min_value, sequence.definition.max_value);
    if value < min || value > max {
        HiloError::SetvalBounds { name: sequence.name.to_string(), value, min, max }.raise();
    }
}

/// How a sequence continues with `value`: the numbering, and the next index of this node.
fn with(
    sequence: &Sequence,
    position: &Position,
    value: i64,
) -> Result<(Numbering, Index), HiloError> {
    Ok((numbering::starting_at(sequence, position, &sequence.definition, value)?, Index::ZERO))
}

/// How a sequence continues after `value`: the numbering, and the next index of this node.
fn after(
    sequence: &Sequence,
    position: &Position,
    value: i64,
) -> Result<(Numbering, Index), HiloError> {
    let definition = &sequence.definition;
    let starting_at = |base| numbering::starting_at(sequence, position, definition, base);
    if gucs::node_count() == 1 {
        return Ok((starting_at(value)?, Index(1)));
    }
    // The node that has the first stripe must not serve the value again, and the other nodes must not skip
    // one, so the numbering starts at the next value.
    let (min, max) = (definition.min_value, definition.max_value);
    let next = value.checked_add(definition.increment).filter(|next| (min..=max).contains(next));
    if let Some(next) = next {
        return Ok((starting_at(next)?, Index::ZERO));
    }
    if definition.cycle {
        return Ok((starting_at(if definition.increment > 0 { min } else { max })?, Index::ZERO));
    }
    // `value` was the last one: nothing is left on any node.
    let numbering = starting_at(value)?;
    Ok((numbering, numbered(position, numbering).mapping(definition).limit()))
}

/// `position` in another numbering.
fn numbered(position: &Position, numbering: Numbering) -> Position {
    let Numbering { base, nodes, stripe } = numbering;
    Position { base, nodes, stripe, ..*position }
}
