//! How a sequence gets a source, and how it is rid of it.

use hilo_core::numbers::SequenceId;
use hilo_core::options::{Definition, Options};
use hilo_core::past::Span;

use crate::catalog::definitions::{self, Sequence};
use crate::catalog::lease_id::id_of;
use crate::catalog::positions::Position;
use crate::catalog::sources::{self, Supply};
use crate::catalog::table::{LockWait, RowLock};
use crate::catalog::{node, numbering, positions, takeover};
use crate::errors::{HiloError, OrRaise};
use crate::sql::call::args::{Args, sql_functions};
use crate::sql::define::ddl_checks::{
    begin_with_name, begin_write, check_owner, check_source_nodes, lock_owned, require,
};
use crate::sql::define::ended::Restart;
use crate::sql::define::redefine::Alteration;

sql_functions!(hilo_detach, hilo_refuse_barred, hilo_take_new_name);

/// Changes a locked sequence that begins or ceases to have a source, as its new definition says.
/// Returns whether it does.
pub fn alter(change: &Alteration, new: &Definition) -> bool {
    let old = &change.locked.sequence;
    let (before, after) = (&old.definition.source, &new.source);
    if change.restart.is_some() && before.as_ref().or(after.as_ref()).is_some() {
        HiloError::HasSource(old.name.to_string()).raise();
    }
    if before == after {
        if change.options.source.is_some() {
            ask_again(old).or_raise();
        }
        return false;
    }
    match after {
        Some(_) => begin(change),
        None => _ = end(change),
    }
    true
}

/// The source is set to what it is: what it holds stays, and a request that has no answer ends.
fn ask_again(sequence: &Sequence) -> Result<(), HiloError> {
    match positions::lock(sequence.id, node::id(), LockWait::Block)? {
        RowLock::Locked(locked) => {
            let mut supply = sources::of(&locked.position)?;
            supply.begin_again();
            sources::write(&locked.position, &supply)
        }
        _ => Ok(()),
    }
}

/// `_hilo.hilo_take_new_name(sequence, request)`: a centre has seen a later request of this name
/// than the open one. Only a copy of this server can have made it. Nothing that the sequence holds
/// is served any more, since the copy may hold it, too.
fn hilo_take_new_name(args: Args) {
    begin_write(c"hilo_take_new_name()");
    let id = SequenceId(args.int8(0).unwrap_or_default());
    let request = args.datum(1).map(id_of);
    let changed = || HiloError::SourceChanged;
    let locked = definitions::lock_existing(id).or_raise().ok_or_else(changed).or_raise();
    let sequence = &locked.sequence;
    check_owner(sequence).or_raise();
    let ended = Restart::close_copied(sequence);
    let position = *ended.position();
    let mut supply = sources::of(&position).or_raise();
    if supply.open_request().map(|open| open.id) != request {
        changed().raise();
    }
    supply.part(HiloError::Copied(sequence.name.to_string()).in_full());
    sources::write(&position, &supply).or_raise();
    let definition = &sequence.definition;
    let base = definition.grid_base();
    let begun = numbering::starting_at(sequence, &position, definition, base).or_raise();
    ended.share(begun);
}

/// Values that the sequence holds of its own, or of another source, are not served any more. That
/// source may be the same one after a renumbering.
fn begin(change: &Alteration) {
    let old = &change.locked.sequence;
    let ended = Restart::close_any(old);
    let position = *ended.position();
    let definition = change.write_ended(&position);
    let new = Sequence { definition, ..old.clone() };
    check_source_nodes(&new, position.nodes).or_raise();
    let mut supply = sources::of(&position).or_raise();
    match old.definition.source {
        None => own_past(old, &position, &mut supply),
        Some(_) => forget_source(&mut supply),
    }
    supply.begin_again();
    sources::write(&position, &supply).or_raise();
    let base = new.definition.grid_base();
    let begun = numbering::starting_at(old, &position, &new.definition, base).or_raise();
    ended.share(begun);
}

/// Bars all that this source has brought.
fn forget_source(supply: &mut Supply) {
    let brought = std::mem::take(&mut supply.brought);
    supply.own.add_all(&brought);
}

/// Adds what its own numberings may have served. Earlier ones than the last are known to have begun
/// within the bounds, and to have ended before this one. If it had a source before, `own` has them.
fn own_past(sequence: &Sequence, position: &Position, supply: &mut Supply) {
    let definition = &sequence.definition;
    let Definition { min_value, max_value, increment, .. } = *definition;
    if definition.cycle {
        return supply.own.add(Span::new(min_value, max_value, 0));
    }
    let last = takeover::at_most(sequence, position).last_value(definition);
    if let Some(last) = last {
        supply.own.add(Span::new(position.base, last, increment));
    }
    if !position.is_first() && position.epoch != supply.own_epoch {
        let before = position.base.saturating_sub(increment);
        let bound = if increment > 0 { min_value.min(before) } else { max_value.max(before) };
        supply.own.add(Span::new(bound, before, 0));
    }
}

/// Ends the numbering of the source: numbers begin where the change says. If it does not, they
/// begin where the sequence stood before, which needs that no source has ever brought anything.
/// Returns where.
fn end(change: &Alteration) -> i64 {
    let old = &change.locked.sequence;
    let ended = Restart::close_any(old);
    let position = *ended.position();
    let mut supply = sources::of(&position).or_raise();
    let may_lack = !position.is_ours() || position.may_lack();
    if change.restart.is_none() && (supply.received > 0 || supply.request.is_some() || may_lack) {
        HiloError::SourceUsed(old.name.to_string()).raise();
    }
    forget_source(&mut supply);
    let rising = old.definition.increment > 0;
    let last = supply.own.bounds().map(|(low, high)| if rising { high } else { low });
    let next = |last: i64| last.saturating_add(old.definition.increment);
    let start = change.restart.unwrap_or_else(|| last.map_or(old.definition.start_value, next));
    if let Some(last) = last.filter(|last| if rising { start <= *last } else { start >= *last }) {
        HiloError::DetachedBefore { name: old.name.to_string(), start, last }.raise();
    }
    supply.begin_again();
    supply.own_epoch = position.epoch.restart();
    sources::write(&position, &supply).or_raise();
    let definition = Alteration { restart: Some(start), ..*change }.write_ended(&position);
    let begun = numbering::starting_at(old, &position, &definition, start).or_raise();
    ended.share(begun);
    start
}

/// `_hilo.hilo_detach(name, start)`: the sequence numbers itself from now on. Returns `start`.
fn hilo_detach(args: Args) -> i64 {
    let name = begin_with_name(args, c"hilo_detach()");
    require(args, 1, "start");
    let locked = &lock_owned(name);
    if locked.sequence.definition.source.is_none() {
        HiloError::NoSource(locked.sequence.name.to_string()).raise();
    }
    let options = &Options { source: Some(String::new()), ..Options::default() };
    let owned_by = locked.sequence.owned_by;
    end(&Alteration { locked, options, owned_by, restart: args.int8(1) })
}

/// `_hilo.hilo_refuse_barred(name, next)`: refuses a source that continues with `next`, which the
/// sequence may have served before.
fn hilo_refuse_barred(args: Args) {
    let name = begin_with_name(args, c"hilo_refuse_barred()");
    let Some(next) = args.int8(1) else { return };
    let sequence = &lock_owned(name).sequence;
    let Some(position) = positions::find(sequence.id, node::id()).or_raise() else { return };
    let supply = sources::of(&position).or_raise();
    if let Some(span) = supply.own.around(next) {
        let rising = sequence.definition.increment > 0;
        let last = if rising { span.high } else { span.low };
        HiloError::Barred { name: sequence.name.to_string(), next, last }.raise();
    }
}
