//! This process: its memory, its time limits, its subtransactions, and core's functions.

pub mod arena;
pub mod connections;
pub mod ffi;
pub mod memory;
pub mod rights;
pub mod scratch;
pub mod subtransaction;
pub mod time_limit;
