//! `hilo_apply`: creates, changes and drops sequences until they are as a document describes them.
//!
//! Whoever may not change one of them learns nothing of it. A sequence that is as described is
//! neither locked nor changed. If there is something to do, the tables that own sequences are
//! locked first, and stay as they are until the transaction ends. Then the extension is locked, so
//! that one call waits for another instead of colliding with it over a name. Nothing is changed if
//! a sequence may not be dropped. Otherwise those that differ are locked, in the order of their
//! names. Each step determines its work again, after these waits. A dry run does the same, and
//! undoes it.

use pgrx::pg_sys::panic::ErrorReport;
use pgrx::prelude::*;
use serde_json::json;

use hilo_core::document::Document;
use hilo_core::plan::{Change, by_name};

use crate::catalog::rights::{missing, privileges};
use crate::catalog::rows::catalog_tables::catalog_oids;
use crate::catalog::rows::name::Name;
use crate::catalog::rows::object_lock::ObjectLock;
use crate::errors::{DocumentError, HiloError};
use crate::process::memory::{self, TryGrow};
use crate::process::scratch::Scratch;
use crate::process::subtransaction;
use crate::sql::call::border::Call;
use crate::sql::call::jsonb::JsonB;
use crate::sql::call::stored_rows::{Rows, row};
use crate::sql::define::ddl;
use crate::sql::define::ddl_checks::{begin_write, check_owner, find_owned, lock_by_name, require};
use crate::sql::node::document::{at, read};
use crate::sql::node::known::{self, Known, this_node};
use crate::sql::node::target::Target;

row! {
    struct Done {
        action: String,
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
    begin_write(c"hilo_apply()")?;
    let mut rows = Rows::begin(call);
    let Document { node, sequences, .. } = read(require(document, "document")?)?;
    let (here, dry_run) = (this_node(), dry_run == Some(true));
    let targets = sequences.into_iter().enumerate().map(Target::new);
    let targets = memory::try_collect_results(targets)?;
    let apply = Apply { targets, of_server: node.is_some(), prune: prune == Some(true), dry_run };
    if node.is_some_and(|node| node.id == here.id && node.server != here.server) {
        return Err(HiloError::from(DocumentError::OtherServer(here.id)).into());
    }
    let done = match dry_run {
        false => apply.run(),
        true => subtransaction::try_out(|| apply.run()),
    }?;
    for (name, change) in done {
        let mut row = json!(change);
        let action = row["action"].as_str().unwrap_or_default().to_owned();
        if let Some(detail) = row["detail"].as_object_mut() {
            // The row has it.
            detail.remove("name");
        }
        rows.add(Done { action, name, detail: JsonB::serialize(&row["detail"])? });
    }
    Ok(rows)
}

struct Apply {
    targets: Vec<Target>,
    /// Whether the document is the summary of a server.
    of_server: bool,
    prune: bool,
    dry_run: bool,
}

enum Work<'a> {
    Create(&'a Target),
    Change(&'a Target),
    Drop(Box<Known>),
}

impl Apply {
    /// Returns the pieces of work, in the order of the names. Unless it prunes, it looks only at
    /// the sequences of the document.
    ///
    /// # Errors
    /// The caller may not change a sequence of the document, even if it is as described; or a
    /// sequence may not be dropped.
    fn work(&self) -> Result<Vec<(Name, Work<'_>)>, HiloError> {
        let names = memory::try_collect(self.targets.iter().map(|target| target.name.to_vec()))?;
        let found = known::visible((!self.prune).then_some(&names[..]))?;
        memory::check_available((names.len() + found.len()) << 10)?;
        let targets = self.targets.iter().map(|target| (target.name.clone(), target));
        let found = found.into_iter().map(|known| (known.sequence.name.clone(), known));
        let mut all = Vec::new();
        for (name, (target, found)) in by_name(targets, found) {
            pgrx::check_for_interrupts!();
            let is_own = found.as_ref().is_some_and(Known::is_own);
            if let Some(target) = target.filter(|_| !is_own) {
                at(target.number, "", || match find_owned(&name)? {
                    None => privileges::may_create(),
                    Some(_) => Ok(()),
                })?;
            }
            let work = match (target, found) {
                (Some(target), None) => Work::Create(target),
                (Some(target), Some(found)) if target.differs(&found)? => Work::Change(target),
                (None, Some(found)) if is_own => {
                    ddl::check_drop(&name)?;
                    Work::Drop(found.into())
                }
                _ => continue,
            };
            all.try_push((name, work))?;
        }
        Ok(all)
    }

    /// Makes the changes. Returns each with the name of its sequence.
    fn run(&self) -> Result<Vec<(Name, Change)>, HiloError> {
        let (mut done, mut scratch) = (Vec::new(), Scratch::new("hilo_apply"));
        if self.work()?.is_empty() {
            return Ok(done);
        }
        for target in &self.targets {
            at(target.number, ".owned_by", || target.lock_column())?;
        }
        // Wait for other transactions that apply a document, and for DROP EXTENSION. Only a role
        // that may change something gets here, since it can make these wait.
        let extension = catalog_oids()?.extension.to_u32().into();
        ObjectLock::new(pg_sys::ExtensionRelationId, extension)
            .acquire(pg_sys::ShareUpdateExclusiveLock, false);
        let all = self.work()?;
        for (name, _) in all.iter().filter(|(_, work)| matches!(work, Work::Change(_))) {
            lock_by_name(name, check_owner)?;
        }
        for (name, work) in all {
            pgrx::check_for_interrupts!();
            // SAFETY: the changes are in Rust's memory, and nothing else remains.
            let changes = unsafe { scratch.round(|| self.take(&name, work)) }?;
            done.try_extend(changes.into_iter().map(|change| (name.clone(), change)))?;
        }
        Ok(done)
    }

    /// Does a piece of work. Others draw from a sequence until it is really dropped.
    fn take(&self, name: &Name, work: Work) -> Result<Vec<Change>, HiloError> {
        match work {
            Work::Create(target) => at(target.number, "", || {
                target.create(self.of_server)?;
                target.change(self.dry_run)?;
                let made = Known::read(missing::require(name)?)?;
                Ok(vec![Change::Create(made.described()?.entry)])
            }),
            Work::Change(target) => at(target.number, "", || target.change(self.dry_run)),
            Work::Drop(found) => {
                if !self.dry_run {
                    ddl::drop(name, true, false)?;
                }
                Ok(vec![Change::Drop(found.described()?.entry)])
            }
        }
    }
}
