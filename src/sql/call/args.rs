//! The arguments of a function call, as Postgres passes them.

use pgrx::pg_sys;

use hilo_core::name;

use crate::catalog::name::Name;
use crate::catalog::table::{bytes_of, text_of};
use crate::errors::OrRaise;
use crate::sql::types::sequence_type::SequenceName;

/// The arguments of the call being made.
#[derive(Clone, Copy)]
pub struct Args(pg_sys::FunctionCallInfo);

impl Args {
    /// # Safety
    /// `fcinfo` must be what Postgres called the function with, and the result must not outlive
    /// that call.
    #[inline(always)]
    pub unsafe fn new(fcinfo: pg_sys::FunctionCallInfo) -> Args {
        Args(fcinfo)
    }

    /// Argument `at` (from 0); `None` if it is NULL.
    #[inline(always)]
    pub fn datum(&self, at: usize) -> Option<pg_sys::Datum> {
        // SAFETY: `fcinfo` is live during the call and has as many arguments as the function
        // declares, of which the callers name one.
        unsafe {
            debug_assert!(at < (*self.0).nargs as usize);
            let arg = (*self.0).args.as_ptr().add(at);
            if (*arg).isnull { None } else { Some((*arg).value) }
        }
    }

    pub fn int8(&self, at: usize) -> Option<i64> {
        self.datum(at).map(|datum| datum.value() as i64)
    }

    pub fn bool(&self, at: usize) -> Option<bool> {
        self.datum(at).map(|datum| datum.value() & 0xff != 0)
    }

    pub fn oid(&self, at: usize) -> Option<pg_sys::Oid> {
        self.datum(at).map(|datum| pg_sys::Oid::from_u32(datum.value() as u32))
    }

    pub fn text(&self, at: usize) -> Option<String> {
        // SAFETY: the callers ask for arguments of type text only.
        self.datum(at).map(|datum| unsafe { text_of(datum) })
    }

    /// The bytes of a text; empty if it is NULL.
    pub fn bytes(&self, at: usize) -> &'static [u8] {
        // SAFETY: the callers ask for arguments of type text only. They use the bytes during the
        // call only, which the argument outlives.
        self.datum(at).map_or(&[], |datum| unsafe { bytes_of(datum) })
    }

    /// The bytes of a sequence's name, which live as long as the call. The argument is not NULL.
    #[inline(always)]
    pub fn name(&self, at: usize) -> &'static [u8] {
        // SAFETY: the callers ask for arguments of type hilo_sequence only.
        self.datum(at).map_or(&[], |datum| unsafe { SequenceName::of(datum) }.bytes())
    }

    /// A name that is about to be given to a sequence. The type has already checked it, but a value
    /// that was cast without a function might not have been checked.
    pub fn new_name(&self, at: usize) -> Name {
        let bytes = self.name(at);
        name::validate(bytes).or_raise();
        bytes.into()
    }

    /// The result NULL.
    pub fn null(&self) -> pg_sys::Datum {
        // SAFETY: the call is live.
        unsafe { (*self.0).isnull = true };
        pg_sys::Datum::null()
    }
}

/// The result of a function, for Postgres.
pub trait Returned {
    fn into_result(self, args: Args) -> pg_sys::Datum;
}

impl Returned for i64 {
    #[inline(always)]
    fn into_result(self, _: Args) -> pg_sys::Datum {
        self.into()
    }
}

impl<T: Returned> Returned for Option<T> {
    fn into_result(self, args: Args) -> pg_sys::Datum {
        match self {
            Some(value) => value.into_result(args),
            None => args.null(),
        }
    }
}

impl Returned for pg_sys::Datum {
    fn into_result(self, _: Args) -> pg_sys::Datum {
        self
    }
}

impl Returned for () {
    fn into_result(self, _: Args) -> pg_sys::Datum {
        pg_sys::Datum::null()
    }
}

/// Lets Postgres call these functions, each under its name with the suffix `_wrapper`.
macro_rules! sql_functions {
    ($($name:ident),+ $(,)?) => { $(
        $crate::sql::call::raw_function::export!($name "_wrapper", |fcinfo| {
            // SAFETY: Postgres calls the function with the arguments that it was declared to take.
            let args = unsafe { $crate::sql::call::args::Args::new(fcinfo) };
            $crate::errors::OrRaise::or_raise($crate::process::memory::check());
            $crate::sql::call::args::Returned::into_result($name(args), args)
        });
    )+ };
}

pub(crate) use sql_functions;
