//! State that the handles of a client and its task share.
//!
//! One lock ([`Shared::core`]) guards the engine and the list of sequences. A hit takes no lock;
//! whoever empties a lane, or goes below its mark, does. Under it nothing waits, and nobody else's
//! code is called: callers are woken, and events reported, after it. The lock of a sequence's keys
//! comes after it.

use std::collections::HashMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use hilo_core::numbers::{Micros, Monotonic};
use tokio::sync::{Notify, watch};
use uuid::Uuid;

use crate::engine::{Engine, Id, Lease};
use crate::hot::Hot;
use crate::refusal::Report;
use crate::stats::{Returned, SequenceStats};
use crate::store::{Left, Store};
use crate::{Error, Unavailable, fork};

/// The longest time for which anybody waits, or a lease lives without a renewal.
pub const MAX_WAIT: Duration = Duration::from_secs(86_400 * 365);

/// How a client behaves, beyond its engine.
#[derive(Clone, Debug)]
pub struct Options {
    pub holder: String,
    pub ttl: Option<Duration>,
    /// How long a caller waits.
    pub patience: Duration,
    pub unavailable: Unavailable,
    /// How long a statement, or connecting, may take.
    pub timeout: Duration,
}

pub struct Shared {
    pub core: Mutex<Core>,
    /// Wakes the task.
    pub wake_driver: Notify,
    /// Notified once, when serving has ended.
    pub closed: Notify,
    pub start: Instant,
    pub generation: u32,
    pub options: Options,
    /// The results of a shutdown, once the task has ended.
    pub result: watch::Sender<Option<Result<Returned, Error>>>,
}

/// State that the client and its sequences keep alive.
pub struct Handle {
    pub shared: Arc<Shared>,
}

impl Drop for Handle {
    fn drop(&mut self) {
        // In a child of the process, a thread of the parent may have held the lock.
        let is_here = self.shared.check_process().is_ok();
        if is_here && self.shared.lock().life == Life::Serving {
            tracing::warn!(holder = self.shared.options.holder, "dropped without a shutdown");
            self.shared.close(Life::Over);
        }
    }
}

#[derive(Default)]
pub struct Core {
    pub engine: Engine,
    /// The state file, which outlives the process.
    pub store: Option<Arc<Store>>,
    pub states: Vec<SequenceState>,
    pub by_name: HashMap<Arc<str>, Id>,
    pub life: Life,
    pub connected: bool,
    /// When the server has last answered.
    pub answered_at: Monotonic,
    /// Why the server cannot be reached, or has not done what it was last asked for.
    pub trouble: Option<Arc<Report>>,
    pub counts: Counts,
}

/// A sequence of a client.
#[derive(Default)]
pub struct SequenceState {
    pub hot: Arc<Hot>,
    /// The last refusal, and how many there were.
    pub refusal: Option<Error>,
    pub refusals: u64,
    /// The server's reason for having no values now, for which callers wait.
    pub lack: Option<Arc<Report>>,
    pub waits: u64,
    /// Refusals of any kind.
    pub errors: u64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Life {
    #[default]
    Serving,
    /// All leases are being returned.
    Closing,
    /// The task has ended, or is to end at once.
    Over,
}

#[derive(Clone, Copy, Debug, Default)]
pub struct Counts {
    pub statements: u64,
    pub failures: u64,
    pub overloads: u64,
    pub connects: u64,
}

impl Shared {
    /// The engine's time begins now, at 0.
    pub fn new(engine: Engine, options: Options, generation: u32) -> Shared {
        let core = Core { engine, connected: true, ..Core::default() };
        Shared {
            core: Mutex::new(core),
            wake_driver: Notify::new(),
            closed: Notify::new(),
            start: Instant::now(),
            generation,
            options,
            result: watch::Sender::new(None),
        }
    }

    pub fn now(&self) -> Monotonic {
        Monotonic(Micros::from(self.start.elapsed()).0)
    }

    pub fn at(&self, time: Monotonic) -> Instant {
        self.start + Duration::from_micros(time.0.max(0) as u64)
    }

    /// How long ago `time` was.
    pub fn since(&self, time: Monotonic) -> Duration {
        Duration::from_micros(self.now().since(time).0.max(0) as u64)
    }

    /// When a caller that comes now stops waiting.
    pub fn deadline(&self) -> tokio::time::Instant {
        (Instant::now() + self.options.patience.min(MAX_WAIT)).into()
    }

    /// A caller that panicked under the lock leaves nothing half done that matters for uniqueness:
    /// values leave a lane in one step.
    pub fn lock(&self) -> MutexGuard<'_, Core> {
        self.core.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Fails in a child of the process.
    #[inline]
    pub fn check_process(&self) -> Result<(), Error> {
        if fork::generation() == self.generation { Ok(()) } else { Err(Error::Forked) }
    }

    /// The sequence `name`, which is added if it is new.
    pub fn sequence(&self, name: &str) -> Arc<Hot> {
        if self.check_process().is_err() {
            // A thread of the parent may have held the lock. Every call of this sequence fails.
            return Arc::new(Hot::new(Id(0), name.into(), self.generation));
        }
        let mut core = self.lock();
        if let Some(id) = core.by_name.get(name) {
            return core.states[id.0 as usize].hot.clone();
        }
        let vacant = core.engine.vacant();
        if let Some(id) = vacant {
            // A lease that came after the sequence was forgotten is given back.
            let before = core.states[id.0 as usize].hot.clone();
            core.retire(&before, self.now());
        }
        let id = core.engine.register(vacant);
        let name: Arc<str> = name.into();
        let hot = Arc::new(Hot::new(id, name.clone(), self.generation));
        core.by_name.insert(name, id);
        let state = SequenceState { hot: hot.clone(), ..SequenceState::default() };
        match core.states.get_mut(id.0 as usize) {
            Some(place) => *place = state,
            None => core.states.push(state),
        }
        hot
    }

    /// Goes on with the leases of a state file.
    pub fn resume(&self, store: Store, left: Vec<Left>) {
        let now = self.now();
        for one in left {
            match one.returns {
                Some(next) => self.lock().engine.resume_return(one.token, next, now),
                None => {
                    let id = self.sequence(&one.name).id;
                    self.lock().engine.resume_ask(id, one.size, one.token, now);
                }
            }
        }
        self.lock().store = Some(Arc::new(store));
    }

    /// Forgets a sequence that has no handle; its leases are given back.
    pub fn forget(&self, name: &str) -> bool {
        let mut core = self.lock();
        let Some(&id) = core.by_name.get(name) else { return false };
        let hot = core.states[id.0 as usize].hot.clone();
        // The list of sequences holds one reference, and `hot` another.
        if core.life != Life::Serving || Arc::strong_count(&hot) > 2 {
            return false;
        }
        core.by_name.remove(name);
        core.retire(&hot, self.now());
        core.engine.vacate(id);
        true
    }

    /// Checks a sequence whose lane `number` is low: fills the lane if it is empty, and wakes the
    /// task if more is needed.
    pub fn turn(&self, core: &mut Core, hot: &Hot, number: usize) {
        let now = self.now();
        if core.life != Life::Serving {
            return;
        }
        core.fill(hot, number, now);
        let due = core.engine.due();
        core.check(hot, now);
        if core.engine.due() < due {
            self.wake_driver.notify_one();
        }
    }

    /// Fails for a caller that finds no value and would wait in vain. The caller has seen
    /// `refusals` refusals of the sequence.
    pub fn check_wait(&self, core: &Core, hot: &Hot, refusals: u64) -> Result<(), Error> {
        if core.life != Life::Serving {
            return Err(Error::Closed);
        }
        if hot.name.contains('\0') {
            return Err(Error::Name(hot.name.clone()));
        }
        let state = &core.states[hot.id.0 as usize];
        let is_fresh = || {
            state.refusals > refusals
                || self.now() < core.engine.retry_at(hot.id, Monotonic(i64::MIN))
        };
        if let Some(refusal) = state.refusal.as_ref().filter(|_| is_fresh()) {
            return Err(refusal.clone());
        }
        let fails = self.options.unavailable == Unavailable::Fail;
        let cut_off = !core.connected && core.engine.is_cut_off();
        match fails && cut_off {
            true => Err(Error::Unreachable { source: core.trouble.clone() }),
            false => Ok(()),
        }
    }

    /// Makes all waiting callers look again, after the lock is released.
    pub fn wake_all(core: MutexGuard<'_, Core>) {
        let hots: Vec<Arc<Hot>> = core.states.iter().map(|state| state.hot.clone()).collect();
        drop(core);
        hots.iter().for_each(|hot| hot.changed.notify_waiters());
    }

    /// Ends serving: from now on no lane gives a value. The engine has the rest, to be returned.
    pub fn close(&self, life: Life) {
        let now = self.now();
        let mut core = self.lock();
        if core.life != Life::Serving {
            return;
        }
        core.life = life;
        for number in 0..core.states.len() {
            let hot = core.states[number].hot.clone();
            core.retire(&hot, now);
        }
        core.engine.give_back_all(now);
        Shared::wake_all(core);
        self.wake_driver.notify_one();
        self.closed.notify_one();
    }
}

impl Core {
    /// The figures of a sequence.
    pub fn stats(&self, state: &SequenceState, now: Monotonic) -> SequenceStats {
        let figures = self.engine.figures(state.hot.id, now, state.hot.remaining());
        SequenceStats {
            name: state.hot.name.clone(),
            hits: figures.taken.max(0) as u64,
            refills: figures.refills,
            waits: state.waits,
            errors: state.errors,
            rate: figures.rate,
            left: figures.left.max(0) as u64,
            leases: figures.leases as u64,
        }
    }

    /// Fills a lane if it is empty, or lets takers have more of it.
    pub fn fill(&mut self, hot: &Hot, number: usize, now: Monotonic) {
        // The engine must know the lane that is filled.
        if number >= hot.lanes() {
            return;
        }
        let lane = hot.lane(number);
        if lane.is_held_back() {
            let more = self.store.as_ref().map_or(Ok(()), |store| store.release_more(lane));
            return self.note_fault(more, hot, now);
        }
        if lane.remaining() > 0 {
            return;
        }
        self.engine.finish(hot.id, number as u16, 0, now);
        if let Some(store) = self.store.clone() {
            let filled = self.fill_stored(&store, hot, number, now);
            return self.note_fault(filled, hot, now);
        }
        if let Some(lease) = self.engine.serve(hot.id, number as u16) {
            lane.fill(lease.last, lease.increment, lease.count);
        }
    }

    fn fill_stored(
        &mut self,
        store: &Arc<Store>,
        hot: &Hot,
        number: usize,
        now: Monotonic,
    ) -> io::Result<()> {
        hot.store_lane(number, store)?;
        match self.engine.serve(hot.id, number as u16) {
            Some(lease) => store.fill(hot.lane(number), &lease).inspect_err(|_| {
                self.engine.finish(hot.id, number as u16, lease.count, now);
            }),
            None => Ok(()),
        }
    }

    /// Takes consecutive values from a lease that is in no lane.
    pub fn take_run(&mut self, hot: &Hot, count: i64, now: Monotonic) -> Option<(i64, i64)> {
        let run = self.engine.take_run(hot.id, count, now)?;
        self.use_up(&run.token, run.left, hot, now).then_some((run.first, run.increment))
    }

    /// The lease of a ticket, if it has come. Its caller uses all of it.
    pub fn claim(&mut self, ticket: u64, hot: &Hot, now: Monotonic) -> Option<Lease> {
        let lease = self.engine.claim(ticket, now)?;
        self.use_up(&lease.token, 0, hot, now).then_some(lease)
    }

    /// Writes down that only `left` values are left. `false`: the others must not be served.
    fn use_up(&mut self, token: &Uuid, left: i64, hot: &Hot, now: Monotonic) -> bool {
        let Some(store) = &self.store else { return true };
        let done = store.set_left(token, left);
        let is_done = done.is_ok();
        self.note_fault(done, hot, now);
        is_done
    }

    /// A lease has ended.
    pub fn free(&self, token: &Uuid) {
        if let Some(store) = &self.store {
            store.free(token);
        }
    }

    /// Forgets the leases that were asked for and have not come, and those that need not be
    /// returned.
    pub fn tidy_store(&mut self, asked: &[Uuid]) {
        let expired = self.engine.take_expired();
        if let Some(store) = &self.store {
            store.forget_asked(asked, &self.engine.asked_again());
            expired.iter().for_each(|token| store.free(token));
        }
    }

    /// Gives the leases back if the state file could not be written, since then they must not be
    /// served. Callers get the reason.
    fn note_fault(&mut self, done: io::Result<()>, hot: &Hot, now: Monotonic) {
        let (Err(error), Some(store)) = (done, self.store.clone()) else { return };
        self.engine.refuse(hot.id, now);
        let state = self.state(hot.id);
        state.refusals += 1;
        state.refusal = Some(store.error(Report::own(&error, None, None)));
        self.retire(hot, now);
    }

    /// Ends all leases of a sequence; the rest of them is given back.
    pub fn retire(&mut self, hot: &Hot, now: Monotonic) {
        for number in 0..hot.lanes() {
            let lane = hot.lane(number);
            let left = match &self.store {
                Some(store) => store.close(lane),
                None => lane.close(),
            };
            self.engine.finish(hot.id, number as u16, left, now);
        }
        self.engine.give_back_stock(hot.id, now);
    }

    /// Tells the engine what is left of a sequence, and the lanes when it wants to be told again.
    pub fn check(&mut self, hot: &Hot, now: Monotonic) {
        let in_lanes = hot.remaining();
        let mark = self.engine.check(hot.id, now, in_lanes);
        hot.set_mark(self.remaining(hot, now), mark);
    }

    /// How many values of a sequence can be served.
    pub fn remaining(&self, hot: &Hot, now: Monotonic) -> i64 {
        self.engine.figures(hot.id, now, hot.remaining()).left
    }

    pub fn state(&mut self, id: Id) -> &mut SequenceState {
        &mut self.states[id.0 as usize]
    }
}
