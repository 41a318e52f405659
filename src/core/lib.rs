//! The rules of hilo that need no Postgres.

#![warn(clippy::cognitive_complexity, clippy::too_many_lines)]

pub mod backoff;
mod bounds;
pub mod compare;
pub mod cursor;
pub mod data_type;
pub mod direction;
pub mod document;
pub mod entry;
pub mod error_table;
pub mod fit;
pub mod gaps;
pub mod hi;
pub mod key_format;
pub mod mapping;
pub mod name;
pub mod named;
pub mod nested;
pub mod node_id;
pub mod numberings;
pub mod numbers;
pub mod options;
pub mod past;

pub mod plan;
pub mod policy;
pub mod pool;
pub mod protocol;
pub mod range;
pub mod rate;
pub mod slice;
pub mod source;
