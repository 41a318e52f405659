//! Gives a sequence a source, and takes it away again.

use pgrx::Uuid;
use pgrx::pg_sys::panic::ErrorReport;
use pgrx::prelude::*;

use hilo_core::numbers::SequenceId;
use hilo_core::options::{Definition, Options};
use hilo_core::past::Span;

use crate::catalog::numbers::sources::{self, SourceState};
use crate::catalog::rows::table::{LockWait, RowLock};
use crate::catalog::sequence::definitions::{self, Sequence};
use crate::catalog::sequence::positions::Position;
use crate::catalog::sequence::{node, numbering, positions, takeover};
use crate::errors::HiloError;
use crate::sql::call::border::Call;
use crate::sql::define::ddl_checks::{
    begin_with_name, begin_write, check_owner, check_source_nodes, lock_owned, require,
};
use crate::sql::define::numbering_change::Restart;
use crate::sql::define::redefine::Alteration;
use crate::sql::types::sequence_type::SequenceName;

/// Changes a locked sequence that gets or loses a source by its new definition. Returns whether it
/// does.
pub fn alter(change: &Alteration, new: &Definition) -> Result<bool, HiloError> {
    let old = &change.locked.sequence;
    let (before, after) = (&old.definition.source, &new.source);
    if change.restart.is_some() && before.as_ref().or(after.as_ref()).is_some() {
        return Err(HiloError::HasSource(old.name.to_string()));
    }
    if before == after {
        if change.options.source.is_some() {
            ask_again(old)?;
        }
        return Ok(false);
    }
    match after {
        Some(_) => begin(change)?,
        None => _ = end(change)?,
    }
    Ok(true)
}

/// The source is set to the same query: the sequence keeps its values, and an open request ends.
fn ask_again(sequence: &Sequence) -> Result<(), HiloError> {
    match positions::lock(sequence.id, node::id(), LockWait::Block)? {
        RowLock::Locked(locked) => {
            let mut state = sources::read(&locked.position)?;
            state.begin_again();
            sources::write(&locked.position, &state)
        }
        _ => Ok(()),
    }
}

/// `_hilo.hilo_take_new_name(sequence, request)`: a centre has seen a later request of this name
/// than the open one, which only a copy of this server can have made. No value that the sequence
/// holds is served any more, since the copy may hold it too.
#[pg_extern(sql = false)]
fn hilo_take_new_name(
    _call: Call,
    sequence: Option<i64>,
    request: Option<Uuid>,
) -> Result<(), ErrorReport> {
    begin_write(c"hilo_take_new_name()")?;
    let changed = || HiloError::SourceChanged;
    let locked = definitions::lock_existing(SequenceId(sequence.unwrap_or_default()))?;
    let locked = locked.ok_or_else(changed)?;
    let sequence = &locked.sequence;
    check_owner(sequence)?;
    let ended = Restart::close_copied(sequence)?;
    let position = *ended.position();
    let mut state = sources::read(&position)?;
    if state.open_request().map(|open| open.id) != request.map(|request| *request.as_bytes()) {
        return Err(changed().into());
    }
    state.part(HiloError::Copied(sequence.name.to_string()).in_full());
    sources::write(&position, &state)?;
    let definition = &sequence.definition;
    let base = definition.grid_base();
    let begun = numbering::starting_at(sequence, &position, definition, base)?;
    Ok(ended.share(begun)?)
}

/// The values that the sequence holds, from its own numbering or from another source, are not
/// served any more. That source may be the same one after a renumbering.
fn begin(change: &Alteration) -> Result<(), HiloError> {
    let old = &change.locked.sequence;
    let ended = Restart::close_any(old)?;
    let position = *ended.position();
    let definition = change.write_ended(&position)?;
    let new = Sequence { definition, ..old.clone() };
    check_source_nodes(&new, position.nodes)?;
    let mut state = sources::read(&position)?;
    match old.definition.source {
        None => own_past(old, &position, &mut state),
        Some(_) => forget_source(&mut state),
    }
    state.begin_again();
    sources::write(&position, &state)?;
    let base = new.definition.grid_base();
    let begun = numbering::starting_at(old, &position, &new.definition, base)?;
    ended.share(begun)
}

/// Bars all values that this source has brought.
fn forget_source(state: &mut SourceState) {
    let brought = std::mem::take(&mut state.brought);
    state.own.add_all(&brought);
}

/// Adds the values that the sequence's own numberings may have served. Earlier numberings than the
/// last one began within the bounds and ended before this one. If the sequence had a source before,
/// `own` has them.
fn own_past(sequence: &Sequence, position: &Position, state: &mut SourceState) {
    let definition = &sequence.definition;
    let Definition { min_value, max_value, increment, .. } = *definition;
    if definition.cycle {
        return state.own.add(Span::new(min_value, max_value, 0));
    }
    let last = takeover::at_most(sequence, position).last_value(definition);
    if let Some(last) = last {
        state.own.add(Span::new(position.base, last, increment));
    }
    if !position.is_first() && position.epoch != state.own_epoch {
        let before = position.base.saturating_sub(increment);
        let bound = if increment > 0 { min_value.min(before) } else { max_value.max(before) };
        state.own.add(Span::new(bound, before, 0));
    }
}

/// Ends the numbering of the source, and returns where numbers begin. That is where the change says
/// or, if no source has ever brought anything, where the sequence stood before.
fn end(change: &Alteration) -> Result<i64, HiloError> {
    let old = &change.locked.sequence;
    let ended = Restart::close_any(old)?;
    let position = *ended.position();
    let mut state = sources::read(&position)?;
    let may_lack = !position.is_ours() || position.may_lack();
    if change.restart.is_none() && (state.received > 0 || state.request.is_some() || may_lack) {
        return Err(HiloError::SourceUsed(old.name.to_string()));
    }
    forget_source(&mut state);
    let ascending = old.definition.increment > 0;
    let last = state.own.bounds().map(|(low, high)| if ascending { high } else { low });
    let next = |last: i64| last.saturating_add(old.definition.increment);
    let start = change.restart.unwrap_or_else(|| last.map_or(old.definition.start_value, next));
    if let Some(last) = last.filter(|last| if ascending { start <= *last } else { start >= *last })
    {
        return Err(HiloError::DetachedBefore { name: old.name.to_string(), start, last });
    }
    state.leave();
    state.own_epoch = position.epoch.restart();
    sources::write(&position, &state)?;
    let definition = Alteration { restart: Some(start), ..*change }.write_ended(&position)?;
    let begun = numbering::starting_at(old, &position, &definition, start)?;
    ended.share(begun)?;
    Ok(start)
}

/// `_hilo.hilo_detach(name, start)`: the sequence numbers itself from now on. Returns `start`.
#[pg_extern(sql = false)]
fn hilo_detach(
    _call: Call,
    name: Option<SequenceName>,
    start: Option<i64>,
) -> Result<i64, ErrorReport> {
    let locked = &lock_owned(&begin_with_name(name, c"hilo_detach()")?)?;
    if locked.sequence.definition.source.is_none() {
        return Err(HiloError::NoSource(locked.sequence.name.to_string()).into());
    }
    let start = require(start, "start")?;
    let options = &Options { source: Some(String::new()), ..Options::default() };
    let owned_by = locked.sequence.owned_by;
    Ok(end(&Alteration { locked, options, owned_by, restart: Some(start) })?)
}

/// `_hilo.hilo_refuse_barred(name, next)`: refuses a source that continues with `next`, which the
/// sequence may have served before.
#[pg_extern(sql = false)]
fn hilo_refuse_barred(
    _call: Call,
    name: Option<SequenceName>,
    next: Option<i64>,
) -> Result<(), ErrorReport> {
    let name = begin_with_name(name, c"hilo_refuse_barred()")?;
    let Some(next) = next else { return Ok(()) };
    let sequence = &lock_owned(&name)?.sequence;
    let Some(position) = positions::find(sequence.id, node::id())? else { return Ok(()) };
    let state = sources::read(&position)?;
    if let Some(span) = state.own.around(next) {
        let last = span.end(sequence.definition.increment);
        return Err(HiloError::Barred { name: sequence.name.to_string(), next, last }.into());
    }
    Ok(())
}
