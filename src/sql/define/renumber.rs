//! Changes of how a sequence is numbered, for `hilo_alter`, `hilo_setval` and others.

use pgrx::pg_sys::panic::ErrorReport;
use pgrx::prelude::*;

use hilo_core::direction::Direction;
use hilo_core::numbers::Index;

use crate::catalog::rights::missing;
use crate::catalog::rights::privileges::{self, Privileges};
use crate::catalog::sequence::definitions::Sequence;
use crate::catalog::sequence::node;
use crate::catalog::sequence::numbering::{self, Numbering};
use crate::catalog::sequence::positions::{self, Position};
use crate::errors::HiloError;
use crate::gucs;
use crate::session::{names, slice_table, uncommitted};
use crate::shared;
use crate::sql::call::border::Call;
use crate::sql::define::ddl_checks::{begin_write, lock_by_name};
use crate::sql::define::numbering_change::{Continuation, Restart, with_numbering};
use crate::sql::define::redefine::Alteration;
use crate::sql::define::unserved::index_space;
use crate::sql::define::{owned_by, source};
use crate::sql::types::sequence_type::SequenceName;

/// The first index of this node that no session has taken in order, as far as is known. This
/// session returns what it holds first.
fn first_untaken(sequence: &Sequence, position: &Position) -> Result<Index, HiloError> {
    slice_table::return_slices(|entry| entry.id == sequence.id);
    let held = match shared::get() {
        Ok(shared) => shared.in_memory_soon(&index_space(position)?)?,
        Err(_) => None,
    };
    Ok(held.and_then(|held| held.first_untaken).unwrap_or(position.next_index))
}

/// Changes a locked sequence. A `dry_run`, which is rolled back, leaves the numbers alone, so
/// nobody notices it.
pub fn alter(change: &Alteration, dry_run: bool) -> Result<(), HiloError> {
    let Alteration { locked, options, owned_by, restart } = *change;
    let old = &locked.sequence;
    if let Some(column) = owned_by.filter(|_| owned_by != old.owned_by) {
        owned_by::check(column, old.owner)?;
    }
    // An error in the options is raised before the pool is frozen.
    let new = old.definition.alter(options, None, restart)?;
    if !dry_run && source::alter(change, &new)? {
        return Ok(());
    }
    let nodes = gucs::node_count();
    if options.gapless == Some(true) && !old.definition.gapless && nodes > 1 {
        return Err(HiloError::GaplessNodes { name: old.name.to_string(), nodes });
    }
    if change.is_quiet(&new) {
        change.write(None)?;
        return Ok(());
    }
    let renumbers = new.renumbers(&old.definition);
    if restart.is_none() && (dry_run || !renumbers) {
        let position = redefine(change)?;
        if let Some(position) = position.filter(|_| renumbers) {
            continuation(&position, old)?;
        }
        return Ok(());
    }
    match restart {
        Some(base) => {
            let ended = Restart::close(old)?;
            let new = change.write_ended(ended.position())?;
            let numbering = numbering::starting_at(old, ended.position(), &new, base)?;
            ended.notice(&new, numbering, Index::ZERO);
            ended.open(&new, numbering, Index::ZERO)
        }
        None => {
            let ended = Continuation::close(old)?;
            let new = change.write_ended(ended.position())?;
            let (numbering, next_index) = continuation(ended.position(), old)?;
            // Numbers that turn back from beyond a bound begin within the bounds.
            let indexes = with_numbering(ended.position(), numbering).mapping(&new).indexes();
            ended.open(numbering, next_index.max(indexes.start))
        }
    }
}

/// Changes options that leave each index its value. The position stays as it is, so this
/// transaction draws from the pool as every other session does, and a rollback returns nothing.
/// Returns the position.
fn redefine(change: &Alteration) -> Result<Option<Position>, HiloError> {
    let old = &change.locked.sequence;
    let position = positions::find(old.id, node::id())?;
    let last = position.map(|position| {
        let written = positions::find_own_write(old.id, position.node)?;
        let next_index = match written.and_then(|(_, version)| uncommitted::progress(&version)) {
            Some(reached) => reached,
            None => first_untaken(old, &position)?,
        };
        let taken = Position { next_index, ..position };
        Ok::<_, HiloError>(taken.last_value(&old.definition).unwrap_or(position.base))
    });
    change.write(last.transpose()?)?;
    Ok(position)
}

/// Makes a sequence continue beyond `taken`, and beyond all that it has served. Returns the next
/// value; `None`: none is left. Values that other bounds or another increment bring later lie
/// beyond `taken` too.
///
/// Several nodes keep their numbering: each continues with its own stripes.
///
/// # Errors
/// `MovesAlone`
pub fn advance(sequence: &Sequence, taken: i64) -> Result<Option<i64>, HiloError> {
    let old = Continuation::close(sequence)?;
    let position = old.position();
    numbering::check_moves(sequence, position.nodes, Some(taken))?;
    let mapping = old.mapping().without_bounds();
    let index = mapping.first_index_beyond(taken).max(position.next_index);
    old.jump_to(index)?;
    let next = old.mapping().value(index);
    let (numbering, next_index) = match mapping.value(index) {
        _ if position.nodes > 1 => (position.numbering(), index),
        Some(first) => continued(sequence, position, (first, false))?,
        // After the last number nothing comes, whatever the increment.
        None => (continued(sequence, position, (mapping.bound(), false))?.0, Index(1)),
    };
    old.open(numbering, next_index)?;
    Ok(next)
}

/// Makes a sequence that this transaction has made continue with `next`; `None`: it is exhausted.
pub fn begin_with(sequence: &Sequence, next: Option<i64>) -> Result<(), HiloError> {
    let ended = Restart::close(sequence)?;
    let definition = &sequence.definition;
    let last = match Direction::from_increment(definition.increment) {
        Direction::Ascending => definition.max_value,
        Direction::Descending => definition.min_value,
    };
    let from = next.map_or((last, true), |next| (next, false));
    let (numbering, next_index) = continued(sequence, ended.position(), from)?;
    ended.open(definition, numbering, next_index)
}

/// Ends the numbering of a sequence that is about to be dropped, and returns the value that it
/// would have served next. `None`: it is exhausted. The ranges that others hold are written off.
///
/// # Errors
/// `NodesShare` if other nodes serve the sequence too.
pub fn end(sequence: &Sequence) -> Result<Option<i64>, HiloError> {
    let ended = Continuation::close(sequence)?;
    if ended.position().nodes > 1 {
        return Err(HiloError::NodesShare(sequence.name.to_string()));
    }
    let next = ended.mapping().value(ended.position().next_index);
    ended.end()?;
    Ok(next)
}

/// Restarts a sequence at its start value, as TRUNCATE … RESTART IDENTITY does.
pub fn restart(sequence: &Sequence) -> Result<(), HiloError> {
    let (definition, ended) = (&sequence.definition, Restart::close(sequence)?);
    let base = definition.start_value;
    let numbering = numbering::starting_at(sequence, ended.position(), definition, base)?;
    ended.open(definition, numbering, Index::ZERO)
}

/// How a sequence continues after its last value when its increment, its cycle option or its laps
/// change. Several nodes have reached different values, so their caller must state the value at
/// which all restart.
fn continuation(position: &Position, old: &Sequence) -> Result<(Numbering, Index), HiloError> {
    let numbering = position.numbering();
    if position.nodes > 1 {
        return Err(HiloError::NodesRestart(old.name.to_string()));
    }
    Ok(match position.last_value(&old.definition) {
        Some(last) => (Numbering { base: last, ..numbering }, Index(1)),
        None => (numbering, Index::ZERO),
    })
}

/// `hilo_setval(name, value, is_called)`: continues after `value` or, unless `is_called`, with it.
/// Returns `value`.
#[pg_extern(sql = false)]
fn hilo_setval(
    _call: Call,
    name: SequenceName,
    value: i64,
    is_called: bool,
) -> Result<i64, ErrorReport> {
    begin_write(c"hilo_setval()")?;
    let check = |found: &Sequence| {
        privileges::allow(found, Privileges::UPDATE)?;
        check_value(found, value)
    };
    let locked = lock_by_name(&name, check)?;
    let sequence = locked.ok_or_else(|| missing::to_create(&name))?.sequence;
    let ended = Restart::close(&sequence)?;
    let (numbering, next_index) = continued(&sequence, ended.position(), (value, is_called))?;
    ended.notice(&sequence.definition, numbering, next_index);
    ended.open(&sequence.definition, numbering, next_index)?;
    if is_called {
        names::set_last(sequence.id, value);
    }
    Ok(value)
}

fn check_value(sequence: &Sequence, value: i64) -> Result<(), HiloError> {
    let (min, max) = (sequence.definition.min_value, sequence.definition.max_value);
    match (min..=max).contains(&value) {
        true => Ok(()),
        false => Err(HiloError::SetvalBounds { name: sequence.name.to_string(), value, min, max }),
    }
}

/// How a sequence continues with `value` or, if that `is_called`, after it: the numbering, and the
/// next index of this node.
fn continued(
    sequence: &Sequence,
    position: &Position,
    (value, is_called): (i64, bool),
) -> Result<(Numbering, Index), HiloError> {
    let definition = &sequence.definition;
    let starting_at = |base| numbering::starting_at(sequence, position, definition, base);
    if !is_called {
        return Ok((starting_at(value)?, Index::ZERO));
    }
    if gucs::node_count() == 1 {
        return Ok((starting_at(value)?, Index(1)));
    }
    // The node with the first stripe must not serve the value again, and the other nodes must not
    // skip a value. So the numbering starts at the next value.
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
    Ok((numbering, with_numbering(position, numbering).mapping(definition).limit()))
}
