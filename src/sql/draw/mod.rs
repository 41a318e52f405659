//! Drawing: values, keys and leases, and what keeps core from repeating them.

pub mod copy_defaults;
pub mod keys;
pub mod leases;
pub mod memoize;
pub mod nextval;
