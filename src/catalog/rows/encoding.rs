//! Text of the database in UTF-8, and back, without a loss.

use std::ffi::{CStr, c_char};

use pgrx::pg_sys;

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

pub fn is_utf8() -> bool {
    encoding() == pg_sys::pg_enc::PG_UTF8
}

/// Text of the database in UTF-8. A character without an equivalent is core's error.
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

type Conversion = unsafe fn(*const c_char, i32, i32) -> *mut c_char;

fn converted(bytes: &[u8], convert: Conversion) -> Vec<u8> {
    // SAFETY: the length is that of the text. The result is a C string, since the text is not empty
    // and no character of it is what it is in the other encoding.
    unsafe {
        let utf8 = pg_sys::pg_enc::PG_UTF8 as i32;
        let result = convert(bytes.as_ptr().cast(), bytes.len() as i32, utf8);
        CStr::from_ptr(result).to_bytes().to_vec()
    }
}
