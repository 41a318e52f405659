//! Documents that are arguments: their text, and the place of what is wrong.

use std::panic::AssertUnwindSafe;

use pgrx::prelude::*;

use hilo_core::document::{Document, Fault, place_of};

use crate::catalog::rows::encoding::encode;
use crate::catalog::rows::name::escape_for_message;
use crate::errors::{DocumentError, HiloError, OrRaise};
use crate::process::subtransaction::{into_report, is_of_work};
use crate::sql::call::jsonb::JsonB;

pub fn read(argument: JsonB) -> Result<Document, HiloError> {
    Document::parse(&argument.text()?).map_err(|Fault { place, what }| {
        let place = if place == "." { "the top level".into() } else { place };
        DocumentError::Form { place, what: escape_for_message(&encode(&what)) }.into()
    })
}

/// Does work on a sequence of a document, or on a field of it. The report of any error, also of
/// core's, says on which.
pub fn at<T>(
    number: usize,
    field: &str,
    work: impl FnOnce() -> Result<T, HiloError>,
) -> Result<T, HiloError> {
    PgTryBuilder::new(AssertUnwindSafe(|| Ok(work().or_raise())))
        .catch_others(|error| match is_of_work(&error) {
            false => error.rethrow(),
            true => {
                let report = into_report(error).into();
                Err(DocumentError::At { place: place_of(number, field), report }.into())
            }
        })
        .execute()
}
