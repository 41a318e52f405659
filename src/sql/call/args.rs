//! The arguments of a function call, as Postgres passes them.

use pgrx::pg_sys;

use hilo_core::name;

use crate::catalog::name::Name;
use crate::catalog::table::{bytes_of, text_of};
use crate::errors::OrRaise;

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

    /// An interval; zero if it is NULL.
    pub fn interval(&self, at: usize) -> pg_sys::Interval {
        let zero = pg_sys::Interval { time: 0, day: 0, month: 0 };
        // SAFETY: the callers ask for arguments of type interval only, which are passed by
        // reference.
        self.datum(at).map_or(zero, |datum| unsafe { *datum.cast_mut_ptr::<pg_sys::Interval>() })
    }

    /// The bytes of a sequence's name, which live as long as the call. The argument is not NULL.
    #[inline(always)]
    pub fn name(&self, at: usize) -> &'static [u8] {
        let Some(datum) = self.datum(at) else { return &[] };
        match self.plain_name(at) {
            Some(name) => name,
            // SAFETY: a hilo_sequence is a varlena, and the copy lives in a memory context that
            // outlives the call.
            None => unsafe { bytes_of(datum) },
        }
    }

    /// The bytes of a sequence's name if it is neither compressed nor stored out of line. Calls no
    /// function of Postgres.
    #[inline(always)]
    pub fn plain_name(&self, at: usize) -> Option<&'static [u8]> {
        let datum = self.datum(at)?;
        // SAFETY: a hilo_sequence is a varlena. The bytes of one that is neither compressed nor
        // stored out of line follow its header, and are read where they are.
        unsafe {
            let value = datum.cast_mut_ptr::<pg_sys::varlena>();
            let plain = pgrx::varlena::varatt_is_4b_u(value)
                || (pgrx::varlena::varatt_is_1b(value) && !pgrx::varlena::varatt_is_1b_e(value));
            plain.then(|| pgrx::varlena_to_byte_slice(value))
        }
    }

    /// A name that is about to be given to a sequence. The type has already checked it, but a value
    /// that was cast without a function might not have been checked.
    pub fn new_name(&self, at: usize) -> Name {
        let bytes = self.name(at);
        name::validate(bytes).or_raise();
        bytes.into()
    }

    /// The memory of this call site, from one call to the next; null at first.
    #[inline(always)]
    pub fn extra<T>(&self) -> *const T {
        // SAFETY: `flinfo` is null, which is checked, or lives as long as the call site.
        unsafe {
            let flinfo = (*self.0).flinfo;
            if flinfo.is_null() { std::ptr::null() } else { (*flinfo).fn_extra as *const T }
        }
    }

    pub fn set_extra<T>(&self, extra: &'static T) {
        // SAFETY: as in `extra`; what is stored is never freed, so the pointer stays valid.
        unsafe {
            let flinfo = (*self.0).flinfo;
            if !flinfo.is_null() {
                (*flinfo).fn_extra = std::ptr::from_ref(extra) as *mut _;
            }
        }
    }

    /// The result NULL.
    pub fn null(&self) -> pg_sys::Datum {
        // SAFETY: the call is live.
        unsafe { (*self.0).isnull = true };
        pg_sys::Datum::null()
    }

    pub fn raw(&self) -> pg_sys::FunctionCallInfo {
        self.0
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
