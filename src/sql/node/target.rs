//! A sequence of a document that `hilo_apply` makes true.

use hilo_core::document::{Described, Entry, place_of};
use hilo_core::name;
use hilo_core::plan::Change;

use crate::catalog::columns::column_ref::ColumnRef;
use crate::catalog::rights::privileges;
use crate::catalog::rows::encoding::encode;
use crate::catalog::rows::name::{Name, escape_for_message};
use crate::errors::{DocumentError, HiloError};
use crate::sql::define::ddl_checks::find_owned;
use crate::sql::define::owned_by::{self, Purpose};
use crate::sql::define::{grants, options};
use crate::sql::node::document::{described, placed, refuse};
use crate::sql::node::known::{Known, decoded_column};

pub struct Target {
    pub at: usize,
    pub name: Name,
    pub wanted: Described,
    /// Whether the document is the summary of a server.
    pub of_server: bool,
}

impl Target {
    /// Raises the first error of what the document says of it.
    pub fn new(at: usize, entry: Entry, of_server: bool) -> Target {
        let name = encode(&entry.name);
        placed(&place_of(at, ".name"), || Ok(name::validate(&name)?));
        let mut wanted = described(at, entry);
        placed(&place_of(at, ""), || check_source_and_texts(&name, &wanted));
        let entry = &mut wanted.entry;
        if wanted.definition.source.is_some() {
            // The source says which values come.
            entry.numbering = None;
        }
        if let Some(owned_by) = entry.owned_by.take() {
            let parse = || owned_by::parse(&encode(&owned_by), Purpose::Look);
            // As the catalog spells it.
            entry.owned_by = placed(&place_of(at, ".owned_by"), parse).and_then(decoded_column);
        }
        if let Some(owner) = &entry.owner {
            placed(&place_of(at, ".owner"), || grants::existing_role(&encode(owner)));
        }
        for (number, grant) in entry.privileges.iter().flatten().enumerate() {
            let grantee = place_of(at, &format!(".privileges[{number}].grantee"));
            placed(&grantee, || grants::role_or_public(&encode(&grant.grantee)));
        }
        let is_role = |name: &str| grants::existing_role(&encode(name)).is_ok();
        wanted.granted = entry.grants(at, is_role).unwrap_or_else(refuse);
        Target { at, name: Name::from(&name[..]), wanted, of_server }
    }

    /// Locks the table that is to own it, until the transaction ends, and returns the column.
    pub fn lock_column(&self) -> Result<Option<ColumnRef>, HiloError> {
        match &self.wanted.entry.owned_by {
            Some(owned_by) => owned_by::parse(&encode(owned_by), Purpose::Own),
            None => Ok(None),
        }
    }

    /// Does work whose errors belong to the sequence.
    pub fn placed<T>(&self, work: impl FnOnce() -> Result<T, HiloError>) -> T {
        placed(&place_of(self.at, ""), work)
    }

    /// Checks that the caller may change the sequence or, if there is none, create it.
    pub fn check_rights(&self) {
        self.placed(|| match find_owned(&self.name)? {
            None => privileges::may_create(),
            Some(_) => Ok(()),
        });
    }

    /// The changes of the sequence, if it needs any.
    pub fn change(&self, known: &Known) -> Result<Option<Change>, HiloError> {
        let found = match self.wanted.entry.numbering {
            Some(_) => known.summary()?,
            None => known.described()?,
        };
        Ok(self.wanted.change(&found))
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
