//! Definitions as a document: `hilo_export` describes the sequences, `hilo_apply` makes them as described.

pub mod apply;
pub mod export;
pub mod json;
pub mod wanted;
