//! Documents on their way in and out of Postgres. A document is UTF-8, whatever the encoding of the
//! database; names and roles are converted.

use std::borrow::Cow;
use std::ffi::CStr;
use std::io::Write;

use pgrx::pg_sys;

use hilo_core::document::Document;

use crate::errors::HiloError;
use crate::process::memory;

const UTF8: i32 = pg_sys::pg_enc::PG_UTF8 as i32;

/// Text of the database in UTF-8. Text that has no equivalent there, as there may be in a database
/// without an encoding, is an error.
pub fn utf8(text: &[u8]) -> String {
    in_utf8(text).into_owned()
}

fn in_utf8(text: &[u8]) -> Cow<'_, str> {
    // SAFETY: reads as many bytes as the slice has. The result is the same text, or a C string in
    // the current memory context. Text that comes back unchanged has been verified.
    unsafe {
        let from = text.as_ptr().cast();
        let to = pg_sys::pg_server_to_any(from, text.len() as i32, UTF8);
        let bytes = match std::ptr::eq(to, from) {
            true => text,
            false => CStr::from_ptr(to).to_bytes(),
        };
        String::from_utf8_lossy(bytes)
    }
}

/// UTF-8 in the encoding of the database. A character that the encoding lacks is an error.
pub fn in_encoding(text: &str) -> Vec<u8> {
    // SAFETY: as in `utf8`.
    unsafe {
        let from = text.as_ptr().cast();
        let to = pg_sys::pg_any_to_server(from, text.len() as i32, UTF8);
        match std::ptr::eq(to, from) {
            true => text.as_bytes().to_vec(),
            false => CStr::from_ptr(to).to_bytes().to_vec(),
        }
    }
}

/// Reads a document from a datum of type jsonb.
///
/// # Errors
/// `Document` if it is not one, `OutOfMemory`.
pub fn read(jsonb: pg_sys::Datum) -> Result<Document, HiloError> {
    Ok(Document::parse(&text(jsonb)?)?)
}

/// The text of a datum of type jsonb, in the current memory context.
///
/// # Errors
/// `OutOfMemory`
pub fn text(jsonb: pg_sys::Datum) -> Result<Cow<'static, str>, HiloError> {
    let output = pg_sys::Oid::from_u32(pg_sys::F_JSONB_OUT);
    // SAFETY: the datum is a jsonb, and the result is a C string in the current memory context.
    let text = unsafe { CStr::from_ptr(pg_sys::OidOutputFunctionCall(output, jsonb)) }.to_bytes();
    memory::check_available_for_text(text)?;
    Ok(in_utf8(text))
}

/// A datum of type jsonb.
///
/// # Errors
/// `OutOfMemory`
pub fn write(json: &impl serde::Serialize) -> Result<pg_sys::Datum, HiloError> {
    let mut text = Text(Vec::new());
    let written = serde_json::to_writer(&mut text, json).map_err(std::io::Error::from);
    written.and_then(|()| text.write_all(b"\0")).map_err(|_| HiloError::OutOfMemory)?;
    let input = pg_sys::Oid::from_u32(pg_sys::F_JSONB_IN);
    // SAFETY: the text is UTF-8 and a C string, as JSON has no zero bytes. It comes back as it is,
    // or as a C string in the current memory context. The input function of jsonb does not change
    // it, and takes the other two arguments of every input function.
    Ok(unsafe {
        let from = text.0.as_ptr().cast();
        let json = pg_sys::pg_any_to_server(from, text.0.len() as i32 - 1, UTF8);
        pg_sys::OidInputFunctionCall(input, json, pg_sys::InvalidOid, -1)
    })
}

/// Text that grows where that may fail.
struct Text(Vec<u8>);

impl Write for Text {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.try_reserve(bytes.len()).map_err(|_| std::io::ErrorKind::OutOfMemory)?;
        self.0.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}
