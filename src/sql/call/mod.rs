//! The tools of every function that SQL calls: arguments, SPI, stored rows, triggers.

pub mod args;
pub mod raw_function;
pub mod spi;
pub mod stored_rows;
pub mod trigger;
pub mod values;
