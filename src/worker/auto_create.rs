//! Creates the sequences that sessions have asked for, each with its first block.

use pgrx::pg_sys;

use hilo_core::numbers::SequenceId;
use hilo_core::options::{Definition, Options};

use crate::catalog::definitions::{self, Sequence};
use crate::catalog::node::{self, Here};
use crate::catalog::positions::{self, Position};
use crate::catalog::table::next_command;
use crate::catalog::{CatalogOids, catalog_oids, creation};
use crate::errors::HiloError;
use crate::gucs;
use crate::process::ffi;
use crate::shared::fault::Fault;
use crate::shared::key::Key;
use crate::shared::random_id;
use crate::worker::Worker;
use crate::worker::reserve::{self, Outcome, Plan};
use crate::worker::transaction::{self, BRIEFLY, Commit, Failure};

impl Worker {
    /// Serves all requests. Returns whether there were any.
    pub(super) fn create(&mut self) -> bool {
        let mut any = false;
        while let Some(asked) = self.shared.next_request(self.database) {
            any = true;
            let done = self.create_one(asked.name(), asked.owner);
            if done.is_err() && transaction::is_ending() {
                // The next worker serves this request.
                return any;
            }
            let answer = done.map_err(|failure| {
                Fault::new(failure.sqlstate, failure.kind, &failure.message, ffi::now())
            });
            self.shared.answer(&asked, answer);
            self.shared.control.answered.broadcast();
        }
        any
    }

    /// Creates a sequence, unless there is one, and reserves its first block in the same
    /// transaction.
    fn create_one(&mut self, name: &[u8], owner: pg_sys::Oid) -> Result<(), Failure> {
        let id = SequenceId(random_id());
        let mut plan = None;
        let done = transaction::run(Some(BRIEFLY), c"hilo: creating a sequence", || {
            if definitions::by_name(name)?.is_some() {
                return Ok(Outcome::Gone);
            }
            insert(id, name, owner)?;
            next_command();
            let ids = catalog_oids()?;
            plan = self.plan_first(&ids, id);
            match &plan {
                Some(plan) => reserve::reserve(&ids, self.shared, &Here::read()?, plan),
                None => Ok(Outcome::Gone),
            }
        });
        let result = done.as_ref().map(|_| ()).map_err(Failure::clone);
        // If nothing was reserved, this frees the slot.
        if let Some(plan) = plan {
            let (outcome, commit) = done.unwrap_or((Outcome::Gone, Commit::NONE));
            self.apply_outcomes(vec![plan], vec![outcome], commit);
        }
        result
    }

    /// A slot for a sequence that is being created, and what it needs. `None`: no slot is free.
    fn plan_first(&mut self, ids: &CatalogOids, id: SequenceId) -> Option<Plan> {
        let database = self.database.to_u32();
        let key = Key { database, extension: ids.extension.to_u32(), sequence: id };
        let pinned = self.shared.find_or_add(&key)?;
        self.plan(self.shared.number_of(pinned.slot()))
    }
}

fn insert(id: SequenceId, name: &[u8], owner: pg_sys::Oid) -> Result<(), HiloError> {
    let here = Here::read()?;
    node::check_set(gucs::node_count())?;
    let sequence = Sequence {
        id,
        name: name.into(),
        owner,
        created_at: definitions::now(),
        owned_by: None,
        highest_node: None,
        definition: Definition::create(&Options::default()).map_err(HiloError::from)?,
    };
    creation::insert(&sequence)?;
    here.check(&sequence.definition)?;
    positions::insert(&Position::first(&sequence, here.id)).map(|_| ())
}
