//! Once in the worker's life: the roles that the catalog mentions and those that the cluster knows of are
//! the same.

use super::Worker;
use super::transaction;
use crate::catalog::roles;
use crate::errors::HiloError;

impl Worker {
    /// Rows may have come without their roles' dependencies, by pg_upgrade or replication. What fails is
    /// left to the next worker.
    pub(super) fn settle_roles(&mut self) {
        if std::mem::replace(&mut self.settled, true) {
            return;
        }
        let settled = transaction::patiently(c"hilo: settling roles", || match roles::settle() {
            Err(HiloError::NotInstalled) => Ok(()),
            done => done,
        });
        if let Err(failure) = settled {
            pgrx::log!("could not settle the roles of hilo's catalog: {}", failure.message);
        }
    }
}
