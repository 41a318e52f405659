//! Text of the database, in its encoding, which need not be UTF-8.

use std::ffi::{CStr, CString, c_char};
use std::fmt;
use std::ops::Deref;
use std::ptr;

use hilo_core::name::validate;
use pgrx::pg_sys;

use crate::errors::HiloError;

/// The name of a sequence.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Name(Box<[u8]>);

impl Name {
    /// A name that is about to be given to a sequence.
    ///
    /// # Errors
    /// `Name`
    pub fn new(bytes: &[u8]) -> Result<Name, HiloError> {
        validate(bytes)?;
        Ok(bytes.into())
    }
}

impl From<&[u8]> for Name {
    fn from(bytes: &[u8]) -> Name {
        Name(bytes.into())
    }
}

impl Deref for Name {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&escape_for_message(self))
    }
}

/// Text of the database as a Rust string, if the bytes mean the same in both. They do if they are
/// ASCII, or valid UTF-8 in a database whose encoding is UTF8 or SQL_ASCII.
pub fn utf8(bytes: &[u8]) -> Option<&str> {
    // SAFETY: reads a static that is set when the backend connects to its database.
    let encoding = unsafe { pg_sys::GetDatabaseEncoding() } as u32;
    let takes_utf8 =
        encoding == pg_sys::pg_enc::PG_UTF8 || encoding == pg_sys::pg_enc::PG_SQL_ASCII;
    std::str::from_utf8(bytes).ok().filter(|text| takes_utf8 || text.is_ascii())
}

/// Text of the database for messages. Where [`utf8`] does not apply, each byte that is not
/// printable ASCII appears as `\\xNN`.
pub fn escape_for_message(bytes: &[u8]) -> String {
    if let Some(text) = utf8(bytes) {
        return text.to_owned();
    }
    let mut text = String::new();
    for &byte in bytes {
        match byte {
            b' '..=b'~' => text.push(byte as char),
            _ => text += &format!("\\x{byte:02X}"),
        }
    }
    text
}

/// An identifier as SQL spells it: in quotes if necessary.
pub fn quote(identifier: &CStr) -> CString {
    // SAFETY: the result is the text itself or a copy in the current memory context.
    unsafe { CStr::from_ptr(pg_sys::quote_identifier(identifier.as_ptr())) }.to_owned()
}

/// The parts of a name as SQL spells it: separated by dots, without quotes or folded to lower case.
/// `None`: it is no such name.
pub fn identifiers(input: &CStr) -> Option<Vec<&CStr>> {
    // SAFETY: SplitIdentifierString writes only into the palloc'ed copy, into which the cells of
    // the list point; both stay in the current memory context.
    unsafe {
        let mut names: *mut pg_sys::List = ptr::null_mut();
        let copy = pg_sys::pstrdup(input.as_ptr());
        let split = pg_sys::SplitIdentifierString(copy, b'.' as c_char, &mut names);
        if !split || names.is_null() {
            return None;
        }
        let cells = (0..(*names).length as usize).map(|at| (*(*names).elements.add(at)).ptr_value);
        Some(cells.map(|name| CStr::from_ptr(name.cast())).collect())
    }
}
