//! `hilo_apply`: makes the sequences those that a document describes.
//!
//! Whoever may not change one of them learns nothing of it. A sequence that is as described is
//! neither locked nor changed. If there is something to do, the tables that own sequences are
//! locked first, and stay as they are until the transaction ends. Then the extension is locked, so
//! that one call waits for another instead of colliding with it over a name. Nothing is changed if
//! a sequence may not be dropped. Otherwise those that differ are locked, in the order of their
//! names. Each step determines its work again, after these waits. A dry run does the same, and
//! undoes it.

use std::collections::BTreeMap;

use pgrx::memcxt::PgMemoryContexts;
use pgrx::pg_sys::panic::ErrorReport;
use pgrx::prelude::*;
use serde_json::json;

use hilo_core::document::{Document, Entry, by_name};
use hilo_core::plan::Change;

use crate::catalog::rows::catalog_tables::catalog_oids;
use crate::catalog::rows::name::Name;
use crate::catalog::sequence::definitions;
use crate::catalog::sequence::node;
use crate::errors::{DocumentError, HiloError};
use crate::process::memory::{self, TryGrow};
use crate::process::subtransaction;
use crate::sql::call::border::Call;
use crate::sql::call::jsonb::JsonB;
use crate::sql::call::stored_rows::{Rows, row};
use crate::sql::define::ddl;
use crate::sql::define::ddl_checks::{begin_write, check_owner, lock_by_name, require};
use crate::sql::node::document::{Place, with_place};
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
    let document = require(document, "document")?;
    let mut rows = Rows::begin(call);
    let done = with_place(|place| {
        let document = place.read(document)?;
        let apply = Apply::new(document, [prune, dry_run], place)?;
        let seen = apply.sequences()?;
        apply.check_rights(&seen)?;
        match apply.dry_run {
            false => apply.run(&seen),
            true => subtransaction::try_out(|| apply.run(&seen)),
        }
    })?;
    for (name, change) in done {
        let row = json!(change);
        let action = row["action"].as_str().unwrap_or_default().to_owned();
        rows.add(Done { action, name, detail: JsonB::of(&row["detail"])? });
    }
    Ok(rows)
}

struct Apply<'a> {
    targets: Vec<Target>,
    /// Whether the document is the summary of a server.
    of_server: bool,
    prune: bool,
    dry_run: bool,
    place: &'a Place,
}

/// By name, the document's sequence and the one that the transaction sees. The inner `None`: the
/// sequence has been dropped or renamed since.
type Sequences<'a> = BTreeMap<Name, (Option<&'a Target>, Option<Option<Known>>)>;

enum Work<'a> {
    Create(&'a Target),
    Change(&'a Target),
    Drop,
}

impl Apply<'_> {
    /// # Errors
    /// The first fault of the document.
    fn new(
        Document { node, sequences, .. }: Document,
        options: [Option<bool>; 2],
        place: &Place,
    ) -> Result<Apply<'_>, HiloError> {
        let [prune, dry_run] = options.map(|option| option == Some(true));
        let mut targets = Vec::new();
        for (at, entry) in sequences.into_iter().enumerate() {
            targets.try_push(Target::new(at, entry, place)?)?;
        }
        place.clear();
        let (here, of_server) = (this_node(), node.is_some());
        if node.is_some_and(|node| node.id == here.id && node.server != here.server) {
            return Err(DocumentError::OtherServer(node::id()).into());
        }
        Ok(Apply { targets, of_server, prune, dry_run, place })
    }

    /// All sequences that the caller may read or, if nothing is pruned, those of the document.
    fn sequences(&self) -> Result<Sequences<'_>, HiloError> {
        let names = memory::try_collect(self.targets.iter().map(|target| target.name.to_vec()))?;
        let seen = known::visible((!self.prune).then_some(&names[..]))?;
        memory::check_available((names.len() + seen.len()) << 8)?;
        let as_seen = |(name, known): (Name, Option<Known>)| {
            let known = known.filter(|known| known.sequence.name == name);
            (name, known)
        };
        let targets = self.targets.iter().map(|target| (target.name.clone(), target));
        Ok(by_name(targets, seen.into_iter().map(as_seen)))
    }

    /// Checks that the caller may do what the document says, before it learns whether that is
    /// needed.
    fn check_rights(&self, sequences: &Sequences) -> Result<(), HiloError> {
        for (target, seen) in sequences.values() {
            let is_own = matches!(seen, Some(Some(known)) if known.is_own());
            if let Some(target) = target.filter(|_| !is_own) {
                self.place.set(target.at, "");
                target.check_rights()?;
            }
        }
        self.place.clear();
        Ok(())
    }

    /// Makes the changes. Returns each with the name of its sequence.
    fn run(&self, seen: &Sequences) -> Result<Vec<(Name, Change)>, HiloError> {
        let (mut done, mut scratch) = (Vec::new(), PgMemoryContexts::new("hilo_apply"));
        if self.work(seen)?.is_empty() {
            return Ok(done);
        }
        for target in &self.targets {
            self.place.set(target.at, ".owned_by");
            target.lock_column()?;
        }
        self.place.clear();
        lock_definitions()?;
        let seen = self.sequences()?;
        let work = self.work(&seen)?;
        for (name, _) in work.iter().filter(|(_, work)| matches!(work, Work::Drop)) {
            pgrx::check_for_interrupts!();
            ddl::check_drop(name)?;
        }
        for (name, _) in work.iter().filter(|(_, work)| matches!(work, Work::Change(_))) {
            lock_by_name(name, check_owner)?;
        }
        for (name, work) in &work {
            self.place.clear();
            pgrx::check_for_interrupts!();
            memory::check()?;
            // SAFETY: the changes are not in the scratch context, and nothing else remains.
            let changes = unsafe {
                let changes = scratch.switch_to(|_| self.take(name, work));
                scratch.reset();
                changes?
            };
            done.try_extend(changes.into_iter().map(|change| ((*name).clone(), change)))?;
        }
        Ok(done)
    }

    /// Returns the pieces of work, in the order of the names.
    fn work<'a>(&self, sequences: &'a Sequences) -> Result<Vec<(&'a Name, Work<'a>)>, HiloError> {
        let mut all = Vec::new();
        for (name, (target, seen)) in sequences {
            memory::check()?;
            let work = match (target, seen) {
                (Some(target), None) => Work::Create(target),
                (Some(target), Some(Some(known))) if !target.differs(known)? => continue,
                (Some(target), Some(_)) => Work::Change(target),
                (None, Some(Some(known))) if self.prune && known.is_own() => Work::Drop,
                (None, _) => continue,
            };
            all.try_push((name, work))?;
        }
        Ok(all)
    }

    /// Does a piece of work. Others draw from a sequence until it is really dropped.
    fn take(&self, name: &Name, work: &Work) -> Result<Vec<Change>, HiloError> {
        match work {
            Work::Create(target) => {
                self.place.set(target.at, "");
                target.create(self.of_server)?;
                target.change(self.dry_run)?;
                whole(name, Change::Create)
            }
            Work::Change(target) => {
                self.place.set(target.at, "");
                target.change(self.dry_run)
            }
            Work::Drop => {
                let change = whole(name, Change::Drop)?;
                if !self.dry_run {
                    ddl::drop(name, true, false)?;
                }
                Ok(change)
            }
        }
    }
}

/// The row of a sequence that is created or dropped.
fn whole(name: &Name, change: fn(Entry) -> Change) -> Result<Vec<Change>, HiloError> {
    let Some(sequence) = definitions::by_name(name)? else { return Ok(Vec::new()) };
    let entry = Known::of(sequence)?.described()?.entry;
    Ok(vec![change(Entry { name: String::new(), ..entry })])
}

/// Waits for other transactions that apply a document, and for DROP EXTENSION. To be called only
/// for a role that may change something, since it can make these wait.
fn lock_definitions() -> Result<(), HiloError> {
    let extension = catalog_oids()?.extension;
    let mode = pg_sys::ShareUpdateExclusiveLock as pg_sys::LOCKMODE;
    // SAFETY: takes a lock inside a transaction, whose end releases it; any object can be locked.
    unsafe { pg_sys::LockDatabaseObject(pg_sys::ExtensionRelationId, extension, 0, mode) };
    Ok(())
}
