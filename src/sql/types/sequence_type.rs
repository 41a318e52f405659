//! The type `hilo_sequence`: the name of a sequence, with the layout of `text`.
//!
//! So its output, comparison and hashing are Postgres's own functions for `text` and `bytea`
//! (sql/type.sql). Only the functions that make values of the type are here; each of them checks
//! the name.

use std::ffi::{CStr, c_char};

use pgrx::prelude::*;
use pgrx::varlena;

use hilo_core::name;

use crate::errors::OrRaise;
use crate::sql::call::raw_function::{argument, input_functions, raw_functions};

input_functions!(checked; hilo_sequence_in, hilo_sequence_recv);

raw_functions!(hilo_sequence_from_text, hilo_sequence_from_name);

/// `hilo_sequence(text) RETURNS hilo_sequence`, also for varchar, which has the same layout. A text
/// that is a valid name is already the result.
#[pg_guard]
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn hilo_sequence_from_text(
    fcinfo: pg_sys::FunctionCallInfo,
) -> pg_sys::Datum {
    // SAFETY: the function is strict, so its argument is a text. The bytes of one that is neither
    // compressed nor stored out of line follow its header.
    unsafe {
        let text: *mut pg_sys::varlena = argument(fcinfo, 0).cast_mut_ptr();
        let text = if is_plain(text) { text } else { pg_sys::pg_detoast_datum_packed(text) };
        name::validate(varlena::varlena_to_byte_slice(text)).or_raise();
        pg_sys::Datum::from(text)
    }
}

/// `hilo_sequence(name) RETURNS hilo_sequence`
#[pg_guard]
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn hilo_sequence_from_name(
    fcinfo: pg_sys::FunctionCallInfo,
) -> pg_sys::Datum {
    // SAFETY: the function is strict, so its argument is a name, which ends with a zero byte.
    checked(unsafe { CStr::from_ptr(argument(fcinfo, 0).cast_mut_ptr::<c_char>()) })
}

/// The text as a new value of the type.
fn checked(text: &CStr) -> pg_sys::Datum {
    let bytes = text.to_bytes();
    name::validate(bytes).or_raise();
    // SAFETY: copies the bytes of a slice, as many as it has, at most 255.
    unsafe { pg_sys::cstring_to_text_with_len(bytes.as_ptr().cast(), bytes.len() as i32) }.into()
}

/// Whether the bytes of `text` directly follow its header, as they nearly always do. Asking that
/// costs less than a guarded call that finds nothing to do.
///
/// # Safety
/// `text` must point to a varlena.
unsafe fn is_plain(text: *const pg_sys::varlena) -> bool {
    // SAFETY: the caller guarantees that it is a varlena; only its header is read.
    unsafe {
        varlena::varatt_is_4b_u(text)
            || (varlena::varatt_is_1b(text) && !varlena::varatt_is_1b_e(text))
    }
}
