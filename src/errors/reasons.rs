//! Why something is as an error says. The texts are DETAILs, with a hint where the error takes one.

use hilo_core::error_table;

use crate::errors::Code;
use crate::errors::text::{SEE_LOG, ask_owner};

error_table! {
    /// Why a caller waited without success.
    #[derive(Debug)]
    pub enum Cause {
        NoWorker = "No background worker was free to reserve a block."
            => hint "Raise max_worker_processes.";
        /// The worker is running and has not answered.
        Slow = "The worker has not yet committed the reservation."
            => hint "Check in pg_stat_activity what the process \"hilo worker\" is waiting for. \
                     With synchronous replication, a reservation waits for the standby.";
        Source = "The source of the sequence has not yet answered."
            => hint "See hilo_stat_sources, and in pg_stat_activity what the process \"hilo \
                     source\" is waiting for. reserve_ahead says how long an outage of the source \
                     may last.";
        /// There is no worker, and a new one may load that library, too.
        OtherLibrary { version: String }
            = "There is no worker. Processes have loaded version {version} of the library, which \
               cannot use the shared memory: if that is the version that is installed, none can \
               start."
            => hint "Restart the server with the version that is to be used: the shared memory \
                     lasts as long as it runs.";
        /// The worker got this error and keeps trying.
        Fault { sqlstate: i32, message: String }
            = "The worker could not reserve a block: {message}."
            => hint { SEE_LOG };
        /// The same of a source, whose error its owner alone sees.
        OwnersFault { sqlstate: i32, owner: String } = "Its source failed."
            => hint { ask_owner(owner) };
    }
}

impl Cause {
    pub fn code(&self) -> Code {
        match self {
            Cause::NoWorker => Code::ERRCODE_CONFIGURATION_LIMIT_EXCEEDED,
            Cause::Fault { sqlstate, .. } | Cause::OwnersFault { sqlstate, .. } => {
                Code::from(*sqlstate)
            }
            Cause::Slow | Cause::Source | Cause::OtherLibrary { .. } => {
                Code::ERRCODE_LOCK_NOT_AVAILABLE
            }
        }
    }
}

error_table! {
    /// Why the values of a sequence cannot be leased.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Unleasable {
        Gapless = "it is gapless";
        Ordered = "it is ordered";
        Cycles = "it cycles";
    }
}

error_table! {
    /// Why a lease is not open.
    #[derive(Debug)]
    pub enum Closed {
        Unknown = "It was never taken, or it has been returned, was revoked, or has expired.";
        Returned(at: String) = "It was returned at {at}.";
        Revoked(at: String)
            = "It was revoked at {at}. Its values are a gap and are not served again.";
        Expired(at: String)
            = "It expired at {at}. Its values are a gap and are not served again.";
    }
}
