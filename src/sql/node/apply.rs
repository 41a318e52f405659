//! `hilo_apply`: makes the sequences those that a document describes.
//!
//! Whoever may not change one of them learns nothing of it. A sequence that is as described is
//! neither locked nor changed. If there is something to do, the tables that own sequences are
//! locked first, and stay as they are until the transaction ends. Then the extension is locked, so
//! that one call waits for another instead of colliding with it over a name. Then the sequences
//! that differ are, in the order of their names. Each step determines its work again, after these
//! waits. A dry run does the same, and undoes it.

use std::collections::{HashMap, HashSet};

use pgrx::memcxt::PgMemoryContexts;
use pgrx::pg_sys::panic::ErrorReport;
use pgrx::prelude::*;

use hilo_core::document::{Document, place_of};
use hilo_core::plan::Row;

use crate::catalog::columns::column_defaults;
use crate::catalog::rows::catalog_tables::catalog_oids;
use crate::catalog::rows::name::Name;
use crate::catalog::sequence::node;
use crate::errors::{DocumentError, HiloError, OrRaise};
use crate::process::memory::{self, TryGrow};
use crate::process::subtransaction;
use crate::sql::call::border::Call;
use crate::sql::call::jsonb::JsonB;
use crate::sql::call::stored_rows::{Rows, row};
use crate::sql::define::ddl_checks::{begin_write, check_owner, lock_by_name, require};
use crate::sql::node::document::{document, placed};
use crate::sql::node::known::{self, Known, this_node};
use crate::sql::node::steps::{Step, Work};
use crate::sql::node::target::Target;

row! {
    struct Done {
        action: &'static str,
        name: Name,
        detail: JsonB,
    }
}

/// `hilo_apply(document, prune, dry_run)`
#[pg_extern(sql = false)]
fn hilo_apply(
    call: Call,
    document: Option<JsonB>,
    prune: Option<bool>,
    dry_run: Option<bool>,
) -> Result<Rows<Done>, ErrorReport> {
    begin_write(c"hilo_apply()");
    let document = self::document(require(document, "document")?)?;
    let mut rows = Rows::begin(call);
    let apply = Apply::new(document, prune == Some(true), dry_run == Some(true))?;
    let seen = apply.seen()?;
    apply.check_rights(&seen);
    let done = match apply.dry_run {
        false => apply.run(&seen)?,
        true => subtransaction::try_out(|| apply.run(&seen).or_raise()),
    };
    for (name, Row { action, detail }) in done {
        rows.add(Done { action, name, detail: JsonB::of(&detail)? });
    }
    Ok(rows)
}

struct Apply {
    targets: Vec<Target>,
    prune: bool,
    dry_run: bool,
}

/// The sequences that the transaction sees, by name. `None`: it has been dropped or renamed since.
type Seen = HashMap<Name, Option<Known>>;

impl Apply {
    /// # Errors
    /// The first fault of the document.
    fn new(document: Document, prune: bool, dry_run: bool) -> Result<Apply, HiloError> {
        let Document { node, sequences, .. } = document;
        let mut targets = Vec::new();
        for (at, entry) in sequences.into_iter().enumerate() {
            targets.try_push(Target::new(at, entry, node.is_some()))?;
        }
        let here = this_node();
        if node.is_some_and(|node| node.id == here.id && node.server != here.server) {
            return Err(DocumentError::OtherServer(node::id()).into());
        }
        Ok(Apply { targets, prune, dry_run })
    }

    fn seen(&self) -> Result<Seen, HiloError> {
        memory::check()?;
        let names = self.targets.iter().map(|target| target.name.to_vec());
        let names = memory::try_collect(names)?;
        let seen = known::visible((!self.prune).then_some(&names[..]))?;
        memory::try_map(
            seen.len(),
            seen.into_iter().map(|(name, known)| {
                let known = known.filter(|known| known.sequence.name == name);
                (name, known)
            }),
        )
    }

    /// Checks that the caller may do what the document says, before it learns whether that is
    /// needed.
    fn check_rights(&self, seen: &Seen) {
        for target in &self.targets {
            if !matches!(seen.get(&target.name), Some(Some(known)) if known.is_own()) {
                target.check_rights();
            }
        }
    }

    /// Returns the rows of what was done, each with the name.
    fn run(&self, seen: &Seen) -> Result<Vec<(Name, Row)>, HiloError> {
        let (mut done, mut scratch) = (Vec::new(), PgMemoryContexts::new("hilo_apply"));
        if self.steps(seen)?.is_empty() {
            return Ok(done);
        }
        for target in &self.targets {
            placed(&place_of(target.at, ".owned_by"), || target.lock_column());
        }
        lock_definitions()?;
        let seen = self.seen()?;
        let steps = self.steps(&seen)?;
        check_dependents(&steps)?;
        for step in steps.iter().filter(|step| matches!(step.work, Work::Change(_))) {
            lock_by_name(&step.name, check_owner)?;
        }
        for step in steps {
            pgrx::check_for_interrupts!();
            memory::check()?;
            // SAFETY: the rows are not in the scratch context, and nothing else remains.
            let rows = unsafe {
                let rows = scratch.switch_to(|_| step.take(self.dry_run));
                scratch.reset();
                rows
            };
            done.try_extend(rows.into_iter().map(|row| (step.name.clone(), row)))?;
        }
        Ok(done)
    }

    /// The work, in the order of the names.
    fn steps(&self, seen: &Seen) -> Result<Vec<Step<'_>>, HiloError> {
        let mut steps = Vec::new();
        for target in &self.targets {
            memory::check()?;
            let differs = |known: &Known| Ok::<_, HiloError>(target.change(known)?.is_some());
            let work = match seen.get(&target.name) {
                None => Work::Create(target),
                Some(Some(known)) if !differs(known)? => continue,
                Some(_) => Work::Change(target),
            };
            steps.try_push(Step { name: target.name.clone(), work })?;
        }
        if self.prune {
            let kept: HashSet<_> = self.targets.iter().map(|target| &target.name).collect();
            let own = |known: &Option<Known>| known.as_ref().is_some_and(Known::is_own);
            let rest = seen.iter().filter(|(name, known)| !kept.contains(name) && own(known));
            steps
                .try_extend(rest.map(|(name, _)| Step { name: name.clone(), work: Work::Drop }))?;
        }
        steps.sort_unstable_by(|one, other| one.name.cmp(&other.name));
        Ok(steps)
    }
}

/// Waits for other transactions that apply a document, and for DROP EXTENSION. Only for a role that
/// may change something: others must not be able to make these wait.
fn lock_definitions() -> Result<(), HiloError> {
    let extension = catalog_oids()?.extension;
    let mode = pg_sys::ShareUpdateExclusiveLock as pg_sys::LOCKMODE;
    // SAFETY: takes a lock inside a transaction, whose end releases it; any object can be locked.
    unsafe { pg_sys::LockDatabaseObject(pg_sys::ExtensionRelationId, extension, 0, mode) };
    Ok(())
}

/// Refuses to drop what a column default uses.
fn check_dependents(steps: &[Step]) -> Result<(), HiloError> {
    let dropped = steps.iter().filter(|step| matches!(step.work, Work::Drop));
    let dropped: HashSet<_> = dropped.map(|step| &step.name).collect();
    if dropped.is_empty() {
        return Ok(());
    }
    let mut users = column_defaults::all();
    users.retain(|(_, name)| dropped.contains(name));
    let mut dependents = column_defaults::describe_users(&users)?;
    dependents.sort_unstable();
    match dependents.is_empty() {
        true => Ok(()),
        false => Err(DocumentError::PrunedHasDependents(dependents).into()),
    }
}
