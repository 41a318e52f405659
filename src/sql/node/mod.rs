//! Several servers: replication, restores, documents, Citus.
//!
//! Documents are no SQL: one description of a sequence serves the export, the rows of `hilo_apply`
//! and the comparison of nodes. And an error that names its place in the document would need a
//! subtransaction for each sequence.

pub mod all_nodes;
pub mod apply;
pub mod export;
pub mod json;
pub mod replication_triggers;
pub mod restore_triggers;
pub mod wanted;
