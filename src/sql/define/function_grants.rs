//! GRANT and REVOKE on a function of hilo with the arguments of another version, as a dump of that
//! version has them. They are made to name the function of this version.

use std::ffi::CStr;
use std::iter::successors;
use std::ptr::null_mut;

use pgrx::prelude::*;
use pgrx::{PgList, pg_sys};

/// Whether a statement grants or revokes privileges on functions that it names.
///
/// # Safety
/// It must be a node of the parser's.
pub unsafe fn concerns(node: *mut pg_sys::Node) -> bool {
    // SAFETY: the tag of a node says of which type it is.
    unsafe {
        (*node).type_ == pg_sys::NodeTag::T_GrantStmt && {
            let grant = node.cast::<pg_sys::GrantStmt>();
            (*grant).objtype == pg_sys::ObjectType::OBJECT_FUNCTION
                && (*grant).targtype == pg_sys::GrantTargetType::ACL_TARGET_OBJECT
        }
    }
}

/// The statement, or a copy of it in which functions of ours have the arguments of this version.
///
/// # Safety
/// It must be one that `concerns`.
pub unsafe fn in_this_version(statement: *mut pg_sys::PlannedStmt) -> *mut pg_sys::PlannedStmt {
    // SAFETY: the copy is of the same types as the original, whose objects are functions.
    unsafe {
        let copy = pg_sys::copyObjectImpl(statement.cast()).cast::<pg_sys::PlannedStmt>();
        let grant = (*copy).utilityStmt.cast::<pg_sys::GrantStmt>();
        let mut result = statement;
        for function in PgList::<pg_sys::ObjectWithArgs>::from_pg((*grant).objects).iter_ptr() {
            if let Some(found) = counterpart(function) {
                let args = (*found).args.as_slice((*found).nargs as usize);
                (*function).objargs = args.iter().fold(null_mut(), |list, arg| {
                    pg_sys::lappend(list, pg_sys::makeTypeNameFromOid(*arg, -1).cast())
                });
                let name = CStr::from_ptr(pg_sys::format_procedure((*found).oid)).to_string_lossy();
                notice!("a function has other arguments in this version of hilo: {name}");
                result = copy;
            }
        }
        result
    }
}

/// The function of ours that is meant by other arguments: the only one of its name, or the only one
/// with these arguments and more.
unsafe fn counterpart(
    function: *mut pg_sys::ObjectWithArgs,
) -> Option<*mut pg_sys::_FuncCandidateList> {
    // SAFETY: the parser has made the node; the look-ups run inside a transaction.
    unsafe {
        let names = (*function).objname;
        let lookup = pg_sys::LookupFuncWithArgs;
        // Dumps name the schema.
        if pg_sys::list_length(names) != 2
            || (*function).args_unspecified
            || lookup(pg_sys::ObjectType::OBJECT_FUNCTION, function, true) != pg_sys::InvalidOid
        {
            return None;
        }
        let hilo = pg_sys::get_extension_oid(c"hilo".as_ptr(), true);
        let find = |is_meant: &dyn Fn(*mut pg_sys::_FuncCandidateList) -> bool| {
            let first = candidates(names);
            let mut found = successors((!first.is_null()).then_some(first), |&one| {
                (!(*one).next.is_null()).then_some((*one).next)
            })
            .filter(|&one| {
                let owner = pg_sys::getExtensionOfObject(pg_sys::ProcedureRelationId, (*one).oid);
                owner == hilo && hilo != pg_sys::InvalidOid && is_meant(one)
            });
            found.next().filter(|_| found.next().is_none())
        };
        find(&|_| true).or_else(|| find(&|one| begins_with(one, (*function).objargs)))
    }
}

/// The functions of a name, if there are any.
///
/// # Safety
/// `names` must be a list of the parts of a name.
unsafe fn candidates(names: *mut pg_sys::List) -> pg_sys::FuncCandidateList {
    let (any, none) = (-1, null_mut());
    // SAFETY: the look-up runs inside a transaction.
    unsafe {
        #[cfg(any(feature = "pg15", feature = "pg16", feature = "pg17", feature = "pg18"))]
        return pg_sys::FuncnameGetCandidates(names, any, none, false, false, false, true);
        #[cfg(not(any(feature = "pg15", feature = "pg16", feature = "pg17", feature = "pg18")))]
        return pg_sys::FuncnameGetCandidates(names, any, none, false, false, false, true, &mut 0);
    }
}

/// Whether the first arguments of a function have these types.
unsafe fn begins_with(function: *mut pg_sys::_FuncCandidateList, types: *mut pg_sys::List) -> bool {
    // SAFETY: a candidate has so many arguments; the list is one of names of types.
    unsafe {
        let args = (*function).args.as_slice((*function).nargs as usize);
        let types = PgList::<pg_sys::TypeName>::from_pg(types);
        types.len() <= args.len()
            && types
                .iter_ptr()
                .zip(args)
                .all(|(name, arg)| pg_sys::LookupTypeNameOid(null_mut(), name, true) == *arg)
    }
}
