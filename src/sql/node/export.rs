//! `hilo_export` and `hilo_node_summary`: definitions as a document.

use pgrx::pg_sys::panic::ErrorReport;
use pgrx::prelude::*;

use hilo_core::document::Document;

use crate::errors::HiloError;
use crate::process::memory::TryGrow;
use crate::sql::call::border::Call;
use crate::sql::node::json::JsonB;
use crate::sql::node::known::{self, Known, this_node};
use crate::sql::types::sequence_type::SequenceName;

/// `_hilo.hilo_may_see(name, must_exist)`
#[pg_extern(sql = false)]
fn hilo_may_see(_call: Call, name: SequenceName, must_exist: bool) -> Result<bool, ErrorReport> {
    Ok(known::by_name(&name, must_exist)?.is_some())
}

/// `hilo_export(name)`
#[pg_extern(sql = false)]
fn hilo_export(_call: Call, name: Option<SequenceName>) -> Result<JsonB, ErrorReport> {
    let mut sequences = Vec::new();
    for known in wanted(name, true)? {
        sequences.try_push(known.entry()?)?;
    }
    Ok(JsonB::of(&Document { sequences, ..Document::default() })?)
}

/// `hilo_node_summary(name)`
#[pg_extern(sql = false)]
fn hilo_node_summary(_call: Call, name: Option<SequenceName>) -> Result<JsonB, ErrorReport> {
    Ok(JsonB::of(&summary(&wanted(name, false)?)?)?)
}

/// The sequence of this name or, without a name, all.
fn wanted(name: Option<SequenceName>, must_exist: bool) -> Result<Vec<Known>, HiloError> {
    match name {
        Some(name) => Ok(known::by_name(&name, must_exist)?.into_iter().collect()),
        None => known::all(),
    }
}

/// Says what other servers need to know of this one.
pub fn summary(known: &[Known]) -> Result<Document, HiloError> {
    let mut document = Document { node: Some(this_node()), ..Document::default() };
    for one in known {
        let mut entry = one.entry()?;
        entry.numbering = one.numbering()?;
        entry.fed = one.sequence.definition.source.is_some().then_some(true);
        document.sequences.try_push(entry)?;
    }
    Ok(document)
}
