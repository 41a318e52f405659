//! Everything that an SQL client sees: results, errors, notices, statistics, the report; beside
//! core's sequences and other libraries.

mod bad_input;
mod callers_transaction;
mod dead_rows;
mod edges;
mod hints;
mod mappers;
mod messages;
mod monitoring;
mod other_libraries;
mod parity;
mod report;
mod sql_surface;
mod statistics;
mod totals;
