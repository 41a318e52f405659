//! Which sequences the functions behind the views show to the current user. That is every one,
//! because only the views call them, and each view shows what its reader may see. If the extension
//! was created in schema `hilo`, its users need USAGE there, and so may call them too. Then each
//! function shows what its caller may see.

use std::collections::HashMap;

use hilo_core::numbers::SequenceId;

use crate::catalog::version;
use crate::catalog::{catalog_oids, definitions, privileges};
use crate::errors::OrRaise;
use crate::process::ffi;

pub struct Visible {
    /// The answers so far; `None`: every sequence is shown.
    limited: Option<HashMap<SequenceId, bool>>,
}

impl Visible {
    pub fn of_caller() -> Visible {
        let ids = catalog_oids().or_raise();
        let limited = version::schema(ids.extension).or_raise() == ids.schema;
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
