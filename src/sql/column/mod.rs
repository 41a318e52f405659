//! Columns that draw from a sequence: adopt, release, sync, defaults, owners.

pub mod adopt;
pub mod column_values;
pub mod core_sequence;
pub mod create_missing;
pub mod former;
pub mod generated_always;
pub mod lock;
pub mod owned_by_statements;
pub mod release;
pub mod sequence_column;
pub mod stored;
pub mod sync;
pub mod values;
pub mod widened;
