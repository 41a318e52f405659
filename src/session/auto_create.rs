//! `hilo.auto_create`: at the first use of an unknown name, the worker creates the sequence. It
//! does so in its own transaction: the sequence stays if the caller rolls back, and nobody waits
//! for the caller's end.
//!
//! The session takes a slot for the new sequence and waits for its first block as for any other.
//! The slot's shared name says what to create. A request that nobody waits for is not fulfilled.

use hilo_core::numbers::SequenceId;

use crate::catalog::rows::name::escape_for_message;
use crate::errors::HiloError;
use crate::process::ffi;
use crate::session::{names, wait};
use crate::shared::shared_name::SharedName;
use crate::shared::{self, random_id};

/// Has the worker create a sequence of this name, with the default options, owned by the current
/// user. If another session was first, nothing happens.
///
/// # Errors
/// The errors of waiting for a slot and for a block.
pub fn create(name: &[u8]) -> Result<(), HiloError> {
    // No sequence has a longer name.
    let Some(request) = SharedName::create_request(name, ffi::current_user().to_u32()) else {
        return Ok(());
    };
    let shared = shared::get()?;
    let key = names::key_of(SequenceId(random_id()))?;
    let (slot, pin) = wait::for_slot(shared, &key)?;
    let number = shared.number_of(slot);
    shared.lock_slot(number).shared_name = request;
    let created = wait::for_terms(shared, slot, &escape_for_message(name));
    drop(pin);
    match created {
        Ok(_) => Ok(()),
        Err(error) => {
            shared.free(number);
            match error {
                HiloError::NoSuchSequence { .. } => Ok(()),
                error => Err(error),
            }
        }
    }
}
