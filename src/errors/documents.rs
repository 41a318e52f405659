//! Errors in a document of sequences, or in what it asks for.

use hilo_core::error_table;
use pgrx::PgSqlErrorCode::*;
use pgrx::pg_sys::panic::ErrorReportWithLevel;

use crate::errors::Code;

error_table! {
    #[derive(Debug, thiserror::Error)]
    pub enum DocumentError: Code {
        #[error("invalid document of hilo sequences: {what}")]
        #[detail("The error is at {place} of the document.")]
        #[hint("Compare the document with what hilo_export() returns, or check it against \
                docs/hilo.schema.json.")]
        Form { place: String, what: String } = ERRCODE_INVALID_PARAMETER_VALUE,
        /// An error of what a sequence of the document asks for.
        #[error("{}", .report.message())]
        #[detail("{}", at_place(report.detail(), place))]
        #[hint("{}", report.hint()?)]
        At { place: String, report: Box<ErrorReportWithLevel> } = report.sql_error_code(),
        #[error("node {0} is another server")]
        #[detail("The summary is of a server that has the hilo.node_id of this one.")]
        #[hint("Give each server its own hilo.node_id.")]
        OtherServer(node: i32) = ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
        #[error("it is not known how hilo sequence \"{0}\" is numbered")]
        #[detail("The server that the summary is of refuses to serve it.")]
        #[hint("Pass the summary of a server that serves it.")]
        NotNumbered(name: String) = ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
        #[error("the source of hilo sequence \"{0}\" is not known")]
        #[detail("A source brings its values, which only its owner may see.")]
        #[hint("Pass a summary that the owner of the sequence, or a superuser, has read.")]
        SourceHidden(name: String) = ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
        #[error("the document is not the summary of a node")]
        #[detail("It does not say which node it is of.")]
        #[hint("Pass what hilo_node_summary() returns on the other server.")]
        NotASummary = ERRCODE_INVALID_PARAMETER_VALUE,
    }
}

fn at_place(detail: Option<&str>, place: &str) -> String {
    let detail = detail.map_or(String::new(), |detail| format!("{detail} "));
    format!("{detail}The error is at {place} of the document.")
}
