//! JSON on its way to Postgres: UTF-8, whatever the encoding of the database is.

use std::io::Write;

use pgrx::pg_sys;

use crate::errors::HiloError;

const UTF8: i32 = pg_sys::pg_enc::PG_UTF8 as i32;

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
