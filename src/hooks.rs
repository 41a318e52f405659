//! Core's hooks: for statements and catalog changes that concern our sequences as they concern
//! core's own.
//!
//! After DISCARD SEQUENCES and DISCARD ALL, currval and lastval are undefined. The slices stay: the
//! reset query of a connection pooler discards no number. CREATE and ALTER EXTENSION to a version
//! that the library does not know are refused before the script runs. To its own version they warn
//! if the server has not preloaded the library.
//!
//! * DROP OWNED, REASSIGN OWNED and DROP ROLE: `sql/define/owners.rs`.
//! * GRANT on our functions: `sql/define/function_grants.rs`.
//! * Tables, columns and other extensions that own a sequence: `sql/column/owned_by_statements.rs`.
//! * DROP EXTENSION of hilo: `session/invalidation.rs`.
//! * COPY FROM: `sql/draw/copy_defaults.rs`. The planner: `sql/draw/memoize.rs`.

use std::cell::Cell;
use std::ffi::{CStr, c_char, c_void};

use pgrx::pg_sys::ffi::pg_guard_ffi_boundary;
use pgrx::pg_sys::{self, RenameStmt};
use pgrx::prelude::*;

use crate::backend::Global;
use crate::catalog::rows::catalog_tables::{self, INTERNALS};
use crate::catalog::rows::version;
use crate::errors::{HiloError, OrRaise};
use crate::process::subtransaction;
use crate::session::{dropped, exit, invalidation, names};
use crate::shared;
use crate::sql::column::generated_always;
use crate::sql::column::owned_by_statements as owned;
use crate::sql::define::{function_grants, owners};
use crate::sql::draw::{copy_defaults, memoize};

static PREV_UTILITY: Global<Cell<pg_sys::ProcessUtility_hook_type>> = Global::new(Cell::new(None));
static PREV_ANALYZE: Global<Cell<pg_sys::post_parse_analyze_hook_type>> =
    Global::new(Cell::new(None));
static PREV_ACCESS: Global<Cell<pg_sys::object_access_hook_type>> = Global::new(Cell::new(None));
static PREV_PATHS: Global<Cell<pg_sys::set_rel_pathlist_hook_type>> = Global::new(Cell::new(None));

/// Sets the hooks. Called once, from `_PG_init`. A server of pg_upgrade has none: it restores our
/// catalog piece by piece, and that catalog already has the effects of statements on our sequences.
pub fn init() {
    // SAFETY: a static that is set when the server starts.
    if unsafe { pg_sys::IsBinaryUpgrade } {
        return;
    }
    exit::init();
    // SAFETY: this runs once, when the library is loaded, on the process's one thread.
    unsafe {
        PREV_UTILITY.set(pg_sys::ProcessUtility_hook);
        pg_sys::ProcessUtility_hook = Some(process_utility);
        PREV_ANALYZE.set(pg_sys::post_parse_analyze_hook);
        pg_sys::post_parse_analyze_hook = Some(after_analysis);
        PREV_ACCESS.set(pg_sys::object_access_hook);
        pg_sys::object_access_hook = Some(object_access);
        PREV_PATHS.set(pg_sys::set_rel_pathlist_hook);
        pg_sys::set_rel_pathlist_hook = Some(paths);
        // Plans that a session made earlier do not know the hooks.
        pg_sys::ResetPlanCache();
    }
}

mod raw {
    use super::*;
    // SAFETY: the declaration is that of core's utility.h.
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

/// All hooks call those that others have set under pgrx's guard, which raises an error again as it
/// was (`errors_of_others_arrive_whole`, in `pgrx-tests/tests/sql/edges.rs`).
#[allow(clippy::too_many_arguments)]
#[pg_guard]
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
    // SAFETY: a utility statement has a node. The hook before ours, or core's own function, gets
    // the same arguments and does the work. It may free the statement, so the node is read first.
    unsafe {
        let node = (*statement).utilityStmt;
        copy_defaults::begins(node);
        let renames =
            (*node).type_ == pg_sys::NodeTag::T_RenameStmt && renames_internals(node.cast());
        let discards = (*node).type_ == pg_sys::NodeTag::T_DiscardStmt
            && matches!(
                (*(node as *mut pg_sys::DiscardStmt)).target,
                DISCARD_ALL | DISCARD_SEQUENCES
            );
        let (copied, keep) = (owned::before(node), owned::keeps_dependents(node));
        let mark = owned::mark();
        let statement = match function_grants::concerns(node) {
            true => function_grants::in_this_version(statement),
            false => statement,
        };
        let next = PREV_UTILITY.get().unwrap_or(raw::standard_ProcessUtility);
        pg_guard_ffi_boundary(|| {
            next(
                statement,
                query,
                read_only_tree,
                context,
                params,
                environment,
                destination,
                completion,
            )
        });
        // Core has refused whoever may not rename the schema.
        if renames {
            HiloError::InternalsRenamed.raise();
        }
        owned::after_drop(mark, keep);
        if !copied.is_null() {
            owned::after(copied, keep);
        }
        if discards {
            names::forget_last();
        }
    }
}

/// Whether a statement renames schema `_hilo`, by whose name everything of the extension is found.
///
/// # Safety
/// The statement must be complete.
unsafe fn renames_internals(statement: *const RenameStmt) -> bool {
    // SAFETY: the caller guarantees that the statement is complete; the name of a schema is null
    // or a C string.
    let of_ours = unsafe {
        let RenameStmt { renameType: kind, subname: name, .. } = *statement;
        kind == pg_sys::ObjectType::OBJECT_SCHEMA
            && !name.is_null()
            && CStr::from_ptr(name) == INTERNALS
    };
    of_ours && !matches!(catalog_tables::is_installed(), Ok(false))
}

#[cfg(any(feature = "pg15", feature = "pg16", feature = "pg17", feature = "pg18"))]
type Jumble = *mut pg_sys::JumbleState;
#[cfg(not(any(feature = "pg15", feature = "pg16", feature = "pg17", feature = "pg18")))]
type Jumble = *const pg_sys::JumbleState;

/// Runs for every statement that has been analyzed.
#[pg_guard]
unsafe extern "C-unwind" fn after_analysis(
    state: *mut pg_sys::ParseState,
    query: *mut pg_sys::Query,
    jumble: Jumble,
) {
    // SAFETY: this is the hook that was set before ours, called with the same arguments. The query
    // is one that the parser has made.
    unsafe {
        if let Some(prev) = PREV_ANALYZE.get() {
            pg_guard_ffi_boundary(|| prev(state, query, jumble));
        }
        if generated_always::concerns(query) {
            generated_always::check(query);
        }
    }
}

/// Runs for each item of FROM that is planned, when the ways to scan it are known.
#[pg_guard]
unsafe extern "C-unwind" fn paths(
    root: *mut pg_sys::PlannerInfo,
    relation: *mut pg_sys::RelOptInfo,
    index: pg_sys::Index,
    entry: *mut pg_sys::RangeTblEntry,
) {
    // SAFETY: this is the hook that was set before ours, called with the same arguments.
    unsafe {
        if let Some(prev) = PREV_PATHS.get() {
            pg_guard_ffi_boundary(|| prev(root, relation, index, entry));
        }
        if memoize::concerns(relation) {
            memoize::keep_out(root, relation, entry);
        }
    }
}

/// Runs for each object that is made, changed or dropped, and also for each function that is run
/// and each schema that is searched.
#[pg_guard]
unsafe extern "C-unwind" fn object_access(
    access: pg_sys::ObjectAccessType::Type,
    class: pg_sys::Oid,
    object: pg_sys::Oid,
    part: std::ffi::c_int,
    arg: *mut c_void,
) {
    use pg_sys::ObjectAccessType::{OAT_DROP, OAT_POST_ALTER, OAT_POST_CREATE};
    // SAFETY: this is the hook that was set before ours, called with the same arguments.
    unsafe {
        if let Some(prev) = PREV_ACCESS.get() {
            pg_guard_ffi_boundary(|| prev(access, class, object, part, arg));
        }
        match access {
            OAT_DROP => on_drop(class, object, part),
            OAT_POST_CREATE | OAT_POST_ALTER
                if class == pg_sys::ExtensionRelationId && part == 0 =>
            {
                note_extension_change(object)
            }
            _ => {}
        }
    }
}

fn on_drop(class: pg_sys::Oid, object: pg_sys::Oid, part: std::ffi::c_int) {
    let done = match class {
        pg_sys::AuthIdRelationId => owners::on_drop_role(object),
        pg_sys::RelationRelationId => owned::on_drop(object, part),
        pg_sys::DatabaseRelationId => {
            // A session that cannot use the shared memory may drop a database all the same, like a
            // session that has not loaded hilo.
            let note = || {
                dropped::note(object);
                Ok(())
            };
            let _ = subtransaction::run(|_| true, note);
            Ok(())
        }
        pg_sys::ExtensionRelationId if is_hilo(object) && shared::get().is_ok() => {
            invalidation::note_extension_drop(object)
        }
        pg_sys::ExtensionRelationId => owned::on_drop_extension(object),
        _ => Ok(()),
    };
    done.or_raise();
}

fn note_extension_change(extension: pg_sys::Oid) {
    if version::on_change(extension).or_raise() {
        invalidation::extension_appears();
    }
}

/// Whether this is our extension. Its tables are dropped before it, so only its name identifies it.
fn is_hilo(extension: pg_sys::Oid) -> bool {
    // SAFETY: the catalog look-up runs inside a transaction.
    extension == unsafe { pg_sys::get_extension_oid(c"hilo".as_ptr(), true) }
}
