//! Several servers: replication, restores, documents, Citus.

pub mod all_nodes;
pub mod document;
pub mod replication_triggers;
pub mod restore_triggers;
