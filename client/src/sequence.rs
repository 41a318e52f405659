//! [`Sequence`], from which callers take the values of one sequence.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, PoisonError};
use std::task::{Context, Poll};

use hilo_core::key_format::KeyFormat;
use tokio::time::{Instant, timeout_at};

use crate::Error;
use crate::fork::{self, only_here};
use crate::hot::{self, Hot, Keys};
use crate::lane::Took;
use crate::range::IdRange;
use crate::refusal::Report;
use crate::shared::{Handle, Life, Shared};
use crate::waiting::{Ticket, Waiter};

/// The most values of one lease.
const MAX_LEASE_SIZE: i64 = 1_000_000_000;

/// A sequence of a [`Client`](crate::Client). It is cheap to clone, and all clones draw from the
/// same memory.
///
/// Values of different threads are in no order, and those of one thread need not rise from one
/// lease to the next.
#[derive(Clone)]
pub struct Sequence {
    pub(crate) hot: Arc<Hot>,
    pub(crate) handle: Arc<Handle>,
}

impl Sequence {
    /// Its name.
    pub fn name(&self) -> &str {
        &self.hot.name
    }

    /// The next value, if one is in memory. It never waits. With `None`, values are on their way.
    ///
    /// # Errors
    /// [`Error::Refused`] if nothing is left and the server has just refused more,
    /// [`Error::Unreachable`] as [`Unavailable::Fail`](crate::Unavailable) says, [`Error::Closed`],
    /// [`Error::Forked`].
    #[inline]
    pub fn try_next(&self) -> Result<Option<i64>, Error> {
        match self.hit() {
            Some(value) => Ok(Some(value)),
            None => self.miss(),
        }
    }

    /// A value of this thread's lane, if it has one.
    #[inline(always)]
    fn hit(&self) -> Option<i64> {
        if fork::generation() != self.hot.generation {
            return None;
        }
        let own = self.hot.own();
        let took = self.hot.lane(own).take(1)?;
        self.look_after(took, own);
        Some(took.first)
    }

    /// The next value. It comes from memory, without an await point, unless nothing is left there.
    /// Then the caller waits as long as [`Builder::patience`](crate::Builder::patience) says. For
    /// that, it must be called in a tokio runtime with time.
    ///
    /// # Errors
    /// [`Error::Refused`] if the server refuses, [`Error::Timeout`], [`Error::Unreachable`] as
    /// [`Unavailable::Fail`](crate::Unavailable) says, [`Error::Closed`], [`Error::Forked`].
    #[inline]
    pub fn next(&self) -> Next<'_> {
        Next { sequence: self, waiting: None }
    }

    /// `n` consecutive values, if they are in memory. It never waits, and with `None` no values are
    /// on their way: call [`next_range`](Self::next_range).
    ///
    /// # Errors
    /// [`Error::Count`] unless `n` is from 1 to a billion, [`Error::Closed`], [`Error::Forked`].
    pub fn try_next_range(&self, n: i64) -> Result<Option<IdRange>, Error> {
        self.shared().check_process()?;
        if !(1..=MAX_LEASE_SIZE).contains(&n) {
            return Err(Error::Count(n));
        }
        if let Some(took) = self.search_lanes(n as u32) {
            return Ok(Some(IdRange::new(took.first, took.increment, n)));
        }
        let shared = self.shared();
        let mut core = shared.lock();
        if core.life != Life::Serving {
            return Err(Error::Closed);
        }
        let run = core.take_run(&self.hot, n, shared.now());
        if run.is_some() {
            shared.turn(&mut core, &self.hot, self.hot.own());
        }
        Ok(run.map(|(first, increment)| IdRange::new(first, increment, n)))
    }

    /// `n` consecutive values of one lease: one in memory with as many values left, or one that the
    /// server leases for this call. There are fewer than `n`, and at least one, where the server
    /// leases fewer. It does so at a bound of the sequence, or where a node's stripe ends. It also
    /// does so where it serves a returned lease, or where `n` is more than it skips after a
    /// failover.
    ///
    /// # Errors
    /// As for [`next`](Self::next), and [`Error::Count`] unless `n` is from 1 to a billion.
    pub async fn next_range(&self, n: i64) -> Result<IdRange, Error> {
        if let Some(range) = self.try_next_range(n)? {
            return Ok(range);
        }
        let ticket = Ticket::new(self.shared(), &self.hot, n)?;
        let lease = self.until(self.shared().deadline(), || ticket.look()).await?;
        Ok(IdRange::new(lease.first(), lease.increment, lease.count))
    }

    /// Exactly `n` values, in as many ranges as are needed. If it fails or is dropped, nobody gets
    /// the values of the ranges that it had.
    ///
    /// # Errors
    /// As for [`next_range`](Self::next_range).
    pub async fn next_ranges(&self, n: i64) -> Result<Vec<IdRange>, Error> {
        let mut ranges = vec![self.next_range(n).await?];
        let mut left = n - ranges[0].count;
        while left > 0 {
            let range = self.next_range(left).await?;
            left -= range.count;
            ranges.push(range);
        }
        Ok(ranges)
    }

    /// The next value as a text key, as `hilo_nextkey` makes it. It has the key format of the
    /// sequence, and the server's prefix as of its lease.
    ///
    /// # Errors
    /// As for [`next`](Self::next), and [`Error::Keys`] if the format does not allow the server's
    /// prefix.
    pub async fn next_key(&self) -> Result<String, Error> {
        self.shared().check_process()?;
        if let Some(key) = self.take_key()? {
            return Ok(key);
        }
        let waiter = Waiter::new(self.shared(), &self.hot)?;
        self.until(self.shared().deadline(), || waiter.look(|| self.take_key())).await
    }

    /// A value in memory, as a key. No lease with another form of keys is served before the key has
    /// its value.
    pub(crate) fn take_key(&self) -> Result<Option<String>, Error> {
        self.fill_own();
        let keys = self.hot.keys.read().unwrap_or_else(PoisonError::into_inner);
        let Some(known) = keys.as_ref() else { return Ok(None) };
        // If keys cannot be made, no value is used up.
        let frame = known.frame.as_ref().map_err(Error::clone)?;
        let Some((took, number)) = self.hot.take(1) else { return Ok(None) };
        let bytes = frame.key(took.first, &mut [0; 20]).concat();
        drop(keys);
        self.look_after(took, number);
        String::from_utf8(bytes).map(Some).map_err(|_| Error::Answer("a key that is not UTF-8"))
    }

    pub(crate) fn shared(&self) -> &Shared {
        &self.handle.shared
    }

    fn timeout_error(&self) -> Error {
        let shared = self.shared();
        let mut core = shared.lock();
        let silent = (!core.connected).then(|| shared.since(core.answered_at));
        let lack = core.state(self.hot.id).lack.clone();
        let source = lack.or_else(|| core.trouble.clone());
        let (sequence, waited) = (self.hot.name.clone(), shared.options.patience);
        Error::Timeout { sequence, waited, silent, source }
    }

    /// Refills or reports, if the values taken from a lane make it necessary.
    #[inline(always)]
    fn look_after(&self, took: Took, number: usize) {
        if took.low | took.contended {
            self.notice(took, number);
        }
    }

    /// Handles a lane that is low, or whose threads are in each other's way.
    #[cold]
    fn notice(&self, took: Took, number: usize) {
        let crowded = took.contended && self.hot.is_crowded();
        if !took.low && !crowded {
            return;
        }
        let shared = self.shared();
        let mut core = shared.lock();
        if crowded {
            core.engine.set_lanes(self.hot.id, hot::most_lanes() as u16);
        }
        shared.turn(&mut core, &self.hot, number);
    }

    /// Takes from any lane, this thread's first.
    pub(crate) fn search_lanes(&self, count: u32) -> Option<Took> {
        let (took, number) = self.hot.take(count)?;
        self.look_after(took, number);
        Some(took)
    }

    /// Fills this thread's lane if it is empty, unless it would have to wait.
    fn fill_own(&self) {
        let (shared, own) = (self.shared(), self.hot.own());
        let lane = self.hot.lane(own);
        if lane.remaining() > 0 && !lane.is_held_back() {
            return;
        }
        if let Ok(mut core) = shared.core.try_lock() {
            shared.turn(&mut core, &self.hot, own);
        }
    }

    /// This thread's lane is empty: fills it, or takes from another lane.
    #[cold]
    fn miss(&self) -> Result<Option<i64>, Error> {
        let shared = self.shared();
        shared.check_process()?;
        self.fill_own();
        if let Some(took) = self.search_lanes(1) {
            return Ok(Some(took.first));
        }
        let mut core = shared.lock();
        if core.remaining(&self.hot, shared.now()) == 0 {
            shared.check_wait(&core, &self.hot, u64::MAX)?;
            core.engine.want(self.hot.id);
        }
        shared.turn(&mut core, &self.hot, self.hot.own());
        drop(core);
        Ok(self.search_lanes(1).map(|took| took.first))
    }

    async fn wait(&self) -> Result<i64, Error> {
        if let Some(value) = self.miss()? {
            return Ok(value);
        }
        let waiter = Waiter::new(self.shared(), &self.hot)?;
        let value = || Ok(self.search_lanes(1).map(|took| took.first));
        self.until(self.shared().deadline(), || waiter.look(value)).await
    }

    /// Waits until a value is in memory, without taking it.
    pub(crate) async fn warm_up(&self, waiter: Waiter<'_>, deadline: Instant) -> Result<(), Error> {
        self.until(deadline, || Ok(waiter.is_served()?.then_some(()))).await
    }

    /// Waits until `look` finds something. It looks again when values have come, or were refused.
    async fn until<T>(
        &self,
        deadline: Instant,
        look: impl Fn() -> Result<Option<T>, Error>,
    ) -> Result<T, Error> {
        let waiting = async {
            let mut waits = false;
            loop {
                let changed = self.hot.changed.notified();
                tokio::pin!(changed);
                changed.as_mut().enable();
                if let Some(found) = look()? {
                    return Ok(found);
                }
                if !std::mem::replace(&mut waits, true) {
                    self.shared().lock().state(self.hot.id).waits += 1;
                }
                if timeout_at(deadline, changed).await.is_err() {
                    return Err(self.timeout_error());
                }
            }
        };
        only_here(self.hot.generation, waiting).await?
    }
}

/// A caller that waits because memory had no value.
type Waiting<'a> = Pin<Box<dyn Future<Output = Result<i64, Error>> + Send + 'a>>;

/// The next value of a sequence: what [`Sequence::next`] returns. Nothing is taken before it is
/// awaited.
#[must_use = "no value is taken before it is awaited"]
pub struct Next<'a> {
    sequence: &'a Sequence,
    waiting: Option<Waiting<'a>>,
}

impl Future for Next<'_> {
    type Output = Result<i64, Error>;

    // By hand, so that a hit is a few instructions in the caller: waiting is elsewhere.
    #[inline]
    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        if self.waiting.is_none() {
            if let Some(value) = self.sequence.hit() {
                return Poll::Ready(Ok(value));
            }
        }
        self.poll_waiting(context)
    }
}

impl Next<'_> {
    #[cold]
    fn poll_waiting(&mut self, context: &mut Context<'_>) -> Poll<Result<i64, Error>> {
        let sequence = self.sequence;
        self.waiting.get_or_insert_with(|| Box::pin(sequence.wait())).as_mut().poll(context)
    }
}

impl std::fmt::Debug for Next<'_> {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Next").field("sequence", &self.sequence.name()).finish_non_exhaustive()
    }
}

/// The form of keys with this format and prefix.
pub(crate) fn keys(name: &Arc<str>, format: &str, prefix: &str, least: i64) -> Keys {
    let (key, server) = (name.as_bytes(), prefix.as_bytes());
    let frame = KeyFormat::parse(format)
        .map_err(|wrong| Report::own(&wrong, wrong.detail(), wrong.hint()))
        .and_then(|parsed| {
            if parsed.has_server() {
                let wrong = parsed.check_prefix(key, server, least);
                wrong.map_err(|wrong| Report::own(&wrong, wrong.detail(), wrong.hint()))?;
            }
            Ok(parsed.frame(key, server))
        })
        .map_err(|source| Error::Keys { sequence: name.clone(), source });
    Keys { format: format.to_owned(), prefix: prefix.to_owned(), least, frame }
}

impl std::fmt::Debug for Sequence {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Sequence").field("name", &self.hot.name).finish_non_exhaustive()
    }
}
