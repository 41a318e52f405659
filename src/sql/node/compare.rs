//! `hilo_compare`: what differs between this server and another one.

use pgrx::pg_sys::panic::ErrorReport;
use pgrx::prelude::*;

use hilo_core::compare::differences;
use hilo_core::document::Described;

use crate::advice::RESTART;
use crate::catalog::rows::encoding::encode;
use crate::errors::DocumentError;
use crate::process::memory::{self, TryGrow};
use crate::sql::call::border::Call;
use crate::sql::call::jsonb::JsonB;
use crate::sql::call::stored_rows::{Rows, row};
use crate::sql::call::text::Written;
use crate::sql::node::document::with_place;
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
    let found = with_place(|place| {
        let summary = place.read(summary.ok_or(DocumentError::NoSummary)?)?;
        let other = summary.node.ok_or(DocumentError::NotASummary)?;
        let mut theirs = Vec::new();
        for (at, entry) in summary.sequences.into_iter().enumerate() {
            place.set(at, "");
            theirs.try_push(Described::new(entry)?)?;
        }
        place.clear();
        let known = known::one_or_all(None, true)?;
        let mine = known.iter().map(Known::summary).collect::<Result<Vec<_>, _>>()?;
        // Room for a pair of each two sequences.
        memory::check_available((mine.len() + theirs.len()) << 11)?;
        Ok(differences((&known::this_node(), &mine), (&other, &theirs), RESTART))
    })?;
    let written = |text: String| Written(encode(&text));
    for one in found {
        let severity = one.severity;
        let [object, what, what_to_do] = [one.object, one.what, one.what_to_do].map(written);
        rows.add(Differing { object, severity, what, what_to_do });
    }
    Ok(rows)
}
