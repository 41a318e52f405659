//! Text of the database, in its encoding, which need not be UTF-8.

use std::fmt;
use std::ops::Deref;

use pgrx::pg_sys;

/// The name of a sequence.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Name(Box<[u8]>);

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

/// Text of the database as a Rust string, if the bytes mean the same in both: they are ASCII, or
/// valid UTF-8 in a database whose encoding is UTF8 or SQL_ASCII.
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
