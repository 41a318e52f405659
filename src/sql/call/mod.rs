//! The tools of every function that SQL calls: arguments, SPI, stored rows.

pub mod args;
pub mod raw_function;
pub mod spi;
pub mod stored_rows;
pub mod values;
