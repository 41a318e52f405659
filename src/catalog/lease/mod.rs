//! Leases: ranges that a holder outside of this server has.

pub mod lease_changes;
pub mod lease_id;
pub mod lease_name;
pub mod leases;
