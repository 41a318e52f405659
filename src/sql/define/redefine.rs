//! Writes a changed definition, and has sessions and the worker read it again.

use hilo_core::options::{Definition, Options};

use crate::catalog::columns::column_ref::ColumnRef;
use crate::catalog::sequence::definitions::{LockedSequence, Sequence};
use crate::catalog::sequence::positions::Position;
use crate::errors::HiloError;
use crate::session::invalidation::{self, Change};
use crate::sql::define::prefix;

/// A change of a locked sequence: of its options, its owner column, and the value with which it
/// continues.
#[derive(Clone, Copy)]
pub struct Alteration<'a> {
    pub locked: &'a LockedSequence,
    pub options: &'a Options,
    pub owned_by: Option<ColumnRef>,
    pub restart: Option<i64>,
}

impl Alteration<'_> {
    /// Whether sessions and the worker need not learn of the new definition. Setting a source to
    /// the same query makes it begin again.
    pub fn is_quiet(&self, new: &Definition) -> bool {
        let old = &self.locked.sequence;
        let is_same = self.owned_by == old.owned_by && new.serves_like(&old.definition);
        is_same && self.restart.is_none() && self.options.source.is_none()
    }

    /// Writes the definition that the sequence has after its numbering ended at `position`, and
    /// returns it.
    pub fn write_ended(&self, position: &Position) -> Result<Definition, HiloError> {
        let last = position.last_value(&self.locked.sequence.definition);
        self.write(Some(last.unwrap_or(position.base)))
    }

    /// Writes the definition, where `last` is the last reserved value, and returns it.
    pub fn write(&self, last: Option<i64>) -> Result<Definition, HiloError> {
        let old = &self.locked.sequence;
        let definition = old.definition.alter(self.options, last, self.restart)?;
        prefix::allows_definition(&definition, &old.name)?;
        let owned_by = self.owned_by;
        self.locked.update(&Sequence { owned_by, definition: definition.clone(), ..old.clone() });
        match self.is_quiet(&definition) {
            true => invalidation::begin(),
            false => invalidation::note(old.id, Change::Terms)?,
        }
        Ok(definition)
    }
}
