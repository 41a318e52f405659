//! Definitions as a document: `hilo_export` describes the sequences, `hilo_apply` makes them as described.

pub mod apply;
mod export;
mod json;
mod wanted;
