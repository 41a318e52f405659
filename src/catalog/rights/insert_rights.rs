//! The right to draw from a sequence that a column owns, for roles that may insert into its table.
//! With an identity column of core's it is the same: whoever may insert takes numbers.
//!
//! The right comes with INSERT on the table, on a table that inherits from it, or on a view that
//! inserts there as its owner. A session that has drawn by such a right watches the relation: core
//! tells it of each change there, also of privileges.

use pgrx::pg_sys;

use crate::catalog::columns::column_ref::ColumnRef;
use crate::catalog::rows::scan::{Index, Match};
use crate::catalog::rows::table::Table;
use crate::catalog::rows::{dependents, relations, watched};
use crate::errors::HiloError;
use crate::process::memory::TryGrow;

/// Whether `user` may insert where the column is filled by its default.
pub fn may_insert(column: ColumnRef, user: pg_sys::Oid) -> Result<bool, HiloError> {
    let mut seen = Vec::new();
    for table in relations::with_children(column.relid)? {
        if inserts(table, user, &mut seen)? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Does the same for one relation and the views above it, without those in `seen`.
fn inserts(
    relid: pg_sys::Oid,
    user: pg_sys::Oid,
    seen: &mut Vec<pg_sys::Oid>,
) -> Result<bool, HiloError> {
    if seen.contains(&relid) {
        return Ok(false);
    }
    // SAFETY: raises an error if views lie above each other in too great a number, or does nothing.
    unsafe { pg_sys::check_stack_depth() };
    seen.try_push(relid)?;
    watched::add(relid)?;
    if has_insert(relid, user) {
        return Ok(true);
    }
    for view in views_of(relid)? {
        watched::add(view)?;
        if has_insert(relid, relations::owner(view))
            && inserts(view, user, seen)?
            && inserts_as_owner(view, relid)
        {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Whether a role may insert into a relation, or only give some of its columns values.
fn has_insert(relid: pg_sys::Oid, role: pg_sys::Oid) -> bool {
    let (insert, ok) = (pg_sys::AclMode::from(pg_sys::ACL_INSERT), pg_sys::AclResult::ACLCHECK_OK);
    let mut missing = false;
    // SAFETY: look-ups in system caches, inside a transaction.
    unsafe {
        pg_sys::pg_class_aclcheck_ext(relid, role, insert, &mut missing) == ok
            || !missing
                && pg_sys::pg_attribute_aclcheck_all(
                    relid,
                    role,
                    insert,
                    pg_sys::AclMaskHow::ACLMASK_ANY,
                ) == ok
    }
}

/// The views and other relations with a rule that names a relation.
fn views_of(relid: pg_sys::Oid) -> Result<Vec<pg_sys::Oid>, HiloError> {
    const BY_OID: pg_sys::Oid = pg_sys::Oid::from_u32(2692);
    const OID: i16 = 1;
    const RELATION: i16 = 3;
    let rewrite = Table::read(dependents::RULES)?;
    let mut views = Vec::new();
    for rule in dependents::find((pg_sys::RelationRelationId, relid), dependents::RULES)? {
        let key = [(OID, Match::Oid(rule))];
        if let Some(row) = rewrite.find(Index::Core(BY_OID), &key)
            && row.oid(RELATION) != relid
        {
            views.try_push(row.oid(RELATION))?;
        }
    }
    Ok(views)
}

/// Whether a relation is a view whose inserts core makes inserts into `base`, with the rights of
/// the view's owner. No rule or trigger does something else instead.
fn inserts_as_owner(view: pg_sys::Oid, base: pg_sys::Oid) -> bool {
    // SAFETY: the relation is null, which is checked, or stays valid until it is closed. The
    // options of a view are null or of this type, and a query that is updatable has one item in
    // FROM. Rules and triggers are null or as many as they say.
    unsafe {
        if pg_sys::get_rel_relkind(view) as u8 != pg_sys::RELKIND_VIEW {
            return false;
        }
        let relation = pg_sys::RelationIdGetRelation(view);
        if relation.is_null() {
            return false;
        }
        let options: *const pg_sys::ViewOptions = (*relation).rd_options.cast();
        let as_owner = options.as_ref().is_none_or(|options| !options.security_invoker);
        let rules = (*relation).rd_rules.as_ref();
        let is_instead = |at| {
            let rule = *rules.map_or(std::ptr::null_mut(), |rules| rules.rules).add(at);
            (*rule).event == pg_sys::CmdType::CMD_INSERT && (*rule).isInstead
        };
        let ruled = (0..rules.map_or(0, |rules| rules.numLocks as usize)).any(is_instead);
        let triggers = (*relation).trigdesc.as_ref();
        let caught = triggers.is_some_and(|triggers| triggers.trig_insert_instead_row);
        let query = pg_sys::get_view_query(relation);
        let updatable = pg_sys::view_query_is_auto_updatable(query, true).is_null() && {
            let from = pg_sys::list_nth((*(*query).jointree).fromlist, 0);
            let place = (*from.cast::<pg_sys::RangeTblRef>()).rtindex;
            let entry = pg_sys::list_nth((*query).rtable, place - 1);
            (*entry.cast::<pg_sys::RangeTblEntry>()).relid == base
        };
        pg_sys::RelationClose(relation);
        as_owner && updatable && !ruled && !caught
    }
}
