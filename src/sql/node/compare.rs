//! `hilo_compare`: what differs between this server and another one.

use pgrx::pg_sys::panic::ErrorReport;
use pgrx::prelude::*;

use hilo_core::compare::differences;
use hilo_core::document::Document;
use hilo_core::plan::Described;

use crate::advice::RESTART;
use crate::catalog::rows::encoding::encode;
use crate::errors::{DocumentError, HiloError};
use crate::process::memory;
use crate::sql::call::border::Call;
use crate::sql::call::jsonb::JsonB;
use crate::sql::call::stored_rows::{Rows, row};
use crate::sql::call::text::Written;
use crate::sql::node::document::{at, read};
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
    let Some(Document { node: Some(other), sequences, .. }) = summary.map(read).transpose()? else {
        return Err(HiloError::from(DocumentError::NotASummary).into());
    };
    let mine = known::all(None, Known::summary)?;
    let described = |(number, entry)| at(number, "", || Ok(Described::new(entry)?));
    let theirs = memory::try_collect_results(sequences.into_iter().enumerate().map(described))?;
    // Room for a pair of each two sequences.
    memory::check_available((mine.len() + theirs.len()) << 11)?;
    let written = |text: String| Written(encode(&text));
    for one in differences((&known::this_node(), &mine), (&other, &theirs), RESTART) {
        rows.add(Differing {
            object: written(one.object),
            severity: one.severity,
            what: written(one.what),
            what_to_do: written(one.what_to_do),
        });
    }
    Ok(rows)
}
