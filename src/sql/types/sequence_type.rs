//! The type `hilo_sequence`: the name of a sequence, with the layout of `text`.
//!
//! So its output, comparison and hashing are Postgres's own functions for `text` and `bytea`
//! (sql/type.sql). Only the functions that make values of the type are here; each of them checks
//! the name.

use std::ffi::{CStr, c_char};

use pgrx::prelude::*;

use hilo_core::name;

use crate::catalog::table::text_datum;
use crate::errors::OrRaise;
use crate::sql::call::args::Args;
use crate::sql::call::raw_function::{argument, call_functions, input_functions};

input_functions!(new_value; hilo_sequence_in, hilo_sequence_recv);

call_functions!(from_text; hilo_sequence_from_text);
call_functions!(from_name; hilo_sequence_from_name);

/// `hilo_sequence(text) RETURNS hilo_sequence`, also for varchar, which has the same layout. A text
/// that is a valid name is already the result.
fn from_text(fcinfo: pg_sys::FunctionCallInfo) -> pg_sys::Datum {
    // SAFETY: the function is strict, so its argument is a text, which has the same layout.
    let (text, bytes) = unsafe { (argument(fcinfo, 0), Args::new(fcinfo).name(0)) };
    name::validate(bytes).or_raise();
    text
}

/// `hilo_sequence(name) RETURNS hilo_sequence`
fn from_name(fcinfo: pg_sys::FunctionCallInfo) -> pg_sys::Datum {
    // SAFETY: the function is strict, so its argument is a name, which ends with a zero byte.
    new_value(unsafe { CStr::from_ptr(argument(fcinfo, 0).cast_mut_ptr::<c_char>()) })
}

/// The text as a new value of the type.
fn new_value(text: &CStr) -> pg_sys::Datum {
    let bytes = text.to_bytes();
    name::validate(bytes).or_raise();
    text_datum(bytes)
}
