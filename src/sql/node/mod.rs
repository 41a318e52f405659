//! Several servers: replication, restores, documents, Citus.

pub mod all_nodes;
mod apply;
mod compare;
mod export;
mod json;
mod known;
mod raise;
pub mod replication_triggers;
pub mod restore_triggers;
mod steps;
mod target;
