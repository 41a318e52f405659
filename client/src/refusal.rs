//! Reads an error of the server: its SQLSTATE and texts, and whether the transaction was rolled
//! back.

use std::fmt::Display;
use std::sync::Arc;

use tokio_postgres::error::{Severity, SqlState};

/// The error of the server, or the reason why it cannot be reached.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
#[non_exhaustive]
pub struct Report {
    /// Its SQLSTATE; `None`: the server has said nothing.
    pub code: Option<SqlState>,
    /// The message.
    pub message: String,
    /// Its DETAIL.
    pub detail: Option<String>,
    /// Its HINT.
    pub hint: Option<String>,
}

/// The report in an error of the connection.
pub fn report(error: &(dyn std::error::Error + 'static)) -> Arc<Report> {
    let error_of_postgres = error.downcast_ref::<tokio_postgres::Error>();
    Arc::new(match error_of_postgres.and_then(tokio_postgres::Error::as_db_error) {
        Some(db) => Report {
            code: Some(db.code().clone()),
            message: db.message().to_owned(),
            detail: db.detail().map(str::to_owned),
            hint: db.hint().map(str::to_owned),
        },
        None => {
            // The reason is often further down, such as what is wrong with a certificate.
            let causes = std::iter::successors(Some(error), |error| error.source());
            let message = causes.map(|error| error.to_string()).collect::<Vec<_>>().join(": ");
            return Report::own(&message, None, None);
        }
    })
}

/// Whether the server has refused and rolled back. A FATAL error can come after a commit, and an
/// error of the connection says nothing about the transaction.
pub fn is_refusal(error: &tokio_postgres::Error) -> bool {
    let Some(report) = error.as_db_error() else { return false };
    let code = report.code();
    report.parsed_severity() == Some(Severity::Error)
        && !code.code().starts_with("08")
        && ![SqlState::READ_ONLY_SQL_TRANSACTION, SqlState::T_R_STATEMENT_COMPLETION_UNKNOWN]
            .contains(code)
}

impl Report {
    /// A report that the client makes itself.
    pub(crate) fn own(
        what: &dyn Display,
        detail: Option<String>,
        hint: Option<String>,
    ) -> Arc<Report> {
        Arc::new(Report { code: None, message: what.to_string(), detail, hint })
    }

    fn is(&self, state: &SqlState) -> bool {
        self.code.as_ref() == Some(state)
    }

    fn class(&self) -> &str {
        self.code.as_ref().map_or("", |code| &code.code()[..2])
    }

    /// Whether another attempt may succeed a moment later, because the first has met another
    /// transaction.
    pub(crate) fn is_transient(&self) -> bool {
        self.class() == "40"
    }

    /// Whether the server would do the work if it could, so that callers go on waiting: it met a
    /// lock, or lacks resources.
    pub(crate) fn is_lack(&self) -> bool {
        self.is_overload() || self.is_transient() || self.is(&SqlState::LOCK_NOT_AVAILABLE)
    }

    /// Whether the server has no room, or no time. Too many leases are in open transactions, it
    /// lacks resources, or it has canceled a statement at `statement_timeout`.
    pub(crate) fn is_overload(&self) -> bool {
        self.class() == "53"
            || self.is(&SqlState::PROGRAM_LIMIT_EXCEEDED)
            || self.is(&SqlState::QUERY_CANCELED)
    }

    /// Whether the lease has ended, or the sequence is no more.
    pub(crate) fn is_gone(&self) -> bool {
        self.is(&SqlState::UNDEFINED_OBJECT)
    }

    /// Whether the name of a lease belongs to one that the server does not give any more.
    pub(crate) fn is_taken(&self) -> bool {
        self.is(&SqlState::DUPLICATE_OBJECT)
    }
}
