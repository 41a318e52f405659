//! Documents that are arguments: their text, and the place of what is wrong.

use std::panic::AssertUnwindSafe;

use pgrx::pg_sys::panic::{CaughtError, ErrorReport};
use pgrx::prelude::*;

use hilo_core::document::{Described, Document, Entry, Fault, place_of};

use crate::catalog::rows::encoding::encode;
use crate::catalog::rows::name::escape_for_message;
use crate::errors::{DocumentError, HiloError, OrRaise, shorten};
use crate::process::subtransaction;
use crate::sql::call::jsonb::JsonB;

pub fn document(argument: JsonB) -> Result<Document, HiloError> {
    Ok(Document::parse(&argument.text()?).unwrap_or_else(refuse))
}

/// Raises the error for a fault of the form.
pub fn refuse<T>(Fault { place, what }: Fault) -> T {
    placed(&place, || Err(DocumentError::Form(escape_for_message(&encode(&what))).into()))
}

/// The sequence at this place of a document.
pub fn described(at: usize, entry: Entry) -> Described {
    placed(&place_of(at, ""), || Ok(Described::new(entry)?))
}

/// Does `work`. An error, also of core's, says to which place of the document it belongs.
pub fn placed<T>(place: &str, work: impl FnOnce() -> Result<T, HiloError>) -> T {
    PgTryBuilder::new(AssertUnwindSafe(|| work().or_raise()))
        .catch_others(|error| match error {
            CaughtError::PostgresError(report) | CaughtError::ErrorReport(report)
                if report.sql_error_code() != PgSqlErrorCode::ERRCODE_QUERY_CANCELED =>
            {
                let place = if place == "." { "the top level" } else { place };
                let mut detail = report.detail().map_or(String::new(), |text| format!("{text} "));
                detail += &format!("The error is at {place} of the document.");
                let message = report.message().to_owned();
                let placed = ErrorReport::new(report.sql_error_code(), message, "hilo");
                let placed = placed.set_detail(shorten(detail));
                subtransaction::replace(match report.hint() {
                    Some(hint) => placed.set_hint(hint),
                    None => placed,
                })
            }
            error => error.rethrow(),
        })
        .execute()
}
