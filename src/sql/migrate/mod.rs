//! Columns that move between core's sequences and hilo's: `hilo_adopt`, `hilo_release` and `hilo_sync`.
//!
//! `column` says what feeds a column, `core_sequence` what a sequence of core's is and stands at. `lock` takes
//! the locks of core's ALTER TABLE, which then changes the column.

pub mod adopt;
mod column;
mod core_sequence;
pub mod lock;
mod release;
mod sync;
