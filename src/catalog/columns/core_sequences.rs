//! Looks for a sequence of core's by its name, for errors about a name that no hilo sequence has.

use std::ffi::{CStr, CString, c_char};

use pgrx::pg_sys;

use crate::catalog::rows::name::identifiers;
use crate::catalog::rows::relations;

/// The core sequence that `name` means where SQL expects an identifier. Its name is returned with
/// the schema, and in quotes where SQL needs them.
pub fn by_name(name: &[u8]) -> Option<String> {
    let exact = CString::new(name).ok()?;
    let spelled = match identifiers(&exact).as_deref() {
        Some([name]) => on_path(name),
        Some([schema, name]) => relations::by_name(schema, name),
        _ => pg_sys::InvalidOid,
    };
    // SAFETY: a look-up in a system cache, which takes any OID.
    let is_sequence = |oid: &pg_sys::Oid| unsafe { pg_sys::get_rel_relkind(*oid) } == SEQUENCE;
    let found = relations::identifier([on_path(&exact), spelled].into_iter().find(is_sequence)?)?;
    Some(String::from_utf8_lossy(&found).into_owned())
}

const SEQUENCE: c_char = pg_sys::RELKIND_SEQUENCE as c_char;

/// The relation of this name in the search path; InvalidOid if there is none.
fn on_path(name: &CStr) -> pg_sys::Oid {
    // SAFETY: catalog look-ups inside a transaction, by a C string.
    unsafe { pg_sys::RelnameGetRelid(name.as_ptr()) }
}

/// Whether a name has no schema, or one that is in the search path.
pub fn is_on_path(name: &[u8]) -> bool {
    let Some(dot) = name.iter().position(|byte| *byte == b'.') else { return true };
    let Ok(schema) = CString::new(&name[..dot]) else { return false };
    // SAFETY: catalog look-ups inside a transaction; the name is a C string, and the list is made
    // for this call.
    unsafe {
        let found = pg_sys::get_namespace_oid(schema.as_ptr(), true);
        pg_sys::list_member_oid(pg_sys::fetch_search_path(false), found)
    }
}
