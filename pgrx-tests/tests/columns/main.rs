//! Columns and tables with hilo: their defaults, their owners, their way from core's sequences and back, and COPY.

mod adopt;
mod check_fixes;
mod check_hidden;
mod check_notes;
mod check_rows;
mod copy;
mod create_missing;
mod default_places;
mod owned_by;
