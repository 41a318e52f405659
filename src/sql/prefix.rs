//! Whether a value of `hilo.server_prefix` goes with the sequences that are there, asked when it is set.
//!
//! Where it is read from the configuration file there is no transaction in which to look; then each
//! sequence that it does not go with refuses to make keys.

use std::ffi::{CStr, CString, c_char, c_void};

use pgrx::prelude::*;

use hilo_core::key_format::{KeyFormat, PrefixError};

use crate::catalog::definitions;

/// The check hook of the setting.
///
/// # Safety
/// As Postgres calls a check hook.
#[pg_guard]
pub unsafe extern "C-unwind" fn check(
    value: *mut *mut c_char,
    _extra: *mut *mut c_void,
    source: pg_sys::GucSource::Type,
) -> bool {
    // SAFETY: null or a C string that outlives the call.
    let prefix = unsafe {
        match (*value).is_null() {
            true => return true,
            false => CStr::from_ptr(*value).to_bytes(),
        }
    };
    let refusal = forbidden(prefix).or_else(|| {
        let wanted = !prefix.is_empty() && can_look(source);
        wanted.then(|| conflict(prefix)).flatten()
    });
    if let Some(reason) = &refusal {
        let text = CString::new(reason.replace('\0', "")).unwrap_or_default();
        // SAFETY: as core's GUC_check_errdetail: the text lives in the context of errors.
        unsafe {
            pg_sys::GUC_check_errdetail_string =
                pg_sys::MemoryContextStrdup(pg_sys::ErrorContext, text.as_ptr());
        }
    }
    refusal.is_none()
}

/// What no key can contain.
fn forbidden(prefix: &[u8]) -> Option<String> {
    match KeyFormat::default().check_prefix(b"", prefix, false) {
        Err(error @ PrefixError::Control { .. }) => Some(format!("The {error}.")),
        _ => None,
    }
}

/// SET, ALTER ROLE, ALTER DATABASE and ALTER SYSTEM, which is told from a reload in the middle of a
/// transaction by not running in a block.
fn can_look(source: pg_sys::GucSource::Type) -> bool {
    use pg_sys::GucSource::*;
    // SAFETY: these read the state of this process's transaction.
    unsafe {
        pg_sys::IsTransactionState()
            && !pg_sys::InitializingParallelWorker
            && match source {
                PGC_S_TEST | PGC_S_INTERACTIVE | PGC_S_SESSION => true,
                PGC_S_FILE => !pg_sys::IsTransactionBlock(),
                _ => false,
            }
    }
}

/// The first sequence of this database that the prefix does not go with, and why.
fn conflict(prefix: &[u8]) -> Option<String> {
    let mut found = None;
    // Without the extension there is nothing to look at.
    let _ = definitions::each(|sequence| {
        let definition = &sequence.definition;
        let format = definition.parsed_key_format();
        let refusal = format.check_prefix(&sequence.name, prefix, definition.min_value < 0).err();
        found = refusal.map(|error| {
            let detail = error.detail().unwrap_or_default();
            format!("For the keys of hilo sequence \"{}\", the {error}. {detail}", sequence.name)
        });
        found.is_none()
    });
    found
}
