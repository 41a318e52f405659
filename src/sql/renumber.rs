//! Changes of what a sequence is numbered by: `hilo_alter` and `hilo_setval`.

use hilo_core::options::{Definition, Options};
use hilo_core::range::Range;

use super::args::{Args, sql_functions};
use super::ddl::{
    By, begin_write, check_key_format, lock_named, lock_owned, options, required_name,
};
use super::nextval;
use crate::catalog::definitions::{self, LockedSequence, Sequence};
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

sql_functions!(hilo_alter, hilo_setval);

/// Locks this node's position, making it where this node has never drawn: by joining the others, or
/// `anew`, to be numbered at once.
fn lock_position(sequence: &Sequence, anew: bool) -> LockedPosition {
    let ids = catalog_oids().or_raise();
    let node = numbering::node().or_raise();
    loop {
        match positions::lock(&ids, sequence.id, node, LockWait::Block).or_raise() {
            RowLock::Locked(locked) => return locked,
            _ => {
                let first = match anew {
                    true => Position::first(sequence),
                    false => numbering::joined(&ids, sequence).or_raise(),
                };
                positions::insert(&first).or_raise();
                next_command();
            }
        }
    }
}

/// The first index of this node that nobody has been dealt, as far as is known. What this session holds
/// goes back first.
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

/// Where the numbers of a locked position end, once nobody is dealt any more until this transaction
/// ends. What was reserved below that and not served is written off. Where the new numbers do `continue`
/// the old ones, they begin behind what another server may have reserved.
fn close(locked: &LockedPosition, sequence: &Sequence, continues: bool) -> Position {
    let ids = catalog_oids().or_raise();
    let shared = shared::get().or_raise();
    let mut position = locked.position;
    let mapping = position.mapping(&sequence.definition);
    let mut lost = Vec::new();
    if locked.is_own() {
        // Drawn by this transaction, and not yet written back.
        position.next_index =
            uncommitted::reached(&locked.version()).unwrap_or(0).max(position.next_index);
        lost = uncommitted::passed(&locked.version());
    } else if position.incarnation == shared.life() {
        slice_table::return_slices(|entry| entry.id == sequence.id);
        let index_space = index_space(&position);
        shared.freeze(&index_space.key);
        let arrived = shared.await_reservation(&index_space.key);
        match shared.in_memory_soon(&index_space).filter(|_| arrived) {
            // It cannot be told what is in memory: all that may be is written off.
            None => ranges::write_off_memory(&ids, &position, &mapping, Reason::Altered).or_raise(),
            Some(held) => {
                lost = held.ranges;
                if held.has_slot {
                    // Reserved, and by a worker that was replaced before it could publish it.
                    let known = held.reserved_to.unwrap_or(position.settled_index);
                    lost.push(Range::new(known, position.next_index));
                }
                // From there on nothing has left the pool: it is as if it had not been reserved.
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

/// Numbers a sequence anew: under the next epoch, from index `next_index` of `numbering` on.
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

/// `hilo_alter(name, …)`: changes the options that are not null. The owner's to do.
fn hilo_alter(args: Args) {
    begin_write(c"hilo_alter()");
    let name = required_name(args);
    let (options, restart) = (options(args), args.int8(11));
    let owned = lock_owned(name);
    let old = owned.sequence.clone();
    // Better to learn of an error before the pool is closed.
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
        Some(base) => (numbering::anew(&old, &position, &new.definition, base).or_raise(), 0),
        None => continued(&position, &old).or_raise(),
    };
    owned.update(&new);
    invalidation::note(old.id, Change::Terms).or_raise();
    renumber(&locked, &old, &position, numbering, next_index, restart.is_none());
}

/// Changes what leaves each index its value. The position stays as it is, so this transaction draws from
/// the pool as everybody does, and its rollback gives nothing back.
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

/// How a sequence continues behind its last value when its increment changes, or whether it cycles.
/// Several nodes stand at different places, so that there they have to be told where.
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

/// Whether these options change the value of an index: an increment does; and where a sequence cycles, or
/// is to, what a lap is.
fn renumbers(old: &Definition, options: &Options) -> bool {
    let cycle = options.cycle.unwrap_or(old.cycle);
    let laps = options.min_value.is_some_and(|new| new != old.min_value)
        || options.max_value.is_some_and(|new| new != old.max_value)
        || options.data_type.is_some_and(|new| new != old.data_type);
    options.increment.is_some_and(|new| new != old.increment)
        || cycle != old.cycle
        || (cycle && laps)
}

/// `hilo_setval(name, value, is_called)`: goes on behind `value`, or with it. Returns the value.
fn hilo_setval(args: Args) -> i64 {
    begin_write(c"hilo_setval()");
    let (name, value, called) =
        (args.name(0), args.int8(1).unwrap_or(0), args.bool(2).unwrap_or(true));
    let missing = || definitions::missing(name);
    let found = definitions::by_name(name).or_raise().ok_or_else(missing).or_raise();
    nextval::allow(&found, Privileges::UPDATE).or_raise();
    check_value(&found, value);
    let sequence = lock_named(name, By::Anybody).or_raise().ok_or_else(missing).or_raise().sequence;
    nextval::allow(&sequence, Privileges::UPDATE).or_raise();
    check_value(&sequence, value);
    let locked = lock_position(&sequence, true);
    let position = close(&locked, &sequence, false);
    let (numbering, next_index) = behind(&sequence, &position, value, called).or_raise();
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

/// How a sequence goes on behind `value`, or with it unless that was `called`: the numbering and the
/// next index of this node.
fn behind(
    sequence: &Sequence,
    position: &Position,
    value: i64,
    called: bool,
) -> Result<(Numbering, i64), HiloError> {
    let definition = &sequence.definition;
    let anew = |base| numbering::anew(sequence, position, definition, base);
    if !called || gucs::node().1 == 1 {
        return Ok((anew(value)?, called as i64));
    }
    // The node that the first stripe is dealt to must not serve the value, and the others not skip one.
    let (min, max) = (definition.min_value, definition.max_value);
    let next = value.checked_add(definition.increment).filter(|next| (min..=max).contains(next));
    if let Some(next) = next {
        return Ok((anew(next)?, 0));
    }
    if definition.cycle {
        return Ok((anew(if definition.increment > 0 { min } else { max })?, 0));
    }
    // It was the last one: nothing is left on any node.
    let numbering = anew(value)?;
    let Numbering { base, nodes, stripe } = numbering;
    let whole = Position { base, nodes, stripe, ..*position };
    Ok((numbering, whole.mapping(definition).limit()))
}
