//! Core's statements that concern our sequences as they do its own.
//!
//! DISCARD SEQUENCES and DISCARD ALL: currval and lastval are undefined after. The slices stay: a pooler's
//! reset query throws no number away. DROP OWNED and REASSIGN OWNED: see `sql/owners.rs`.

use std::ffi::c_char;

use pgrx::pg_sys;
use pgrx::prelude::*;

use super::memo;
use crate::sql::owners;

static mut PREV: pg_sys::ProcessUtility_hook_type = None;

/// Sets the hook. To be called once, from `_PG_init`.
pub fn init() {
    // SAFETY: one thread, when the library is loaded.
    unsafe {
        PREV = pg_sys::ProcessUtility_hook;
        pg_sys::ProcessUtility_hook = Some(process_utility);
    }
}

mod raw {
    use super::*;
    // SAFETY: as utility.h declares it.
    unsafe extern "C-unwind" {
        pub fn standard_ProcessUtility(
            statement: *mut pg_sys::PlannedStmt,
            query: *const c_char,
            read_only_tree: bool,
            context: pg_sys::ProcessUtilityContext::Type,
            params: pg_sys::ParamListInfo,
            environment: *mut pg_sys::QueryEnvironment,
            destination: *mut pg_sys::DestReceiver,
            completion: *mut pg_sys::QueryCompletion,
        );
    }
}

/// Without pgrx's guard, here and around what it calls: a guard raises each error of every utility
/// statement on the server again, and loses its constraint's name, its position and its context. An error
/// may therefore jump over this frame: nothing in it is ever dropped.
#[allow(clippy::too_many_arguments)]
unsafe extern "C-unwind" fn process_utility(
    statement: *mut pg_sys::PlannedStmt,
    query: *const c_char,
    read_only_tree: bool,
    context: pg_sys::ProcessUtilityContext::Type,
    params: pg_sys::ParamListInfo,
    environment: *mut pg_sys::QueryEnvironment,
    destination: *mut pg_sys::DestReceiver,
    completion: *mut pg_sys::QueryCompletion,
) {
    use pg_sys::DiscardMode::{DISCARD_ALL, DISCARD_SEQUENCES};
    // SAFETY: a utility statement has a node; the hook before ours, or core's own, does the work. It
    // may free the statement, so that is looked at first.
    unsafe {
        let node = (*statement).utilityStmt;
        let belongings = match (*node).type_ {
            pg_sys::NodeTag::T_DropOwnedStmt | pg_sys::NodeTag::T_ReassignOwnedStmt => {
                owners::before(node)
            }
            _ => std::ptr::null_mut(),
        };
        let discards = (*node).type_ == pg_sys::NodeTag::T_DiscardStmt
            && matches!(
                (*(node as *mut pg_sys::DiscardStmt)).target,
                DISCARD_ALL | DISCARD_SEQUENCES
            );
        let next = PREV.unwrap_or(raw::standard_ProcessUtility);
        next(
            statement,
            query,
            read_only_tree,
            context,
            params,
            environment,
            destination,
            completion,
        );
        if discards {
            forget();
        }
        if !belongings.is_null() {
            owners::after(belongings);
        }
    }
}

#[pg_guard]
unsafe extern "C-unwind" fn forget() {
    memo::forget_last();
}
