//! The functions that serve values: nextval and its relatives.

use pgrx::pg_sys;
use pgrx::pg_sys::panic::ErrorReport;
use pgrx::prelude::*;

use crate::catalog::rights::privileges::Privileges;
use crate::catalog::rights::{missing, privileges};
use crate::catalog::rows::name::escape_for_message;
use crate::catalog::sequence::definitions;
use crate::errors::{HiloError, OrRaise, check_argument};
use crate::process::memory;
use crate::session::names::{self, CachedName};
use crate::session::{draw, range, refuse_parallel_worker};
use crate::sql::call::border::Call;
use crate::sql::call::raw_function::raw_functions;
use crate::sql::call::stored_rows::{Record, row};
use crate::sql::types::sequence_type::SequenceName;

raw_functions!(hilo_nextval_wrapper, hilo_nextvals_wrapper);

/// The cached name that the first argument has, if this session has one. It is the one that this
/// call site used last, if it has this name, or else the one that the name finds.
///
/// # Safety
/// The call must have a first argument, which is a hilo_sequence and not NULL.
#[inline(always)]
pub unsafe fn known_name(call: Call) -> Option<&'static CachedName> {
    // SAFETY: the caller guarantees that the argument is a hilo_sequence. The memory of this call
    // site is null or a cached name, which is never freed.
    let (name, cached) =
        unsafe { (SequenceName::plain(call.argument(0))?, call.extra::<CachedName>().as_ref()) };
    if let Some(cached) = cached
        && cached.is_of(name)
    {
        return Some(cached);
    }
    let cached = names::find(name)?;
    call.set_extra(cached);
    Some(cached)
}

/// `hilo_nextval(name)`: the next value. A hit compares the name with the one that this call site
/// used last, checks that it is still valid, and adds the increment.
///
/// A hit runs outside pgrx's guard, which costs more than the hit itself. That is sound because a
/// hit calls nothing that can panic or raise an error, except through a guard of its own. Nothing
/// here has a destructor, so an error may jump across this frame.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn hilo_nextval_wrapper(
    fcinfo: pg_sys::FunctionCallInfo,
) -> pg_sys::Datum {
    // SAFETY: Postgres calls the function with the argument that it was declared to take, and not
    // with NULL, because it is strict. The call is handed on as it came.
    unsafe {
        if let Some(value) = known_name(Call::unchecked(fcinfo)).and_then(draw::hit) {
            return value.into();
        }
        nextval(fcinfo)
    }
}

/// Handles a call that is no hit.
#[pgrx::pg_guard]
#[cold]
unsafe extern "C-unwind" fn nextval(fcinfo: pg_sys::FunctionCallInfo) -> pg_sys::Datum {
    let draw = || {
        // SAFETY: the caller hands on the call as it came from Postgres.
        let (call, name) = unsafe { begin_with_name(fcinfo) }?;
        let (cached, value) = draw::next(&name)?;
        call.set_extra(cached);
        Ok::<_, HiloError>(value.into())
    };
    draw().or_raise()
}

/// Begins a call that is no hit, whose first argument is the name of a sequence.
///
/// # Safety
/// As for [`known_name`].
pub unsafe fn begin_with_name<'a>(
    fcinfo: pg_sys::FunctionCallInfo,
) -> Result<(Call, SequenceName<'a>), HiloError> {
    memory::check()?;
    // SAFETY: the caller guarantees what these need.
    unsafe {
        let call = Call::unchecked(fcinfo);
        Ok((call, SequenceName::from_datum(call.argument(0))))
    }
}

/// The state of `hilo_nextvals` between its rows.
#[derive(Clone, Copy)]
struct Series {
    name: &'static [u8],
    cached: Option<&'static CachedName>,
    left: i64,
}

/// `hilo_nextvals(name, n)`: the next n values, one row each. `_hilo.hilo_nextvals` of older
/// versions passes an integer, which arrives like a bigint. Values that a LIMIT does not read stay
/// in the session's slice. A hit runs outside pgrx's guard, as in `hilo_nextval`.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn hilo_nextvals_wrapper(
    fcinfo: pg_sys::FunctionCallInfo,
) -> pg_sys::Datum {
    // SAFETY: Postgres calls the function as a set-returning one, with the arguments that it was
    // declared to take.
    unsafe { hit_of_series(fcinfo).unwrap_or_else(|| nextvals(fcinfo)) }
}

/// The next row of a series, if its value is a hit.
///
/// # Safety
/// `fcinfo` must be a call of `hilo_nextvals`.
#[inline(always)]
unsafe fn hit_of_series(fcinfo: pg_sys::FunctionCallInfo) -> Option<pg_sys::Datum> {
    // SAFETY: what the call site remembers is null or the context of the series; its `user_fctx` is
    // null until the series is complete.
    unsafe {
        let call = Call::unchecked(fcinfo);
        let context = call.extra::<pg_sys::FuncCallContext>().as_ref()?;
        let series =
            (context.user_fctx as *mut Series).as_mut().filter(|series| series.left > 0)?;
        let value = series.cached.and_then(draw::hit)?;
        series.left -= 1;
        let info = (*fcinfo).resultinfo as *mut pg_sys::ReturnSetInfo;
        (*info).isDone = pg_sys::ExprDoneCond::ExprMultipleResult;
        Some(value.into())
    }
}

/// Handles a call that is no hit.
#[pgrx::pg_guard]
#[cold]
unsafe extern "C-unwind" fn nextvals(fcinfo: pg_sys::FunctionCallInfo) -> pg_sys::Datum {
    // SAFETY: the caller hands on the call as it came from Postgres.
    unsafe { next_of_series(fcinfo) }.or_raise()
}

/// # Safety
/// As for [`hit_of_series`].
unsafe fn next_of_series(fcinfo: pg_sys::FunctionCallInfo) -> Result<pg_sys::Datum, HiloError> {
    // SAFETY: the caller hands on the call of a set-returning function as it came from Postgres.
    // `begin_series` makes the series before it is used, in memory that the calls share.
    unsafe {
        let (call, name) = begin_with_name(fcinfo)?;
        let context = if call.extra::<u8>().is_null() {
            begin_series(call, name)?
        } else {
            pg_sys::per_MultiFuncCall(fcinfo)
        };
        let series = &mut *((*context).user_fctx as *mut Series);
        let info = (*fcinfo).resultinfo as *mut pg_sys::ReturnSetInfo;
        if series.left == 0 {
            pg_sys::end_MultiFuncCall(fcinfo, context);
            (*info).isDone = pg_sys::ExprDoneCond::ExprEndResult;
            (*fcinfo).isnull = true;
            return Ok(pg_sys::Datum::null());
        }
        (*info).isDone = pg_sys::ExprDoneCond::ExprMultipleResult;
        let (cached, value) = draw::next_of_many(series.name, series.left)?;
        series.cached = Some(cached);
        series.left -= 1;
        Ok(value.into())
    }
}

unsafe fn begin_series(
    call: Call,
    name: SequenceName,
) -> Result<*mut pg_sys::FuncCallContext, HiloError> {
    // SAFETY: the caller hands on a call with two arguments, of which this one is a bigint.
    let count = unsafe { call.argument(1) }.value() as i64;
    let message = || format!("number of values must not be negative: {count}");
    check_argument(count >= 0, message, "Ask for 0 or more values.")?;
    // SAFETY: this is the first call of a set-returning function. The copies of the name and of the
    // series live in the memory context that the calls share, so they outlive each call.
    unsafe {
        let context = pg_sys::init_MultiFuncCall(call.raw());
        let shared = (*context).multi_call_memory_ctx;
        let copy = pg_sys::MemoryContextAlloc(shared, name.len().max(1)) as *mut u8;
        std::ptr::copy_nonoverlapping(name.as_ptr(), copy, name.len());
        let series = pg_sys::MemoryContextAlloc(shared, size_of::<Series>()) as *mut Series;
        series.write(Series {
            name: std::slice::from_raw_parts(copy, name.len()),
            cached: None,
            left: count,
        });
        (*context).user_fctx = series.cast();
        Ok(pg_sys::per_MultiFuncCall(call.raw()))
    }
}

row! {
    struct NextRange {
        first: i64,
        last: i64,
        increment: i64,
        count: i64,
    }
}

/// `hilo_nextrange(name, n)`: n evenly spaced values as one range.
#[pg_extern(sql = false)]
fn hilo_nextrange(
    _call: Call,
    name: SequenceName,
    n: i64,
) -> Result<Record<NextRange>, ErrorReport> {
    let message = || format!("size of a range must be positive: {n}");
    check_argument(n >= 1, message, "Ask for 1 or more values.")?;
    let (run, increment) = range::next_range(&name, n)?;
    let (first, last, count) = (run.first, run.last(increment), run.count);
    Ok(Record(NextRange { first, last, increment, count }))
}

/// `hilo_currval(name)`: the value that this session last got from the sequence.
#[pg_extern(sql = false)]
fn hilo_currval(_call: Call, name: SequenceName) -> Result<i64, ErrorReport> {
    let needs = Privileges::USAGE.or(Privileges::SELECT);
    let current = match names::find(&name) {
        Some(cached) if cached.is_good() && cached.allows(needs) => {
            cached.entry().and_then(|entry| entry.last.get())
        }
        _ => {
            refuse_parallel_worker("hilo_currval")?;
            names::last_of(missing::require_allowed(&name, needs)?.id)
        }
    };
    Ok(current.ok_or_else(|| HiloError::NoCurrval(escape_for_message(&name)))?)
}

/// `hilo_lastval()`: the value that this session last got from any sequence.
#[pg_extern(sql = false)]
fn hilo_lastval(_call: Call) -> Result<i64, ErrorReport> {
    refuse_parallel_worker("hilo_lastval")?;
    let (_, entry) = names::last_use().ok_or(HiloError::NoLastval)?;
    let sequence = definitions::by_id(entry.id)?.ok_or(HiloError::NoLastval)?;
    privileges::allow(&sequence, Privileges::USAGE.or(Privileges::SELECT))?;
    Ok(entry.last.get().ok_or(HiloError::NoLastval)?)
}

/// `_hilo.hilo_may_see(name)`
#[pg_extern(sql = false)]
fn hilo_may_see(_call: Call, name: SequenceName) -> Result<bool, ErrorReport> {
    privileges::allow_to_see(&missing::require(&name)?)?;
    Ok(true)
}

/// `hilo_next_hi(name)`: the next block number of classic Hi/Lo.
#[pg_extern(sql = false)]
fn hilo_next_hi(_call: Call, name: SequenceName) -> Result<i64, ErrorReport> {
    Ok(range::next_block(&name)?)
}
