//! Core's own sequences, for those who mix them up with hilo's.

use std::ffi::{CStr, CString, c_char};
use std::ptr;

use pgrx::pg_sys;

/// One of core's sequences that is called `name` where an SQL identifier is expected, with its
/// schema and in quotes where SQL needs them.
pub fn named(name: &[u8]) -> Option<String> {
    let exact = CString::new(name).ok()?;
    // SAFETY: the strings are C strings, and the lists are core's. All of it looks up the system
    // catalogs, and raises no error if nothing is found.
    unsafe {
        let found = [find(ptr::null(), exact.as_ptr())].into_iter().chain([by_identifier(&exact)]);
        let oid = found.flatten().find(|oid| pg_sys::get_rel_relkind(*oid) == SEQUENCE)?;
        let schema = pg_sys::get_namespace_name(pg_sys::get_rel_namespace(oid));
        let name = pg_sys::get_rel_name(oid);
        if schema.is_null() || name.is_null() {
            return None;
        }
        let quoted = pg_sys::quote_qualified_identifier(schema, name);
        Some(CStr::from_ptr(quoted).to_string_lossy().into_owned())
    }
}

const SEQUENCE: c_char = pg_sys::RELKIND_SEQUENCE as c_char;

/// The relation that an identifier names, such as `orders`, `"Orders"` or `shop.orders`.
///
/// # Safety
/// It must run inside a transaction.
unsafe fn by_identifier(name: &CStr) -> Option<pg_sys::Oid> {
    // SAFETY: SplitIdentifierString writes only into the palloc'ed copy. Each cell of the list
    // points to a C string in that copy.
    unsafe {
        let mut parts: *mut pg_sys::List = ptr::null_mut();
        let copy = pg_sys::pstrdup(name.as_ptr());
        if !pg_sys::SplitIdentifierString(copy, b'.' as c_char, &mut parts) || parts.is_null() {
            return None;
        }
        let part = |at: usize| (*(*parts).elements.add(at)).ptr_value as *const c_char;
        match (*parts).length {
            1 => find(ptr::null(), part(0)),
            2 => find(part(0), part(1)),
            _ => None,
        }
    }
}

/// The relation of this name in a schema or, without one, in the search path.
///
/// # Safety
/// Both must be C strings, of which the first may be null.
unsafe fn find(schema: *const c_char, name: *const c_char) -> Option<pg_sys::Oid> {
    // SAFETY: catalog look-ups by C strings, inside a transaction.
    let found = unsafe {
        match schema.is_null() {
            true => pg_sys::RelnameGetRelid(name),
            false => match pg_sys::get_namespace_oid(schema, true) {
                pg_sys::InvalidOid => pg_sys::InvalidOid,
                schema => pg_sys::get_relname_relid(name, schema),
            },
        }
    };
    (found != pg_sys::InvalidOid).then_some(found)
}

/// Whether a name begins with no schema, or with one of the search path.
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
