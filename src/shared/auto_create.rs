//! Requests to the worker to create a sequence, for `hilo.auto_create`. The `workers` lock guards all fields.

use std::cell::UnsafeCell;

use pgrx::pg_sys;

use super::slot::Fault;
use super::{LockMode, Shared};

/// How many requests can be under way at a time in the whole server.
pub const REQUESTS: usize = 64;
const NAME: usize = 255;

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Free,
    Asked,
    /// The worker is creating the sequence.
    Taken,
    Done,
    Failed,
    /// The session no longer waits for the answer; the worker frees the place.
    Abandoned,
}

struct Body {
    state: State,
    database: u32,
    owner: u32,
    len: usize,
    name: [u8; NAME],
    fault: Fault,
}

/// A place for one request.
#[repr(transparent)]
pub struct Request(UnsafeCell<Body>);

// SAFETY: the body is reached only under the `workers` lock.
unsafe impl Sync for Request {}

/// What became of a request.
pub enum Answer {
    Pending,
    Done,
    Failed(Box<Fault>),
}

impl Request {
    pub(super) fn init(&self) {
        let body = Body {
            state: State::Free,
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

/// A request that the worker has taken.
pub struct Taken {
    /// Its place.
    pub at: usize,
    pub owner: pg_sys::Oid,
    name: [u8; NAME],
    len: usize,
}

impl Taken {
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
            // An abandoned request, whose database has no worker any more that would free it.
            let left = body.state == State::Abandoned && !self.has_worker_locked(body.database);
            if (body.state == State::Free || left) && name.len() <= NAME {
                body.name[..name.len()].copy_from_slice(name);
                (body.len, body.database, body.owner) =
                    (name.len(), database.to_u32(), owner.to_u32());
                body.state = State::Asked;
                return Some(at);
            }
        }
        None
    }

    /// Reads the answer to a request. A request that has been answered becomes free.
    pub fn answer(&self, at: usize) -> Answer {
        let lock = self.lock_workers(LockMode::Exclusive);
        // SAFETY: the lock is held exclusively.
        let body = unsafe { self.requests[at].body() };
        let (state, fault) = (body.state, body.fault);
        if matches!(state, State::Done | State::Failed) {
            body.state = State::Free;
        }
        drop(lock);
        match state {
            State::Done => Answer::Done,
            State::Failed => Answer::Failed(Box::new(fault)),
            _ => Answer::Pending,
        }
    }

    /// Abandons a request.
    pub fn abandon(&self, at: usize) {
        let _lock = self.lock_workers(LockMode::Exclusive);
        // SAFETY: the lock is held exclusively.
        let body = unsafe { self.requests[at].body() };
        body.state = if body.state == State::Taken { State::Abandoned } else { State::Free };
    }

    /// Takes a request for `database`.
    pub fn take_request(&self, database: pg_sys::Oid) -> Option<Taken> {
        let _lock = self.lock_workers(LockMode::Exclusive);
        for (at, request) in self.requests.iter().enumerate() {
            // SAFETY: the lock is held exclusively.
            let body = unsafe { request.body() };
            if body.state == State::Asked && body.database == database.to_u32() {
                body.state = State::Taken;
                let owner = pg_sys::Oid::from_u32(body.owner);
                return Some(Taken { at, owner, name: body.name, len: body.len });
            }
        }
        None
    }

    /// Answers a request that was taken.
    pub fn answer_request(&self, at: usize, fault: Option<Fault>) {
        let _lock = self.lock_workers(LockMode::Exclusive);
        // SAFETY: the lock is held exclusively.
        let body = unsafe { self.requests[at].body() };
        body.state = match (body.state, fault) {
            (State::Abandoned, _) => State::Free,
            (_, None) => State::Done,
            (_, Some(fault)) => {
                body.fault = fault;
                State::Failed
            }
        };
    }

    /// Makes the requests that a worker of `database` took and did not answer available to the next worker.
    /// Abandoned ones become free.
    pub fn retake_requests(&self, database: pg_sys::Oid) {
        let _lock = self.lock_workers(LockMode::Exclusive);
        for request in self.requests {
            // SAFETY: the lock is held exclusively.
            let body = unsafe { request.body() };
            if body.database == database.to_u32() {
                body.state = match body.state {
                    State::Taken => State::Asked,
                    State::Abandoned => State::Free,
                    other => other,
                };
            }
        }
    }

    /// Whether a request for `database` waits. The caller holds the `workers` lock.
    pub(super) fn has_request_locked(&self, database: u32) -> bool {
        // SAFETY: the caller holds the lock, and the body is only read.
        self.requests.iter().any(|request| unsafe {
            let body = &*request.0.get();
            body.state == State::Asked && body.database == database
        })
    }
}
