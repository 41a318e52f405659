//! The type `hilo.role`: the role that owns or may use a sequence, in the catalog's rows.
//!
//! It stores a role's OID and prints the role's name, so that a dump contains names, as in GRANT
//! and OWNER TO, and a database restored into another cluster gives its sequences to the roles of
//! the same names. A name that no role has raises a warning and becomes [`NOBODY`]; two triggers
//! handle such a row (sql/catalog.sql). A role's name is always printed quoted as in SQL, so
//! neither `public` nor `-` can be mistaken for one.

use std::ffi::{CStr, CString, c_char};
use std::ptr;

use pgrx::prelude::*;

use crate::catalog::roles::{NOBODY, PUBLIC};
use crate::sql::call::raw_function::{argument, raw_functions};
use crate::sql::call::trigger::row_being_inserted;
use crate::sql::types::sequence_type::received_text;

raw_functions!(
    hilo_role_in,
    hilo_role_recv,
    hilo_role_out,
    hilo_role_send,
    hilo_role_skip_row,
    hilo_role_skip_default,
    hilo_role_own_row,
);

const PUBLIC_TEXT: &CStr = c"public";
const NOBODY_TEXT: &CStr = c"-";

/// `hilo.role_in(cstring) RETURNS hilo.role`
#[pg_guard]
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn hilo_role_in(fcinfo: pg_sys::FunctionCallInfo) -> pg_sys::Datum {
    // SAFETY: the function is strict, so its one argument is a C string.
    parse(unsafe { CStr::from_ptr(argument(fcinfo, 0).cast_mut_ptr()) }).into()
}

/// `hilo.role_recv(internal) RETURNS hilo.role`: takes names, as in the text format. A client knows
/// no OIDs.
#[pg_guard]
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn hilo_role_recv(fcinfo: pg_sys::FunctionCallInfo) -> pg_sys::Datum {
    // SAFETY: the function is strict, and Postgres gives a receive function a message.
    parse(unsafe { received_text(argument(fcinfo, 0).cast_mut_ptr()) }).into()
}

/// `hilo.role_out(hilo.role) RETURNS cstring`
#[pg_guard]
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn hilo_role_out(fcinfo: pg_sys::FunctionCallInfo) -> pg_sys::Datum {
    // SAFETY: the function is strict, so its argument is a role. The result is a palloc'ed copy,
    // which the caller may keep or free.
    unsafe { pg_sys::pstrdup(text(role_argument(fcinfo)).as_ptr()) }.into()
}

/// `hilo.role_send(hilo.role) RETURNS bytea`
#[pg_guard]
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn hilo_role_send(fcinfo: pg_sys::FunctionCallInfo) -> pg_sys::Datum {
    // SAFETY: the function is strict, so its argument is a role. The buffer is initialised before
    // it is written to.
    unsafe {
        let text = text(role_argument(fcinfo));
        let mut buffer = pg_sys::StringInfoData::default();
        pg_sys::pq_begintypsend(&mut buffer);
        pg_sys::pq_sendtext(&mut buffer, text.as_ptr(), text.count_bytes() as i32);
        pg_sys::pq_endtypsend(&mut buffer).into()
    }
}

/// Trigger that omits the row. A restored grant to a role that does not exist belongs to no role,
/// and a second such grant would collide with the first.
#[pg_guard]
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn hilo_role_skip_row(fcinfo: pg_sys::FunctionCallInfo) -> pg_sys::Datum {
    // SAFETY: Postgres passes a live call to a trigger function.
    unsafe { row_being_inserted(fcinfo, c"privilege") };
    pg_sys::Datum::null()
}

/// The same for a row of `hilo.default_privilege`.
#[pg_guard]
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn hilo_role_skip_default(
    fcinfo: pg_sys::FunctionCallInfo,
) -> pg_sys::Datum {
    // SAFETY: Postgres passes a live call to a trigger function.
    unsafe { row_being_inserted(fcinfo, c"default_privilege") };
    pg_sys::Datum::null()
}

/// Trigger that makes the current user the owner, as happens to any object whose ALTER … OWNER
/// failed in a restore.
#[pg_guard]
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn hilo_role_own_row(fcinfo: pg_sys::FunctionCallInfo) -> pg_sys::Datum {
    // SAFETY: Postgres passes a live call to a trigger function. The column is replaced only if its
    // values have the size of an OID.
    unsafe {
        let trigger = row_being_inserted(fcinfo, c"sequence");
        let row = (*trigger).tg_trigtuple;
        let descriptor = (*(*trigger).tg_relation).rd_att;
        let mut column = pg_sys::SPI_fnumber(descriptor, c"owner".as_ptr());
        if column <= 0 || pg_sys::get_typlen(pg_sys::SPI_gettypeid(descriptor, column)) != 4 {
            return row.into();
        }
        let mut owner = pg_sys::Datum::from(pg_sys::GetUserId());
        let mut is_null = false;
        pg_sys::heap_modify_tuple_by_cols(
            row,
            descriptor,
            1,
            &raw mut column,
            &raw mut owner,
            &raw mut is_null,
        )
        .into()
    }
}

/// The role that a text stands for. `-` and `public` are read before role names, which are read as
/// SQL reads an identifier.
fn parse(input: &CStr) -> pg_sys::Oid {
    if input == NOBODY_TEXT {
        return NOBODY;
    }
    let name = identifier(input);
    if name.as_c_str() == PUBLIC_TEXT {
        return PUBLIC; // No role can have this name, quoted or not.
    }
    // SAFETY: the name is a C string; the call only looks up the cache of roles.
    let role = unsafe { pg_sys::get_role_oid(name.as_ptr(), true) };
    if role != pg_sys::InvalidOid {
        return role;
    }
    ereport!(
        WARNING,
        PgSqlErrorCode::ERRCODE_UNDEFINED_OBJECT,
        format!("role \"{}\" does not exist", name.to_string_lossy()),
        "The role is read as \"-\", which stands for no role."
    );
    NOBODY
}

/// The single identifier in `input`, without its quotes or folded to lower case.
fn identifier(input: &CStr) -> CString {
    // SAFETY: SplitIdentifierString writes only into the palloc'ed copy. The list has one cell,
    // which points into that copy, and the name is copied from there.
    unsafe {
        let mut names: *mut pg_sys::List = ptr::null_mut();
        let copy = pg_sys::pstrdup(input.as_ptr());
        let split = pg_sys::SplitIdentifierString(copy, b'.' as c_char, &mut names);
        if !split || names.is_null() || (*names).length != 1 {
            ereport!(
                ERROR,
                PgSqlErrorCode::ERRCODE_INVALID_NAME,
                format!("invalid role name: \"{}\"", input.to_string_lossy()),
                "The value must be a role name written as an SQL identifier, \"public\", or \"-\" \
                 for no role."
            );
        }
        CStr::from_ptr((*(*names).elements).ptr_value.cast()).to_owned()
    }
}

/// The text of a role. A role that has been dropped is printed as `-`, and is read back as such.
///
/// # Safety
/// The result lives in the current memory context and must not be used after that is reset.
unsafe fn text<'a>(role: pg_sys::Oid) -> &'a CStr {
    match role {
        PUBLIC => PUBLIC_TEXT,
        NOBODY => NOBODY_TEXT,
        // SAFETY: the name is null, which is checked, or a copy in the current memory context.
        // quote_identifier returns it or another copy there.
        _ => unsafe {
            let name = pg_sys::GetUserNameFromId(role, true);
            if name.is_null() {
                NOBODY_TEXT
            } else {
                CStr::from_ptr(pg_sys::quote_identifier(name))
            }
        },
    }
}

/// # Safety
/// `fcinfo` must be a live call whose first argument is a `hilo.role`.
unsafe fn role_argument(fcinfo: pg_sys::FunctionCallInfo) -> pg_sys::Oid {
    // SAFETY: the caller guarantees that the argument is a `hilo.role`, which is passed by value.
    pg_sys::Oid::from(unsafe { argument(fcinfo, 0) }.value() as u32)
}
