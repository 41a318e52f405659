//! Memoize, a plan that keeps what a LATERAL item of FROM returned and returns it again to later rows with the same
//! parameters.
//!
//! Core does not use it where the columns or the conditions of an item call a volatile function, but it does where the
//! item is one: `FROM orders o, hilo_nextvals('lines', o.n)` would give several orders the same values. Core's own
//! `nextval` in a LATERAL subquery is no exception. So the planner is told, of each such item, what core leaves out: that
//! what it returns is volatile. A function of the user's that calls one of hilo's looks like any other, so this
//! counts for all volatile functions, in databases that have hilo.
//!
//! A session may have to load the library for a statement. It does so in time: the planner asks the support function of
//! each of hilo's functions that it meets (`copy_defaults.rs`) before it looks for paths.

use pgrx::pg_sys;

use crate::catalog::catalog_oids;

/// Whether there is anything in an item of FROM for [`keep_out`]: few are LATERAL.
///
/// # Safety
/// `relation` must be a relation that is being planned.
pub unsafe fn concerns(relation: *const pg_sys::RelOptInfo) -> bool {
    // SAFETY: a relation has a target.
    unsafe { !(*relation).lateral_relids.is_null() }
}

/// Keeps Memoize from an item of FROM that calls a volatile function.
///
/// # Safety
/// `relation` must be a relation that is being planned, and `entry` its entry in the range table.
#[pgrx::pg_guard]
pub unsafe extern "C-unwind" fn keep_out(
    relation: *mut pg_sys::RelOptInfo,
    entry: *const pg_sys::RangeTblEntry,
) {
    // SAFETY: a relation has a target. Where Memoize looks whether it is volatile, core believes what is noted there, and
    // nobody else asks that of the target of an item of FROM.
    unsafe {
        if is_volatile(&*entry) && catalog_oids().is_ok() {
            (*(*relation).reltarget).has_volatile_expr =
                pg_sys::VolatileFunctionStatus::VOLATILITY_VOLATILE;
        }
    }
}

/// Whether an item calls a volatile function, or may: a subquery in an argument has been planned, and is not looked into.
unsafe fn is_volatile(entry: &pg_sys::RangeTblEntry) -> bool {
    let parts: [*mut pg_sys::Node; 3] =
        [entry.functions.cast(), entry.values_lists.cast(), entry.tablefunc.cast()];
    let subquery: *mut pg_sys::Node = entry.subquery.cast();
    // SAFETY: both functions take any expression, list of expressions, or query, and null.
    unsafe {
        pg_sys::contain_volatile_functions(subquery)
            || parts.into_iter().any(|part| {
                pg_sys::contain_volatile_functions(part) || pg_sys::contain_subplans(part)
            })
    }
}
