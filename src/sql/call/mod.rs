//! The tools of every function that SQL calls: its border, SPI, stored rows.

pub mod border;
pub mod jsonb;
mod raise;
pub mod raw_function;
pub mod spi;
pub mod stored_rows;
pub mod text;
