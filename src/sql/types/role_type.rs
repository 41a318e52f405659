//! The type `_hilo.hilo_role`: the role that owns or may use a sequence, in the catalog's rows.
//!
//! It stores a role's OID and prints the role's name. So a dump contains names, as in GRANT and
//! OWNER TO. A database restored into another cluster gives its sequences to the roles of the same
//! names. While a dump is restored, a name that no role has raises a warning and becomes
//! [`NOBODY`]; triggers handle such a row (sql/triggers.sql). Otherwise it is an error. A role's
//! name is always printed quoted as in SQL, so neither `public` nor `-` can be mistaken for one.

use std::ffi::{CStr, CString};

use pgrx::prelude::*;

use crate::catalog::rows::name::identifiers;
use crate::catalog::rows::restore;
use crate::catalog::rows::roles::{self, NOBODY, PUBLIC};
use crate::errors::HiloError;
use crate::sql::call::border::argument;
use crate::sql::call::raw_function::{input_functions, output_functions};

// A client knows no OIDs, so the binary format has names too.
input_functions!(parse; hilo_role_in, hilo_role_recv);
output_functions!(text; hilo_role_out, hilo_role_send);

const PUBLIC_TEXT: &CStr = c"public";
const NOBODY_TEXT: &CStr = c"-";

/// An argument of this type.
#[derive(Clone, Copy)]
pub struct Role(pub pg_sys::Oid);

argument!(<'a> Role: |datum| Role(pg_sys::Oid::from_u32(datum.value() as u32)));

/// The role that a text stands for. `-` and `public` are read before role names, which are read as
/// SQL reads an identifier.
fn parse(input: &CStr) -> Result<pg_sys::Oid, HiloError> {
    if input == NOBODY_TEXT {
        return Ok(NOBODY);
    }
    let name = identifier(input)?;
    if name == PUBLIC_TEXT {
        return Ok(PUBLIC); // No role can have this name, quoted or not.
    }
    // SAFETY: the name is a C string; the call only looks up the cache of roles.
    let role = unsafe { pg_sys::get_role_oid(name.as_ptr(), true) };
    if role != pg_sys::InvalidOid {
        return Ok(role);
    }
    restore::read_as_none("42704", format!("role \"{}\"", name.to_string_lossy()), "role");
    Ok(NOBODY)
}

/// The single identifier in `input`, without its quotes or folded to lower case.
fn identifier(input: &CStr) -> Result<&CStr, HiloError> {
    match identifiers(input).as_deref() {
        Some([name]) => Ok(name),
        _ => Err(HiloError::RoleName(input.to_string_lossy().into_owned())),
    }
}

/// The text of a role. A role that has been dropped is printed as `-`, and is read back as such.
fn text(role: pg_sys::Datum) -> CString {
    let role = pg_sys::Oid::from(role.value() as u32);
    roles::identifier(role).unwrap_or_else(|| NOBODY_TEXT.to_owned())
}
