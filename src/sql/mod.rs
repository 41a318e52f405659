//! The functions that SQL calls: arguments in, results out. What they do is elsewhere.

pub mod args;
pub mod check;
mod check_columns;
mod check_nodes;
pub mod define;
pub mod find_gaps;
pub mod inspect;
pub mod keys;
pub mod owners;
pub mod prefix;
pub mod query;
pub mod raw_function;
pub mod renumber;
pub mod replicated;
pub mod restored;
pub mod role_type;
pub mod sequence_type;
pub mod serve;
pub mod stored_rows;
mod trigger;
pub mod value_at;
