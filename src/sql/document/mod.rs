//! Definitions as a document: `hilo_export` describes the sequences, `hilo_apply` makes them as described.
//!
//! This is no SQL: one description of a sequence serves the export, the rows of `hilo_apply` and
//! the comparison of nodes. And an error that names its place in the document would need a
//! subtransaction for each sequence.

pub mod apply;
pub mod export;
pub mod json;
pub mod wanted;
