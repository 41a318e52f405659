//! How a sequence gets a source, and how it is rid of it.

use hilo_core::options::{Definition, Options};

use crate::catalog::definitions::Sequence;
use crate::catalog::positions::Position;
use crate::catalog::sources::{self, hull};
use crate::catalog::{numbering, takeover};
use crate::errors::{HiloError, OrRaise};
use crate::sql::call::args::{Args, sql_functions};
use crate::sql::define::ddl_checks::{begin_with_name, check_source_nodes, lock_owned, require};
use crate::sql::define::ended::Restart;
use crate::sql::define::redefine::Alteration;

sql_functions!(hilo_detach);

/// Changes a locked sequence that begins or ceases to have a source, as its new definition says.
/// Returns whether it does.
pub fn alter(change: &Alteration, new: &Definition) -> bool {
    let old = &change.locked.sequence;
    let (before, after) = (&old.definition.source, &new.source);
    if change.restart.is_some() && before.as_ref().or(after.as_ref()).is_some() {
        HiloError::HasSource(old.name.to_string()).raise();
    }
    if before == after {
        return false;
    }
    match after {
        Some(_) => begin(change),
        None => _ = end(change),
    }
    true
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
    let used = match old.definition.source {
        None => own_bounds(old, &position),
        Some(_) => supply.brought,
    };
    (supply.own, supply.brought) = (hull(supply.own, used), None);
    (supply.request, supply.failures) = (None, 0);
    sources::write(&position, &supply).or_raise();
    let base = new.definition.grid_base();
    let begun = numbering::starting_at(old, &position, &new.definition, base).or_raise();
    ended.share(begun);
}

/// The lowest and the highest value that its own numberings may have served. Numberings before the
/// last one are known only to have begun within the bounds, and to have ended before this one.
fn own_bounds(sequence: &Sequence, position: &Position) -> Option<(i64, i64)> {
    let definition = &sequence.definition;
    let last = takeover::at_most(sequence, position).last_value(definition);
    if position.is_first() {
        return last.map(|last| (last.min(position.base), last.max(position.base)));
    }
    let last = last.unwrap_or(position.base.saturating_sub(definition.increment));
    Some(match definition.increment > 0 {
        true => (definition.min_value.min(last), last),
        false => (last, definition.max_value.max(last)),
    })
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
    let used = hull(supply.own, supply.brought);
    let rising = old.definition.increment > 0;
    let last = used.map(|(low, high)| if rising { high } else { low });
    let next = |last: i64| last.saturating_add(old.definition.increment);
    let start = change.restart.unwrap_or_else(|| last.map_or(old.definition.start_value, next));
    if let Some(last) = last.filter(|last| if rising { start <= *last } else { start >= *last }) {
        HiloError::DetachedBefore { name: old.name.to_string(), start, last }.raise();
    }
    (supply.own, supply.brought, supply.request, supply.failures) = (used, None, None, 0);
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
