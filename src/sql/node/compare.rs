//! `hilo_compare`: what differs between this server and another one.

use pgrx::pg_sys::panic::ErrorReport;
use pgrx::prelude::*;

use hilo_core::compare::differences;

use crate::advice::RESTART;
use crate::catalog::rows::encoding::encode;
use crate::errors::{DocumentError, HiloError};
use crate::process::memory;
use crate::sql::call::border::Call;
use crate::sql::call::jsonb::JsonB;
use crate::sql::call::stored_rows::{Rows, row};
use crate::sql::call::text::Written;
use crate::sql::node::document::{described, document};
use crate::sql::node::known::{self, Known};

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
    let other = theirs.node.ok_or(DocumentError::NotASummary).map_err(HiloError::from)?;
    let theirs = theirs.sequences.into_iter().enumerate();
    let theirs = memory::try_collect(theirs.map(|(at, entry)| described(at, entry)))?;
    let known = known::one_or_all(None, true)?;
    let mine = known.iter().map(Known::summary).collect::<Result<Vec<_>, _>>()?;
    // For a pair of each two sequences.
    memory::check_available((mine.len() + theirs.len()) << 11)?;
    let written = |text: String| Written(encode(&text));
    for one in differences((&known::this_node(), &mine), (&other, &theirs), RESTART) {
        let severity = one.severity;
        let [object, what, what_to_do] = [one.object, one.what, one.what_to_do].map(written);
        rows.add(Differing { object, severity, what, what_to_do });
    }
    Ok(rows)
}
