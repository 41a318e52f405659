//! The types `hilo_sequence`, `_hilo.hilo_role` and `_hilo.hilo_column`.

pub mod column_ref_type;
pub mod role_type;
pub mod sequence_type;
