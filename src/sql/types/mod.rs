//! The types `hilo_sequence`, `hilo.role` and `hilo.column_ref`.

pub mod column_ref_type;
pub mod role_type;
pub mod sequence_type;
