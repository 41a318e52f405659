//! The processes that ask sources. One of them asks for all sequences of an owner in a database; a
//! second one comes where a query takes long. All databases together have half as many places for
//! them as the server has background workers.
//!
//! A place is taken and left under the `workers` lock. A worker first says that there is a request,
//! and then looks for the process. A process leaves only if nobody has said so since it looked, or
//! if its place is wanted; then it has the worker look again.
//!
//! An owner for whom there is no place has one made free. Its process leaves after the query that
//! is running, and this ends early if it takes too long. The place is kept for that owner.
//!
//! All times here are of the monotonic clock, in microseconds.

use std::sync::atomic::{AtomicI64, AtomicU32, AtomicU64, Ordering::*};

use pgrx::pg_sys;
use pgrx::pg_sys::LWLockMode::{LW_EXCLUSIVE, LW_SHARED};

use hilo_core::numbers::{Micros, Monotonic, SequenceId};

use crate::process::ffi;
use crate::shared::Shared;
use crate::shared::seat::Seat;

/// Whose sequences a process asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Owner {
    pub database: u32,
    pub role: u32,
}

impl Owner {
    pub fn role(self) -> pg_sys::Oid {
        pg_sys::Oid::from_u32(self.role)
    }
}

/// An entry in the table of the processes that ask sources.
#[repr(C, align(64))]
pub struct AskerEntry {
    /// 0: the place is free.
    database: AtomicU32,
    role: AtomicU32,
    /// Distinguishes its process from one that was registered for this place before.
    ticket: AtomicU64,
    seat: Seat,
    /// The sequence whose source is asked, or [`LOOKS`] or [`RESTS`].
    asks: AtomicI64,
    asks_since: AtomicI64,
    /// When its query must end if the place is wanted.
    asks_until: AtomicI64,
    wanted: Wanted,
}

/// States of a process without a query: it looks for a request, or has found none.
const LOOKS: i64 = 0;
const RESTS: i64 = -1;

/// After this time a process leaves its place to another owner, if there is no other place.
const TURN: Micros = Micros(250_000);

/// A process whose query has taken this long is not expected to make another request soon.
const LONG: Micros = Micros(100_000);

/// The owner who wants the place of another owner, or the end of a long query of his own process.
#[repr(C)]
struct Wanted {
    database: AtomicU32,
    role: AtomicU32,
    /// 0: nobody does.
    at: AtomicI64,
}

/// The right of a registered process to its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Ticket {
    at: u64,
    number: u64,
}

/// The result of [`Shared::find_asker`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// A process of the owner has nothing to ask.
    Resting,
    /// The owner has a process, or one is about to start.
    Busy,
    /// All processes of the owner run long queries.
    Stuck,
    None,
}

fn is_ago(at: i64, time: Micros) -> bool {
    ffi::monotonic().since(Monotonic(at)) >= time
}

impl Wanted {
    fn note(&self, owner: Owner) {
        self.database.store(owner.database, Relaxed);
        self.role.store(owner.role, Relaxed);
        self.at.store(ffi::monotonic().0, Relaxed);
    }

    fn forget(&self) {
        self.at.store(0, Relaxed);
    }

    /// The owner who wants it, and who repeats that while he waits.
    fn by(&self) -> Option<Owner> {
        const LATELY: Micros = Micros(1_000_000);
        let at = self.at.load(Relaxed);
        let owner = Owner { database: self.database.load(Relaxed), role: self.role.load(Relaxed) };
        (at != 0 && !is_ago(at, LATELY)).then_some(owner)
    }
}

impl AskerEntry {
    fn is_taken(&self) -> bool {
        self.database.load(Relaxed) != 0 && !self.seat.is_missing() && !self.seat.is_dead()
    }

    fn owner(&self) -> Owner {
        Owner { database: self.database.load(Relaxed), role: self.role.load(Relaxed) }
    }

    fn has(&self, ticket: Ticket) -> bool {
        self.database.load(Relaxed) != 0 && self.ticket.load(Relaxed) == ticket.number
    }

    fn rests(&self) -> bool {
        self.asks.load(Relaxed) == RESTS
    }

    fn is_asking_long(&self) -> bool {
        self.asks.load(Relaxed) > LOOKS && is_ago(self.asks_since.load(Relaxed), LONG)
    }

    fn asks_for(&self, database: u32, sequence: SequenceId) -> bool {
        self.database.load(Relaxed) == database && self.asks.load(Relaxed) == sequence.0
    }

    fn is_wanted_by_another(&self) -> bool {
        self.wanted.by().is_some_and(|owner| owner != self.owner())
    }

    /// The place stays reserved for whoever wants it.
    fn free(&self) {
        match self.wanted.by().filter(|owner| *owner != self.owner()) {
            Some(owner) => self.wanted.note(owner),
            None => self.wanted.forget(),
        }
        self.database.store(0, Relaxed);
        self.seat.leave();
    }
}

impl Shared {
    /// Makes each process look for requests.
    pub fn wake_askers(&self) {
        self.control.source_requests.fetch_add(1, AcqRel);
        self.control.source_wanted.broadcast();
    }

    /// Looks for the processes of an owner.
    pub fn find_asker(&self, owner: Owner) -> Found {
        let _lock = self.lock_workers(LW_SHARED);
        let own = || self.askers_of(owner);
        match own().next() {
            None => Found::None,
            Some(_) if own().any(AskerEntry::rests) => Found::Resting,
            Some(_) if own().all(AskerEntry::is_asking_long) => Found::Stuck,
            Some(_) => Found::Busy,
        }
    }

    fn askers_of(&self, owner: Owner) -> impl Iterator<Item = &AskerEntry> {
        self.askers.iter().filter(move |asker| asker.is_taken() && asker.owner() == owner)
    }

    /// Holds a place for a process of an owner, which the caller registers now. If there is no
    /// place, one is made free.
    pub fn hold_asker(&self, owner: Owner) -> Option<Ticket> {
        let _lock = self.lock_workers(LW_EXCLUSIVE);
        let count = self.askers_of(owner).count();
        let free = self
            .askers
            .iter()
            .position(|asker| !asker.is_taken() && asker.wanted.by().is_none_or(|by| by == owner));
        let most = (self.askers.len() / 2).max(2);
        let Some(at) = free.filter(|_| count < most) else {
            self.make_room(owner, count, most);
            return None;
        };
        let wanted = self.askers.iter().filter(|asker| asker.wanted.by() == Some(owner));
        wanted.for_each(|asker| asker.wanted.forget());
        let asker = &self.askers[at];
        let number = self.control.asker_tickets.fetch_add(1, Relaxed) + 1;
        asker.database.store(owner.database, Relaxed);
        asker.role.store(owner.role, Relaxed);
        asker.ticket.store(number, Relaxed);
        asker.asks.store(LOOKS, Relaxed);
        asker.seat.hold();
        Some(Ticket { at: at as u64, number })
    }

    /// Asks a process to make room for an owner who has `count` processes, of `most`. It is one
    /// without a request. Otherwise, for an owner who has none, it is one of an owner who has
    /// several, or the one that has been there longest. For an owner who has some, it is the one
    /// whose query takes longest.
    fn make_room(&self, owner: Owner, count: usize, most: usize) {
        let taken = || self.askers.iter().filter(|asker| asker.is_taken());
        if let Some(known) = self.askers.iter().find(|asker| asker.wanted.by() == Some(owner)) {
            return known.wanted.note(owner);
        }
        let open = || taken().filter(|asker| asker.wanted.by().is_none());
        let others = || open().filter(|asker| asker.owner() != owner);
        let has_several = |asker: &&AskerEntry| {
            taken().filter(|other| other.owner() == asker.owner()).count() > 1
        };
        let came_at = |asker: &&AskerEntry| asker.seat.registered_at.load(Relaxed);
        let resting = others().find(|asker| asker.rests()).filter(|_| count < most);
        let chosen = resting.or_else(|| match count {
            0 => others().find(has_several).or_else(|| {
                others().filter(|asker| is_ago(came_at(asker), TURN)).min_by_key(came_at)
            }),
            _ => open()
                .filter(|asker| asker.owner() == owner)
                .min_by_key(|asker| asker.asks_since.load(Relaxed)),
        });
        if let Some(chosen) = chosen {
            chosen.wanted.note(owner);
            chosen.seat.wake();
        }
    }

    fn asker(&self, ticket: Ticket) -> Option<&AskerEntry> {
        self.askers.get(ticket.at as usize).filter(|asker| asker.has(ticket))
    }

    /// Makes this process the holder of the place, and returns its owner. `None`: it has started
    /// too late, and the place is another's.
    pub fn enter_asker(&self, ticket: Ticket, process: usize) -> Option<Owner> {
        let _lock = self.lock_workers(LW_EXCLUSIVE);
        let asker = self.asker(ticket)?;
        asker.seat.enter(process);
        Some(asker.owner())
    }

    /// Frees the place. Does nothing if it has been left before.
    pub fn leave_asker(&self, ticket: Ticket) {
        let _lock = self.lock_workers(LW_EXCLUSIVE);
        if let Some(asker) = self.asker(ticket) {
            asker.free();
        }
    }

    /// Frees the place, unless somebody has said that there is a request since `told` was read.
    /// Returns whether it is free.
    pub fn leave_asker_unless(&self, ticket: Ticket, told: u64) -> bool {
        let _lock = self.lock_workers(LW_EXCLUSIVE);
        let left = self.control.source_requests.load(Acquire) == told;
        if left && let Some(asker) = self.asker(ticket) {
            asker.free();
        }
        left
    }

    /// Notes that a process begins to ask for a sequence, and how long that may take if its place
    /// is wanted. `false`: another process asks for the sequence.
    pub fn begin_asking(&self, ticket: Ticket, sequence: SequenceId, patience: Micros) -> bool {
        let _lock = self.lock_workers(LW_EXCLUSIVE);
        let Some(asker) = self.asker(ticket) else { return false };
        let database = asker.database.load(Relaxed);
        if self.askers.iter().any(|other| other.is_taken() && other.asks_for(database, sequence)) {
            return false;
        }
        let now = ffi::monotonic().0;
        asker.asks_since.store(now, Relaxed);
        asker.asks_until.store(now.saturating_add(patience.0), Relaxed);
        asker.asks.store(sequence.0, Relaxed);
        true
    }

    /// Notes that the query has ended.
    pub fn end_asking(&self, ticket: Ticket) {
        let _lock = self.lock_workers(LW_EXCLUSIVE);
        if let Some(asker) = self.asker(ticket) {
            asker.asks.store(LOOKS, Relaxed);
            if !asker.is_wanted_by_another() {
                asker.wanted.forget();
            }
        }
    }

    /// Notes whether a process has nothing to ask.
    pub fn rest_asker(&self, ticket: Ticket, rests: bool) {
        let _lock = self.lock_workers(LW_EXCLUSIVE);
        if let Some(asker) = self.asker(ticket) {
            asker.asks.store(if rests { RESTS } else { LOOKS }, Relaxed);
        }
    }

    /// Whether the place of a process is wanted for another owner.
    pub fn is_asker_wanted(&self, ticket: Ticket) -> bool {
        self.asker(ticket).is_some_and(AskerEntry::is_wanted_by_another)
    }

    /// Whether the query of a process is to end, since others wait. A signal handler may ask.
    pub fn is_query_over(&self, ticket: Ticket) -> bool {
        self.asker(ticket).is_some_and(|asker| {
            asker.wanted.by().is_some() && is_ago(asker.asks_until.load(Relaxed), Micros(0))
        })
    }

    /// Whether another process asks for a sequence.
    pub fn is_asked(&self, database: u32, sequence: SequenceId) -> bool {
        let _lock = self.lock_workers(LW_SHARED);
        self.askers.iter().any(|asker| asker.is_taken() && asker.asks_for(database, sequence))
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

    fn running_askers(&self, database: u32) -> impl Iterator<Item = &AskerEntry> {
        let ours = move |asker: &&AskerEntry| asker.database.load(Relaxed) == database;
        self.askers.iter().filter(ours).filter(|asker| asker.seat.is_running())
    }
}
