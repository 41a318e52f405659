//! Callers for whom nothing is in memory.

use crate::Error;
use crate::engine::Lease;
use crate::sequence::Sequence;
use crate::shared::{Core, Life};

/// A caller who waits for a range. If it gives up, what has come for it is for others.
pub struct Ticket<'a> {
    sequence: &'a Sequence,
    number: u64,
    refusals: u64,
}

impl<'a> Ticket<'a> {
    pub fn new(sequence: &'a Sequence, count: i64) -> Result<Ticket<'a>, Error> {
        let (shared, id) = (sequence.shared(), sequence.hot.id);
        let mut core = shared.lock();
        if let Some(error) = shared.obstacle(&core, &sequence.hot, u64::MAX) {
            return Err(error);
        }
        let number = core.engine.wait_for_range(id, count, shared.now());
        let refusals = core.seat(id).refusals;
        drop(core);
        shared.poke.notify_one();
        Ok(Ticket { sequence, number, refusals })
    }

    pub fn look(&self) -> Result<Option<Lease>, Error> {
        let shared = self.sequence.shared();
        let mut core = shared.lock();
        if let Some(lease) = core.engine.claim(self.number, shared.now()) {
            return Ok(Some(lease));
        }
        shared.obstacle(&core, &self.sequence.hot, self.refusals).map_or(Ok(None), Err)
    }
}

impl Drop for Ticket<'_> {
    fn drop(&mut self) {
        let (shared, hot) = (self.sequence.shared(), &self.sequence.hot);
        if shared.check_process().is_err() {
            return;
        }
        let mut core = shared.lock();
        if core.engine.forget_range(self.number) {
            shared.turn(&mut core, hot, hot.own());
            drop(core);
            hot.changed.notify_waiters();
        }
    }
}

/// A caller who waits for a value; the engine knows of it as long as it exists.
pub struct Waiter<'a> {
    sequence: &'a Sequence,
    refusals: u64,
}

impl<'a> Waiter<'a> {
    pub fn new(sequence: &'a Sequence) -> Result<Waiter<'a>, Error> {
        let mut core = sequence.shared().lock();
        Waiter::register(sequence, &mut core)
    }

    /// The same, under the lock, so that several can be registered before the task sees the first.
    pub fn register(sequence: &'a Sequence, core: &mut Core) -> Result<Waiter<'a>, Error> {
        let (shared, hot) = (sequence.shared(), &sequence.hot);
        if core.left(hot, shared.now()) == 0
            && let Some(error) = shared.obstacle(core, hot, u64::MAX)
        {
            return Err(error);
        }
        core.engine.wait(hot.id, true);
        let refusals = core.seat(hot.id).refusals;
        shared.turn(core, hot, hot.own());
        Ok(Waiter { sequence, refusals })
    }

    /// What `take` finds, if something has come. The refusal, if the server has refused since the caller began to wait.
    pub fn look<T>(&self, take: impl Fn() -> Result<Option<T>, Error>) -> Result<Option<T>, Error> {
        loop {
            if let Some(taken) = take()? {
                return Ok(Some(taken));
            }
            if !self.is_served()? {
                return Ok(None);
            }
        }
    }

    /// Whether something is left, in a lane from now on.
    pub fn is_served(&self) -> Result<bool, Error> {
        let (shared, hot) = (self.sequence.shared(), &self.sequence.hot);
        let mut core = shared.lock();
        // Others may have been faster.
        shared.turn(&mut core, hot, hot.own());
        if core.life == Life::Serving && core.left(hot, shared.now()) > 0 {
            return Ok(true);
        }
        shared.obstacle(&core, hot, self.refusals).map_or(Ok(false), Err)
    }
}

impl Drop for Waiter<'_> {
    fn drop(&mut self) {
        let shared = self.sequence.shared();
        if shared.check_process().is_ok() {
            shared.lock().engine.wait(self.sequence.hot.id, false);
        }
    }
}
