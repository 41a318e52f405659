//! C functions that take their arguments from Postgres unchanged, for types that pgrx does not
//! know. Nothing is converted or checked for null, because the SQL functions with arguments are
//! STRICT.

use pgrx::pg_sys;

/// Lets Postgres call these functions by name: it asks the library for the calling convention of
/// each.
macro_rules! raw_functions {
    ($($name:ident),+ $(,)?) => { $(
        const _: () = {
            #[unsafe(export_name = concat!("pg_finfo_", stringify!($name)))]
            extern "C" fn finfo() -> &'static pgrx::pg_sys::Pg_finfo_record {
                &pgrx::pg_sys::Pg_finfo_record { api_version: 1 }
            }
        };
    )+ };
}

pub(crate) use raw_functions;

/// The value of a call's `nth` argument.
///
/// # Safety
/// `fcinfo` must be a live call with more than `nth` arguments, that one not null.
pub unsafe fn argument(fcinfo: pg_sys::FunctionCallInfo, nth: usize) -> pg_sys::Datum {
    // SAFETY: the caller guarantees that the call has this argument. `args` is a C flexible array
    // that Postgres has allocated for all arguments of the call.
    unsafe { (*(*fcinfo).args.as_ptr().add(nth)).value }
}
