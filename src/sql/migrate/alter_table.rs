//! ALTER TABLE under a weaker lock than the statement's own. Core takes ACCESS EXCLUSIVE for every change of a
//! default; but what a default is matters only to those who write, and they are kept out by less.

use std::ffi::CString;
use std::panic::AssertUnwindSafe;

use pgrx::prelude::*;

use crate::catalog::table::next_command;

/// Executes an ALTER TABLE that changes a column's default or identity. The caller has locked the table and all
/// that inherit from it in SHARE ROW EXCLUSIVE mode. As core does, it checks that the current user owns the
/// table, and changes those that inherit too.
pub fn execute(sql: &[u8]) {
    const LOCK: pg_sys::LOCKMODE = pg_sys::ShareRowExclusiveLock as _;
    let text = CString::new(sql).unwrap_or_default();
    // SAFETY: this is what core does for the statement (ProcessUtilitySlow), but for the lock. The parser returns
    // a list with the one statement that the text has; it and the planned statement live in the current memory
    // context. The text outlives the call.
    unsafe {
        let parsed = pg_sys::raw_parser(text.as_ptr(), pg_sys::RawParseMode::RAW_PARSE_DEFAULT);
        let raw: *mut pg_sys::RawStmt = pg_sys::list_nth(parsed, 0).cast();
        let statement: *mut pg_sys::AlterTableStmt = (*raw).stmt.cast();
        let relid = pg_sys::AlterTableLookupRelation(statement, LOCK);
        let planned: *mut pg_sys::PlannedStmt =
            pg_sys::palloc0(size_of::<pg_sys::PlannedStmt>()).cast();
        (*planned).type_ = pg_sys::NodeTag::T_PlannedStmt;
        (*planned).commandType = pg_sys::CmdType::CMD_UTILITY;
        (*planned).utilityStmt = (*raw).stmt;
        let mut context = pg_sys::AlterTableUtilityContext {
            pstmt: planned,
            queryString: text.as_ptr(),
            relid,
            params: std::ptr::null_mut(),
            queryEnv: std::ptr::null_mut(),
        };
        let complete = pg_sys::EventTriggerBeginCompleteQuery();
        PgTryBuilder::new(AssertUnwindSafe(|| {
            pg_sys::EventTriggerDDLCommandStart((*raw).stmt);
            pg_sys::EventTriggerAlterTableStart((*raw).stmt);
            pg_sys::EventTriggerAlterTableRelid(relid);
            pg_sys::AlterTable(statement, LOCK, &mut context);
            pg_sys::EventTriggerAlterTableEnd();
            pg_sys::EventTriggerSQLDrop((*raw).stmt);
            pg_sys::EventTriggerDDLCommandEnd((*raw).stmt);
        }))
        .finally(|| {
            if complete {
                pg_sys::EventTriggerEndCompleteQuery();
            }
        })
        .execute();
    }
    next_command();
}
