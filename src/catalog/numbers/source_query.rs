//! Runs the query that is the source of a sequence, as the sequence's owner.

use std::ffi::CString;

use pgrx::pg_sys;

use crate::catalog::lease::lease_id::uuid_datum;
use crate::catalog::numbers::sources::{Request, SourceState};
use crate::catalog::rows::table::text_datum;
use crate::catalog::sequence::definitions::Sequence;
use crate::errors::HiloError;
use crate::process::memory::{self, TryGrow};
use crate::process::rights::{authorize_session, with_rights_of, with_settings};

/// The rows that the query brings.
pub struct Answer {
    /// The first and the last value of each range.
    pub rows: Vec<(i64, i64)>,
    /// Whether there are other rows, in which one of both is null.
    pub has_null: bool,
}

/// The answer of the query. The query leaves nothing in this process but session-level locks (see
/// [`release_locks`]) and connections that an extension keeps. From then on the session is the
/// owner's, so a process asks the sources of one owner only.
///
/// # Errors
/// `AnswerType` for rows of other columns. An error of the query itself is raised.
pub fn run(
    sequence: &Sequence,
    state: &SourceState,
    request: &Request,
) -> Result<Answer, HiloError> {
    let query = sequence.definition.source.as_deref().unwrap_or_default();
    let query = CString::new(query).map_err(|_| HiloError::AnswerType)?;
    // The owner's policies apply, as in a query of his own.
    let settings = [(c"row_security", c"on")];
    authorize_session(sequence.owner);
    let answer = with_rights_of(sequence.owner, || {
        with_settings(&settings, || answer(&query, sequence, state, request))
    });
    // Types and functions may be temporary, too, and can be made there. An error rolls them back.
    // SAFETY: inside a transaction.
    unsafe { pg_sys::ResetTempTableNamespace() };
    answer
}

/// Has a sequence take a new name for its requests, and write off what it holds. See
/// `hilo_take_new_name` in `sql/define/source.rs`.
///
/// Raises what that raises, and `SourceChanged` if the request is no longer the open one.
pub fn take_new_name(sequence: &Sequence, request: &Request) {
    let call = c"SELECT _hilo.hilo_take_new_name($1, $2)";
    let mut types = [pg_sys::INT8OID, pg_sys::UUIDOID];
    let mut values = [sequence.id.0.into(), uuid_datum(&request.id)];
    with_rights_of(sequence.owner, || {
        // SAFETY: as in `answer`. The types are those that the function was declared with.
        unsafe {
            pg_sys::SPI_connect();
            let (types, values) = (types.as_mut_ptr(), values.as_mut_ptr());
            let nulls = c"  ".as_ptr();
            pg_sys::SPI_execute_with_args(call.as_ptr(), 2, types, values, nulls, false, 0);
            pg_sys::SPI_finish();
        }
    });
}

/// Releases the session-level locks that a query has taken, also one that has failed.
pub fn release_locks() {
    // SAFETY: it may be called at any time, and hilo takes no advisory lock for the session.
    unsafe { pg_sys::LockReleaseSession(pg_sys::USER_LOCKMETHOD as pg_sys::LOCKMETHODID) };
}

fn answer(
    query: &CString,
    sequence: &Sequence,
    state: &SourceState,
    request: &Request,
) -> Result<Answer, HiloError> {
    memory::check()?;
    let furthest = state.furthest(sequence.definition.increment > 0);
    // The last two are for branches (sql/branches.sql).
    let mut types = [
        pg_sys::TEXTOID,
        pg_sys::INT8OID,
        pg_sys::UUIDOID,
        pg_sys::INT8OID,
        pg_sys::UUIDOID,
        pg_sys::UUIDOID,
    ];
    let mut values = [
        text_datum(&sequence.name),
        request.wanted.into(),
        uuid_datum(&request.id),
        furthest.unwrap_or_default().into(),
        uuid_datum(&state.known_as(request)),
        uuid_datum(&state.answered.unwrap_or_default()),
    ];
    let nulls = if furthest.is_some() { c"      " } else { c"   n  " };
    // SAFETY: connect and finish are a pair, and after an error the transaction's end cleans up.
    // The result is read before the end of the pair frees it.
    unsafe {
        pg_sys::SPI_connect();
        let (types, values) = (types.as_mut_ptr(), values.as_mut_ptr());
        let nulls = nulls.as_ptr();
        pg_sys::SPI_execute_with_args(query.as_ptr(), 6, types, values, nulls, false, 0);
        let answer = read_result();
        pg_sys::SPI_finish();
        answer
    }
}

/// Reads the result of the last statement.
///
/// # Safety
/// SPI must be connected, and have run a query.
unsafe fn read_result() -> Result<Answer, HiloError> {
    let mut answer = Answer { rows: Vec::new(), has_null: false };
    // SAFETY: the caller guarantees that the result is that of its query. Both columns are bigint,
    // as is checked before they are read.
    unsafe {
        let table = pg_sys::SPI_tuptable.as_ref().ok_or(HiloError::AnswerType)?;
        let columns = table.tupdesc;
        let is_int8 = |column| pg_sys::SPI_gettypeid(columns, column) == pg_sys::INT8OID;
        if (*columns).natts != 2 || !is_int8(1) || !is_int8(2) {
            return Err(HiloError::AnswerType);
        }
        for at in 0..pg_sys::SPI_processed as usize {
            let value = |column| {
                let mut null = false;
                let tuple = *table.vals.add(at);
                let datum = pg_sys::SPI_getbinval(tuple, columns, column, &mut null);
                (!null).then_some(datum.value() as i64)
            };
            match value(1).zip(value(2)) {
                Some(row) => answer.rows.try_push(row)?,
                None => answer.has_null = true,
            }
        }
    }
    Ok(answer)
}
