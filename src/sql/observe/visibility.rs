//! Which sequences the functions behind the views show to the current user. Whoever reads a view
//! may call its function too, so each function shows what its caller may see.

use std::collections::HashMap;

use hilo_core::numbers::SequenceId;

use crate::catalog::rights::privileges;
use crate::catalog::sequence::definitions;
use crate::errors::OrRaise;
use crate::process::ffi;

pub struct Visible {
    /// The answers so far; `None`: the user sees every sequence.
    limited: Option<HashMap<SequenceId, bool>>,
}

impl Visible {
    pub fn of_caller() -> Visible {
        let limited = !privileges::reads_all(ffi::current_user());
        Visible { limited: limited.then(HashMap::new) }
    }

    pub fn contains(&mut self, id: SequenceId) -> bool {
        let Some(known) = &mut self.limited else { return true };
        *known.entry(id).or_insert_with(|| {
            let sequence = definitions::by_id(id).or_raise();
            let user = ffi::current_user();
            sequence.is_some_and(|sequence| privileges::may_see(&sequence, user).or_raise())
        })
    }
}
