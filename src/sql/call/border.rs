//! The border between SQL and Rust.
//!
//! A function that SQL calls is a `#[pg_extern]`: pgrx makes the arguments of their types, and the
//! result or the error of what it returns. `scripts/symbols` compares the names and types with
//! those of the CREATE FUNCTION statements in `sql/`.

use pgrx::callconv::{Arg, ArgAbi};
use pgrx::pg_sys;

use crate::errors::OrRaise;
use crate::process::memory;
use crate::sql::call::raw_function;

/// The call that is being made: the first argument of each function, which SQL does not see.
///
/// Only here does a call check that there is memory to continue with. pgrx makes the arguments in
/// their order, so nothing comes before it.
#[derive(Clone, Copy)]
pub struct Call(pg_sys::FunctionCallInfo);

// SAFETY: it is the argument that pgrx knows, which is none of SQL's.
unsafe impl<'fcx> ArgAbi<'fcx> for Call {
    #[inline(always)]
    unsafe fn unbox_arg_unchecked(arg: Arg<'_, 'fcx>) -> Call {
        memory::check().or_raise();
        // SAFETY: the caller has asked whether the argument is SQL's.
        Call(unsafe { arg.unbox_unchecked() })
    }

    fn is_virtual_arg() -> bool {
        true
    }
}

impl Call {
    /// A call without any check: for a hit, which costs less than the check.
    ///
    /// # Safety
    /// `fcinfo` must be what Postgres called the function with, and the result must not outlive
    /// that call.
    #[inline(always)]
    pub unsafe fn unchecked(fcinfo: pg_sys::FunctionCallInfo) -> Call {
        Call(fcinfo)
    }

    /// Argument `at` (from 0).
    ///
    /// # Safety
    /// The function must have that many arguments, and this one not be NULL.
    #[inline(always)]
    pub unsafe fn argument(self, at: usize) -> pg_sys::Datum {
        // SAFETY: the caller guarantees that there is one.
        unsafe { raw_function::argument(self.0, at) }
    }

    /// The memory of this call site, from one call to the next; null at first.
    #[inline(always)]
    pub fn extra<T>(self) -> *const T {
        // SAFETY: `flinfo` is null, which is checked, or lives as long as the call site.
        unsafe {
            let flinfo = (*self.0).flinfo;
            if flinfo.is_null() { std::ptr::null() } else { (*flinfo).fn_extra as *const T }
        }
    }

    pub fn set_extra<T>(self, extra: &'static T) {
        // SAFETY: as in `extra`; what is stored is never freed, so the pointer stays valid.
        unsafe {
            let flinfo = (*self.0).flinfo;
            if !flinfo.is_null() {
                (*flinfo).fn_extra = std::ptr::from_ref(extra) as *mut _;
            }
        }
    }

    /// The argument of the C function. It lives as long as the call.
    pub fn raw(self) -> pg_sys::FunctionCallInfo {
        self.0
    }
}

/// Makes a type usable as an argument, with the conversion from a datum that lives as long as the
/// call, `'fcx`.
macro_rules! argument {
    (<$fcx:lifetime> $type:ty: |$datum:ident| $of:expr) => {
        impl<$fcx> pgrx::FromDatum for $type {
            #[inline(always)]
            unsafe fn from_polymorphic_datum(
                $datum: pgrx::pg_sys::Datum,
                is_null: bool,
                _: pgrx::pg_sys::Oid,
            ) -> Option<Self> {
                (!is_null).then(|| $of)
            }
        }

        // SAFETY: a function has an argument of this type where SQL declares it so, and an Option
        // where it may be NULL (`scripts/symbols`).
        unsafe impl<$fcx> pgrx::callconv::ArgAbi<$fcx> for $type {
            #[inline(always)]
            unsafe fn unbox_arg_unchecked(arg: pgrx::callconv::Arg<'_, $fcx>) -> Self {
                // SAFETY: as above.
                unsafe { arg.unbox_arg_using_from_datum().expect("the argument is not NULL") }
            }
        }
    };
}

pub(crate) use argument;
