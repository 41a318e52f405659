//! Views and functions about sequences: statistics, gaps, the value at an index.

pub mod find_gaps;
pub mod gap_reason;
pub mod stat;
pub mod value_at;
pub mod visibility;
