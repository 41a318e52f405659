//! `hilo_compare`: what differs between this server and another one.

use pgrx::pg_sys::panic::ErrorReport;
use pgrx::prelude::*;

use hilo_core::compare::differences;
use hilo_core::document::{Document, Fault, What};

use crate::advice::RESTART;
use crate::catalog::name::escape_for_message;
use crate::errors::{DocumentError, HiloError};
use crate::process::memory;
use crate::sql::call::border::Call;
use crate::sql::call::stored_rows::{Rows, row};
use crate::sql::call::text::Written;
use crate::sql::node::export::summary;
use crate::sql::node::json::{JsonB, encode};
use crate::sql::node::known;

/// A document that an argument has.
pub fn document(argument: JsonB) -> Result<Document, HiloError> {
    Document::parse(&argument.text()?).map_err(in_document)
}

/// The error for a fault of a document.
pub fn in_document(fault: Fault) -> HiloError {
    let error = match fault.what {
        What::Form(what) => DocumentError::Form(escape_for_message(&encode(&what))).into(),
        What::Name(error) => error.into(),
        What::Option(error) => error.into(),
    };
    HiloError::InDocument { path: fault.place, error: Box::new(error) }
}

row! {
    struct Differing {
        object: Written,
        severity: &'static str,
        what: Written,
        what_to_do: Written,
    }
}

/// `hilo_compare(summary)`
#[pg_extern(sql = false)]
fn hilo_compare(call: Call, summary: Option<JsonB>) -> Result<Rows<Differing>, ErrorReport> {
    let mut rows = Rows::begin(call);
    let theirs = document(summary.ok_or(DocumentError::NoSummary).map_err(HiloError::from)?)?;
    let other = theirs.node.as_ref().ok_or(DocumentError::NotASummary).map_err(HiloError::from)?;
    let (me, mine) = (known::this_node(), self::summary(&known::all()?)?);
    // For a pair of each two sequences.
    memory::check_available((mine.sequences.len() + theirs.sequences.len()) << 11)?;
    let found = differences((&me, &mine), (other, &theirs), RESTART).map_err(in_document)?;
    let written = |text: String| Written(encode(&text));
    for one in found {
        let severity = one.severity;
        let [object, what, what_to_do] = [one.object, one.what, one.what_to_do].map(written);
        rows.add(Differing { object, severity, what, what_to_do });
    }
    Ok(rows)
}
