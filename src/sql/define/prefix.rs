//! Whether a value of `hilo.server_prefix` is compatible with the sequences that exist, checked
//! when it is set.
//!
//! When the setting is read from the configuration file, it is not refused. Sessions without a
//! transaction could not look up the sequences, and all sessions are to have the same value. Then
//! each sequence that it is not compatible with refuses to make keys.

use std::ffi::{CStr, c_char, c_void};

use pgrx::prelude::*;

use hilo_core::key_format::{KeyFormat, PrefixError};

use crate::catalog::definitions::{self, Sequence};
use crate::gucs;

/// The check hook of the setting.
///
/// # Safety
/// `value` must be what Postgres passes to a check hook.
#[pg_guard]
pub unsafe extern "C-unwind" fn check(
    value: *mut *mut c_char,
    _extra: *mut *mut c_void,
    source: pg_sys::GucSource::Type,
) -> bool {
    // SAFETY: the caller guarantees that `value` points to null or to a C string that outlives the
    // call.
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
        gucs::refuse_value(reason);
    }
    refusal.is_none()
}

/// Why no key can contain this prefix.
fn forbidden(prefix: &[u8]) -> Option<String> {
    match KeyFormat::default().check_prefix(b"", prefix, 0) {
        Err(error @ PrefixError::Control { .. }) => Some(format!("The {error}.")),
        _ => None,
    }
}

/// Whether the sequences can be looked up: in SET, ALTER ROLE, ALTER DATABASE and ALTER SYSTEM.
/// ALTER SYSTEM names the file as its source, as a reload does. But a reload happens between two
/// messages of the client, at times in a transaction, and never while a statement is running.
fn can_look(source: pg_sys::GucSource::Type) -> bool {
    use pg_sys::GucSource::*;
    // SAFETY: all of these read the transaction state and variables of this process.
    unsafe {
        pg_sys::IsTransactionState()
            && !pg_sys::InitializingParallelWorker
            && match source {
                PGC_S_TEST | PGC_S_INTERACTIVE | PGC_S_SESSION => true,
                PGC_S_FILE => !pg_sys::ActivePortal.is_null(),
                _ => false,
            }
    }
}

/// The first sequence of this database that the prefix is not compatible with, and why.
fn conflict(prefix: &[u8]) -> Option<String> {
    let conflicts = |sequence: Sequence| {
        let definition = &sequence.definition;
        let format = definition.parsed_key_format();
        let error = format.check_prefix(&sequence.name, prefix, definition.min_value).err()?;
        let detail = error.detail().unwrap_or_default();
        Some(format!("For the keys of hilo sequence \"{}\", the {error}. {detail}", sequence.name))
    };
    let mut found = None;
    // Without the extension there is nothing to look at.
    let _ = definitions::collect(|sequence| {
        found = found.take().or_else(|| conflicts(sequence));
        None::<()>
    });
    found
}
