//! A sequence of a document, which `hilo_apply` makes true: by what hilo_create, hilo_alter,
//! hilo_set_owner, hilo_grant and hilo_revoke do.

use hilo_core::document::{Described, Entry, Grant, Numbering};
use hilo_core::grants::sort;
use hilo_core::name;
use hilo_core::options::Options;
use hilo_core::plan::Change;

use crate::catalog::columns::column_ref::ColumnRef;
use crate::catalog::rights::privileges::{self, Privileges};
use crate::catalog::rows::encoding::encode;
use crate::catalog::rows::name::{Name, escape_for_message};
use crate::catalog::rows::roles::PUBLIC;
use crate::catalog::rows::table::next_command;
use crate::catalog::sequence::definitions::Sequence;
use crate::catalog::sequence::{node, numbering, positions};
use crate::errors::{DocumentError, HiloError};
use crate::session::invalidation;
use crate::session::uncommitted::{self, NumberSource};
use crate::sql::define::ddl::{self, Duplicate};
use crate::sql::define::ddl_checks::{find_owned, lock_owned};
use crate::sql::define::owned_by::{self, Purpose};
use crate::sql::define::redefine::Alteration;
use crate::sql::define::{grants, options, owners, renumber};
use crate::sql::node::document::{Place, form};
use crate::sql::node::known::{Known, decoded_column};

pub struct Target {
    pub at: usize,
    pub name: Name,
    wanted: Described,
}

impl Target {
    /// # Errors
    /// The first error in the document's description of the sequence.
    pub fn new(at: usize, entry: Entry, place: &Place) -> Result<Target, HiloError> {
        place.set(at, ".name");
        let name = encode(&entry.name);
        name::validate(&name)?;
        place.set(at, "");
        let mut wanted = Described::new(entry)?;
        check_source_and_texts(&name, &wanted)?;
        let entry = &mut wanted.entry;
        if wanted.definition.source.is_some() {
            // Such a sequence is not numbered here: its source gives the values.
            entry.numbering = None;
        }
        if let Some(owned_by) = entry.owned_by.take() {
            place.set(at, ".owned_by");
            // As the catalog spells it.
            let column = owned_by::parse(&encode(&owned_by), Purpose::Look)?;
            entry.owned_by = column.and_then(decoded_column);
        }
        if let Some(owner) = &entry.owner {
            place.set(at, ".owner");
            grants::existing_role(&encode(owner))?;
        }
        if let Some(list) = &mut entry.privileges {
            for (number, grant) in list.iter_mut().enumerate() {
                place.set(at, &format!(".privileges[{number}].grantee"));
                if grants::role_or_public(&encode(&grant.grantee))? == PUBLIC {
                    grant.grantee = "public".to_owned();
                }
            }
            sort(list).map_err(|twice| {
                place.set(at, &format!(".privileges{twice}"));
                form("it appears twice")
            })?;
        }
        Ok(Target { at, name: Name::from(&name[..]), wanted })
    }

    /// Locks the table that is to own the sequence, until the transaction ends, and returns the
    /// column.
    pub fn lock_column(&self) -> Result<Option<ColumnRef>, HiloError> {
        match &self.wanted.entry.owned_by {
            Some(owned_by) => owned_by::parse(&encode(owned_by), Purpose::Own),
            None => Ok(None),
        }
    }

    /// Checks that the caller may change the sequence or, if there is none, create it.
    pub fn check_rights(&self) -> Result<(), HiloError> {
        match find_owned(&self.name)? {
            None => privileges::may_create(),
            Some(_) => Ok(()),
        }
    }

    /// Creates the sequence, with the options and the numbering of the document. `of_server`: the
    /// document is the summary of a server.
    pub fn create(&self, of_server: bool) -> Result<(), HiloError> {
        let (name, definition) = (self.name.clone(), self.wanted.definition.clone());
        let numbering = self.wanted.entry.numbering;
        if of_server && numbering.is_none() && definition.source.is_none() {
            // This server would begin with a numbering of its own.
            return Err(DocumentError::NotNumbered(name.to_string()).into());
        }
        match ddl::create(name, definition, None, numbering, Duplicate::Refuse)? {
            Some(_) => Ok(()),
            None => Err(HiloError::Duplicate(self.name.to_string())),
        }
    }

    fn found(&self, known: &Known) -> Result<Described, HiloError> {
        match self.wanted.entry.numbering {
            Some(_) => known.summary(),
            None => known.described(),
        }
    }

    /// Whether the sequence needs any change.
    pub fn differs(&self, known: &Known) -> Result<bool, HiloError> {
        Ok(!self.wanted.changes(&self.found(known)?).is_empty())
    }

    /// Changes the sequence, and returns what it has changed. A `dry_run` is rolled back
    /// afterwards.
    pub fn change(&self, dry_run: bool) -> Result<Vec<Change>, HiloError> {
        let locked = lock_owned(&self.name)?;
        let sequence = &locked.sequence;
        let found = self.found(&Known::of(sequence.clone())?)?;
        let moves = self.wanted.entry.owned_by != found.entry.owned_by;
        let mut done = Vec::new();
        for change in self.wanted.changes(&found) {
            match &change {
                Change::Number(there) => {
                    if !tell(sequence, *there)? {
                        continue;
                    }
                }
                Change::Alter(_) => {
                    // A table and its sequence have one owner, so a new column waits until that is
                    // settled.
                    let kept = sequence.owned_by.filter(|_| !moves);
                    if self.wanted.definition != found.definition || kept != sequence.owned_by {
                        let options = self.wanted.definition.changes_of(&found.definition);
                        self.alter(&options, kept, dry_run)?;
                    }
                }
                Change::SetOwner { to, .. } => {
                    owners::set_owner(&self.name, grants::existing_role(&encode(to))?)?;
                }
                Change::Revoke(grant) => self.change_rights(privileges::revoke, grant)?,
                Change::Grant(grant) => self.change_rights(privileges::grant, grant)?,
                Change::Create(_) | Change::Drop(_) => {}
            }
            done.push(change);
        }
        if moves && let Some(column) = self.lock_column()? {
            self.alter(&Options::default(), Some(column), dry_run)?;
        }
        Ok(done)
    }

    fn alter(
        &self,
        options: &Options,
        owned_by: Option<ColumnRef>,
        dry_run: bool,
    ) -> Result<(), HiloError> {
        let locked = &lock_owned(&self.name)?;
        renumber::alter(&Alteration { locked, options, owned_by, restart: None }, dry_run)
    }

    fn change_rights(&self, change: grants::Changes, grant: &Grant) -> Result<(), HiloError> {
        let grantee = grants::role_or_public(&encode(&grant.grantee))?;
        let set = grant.privileges.iter().filter_map(|one| Privileges::by_name(one.name()));
        let set = set.fold(Privileges::NONE, Privileges::or);
        grants::change(lock_owned(&self.name)?, change, grantee, set)
    }
}

fn check_source_and_texts(name: &[u8], wanted: &Described) -> Result<(), HiloError> {
    if wanted.entry.is_fed() && wanted.definition.source.is_none() {
        return Err(DocumentError::SourceHidden(escape_for_message(name)).into());
    }
    for (option, text) in wanted.entry.options().texts() {
        options::stored(option, &encode(text))?;
    }
    Ok(())
}

/// Lets this server begin with the numbering of other nodes. `false`: nothing is done, because
/// replication brings the numbering. Refuses a sequence that this server numbers differently: both
/// could serve the same values.
///
/// The sequence is locked, so the worker makes no first position in between.
///
/// # Errors
/// `NumberingDiffers`
fn tell(sequence: &Sequence, there: Numbering) -> Result<bool, HiloError> {
    if let Some(here) = positions::find(sequence.id, node::id())? {
        return Err(HiloError::NumberingDiffers {
            name: sequence.name.to_string(),
            here: here.numbering().to_string(),
            there: there.to_string(),
        });
    }
    if !numbering::is_open(sequence)? {
        return Ok(false);
    }
    let first = numbering::begin_with(sequence, &node::serves(sequence)?, there)?;
    // After a rollback the server may be told again, and would serve what this transaction has
    // drawn.
    uncommitted::note_origin(positions::insert(&first)?, NumberSource::Shared)?;
    next_command();
    invalidation::begin();
    Ok(true)
}
