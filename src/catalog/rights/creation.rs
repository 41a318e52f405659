//! Adds a new sequence to the catalog, with the default privileges of its owner.

use crate::catalog::rights::default_privileges;
use crate::catalog::sequence::definitions::{self, Sequence};
use crate::errors::HiloError;

/// Adds a sequence, with the privileges that new sequences of its owner start with. If its name is
/// taken, a unique violation is raised.
pub fn insert(sequence: &Sequence) -> Result<(), HiloError> {
    definitions::insert(sequence)?;
    default_privileges::apply(sequence)
}
