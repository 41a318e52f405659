//! Once per worker, records in `pg_shdepend` the roles that the catalog mentions.

use crate::catalog::rights::role_references;
use crate::catalog::rows::catalog_tables;
use crate::worker::Worker;
use crate::worker::transaction::{self, BRIEFLY};

impl Worker {
    /// Rows may have come by pg_upgrade or replication, without the dependencies on their roles. If
    /// this fails, it is left to the next worker.
    pub(super) fn record_roles(&mut self) {
        if std::mem::replace(&mut self.roles_recorded, true) {
            return;
        }
        let done = transaction::run_within(BRIEFLY, c"hilo: recording roles", || {
            if catalog_tables::is_installed()? { role_references::reconcile() } else { Ok(()) }
        });
        if let Err(failure) = done {
            pgrx::log!("could not record the roles in the catalog of hilo: {}", failure.message);
        }
    }
}
