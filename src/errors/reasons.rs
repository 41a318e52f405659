//! Why something was refused: each reason is the DETAIL of an error, and some have a HINT.

use hilo_core::error_table;
use pgrx::PgSqlErrorCode::*;

use crate::errors::text::ask_owner;
use crate::errors::{Code, FaultKind};

error_table! {
    /// Why a caller waited without success. An error of the worker, such as a locked row, is a
    /// [`Cause::Fault`]: see [`FaultKind`].
    #[derive(Debug, thiserror::Error)]
    pub enum Cause: Code {
        #[error("No background worker was free to reserve a block.")]
        #[hint("Raise max_worker_processes.")]
        NoWorker = ERRCODE_CONFIGURATION_LIMIT_EXCEEDED,
        /// The worker has not answered: it works or waits, or it has not connected yet.
        #[error("The worker has not yet committed the reservation.")]
        #[hint("Check in pg_stat_activity what the process \"hilo worker\" is waiting for, or \
                in pg_locks if it is not there, because it has not connected yet. With synchronous \
                replication, a reservation waits for the standby.")]
        Slow = ERRCODE_LOCK_NOT_AVAILABLE,
        #[error("The source of the sequence has not yet answered.")]
        #[hint("See hilo_stat_sources, and in pg_stat_activity what the process \"hilo source\" is \
                waiting for. reserve_ahead says how long an outage of the source may last.")]
        Source = ERRCODE_LOCK_NOT_AVAILABLE,
        /// There is no worker, and a new one may load the same library.
        #[error("There is no worker. Processes have loaded version {version} of the library, which \
                 cannot use the shared memory: if that is the version that is installed, none can \
                 start.")]
        #[hint("Restart the server with the version that is to be used: the shared memory lasts as \
                long as it runs.")]
        OtherLibrary { version: String } = ERRCODE_LOCK_NOT_AVAILABLE,
        /// The worker got this error and keeps trying.
        #[error("The worker could not reserve a block: {message}.")]
        #[hint("{}", kind.hint())]
        Fault { sqlstate: i32, kind: FaultKind, message: String } = Code::from(*sqlstate),
        /// The error of a source, which only its owner may see.
        #[error("Its source failed.")]
        #[hint("{}", ask_owner(owner))]
        OwnersFault { sqlstate: i32, owner: String } = Code::from(*sqlstate),
    }
}

/// Why the values of a sequence cannot be leased.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unleasable {
    #[error("it is gapless")]
    Gapless,
    #[error("it is ordered")]
    Ordered,
    #[error("it cycles")]
    Cycles,
}

/// Why a lease is not open.
#[derive(Debug, thiserror::Error)]
pub enum Closed {
    #[error("It was never taken, or it has been returned, was revoked, or has expired.")]
    Unknown,
    #[error("It was returned at {0}.")]
    Returned(String),
    #[error("It was revoked at {0}. Its values are a gap and are not served again.")]
    Revoked(String),
    #[error("It expired at {0}. Its values are a gap and are not served again.")]
    Expired(String),
}
