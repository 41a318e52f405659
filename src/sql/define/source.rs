//! How a sequence gets a source, and how it is rid of it.

use hilo_core::options::{Definition, Options};

use crate::catalog::column_ref::ColumnRef;
use crate::catalog::definitions::{LockedSequence, Sequence};
use crate::catalog::positions::Position;
use crate::catalog::sources::{self, Supply, hull};
use crate::catalog::{numbering, takeover};
use crate::errors::{HiloError, OrRaise};
use crate::sql::call::args::{Args, sql_functions};
use crate::sql::define::ddl_checks::{
    begin_write, check_source_nodes, lock_owned, require, require_name,
};
use crate::sql::define::ended::{Restart, refuse_source};
use crate::sql::define::redefine::write_ended;

sql_functions!(hilo_detach);

/// Changes a locked sequence that begins or ceases to have a source, as its new definition says.
/// Returns whether it does.
pub fn alter(
    owned: &LockedSequence,
    new: &Definition,
    options: &Options,
    owned_by: Option<ColumnRef>,
    restart: Option<i64>,
) -> bool {
    let old = &owned.sequence;
    if restart.is_some() && new.source.is_some() {
        HiloError::HasSource(old.name.to_string()).raise();
    }
    match (&old.definition.source, &new.source) {
        (before, after) if before == after => return false,
        (_, Some(_)) => begin(owned, options, owned_by),
        (_, None) => {
            if restart.is_some() {
                refuse_source(old).or_raise();
            }
            end(owned, None, options, owned_by);
        }
    }
    true
}

/// Values that the sequence holds of its own, or of another source, are not served any more. That
/// source may be the same one after a renumbering.
fn begin(owned: &LockedSequence, options: &Options, owned_by: Option<ColumnRef>) {
    let old = &owned.sequence;
    let ended = Restart::close_any(old);
    let position = *ended.position();
    let definition = write_ended(owned, options, owned_by, &position, None);
    let new = Sequence { definition, ..old.clone() };
    check_source_nodes(&new, position.nodes).or_raise();
    let mut supply = supply(&position);
    let used = match old.definition.source {
        None => own_bounds(old, &position),
        Some(_) => supply.brought,
    };
    (supply.own, supply.brought) = (hull(supply.own, used), None);
    (supply.request, supply.failures) = (None, 0);
    write(&position, &supply);
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

/// Ends the numbering of the source: numbers begin with `start`. Without it, they begin where the
/// sequence stood before, which needs that no source has ever brought anything. Returns where.
fn end(
    owned: &LockedSequence,
    start: Option<i64>,
    options: &Options,
    owned_by: Option<ColumnRef>,
) -> i64 {
    let old = &owned.sequence;
    let ended = Restart::close_any(old);
    let position = *ended.position();
    let mut supply = supply(&position);
    let may_lack = !position.is_ours() || position.may_lack();
    if start.is_none() && (supply.received > 0 || supply.request.is_some() || may_lack) {
        HiloError::SourceUsed(old.name.to_string()).raise();
    }
    let used = hull(supply.own, supply.brought);
    let rising = old.definition.increment > 0;
    let last = used.map(|(low, high)| if rising { high } else { low });
    let next = |last: i64| last.saturating_add(old.definition.increment);
    let start = start.unwrap_or_else(|| last.map_or(old.definition.start_value, next));
    if let Some(last) = last.filter(|last| if rising { start <= *last } else { start >= *last }) {
        HiloError::DetachedBefore { name: old.name.to_string(), start, last }.raise();
    }
    (supply.own, supply.brought, supply.request, supply.failures) = (used, None, None, 0);
    write(&position, &supply);
    let definition = write_ended(owned, options, owned_by, &position, Some(start));
    let begun = numbering::starting_at(old, &position, &definition, start).or_raise();
    ended.share(begun);
    start
}

fn supply(position: &Position) -> Supply {
    sources::of(position).or_raise()
}

fn write(position: &Position, supply: &Supply) {
    sources::write(position, supply).or_raise();
}

/// `hilo.detach(name, start)`: the sequence numbers itself from now on. Returns `start`.
fn hilo_detach(args: Args) -> i64 {
    begin_write(c"hilo_detach()");
    let name = require_name(args);
    require(args, 1, "start");
    let owned = lock_owned(name);
    if owned.sequence.definition.source.is_none() {
        HiloError::NoSource(owned.sequence.name.to_string()).raise();
    }
    let options = Options { source: Some(String::new()), ..Options::default() };
    end(&owned, args.int8(1), &options, owned.sequence.owned_by)
}
