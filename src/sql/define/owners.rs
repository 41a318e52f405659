//! The effects on sequences and privileges of `hilo_set_owner`, DROP OWNED, REASSIGN OWNED and DROP
//! ROLE: the same as to core's own sequences.

use pgrx::pg_sys;
use pgrx::pg_sys::panic::ErrorReport;
use pgrx::prelude::*;

use crate::catalog::columns::column_defaults;
use crate::catalog::rights::privileges::{self, Privileges};
use crate::catalog::rights::{default_privileges, role_references};
use crate::catalog::rows::catalog_tables::catalog_oids;
use crate::catalog::rows::{relations, roles};
use crate::catalog::sequence::definitions::{self, LockedSequence, Sequence};
use crate::errors::HiloError;
use crate::process::ffi;
use crate::process::memory::{self, TryGrow};
use crate::session::invalidation::{self, Change};
use crate::sql::call::border::Call;
use crate::sql::call::raw_function::call_functions;
use crate::sql::call::text::Text;
use crate::sql::define::{ddl_checks, grants};
use crate::sql::types::sequence_type::SequenceName;

call_functions!(note_roles; hilo_note_roles);

/// `hilo_set_owner(name, new_owner)`
#[pg_extern(sql = false)]
fn hilo_set_owner(
    _call: Call,
    name: Option<SequenceName>,
    new_owner: Option<Text>,
) -> Result<(), ErrorReport> {
    let name = ddl_checks::begin_with_name(name, c"hilo_set_owner()")?;
    let new_owner = grants::existing_role(&ddl_checks::require(new_owner, "new owner")?)?;
    Ok(set_owner(&name, new_owner)?)
}

/// Follows core's rules for ALTER SEQUENCE … OWNER TO.
pub fn set_owner(name: &[u8], new_owner: pg_sys::Oid) -> Result<(), HiloError> {
    let owned = ddl_checks::lock_owned(name)?;
    if owned.sequence.owner == new_owner {
        return Ok(());
    }
    if let Some(column) = owned.sequence.owned_by {
        let (name, column) = (owned.sequence.name.to_string(), column.describe());
        return Err(HiloError::LinkedToTable { name, column });
    }
    // SAFETY: these look up the caches of roles, inside a transaction; the check raises an error or
    // does nothing.
    unsafe {
        if !pg_sys::superuser() {
            #[cfg(feature = "pg15")]
            pg_sys::check_is_member_of_role(ffi::current_user(), new_owner);
            #[cfg(not(feature = "pg15"))]
            pg_sys::check_can_set_role(ffi::current_user(), new_owner);
            privileges::may_have_own(new_owner)?;
        }
    }
    give(owned, new_owner)
}

/// Makes `new_owner` the owner of a sequence, with the consequences for its privileges.
///
/// # Errors
/// `SourceGiven`: whoever wrote the source would act as `new_owner`.
pub fn give(locked: LockedSequence, new_owner: pg_sys::Oid) -> Result<(), HiloError> {
    let sequence = &locked.sequence;
    if sequence.definition.source.is_some() && sequence.owner != new_owner {
        return Err(HiloError::SourceGiven(sequence.name.to_string()));
    }
    let (id, old_owner) = (sequence.id, sequence.owner);
    roles::depend_on(new_owner)?;
    locked.update(&Sequence { owner: new_owner, ..sequence.clone() });
    privileges::change_owner(id, old_owner, new_owner)?;
    invalidation::note(id, Change::Outdated)
}

/// The roles that a statement names.
///
/// # Safety
/// `node` must be a DropOwnedStmt or a ReassignOwnedStmt.
unsafe fn old_owners(node: *mut pg_sys::Node) -> Result<Vec<pg_sys::Oid>, HiloError> {
    // SAFETY: the tag of the node tells which of the two it is. A role that does not exist is an
    // error, as in core. The list is made for this call.
    unsafe {
        let roles = match (*node).type_ {
            pg_sys::NodeTag::T_DropOwnedStmt => (*node.cast::<pg_sys::DropOwnedStmt>()).roles,
            _ => (*node.cast::<pg_sys::ReassignOwnedStmt>()).roles,
        };
        relations::oids(pg_sys::roleSpecsToIds(roles))
    }
}

/// Runs before core executes a DROP OWNED or REASSIGN OWNED. Returns whether there is something to
/// do afterwards.
///
/// # Safety
/// As for [`old_owners`].
pub unsafe fn before(node: *mut pg_sys::Node) -> Result<bool, HiloError> {
    if !is_installed() {
        return Ok(false);
    }
    // A user who may not do this must not get as far as a lock, nor may a standby or a read-only
    // transaction. Core will refuse the statement. SAFETY: the caller guarantees the first; the
    // second is a static of xact.c, which is true in recovery too; a node has a tag.
    let (roles, read_only, drops) = unsafe {
        let drops = (*node).type_ == pg_sys::NodeTag::T_DropOwnedStmt;
        (old_owners(node)?, pg_sys::XactReadOnly, drops)
    };
    if read_only || !roles.iter().all(|role| privileges::acts_as(ffi::current_user(), *role)) {
        return Ok(false);
    }
    if drops {
        // Otherwise core would look for privileges on the type _hilo.hilo_role, to revoke them.
        roles.iter().try_for_each(|role| roles::suspend_dependency(*role))?;
    }
    Ok(true)
}

/// Runs after core has executed the statement, which says CASCADE or (`keep`) RESTRICT.
///
/// # Safety
/// As for [`old_owners`].
pub unsafe fn after(node: *mut pg_sys::Node, keep: bool) -> Result<(), HiloError> {
    // DROP OWNED by the extension's owner has dropped the extension.
    if !is_installed() {
        return Ok(());
    }
    // SAFETY: as the caller guarantees; the tag tells which of the two it is.
    unsafe {
        let roles = old_owners(node)?;
        match (*node).type_ {
            pg_sys::NodeTag::T_DropOwnedStmt => drop_owned(&roles, keep),
            _ => {
                let new_owner = (*node.cast::<pg_sys::ReassignOwnedStmt>()).newrole;
                reassign(&roles, pg_sys::get_rolespec_oid(new_owner, false))
            }
        }
    }
}

/// Whether the extension exists in this database, in the library's version. Otherwise the rows
/// cannot be read, and core's own record of the roles decides.
fn is_installed() -> bool {
    catalog_oids().is_ok()
}

fn reassign(from: &[pg_sys::Oid], new_owner: pg_sys::Oid) -> Result<(), HiloError> {
    for role in from.iter().filter(|role| **role != new_owner) {
        for owned in role_references::lock_of_owner(*role)? {
            give(owned, new_owner)?;
        }
    }
    Ok(())
}

/// Drops the sequences that the roles own, and revokes the privileges of the roles.
fn drop_owned(from: &[pg_sys::Oid], keep: bool) -> Result<(), HiloError> {
    let mut owned = Vec::new();
    for role in from {
        roles::resume_dependency(*role)?;
        owned.try_extend(role_references::of_owner(*role)?)?;
    }
    // The tables come before the sequences, as in hilo_drop(), and then the defaults that were
    // added during the waits.
    drop_defaults(owned.iter(), keep)?;
    for role in from {
        let locked = role_references::lock_of_owner(*role)?;
        drop_defaults(locked.iter().map(|one| &one.sequence), keep)?;
        locked.into_iter().try_for_each(ddl_checks::remove)?;
    }
    for role in from {
        for sequence in role_references::with_grants_to(*role)? {
            if let Some(locked) = definitions::lock_existing(sequence.id)? {
                privileges::revoke(&locked.sequence, *role, Privileges::ALL)?;
                invalidation::note(sequence.id, Change::Outdated)?;
            }
        }
        default_privileges::forget(*role)?;
    }
    Ok(())
}

/// Drops the column defaults that use these sequences or, if they are kept, raises an error that
/// names them all.
fn drop_defaults<'a>(
    sequences: impl Iterator<Item = &'a Sequence>,
    keep: bool,
) -> Result<(), HiloError> {
    let mut names = memory::try_collect(sequences.map(|sequence| &sequence.name))?;
    names.sort_unstable();
    if names.is_empty() {
        return Ok(());
    }
    let mut users = column_defaults::all()?;
    users.retain(|(_, name)| names.binary_search(&name).is_ok());
    if keep && !users.is_empty() {
        return Err(HiloError::OwnedHasDependents(column_defaults::describe_users(&users)?));
    }
    users.iter().try_for_each(|(default, _)| column_defaults::drop_default(default))
}

/// Runs in DROP ROLE before core checks whether anything depends on the role, and names what does
/// in this database. For other databases core's own record applies.
pub fn on_drop_role(role: pg_sys::Oid) -> Result<(), HiloError> {
    if !is_installed() {
        return Ok(());
    }
    // From here on no session can give the role anything, and gifts that were under way are
    // visible.
    roles::forget_dependency(role)?;
    let owned = role_references::of_owner(role)?;
    let granted = role_references::with_grants_to(role)?;
    let own = owned.iter().map(|one| format!("owner of hilo sequence \"{}\"", one.name));
    let may = granted.iter().map(|one| format!("privileges for hilo sequence \"{}\"", one.name));
    let defaults = default_privileges::mentioning(role)?;
    let dependents = memory::try_collect(own.chain(may).chain(defaults))?;
    match dependents.is_empty() {
        true => Ok(()),
        false => Err(HiloError::RoleHasDependents { role: roles::name_of(role), dependents }),
    }
}

/// A trigger that records the roles of rows that were copied into the catalog, as by a restore. The
/// roles of rows of an older version are recorded by the first worker after an update of the SQL
/// objects.
fn note_roles(_: pg_sys::FunctionCallInfo) -> Result<pg_sys::Datum, HiloError> {
    match role_references::reconcile() {
        Ok(()) | Err(HiloError::Version { newer: false, .. }) => Ok(pg_sys::Datum::null()),
        Err(error) => Err(error),
    }
}
