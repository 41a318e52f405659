//! Numbers of hilo's sequences from a process's own memory.
//!
//! A [`Client`] takes *leases* from a PostgreSQL server with the extension hilo: ranges of values
//! that nobody else gets. [`Sequence::next`] is then an addition in local memory. A task in the
//! background takes the next lease before the last one is used up. So nobody waits for the server
//! in steady state, nor in an outage shorter than the buffer.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # // Where there is a server, a test says it.
//! # let Ok(database) = std::env::var("HILO_DATABASE") else { return Ok(()) };
//! let client = hilo_client::Client::builder(database.parse()?).name("sorter-7").connect().await?;
//! let orders = client.sequence("orders");
//! let id: i64 = orders.next().await?;
//! let key: String = orders.next_key().await?;
//! let batch = orders.next_range(1000).await?;
//! for id in batch.values() { /* … */ }
//! client.shutdown().await?;
//! # Ok(())
//! # }
//! ```
//!
//! # Guarantees
//!
//! * **Unique.** A lease is served from only after the server has confirmed its commit. If the
//!   answer is lost, the client asks again for the same leases, by their names. A shutdown ends
//!   serving before it returns the rest.
//! * **Nothing unexplained.** A value is served, or returned, mostly by [`Client::shutdown`], or in
//!   an open lease. The view `hilo_leases` shows the client as its holder, after a crash until it
//!   expires or is revoked. Values that a failed statement took are a gap in the view `hilo_gaps`.
//! * **A call may be dropped.** One that is dropped before it is ready, as `select!` does, takes
//!   nothing. A lease that has come for it is for others.
//! * **A fork serves nothing.** A child of the process gets [`Error::Forked`], because the values
//!   are its parent's. This does not hold for a child of `_Fork()`, `vfork()` or a raw `clone(2)`,
//!   past the handlers of `pthread_atfork`. It must call nothing of the client.

#![warn(clippy::cognitive_complexity, clippy::too_many_lines)]
#![warn(missing_docs)]

pub mod blocking;
mod client;
mod driver;
#[doc(hidden)]
pub mod engine;
mod error;
mod fork;
mod hot;
#[doc(hidden)]
pub mod lane;
mod range;
mod refusal;
mod results;
mod sequence;
mod server;
mod shared;
mod stats;
mod store;
#[cfg(any(feature = "native-tls", feature = "rustls"))]
pub mod tls;
#[cfg(test)]
mod vectors;
mod waiting;

pub use client::{Builder, Client};
pub use error::Error;
pub use range::{IdRange, Values};
pub use refusal::Report;
pub use sequence::{Next, Sequence};
pub use server::{ConnectError, Connecting, Connection, Connector};
pub use stats::{Returned, SequenceStats, Stats};
pub use tokio_postgres;

/// How long callers wait if memory has no value while the server cannot be reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Unavailable {
    /// They wait for it, as long as [`Builder::patience`] says.
    Wait,
    /// They get [`Error::Unreachable`] as soon as it is known that the server cannot be reached.
    Fail,
}
