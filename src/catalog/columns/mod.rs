//! Columns of users' tables: which of them draw from a sequence.

pub mod column_defaults;
pub mod column_ref;
pub mod core_sequences;
