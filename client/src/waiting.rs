//! Callers that wait for a range because memory does not have one.

use crate::Error;
use crate::engine::Lease;
use crate::hot::Hot;
use crate::shared::{Core, Life, Shared};

/// A caller that waits for a range. If it gives up, other callers get the range.
pub struct Ticket<'a> {
    shared: &'a Shared,
    hot: &'a Hot,
    number: u64,
    refusals: u64,
}

impl<'a> Ticket<'a> {
    pub fn new(shared: &'a Shared, hot: &'a Hot, count: i64) -> Result<Ticket<'a>, Error> {
        let mut core = shared.lock();
        shared.check_wait(&core, hot, u64::MAX)?;
        let number = core.engine.wait_for_range(hot.id, count, shared.now());
        let refusals = core.state(hot.id).refusals;
        drop(core);
        shared.wake_driver.notify_one();
        Ok(Ticket { shared, hot, number, refusals })
    }

    pub fn look(&self) -> Result<Option<Lease>, Error> {
        let mut core = self.shared.lock();
        if let Some(lease) = core.claim(self.number, self.hot, self.shared.now()) {
            return Ok(Some(lease));
        }
        self.shared.check_wait(&core, self.hot, self.refusals).map(|()| None)
    }
}

impl Drop for Ticket<'_> {
    fn drop(&mut self) {
        let Ticket { shared, hot, .. } = *self;
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

/// A caller that waits for a value; the engine knows of it as long as this exists.
pub struct Waiter<'a> {
    shared: &'a Shared,
    hot: &'a Hot,
    refusals: u64,
}

impl<'a> Waiter<'a> {
    pub fn new(shared: &'a Shared, hot: &'a Hot) -> Result<Waiter<'a>, Error> {
        let mut core = shared.lock();
        Waiter::register(shared, hot, &mut core)
    }

    /// Registers a caller under the lock, so that several are registered before the task sees the
    /// first.
    pub fn register(
        shared: &'a Shared,
        hot: &'a Hot,
        core: &mut Core,
    ) -> Result<Waiter<'a>, Error> {
        if core.remaining(hot, shared.now()) == 0 {
            shared.check_wait(core, hot, u64::MAX)?;
        }
        core.engine.wait(hot.id, true);
        let refusals = core.state(hot.id).refusals;
        shared.turn(core, hot, hot.own());
        Ok(Waiter { shared, hot, refusals })
    }

    /// The values that `take` finds. Or the refusal, if the server has refused since the caller
    /// began to wait.
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

    /// Whether a value is left, in a lane from now on.
    pub fn is_served(&self) -> Result<bool, Error> {
        let Waiter { shared, hot, .. } = *self;
        let mut core = shared.lock();
        // Other callers may have been faster.
        shared.turn(&mut core, hot, hot.own());
        if core.life == Life::Serving && core.remaining(hot, shared.now()) > 0 {
            return Ok(true);
        }
        shared.check_wait(&core, hot, self.refusals).map(|()| false)
    }
}

impl Drop for Waiter<'_> {
    fn drop(&mut self) {
        if self.shared.check_process().is_ok() {
            self.shared.lock().engine.wait(self.hot.id, false);
        }
    }
}
