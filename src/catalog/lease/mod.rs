//! Ranges that are in somebody's hands outside of this server.

pub mod lease_changes;
pub mod lease_id;
pub mod lease_name;
pub mod leases;
