//! Writes what a statement has made of a definition.

use hilo_core::options::{Definition, Options};

use crate::catalog::column_ref::ColumnRef;
use crate::catalog::definitions::{LockedSequence, Sequence};
use crate::catalog::positions::Position;
use crate::errors::OrRaise;
use crate::session::invalidation::{self, Change};
use crate::sql::define::ddl::check_key_format;

/// Writes the definition that a locked sequence has after its numbering ended at `position`, and
/// returns it.
pub fn write_ended(
    locked: &LockedSequence,
    options: &Options,
    owned_by: Option<ColumnRef>,
    position: &Position,
    restart: Option<i64>,
) -> Definition {
    let old = &locked.sequence;
    let last = position.last_value(&old.definition).unwrap_or(position.base);
    write_definition(locked, options, owned_by, Some(last), restart)
}

/// The same where `last` is the last value that was reserved.
pub fn write_definition(
    locked: &LockedSequence,
    options: &Options,
    owned_by: Option<ColumnRef>,
    last: Option<i64>,
    restart: Option<i64>,
) -> Definition {
    let old = &locked.sequence;
    let definition = old.definition.alter(options, last, restart).or_raise();
    check_key_format(&definition, &old.name).or_raise();
    locked.update(&Sequence { owned_by, definition: definition.clone(), ..old.clone() });
    invalidation::note(old.id, Change::Terms).or_raise();
    definition
}
