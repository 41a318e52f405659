//! Sequences that the script of another extension has created. They belong to it: they are dropped
//! with it and not without it. A restore runs the script, and then the restored row takes the place
//! of the one that the script has made.

use std::ffi::CString;

use pgrx::pg_sys;

use crate::catalog::rows::name::Name;
use crate::catalog::rows::script;
use crate::catalog::sequence::definitions::{self, Sequence};
use crate::errors::HiloError;

fn exists(extension: &Name) -> bool {
    let name = CString::new(&**extension).unwrap_or_default();
    // SAFETY: a look-up in the catalog, inside a transaction, by a C string.
    unsafe { pg_sys::get_extension_oid(name.as_ptr(), true) != pg_sys::InvalidOid }
}

/// Whether the extension that a sequence belongs to has been dropped.
pub fn is_orphan(sequence: &Sequence) -> bool {
    sequence.extension.as_ref().is_some_and(|extension| !exists(extension))
}

/// Refuses to drop a sequence that belongs to an extension, except in that extension's script.
///
/// # Errors
/// `OfExtension`
pub fn check_droppable(sequence: &Sequence) -> Result<(), HiloError> {
    match &sequence.extension {
        Some(extension) if exists(extension) && script::extension().as_ref() != Some(extension) => {
            let (name, extension) = (sequence.name.to_string(), extension.to_string());
            Err(HiloError::OfExtension { name, extension })
        }
        _ => Ok(()),
    }
}

/// The sequences that belong to an extension.
pub fn sequences_of(extension: &Name) -> Result<Vec<Sequence>, HiloError> {
    definitions::collect(|sequence| {
        Ok((sequence.extension.as_ref() == Some(extension)).then_some(sequence))
    })
}
