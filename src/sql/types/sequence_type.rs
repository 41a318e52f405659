//! The type `hilo_sequence`: the name of a sequence, with the layout of `text`.
//!
//! So its output is that of `text`, and so are its operators (sql/type.sql). Only the functions
//! that make values of the type are here; each of them checks the name.

use std::ffi::CStr;
use std::ops::Deref;

use pgrx::prelude::*;

use hilo_core::name;

use crate::catalog::rows::name::Name;
use crate::catalog::rows::table::{bytes_of, text_datum};
use crate::errors::HiloError;
use crate::sql::call::border;
use crate::sql::call::raw_function::{argument, call_functions, input_functions};

input_functions!(new_value; hilo_sequence_in, hilo_sequence_recv);

call_functions!(from_text; hilo_sequence_from_text);

/// An argument of this type, which lives as long as the call.
#[derive(Clone, Copy)]
pub struct SequenceName<'a>(&'a [u8]);

border::argument!(<'a> SequenceName<'a>: |datum| {
    // SAFETY: SQL declares the argument as a hilo_sequence.
    unsafe { SequenceName::from_datum(datum) }
});

impl<'a> SequenceName<'a> {
    /// # Safety
    /// The datum must be a hilo_sequence, or have its layout.
    #[inline(always)]
    pub unsafe fn from_datum(datum: pg_sys::Datum) -> SequenceName<'a> {
        // SAFETY: the caller guarantees that it is a varlena. A copy lives in a memory context that
        // outlives the call.
        SequenceName(unsafe { Self::plain(datum).unwrap_or_else(|| bytes_of(datum)) })
    }

    /// The bytes of a name that is neither compressed nor stored out of line. Calls no function of
    /// Postgres.
    ///
    /// # Safety
    /// As for [`from_datum`](Self::from_datum).
    #[inline(always)]
    pub unsafe fn plain(datum: pg_sys::Datum) -> Option<&'a [u8]> {
        // SAFETY: the caller guarantees that it is a varlena. The bytes of one that is neither
        // compressed nor stored out of line follow its header, and are read where they are.
        unsafe {
            let value = datum.cast_mut_ptr::<pg_sys::varlena>();
            let plain = pgrx::varlena::varatt_is_4b_u(value)
                || (pgrx::varlena::varatt_is_1b(value) && !pgrx::varlena::varatt_is_1b_e(value));
            plain.then(|| pgrx::varlena_to_byte_slice(value))
        }
    }

    pub fn bytes(self) -> &'a [u8] {
        self.0
    }

    /// The name, which is about to be given to a sequence. The type has already checked it, but a
    /// value that was cast without a function might not have been checked.
    pub fn new_name(self) -> Result<Name, HiloError> {
        Name::new(self.0)
    }
}

impl Deref for SequenceName<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.0
    }
}

/// `hilo_sequence(text) RETURNS hilo_sequence`, also for varchar, which has the same layout. A text
/// that is a valid name is already the result.
fn from_text(fcinfo: pg_sys::FunctionCallInfo) -> Result<pg_sys::Datum, HiloError> {
    // SAFETY: the function is strict, so its argument is a text, which has the same layout.
    let (text, name) =
        unsafe { (argument(fcinfo, 0), SequenceName::from_datum(argument(fcinfo, 0))) };
    name::validate(&name)?;
    Ok(text)
}

/// The text as a new value of the type.
fn new_value(text: &CStr) -> Result<pg_sys::Datum, HiloError> {
    let bytes = text.to_bytes();
    name::validate(bytes)?;
    Ok(text_datum(bytes))
}
