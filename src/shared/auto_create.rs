//! Requests to the worker to create a sequence, for `hilo.auto_create`. The `workers` lock guards
//! all fields.
//!
//! A place belongs to the session that asks, until it has read the answer or gives up. Before a
//! late answer comes, another session may have the place. So an answer names its request by a
//! ticket too, and goes nowhere if that has changed. A request that a worker leaves without an
//! answer is there for the next worker.

use std::cell::UnsafeCell;

use pgrx::pg_sys;

use crate::shared::fault::Fault;
use crate::shared::{LockMode, Shared};

/// How many requests can be under way at a time in the whole server.
pub const REQUESTS: usize = 64;
const NAME: usize = 255;

/// The end of a request: the sequence is there, or why not.
pub type Answer = Result<(), Fault>;

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Free,
    Asked,
    Done,
    Failed,
}

struct Body {
    state: State,
    /// Counts the requests that have had this place.
    ticket: u64,
    database: u32,
    owner: u32,
    len: usize,
    name: [u8; NAME],
    fault: Fault,
}

impl Body {
    fn waits_for(&self, database: u32) -> bool {
        self.state == State::Asked && self.database == database
    }
}

/// A place for one request.
#[repr(transparent)]
pub struct Request(UnsafeCell<Body>);

// SAFETY: the body is reached only under the `workers` lock.
unsafe impl Sync for Request {}

impl Request {
    pub(super) fn init(&self) {
        let body = Body {
            state: State::Free,
            ticket: 0,
            database: 0,
            owner: 0,
            len: 0,
            name: [0; NAME],
            fault: Fault::NONE,
        };
        // SAFETY: called once, before any other process can see the memory.
        unsafe { self.0.get().write(body) }
    }

    /// # Safety
    /// The `workers` lock must be held exclusively, for as long as the result is used.
    #[allow(clippy::mut_from_ref)]
    unsafe fn body(&self) -> &mut Body {
        // SAFETY: the caller holds the lock exclusively, so no other process uses the body.
        unsafe { &mut *self.0.get() }
    }
}

/// A copy of a request, for the worker.
pub struct Asked {
    at: usize,
    ticket: u64,
    pub owner: pg_sys::Oid,
    name: [u8; NAME],
    len: usize,
}

impl Asked {
    pub fn name(&self) -> &[u8] {
        &self.name[..self.len]
    }
}

impl Shared {
    /// Asks the worker of `database` for a sequence owned by `owner`. `None`: all places are taken.
    pub fn ask(&self, database: pg_sys::Oid, owner: pg_sys::Oid, name: &[u8]) -> Option<usize> {
        let _lock = self.lock_workers(LockMode::Exclusive);
        for (at, request) in self.requests.iter().enumerate() {
            // SAFETY: the lock is held exclusively.
            let body = unsafe { request.body() };
            if body.state == State::Free && name.len() <= NAME {
                body.name[..name.len()].copy_from_slice(name);
                (body.len, body.database, body.owner) =
                    (name.len(), database.to_u32(), owner.to_u32());
                body.ticket += 1;
                body.state = State::Asked;
                return Some(at);
            }
        }
        None
    }

    /// Takes the answer to a request, which leaves its place. `None`: there is no answer yet.
    pub fn take_answer(&self, at: usize) -> Option<Answer> {
        let _lock = self.lock_workers(LockMode::Exclusive);
        // SAFETY: the lock is held exclusively.
        let body = unsafe { self.requests[at].body() };
        let answer = match body.state {
            State::Free | State::Asked => return None,
            State::Done => Ok(()),
            State::Failed => Err(body.fault),
        };
        body.state = State::Free;
        Some(answer)
    }

    /// Gives up a request.
    pub fn give_up(&self, at: usize) {
        let _lock = self.lock_workers(LockMode::Exclusive);
        // SAFETY: the lock is held exclusively.
        unsafe { self.requests[at].body() }.state = State::Free;
    }

    /// A request for `database` that has no answer yet.
    pub fn next_request(&self, database: pg_sys::Oid) -> Option<Asked> {
        let _lock = self.lock_workers(LockMode::Exclusive);
        for (at, request) in self.requests.iter().enumerate() {
            // SAFETY: the lock is held exclusively.
            let body = unsafe { request.body() };
            if body.waits_for(database.to_u32()) {
                let owner = pg_sys::Oid::from_u32(body.owner);
                let (ticket, name, len) = (body.ticket, body.name, body.len);
                return Some(Asked { at, ticket, owner, name, len });
            }
        }
        None
    }

    /// Answers a request, unless the session has given it up.
    pub fn answer(&self, asked: &Asked, answer: Answer) {
        let _lock = self.lock_workers(LockMode::Exclusive);
        // SAFETY: the lock is held exclusively.
        let body = unsafe { self.requests[asked.at].body() };
        if body.state == State::Asked && body.ticket == asked.ticket {
            body.state = if answer.is_ok() { State::Done } else { State::Failed };
            body.fault = answer.err().unwrap_or(Fault::NONE);
        }
    }

    /// Whether a request for `database` waits. The caller holds the `workers` lock.
    pub(super) fn has_request_locked(&self, database: u32) -> bool {
        // SAFETY: the caller holds the lock, and the body is only read.
        self.requests.iter().any(|request| unsafe { (*request.0.get()).waits_for(database) })
    }
}
