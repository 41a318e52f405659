//! This process: its memory, its time limits, its subtransactions, and core's functions.

pub mod ffi;
pub mod kept;
pub mod memory;
pub mod subtransaction;
pub mod time_limit;
