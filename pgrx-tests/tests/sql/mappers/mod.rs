//! Hi/Lo mappers and SQL share the values of one sequence.

mod emulated;
mod facade;
