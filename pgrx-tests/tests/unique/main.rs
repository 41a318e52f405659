//! No value comes twice: values are unique, rise within a session, are ordered where that is promised, and each number is
//! accounted for.

mod accounting;
mod concurrency;
mod exhaustion;
mod first_call;
mod first_use;
mod free_ranges;
mod gaps;
mod known_duplicates;
mod memoize;
mod model;
mod order;
mod parallel;
mod parallel_faults;
mod places;
mod short_connections;
mod single_flight;
mod snapshots;
mod steady;
