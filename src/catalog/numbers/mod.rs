//! Who owns an index: ranges that are free, in memory, lost, or wanted from a source.

pub mod owned_position;
pub mod range_rows;
pub mod ranges;
pub mod source_query;
pub mod sources;
