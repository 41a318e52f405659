//! Whether a value of `hilo.server_prefix` is compatible with the sequences that exist. It is
//! checked when the setting changes, when a sequence is defined, and before keys are made.
//!
//! When the setting is read from the configuration file, it is not refused. Sessions without a
//! transaction could not look up the sequences, and all sessions are to have the same value. Then
//! each sequence that it is not compatible with refuses to make keys.

use std::ffi::{CStr, c_char, c_void};

use pgrx::prelude::*;

use hilo_core::key_format::{KeyFormat, PrefixError};
use hilo_core::options::{Definition, OptionError};

use crate::catalog::rows::name::escape_for_message;
use crate::catalog::sequence::definitions::{self, Sequence};
use crate::errors::HiloError;
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

/// Why this prefix can be in no key.
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

/// The first sequence of this database that the prefix is not compatible with, and the reason.
fn conflict(prefix: &[u8]) -> Option<String> {
    use HiloError::{CatalogMismatch, NotInstalled, Replaced, Version};
    let conflicts = |sequence: Sequence| {
        let definition = &sequence.definition;
        let format = definition.parsed_key_format();
        let error = format.check_prefix(&sequence.name, prefix, definition.min_value).err()?;
        let detail = error.detail().unwrap_or_default();
        Some(format!("For the keys of hilo sequence \"{}\", the {error}. {detail}", sequence.name))
    };
    let mut found = None;
    let looked = definitions::collect(|sequence| {
        found = found.take().or_else(|| conflicts(sequence));
        Ok(None::<()>)
    });
    match looked {
        Ok(_) => found,
        // Without the extension, or with another version of it, nothing is served.
        Err(NotInstalled | Replaced | Version { .. } | CatalogMismatch(_)) => None,
        Err(error) => Some(format!("The sequences cannot be looked up: {error}.")),
    }
}

/// Checks that a definition's key format, with the current prefix, makes different keys of
/// different values.
pub fn allows_definition(definition: &Definition, name: &[u8]) -> Result<(), HiloError> {
    let format = match &definition.key_format {
        Some(text) => KeyFormat::parse(text).map_err(OptionError::from)?,
        None => KeyFormat::default(),
    };
    let prefix = gucs::server_prefix_bytes();
    allows(&format, name, prefix, definition.min_value)
}

/// Whether bytes are text in this database's encoding: a configuration file may contain any
/// encoding.
fn is_text(bytes: &[u8]) -> bool {
    // SAFETY: reads the bytes of a slice, as many as it has, and raises no error.
    unsafe {
        pg_sys::pg_verify_mbstr(
            pg_sys::GetDatabaseEncoding(),
            bytes.as_ptr().cast(),
            bytes.len() as i32,
            true,
        )
    }
}

/// Checks that with the prefix, keys of this format differ for different values, from `min_value`
/// on.
pub fn allows(
    format: &KeyFormat,
    name: &[u8],
    prefix: &[u8],
    min_value: i64,
) -> Result<(), HiloError> {
    if prefix.is_empty() || !format.has_server() {
        return Ok(());
    }
    let refusal = |why: &str, detail, hint| {
        let prefix = escape_for_message(prefix);
        let message = format!("server prefix \"{prefix}\" cannot be used: {why}");
        HiloError::Told { state: "22023".into(), message, detail, hint }
    };
    if !is_text(prefix) {
        let hint =
            "Use ASCII, or set hilo.server_prefix for each database: ALTER DATABASE ... SET.";
        let why = "it is not valid text in the encoding of this database";
        return Err(refusal(why, None, Some(hint.into())));
    }
    let checked = format.check_prefix(name, prefix, min_value);
    checked.map_err(|error| refusal(&error.to_string(), error.detail(), error.hint()))
}
