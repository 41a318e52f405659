//! The processes that ask sources, one for each group of sequences. All databases together have
//! half as many places for them as the server has background workers. When they run short, a
//! process with nothing to ask leaves, and an owner who has no process comes before those who have
//! one.
//!
//! A place is taken and left under the `workers` lock. A worker first says that there is a request,
//! and then looks for the process. A process leaves only if nobody has said so since it looked.

use std::sync::atomic::{AtomicI64, AtomicU32, AtomicU64, Ordering::*};

use pgrx::pg_sys::LWLockMode::{LW_EXCLUSIVE, LW_SHARED};

use hilo_core::numbers::{Micros, Monotonic};

use crate::process::ffi;
use crate::shared::Shared;
use crate::shared::seat::Seat;

/// The sequences of one owner that one process asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Group {
    pub database: u32,
    pub owner: u32,
    /// A hash of what their queries have in common.
    pub query: u64,
}

/// A place for such a process.
#[repr(C, align(64))]
pub struct Asker {
    /// 0: the place is free.
    database: AtomicU32,
    owner: AtomicU32,
    query: AtomicU64,
    /// Tells its process from one that was registered for this place before.
    ticket: AtomicU64,
    seat: Seat,
}

/// The right of a registered process to its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Ticket {
    at: u64,
    number: u64,
}

/// That somebody has found no place.
#[repr(C)]
pub struct Wanted {
    /// In microseconds, monotonic; 0: nobody has.
    at: AtomicI64,
    owner: AtomicU32,
}

/// The result of [`Shared::hold_asker`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hold {
    /// The group has a process, or one is about to start.
    Running,
    /// It has none: the caller holds this place for the one that it registers now.
    Register(Ticket),
    /// It has none, and there is no place for one.
    Full,
}

impl Wanted {
    fn note(&self, owner: u32) {
        self.owner.store(owner, Relaxed);
        self.at.store(ffi::monotonic().0, Relaxed);
    }

    /// Who waits looks again after a second.
    fn is_recent(&self) -> bool {
        const LATELY: Micros = Micros(2_000_000);
        let at = self.at.load(Relaxed);
        at != 0 && ffi::monotonic().since(Monotonic(at)) < LATELY
    }

    fn forget(&self, owner: u32) {
        if self.owner.load(Relaxed) == owner {
            self.at.store(0, Relaxed);
        }
    }

    fn by_another(&self, owner: u32) -> bool {
        self.is_recent() && self.owner.load(Relaxed) != owner
    }
}

impl Asker {
    fn is_taken(&self) -> bool {
        self.database.load(Relaxed) != 0 && !self.seat.is_missing() && !self.seat.is_dead()
    }

    fn group(&self) -> Group {
        Group {
            database: self.database.load(Relaxed),
            owner: self.owner.load(Relaxed),
            query: self.query.load(Relaxed),
        }
    }

    fn has(&self, ticket: Ticket) -> bool {
        self.database.load(Relaxed) != 0 && self.ticket.load(Relaxed) == ticket.number
    }

    fn free(&self) {
        self.database.store(0, Relaxed);
        self.seat.leave();
    }
}

impl Shared {
    /// Has each process look whether there is something to ask, or its place is wanted.
    pub fn wake_askers(&self) {
        self.control.source_requests.fetch_add(1, AcqRel);
        self.control.source_wanted.broadcast();
    }

    /// Holds a place for the process of a group, unless it has one.
    pub fn hold_asker(&self, group: Group) -> Hold {
        let _lock = self.lock_workers(LW_EXCLUSIVE);
        let taken = || self.askers.iter().filter(|asker| asker.is_taken());
        if taken().any(|asker| asker.group() == group) {
            return Hold::Running;
        }
        let has_none = !taken().any(|asker| asker.owner.load(Relaxed) == group.owner);
        let free = self.askers.iter().position(|asker| !asker.is_taken());
        let is_his_turn = has_none || !self.control.askers_needed.by_another(group.owner);
        let Some(at) = free.filter(|_| is_his_turn) else {
            self.control.askers_wanted.note(group.owner);
            if has_none {
                self.control.askers_needed.note(group.owner);
            }
            return Hold::Full;
        };
        if has_none {
            self.control.askers_needed.forget(group.owner);
        }
        let asker = &self.askers[at];
        let number = self.control.asker_tickets.fetch_add(1, Relaxed) + 1;
        asker.database.store(group.database, Relaxed);
        asker.owner.store(group.owner, Relaxed);
        asker.query.store(group.query, Relaxed);
        asker.ticket.store(number, Relaxed);
        asker.seat.hold();
        Hold::Register(Ticket { at: at as u64, number })
    }

    /// Makes this process the one of the place that is held for it, and returns its group. `None`:
    /// it has started too late, and the place is another's.
    pub fn enter_asker(&self, ticket: Ticket, process: usize) -> Option<Group> {
        let _lock = self.lock_workers(LW_EXCLUSIVE);
        let asker = self.askers.get(ticket.at as usize).filter(|asker| asker.has(ticket))?;
        asker.seat.enter(process);
        Some(asker.group())
    }

    /// Frees the place. Does nothing if it has been left before.
    pub fn leave_asker(&self, ticket: Ticket) {
        let _lock = self.lock_workers(LW_EXCLUSIVE);
        if let Some(asker) = self.askers.get(ticket.at as usize).filter(|asker| asker.has(ticket)) {
            asker.free();
        }
    }

    /// Frees the place, unless somebody has said that there is a request since `told` was read.
    /// Returns whether it is free.
    pub fn leave_asker_unless(&self, ticket: Ticket, told: u64) -> bool {
        let _lock = self.lock_workers(LW_EXCLUSIVE);
        let left = self.control.source_requests.load(Acquire) == told;
        if left
            && let Some(asker) = self.askers.get(ticket.at as usize)
            && asker.has(ticket)
        {
            asker.free();
        }
        left
    }

    /// Whether a process asks sources of a database.
    pub fn has_askers(&self, database: u32) -> bool {
        let _lock = self.lock_workers(LW_SHARED);
        self.running_askers(database).next().is_some()
    }

    /// Ends the processes that ask sources of a database, whatever they wait for.
    pub fn end_askers(&self, database: u32) {
        let _lock = self.lock_workers(LW_SHARED);
        for pid in self.running_askers(database).filter_map(|asker| asker.seat.pid()) {
            // SAFETY: a signal to a process of this server.
            unsafe { libc::kill(pid as i32, libc::SIGTERM) };
        }
    }

    fn running_askers(&self, database: u32) -> impl Iterator<Item = &Asker> {
        let ours = move |asker: &&Asker| asker.database.load(Relaxed) == database;
        self.askers.iter().filter(ours).filter(|asker| asker.seat.is_running())
    }

    /// Whether a place is wanted for which a process that has nothing to ask makes room.
    pub fn askers_wanted(&self) -> bool {
        self.control.askers_wanted.is_recent()
    }

    /// Whether a place is needed for which a process of this owner makes room in any case.
    pub fn askers_needed_by_another(&self, owner: u32) -> bool {
        self.control.askers_needed.by_another(owner)
    }
}
