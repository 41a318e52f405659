//! `hilo_apply`: makes the sequences those that a document describes.
//!
//! Everything goes the way of `hilo_create`, `hilo_alter`, `hilo_set_owner`, `hilo_grant`,
//! `hilo_revoke` and `hilo_drop`. A sequence that is already as described is neither locked nor
//! changed. Whoever may not change one of them learns nothing of it.
//!
//! Locking, if anything is to be changed: first the tables that `owned_by` names, which stay as
//! they are until the transaction ends. Then the extension, so that one call waits for another
//! instead of colliding with it over a name. Then the sequences that differ, in the order of their
//! names.

use std::collections::HashSet;

use pgrx::pg_sys;
use pgrx::prelude::*;
use serde_json::{Value, json};

use hilo_core::document::{Document, changes, difference};
use hilo_core::options::Options;
use hilo_core::summary::{Node, Numbering};

use crate::catalog::definitions::{self, LockedSequence, Sequence};
use crate::catalog::missing;
use crate::catalog::name::Name;
use crate::catalog::privileges::{self, Privileges};
use crate::catalog::table::{next_command, text_datum};
use crate::catalog::{catalog_oids, column_defaults, node, numbering, positions};
use crate::errors::{HiloError, OrRaise};
use crate::process::ffi;
use crate::process::memory::{self, TryGrow};
use crate::process::subtransaction;
use crate::session::invalidation::{self, Change};
use crate::session::uncommitted::{self, Origin};
use crate::sql::call::args::{Args, sql_functions};
use crate::sql::call::stored_rows::StoredRows;
use crate::sql::define::ddl::{self, Duplicate};
use crate::sql::define::ddl_checks;
use crate::sql::define::owned_by::Purpose;
use crate::sql::define::{owners, renumber};
use crate::sql::node::export::{self, column_name, describe, privilege_names, role_name};
use crate::sql::node::json::{read, write};
use crate::sql::node::wanted::{Wanted, at_path, wishes};

sql_functions!(hilo_apply);

/// `hilo_apply(document, prune, dry_run)`: a row for each change.
fn hilo_apply(args: Args) {
    ddl_checks::begin_write(c"hilo_apply()");
    let document = read(ddl_checks::require(args, 0, "document")).or_raise();
    let (prune, dry_run) = (args.bool(1).unwrap_or(false), args.bool(2).unwrap_or(false));
    if let Some(node) = &document.node {
        check_other(node).or_raise();
    }
    let work = || apply(&document, prune, dry_run).or_raise();
    let done = match dry_run {
        true => subtransaction::try_out(work).unwrap_or_else(|error| error.rethrow()),
        false => work(),
    };
    let mut rows = StoredRows::begin(args);
    for Done { action, name, detail } in done {
        // SAFETY: the function is declared to return two texts and a jsonb.
        unsafe { rows.add([text_datum(action.as_bytes()), text_datum(&name), detail]) };
    }
}

/// Refuses the summary of a server that serves the numbers of this one.
fn check_other(other: &Node) -> Result<(), HiloError> {
    match other.id == node::id() && other.server != export::server() {
        true => Err(HiloError::SameNode(other.id)),
        false => Ok(()),
    }
}

/// A row of the result.
struct Done {
    action: &'static str,
    name: Name,
    /// A jsonb in the memory context of the call.
    detail: pg_sys::Datum,
}

type All = Vec<Done>;

fn add(done: &mut All, action: &'static str, name: &Name, detail: &Value) -> Result<(), HiloError> {
    check_for_interrupts!();
    done.try_push(Done { action, name: name.clone(), detail: write(detail)? })
}

/// The task for one name.
enum Task<'a> {
    Make(&'a Wanted),
    Drop(Sequence),
}

impl Task<'_> {
    fn name(&self) -> &Name {
        match self {
            Task::Make(wanted) => &wanted.name,
            Task::Drop(sequence) => &sequence.name,
        }
    }
}

/// A `dry_run` is rolled back. It drops nothing and renumbers nothing, so that it is in nobody's
/// way.
fn apply(document: &Document, prune: bool, dry_run: bool) -> Result<All, HiloError> {
    let mut done = Vec::new();
    let seen = wishes(document, Purpose::Look)?;
    check_rights(&seen);
    if !differs(&seen, prune)? {
        return Ok(done);
    }
    let wanted = &wishes(document, Purpose::Own)?[..];
    lock_out_others()?;
    let unwanted = if prune { find_unwanted(wanted)? } else { Vec::new() };
    let dropped: HashSet<Name> = unwanted.iter().map(|sequence| sequence.name.clone()).collect();
    check_unused(&dropped)?;
    let mut tasks = memory::try_collect(wanted.iter().map(Task::Make))?;
    tasks.try_extend(unwanted.into_iter().map(Task::Drop))?;
    tasks.sort_unstable_by(|a, b| a.name().cmp(b.name()));
    for task in tasks {
        check_for_interrupts!();
        match task {
            Task::Make(one) => at_path(&one.path, || one.apply(&mut done, dry_run).or_raise()),
            Task::Drop(sequence) => remove(&sequence, &mut done, dry_run)?,
        }
    }
    // Again, for the defaults that were added during the waits.
    check_unused(&dropped)?;
    Ok(done)
}

/// Checks that the caller may change or create each of these, before it learns whether that is
/// needed.
fn check_rights(wanted: &[Wanted]) {
    for one in wanted {
        at_path(&one.path, || {
            if ddl_checks::find_owned(&one.name).or_raise().is_none() {
                privileges::may_create().or_raise();
            }
        });
    }
}

/// Whether anything is to be done.
fn differs(wanted: &[Wanted], prune: bool) -> Result<bool, HiloError> {
    for one in wanted {
        let met = at_path(&one.path, || match definitions::by_name(&one.name).or_raise() {
            Some(found) => one.is_met_by(&found).or_raise(),
            None => false,
        });
        if !met {
            return Ok(true);
        }
    }
    Ok(prune && !find_unwanted(wanted)?.is_empty())
}

/// Waits for other transactions that apply a document, and for DROP EXTENSION. Only for a role that
/// may change something: others must not be able to make these wait.
pub fn lock_out_others() -> Result<(), HiloError> {
    let extension = catalog_oids()?.extension;
    let mode = pg_sys::ShareUpdateExclusiveLock as pg_sys::LOCKMODE;
    // SAFETY: takes a lock inside a transaction, whose end releases it; any object can be locked.
    unsafe { pg_sys::LockDatabaseObject(pg_sys::ExtensionRelationId, extension, 0, mode) };
    Ok(())
}

impl Wanted {
    fn apply(&self, done: &mut All, dry_run: bool) -> Result<(), HiloError> {
        let name = &self.name;
        match definitions::by_name(name)? {
            Some(found) if self.is_met_by(&found)? => Ok(()),
            Some(_) => self.change(ddl_checks::lock_owned(name), done, dry_run),
            None => {
                // That server does not know it, so this one would begin as nobody did.
                if self.is_of_server && self.numbering.is_none() {
                    return Err(HiloError::NumberingUnknown(name.to_string()));
                }
                let (name, definition) = (name.clone(), self.definition.clone());
                let created =
                    ddl::create(name, definition, None, self.numbering, Duplicate::Refuse);
                let taken = || HiloError::Duplicate(self.name.to_string());
                self.complete(&created.ok_or_else(taken)?, done)
            }
        }
    }

    /// Gives a new sequence the rest of what is wanted, as part of its creation, which is one row.
    fn complete(&self, created: &Sequence, done: &mut All) -> Result<(), HiloError> {
        self.set_rights(created, &mut Vec::new())?;
        add(done, "create", &self.name, &detail(&lock_again(created)?.sequence)?)
    }

    fn change(
        &self,
        before: LockedSequence,
        done: &mut All,
        dry_run: bool,
    ) -> Result<(), HiloError> {
        let old = before.sequence.clone();
        if let Some(numbering) = self.untold(&old)? {
            self.number(&old, numbering, done)?;
        }
        let options = difference(&old.definition, &self.definition);
        if options.is_some() || self.owned_by != old.owned_by {
            let mut changes = changes(&old.definition, &self.definition);
            let mut owned_by = old.owned_by;
            if self.owned_by != old.owned_by {
                let (from, to) = (column_name(old.owned_by), column_name(self.owned_by));
                changes.insert("owned_by".into(), json!({"from": from, "to": to}));
                // A table and its sequence have one owner, so the new column waits until that is
                // settled.
                owned_by = None;
            }
            renumber::alter(&before, &options.unwrap_or_default(), owned_by, None, dry_run);
            add(done, "alter", &self.name, &Value::Object(changes))?;
        }
        self.set_rights(&old, done)
    }

    /// Lets this server begin with the numbering of other nodes. The sequence is locked, so the
    /// worker makes no first position meanwhile.
    fn number(
        &self,
        sequence: &Sequence,
        given: Numbering,
        done: &mut All,
    ) -> Result<(), HiloError> {
        let here = node::serves(sequence)?;
        let Numbering { base, nodes, stripe, .. } = given;
        let numbering = numbering::Numbering { base, nodes, stripe };
        let first = numbering::begin_with(sequence, &here, numbering)?;
        // After a rollback the server may be told again, and would serve what this transaction has
        // drawn.
        uncommitted::note_origin(positions::insert(&first)?, Origin::Shared)?;
        next_command();
        invalidation::begin();
        let detail = json!({"base": base, "nodes": nodes, "stripe": stripe});
        add(done, "number", &sequence.name, &detail)
    }

    /// Makes the owner, the owning column and the privileges those that are wanted.
    fn set_rights(&self, sequence: &Sequence, done: &mut All) -> Result<(), HiloError> {
        self.give(lock_again(sequence)?, done)?;
        let given = lock_again(sequence)?;
        if self.owned_by != given.sequence.owned_by {
            renumber::alter(&given, &Options::default(), self.owned_by, None, false);
        }
        self.grant(lock_again(sequence)?, done)
    }

    fn give(&self, locked: LockedSequence, done: &mut All) -> Result<(), HiloError> {
        let old = locked.sequence.owner;
        match self.owner {
            Some(owner) if owner != old => {
                owners::set_owner(locked, owner);
                let detail = json!({"from": role_name(old), "to": role_name(owner)});
                add(done, "set_owner", &self.name, &detail)
            }
            _ => Ok(()),
        }
    }

    /// Makes the privileges those that are wanted.
    fn grant(&self, locked: LockedSequence, done: &mut All) -> Result<(), HiloError> {
        let Some(wanted) = &self.privileges else { return Ok(()) };
        let sequence = &locked.sequence;
        let granted = privileges::grants_on(sequence.id)?;
        let of = |list: &[(pg_sys::Oid, Privileges)], role| {
            let found = list.iter().find(|(grantee, _)| *grantee == role);
            found.map_or(Privileges::NONE, |(_, set)| *set)
        };
        let mut differing = false;
        let mut change = |action, grantee, set: Privileges| {
            differing = true;
            let detail = json!({"grantee": role_name(grantee), "privileges": privilege_names(set)});
            add(done, action, &self.name, &detail)
        };
        for (grantee, held) in &granted {
            let set = held.without(of(wanted, *grantee));
            if set != Privileges::NONE {
                privileges::revoke(sequence, *grantee, set)?;
                change("revoke", *grantee, set)?;
            }
        }
        for (grantee, set) in wanted {
            let set = set.without(of(&granted, *grantee));
            if set != Privileges::NONE {
                privileges::grant(sequence, *grantee, set)?;
                change("grant", *grantee, set)?;
            }
        }
        match differing {
            true => invalidation::note(sequence.id, Change::Outdated),
            false => Ok(()),
        }
    }
}

/// Locks a sequence that this transaction has locked before, and may have changed since.
fn lock_again(sequence: &Sequence) -> Result<LockedSequence, HiloError> {
    definitions::lock_existing(sequence.id)?.ok_or_else(|| missing::to_use(&sequence.name))
}

/// A sequence as a document describes it, without its name.
fn detail(sequence: &Sequence) -> Result<Value, HiloError> {
    let described = describe(sequence);
    let mut detail = serde_json::to_value(described).map_err(|_| HiloError::OutOfMemory)?;
    if let Value::Object(fields) = &mut detail {
        fields.remove("name");
    }
    Ok(detail)
}

/// The sequences of the current user that the document does not contain.
fn find_unwanted(wanted: &[Wanted]) -> Result<Vec<Sequence>, HiloError> {
    let kept: HashSet<&[u8]> = wanted.iter().map(|one| &*one.name).collect();
    let user = ffi::current_user();
    definitions::collect(|one| {
        (!kept.contains(&*one.name) && privileges::acts_as(user, one.owner)).then_some(one)
    })
}

/// Drops a sequence, unless it has been dropped, renamed or given away since it was found.
fn remove(found: &Sequence, done: &mut All, dry_run: bool) -> Result<(), HiloError> {
    let Some(locked) = definitions::lock_existing(found.id)? else { return Ok(()) };
    let sequence = &locked.sequence;
    if sequence.name == found.name && privileges::acts_as(ffi::current_user(), sequence.owner) {
        add(done, "drop", &sequence.name, &detail(sequence)?)?;
        if !dry_run {
            ddl_checks::remove(locked);
        }
    }
    Ok(())
}

/// Checks that no column default uses one of these names.
fn check_unused(names: &HashSet<Name>) -> Result<(), HiloError> {
    if names.is_empty() {
        return Ok(());
    }
    let mut users = column_defaults::all();
    users.retain(|(_, name)| names.contains(name));
    match users.is_empty() {
        true => Ok(()),
        false => Err(HiloError::PruneHasDependents(column_defaults::describe_users(&users)?)),
    }
}
