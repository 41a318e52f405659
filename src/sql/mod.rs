//! The functions that SQL calls: they read arguments and return results. The work is done elsewhere.

pub mod args;
pub mod check;
pub mod column_ref_type;
pub mod ddl;
pub mod find_gaps;
pub mod keys;
pub mod migrate;
mod missing_because;
pub mod nextval;
pub mod owned_by;
pub mod owners;
pub mod prefix;
pub mod raw_function;
pub mod renumber;
pub mod replication_triggers;
pub mod restore_triggers;
pub mod role_type;
pub mod sequence_type;
pub mod spi;
pub mod stat;
pub mod stored_rows;
mod trigger;
mod unserved;
pub mod value_at;
