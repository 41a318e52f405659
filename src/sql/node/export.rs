//! `hilo_export` and `hilo_node_summary`: definitions as a document.

use pgrx::pg_sys::panic::ErrorReport;
use pgrx::prelude::*;

use hilo_core::document::{Described, Document, Node};

use crate::errors::HiloError;
use crate::process::memory::TryGrow;
use crate::sql::call::border::Call;
use crate::sql::call::jsonb::JsonB;
use crate::sql::node::known::{self, Known};
use crate::sql::types::sequence_type::SequenceName;

/// `hilo_export(name)`
#[pg_extern(sql = false)]
fn hilo_export(_call: Call, name: Option<SequenceName>) -> Result<JsonB, ErrorReport> {
    let known = known::one_or_all(name.as_deref(), true)?;
    Ok(written(None, &known, Known::described)?)
}

/// `hilo_node_summary(name)`
#[pg_extern(sql = false)]
fn hilo_node_summary(_call: Call, name: Option<SequenceName>) -> Result<JsonB, ErrorReport> {
    let known = known::one_or_all(name.as_deref(), false)?;
    Ok(written(Some(known::this_node()), &known, Known::summary)?)
}

fn written(
    node: Option<Node>,
    known: &[Known],
    describe: fn(&Known) -> Result<Described, HiloError>,
) -> Result<JsonB, HiloError> {
    let mut sequences = Vec::new();
    for one in known {
        sequences.try_push(describe(one)?.entry)?;
    }
    JsonB::of(&Document::new(node, sequences))
}
