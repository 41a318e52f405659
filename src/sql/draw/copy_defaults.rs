//! COPY FROM into tables whose column defaults draw from hilo.
//!
//! Core's COPY inserts many rows at a time, unless a default is volatile: such a default might read
//! the table that is being loaded. Core knows that its own `nextval` does not, and looks for that
//! function alone (BeginCopyFrom). hilo's functions read no table of the user's either. So between
//! the planning of a default and core's look at it, their calls become calls of twins: the same C
//! functions, declared STABLE.
//!
//! A STABLE function may be evaluated once for many rows, as by ALTER TABLE … ADD COLUMN, so
//! nothing else may ever get a twin. SQL cannot call one, because it has an argument of type
//! `internal`, of which SQL has no values. A call is replaced only in an expression that belongs to
//! no query and is planned in the memory context that BeginCopyFrom makes for itself. COPY
//! evaluates for each row what is planned there, and drops it at the end. COPY TO plans a query in
//! a context of the same name: so the statement must be COPY FROM. BeginCopyFrom may call code that
//! plans other expressions, to keep or to run them: a domain's constraints, a function whose result
//! is constant. That code has contexts of its own. From PostgreSQL 19 on, BeginCopyFrom looks at a
//! domain's constraints itself, and the session keeps them with twins. Each value is checked all
//! the same, and no value that a check draws is stored.
//!
//! None of this has to be undone after an error. Where core's code is another than expected, the
//! call stays as it is, and COPY inserts row by row.

use std::cell::Cell;
use std::ffi::CStr;

use pgrx::pg_sys;

use crate::backend::Global;
use crate::catalog::rows::catalog_tables::catalog_oids;
use crate::catalog::rows::roles;
use crate::process::ffi;
use crate::sql::call::raw_function::{argument, raw_functions};
use crate::sql::column::generated_always::{self, is_of_extension};

raw_functions!(hilo_planner_support_wrapper);

/// The functions that have twins.
const FUNCTIONS: [&CStr; 3] = [c"hilo_nextval", generated_always::FUNCTION, c"hilo_nextkey"];

/// Whether the utility statement that began last is COPY FROM.
static LOADS: Global<Cell<bool>> = Global::new(Cell::new(false));

/// Called when a utility statement begins.
///
/// # Safety
/// `statement` must be its node.
#[inline]
pub unsafe fn begins(statement: *const pg_sys::Node) {
    // SAFETY: the tag of a node tells its type.
    LOADS.set(unsafe {
        (*statement).type_ == pg_sys::NodeTag::T_CopyStmt
            && (*statement.cast::<pg_sys::CopyStmt>()).is_from
    });
}

/// `_hilo.hilo_planner_support(internal)`: the planner calls it for each call of a function that
/// gives out values. This alone loads the library, for `memoize.rs`. Returns the call of the twin,
/// or null: the call stays as it is. Most calls end here, outside pgrx's guard.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn hilo_planner_support_wrapper(
    fcinfo: pg_sys::FunctionCallInfo,
) -> pg_sys::Datum {
    // SAFETY: the planner passes a node that says what it asks.
    unsafe {
        let request: *const pg_sys::Node = argument(fcinfo, 0).cast_mut_ptr();
        if (*request).type_ != pg_sys::NodeTag::T_SupportRequestSimplify {
            return pg_sys::Datum::null();
        }
        let request = &*request.cast::<pg_sys::SupportRequestSimplify>();
        if !request.root.is_null() || !plans_for_copy() {
            return pg_sys::Datum::null();
        }
        twin_of(&*request.fcall).into()
    }
}

/// Whether BeginCopyFrom is planning a default.
fn plans_for_copy() -> bool {
    // SAFETY: there is always a current memory context, and its name is a C string.
    LOADS.get() && unsafe { CStr::from_ptr((*pg_sys::CurrentMemoryContext).name) } == c"COPY"
}

/// The call of the twin with the same argument; null if there is none, or the role may not execute
/// both functions. A superuser can give any function our support function, so the call need not be
/// of one of ours.
#[pgrx::pg_guard]
unsafe extern "C-unwind" fn twin_of(call: &pg_sys::FuncExpr) -> *mut pg_sys::FuncExpr {
    let none = std::ptr::null_mut();
    if !is_of_extension(call.funcid, &FUNCTIONS) {
        return none;
    }
    // SAFETY: each of these functions takes one argument, the sequence. All that is made here
    // belongs to the COPY's memory context, as the expression does.
    unsafe {
        let sequence: *const pg_sys::Node = pg_sys::list_nth(call.args, 0).cast();
        let twin = twin(call.funcresulttype, pg_sys::exprType(sequence));
        if twin == pg_sys::InvalidOid || !may_execute(call.funcid) || !may_execute(twin) {
            return none;
        }
        let nothing = pg_sys::makeConst(
            pg_sys::INTERNALOID,
            -1,
            pg_sys::InvalidOid,
            size_of::<pg_sys::Datum>() as i32,
            pg_sys::Datum::null(),
            false,
            true,
        );
        pg_sys::makeFuncExpr(
            twin,
            call.funcresulttype,
            pg_sys::lappend(pg_sys::list_copy(call.args), nothing.cast()),
            call.funccollid,
            call.inputcollid,
            call.funcformat,
        )
    }
}

/// The twin of the function with this result and this argument; InvalidOid in a database whose
/// objects are of another version.
fn twin(result: pg_sys::Oid, argument: pg_sys::Oid) -> pg_sys::Oid {
    const OID: i16 = 1;
    let Ok(ids) = catalog_oids() else { return pg_sys::InvalidOid };
    let name = match result {
        pg_sys::TEXTOID => c"hilo_copy_nextkey",
        _ => c"hilo_copy_nextval",
    };
    let arguments = [argument, pg_sys::INTERNALOID];
    // SAFETY: a look-up in a system cache, inside a transaction; the keys are of the types of that
    // cache's columns.
    unsafe {
        pg_sys::GetSysCacheOid(
            pg_sys::SysCacheIdentifier::PROCNAMEARGSNSP as _,
            OID,
            name.as_ptr().into(),
            pg_sys::buildoidvector(arguments.as_ptr(), arguments.len() as i32).into(),
            ids.internals.into(),
            pg_sys::Datum::null(),
        )
    }
}

/// Whether the current role may execute a function.
fn may_execute(function: pg_sys::Oid) -> bool {
    roles::may_execute(ffi::current_user(), function)
}
