//! Which sequences the functions behind the views show to the current user. Whoever reads a view
//! may call its function too, so each function shows what its caller may see.

use std::collections::HashMap;

use hilo_core::numbers::SequenceId;

use crate::catalog::sequence::definitions;

use crate::catalog::rights::privileges;
use crate::errors::HiloError;
use crate::process::ffi;
use crate::process::memory::TryGrow;

pub struct Visible {
    /// The answers so far; `None`: the user sees every sequence.
    limited: Option<HashMap<SequenceId, bool>>,
}

impl Visible {
    pub fn of_caller() -> Visible {
        let limited = !privileges::reads_all(ffi::current_user());
        Visible { limited: limited.then(HashMap::new) }
    }

    pub fn contains(&mut self, id: SequenceId) -> Result<bool, HiloError> {
        let Some(known) = &mut self.limited else { return Ok(true) };
        if let Some(answer) = known.get(&id) {
            return Ok(*answer);
        }
        let answer = match definitions::by_id(id)? {
            Some(sequence) => privileges::may_see(&sequence, ffi::current_user())?,
            None => false,
        };
        known.try_push((id, answer))?;
        Ok(answer)
    }
}
