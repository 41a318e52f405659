//! Columns and tables with hilo: their defaults, their owners, their way from core's sequences and back, and COPY.

mod adopt;
mod adopt_many;
mod adopt_order;
mod adopt_while_used;
mod check_fixes;
mod check_hidden;
mod check_notes;
mod check_rows;
mod copy;
mod create_missing;
mod default_places;
mod generated_always;
mod owned_by;
mod sync;
mod there_and_back;
mod widened;
