//! Documents as values of type jsonb. A document is UTF-8, whatever the encoding of the database.

use pgrx::callconv::{BoxRet, FcInfo};
use pgrx::datum::Datum;
use pgrx::{direct_function_call_as_datum, pg_sys};
use serde::Serialize;

use crate::catalog::rows::encoding::{decode, encode, is_utf8};
use crate::errors::HiloError;
use crate::process::memory;
use crate::sql::call::border::argument;
use crate::sql::call::stored_rows::Column;

/// A text that is written piece by piece, as long as there is memory.
struct Growing(Vec<u8>);

impl std::io::Write for Growing {
    fn write(&mut self, piece: &[u8]) -> std::io::Result<usize> {
        // A zero byte ends it.
        self.0.try_reserve(piece.len() + 1)?;
        self.0.extend_from_slice(piece);
        Ok(piece.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// A value of type jsonb: an argument, a result, or a column of a result.
#[derive(Clone, Copy)]
pub struct JsonB(pg_sys::Datum);

argument!(<'fcx> JsonB: |datum| JsonB(datum));

// SAFETY: the datum is a jsonb in the current memory context, which is the caller's.
unsafe impl BoxRet for JsonB {
    unsafe fn box_into<'fcx>(self, fcinfo: &mut FcInfo<'fcx>) -> Datum<'fcx> {
        // SAFETY: as above.
        unsafe { fcinfo.return_raw_datum(self.0) }
    }
}

impl Column for JsonB {
    fn datum(self) -> Option<pg_sys::Datum> {
        Some(self.0)
    }
}

impl JsonB {
    pub fn serialize(value: &impl Serialize) -> Result<JsonB, HiloError> {
        let mut text = Growing(Vec::new());
        let written = serde_json::to_writer(&mut text, value);
        written.map_err(|_| HiloError::OutOfMemory)?;
        let text = match String::from_utf8(text.0) {
            Ok(text) if !is_utf8() && !text.is_ascii() => {
                memory::check_available(text.len() * 4)?;
                encode(&text)
            }
            Ok(text) => text.into_bytes(),
            Err(_) => unreachable!("JSON is UTF-8"),
        };
        let text = std::ffi::CString::new(text).unwrap_or_default();
        // SAFETY: the argument is a C string, and the result is not null.
        let value = unsafe {
            direct_function_call_as_datum(pg_sys::jsonb_in, &[Some(text.as_ptr().into())])
        };
        Ok(JsonB(value.unwrap_or(pg_sys::Datum::null())))
    }

    /// The text of the document. Checks that there is memory for all that is made of it.
    pub fn text(self) -> Result<String, HiloError> {
        /// The values that are made of a text take at most so many times its memory.
        const TIMES: usize = 64;
        // SAFETY: it is a jsonb, of which core makes a C string.
        let text = unsafe {
            let text = direct_function_call_as_datum(pg_sys::jsonb_out, &[Some(self.0)]);
            std::ffi::CStr::from_ptr(text.unwrap_or(pg_sys::Datum::null()).cast_mut_ptr())
        };
        memory::check_available(text.to_bytes().len() * TIMES)?;
        Ok(decode(text.to_bytes()))
    }
}
