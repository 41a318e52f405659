//! Crashes, restarts, signals and faults of all kinds lose nothing but what `hilo_gaps` has afterwards, and end no wait of
//! a session without an answer.

mod clock;
mod crash;
mod drop_database;
mod faults;
mod flush;
mod refused_memory;
mod reload;
mod restart;
mod robustness;
mod source_faults;
mod source_owner;
mod sources;
mod waits;
mod without_restart;
mod worker;
mod worker_end;
mod worker_terminated;
