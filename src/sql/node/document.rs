//! Documents that are arguments: their text, and the place of what is wrong.

use std::cell::RefCell;
use std::fmt::Write;
use std::panic::{AssertUnwindSafe, RefUnwindSafe};

use pgrx::pg_sys::panic::{CaughtError, ErrorReport, ErrorReportWithLevel};
use pgrx::prelude::*;

use hilo_core::document::{Document, Fault};

use crate::catalog::rows::encoding::encode;
use crate::catalog::rows::name::escape_for_message;
use crate::errors::{DocumentError, HiloError, OrRaise, shorten};
use crate::sql::call::jsonb::JsonB;

/// The place in a document that is being worked on; empty: no place.
#[derive(Default)]
pub struct Place(RefCell<String>);

/// After an error only the place is read.
impl RefUnwindSafe for Place {}

impl Place {
    /// Begins to work on a field of a sequence, or on all of it.
    pub fn set(&self, at: usize, field: &str) {
        let mut place = self.0.borrow_mut();
        place.clear();
        let _ = write!(place, "sequences[{at}]{field}");
    }

    pub fn clear(&self) {
        self.0.borrow_mut().clear();
    }

    pub fn read(&self, argument: JsonB) -> Result<Document, HiloError> {
        Document::parse(&argument.text()?).map_err(|Fault { place, what }| {
            self.0.replace(if place == "." { "the top level".into() } else { place });
            form(&what)
        })
    }

    /// The report with the place in its DETAIL.
    fn in_report(&self, report: &ErrorReportWithLevel) -> ErrorReport {
        let mut detail = report.detail().map_or(String::new(), |text| format!("{text} "));
        detail += &format!("The error is at {} of the document.", self.0.borrow());
        let (code, message) = (report.sql_error_code(), report.message().to_owned());
        let placed = ErrorReport::new(code, message, "hilo").set_detail(shorten(detail));
        match report.hint() {
            Some(hint) => placed.set_hint(hint),
            None => placed,
        }
    }
}

/// The error for a fault of the form.
pub fn form(what: &str) -> HiloError {
    DocumentError::Form(escape_for_message(&encode(what))).into()
}

/// Does work on a document. The report of any error, also of core's, says to which place it
/// belongs.
pub fn with_place<T>(work: impl FnOnce(&Place) -> Result<T, HiloError>) -> Result<T, ErrorReport> {
    let place = Place::default();
    PgTryBuilder::new(AssertUnwindSafe(|| Ok(work(&place).or_raise())))
        .catch_others(|error| match &error {
            CaughtError::PostgresError(report) | CaughtError::ErrorReport(report)
                if !place.0.borrow().is_empty()
                    && report.sql_error_code() != PgSqlErrorCode::ERRCODE_QUERY_CANCELED =>
            {
                Err(place.in_report(report))
            }
            _ => error.rethrow(),
        })
        .execute()
}
