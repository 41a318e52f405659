//! The possible events: the steps of sessions, of the worker, and accidents.

use crate::catalog::{
    BLOCK, Catalog, Copied, Effect, Ended, LIMIT, Lease, Memory, Pending, SKIP, Set, State, Work,
    Worker, lowest, range,
};

/// A fault in the protocol, to see that the checker finds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    None,
    /// A worker that takes a position over and files nothing does not write the position.
    TakeoverWithoutPosition,
    /// A reservation whose wait for the standby was cut short is published.
    PublishedUnacknowledged,
    /// Memory outlives its database, for one that gets the OID.
    MemoryOfTheDead,
}

pub struct Protocol {
    /// The standby is synchronous, and `hilo.failover_skip` 0. Else it may lag by [`SKIP`].
    pub synchronous: bool,
    pub failures: u8,
    pub promotions: bool,
    /// The database is copied, dropped, and made again from the copy under its OID.
    pub drops: bool,
    pub fault: Fault,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    // Sessions.
    Take,
    Serve,
    Return,
    Orphan,
    Lease,
    CommitLease,
    SettleLease,
    RollBackLease,
    LockLease,
    UnlockLease,
    ReturnLease(Set),
    RevokeLease,
    // The worker.
    Reserve,
    Flush,
    WriteOrphans,
    WriteOffDead,
    File,
    Abort,
    Commit,
    Conclude,
    Interrupt,
    // Accidents, and the standby.
    CutOff,
    Crash,
    Promote,
    Copy,
    Recreate,
}

impl Protocol {
    pub fn skip(&self) -> u8 {
        if self.synchronous { 0 } else { SKIP }
    }

    /// `worker::reserve::reserve` and `take`
    pub fn reserve(&self, state: &State) -> Option<Work> {
        let memory = &state.memory;
        if memory.block | memory.returned != 0 && memory.leaving == 0 {
            return None;
        }
        let mut writes = state.catalog;
        writes.take_over(memory, self.skip());
        let left = memory.leaving;
        writes.free |= left;
        writes.account(memory.all() & !left, memory.block & !left, left != 0);
        let lent = writes.free;
        (writes.free, writes.lent) = (0, writes.lent | lent);
        let start = writes.position.next;
        if lent == 0 {
            writes.position.next = (start + BLOCK).min(LIMIT);
        }
        let block = range(start, writes.position.next);
        Some(Work { writes, files: false, to: Effect::Reserved { block, lent, left } })
    }

    /// `worker::evict::write`: `left` goes to the catalog. `None`: nothing of this life is there.
    pub fn write(&self, state: &State, left: Set, to: Effect) -> Option<Work> {
        let memory = &state.memory;
        if state.catalog.position.life != memory.life {
            return None;
        }
        let mut writes = state.catalog;
        match to {
            Effect::WroteOff(_) => writes.write_off(left),
            _ => writes.free |= left,
        }
        if matches!(to, Effect::Flushed(_)) {
            writes.lower();
        }
        let held = memory.all() & !left;
        writes.account(held, memory.block & !left, true);
        if held == 0 {
            writes.position.life = 0;
        }
        Some(Work { writes, files: false, to })
    }

    /// `worker::leases::file` and `settle`
    pub fn file(&self, state: &State) -> Option<Work> {
        let memory = &state.memory;
        let lease = state.catalog.lease?;
        let ended = lease.ended?;
        let mut writes = state.catalog;
        writes.take_over(memory, self.skip());
        let files = !memory.lease_locked && memory.pending() & lease.range == 0;
        if files {
            let lost = lease.timeline != memory.timeline && self.skip() > 0;
            match ended {
                Ended::Revoked => writes.write_off(lease.range),
                Ended::Returned if lost => writes.write_off(lease.rest),
                Ended::Returned => writes.free |= lease.rest,
            }
            writes.account(memory.all(), memory.block, true);
            if memory.all() == 0 {
                writes.position.life = 0;
            }
        } else if self.fault == Fault::TakeoverWithoutPosition {
            writes.position = state.catalog.position;
        }
        (files || writes != state.catalog).then_some(Work { writes, files, to: Effect::Filed })
    }

    pub fn begin(&self, state: &State, action: Action) -> Option<Work> {
        let memory = &state.memory;
        let pool = memory.block | memory.returned | memory.leaving;
        match (action, memory.pending) {
            (Action::Reserve, _) => self.reserve(state),
            (Action::Flush, _) if pool != 0 || memory.all() == 0 => {
                self.write(state, pool, Effect::Flushed(pool))
            }
            (Action::WriteOrphans, _) if memory.orphans != 0 => {
                self.write(state, memory.orphans, Effect::WroteOrphans(memory.orphans))
            }
            (Action::WriteOffDead, Pending::Dead(set)) => {
                self.write(state, set, Effect::WroteOff(set))
            }
            (Action::File, _) => self.file(state),
            _ => None,
        }
    }

    /// `Worker::publish`, and what memory gives up within the commit (`worker::leaving`).
    pub fn conclude(&self, memory: &mut Memory, to: Effect, acknowledged: bool) {
        match to {
            Effect::Reserved { block, lent, left } => {
                memory.leaving &= !left;
                if acknowledged || self.fault == Fault::PublishedUnacknowledged {
                    memory.block |= block;
                    memory.returned |= lent;
                } else {
                    memory.leaving |= block | lent;
                }
            }
            Effect::Flushed(left) => {
                memory.block &= !left;
                memory.returned &= !left;
                memory.leaving &= !left;
                memory.frozen = false;
            }
            Effect::WroteOrphans(left) => memory.orphans &= !left,
            Effect::WroteOff(_) => memory.pending = Pending::None,
            Effect::Filed => {}
        }
    }

    /// The steps of the worker. `None`: this one is not possible now.
    pub fn work(&self, mut next: State, action: Action) -> Option<State> {
        match (action, next.worker) {
            (Action::Abort, Worker::Begun(_)) => {
                next.worker = Worker::Idle;
                next.memory.frozen = false;
            }
            (Action::Commit, Worker::Begun(work)) => {
                let acknowledged = !self.synchronous || next.standby.is_none();
                let lease = if work.files { None } else { next.catalog.lease };
                next.catalog = Catalog { lease, ..work.writes };
                next.worker = Worker::Committed { to: work.to, acknowledged };
                // A range without a slot leaves memory at once.
                if let Effect::WroteOrphans(_) | Effect::WroteOff(_) | Effect::Filed = work.to {
                    self.conclude(&mut next.memory, work.to, true);
                    next.worker = Worker::Idle;
                }
            }
            (Action::Conclude, Worker::Committed { to, acknowledged }) => {
                self.conclude(&mut next.memory, to, acknowledged);
                next.worker = Worker::Idle;
            }
            // The worker is told to end while it waits for the standby.
            (Action::Interrupt, Worker::Committed { to, .. }) if self.synchronous => {
                self.conclude(&mut next.memory, to, false);
                next.worker = Worker::Idle;
            }
            (_, Worker::Idle) => {
                next.worker = Worker::Begun(self.begin(&next, action)?);
                next.memory.frozen = action == Action::Flush;
            }
            _ => return None,
        }
        Some(next)
    }

    /// The steps of sessions and of those who hold leases.
    pub fn draw(&self, mut next: State, action: Action) -> Option<State> {
        let State { memory, catalog, used, leased, said, twice, .. } = &mut next;
        let pool = if memory.frozen { 0 } else { memory.block | memory.returned };
        // A returned range is taken first.
        let first =
            lowest(if memory.returned != 0 { memory.returned } else { memory.block }) & pool;
        match (action, memory.pending) {
            // `session::draw` and `Locked::promote`: from the pool to a slice, from there to a
            // client, and back.
            (Action::Take, _) if first != 0 && memory.slices | memory.orphans == 0 => {
                memory.slices |= first;
                memory.block &= !first;
                memory.returned &= !first;
            }
            (Action::Serve, _) if memory.slices != 0 => {
                *twice |= memory.slices & *used != 0;
                *used |= memory.slices;
                memory.slices = 0;
            }
            (Action::Return, _) if memory.slices != 0 => {
                memory.returned |= memory.slices;
                memory.slices = 0;
            }
            (Action::Orphan, _) if memory.slices != 0 => {
                memory.orphans |= memory.slices;
                memory.slices = 0;
            }
            // `session::lease`: the client sees the values at once, and may use them.
            (Action::Lease, Pending::None) if first != 0 && !*leased => {
                let second = lowest(memory.block & pool & !first) & (first << 1);
                let taken = first | second;
                memory.block &= !taken;
                memory.returned &= !taken;
                memory.pending = Pending::Open(taken);
                *twice |= taken & *used != 0;
                *used |= taken;
                *leased = true;
            }
            (Action::CommitLease, Pending::Open(range)) if catalog.lease.is_none() => {
                let timeline = memory.timeline;
                catalog.lease = Some(Lease { range, rest: range, ended: None, timeline });
                memory.pending = Pending::Committed(range);
            }
            (Action::SettleLease, Pending::Committed(_)) => memory.pending = Pending::None,
            (Action::RollBackLease, Pending::Open(range)) => memory.pending = Pending::Dead(range),
            (Action::LockLease, _)
                if catalog.lease.is_some_and(|lease| lease.ended.is_some())
                    && !memory.lease_locked =>
            {
                memory.lease_locked = true;
            }
            (Action::UnlockLease, _) if memory.lease_locked => memory.lease_locked = false,
            // `LockedLease::end`
            (Action::ReturnLease(rest), _) => {
                let lease = catalog.lease.as_mut().filter(|lease| lease.ended.is_none())?;
                if said.is_some_and(|said| said != rest) {
                    return None;
                }
                (lease.ended, lease.rest) = (Some(Ended::Returned), rest);
                if said.is_none() {
                    (*used, *said) = (*used & !rest, Some(rest));
                }
            }
            (Action::RevokeLease, _) => {
                let lease = catalog.lease.as_mut().filter(|lease| lease.ended.is_none())?;
                lease.ended = Some(Ended::Revoked);
            }
            _ => return None,
        }
        Some(next)
    }

    /// Accidents, and what the standby hears.
    pub fn fail(&self, mut next: State, action: Action) -> Option<State> {
        let Memory { life, timeline, .. } = next.memory;
        match action {
            Action::CutOff if self.promotions && next.standby.is_none() => {
                next.standby = Some(next.catalog);
                return Some(next);
            }
            // Nobody is connected to the original, which may have something in memory all the same.
            // A copy that can no longer take its place would only be another state of the same.
            Action::Copy
                if self.drops
                    && next.failures < self.failures
                    && next.copied.is_none()
                    && next.worker == Worker::Idle
                    && next.memory.slices == 0
                    && matches!(next.memory.pending, Pending::None | Pending::Dead(_)) =>
            {
                let State { catalog, used, leased, said, .. } = next;
                next.copied = Some(Copied { catalog, used, leased, said });
                return Some(next);
            }
            // `Shared::forget`, and the next life begins. Whoever had a lease of the original has
            // one of the copy if that has its row.
            Action::Recreate => {
                let Copied { catalog, used, leased, said } = next.copied.take()?;
                (next.catalog, next.used) = (catalog, used);
                (next.leased, next.said) = (leased, said);
                if self.fault == Fault::MemoryOfTheDead {
                    // Sessions may have returned it after the worker had gone.
                    next.memory.orphans |= next.memory.slices;
                    next.memory.slices = 0;
                } else {
                    next.memory = Memory::new(life + 1, timeline);
                }
            }
            Action::Crash if !self.promotions && !self.drops => {
                next.memory = Memory::new(life + 1, timeline)
            }
            Action::Promote => {
                let standby = next.standby.take()?;
                let lag = next.catalog.position.next.saturating_sub(standby.position.next);
                if lag > self.skip() && !self.synchronous {
                    return None;
                }
                next.catalog = standby;
                next.memory = Memory::new(life + 1, timeline + 1);
            }
            _ => return None,
        }
        next.failures += 1;
        next.worker = Worker::Idle;
        (next.failures <= self.failures).then_some(next)
    }
}
