//! How a sequence enters the catalog.

use crate::catalog::default_privileges;
use crate::catalog::definitions::{self, Sequence};
use crate::errors::HiloError;

/// Adds a sequence, with the privileges that new sequences of its owner start with. If its name is
/// taken, a unique violation is raised.
pub fn insert(sequence: &Sequence) -> Result<(), HiloError> {
    definitions::insert(sequence)?;
    default_privileges::apply(sequence)
}
