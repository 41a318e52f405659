//! Columns that do not take values of the caller's: those whose default calls
//! `hilo_nextval_always`. For them, an INSERT or UPDATE is checked as core checks one for identity
//! columns that are GENERATED ALWAYS (rewriteTargetListIU). As there, COPY is not checked. Core
//! checks what a view or a rule makes of a statement; the hook sees the statement as it was
//! written. So it does not check what comes through a view, a rule, or a function with a BEGIN
//! ATOMIC body. A partition and a table that inherits are protected where core protects them.
//!
//! A trigger or a CHECK could not do this: neither can tell a given value from one that the
//! default has drawn, or sees OVERRIDING. The hook runs for everybody's statements. An INSERT as
//! text, which is 114,000 instructions from parsing to its row, takes 1,300 more: 1.1 %
//! (callgrind, quick build). Each column that has a default and is given another value takes 480
//! more. Rows, and statements that are prepared, take none.

use std::ffi::{CStr, c_char};

use pgrx::prelude::*;

use crate::catalog::rows::catalog_tables::catalog_oids;
use crate::catalog::rows::name::escape_for_message;
use crate::errors::HiloError;
use crate::process::ffi;

use pg_sys::OverridingKind::{OVERRIDING_SYSTEM_VALUE, OVERRIDING_USER_VALUE};

/// The function that marks a default.
pub const FUNCTION: &CStr = c"hilo_nextval_always";

/// Whether a statement contains anything for [`check`].
///
/// # Safety
/// `query` must be a statement as the parser leaves it.
pub unsafe fn concerns(query: *const pg_sys::Query) -> bool {
    use pg_sys::CmdType::{CMD_INSERT, CMD_MERGE, CMD_UPDATE, CMD_UTILITY};
    // SAFETY: a utility statement has a node.
    unsafe {
        match (*query).commandType {
            CMD_INSERT | CMD_UPDATE | CMD_MERGE => true,
            CMD_UTILITY => (*(*query).utilityStmt).type_ == pg_sys::NodeTag::T_ExplainStmt,
            _ => (*query).hasModifyingCTE,
        }
    }
}

/// Checks an analyzed statement, and the statements in it.
///
/// # Safety
/// As for [`concerns`].
pub unsafe fn check(query: *mut pg_sys::Query) {
    // SAFETY: what EXPLAIN and WITH contain has been analyzed with the statement.
    unsafe {
        if !concerns(query) {
            return;
        }
        if (*query).commandType == pg_sys::CmdType::CMD_UTILITY {
            let explain: *mut pg_sys::ExplainStmt = (*query).utilityStmt.cast();
            return check((*explain).query.cast());
        }
        for part in ffi::cells::<pg_sys::CommonTableExpr>((*query).cteList) {
            if (*(*part).ctequery).type_ == pg_sys::NodeTag::T_Query {
                check((*part).ctequery.cast());
            }
        }
        check_target(query);
    }
}

unsafe fn check_target(query: *mut pg_sys::Query) {
    // SAFETY: the parser has locked the target and numbered it in the range table. A relation's
    // descriptor lives as long as the relation is open.
    unsafe {
        // 0: the statement has no result relation.
        let Ok(at) = usize::try_from((*query).resultRelation - 1) else { return };
        let mut entries = ffi::cells::<pg_sys::RangeTblEntry>((*query).rtable);
        let Some(entry) = entries.nth(at) else { return };
        if (*entry).rtekind != pg_sys::RTEKind::RTE_RELATION {
            return;
        }
        let relation = pg_sys::relation_open((*entry).relid, pg_sys::NoLock as _);
        let constraints = (*(*relation).rd_att).constr;
        if !constraints.is_null() && (*constraints).num_defval > 0 {
            let defaults = std::slice::from_raw_parts(
                (*constraints).defval,
                usize::from((*constraints).num_defval),
            );
            Check { query, relation: &*relation, defaults }.statement();
        }
        pg_sys::relation_close(relation, pg_sys::NoLock as _);
    }
}

struct Check<'a> {
    query: *mut pg_sys::Query,
    relation: &'a pg_sys::RelationData,
    defaults: &'a [pg_sys::AttrDefault],
}

impl Check<'_> {
    unsafe fn statement(&self) {
        // SAFETY: the lists of a query hold nodes of the types that they are documented to hold.
        unsafe {
            let query = &*self.query;
            match query.commandType {
                pg_sys::CmdType::CMD_INSERT => {
                    self.targets(query.targetList, Some(query.override_));
                    if !query.onConflict.is_null() {
                        self.targets((*query.onConflict).onConflictSet, None);
                    }
                }
                pg_sys::CmdType::CMD_UPDATE => self.targets(query.targetList, None),
                pg_sys::CmdType::CMD_MERGE => {
                    for action in ffi::cells::<pg_sys::MergeAction>(query.mergeActionList) {
                        let inserts = (*action).commandType == pg_sys::CmdType::CMD_INSERT;
                        let overriding = inserts.then_some((*action).override_);
                        self.targets((*action).targetList, overriding);
                    }
                }
                _ => {}
            }
        }
    }

    /// Checks the targets that are protected columns and get another value than DEFAULT. They are
    /// those of an INSERT with this OVERRIDING clause or, with `None`, of an UPDATE.
    unsafe fn targets(
        &self,
        targets: *mut pg_sys::List,
        overriding: Option<pg_sys::OverridingKind::Type>,
    ) {
        // SAFETY: the list is one of target entries.
        unsafe {
            for target in ffi::cells::<pg_sys::TargetEntry>(targets) {
                let given = &mut *target;
                if given.resjunk
                    || !self.is_protected(given.resno)
                    || self.is_default(given.expr.cast())
                {
                    continue;
                }
                match overriding {
                    Some(OVERRIDING_SYSTEM_VALUE) => {}
                    Some(OVERRIDING_USER_VALUE) => given.expr = default_like(given.expr),
                    _ => self.refuse(given.resno, overriding.is_some()),
                }
            }
        }
    }

    fn is_protected(&self, attnum: pg_sys::AttrNumber) -> bool {
        let default = self.defaults.iter().find(|default| default.adnum == attnum);
        default.is_some_and(|default| {
            // SAFETY: the descriptor of a relation has the text of each default.
            !default.adbin.is_null()
                && unsafe { calls_function(default.adbin) }
                && !self.is_passed_on(attnum)
        })
    }

    /// Whether the column has its default from a parent that would not pass on an identity. Tables
    /// that inherit do not get an identity, nor do partitions before PostgreSQL 17.
    fn is_passed_on(&self, attnum: pg_sys::AttrNumber) -> bool {
        // SAFETY: a default is one of a column that the descriptor has.
        let column = unsafe { ffi::attribute(self.relation.rd_att, attnum) };
        // SAFETY: the descriptor of a relation has its row of pg_class.
        let is_partition = unsafe { (*self.relation.rd_rel).relispartition };
        let is_free = match is_partition {
            true => cfg!(any(feature = "pg15", feature = "pg16")),
            false => !column.attislocal,
        };
        column.attinhcount > 0 && is_free
    }

    /// Whether an expression is DEFAULT, in a VALUES list in every row.
    unsafe fn is_default(&self, expression: *mut pg_sys::Node) -> bool {
        // SAFETY: the tag of a node tells its type. A variable names an entry of the range table,
        // and a column that each row of a VALUES list has.
        unsafe {
            if expression.is_null() {
                return false;
            }
            match (*expression).type_ {
                pg_sys::NodeTag::T_SetToDefault => true,
                pg_sys::NodeTag::T_Var => {
                    let variable = &*expression.cast::<pg_sys::Var>();
                    let rtable = (*self.query).rtable;
                    let at = variable.varno;
                    if variable.varlevelsup > 0 || at < 1 || at > pg_sys::list_length(rtable) {
                        return false;
                    }
                    let entry: *mut pg_sys::RangeTblEntry = pg_sys::list_nth(rtable, at - 1).cast();
                    let rows = (*entry).values_lists;
                    (*entry).rtekind == pg_sys::RTEKind::RTE_VALUES
                        && ffi::cells::<pg_sys::List>(rows).all(|row| {
                            let column = i32::from(variable.varattno) - 1;
                            let value: *mut pg_sys::Node = pg_sys::list_nth(row, column).cast();
                            (*value).type_ == pg_sys::NodeTag::T_SetToDefault
                        })
                }
                _ => false,
            }
        }
    }

    unsafe fn refuse(&self, attnum: pg_sys::AttrNumber, inserts: bool) {
        // SAFETY: the target is a column of the relation; the name is a C string.
        let column = unsafe {
            let name = pg_sys::get_attname(self.relation.rd_id, attnum, false);
            escape_for_message(CStr::from_ptr(name).to_bytes())
        };
        let message = match inserts {
            true => format!("cannot insert a non-DEFAULT value into column \"{column}\""),
            false => format!("column \"{column}\" can only be updated to DEFAULT"),
        };
        HiloError::GeneratedAlways { message, column }.raise();
    }
}

/// DEFAULT, of the type of an expression.
unsafe fn default_like(expression: *mut pg_sys::Expr) -> *mut pg_sys::Expr {
    // SAFETY: the new node is zeroed memory of its size in the current memory context, which is the
    // statement's.
    unsafe {
        let node: *mut pg_sys::SetToDefault =
            pg_sys::palloc0(size_of::<pg_sys::SetToDefault>()).cast();
        (*node).xpr.type_ = pg_sys::NodeTag::T_SetToDefault;
        (*node).typeId = pg_sys::exprType(expression.cast());
        (*node).typeMod = pg_sys::exprTypmod(expression.cast());
        (*node).collation = pg_sys::exprCollation(expression.cast());
        (*node).location = -1;
        node.cast()
    }
}

/// Whether the text of a stored expression calls the function that marks protected columns. Every
/// INSERT that gives a value to a column with a default asks this, so the C library searches the
/// text.
///
/// # Safety
/// `text` must be a C string.
unsafe fn calls_function(mut text: *const c_char) -> bool {
    const CALL: &CStr = c":funcid ";
    loop {
        // SAFETY: both are C strings, and what is found is followed by the rest of the text.
        let function = unsafe {
            let found = libc::strstr(text, CALL.as_ptr());
            if found.is_null() {
                return false;
            }
            text = found.add(CALL.count_bytes());
            pg_sys::Oid::from_u32(libc::strtoul(text, std::ptr::null_mut(), 10) as u32)
        };
        // Core's own functions have low numbers.
        if function.to_u32() >= pg_sys::FirstNormalObjectId
            && is_of_extension(function, &[FUNCTION])
        {
            return true;
        }
    }
}

/// Whether a function is the extension's and has one of these names.
pub fn is_of_extension(oid: pg_sys::Oid, names: &[&CStr]) -> bool {
    // SAFETY: look-ups in system caches, inside a transaction; the name is null, which is checked,
    // or a C string.
    unsafe {
        let name = pg_sys::get_func_name(oid);
        if name.is_null() || !names.contains(&CStr::from_ptr(name)) {
            return false;
        }
        catalog_oids().ok().map(|ids| ids.schema) == Some(pg_sys::get_func_namespace(oid))
    }
}
