//! Hi/Lo mappers and SQL share the values of one sequence.

mod attach;
mod emulated;
mod facade;
