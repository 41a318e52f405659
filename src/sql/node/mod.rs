//! Several servers: replication, restores, documents, Citus.

pub mod all_nodes;
mod apply;
mod compare;
mod document;
mod known;
pub mod replication_triggers;
pub mod restore_triggers;
mod target;
