//! The functions that SQL calls: arguments in, results out. What they do is elsewhere.

pub mod args;
pub mod define;
pub mod inspect;
pub mod keys;
pub mod raw_function;
pub mod role_type;
pub mod sequence_type;
pub mod serve;
pub mod value_at;
