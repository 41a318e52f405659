//! `hilo_check`.
