//! The steps of `hilo_apply`. Each does what hilo_create, hilo_alter, hilo_set_owner, hilo_grant,
//! hilo_revoke or hilo_drop does.

use serde_json::json;

use hilo_core::document::Numbered;
use hilo_core::options::Options;
use hilo_core::plan::Row;

use crate::catalog::rights::privileges::{self, Privileges};
use crate::catalog::rows::encoding::encode;
use crate::catalog::rows::name::Name;
use crate::catalog::rows::table::next_command;
use crate::catalog::sequence::definitions::{self, Sequence};
use crate::catalog::sequence::numbering::{self, Numbering};
use crate::catalog::sequence::{node, positions};
use crate::errors::{DocumentError, HiloError, OrRaise};
use crate::session::invalidation;
use crate::session::uncommitted::{self, NumberSource};
use crate::sql::define::ddl::{self, Duplicate};
use crate::sql::define::ddl_checks::lock_owned;
use crate::sql::define::redefine::Alteration;
use crate::sql::define::{grants, owners, renumber};
use crate::sql::node::known::Known;
use crate::sql::node::target::Target;

/// The work on a sequence.
pub struct Step<'a> {
    pub name: Name,
    pub work: Work<'a>,
}

/// The sequence in the document; one to drop is not there.
pub enum Work<'a> {
    Create(&'a Target),
    Change(&'a Target),
    Drop,
}

impl Step<'_> {
    /// Takes the step, and returns its rows. A `dry_run` is rolled back afterwards.
    pub fn take(&self, dry_run: bool) -> Vec<Row> {
        match self.work {
            Work::Create(target) => target.placed(|| {
                create(target)?;
                self.change(target, dry_run)?;
                self.whole("create")
            }),
            Work::Change(target) => target.placed(|| self.change(target, dry_run)),
            Work::Drop => self.drop(dry_run).or_raise(),
        }
    }

    fn drop(&self, dry_run: bool) -> Result<Vec<Row>, HiloError> {
        let rows = self.whole("drop")?;
        // Others draw from it until it is dropped indeed.
        if !dry_run {
            ddl::drop(&self.name, true, false)?;
        }
        Ok(rows)
    }

    /// The row of a sequence that is created or dropped.
    fn whole(&self, action: &'static str) -> Result<Vec<Row>, HiloError> {
        let Some(sequence) = definitions::by_name(&self.name)? else { return Ok(Vec::new()) };
        Ok(vec![Row::of(action, &Known::of(sequence)?.described()?.entry)])
    }

    fn change(&self, target: &Target, dry_run: bool) -> Result<Vec<Row>, HiloError> {
        let (name, locked) = (&self.name, lock_owned(&self.name)?);
        let (old, mut rows) = (&locked.sequence, Vec::new());
        let Some(change) = target.change(&Known::of(old.clone())?)? else { return Ok(rows) };
        if let Some(numbering) = change.numbering
            && is_untold(old, numbering)?
        {
            number(old, numbering)?;
            rows.push(Row { action: "number", detail: json!(Numbered::from(numbering)) });
        }
        let alter = |options: &Options, owned_by| {
            let locked = &lock_owned(name)?;
            renumber::alter(&Alteration { locked, options, owned_by, restart: None }, dry_run)
        };
        // A table and its sequence have one owner, so a new column waits until that is settled.
        let kept = old.owned_by.filter(|_| !change.moves);
        if change.options != Options::default() || kept != old.owned_by {
            alter(&change.options, kept)?;
        }
        if let Some(owner) = &change.owner {
            owners::set_owner(name, grants::existing_role(&encode(owner))?)?;
        }
        if change.moves
            && let Some(column) = target.lock_column()?
        {
            alter(&Options::default(), Some(column))?;
        }
        let changes: [(_, grants::Changes); 2] =
            [(&change.revokes, privileges::revoke), (&change.grants, privileges::grant)];
        for (granted, change) in changes {
            for (grantee, set) in granted {
                let grantee = grants::role_or_public(&encode(grantee))?;
                let set = set.iter().filter_map(|one| Privileges::by_name(one.name()));
                let set = set.fold(Privileges::NONE, Privileges::or);
                grants::change(lock_owned(name)?, change, grantee, set)?;
            }
        }
        rows.extend(change.rows);
        Ok(rows)
    }
}

/// Creates a sequence that is as a new one in all but its options and its numbering.
fn create(target: &Target) -> Result<(), HiloError> {
    let (name, wanted) = (&target.name, &target.wanted);
    let numbering = wanted.entry.numbering.map(Numbering::from);
    if target.of_server && numbering.is_none() && wanted.definition.source.is_none() {
        // This server would begin as nobody did.
        return Err(DocumentError::NotNumbered(name.to_string()).into());
    }
    let definition = wanted.definition.clone();
    match ddl::create(name.clone(), definition, None, numbering, Duplicate::Refuse)? {
        Some(_) => Ok(()),
        None => Err(HiloError::Duplicate(name.to_string())),
    }
}

/// Whether this server is yet to be told how the other nodes number a sequence. If so, it has not
/// served it as the node that it is now. Refuses a sequence that it numbers differently: both could
/// serve the same values.
///
/// # Errors
/// `NumberingDiffers`
fn is_untold(found: &Sequence, there: Numbering) -> Result<bool, HiloError> {
    match positions::find(found.id, node::id())? {
        None => numbering::is_open(found),
        Some(here) => Err(HiloError::NumberingDiffers {
            name: found.name.to_string(),
            here: here.numbering().to_string(),
            there: there.to_string(),
        }),
    }
}

/// Lets this server begin with the numbering of other nodes. The sequence is locked, so the worker
/// makes no first position meanwhile.
fn number(sequence: &Sequence, given: Numbering) -> Result<(), HiloError> {
    let first = numbering::begin_with(sequence, &node::serves(sequence)?, given)?;
    // After a rollback the server may be told again, and would serve what this transaction has
    // drawn.
    uncommitted::note_origin(positions::insert(&first)?, NumberSource::Shared)?;
    next_command();
    invalidation::begin();
    Ok(())
}
