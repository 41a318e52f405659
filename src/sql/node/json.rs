//! Documents as values of type jsonb. A document is UTF-8, whatever the encoding of the database.

use pgrx::callconv::{BoxRet, FcInfo};
use pgrx::datum::Datum;
use pgrx::{direct_function_call_as_datum, pg_sys};
use serde::Serialize;

use crate::errors::HiloError;
use crate::process::memory;
use crate::sql::call::border::argument;
use crate::sql::call::stored_rows::Column;

/// In a database without an encoding, a byte that is not UTF-8 is this character and its value.
const BYTE: u32 = 0x10_FF00;

fn escaped(byte: u8) -> char {
    char::from_u32(BYTE + u32::from(byte)).unwrap_or(char::REPLACEMENT_CHARACTER)
}

fn escaped_byte(char: char) -> Option<u8> {
    let byte = u32::from(char).checked_sub(BYTE).and_then(|byte| u8::try_from(byte).ok());
    byte.filter(|byte| !byte.is_ascii())
}

fn encoding() -> u32 {
    // SAFETY: reads a static that is set when the backend connects to its database.
    unsafe { pg_sys::GetDatabaseEncoding() as u32 }
}

/// Text of the database as a document has it. A character without an equivalent is core's error.
pub fn decode(bytes: &[u8]) -> String {
    match encoding() {
        _ if bytes.is_ascii() => String::from_utf8_lossy(bytes).into_owned(),
        pg_sys::pg_enc::PG_UTF8 => String::from_utf8_lossy(bytes).into_owned(),
        pg_sys::pg_enc::PG_SQL_ASCII => {
            let mut text = String::with_capacity(bytes.len());
            for chunk in bytes.utf8_chunks() {
                for char in chunk.valid().chars() {
                    match escaped_byte(char) {
                        None => text.push(char),
                        Some(_) => {
                            let mut room = [0; 4];
                            text.extend(char.encode_utf8(&mut room).bytes().map(escaped));
                        }
                    }
                }
                text.extend(chunk.invalid().iter().copied().map(escaped));
            }
            text
        }
        _ => String::from_utf8_lossy(&converted(bytes, pg_sys::pg_server_to_any)).into_owned(),
    }
}

/// The same back.
pub fn encode(text: &str) -> Vec<u8> {
    match encoding() {
        _ if text.is_ascii() => text.into(),
        pg_sys::pg_enc::PG_UTF8 => text.into(),
        pg_sys::pg_enc::PG_SQL_ASCII => {
            let (mut bytes, mut room) = (Vec::with_capacity(text.len()), [0; 4]);
            for char in text.chars() {
                match escaped_byte(char) {
                    Some(byte) => bytes.push(byte),
                    None => bytes.extend_from_slice(char.encode_utf8(&mut room).as_bytes()),
                }
            }
            bytes
        }
        _ => converted(text.as_bytes(), pg_sys::pg_any_to_server),
    }
}

type Conversion = unsafe fn(*const std::ffi::c_char, i32, i32) -> *mut std::ffi::c_char;

fn converted(bytes: &[u8], convert: Conversion) -> Vec<u8> {
    // SAFETY: the length is that of the text. The result is a C string, since the text is not empty
    // and no character of it is what it is in the other encoding.
    unsafe {
        let utf8 = pg_sys::pg_enc::PG_UTF8 as i32;
        let result = convert(bytes.as_ptr().cast(), bytes.len() as i32, utf8);
        std::ffi::CStr::from_ptr(result).to_bytes().to_vec()
    }
}

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

/// A jsonb: an argument, a result, or a column of one.
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
    pub fn of(value: &impl Serialize) -> Result<JsonB, HiloError> {
        let mut text = Growing(Vec::new());
        let written = serde_json::to_writer(&mut text, value);
        written.map_err(|_| HiloError::OutOfMemory)?;
        let text = match String::from_utf8(text.0) {
            Ok(text) if encoding() != pg_sys::pg_enc::PG_UTF8 && !text.is_ascii() => {
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

    /// Its text. There is memory for all that is made of it.
    pub fn text(self) -> Result<String, HiloError> {
        /// The values that are read of a text take at most so many times its memory.
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
