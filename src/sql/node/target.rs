//! A sequence of a document, which `hilo_apply` creates or changes, as hilo_create, hilo_alter,
//! hilo_set_owner, hilo_grant and hilo_revoke would.

use hilo_core::document::{Entry, Grant, Numbering};
use hilo_core::options::Options;
use hilo_core::plan::{Change, Described};

use crate::catalog::columns::column_ref::ColumnRef;
use crate::catalog::rights::privileges;
use crate::catalog::rows::encoding::encode;
use crate::catalog::rows::name::Name;
use crate::catalog::rows::roles;
use crate::catalog::sequence::definitions::Sequence;
use crate::catalog::sequence::{node, numbering, positions};
use crate::errors::{DocumentError, HiloError};
use crate::session::invalidation;
use crate::session::uncommitted::Origin;
use crate::sql::define::ddl::{self, Duplicate};
use crate::sql::define::ddl_checks::lock_owned;
use crate::sql::define::owned_by::{self, Purpose};
use crate::sql::define::redefine::Alteration;
use crate::sql::define::{grants, options, owners, renumber};
use crate::sql::node::document::at;
use crate::sql::node::known::{Known, decoded};

pub struct Target {
    /// Its place in the document.
    pub number: usize,
    pub name: Name,
    wanted: Described,
}

impl Target {
    /// # Errors
    /// The first error in the document's description of the sequence.
    pub fn new((number, entry): (usize, Entry)) -> Result<Target, HiloError> {
        let name = at(number, ".name", || Name::new(&encode(&entry.name)))?;
        let mut wanted = at(number, "", || checked(&name, entry))?;
        let entry = &mut wanted.entry;
        if let Some(text) = entry.owned_by.take() {
            let parse = || owned_by::parse(&encode(&text), Purpose::Look);
            // As the catalog spells it.
            entry.owned_by = decoded(at(number, ".owned_by", parse)?.and_then(ColumnRef::text));
        }
        if let Some(owner) = &entry.owner {
            at(number, ".owner", || grants::existing_role(&encode(owner)))?;
        }
        for (grant_number, grant) in entry.privileges.iter_mut().flatten().enumerate() {
            let field = format!(".privileges[{grant_number}].grantee");
            let role = at(number, &field, || grants::role_or_public(&encode(&grant.grantee)))?;
            grant.grantee = decoded(roles::name_or_public(role)).unwrap_or_default();
        }
        Ok(Target { number, name, wanted })
    }

    /// Locks the table that is to own the sequence, until the transaction ends, and returns the
    /// column.
    pub fn lock_column(&self) -> Result<Option<ColumnRef>, HiloError> {
        let owned_by = self.wanted.entry.owned_by.as_deref();
        owned_by::parse(&encode(owned_by.unwrap_or("none")), Purpose::Own)
    }

    /// Creates the sequence, with the options and the numbering of the document. `of_server`: the
    /// document is the summary of a server.
    pub fn create(&self, of_server: bool) -> Result<(), HiloError> {
        let (definition, numbering) = (self.wanted.definition.clone(), self.wanted.entry.numbering);
        if of_server && numbering.is_none() && definition.source.is_none() {
            // This server would begin with a numbering of its own.
            return Err(DocumentError::NotNumbered(self.name.to_string()).into());
        }
        ddl::create(self.name.clone(), definition, None, numbering, Duplicate::Refuse).map(drop)
    }

    /// Whether the sequence needs any change.
    pub fn differs(&self, known: &Known) -> Result<bool, HiloError> {
        Ok(!self.wanted.changes(&self.found(known)?).is_empty())
    }

    /// The sequence as it is, with a numbering if the document has one: that reads its position.
    fn found(&self, known: &Known) -> Result<Described, HiloError> {
        match self.wanted.entry.numbering {
            Some(_) => known.summary(),
            None => known.described(),
        }
    }

    /// Changes the sequence, and returns what it has changed. A `dry_run` is rolled back
    /// afterwards.
    pub fn change(&self, dry_run: bool) -> Result<Vec<Change>, HiloError> {
        let locked = lock_owned(&self.name)?;
        let sequence = &locked.sequence;
        let found = self.found(&Known::read(sequence.clone())?)?;
        let moves = self.wanted.entry.owned_by != found.entry.owned_by;
        let alter = |options: &Options, owned_by| {
            let locked = &lock_owned(&self.name)?;
            renumber::alter(&Alteration { locked, options, owned_by, restart: None }, dry_run)
        };
        let mut done = Vec::new();
        for change in self.wanted.changes(&found) {
            match &change {
                Change::Number(there) if !tell(sequence, *there)? => continue,
                // A table and its sequence have one owner, so a new column waits until that is
                // settled.
                Change::Alter(_) => {
                    let options = self.wanted.definition.changes_of(&found.definition);
                    alter(&options, sequence.owned_by.filter(|_| !moves))?;
                }
                Change::SetOwner { to, .. } => {
                    owners::set_owner(&self.name, grants::existing_role(&encode(to))?)?;
                }
                Change::Revoke(grant) => self.change_rights(privileges::revoke, grant)?,
                Change::Grant(grant) => self.change_rights(privileges::grant, grant)?,
                _ => {}
            }
            done.push(change);
        }
        if moves && let Some(column) = self.lock_column()? {
            alter(&Options::default(), Some(column))?;
        }
        Ok(done)
    }

    fn change_rights(&self, change: grants::Changes, grant: &Grant) -> Result<(), HiloError> {
        let grantee = grants::role_or_public(&encode(&grant.grantee))?;
        let set = grant.privileges.iter().copied().collect();
        grants::change(lock_owned(&self.name)?, change, grantee, set)
    }
}

/// The description of a sequence, if hilo_create would accept it.
fn checked(name: &Name, entry: Entry) -> Result<Described, HiloError> {
    let mut wanted = Described::new(entry)?;
    if wanted.definition.source.is_some() {
        // Its source gives the values, so this server does not number it.
        wanted.entry.numbering = None;
    } else if wanted.entry.is_fed() {
        return Err(DocumentError::SourceHidden(name.to_string()).into());
    }
    for (option, text) in wanted.entry.options().texts() {
        options::stored(option, &encode(text))?;
    }
    Ok(wanted)
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
            here: here.numbering(),
            there,
        });
    }
    let Some(first) = numbering::begin_with(sequence, there)? else { return Ok(false) };
    // After a rollback the server may be told again, and would serve what this transaction has
    // drawn.
    ddl::number(&first, Origin::Shared)?;
    invalidation::begin();
    Ok(true)
}
