//! The steps of `hilo_apply`. Each does what hilo_create, hilo_alter, hilo_set_owner, hilo_grant,
//! hilo_revoke or hilo_drop does.

use pgrx::pg_sys;
use serde_json::json;

use hilo_core::document::{Grants, Numbering, Within, without};
use hilo_core::options::Options;
use hilo_core::plan::{Change, Row};

use crate::catalog::column_ref::ColumnRef;
use crate::catalog::definitions::Sequence;
use crate::catalog::name::Name;
use crate::catalog::table::next_command;
use crate::catalog::{catalog_oids, node, numbering, positions, privileges, roles};
use crate::errors::{DocumentError, HiloError};
use crate::process::ffi;
use crate::session::invalidation;
use crate::session::uncommitted::{self, Origin};
use crate::sql::define::ddl::{self, Duplicate};
use crate::sql::define::ddl_checks::lock_owned;
use crate::sql::define::owned_by::Purpose;
use crate::sql::define::redefine::Alteration;
use crate::sql::define::{grants, owners, renumber};
use crate::sql::node::json::{decode, encode};
use crate::sql::node::known::{self, own_position, privileges_of};
use crate::sql::node::target::Target;

/// The work on a sequence.
pub struct Step<'a> {
    pub name: Name,
    /// The sequence in the document. `None`: it is not there, and is to be dropped.
    pub target: Option<&'a Target>,
    pub work: Work,
}

pub enum Work {
    Create,
    Change(Box<Change>),
    Drop(Row),
}

impl Step<'_> {
    /// Takes the step, and returns its rows.
    pub fn take(&self, dry_run: bool, of_server: bool) -> Result<Vec<Row>, HiloError> {
        match (&self.work, self.target) {
            (Work::Create, Some(target)) => create(target, of_server),
            (Work::Change(change), Some(target)) => self.change(target, change, dry_run),
            (Work::Drop(row), _) => {
                if !dry_run {
                    ddl::drop(&self.name, true, false)?;
                }
                Ok(vec![row.clone()])
            }
            (_, None) => Ok(Vec::new()),
        }
    }

    fn change(
        &self,
        target: &Target,
        change: &Change,
        dry_run: bool,
    ) -> Result<Vec<Row>, HiloError> {
        let locked = &lock_owned(&self.name)?;
        let (old, mut rows) = (&locked.sequence, Vec::new());
        if let Some(there) = target.wanted.entry.numbering
            && is_untold(old, &there)?
        {
            number(old, given(&there))?;
            let Numbering { base, nodes, stripe, .. } = there;
            let detail = json!({"base": base, "nodes": nodes, "stripe": stripe});
            rows.push(Row { action: "number", detail });
        }
        if change.altered.is_some() {
            let options = &change.options.clone().unwrap_or_default();
            // A table and its sequence have one owner, so a new column waits until that is settled.
            let owned_by = if change.moves { None } else { old.owned_by };
            renumber::alter(&Alteration { locked, options, owned_by, restart: None }, dry_run)?;
        }
        if let Some(owner) = target.owner.filter(|_| change.given.is_some()) {
            owners::set_owner(&self.name, owner)?;
        }
        if change.moves {
            own(&self.name, target.column(Purpose::Own)?)?;
        }
        if !dry_run {
            grant(&self.name, &change.revokes, &change.grants)?;
        }
        rows.extend(change.rows());
        Ok(rows)
    }
}

fn create(target: &Target, of_server: bool) -> Result<Vec<Row>, HiloError> {
    let (name, wanted) = (&target.name, &target.wanted);
    let numbering = wanted.entry.numbering.as_ref();
    if of_server && numbering.is_none() {
        // This server would begin as nobody did.
        return Err(DocumentError::NotNumbered(name.to_string()).into());
    }
    let (definition, numbering) = (wanted.definition.clone(), numbering.map(given));
    let created = ddl::create(name.clone(), definition, None, numbering, Duplicate::Refuse);
    let id = created?.ok_or_else(|| HiloError::Duplicate(name.to_string()))?.id;
    if let Some(owner) = target.owner {
        owners::set_owner(name, owner)?;
    }
    own(name, target.column(Purpose::Own)?)?;
    // Default privileges.
    let held = known::grants(&privileges::grants_on(id)?);
    if let Some(wanted) = &wanted.privileges {
        grant(name, &without(&held, wanted), &without(wanted, &held))?;
    }
    let user = roles::name(ffi::current_user()).unwrap_or_default();
    Ok(vec![wanted.created(&decode(user.to_bytes()), &held)])
}

/// Lets a column own a sequence.
fn own(name: &[u8], column: Option<ColumnRef>) -> Result<(), HiloError> {
    if column.is_none() {
        return Ok(());
    }
    let (locked, options) = (&lock_owned(name)?, &Options::default());
    renumber::alter(&Alteration { locked, options, owned_by: column, restart: None }, false)
}

fn grant(name: &[u8], revokes: &Grants, grants: &Grants) -> Result<(), HiloError> {
    let changes: [(&Grants, grants::Changes); 2] =
        [(revokes, privileges::revoke), (grants, privileges::grant)];
    for (grants, change) in changes {
        for (grantee, set) in grants {
            let grantee = grants::role_or_public(&encode(grantee))?;
            grants::change(lock_owned(name)?, change, grantee, privileges_of(set))?;
        }
    }
    Ok(())
}

fn given(numbering: &Numbering) -> numbering::Numbering {
    let Numbering { base, nodes: Within(nodes), stripe: Within(stripe), .. } = *numbering;
    numbering::Numbering { base, nodes: nodes as i32, stripe }
}

/// Whether this server is yet to be told how the other nodes number a sequence. It has not served
/// it as the node that it is now, and would begin differently or not at all. Refuses a sequence
/// that it numbers differently: both could serve the same values.
///
/// # Errors
/// `NumberingDiffers`
fn is_untold(found: &Sequence, there: &Numbering) -> Result<bool, HiloError> {
    let (here, there) = (own_position(found)?.map(|position| position.numbering()), given(there));
    if here == Some(there) {
        return Ok(false);
    }
    match (here, positions::find(found.id, node::id())?) {
        (Some(here), Some(_)) => Err(HiloError::NumberingDiffers {
            name: found.name.to_string(),
            here: here.to_string(),
            there: there.to_string(),
        }),
        _ => numbering::is_open(found),
    }
}

/// Lets this server begin with the numbering of other nodes. The sequence is locked, so the worker
/// makes no first position meanwhile.
fn number(sequence: &Sequence, given: numbering::Numbering) -> Result<(), HiloError> {
    let first = numbering::begin_with(sequence, &node::serves(sequence)?, given)?;
    // After a rollback the server may be told again, and would serve what this transaction has
    // drawn.
    uncommitted::note_origin(positions::insert(&first)?, Origin::Shared)?;
    next_command();
    invalidation::begin();
    Ok(())
}

/// Waits for other transactions that apply a document, and for DROP EXTENSION. Only for a role that
/// may change something: others must not be able to make these wait.
pub fn lock_definitions() -> Result<(), HiloError> {
    let extension = catalog_oids()?.extension;
    let mode = pg_sys::ShareUpdateExclusiveLock as pg_sys::LOCKMODE;
    // SAFETY: takes a lock inside a transaction, whose end releases it; any object can be locked.
    unsafe { pg_sys::LockDatabaseObject(pg_sys::ExtensionRelationId, extension, 0, mode) };
    Ok(())
}
