//! C functions that take their arguments from Postgres unchanged, for types that pgrx does not
//! know. Nothing is converted or checked for null, because the SQL functions with arguments are
//! STRICT.

use std::ffi::CStr;

use pgrx::pg_sys;

/// Lets Postgres call functions by name: it asks the library for the calling convention of each.
macro_rules! raw_functions {
    ($($name:ident),+ $(,)?) => { $($crate::sql::call::raw_function::finfo!($name "");)+ };
}

/// Does so for a function whose name ends with a suffix.
macro_rules! finfo {
    ($name:ident $suffix:literal) => {
        const _: () = {
            #[unsafe(export_name = concat!("pg_finfo_", stringify!($name), $suffix))]
            extern "C" fn finfo() -> &'static pgrx::pg_sys::Pg_finfo_record {
                &pgrx::pg_sys::Pg_finfo_record { api_version: 1 }
            }
        };
    };
}

/// A function that Postgres calls by name and suffix.
macro_rules! export {
    ($name:ident $suffix:literal, |$fcinfo:ident| $body:expr) => {
        $crate::sql::call::raw_function::finfo!($name $suffix);

        const _: () = {
            #[pgrx::pg_guard]
            #[unsafe(export_name = concat!(stringify!($name), $suffix))]
            unsafe extern "C-unwind" fn call(
                fcinfo: pgrx::pg_sys::FunctionCallInfo,
            ) -> pgrx::pg_sys::Datum {
                let body = |$fcinfo: pgrx::pg_sys::FunctionCallInfo| $body;
                body(fcinfo)
            }
        };
    };
}

/// Functions with the same body, which gets the call, and whose error they raise. Each is a symbol
/// in the SQL objects of some version.
macro_rules! call_functions {
    ($body:path; $($name:ident),+ $(,)?) => { $(
        $crate::sql::call::raw_function::export!($name "", |fcinfo| {
            $crate::errors::OrRaise::or_raise($body(fcinfo))
        });
    )+ };
}

/// The functions that make values of a type from text: SQL's, and that of a message in the binary
/// format, which is the same. `parse` makes a value of a C string. They raise its error.
macro_rules! input_functions {
    ($parse:path; $in:ident, $recv:ident) => {
        $crate::sql::call::raw_function::export!($in "", |fcinfo| {
            // SAFETY: the function is strict, so its one argument is a C string.
            let parsed = $parse(unsafe {
                let text = $crate::sql::call::raw_function::argument(fcinfo, 0);
                std::ffi::CStr::from_ptr(text.cast_mut_ptr())
            });
            pgrx::pg_sys::Datum::from($crate::errors::OrRaise::or_raise(parsed))
        });
        $crate::sql::call::raw_function::export!($recv "", |fcinfo| {
            // SAFETY: the function is strict, and Postgres gives a receive function a message.
            let parsed = $parse(unsafe {
                let message = $crate::sql::call::raw_function::argument(fcinfo, 0);
                $crate::sql::call::raw_function::message_text(message.cast_mut_ptr())
            });
            pgrx::pg_sys::Datum::from($crate::errors::OrRaise::or_raise(parsed))
        });
    };
}

/// The functions that make text of values: `text` makes a `CString` of a value.
macro_rules! output_functions {
    ($text:path; $out:ident, $send:ident) => {
        $crate::sql::call::raw_function::export!($out "", |fcinfo| {
            // SAFETY: the function is strict, so it has its argument. The result is a copy.
            unsafe {
                let text = $text($crate::sql::call::raw_function::argument(fcinfo, 0));
                pgrx::pg_sys::Datum::from(pgrx::pg_sys::pstrdup(text.as_ptr()))
            }
        });
        $crate::sql::call::raw_function::export!($send "", |fcinfo| {
            // SAFETY: as above.
            let value = unsafe { $crate::sql::call::raw_function::argument(fcinfo, 0) };
            $crate::sql::call::raw_function::message(&$text(value))
        });
    };
}

pub(crate) use {call_functions, export, finfo, input_functions, output_functions, raw_functions};

/// The value of a call's `nth` argument.
///
/// # Safety
/// `fcinfo` must be a live call with more than `nth` arguments, and this one must not be null.
pub unsafe fn argument(fcinfo: pg_sys::FunctionCallInfo, nth: usize) -> pg_sys::Datum {
    // SAFETY: the caller guarantees that the call has this argument. `args` is a C flexible array
    // that Postgres has allocated for all arguments of the call.
    unsafe { (*(*fcinfo).args.as_ptr().add(nth)).value }
}

/// The rest of a message, converted from the client's encoding and checked to be valid in the
/// server's.
///
/// # Safety
/// `message` must be one that Postgres has given to a receive function.
pub unsafe fn message_text<'a>(message: pg_sys::StringInfo) -> &'a CStr {
    // SAFETY: the caller guarantees that the message is one that Postgres has given to a receive
    // function. The result is a new C string in the current memory context; the check of the
    // encoding refuses a zero byte inside it.
    unsafe {
        let mut length = 0;
        let text = pg_sys::pq_getmsgtext(message, (*message).len - (*message).cursor, &mut length);
        CStr::from_ptr(text)
    }
}

/// A text as a send function returns it.
pub fn message(text: &CStr) -> pg_sys::Datum {
    let mut buffer = pg_sys::StringInfoData::default();
    // SAFETY: the buffer is initialised before it is written to, with the bytes of a C string.
    unsafe {
        pg_sys::pq_begintypsend(&mut buffer);
        pg_sys::pq_sendtext(&mut buffer, text.as_ptr(), text.count_bytes() as i32);
        pg_sys::pq_endtypsend(&mut buffer).into()
    }
}
