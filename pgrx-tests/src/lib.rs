//! Real Postgres clusters for tests that need commits, crashes and more than one server.
//!
//! A test starts a [`Cluster`], connects to it with [`Cluster::connect`], and does to it what an
//! operator or an accident would do. A cluster that goes out of scope stops and removes its files.
//! It fails its test if the server's log contains a crash that the test did not expect.

mod accounting;
pub mod browser;
mod client;
mod clock;
mod cluster;
mod counted;
pub mod example;
pub mod exporter;
pub mod extension;
mod faults;
mod files;
pub mod front;
mod link;
mod load;
mod log;
mod markdown;
mod oracle;
pub mod planted;
mod printed;
mod process;
mod publish;
pub mod recipe;
mod refusals;
mod regress;
mod replica;
mod server;
mod tools;
mod upgrade;
pub mod vectors;
mod wait;

pub use accounting::{assert_accounted, assert_unique, taken_count, write_free_ranges};
pub use client::{ClientExt, Heard, Refusal};
pub use clock::clock_library;
pub use cluster::{Builder, Cluster, Mode};
pub use counted::can_count;
pub use link::Link;
pub use load::{Load, Source};
pub use markdown::{anchors, blocks, links};
pub use oracle::{Order, Seen, Session, Way};
pub use postgres::{Client, SimpleQueryMessage};
pub use regress::Cases;
pub use server::{SERVER, has_library, run};
pub use wait::{Ends, LONG, came_true, wait_until, while_another};
