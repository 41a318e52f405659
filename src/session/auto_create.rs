//! `hilo.auto_create`: at the first use of an unknown name, the worker creates the sequence. It
//! does so in its own transaction: the sequence stays if the caller rolls back, and nobody waits
//! for the caller's end.

use std::cell::Cell;
use std::time::{Duration, Instant};

use pgrx::{PgSqlErrorCode, pg_sys};

use crate::backend::Global;
use crate::catalog::name::escape_for_message;
use crate::errors::HiloError;
use crate::process::ffi;
use crate::session::wait::{self, Patience};
use crate::shared::wait_event::WaitEvent;
use crate::shared::{self, Condition};

/// The request that this backend waits for. It is given up at exit.
static ASKED: Global<Cell<Option<usize>>> = Global::new(Cell::new(None));

struct Asked;

impl Drop for Asked {
    fn drop(&mut self) {
        give_up();
    }
}

/// Gives up the pending request, if there is one.
pub fn give_up() {
    if let (Some(at), Ok(shared)) = (ASKED.take(), shared::get()) {
        shared.give_up(at);
    }
}

/// Has the worker create a sequence of this name, with the default options, owned by the current
/// user. If another session was first, nothing happens.
///
/// # Errors
/// `Timeout`, and `Fault` with the worker's error.
pub fn create(name: &[u8]) -> Result<(), HiloError> {
    const AGAIN: Duration = Duration::from_millis(200);
    /// A session that has not committed yet is creating it: wait, as for a row lock.
    const PASSING: [i32; 2] = [
        PgSqlErrorCode::ERRCODE_LOCK_NOT_AVAILABLE as i32,
        PgSqlErrorCode::ERRCODE_UNIQUE_VIOLATION as i32,
    ];
    let shared = shared::get()?;
    // SAFETY: this static is set when the backend connects.
    let database = unsafe { pg_sys::MyDatabaseId };
    let shown = escape_for_message(name);
    let answered = &shared.control.answered;
    answered.prepare();
    let guard = Asked;
    let mut patience = Patience::new();
    let mut ask_at = Instant::now();
    let result = loop {
        if ASKED.get().is_none() && Instant::now() >= ask_at {
            ASKED.set(shared.ask(database, ffi::current_user(), name));
        }
        patience.wake(shared);
        if let Some(answer) = ASKED.get().and_then(|at| shared.take_answer(at)) {
            ASKED.set(None);
            match answer {
                Err(fault) if PASSING.contains(&fault.sqlstate) && !patience.is_over() => {
                    ask_at = Instant::now() + AGAIN;
                }
                answer => break answer.map_err(|fault| wait::failed(&shown, &fault)),
            }
        }
        if patience.is_over() {
            let cause = wait::silence(shared, patience.no_worker);
            break Err(HiloError::Timeout { name: shown, cause });
        }
        patience.sleep(answered, WaitEvent::Create);
    };
    Condition::cancel();
    drop(guard);
    result
}
