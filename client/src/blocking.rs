//! A client for code that is not async: the async client, on a runtime in a thread of its own.

use std::sync::Arc;

use tokio::runtime::{Builder as Runtimes, Runtime};

use crate::{Builder, Error, IdRange, Returned};

/// A [`Client`](crate::Client) whose calls block. It must not be used in a runtime of tokio, which
/// it would hold up.
#[derive(Clone, Debug)]
pub struct Client {
    client: crate::Client,
    runtime: Arc<Runtime>,
}

impl Client {
    /// Connects as [`Client::connect`](crate::Client::connect) does.
    ///
    /// # Errors
    /// As for [`Client::connect`](crate::Client::connect).
    pub fn connect(url: &str) -> Result<Client, Error> {
        Client::block_on(crate::Client::connect(url))
    }

    /// Connects as a builder says.
    ///
    /// # Errors
    /// As for [`Builder::connect`].
    pub fn build(builder: Builder) -> Result<Client, Error> {
        Client::block_on(builder.connect())
    }

    fn block_on(
        connecting: impl Future<Output = Result<crate::Client, Error>>,
    ) -> Result<Client, Error> {
        let runtime = Runtimes::new_multi_thread().worker_threads(1).enable_all().build();
        let runtime = Arc::new(runtime.map_err(|_| Error::Closed)?);
        Ok(Client { client: runtime.block_on(connecting)?, runtime })
    }

    /// The sequence `name`.
    pub fn sequence(&self, name: &str) -> Sequence {
        Sequence { sequence: self.client.sequence(name), runtime: self.runtime.clone() }
    }

    /// Stops serving, and then returns what is left.
    ///
    /// # Errors
    /// As for [`Client::shutdown`](crate::Client::shutdown).
    pub fn shutdown(&self) -> Result<Returned, Error> {
        self.runtime.block_on(self.client.shutdown())
    }

    /// The async client, for all else that it can do.
    pub fn inner(&self) -> &crate::Client {
        &self.client
    }
}

/// A [`Sequence`](crate::Sequence) whose calls block.
#[derive(Clone, Debug)]
pub struct Sequence {
    sequence: crate::Sequence,
    runtime: Arc<Runtime>,
}

impl Sequence {
    /// The next value. It waits only if none is in memory.
    ///
    /// # Errors
    /// As for [`Sequence::next`](crate::Sequence::next).
    #[inline]
    pub fn next(&self) -> Result<i64, Error> {
        match self.sequence.try_next()? {
            Some(value) => Ok(value),
            None => self.runtime.block_on(self.sequence.next()),
        }
    }

    /// Up to `n` consecutive values.
    ///
    /// # Errors
    /// As for [`Sequence::next_range`](crate::Sequence::next_range).
    pub fn next_range(&self, n: i64) -> Result<IdRange, Error> {
        self.runtime.block_on(self.sequence.next_range(n))
    }

    /// Exactly `n` values.
    ///
    /// # Errors
    /// As for [`Sequence::next_ranges`](crate::Sequence::next_ranges).
    pub fn next_ranges(&self, n: i64) -> Result<Vec<IdRange>, Error> {
        self.runtime.block_on(self.sequence.next_ranges(n))
    }

    /// The next value as a key.
    ///
    /// # Errors
    /// As for [`Sequence::next_key`](crate::Sequence::next_key).
    pub fn next_key(&self) -> Result<String, Error> {
        self.runtime.block_on(self.sequence.next_key())
    }
}
