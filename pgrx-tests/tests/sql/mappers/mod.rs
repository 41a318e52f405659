//! Hi/Lo mappers and SQL share the values of one sequence.

mod attach;
mod checks;
mod emulated;
mod facade;
