//! Keeps plans from returning drawn values twice. Memoize is a node of a plan that keeps what a
//! LATERAL item of FROM returned. Later rows with the same parameters get it again.
//!
//! Core does not use it where the columns or the conditions of an item call a volatile function.
//! But it does where the item is one: `FROM orders o, hilo_nextvals('lines', o.n)` would give
//! several orders the same values. Core's own `nextval` in a LATERAL subquery is no exception. So
//! the planner is told, of each item that calls hilo's functions, what core leaves out: that what
//! it returns is volatile. All other items are planned as if hilo were not there. So is a function
//! of the user's that calls hilo's inside. Core keeps what it returns, as if it called `nextval`.
//!
//! A session may have to load the library for a statement. It does so in time: the planner asks the
//! support function of each of hilo's functions that it meets (`copy_defaults.rs`) before it looks
//! for paths.

use std::ffi::c_void;

use pgrx::prelude::*;

use crate::catalog::rows::catalog_tables::catalog_oids;

/// Whether [`keep_out`] has to look at an item of FROM: few are LATERAL.
///
/// # Safety
/// `relation` must be a relation that is being planned.
pub unsafe fn concerns(relation: *const pg_sys::RelOptInfo) -> bool {
    // SAFETY: a relation has a target.
    unsafe { !(*relation).lateral_relids.is_null() }
}

/// Keeps Memoize from an item of FROM that calls one of hilo's functions that give out values.
///
/// # Safety
/// `relation` must be a relation that `root` plans, and `entry` its entry in the range table.
pub unsafe fn keep_out(
    root: *mut pg_sys::PlannerInfo,
    relation: *mut pg_sys::RelOptInfo,
    entry: *mut pg_sys::RangeTblEntry,
) {
    // SAFETY: a relation has a target. Where Memoize looks whether it is volatile, core believes
    // what is noted there. Nobody else asks that of the target of an item of FROM. The walk ends
    // before this function does.
    unsafe {
        if catalog_oids().is_ok()
            && pg_sys::range_table_entry_walker(entry, Some(calls_hilo), root.cast(), 0)
        {
            (*(*relation).reltarget).has_volatile_expr =
                pg_sys::VolatileFunctionStatus::VOLATILITY_VOLATILE;
        }
    }
}

/// A callback of core's tree walkers, which pass the planner's state as `root`. A subquery in an
/// argument has been planned: the query is where its plan is.
#[pg_guard]
unsafe extern "C-unwind" fn calls_hilo(node: *mut pg_sys::Node, root: *mut c_void) -> bool {
    if node.is_null() {
        return false;
    }
    // SAFETY: the tag of a node tells its type. The plans of a statement are counted from 1, and
    // each has its query.
    unsafe {
        if (*node).type_ == pg_sys::NodeTag::T_Query {
            return pg_sys::query_tree_walker(node.cast(), Some(calls_hilo), root, 0);
        }
        if (*node).type_ == pg_sys::NodeTag::T_SubPlan {
            let number = (*node.cast::<pg_sys::SubPlan>()).plan_id;
            let plans = (*(*root.cast::<pg_sys::PlannerInfo>()).glob).subroots;
            let planned: *mut pg_sys::PlannerInfo = pg_sys::list_nth(plans, number - 1).cast();
            if calls_hilo((*planned).parse.cast(), root) {
                return true;
            }
        }
        pg_sys::check_functions_in_node(node, Some(gives_out), std::ptr::null_mut())
            || pg_sys::expression_tree_walker(node, Some(calls_hilo), root)
    }
}

/// Whether a function is hilo's, and volatile.
#[pg_guard]
unsafe extern "C-unwind" fn gives_out(function: pg_sys::Oid, _context: *mut c_void) -> bool {
    // SAFETY: both look up catalogs, inside a transaction.
    unsafe {
        pg_sys::func_volatile(function) as u8 == pg_sys::PROVOLATILE_VOLATILE
            && catalog_oids().is_ok_and(|ids| {
                pg_sys::getExtensionOfObject(pg_sys::ProcedureRelationId, function) == ids.extension
            })
    }
}
