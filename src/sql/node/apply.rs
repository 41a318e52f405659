//! `hilo_apply`: makes the sequences those that a document describes.
//!
//! Whoever may not change one of them learns nothing of it. A sequence that is as described is
//! neither locked nor changed. If there is something to do, the tables that own sequences are
//! locked first, and stay as they are until the transaction ends. Then the extension is locked, so
//! that one call waits for another instead of colliding with it over a name. Then the sequences
//! that differ are, in the order of their names. After each wait the work is determined again. A
//! dry run takes one step at a time, and undoes it.

use std::collections::{HashMap, HashSet};

use pgrx::memcxt::PgMemoryContexts;
use pgrx::pg_sys::panic::ErrorReport;
use pgrx::prelude::*;

use hilo_core::document::{Document, place_of};
use hilo_core::plan::{Row, dropped};

use crate::catalog::name::Name;
use crate::catalog::{column_defaults, node};
use crate::errors::{DocumentError, HiloError, OrRaise};
use crate::process::memory::{self, TryGrow};
use crate::process::subtransaction;
use crate::sql::call::border::Call;
use crate::sql::call::stored_rows::{Rows, row};
use crate::sql::define::ddl_checks::{begin_write, check_owner, lock_by_name, require};
use crate::sql::define::owned_by::Purpose;
use crate::sql::node::compare::document;
use crate::sql::node::json::JsonB;
use crate::sql::node::known::{self, Known, this_node};
use crate::sql::node::steps::{Step, Work, lock_definitions};
use crate::sql::node::target::{Target, at_path};

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
    apply.check_rights(&seen)?;
    for (name, Row { action, detail }) in apply.run(seen)? {
        rows.add(Done { action, name, detail: JsonB::of(&detail)? });
    }
    Ok(rows)
}

struct Apply {
    targets: Vec<Target>,
    prune: bool,
    dry_run: bool,
    /// Whether the document is the summary of a server.
    of_server: bool,
}

/// The sequences that the transaction sees, by name. `None`: one has been dropped since.
type Seen = HashMap<Name, Option<Known>>;

impl Apply {
    /// # Errors
    /// The first fault of the document.
    fn new(document: Document, prune: bool, dry_run: bool) -> Result<Apply, HiloError> {
        let Document { node, sequences, .. } = document;
        let mut targets = Vec::new();
        for (at, entry) in sequences.into_iter().enumerate() {
            memory::check()?;
            targets.try_push(Target::new(at, entry)?)?;
        }
        let (here, of_server) = (this_node(), node.is_some());
        if node.is_some_and(|node| node.id == here.id && node.server != here.server) {
            return Err(DocumentError::OtherServer(node::id()).into());
        }
        Ok(Apply { targets, prune, dry_run, of_server })
    }

    /// Checks that the caller may do what the document says, before it learns whether that is
    /// needed.
    fn check_rights(&self, seen: &Seen) -> Result<(), HiloError> {
        let is_own = |target: &&Target| {
            seen.get(&target.name).and_then(Option::as_ref).is_some_and(Known::is_own)
        };
        self.targets.iter().filter(|target| !is_own(target)).try_for_each(Target::check_rights)
    }

    /// Returns the rows of what was done, each with the name.
    fn run(&self, seen: Seen) -> Result<Vec<(Name, Row)>, HiloError> {
        if self.steps(seen)?.is_empty() {
            return Ok(Vec::new());
        }
        let purpose = if self.dry_run { Purpose::Look } else { Purpose::Own };
        for target in &self.targets {
            target.placed_column(purpose);
        }
        match self.dry_run {
            false => lock_definitions()?,
            true => subtransaction::try_out(|| lock_definitions().or_raise()),
        }
        if self.prune {
            self.check_dependents()?;
        }
        if !self.dry_run {
            for step in self.steps(self.seen()?)? {
                if matches!(step.work, Work::Change(..)) {
                    lock_by_name(&step.name, check_owner)?;
                }
            }
        }
        let (mut done, mut scratch) = (Vec::new(), PgMemoryContexts::new("hilo_apply"));
        for step in self.steps(self.seen()?)? {
            pgrx::check_for_interrupts!();
            // SAFETY: nothing that is allocated in the scratch context is used after the round.
            unsafe {
                let kept = scratch.switch_to(|_| {
                    let rows = self.take(&step);
                    done.try_extend(rows.into_iter().map(|row| (step.name.clone(), row)))
                });
                scratch.reset();
                kept?;
            }
            memory::check()?;
        }
        Ok(done)
    }

    /// Takes a step, and returns its rows. They stay when its work is rolled back.
    fn take(&self, step: &Step) -> Vec<Row> {
        let take = || step.take(self.dry_run, self.of_server).or_raise();
        let take = || match step.target {
            Some(target) => at_path(&place_of(target.at, ""), take),
            None => take(),
        };
        match self.dry_run {
            true => subtransaction::try_out(take),
            false => take(),
        }
    }

    fn seen(&self) -> Result<Seen, HiloError> {
        memory::check()?;
        let names = self.targets.iter().map(|target| target.name.to_vec());
        let names = memory::try_collect(names)?;
        known::visible((!self.prune).then_some(&names[..]))
    }

    /// The work, in the order of the names.
    fn steps(&self, mut seen: Seen) -> Result<Vec<Step<'_>>, HiloError> {
        let mut steps = Vec::new();
        for target in &self.targets {
            let work = match seen.remove(&target.name) {
                None => Some(Work::Create),
                Some(None) => Some(Work::Change(Box::default())),
                Some(Some(known)) => {
                    target.change(&known)?.map(|change| Work::Change(Box::new(change)))
                }
            };
            memory::check()?;
            let name = target.name.clone();
            steps.try_extend(work.map(|work| Step { name, target: Some(target), work }))?;
        }
        let rest = seen.into_iter().filter_map(|(name, known)| Some((name, known?)));
        for (name, known) in rest.filter(|(_, known)| self.prune && known.is_own()) {
            let work = Work::Drop(dropped(&known.entry()?));
            steps.try_push(Step { name, target: None, work })?;
        }
        steps.sort_unstable_by(|one, other| one.name.cmp(&other.name));
        Ok(steps)
    }

    /// Refuses to drop what a column default uses.
    fn check_dependents(&self) -> Result<(), HiloError> {
        let steps = self.steps(self.seen()?)?;
        let dropped = steps.iter().filter(|step| step.target.is_none());
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
}
