//! Creates the sequences that sessions have asked for.

use pgrx::pg_sys;

use hilo_core::numbers::SequenceId;
use hilo_core::options::{Definition, Options};

use super::Worker;
use super::transaction::{self, BRIEFLY};
use crate::catalog::creation;
use crate::catalog::definitions::{self, Sequence};
use crate::catalog::numbering;
use crate::catalog::positions::{self, Position};
use crate::errors::HiloError;
use crate::ffi;
use crate::shared::random_id;
use crate::shared::slot::Fault;

impl Worker {
    /// Serves all requests. Returns whether there were any.
    pub(super) fn create(&self) -> bool {
        let mut any = false;
        while let Some(taken) = self.shared.take_request(self.database) {
            any = true;
            let done = create(taken.name(), taken.owner);
            if done.is_err() && transaction::is_ending() {
                // The next worker serves this request.
                self.shared.retake_requests(self.database);
                return any;
            }
            let fault = done.err().map(|failure| {
                Fault::new(failure.sqlstate, failure.kind, &failure.message, ffi::now())
            });
            self.shared.answer_request(taken.at, fault);
            self.shared.control.answered.broadcast();
        }
        any
    }
}

fn create(name: &[u8], owner: pg_sys::Oid) -> Result<(), transaction::Failure> {
    transaction::run_within(BRIEFLY, c"hilo: creating a sequence", || {
        if definitions::by_name(name)?.is_some() {
            return Ok(());
        }
        numbering::node()?;
        let sequence = Sequence {
            id: SequenceId(random_id()),
            name: name.into(),
            owner,
            created_at: definitions::now(),
            owned_by: None,
            definition: Definition::create(&Options::default()).map_err(HiloError::from)?,
        };
        creation::insert(&sequence)?;
        positions::insert(&Position::first(&sequence))
    })
}
