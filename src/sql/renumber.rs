//! Changes of how a sequence is numbered: `hilo_alter` and `hilo_setval`.

use hilo_core::options::{Definition, Options};
use hilo_core::range::Range;

use super::args::{Args, sql_functions};
use super::ddl::{
    By, begin_write, check_key_format, lock_named, lock_owned, options, required_name,
};
use super::{nextval, served_again};
use crate::catalog::definitions::{self, LockedSequence, Sequence};
use crate::catalog::missing;
use crate::catalog::numbering::{self, Numbering};
use crate::catalog::positions::{self, LockedPosition, Position};
use crate::catalog::privileges::Privileges;
use crate::catalog::ranges::{self, Reason};
use crate::catalog::table::{LockWait, RowLock, next_command};
use crate::catalog::{catalog_oids, takeover};
use crate::errors::{HiloError, OrRaise};
use crate::gucs;
use crate::session::invalidation::{self, Change};
use crate::session::uncommitted::Origin;
use crate::session::{memo, slice_table, uncommitted};
use crate::shared;
use crate::shared::slices::IndexSpace;

sql_functions!(hilo_alter_0_3, hilo_setval);

/// Locks this node's position, and makes one if this node has none yet. The new one joins the other nodes'
/// numbering or, if it `renumbers`, starts like that of a new sequence, because the caller renumbers it at once.
fn lock_position(sequence: &Sequence, renumbers: bool) -> LockedPosition {
    let ids = catalog_oids().or_raise();
    let node = numbering::node().or_raise();
    loop {
        match positions::lock(&ids, sequence.id, node, LockWait::Block).or_raise() {
            RowLock::Locked(locked) => return locked,
            _ => {
                let first = match renumbers {
                    true => Position::first(sequence),
                    false => numbering::joined(&ids, sequence).or_raise(),
                };
                positions::insert(&first).or_raise();
                next_command();
            }
        }
    }
}

/// The first index of this node that no session has taken in order, as far as is known. This session returns
/// what it holds first.
fn undealt(sequence: &Sequence, position: &Position) -> i64 {
    slice_table::return_slices(|entry| entry.id == sequence.id);
    let index_space = index_space(position);
    let held = shared::get().ok().and_then(|shared| shared.in_memory_soon(&index_space));
    held.and_then(|held| held.undealt).unwrap_or(position.next_index)
}

fn index_space(position: &Position) -> IndexSpace {
    let key = memo::key_of(position.sequence).or_raise();
    IndexSpace { key, node: position.node, epoch: position.epoch }
}

/// Closes the numbering of a locked position: freezes the pool, so that no session takes from it until this
/// transaction ends, and returns the position at which the numbering ends. What was reserved below that and
/// not served is written off. If the new numbering `continues` the old one, it starts after what another
/// server may have reserved.
fn close(locked: &LockedPosition, sequence: &Sequence, continues: bool) -> Position {
    let ids = catalog_oids().or_raise();
    let shared = shared::get().or_raise();
    let mut position = locked.position;
    let mapping = position.mapping(&sequence.definition);
    let mut lost = Vec::new();
    if locked.is_own() {
        // This transaction has drawn values that it has not written back yet.
        position.next_index =
            uncommitted::reached(&locked.version()).unwrap_or(0).max(position.next_index);
        lost = uncommitted::passed(&locked.version());
    } else if position.incarnation == shared.life() {
        slice_table::return_slices(|entry| entry.id == sequence.id);
        let index_space = index_space(&position);
        shared.freeze(&index_space.key);
        let arrived = shared.await_reservation(&index_space.key);
        match shared.in_memory_soon(&index_space).filter(|_| arrived) {
            // What is in memory cannot be determined, so everything that may be there is written off.
            None => ranges::write_off_memory(&ids, &position, &mapping, Reason::Altered).or_raise(),
            Some(held) => {
                lost = held.ranges;
                if held.has_slot {
                    // This was reserved by a worker that was replaced before it could publish it.
                    let known = held.reserved_to.unwrap_or(position.settled_index);
                    lost.push(Range::new(known, position.next_index));
                }
                // Nothing from this index on has left the pool, so it counts as not reserved.
                let next = held.undealt.or(held.reserved_to);
                position.next_index = next.unwrap_or(position.next_index);
            }
        }
    } else if position.incarnation != 0 {
        let reason = takeover::reason(&position);
        ranges::write_off_memory(&ids, &position, &mapping, reason).or_raise();
    }
    ranges::write_off(&ids, &position, &mapping, lost, Reason::Altered).or_raise();
    position.settled_index = position.next_index;
    if continues && position.may_lack() {
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
    next_index: i64,
    continues: bool,
) {
    let epoch = old.epoch.next();
    let origin = match (continues, locked.is_own()) {
        (false, _) => Origin::New,
        (true, true) => Origin::Continues(locked.version(), old.mapping(&sequence.definition)),
        (true, false) => Origin::Shared,
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
}

/// `hilo_alter(name, …)`: changes the options that are not null. Only the owner may do so.
fn hilo_alter_0_3(args: Args) {
    begin_write(c"hilo_alter()");
    let name = required_name(args);
    let (options, restart) = (options(args), args.int8(11));
    let owned = lock_owned(name);
    let old = owned.sequence.clone();
    // An error in the options is raised before the pool is frozen.
    old.definition.alter(&options, None, restart).or_raise();
    if !renumbers(&old.definition, &options) && restart.is_none() {
        return redefine(&owned, &options);
    }
    let mut new = old.clone();
    let locked = lock_position(&old, restart.is_some());
    let position = close(&locked, &old, restart.is_none());
    let last = position.last_value(&old.definition);
    new.definition =
        old.definition.alter(&options, last.or(Some(position.base)), restart).or_raise();
    check_key_format(&new.definition, &new.name).or_raise();
    let (numbering, next_index) = match restart {
        Some(base) => {
            (numbering::starting_at(&old, &position, &new.definition, base).or_raise(), 0)
        }
        None => continued(&position, &old).or_raise(),
    };
    owned.update(&new);
    invalidation::note(old.id, Change::Terms).or_raise();
    if restart.is_some() {
        let mapping = numbered(&position, numbering).mapping(&new.definition);
        served_again::notice(&old, &position, &mapping, next_index);
    }
    renumber(&locked, &old, &position, numbering, next_index, restart.is_none());
}

/// Changes options that leave each index its value. The position stays as it is, so this transaction draws
/// from the pool as every other session does, and its rollback returns nothing.
fn redefine(locked: &LockedSequence, options: &Options) {
    let old = &locked.sequence;
    let position = positions::find(&catalog_oids().or_raise(), old.id, gucs::node().0).or_raise();
    let current = position.map(|position| {
        let written = positions::find_written(old.id, position.node).or_raise();
        let next_index = match written.and_then(|(_, version)| uncommitted::reached(&version)) {
            Some(reached) => reached,
            None => undealt(old, &position),
        };
        let dealt = Position { next_index, ..position };
        dealt.last_value(&old.definition).unwrap_or(position.base)
    });
    let mut new = old.clone();
    new.definition = old.definition.alter(options, current, None).or_raise();
    check_key_format(&new.definition, &new.name).or_raise();
    locked.update(&new);
    invalidation::note(old.id, Change::Terms).or_raise();
}

/// How a sequence continues after its last value when its increment, its cycle option or its laps change.
/// Several nodes have reached different values, so there the caller must state the value at which all
/// restart.
fn continued(position: &Position, old: &Sequence) -> Result<(Numbering, i64), HiloError> {
    let numbering = position.numbering();
    if position.nodes > 1 {
        return Err(HiloError::NodesRestart(old.name.to_string()));
    }
    Ok(match position.last_value(&old.definition) {
        Some(last) => (Numbering { base: last, ..numbering }, 1),
        None => (numbering, 0),
    })
}

/// Whether these options change the value of an index. Another increment does, and so does the start or end
/// of cycling; for a sequence that cycles, so do other bounds or another data type, because they change its
/// laps.
fn renumbers(old: &Definition, options: &Options) -> bool {
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
    let locked = lock_position(&sequence, true);
    let position = close(&locked, &sequence, false);
    let (numbering, next_index) = behind(&sequence, &position, value, called).or_raise();
    let mapping = numbered(&position, numbering).mapping(&sequence.definition);
    served_again::notice(&sequence, &position, &mapping, next_index);
    renumber(&locked, &sequence, &position, numbering, next_index, false);
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

/// How a sequence continues after `value` or, unless that was `called`, with it: the numbering, and the next
/// index of this node.
fn behind(
    sequence: &Sequence,
    position: &Position,
    value: i64,
    called: bool,
) -> Result<(Numbering, i64), HiloError> {
    let definition = &sequence.definition;
    let starting_at = |base| numbering::starting_at(sequence, position, definition, base);
    if !called || gucs::node().1 == 1 {
        return Ok((starting_at(value)?, called as i64));
    }
    // The node that has the first stripe must not serve the value again, and the other nodes must not skip
    // one, so the numbering starts at the next value.
    let (min, max) = (definition.min_value, definition.max_value);
    let next = value.checked_add(definition.increment).filter(|next| (min..=max).contains(next));
    if let Some(next) = next {
        return Ok((starting_at(next)?, 0));
    }
    if definition.cycle {
        return Ok((starting_at(if definition.increment > 0 { min } else { max })?, 0));
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
