//! What an error of the server means.

use tokio_postgres::error::{Severity, SqlState};

/// Whether the server has refused and rolled back. A FATAL error can come after a commit, and one
/// of the connection says nothing about the transaction.
pub fn is_refusal(error: &tokio_postgres::Error) -> bool {
    let Some(report) = error.as_db_error() else { return false };
    let code = report.code();
    report.parsed_severity() == Some(Severity::Error)
        && !code.code().starts_with("08")
        && ![SqlState::READ_ONLY_SQL_TRANSACTION, SqlState::T_R_STATEMENT_COMPLETION_UNKNOWN]
            .contains(code)
}

/// Whether the same statement may succeed a moment later: it met another transaction.
pub fn is_transient(error: &tokio_postgres::Error) -> bool {
    error.code().is_some_and(|code| code.code().starts_with("40"))
}

/// Whether the server would do what it was asked for if it could: callers wait on. A lock, or a
/// lack of resources.
pub fn is_lack(error: &tokio_postgres::Error) -> bool {
    is_overload(error) || error.code() == Some(&SqlState::LOCK_NOT_AVAILABLE)
}

/// Whether the server has no room for a statement, whatever it is for, or no time: too many leases
/// are in open transactions, it lacks resources, or it has canceled what took longer than
/// `statement_timeout`.
pub fn is_overload(error: &tokio_postgres::Error) -> bool {
    let code = error.code().map_or("", SqlState::code);
    code.starts_with("53") || ["54000", "57014"].contains(&code)
}

/// Whether the lease has ended, or the sequence is no more.
pub fn is_gone(error: &tokio_postgres::Error) -> bool {
    error.code() == Some(&SqlState::UNDEFINED_OBJECT)
}
