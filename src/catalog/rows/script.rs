//! Whether the script of an extension is running, and of which.

use pgrx::pg_sys;

use crate::catalog::rows::name::Name;
use crate::catalog::rows::relations;

/// Whether the script of an extension is running.
pub fn runs() -> bool {
    // SAFETY: a static of this process.
    unsafe { pg_sys::creating_extension }
}

/// The extension whose script is running.
pub fn extension() -> Option<Name> {
    // SAFETY: a static of core, which is set while a script runs.
    runs().then(|| name_of(unsafe { pg_sys::CurrentExtensionObject })).flatten()
}

/// The name of an extension; `None` if it does not exist.
pub fn name_of(extension: pg_sys::Oid) -> Option<Name> {
    // SAFETY: a look-up in the catalog, inside a transaction. The result is null or a C string.
    let name = unsafe { relations::copy_name(pg_sys::get_extension_name(extension)) };
    name.map(|name| name.to_bytes().into())
}
