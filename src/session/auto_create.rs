//! `hilo.auto_create`: at the first use of an unknown name, the worker creates the sequence. It does so in
//! its own transaction, so the sequence stays if the caller rolls back.

use std::cell::Cell;
use std::time::{Duration, Instant};

use pgrx::{PgSqlErrorCode, pg_sys};

use super::wait;
use crate::backend::Global;
use crate::catalog::name::escape_for_message;
use crate::errors::HiloError;
use crate::ffi;
use crate::gucs;
use crate::shared::auto_create::Answer;
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
        shared.abandon(at);
    }
}

/// Has the worker create a sequence of this name, with the default options, owned by the current user. If
/// another session was first, nothing happens.
///
/// # Errors
/// `Timeout`, and `Fault` with the worker's error.
pub fn create(name: &[u8]) -> Result<(), HiloError> {
    const AGAIN: Duration = Duration::from_millis(200);
    const PASSING: [i32; 2] = [
        PgSqlErrorCode::ERRCODE_LOCK_NOT_AVAILABLE as i32,
        PgSqlErrorCode::ERRCODE_UNIQUE_VIOLATION as i32,
    ];
    let shared = shared::get()?;
    // SAFETY: this static is set when the backend connects.
    let database = unsafe { pg_sys::MyDatabaseId };
    let shown = escape_for_message(name);
    let began = Instant::now();
    let answered = &shared.control.answered;
    answered.prepare();
    let guard = Asked;
    let mut ask_at = began;
    let result = loop {
        if ASKED.get().is_none() && Instant::now() >= ask_at {
            ASKED.set(shared.ask(database, ffi::current_user(), name));
        }
        let registered = wait::wake(shared);
        if let Some(at) = ASKED.get() {
            match shared.answer(at) {
                Answer::Pending => {}
                Answer::Done => {
                    ASKED.set(None);
                    break Ok(());
                }
                Answer::Failed(fault) => {
                    ASKED.set(None);
                    // A session that has not committed yet is creating it: wait, as for a row lock.
                    if PASSING.contains(&fault.sqlstate)
                        && began.elapsed() < gucs::reserve_timeout()
                    {
                        ask_at = Instant::now() + AGAIN;
                        continue;
                    }
                    let message = fault.message().to_string();
                    break Err(HiloError::Fault {
                        name: shown,
                        sqlstate: fault.sqlstate,
                        kind: fault.kind,
                        message,
                    });
                }
            }
        }
        if began.elapsed() >= gucs::reserve_timeout() {
            let cause = wait::silence(shared, !registered);
            break Err(HiloError::Timeout { name: shown, cause });
        }
        answered.sleep(50, WaitEvent::Create.code());
    };
    Condition::cancel();
    drop(guard);
    result
}
