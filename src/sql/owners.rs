//! What becomes of sequences and privileges when roles go: `hilo_set_owner`, DROP OWNED, REASSIGN OWNED
//! and DROP ROLE, each as core treats its own sequences.

use std::collections::HashMap;

use pgrx::pg_sys;
use pgrx::prelude::*;

use super::args::{Args, sql_functions};
use super::ddl;
use super::raw_function::raw_functions;
use crate::catalog::column_defaults::{self, ColumnDefault};
use crate::catalog::definitions::{self, LockedSequence, Sequence};
use crate::catalog::name::Name;
use crate::catalog::privileges::{self, Privileges};
use crate::catalog::table::next_command;
use crate::catalog::{self, catalog_oids, role_references, roles};
use crate::errors::{HiloError, OrRaise};
use crate::ffi;
use crate::memory::{self, Grow};
use crate::session::invalidation::{self, Change};

sql_functions!(hilo_set_owner);
raw_functions!(hilo_note_roles);

/// `hilo_set_owner(name, new_owner)`: by core's rules for ALTER SEQUENCE … OWNER TO.
fn hilo_set_owner(args: Args) {
    ddl::begin_write(c"hilo_set_owner()");
    let name = ddl::required_name(args);
    ddl::required(args, 1, "new owner");
    let new_owner = ddl::existing_role(args.bytes(1));
    let owned = ddl::lock_owned(name);
    if owned.sequence.owner == new_owner {
        return;
    }
    // SAFETY: looks into the caches of roles; the second raises an error or does nothing.
    unsafe {
        if !pg_sys::superuser() {
            #[cfg(feature = "pg15")]
            pg_sys::check_is_member_of_role(ffi::current_user(), new_owner);
            #[cfg(not(feature = "pg15"))]
            pg_sys::check_can_set_role(ffi::current_user(), new_owner);
            privileges::may_have_own(new_owner).or_raise();
        }
    }
    give(owned, new_owner).or_raise();
}

fn give(locked: LockedSequence, new_owner: pg_sys::Oid) -> Result<(), HiloError> {
    let sequence = &locked.sequence;
    let (id, old_owner) = (sequence.id, sequence.owner);
    roles::depend_on(new_owner)?;
    locked.update(&Sequence { owner: new_owner, ..sequence.clone() });
    privileges::change_owner(id, old_owner, new_owner)?;
    invalidation::note(id, Change::Outdated)
}

/// Those of `found` that `role` still owns, each locked.
fn lock_owned_by(role: pg_sys::Oid, found: &[Sequence]) -> Result<Vec<LockedSequence>, HiloError> {
    let mut locked = Vec::new();
    for sequence in found {
        if let Some(found) = definitions::lock_existing(sequence.id)?
            && found.sequence.owner == role
        {
            locked.grow(found)?;
        }
    }
    Ok(locked)
}

/// What DROP OWNED or REASSIGN OWNED is about to do; of the memory context of its statement.
pub struct Belongings {
    roles: *mut pg_sys::List,
    /// REASSIGN OWNED … TO.
    heir: Option<pg_sys::Oid>,
    cascade: bool,
}

/// Before core runs such a statement; it may free it. Null where there is nothing to do.
///
/// # Safety
/// `node` must be a DropOwnedStmt or a ReassignOwnedStmt.
#[pg_guard]
pub unsafe extern "C-unwind" fn before(node: *mut pg_sys::Node) -> *mut Belongings {
    // SAFETY: the node is what its tag says. Whoever is not there is an error, as in core.
    let belongings = unsafe {
        if (*node).type_ == pg_sys::NodeTag::T_DropOwnedStmt {
            let statement: *mut pg_sys::DropOwnedStmt = node.cast();
            Belongings {
                roles: pg_sys::roleSpecsToIds((*statement).roles),
                heir: None,
                cascade: (*statement).behavior == pg_sys::DropBehavior::DROP_CASCADE,
            }
        } else {
            let statement: *mut pg_sys::ReassignOwnedStmt = node.cast();
            Belongings {
                roles: pg_sys::roleSpecsToIds((*statement).roles),
                heir: Some(pg_sys::get_rolespec_oid((*statement).newrole, false)),
                cascade: false,
            }
        }
    };
    if !installed() {
        return std::ptr::null_mut();
    }
    let roles = belongings.roles();
    // Who may not do this must not come as far as a lock, nor a standby; core will refuse.
    // SAFETY: reads a static of xact.c, true in recovery too.
    let read_only = unsafe { pg_sys::XactReadOnly };
    let allowed = roles.iter().all(|role| privileges::acts_as(ffi::current_user(), *role));
    if read_only || !allowed {
        return std::ptr::null_mut();
    }
    if belongings.heir.is_none() {
        // Else core would look for privileges on our type, to revoke them.
        roles.iter().try_for_each(|role| roles::forget_dependency(*role)).or_raise();
    }
    // SAFETY: memory of the statement's context, large enough, written before it is read.
    unsafe {
        let kept = pg_sys::palloc(size_of::<Belongings>()) as *mut Belongings;
        kept.write(belongings);
        kept
    }
}

/// After core has done its part.
///
/// # Safety
/// `belongings` must come from [`before`], in the same statement.
#[pg_guard]
pub unsafe extern "C-unwind" fn after(belongings: *mut Belongings) {
    // SAFETY: the caller's.
    let belongings = unsafe { &*belongings };
    next_command();
    // DROP OWNED by the owner of the extension.
    if !installed() {
        return;
    }
    match belongings.heir {
        Some(heir) => reassign(&belongings.roles(), heir).or_raise(),
        None => drop_owned(&belongings.roles(), belongings.cascade).or_raise(),
    }
}

impl Belongings {
    fn roles(&self) -> Vec<pg_sys::Oid> {
        // SAFETY: null, or a list of oids as long as it says.
        unsafe {
            match self.roles.as_ref() {
                None => Vec::new(),
                Some(list) => {
                    (0..list.length as usize).map(|at| (*list.elements.add(at)).oid_value).collect()
                }
            }
        }
    }
}

/// Whether the extension is in this database, in the library's version: what cannot be read is left to
/// core's record.
fn installed() -> bool {
    catalog_oids().is_ok()
}

fn reassign(from: &[pg_sys::Oid], heir: pg_sys::Oid) -> Result<(), HiloError> {
    for role in from.iter().filter(|role| **role != heir) {
        for owned in lock_owned_by(*role, &role_references::owned_by(*role)?)? {
            give(owned, heir)?;
        }
    }
    Ok(())
}

/// Drops what the roles own, which others' column defaults keep from it unless they go too, and revokes
/// what was granted to them.
fn drop_owned(from: &[pg_sys::Oid], cascade: bool) -> Result<(), HiloError> {
    let mut owned = Vec::new();
    for role in from {
        owned.push((*role, role_references::owned_by(*role)?));
    }
    let schema = privileges::extension_schema(catalog_oids()?.extension)?;
    let type_oid = catalog::type_named(c"hilo_sequence", schema)?;
    // The tables before the sequences, as in hilo_drop(), and then what came while we waited.
    drop_defaults(type_oid, owned.iter().flat_map(|(_, all)| all), cascade)?;
    for (role, found) in &owned {
        let locked = lock_owned_by(*role, found)?;
        drop_defaults(type_oid, locked.iter().map(|one| &one.sequence), cascade)?;
        locked.into_iter().for_each(ddl::remove);
    }
    for role in from {
        for sequence in role_references::granted_to(*role)? {
            if let Some(locked) = definitions::lock_existing(sequence.id)? {
                privileges::revoke(&locked.sequence, *role, Privileges::ALL)?;
                invalidation::note(sequence.id, Change::Outdated)?;
            }
        }
    }
    Ok(())
}

/// Drops the column defaults that use these sequences, or names all of them in an error.
fn drop_defaults<'a>(
    type_oid: pg_sys::Oid,
    sequences: impl Iterator<Item = &'a Sequence>,
    cascade: bool,
) -> Result<(), HiloError> {
    let names = memory::collected(sequences.map(|sequence| &sequence.name))?;
    if names.is_empty() {
        return Ok(());
    }
    let mut users: HashMap<Name, Vec<ColumnDefault>> = HashMap::new();
    for (default, name) in column_defaults::all(type_oid) {
        users.try_reserve(1).map_err(|_| HiloError::OutOfMemory)?;
        users.entry(name).or_default().grow(default)?;
    }
    let used: Vec<(&Name, &ColumnDefault)> =
        memory::collected(names.iter().flat_map(|name| {
            users.get(*name).into_iter().flatten().map(|default| (*name, default))
        }))?;
    if !used.is_empty() && !cascade {
        let say = |(name, default): &(&Name, &ColumnDefault)| {
            let default = column_defaults::describe(default);
            format!("{default} depends on hilo sequence \"{name}\"")
        };
        return Err(HiloError::OwnedHasDependents(memory::collected(used.iter().map(say))?));
    }
    used.iter().for_each(|(_, default)| column_defaults::drop_default(default));
    Ok(())
}

/// DROP ROLE, before core looks whether anything depends on the role: names what does here. Elsewhere
/// core's own record of it speaks.
pub fn role_dropped(role: pg_sys::Oid) {
    if !installed() {
        return;
    }
    // Nobody gives it anything from here on, and what was being given is known.
    roles::forget_dependency(role).or_raise();
    let owned = role_references::owned_by(role).or_raise();
    let granted = role_references::granted_to(role).or_raise();
    let own = owned.iter().map(|one| format!("owner of hilo sequence \"{}\"", one.name));
    let may = granted.iter().map(|one| format!("privileges for hilo sequence \"{}\"", one.name));
    let dependents = memory::collected(own.chain(may)).or_raise();
    if !dependents.is_empty() {
        HiloError::RoleHasDependents { role: roles::name_of(role), dependents }.raise();
    }
}

/// Trigger, after rows were copied into the catalog, as by a restore: their roles become known.
#[pg_guard]
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn hilo_note_roles(fcinfo: pg_sys::FunctionCallInfo) -> pg_sys::Datum {
    // SAFETY: Postgres passes a live call; a call's context is null or a node.
    let triggered = unsafe {
        let context = (*fcinfo).context;
        !context.is_null() && (*context).type_ == pg_sys::NodeTag::T_TriggerData
    };
    if triggered {
        role_references::reconcile().or_raise();
    }
    pg_sys::Datum::null()
}
