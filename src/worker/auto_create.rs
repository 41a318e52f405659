//! Creates a sequence that a session has asked for, in the transaction that reserves its first
//! block.

use pgrx::pg_sys;

use hilo_core::numbers::SequenceId;
use hilo_core::options::{Definition, Options};

use crate::catalog::rights::creation;
use crate::catalog::sequence::definitions::{self, Sequence};
use crate::catalog::sequence::node::{self, LocalNode};
use crate::catalog::sequence::positions::Position;
use crate::errors::HiloError;
use crate::gucs;
use crate::shared::shared_name::SharedName;

/// Adds the sequence, unless another one has the name, and returns it with its first position,
/// which the caller writes.
///
/// # Errors
/// The errors of writing to the catalog: another transaction may be creating a sequence of this
/// name.
pub fn create(
    here: &LocalNode,
    id: SequenceId,
    request: &SharedName,
) -> Result<Option<(Sequence, Position)>, HiloError> {
    if definitions::by_name(request.name())?.is_some() {
        return Ok(None);
    }
    node::check_set(gucs::node_count())?;
    let definition = Definition::create(&Options::default()).map_err(HiloError::from)?;
    let owner = pg_sys::Oid::from_u32(request.owner());
    let sequence = Sequence::with_id(id, request.name().into(), owner, definition);
    creation::insert(&sequence)?;
    here.check(&sequence.definition)?;
    let position = Position::first(&sequence, here.id);
    Ok(Some((sequence, position)))
}
