//! Text keys: a value inserted into the sequence's key format.

use pgrx::pg_sys;
use pgrx::pg_sys::panic::ErrorReport;
use pgrx::prelude::*;

use hilo_core::key_format::Frame;

use crate::catalog::rights::missing;
use crate::catalog::rights::privileges::Privileges;
use crate::catalog::rows::table::text_datum;
use crate::errors::{HiloError, OrRaise};
use crate::gucs;
use crate::process::ffi;
use crate::session::names::CachedName;
use crate::session::{draw, look_up};
use crate::sql::call::border::Call;
use crate::sql::call::raw_function::raw_functions;
use crate::sql::call::text::{Text, Written};
use crate::sql::define::prefix;
use crate::sql::draw::nextval::{begin_with_name, known_name};
use crate::sql::types::sequence_type::SequenceName;

raw_functions!(hilo_nextkey_wrapper);

/// `hilo_nextkey(name)`: the next value as a key. A hit is a hit of `hilo_nextval`, whose value is
/// inserted into the remembered parts of the key. It can only raise out of memory, and nothing here
/// has a destructor.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn hilo_nextkey_wrapper(
    fcinfo: pg_sys::FunctionCallInfo,
) -> pg_sys::Datum {
    // SAFETY: Postgres calls the function with the argument that it was declared to take, and not
    // with NULL, because it is strict. The call is handed on as it came.
    unsafe {
        if let Some(cached) = known_name(Call::unchecked(fcinfo))
            && let Some(frame) = cached.key_frame(gucs::server_prefix_bytes())
            && let Some(value) = draw::hit(cached)
        {
            return text_unguarded(frame, value);
        }
        nextkey(fcinfo)
    }
}

/// Handles a call that is no hit. A prefix that is not compatible with the sequence is refused
/// before a value is drawn.
#[pgrx::pg_guard]
#[cold]
unsafe extern "C-unwind" fn nextkey(fcinfo: pg_sys::FunctionCallInfo) -> pg_sys::Datum {
    let draw = || {
        // SAFETY: the caller hands on the call as it came from Postgres.
        let (call, name) = unsafe { begin_with_name(fcinfo) }?;
        let (cached, _) = look_up::look_up(&name, Privileges::DRAW)?;
        frame_of(cached)?;
        let (cached, value) = draw::next(&name)?;
        call.set_extra(cached);
        Ok::<_, HiloError>(text_datum(&text(frame_of(cached)?, value)))
    };
    draw().or_raise()
}

fn frame_of(cached: &'static CachedName) -> Result<&'static Frame, HiloError> {
    let prefix = gucs::server_prefix_bytes();
    if cached.key_frame(prefix).is_none() {
        let min_value = cached.entry().map_or(0, |entry| entry.mapping().min_value);
        let format = cached.key_format()?;
        prefix::allows(&format, cached.name_bytes(), prefix, min_value)?;
        cached.frame_keys(&format, prefix)?;
    }
    Ok(cached.key_frame(prefix).expect("just made"))
}

fn text(frame: &Frame, value: i64) -> Vec<u8> {
    frame.key(value, &mut [0; 20]).concat()
}

/// Makes the text of a key, outside pgrx's guard.
#[inline(always)]
fn text_unguarded(frame: &Frame, value: i64) -> pg_sys::Datum {
    let mut buffer = [0; 20];
    let parts = frame.key(value, &mut buffer);
    let length = pg_sys::VARHDRSZ + parts.iter().map(|part| part.len()).sum::<usize>();
    // SAFETY: the memory has room for the header and for all parts, and is new, so it overlaps none
    // of them. If palloc raises an error, it jumps across frames that have nothing to drop.
    unsafe {
        let datum: *mut u8 = ffi::palloc(length).cast();
        pgrx::set_varsize_4b(datum.cast(), length as i32);
        let mut to = datum.add(pg_sys::VARHDRSZ);
        for part in parts {
            std::ptr::copy_nonoverlapping(part.as_ptr(), to, part.len());
            to = to.add(part.len());
        }
        datum.into()
    }
}

/// `hilo_key(name, value)`: the key that this server would make of a value.
#[pg_extern(sql = false)]
fn hilo_key(_call: Call, name: SequenceName, value: i64) -> Result<Written, ErrorReport> {
    let definition =
        missing::require_allowed(&name, Privileges::USAGE.or(Privileges::SELECT))?.definition;
    let (format, prefix) = (definition.parsed_key_format(), gucs::server_prefix_bytes());
    prefix::allows(&format, &name, prefix, definition.min_value)?;
    Ok(Written(text(&format.frame(&name, prefix), value)))
}

/// `hilo_key_value(name, key)`: the value in a key that this server has made.
#[pg_extern(sql = false)]
fn hilo_key_value(_call: Call, name: SequenceName, key: Text) -> Result<i64, ErrorReport> {
    let sequence = missing::require_allowed(&name, Privileges::USAGE.or(Privileges::SELECT))?;
    let format = sequence.definition.parsed_key_format();
    let value = format.frame(&name, gucs::server_prefix_bytes()).read(&key);
    Ok(value.map_err(|error| HiloError::Key {
        key: key.escaped(),
        name: sequence.name.to_string(),
        reason: error.to_string(),
    })?)
}
