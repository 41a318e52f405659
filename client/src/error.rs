//! The errors that callers of the client get.

use std::sync::Arc;
use std::time::Duration;

use tokio_postgres::error::SqlState;

use crate::refusal::Report;

/// Why there is no value. It can be cloned, since many callers can get the same refusal.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The server refuses to lease values of this sequence. There is none of that name, the role
    /// may not use it, it is exhausted, or it cannot be leased. [`code`](Self::code),
    /// [`detail`](Self::detail) and [`hint`](Self::hint) are the server's.
    #[error("no values of hilo sequence \"{sequence}\": {source}")]
    Refused {
        /// The name of the sequence.
        sequence: Arc<str>,
        /// The report of the server.
        source: Arc<Report>,
    },
    /// The server cannot be reached, and nothing is left in memory.
    #[error("cannot reach the server{}", because(source))]
    Unreachable {
        /// The last failure, if there was more than silence.
        source: Option<Arc<Report>>,
    },
    /// No value has come in time.
    #[error(
        "no value of hilo sequence \"{sequence}\" within {waited:?}{}{}",
        since(silent),
        because(source)
    )]
    Timeout {
        /// The name of the sequence.
        sequence: Arc<str>,
        /// How long the caller has waited.
        waited: Duration,
        /// For how long the server has been silent; `None`: it answers.
        silent: Option<Duration>,
        /// Why the last attempt to get values failed, if it did.
        source: Option<Arc<Report>>,
    },
    /// The client was shut down, or the runtime that it works in has ended.
    #[error("the client is shut down")]
    Closed,
    /// This process is a fork of the one that made the client. Its values are the parent's.
    #[error("the client belongs to the parent of this process")]
    Forked,
    /// The system does not tell this process of forks, because it has no memory left for that. In a
    /// fork values could come twice.
    #[error("cannot watch for forks of this process: error {code}")]
    Watch {
        /// The error of `pthread_atfork`.
        code: i32,
    },
    /// The database has no hilo with leases.
    #[error("the database has no extension hilo, or none with leases")]
    NotInstalled,
    /// The file of [`Builder::state`](crate::Builder::state) cannot be used. Another process has
    /// it, it has leases of another server, or it cannot be written, since the disk is full.
    #[error("cannot use the state file \"{path}\": {source}")]
    State {
        /// The path of the file.
        path: Arc<str>,
        /// Why the file cannot be used.
        source: Arc<Report>,
    },
    /// The server gave an answer that hilo never gives.
    #[error("unexpected answer of the server: {0}")]
    Answer(&'static str),
    /// The name of the sequence, or of the client, has a NUL character.
    #[error("a name must not have a NUL character: {0:?}")]
    Name(Arc<str>),
    /// A number of consecutive values that no lease can have.
    #[error("number of values must be from 1 to 1000000000: {0}")]
    Count(i64),
    /// The key format of the sequence is invalid, or with the server's prefix two values could have
    /// the same key.
    #[error("no keys of hilo sequence \"{sequence}\": {source}")]
    Keys {
        /// The name of the sequence.
        sequence: Arc<str>,
        /// The fault.
        source: Arc<Report>,
    },
}

impl Error {
    /// The server's report, or what is wrong with the keys, if there is one.
    pub fn report(&self) -> Option<&Report> {
        match self {
            Error::Refused { source, .. }
            | Error::Keys { source, .. }
            | Error::State { source, .. } => Some(source),
            Error::Unreachable { source } | Error::Timeout { source, .. } => source.as_deref(),
            _ => None,
        }
    }

    /// The server's SQLSTATE.
    pub fn code(&self) -> Option<&SqlState> {
        self.report()?.code.as_ref()
    }

    /// The DETAIL of the report.
    pub fn detail(&self) -> Option<String> {
        self.report()?.detail.clone()
    }

    /// The HINT of the report, or one of the client's own.
    pub fn hint(&self) -> Option<String> {
        Some(match self {
            Error::Closed => "Create another client.".into(),
            Error::Forked => "Connect after the fork, in the child.".into(),
            Error::NotInstalled => {
                "Run CREATE EXTENSION hilo, or ALTER EXTENSION hilo UPDATE, in this database."
                    .into()
            }
            Error::Count(_) => "Ask several times if you need more values.".into(),
            _ => return self.report()?.hint.clone(),
        })
    }
}

fn because(source: &Option<Arc<Report>>) -> String {
    source.as_ref().map_or_else(String::new, |source| format!(": {source}"))
}

fn since(silent: &Option<Duration>) -> String {
    silent.map_or_else(String::new, |silent| format!("; the server has been silent for {silent:?}"))
}
