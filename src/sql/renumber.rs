//! Changes of what a sequence is numbered by: `hilo_alter` and `hilo_setval`.

use hilo_core::options::{Definition, Options};
use hilo_core::range::Range;

use super::args::{Args, sql_functions};
use super::define::{
    Owned, begin_write, check_key_format, lock_existing, lock_owned, options, required_name,
};
use super::serve;
use crate::catalog::definitions::{self, Sequence};
use crate::catalog::numbering::{self, Numbering};
use crate::catalog::positions::{self, Lock, LockedPosition, Position};
use crate::catalog::privileges::Privileges;
use crate::catalog::ranges::{self, Reason};
use crate::catalog::table::next_command;
use crate::catalog::{ids, take_over};
use crate::errors::{HiloError, OrRaise};
use crate::gucs;
use crate::session;
use crate::session::change::{self, Change};
use crate::session::{going_on, memo, own, recall};

sql_functions!(hilo_alter, hilo_setval);

/// Locks this node's position, making it where this node has never drawn: by joining the others, or
/// `anew`, to be numbered at once.
fn lock_position(sequence: &Sequence, anew: bool) -> LockedPosition {
    let ids = ids().or_raise();
    let node = numbering::node().or_raise();
    loop {
        match positions::lock(&ids, sequence.id, node, true).or_raise() {
            Lock::Locked(locked) => return locked,
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

/// The position with nothing unaccounted for: what was reserved and is not known to be served is
/// written off. Where it `goes_on`, reservations that may be missing from it are passed over.
fn settled(locked: &LockedPosition, sequence: &Sequence, goes_on: bool) -> Position {
    let ids = ids().or_raise();
    let mut position = locked.position;
    if let Some(next) = own::reached(&position, locked.writer()) {
        // Drawn by this transaction, and not yet written back.
        (position.next_index, position.settled_index) = (next, next);
    }
    let mapping = position.mapping(&sequence.definition);
    ranges::write_off(&ids, &position, &mapping, Reason::Altered).or_raise();
    position.settled_index = position.next_index;
    if goes_on {
        let floor = session::going_on::floor_of(&position).or_raise().min(mapping.limit());
        let spent = Range::new(position.next_index, floor.max(position.next_index));
        ranges::record_gap(&ids, &position, &mapping, spent, Reason::Discarded).or_raise();
        (position.next_index, position.settled_index) = (spent.end, spent.end);
    }
    if goes_on && position.may_lack() {
        take_over::skip(&ids, sequence, &mut position).or_raise();
    }
    position
}

/// Numbers a sequence anew: under the next epoch it goes on at index `next_index` of `numbering`.
/// Whether it `goes_on` from the old numbers, which end at `old`.
fn renumber(
    locked: &LockedPosition,
    sequence: &Sequence,
    old: &Position,
    numbering: Numbering,
    next_index: i64,
    goes_on: bool,
) {
    let epoch = old.epoch + 1;
    let (system_id, timeline) = positions::server();
    locked.update(&Position {
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
    change::note(sequence.id, Change::Epoch(epoch)).or_raise();
    if goes_on {
        let mapping = old.mapping(&sequence.definition);
        going_on::goes_on(old, mapping, epoch, locked.is_own()).or_raise();
    } else {
        going_on::begins_anew(sequence.id, epoch);
    }
}

/// `hilo_alter(name, …)`: changes the options that are not null. The owner's to do.
fn hilo_alter(args: Args) {
    begin_write(c"hilo_alter()");
    let name = required_name(args);
    let (options, restart) = (options(args), args.int8(11));
    let before = lock_existing(name).sequence;
    // Better to learn of an error before anything is called back.
    before.definition.alter(&options, None, restart).or_raise();
    let renumbers = renumbers(&before.definition, &options) || restart.is_some();
    if renumbers {
        recall::recall(before.id).or_raise();
    }
    let owned = lock_existing(name);
    let old = owned.sequence.clone();
    let mut new = old.clone();
    if !renumbers {
        new.definition = old.definition.alter(&options, None, None).or_raise();
        check_key_format(&new.definition, &new.name).or_raise();
        definitions::update(&owned.table, &owned.row, &new);
        let sizes = Change::Sizes {
            slice: new.definition.slice_size.unwrap_or(0),
            block: new.definition.block_size.unwrap_or(0),
        };
        change::note(old.id, sizes).or_raise();
        return;
    }
    let locked = lock_position(&old, restart.is_some());
    let position = settled(&locked, &old, restart.is_none());
    let last = position.last_value(&old.definition);
    new.definition =
        old.definition.alter(&options, last.or(Some(position.base)), restart).or_raise();
    check_key_format(&new.definition, &new.name).or_raise();
    let (numbering, next_index) = match restart {
        Some(base) => (numbering::anew(&old, &position, &new.definition, base).or_raise(), 0),
        None => going_on(&position, &old, &new.definition).or_raise(),
    };
    definitions::update(&owned.table, &owned.row, &new);
    renumber(&locked, &old, &position, numbering, next_index, restart.is_none());
}

/// How an altered sequence goes on where it stood. Dealt among several nodes it must stay dealt as it
/// is, which it does as long as only its bounds change.
fn going_on(
    position: &Position,
    old: &Sequence,
    new: &Definition,
) -> Result<(Numbering, i64), HiloError> {
    let numbering = position.numbering();
    if position.nodes > 1 {
        let kept = new.increment == old.definition.increment && !new.cycle && !old.definition.cycle;
        return match kept {
            true => Ok((numbering, position.next_index)),
            false => Err(HiloError::NodesRestart(old.name.to_string())),
        };
    }
    Ok(match position.last_value(&old.definition) {
        Some(last) => (Numbering { base: last, ..numbering }, 1),
        None => (numbering, 0),
    })
}

/// Whether these options change which numbers there are, or how they are dealt.
fn renumbers(old: &Definition, options: &Options) -> bool {
    options.data_type.is_some_and(|new| new != old.data_type)
        || options.start_value.is_some_and(|new| new != old.start_value)
        || options.increment.is_some_and(|new| new != old.increment)
        || options.min_value.is_some_and(|new| new != old.min_value)
        || options.max_value.is_some_and(|new| new != old.max_value)
        || options.cycle.is_some_and(|new| new != old.cycle)
        || options.ordered.is_some_and(|new| new != old.ordered)
}

/// `hilo_setval(name, value, is_called)`: goes on behind `value`, or with it. Returns the value.
fn hilo_setval(args: Args) -> i64 {
    begin_write(c"hilo_setval()");
    let (name, value, called) =
        (args.name(0), args.int8(1).unwrap_or(0), args.bool(2).unwrap_or(true));
    let missing = || definitions::missing(name);
    let found = definitions::by_name(name).or_raise().ok_or_else(missing).or_raise();
    serve::allow(&found, Privileges::UPDATE).or_raise();
    recall::recall(found.id).or_raise();
    let Owned { sequence, .. } = lock_owned(name, false).or_raise().ok_or_else(missing).or_raise();
    serve::allow(&sequence, Privileges::UPDATE).or_raise();
    let (min, max) = (sequence.definition.min_value, sequence.definition.max_value);
    if value < min || value > max {
        HiloError::SetvalBounds { name: sequence.name.to_string(), value, min, max }.raise();
    }
    let locked = lock_position(&sequence, true);
    let position = settled(&locked, &sequence, false);
    let (numbering, next_index) = behind(&sequence, &position, value, called).or_raise();
    renumber(&locked, &sequence, &position, numbering, next_index, false);
    if called {
        memo::set_last(sequence.id, value);
    }
    value
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
