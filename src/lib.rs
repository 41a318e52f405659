//! hilo: Hi/Lo sequences inside PostgreSQL. `docs/architecture.md` gives an overview.

#![warn(clippy::cognitive_complexity, clippy::too_many_lines)]

use pgrx::prelude::*;

use errors::OrRaise;

mod advice;
mod backend;
mod catalog;
mod citus;
mod error_path;
mod errors;
mod gucs;
mod hooks;
mod process;
mod session;
mod shared;
mod sql;
mod worker;

pgrx::pg_module_magic!(name, version);

/// Runs once in the postmaster if the library is preloaded. Otherwise it runs in each backend that
/// loads the library: then there is no shared memory, and the functions say how to get it.
#[pg_guard]
pub extern "C-unwind" fn _PG_init() {
    // SAFETY: both are statics that the server has set before it loads a library.
    let preloaded =
        unsafe { pg_sys::process_shared_preload_libraries_in_progress && !pg_sys::IsBinaryUpgrade };
    error_path::init(error_path::Limits {
        longest: errors::LONGEST,
        is_short: process::memory::is_short,
    });
    process::memory::init();
    // Both may raise an error, so they come before the steps that must not be done twice.
    if catalog::rows::version::on_load().or_raise() {
        session::invalidation::extension_appears();
    }
    gucs::init(preloaded, sql::define::prefix::check); // the sizes below come from here
    if preloaded {
        shared::init();
    }
    hooks::init();
}
