//! The functions that serve values: nextval and its relatives.

use pgrx::pg_sys;

use crate::catalog::name::escape_for_message;
use crate::catalog::privileges::Privileges;
use crate::catalog::table::split;
use crate::catalog::{definitions, missing, privileges};
use crate::errors::{HiloError, OrRaise, check_argument};
use crate::process::ffi;
use crate::process::memory;
use crate::session::memo::{self, Memo};
use crate::session::{draw, range, refuse_parallel_worker};
use crate::sql::call::args::{Args, sql_functions};
use crate::sql::call::raw_function::raw_functions;

sql_functions!(hilo_nextrange, hilo_currval, hilo_lastval, hilo_next_hi);

raw_functions!(hilo_nextval_wrapper, hilo_nextvals_wrapper);

/// The memo of the name in the first argument, if this session has one. It is the memo that this
/// call site used last, if it has this name, or else the one that the name finds.
#[inline(always)]
pub fn known_memo(args: Args) -> Option<&'static Memo> {
    let name = args.plain_name(0)?;
    // SAFETY: what this call site remembers is null or a memo, which is never freed.
    if let Some(memo) = unsafe { args.extra::<Memo>().as_ref() }
        && memo.is_of(name)
    {
        return Some(memo);
    }
    let memo = memo::find(name)?;
    args.set_extra(memo);
    Some(memo)
}

/// `hilo_nextval(name)`: the next value. A hit compares the name with the one that this call site
/// used last, checks that its memo is still valid, and adds the increment.
///
/// A hit runs outside pgrx's guard, which costs more than the hit itself. That is sound because a
/// hit calls nothing that can panic or raise an error, except through a guard of its own. Nothing
/// here has a destructor, so an error may jump across this frame.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn hilo_nextval_wrapper(
    fcinfo: pg_sys::FunctionCallInfo,
) -> pg_sys::Datum {
    // SAFETY: Postgres calls the function with the arguments that it was declared to take.
    let args = unsafe { Args::new(fcinfo) };
    if let Some(value) = known_memo(args).and_then(draw::hit) {
        return value.into();
    }
    // SAFETY: as above; the call is handed on as it came.
    unsafe { nextval(fcinfo) }
}

/// The path of a call that is no hit.
#[pgrx::pg_guard]
#[cold]
unsafe extern "C-unwind" fn nextval(fcinfo: pg_sys::FunctionCallInfo) -> pg_sys::Datum {
    // SAFETY: the caller hands on the call as it came from Postgres.
    let args = unsafe { Args::new(fcinfo) };
    memory::check().or_raise();
    let (memo, value) = draw::next(args.name(0)).or_raise();
    args.set_extra(memo);
    value.into()
}

/// The state of `hilo_nextvals` between its rows.
#[derive(Clone, Copy)]
struct Series {
    name: &'static [u8],
    memo: Option<&'static Memo>,
    left: i64,
}

/// `hilo_nextvals(name, n)`: the next n values, one row each. `_hilo.hilo_nextvals` of older
/// versions passes an integer, which arrives like a bigint. Values that a LIMIT does not read stay
/// in the session's slice. A hit runs outside pgrx's guard, as that of `hilo_nextval` does.
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
/// `fcinfo` must be a call of the function above.
#[inline(always)]
unsafe fn hit_of_series(fcinfo: pg_sys::FunctionCallInfo) -> Option<pg_sys::Datum> {
    // SAFETY: what the call site remembers is null or the context of the series; its `user_fctx` is
    // null until the series is complete.
    unsafe {
        let args = Args::new(fcinfo);
        let context = args.extra::<pg_sys::FuncCallContext>().as_ref()?;
        let series =
            (context.user_fctx as *mut Series).as_mut().filter(|series| series.left > 0)?;
        let value = series.memo.and_then(draw::hit)?;
        series.left -= 1;
        let info = (*fcinfo).resultinfo as *mut pg_sys::ReturnSetInfo;
        (*info).isDone = pg_sys::ExprDoneCond::ExprMultipleResult;
        Some(value.into())
    }
}

/// The path of a call that is no hit.
#[pgrx::pg_guard]
#[cold]
unsafe extern "C-unwind" fn nextvals(fcinfo: pg_sys::FunctionCallInfo) -> pg_sys::Datum {
    // SAFETY: the caller hands on the call of a set-returning function as it came from Postgres.
    // `begin_series` makes the series before it is used, in memory that the calls share.
    unsafe {
        let args = Args::new(fcinfo);
        memory::check().or_raise();
        let context = if args.extra::<u8>().is_null() {
            begin_series(args)
        } else {
            pg_sys::per_MultiFuncCall(fcinfo)
        };
        let series = &mut *((*context).user_fctx as *mut Series);
        let info = (*fcinfo).resultinfo as *mut pg_sys::ReturnSetInfo;
        if series.left == 0 {
            pg_sys::end_MultiFuncCall(fcinfo, context);
            (*info).isDone = pg_sys::ExprDoneCond::ExprEndResult;
            (*fcinfo).isnull = true;
            return pg_sys::Datum::null();
        }
        (*info).isDone = pg_sys::ExprDoneCond::ExprMultipleResult;
        let (memo, value) = draw::next_of_many(series.name, series.left).or_raise();
        series.memo = Some(memo);
        series.left -= 1;
        value.into()
    }
}

unsafe fn begin_series(args: Args) -> *mut pg_sys::FuncCallContext {
    let count = args.int8(1).unwrap_or(0);
    let message = || format!("number of values must not be negative: {count}");
    check_argument(count >= 0, message, "Ask for 0 or more values.");
    // SAFETY: this is the first call of a set-returning function. The copies of the name and of the
    // series live in the memory context that the calls share, so they outlive each call.
    unsafe {
        let context = pg_sys::init_MultiFuncCall(args.raw());
        let shared = (*context).multi_call_memory_ctx;
        let name = args.name(0);
        let copy = pg_sys::MemoryContextAlloc(shared, name.len().max(1)) as *mut u8;
        std::ptr::copy_nonoverlapping(name.as_ptr(), copy, name.len());
        let series = pg_sys::MemoryContextAlloc(shared, size_of::<Series>()) as *mut Series;
        series.write(Series {
            name: std::slice::from_raw_parts(copy, name.len()),
            memo: None,
            left: count,
        });
        (*context).user_fctx = series.cast();
        pg_sys::per_MultiFuncCall(args.raw())
    }
}

/// `hilo_nextrange(name, n)`: n evenly spaced values in one piece.
fn hilo_nextrange(args: Args) -> pg_sys::Datum {
    let count = args.int8(1).unwrap_or(0);
    let message = || format!("size of a range must be positive: {count}");
    check_argument(count >= 1, message, "Ask for 1 or more values.");
    let (run, increment) = range::next_range(args.name(0), count).or_raise();
    let values = [run.first, run.last(increment), increment, run.count];
    // SAFETY: the function is declared to return a record of four bigints.
    unsafe { record(args.raw(), &values.map(|value| Some(value.into()))) }
}

/// A row of the function's declared result type.
///
/// # Safety
/// `values` must be of the types of its columns, in their order.
pub unsafe fn record(
    fcinfo: pg_sys::FunctionCallInfo,
    values: &[Option<pg_sys::Datum>],
) -> pg_sys::Datum {
    let mut desc = std::ptr::null_mut();
    let (mut datums, mut nulls) = split(values);
    // SAFETY: the caller guarantees that there is a value for each column, of its type; both arrays
    // have an element for each.
    unsafe {
        pg_sys::get_call_result_type(fcinfo, std::ptr::null_mut(), &mut desc);
        let desc = pg_sys::BlessTupleDesc(desc);
        let tuple = pg_sys::heap_form_tuple(desc, datums.as_mut_ptr(), nulls.as_mut_ptr());
        pg_sys::HeapTupleHeaderGetDatum((*tuple).t_data)
    }
}

/// `hilo_currval(name)`: the value that this session last got from the sequence.
fn hilo_currval(args: Args) -> i64 {
    let name = args.name(0);
    let needs = Privileges::USAGE.or(Privileges::SELECT);
    let current = match memo::find(name) {
        Some(memo) if memo.is_good() && memo.allows(needs) => {
            memo.entry().and_then(|entry| entry.last.get())
        }
        _ => {
            refuse_parallel_worker("hilo_currval").or_raise();
            memo::last_of(find_allowed(name, needs).or_raise().id)
        }
    };
    current.ok_or_else(|| HiloError::NoCurrval(escape_for_message(name))).or_raise()
}

/// `hilo_lastval()`: the value that this session last got from any sequence.
fn hilo_lastval(_args: Args) -> i64 {
    refuse_parallel_worker("hilo_lastval").or_raise();
    let (_, entry) = memo::last_use().ok_or(HiloError::NoLastval).or_raise();
    let sequence = definitions::by_id(entry.id).or_raise().ok_or(HiloError::NoLastval).or_raise();
    allow(&sequence, Privileges::USAGE.or(Privileges::SELECT)).or_raise();
    entry.last.get().ok_or(HiloError::NoLastval).or_raise()
}

/// The sequence of this name, on which the current user has one of `needs`.
pub fn find_allowed(name: &[u8], needs: Privileges) -> Result<definitions::Sequence, HiloError> {
    let sequence = missing::require(name)?;
    allow(&sequence, needs)?;
    Ok(sequence)
}

/// Checks that the current user has one of `needs`.
pub fn allow(sequence: &definitions::Sequence, needs: Privileges) -> Result<(), HiloError> {
    let held = privileges::of(sequence, ffi::current_user())?;
    if held.any_of(needs) {
        return Ok(());
    }
    Err(privileges::denial(&sequence.name, needs, held))
}

/// `hilo_next_hi(name)`: the next block number of classic Hi/Lo.
fn hilo_next_hi(args: Args) -> i64 {
    range::next_block(args.name(0)).or_raise()
}
