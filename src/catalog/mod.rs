//! The tables of schema `_hilo`, read and written as core treats its catalogs: by index, with the
//! newest snapshot, and without the executor. So the isolation level of the caller's transaction
//! makes no difference, and the caller needs no privilege on the tables.
//!
//! Row locks keep writers from each other. A transaction that changes how a sequence is numbered
//! locks the `_hilo.hilo_position` row before it changes anything, and holds the lock to its end.
//! The worker skips a row that is locked.

pub mod columns;
pub mod lease;
pub mod numbers;
pub mod rights;
pub mod rows;
pub mod sequence;
