//! The wishes of a document for each sequence, with what its names stand for in this database.

use std::panic::AssertUnwindSafe;

use pgrx::pg_sys;
use pgrx::pg_sys::panic::{CaughtError, ErrorReport};
use pgrx::prelude::*;

use hilo_core::document::{Described, Document, difference};
use hilo_core::name as names;
use hilo_core::options::Definition;
use hilo_core::summary::Numbering;

use crate::catalog::column_ref::ColumnRef;
use crate::catalog::definitions::Sequence;
use crate::catalog::name::Name;
use crate::catalog::node;
use crate::catalog::privileges::{self, Privileges};
use crate::catalog::{numbering, positions};
use crate::errors::{HiloError, OrRaise, with_path};
use crate::process::memory::TryGrow;
use crate::process::subtransaction;
use crate::sql::define::owned_by::{self, Purpose};
use crate::sql::define::{ddl, grants};
use crate::sql::node::export;
use crate::sql::node::json::in_encoding;

/// A sequence as the document wants it, with what its names stand for in this database.
pub struct Wanted {
    /// Where in the document.
    pub path: String,
    pub name: Name,
    pub definition: Definition,
    pub owned_by: Option<ColumnRef>,
    pub owner: Option<pg_sys::Oid>,
    /// By grantee, and none of them without any.
    pub privileges: Option<Vec<(pg_sys::Oid, Privileges)>>,
    pub numbering: Option<Numbering>,
    /// Whether the document is the summary of a server.
    pub is_of_server: bool,
}

/// The wishes of a document, checked as far as that needs no look at the sequences that exist.
/// `purpose` says what becomes of the tables that own them.
pub fn wishes(document: &Document, purpose: Purpose) -> Result<Vec<Wanted>, HiloError> {
    let mut all = Vec::new();
    for (at, described) in document.sequences.iter().enumerate() {
        all.try_push(resolve(described, format!("sequences[{at}]"), document, purpose)?)?;
    }
    Ok(all)
}

fn resolve(
    described: &Described,
    path: String,
    document: &Document,
    purpose: Purpose,
) -> Result<Wanted, HiloError> {
    let at = |field: &str, error: HiloError| HiloError::InDocument {
        path: format!("{path}{field}"),
        error: Box::new(error),
    };
    let name = in_encoding(&described.name);
    names::validate(&name).map_err(|error| at(".name", error.into()))?;
    let definition =
        Definition::create(&described.options()).map_err(|error| at("", error.into()))?;
    if let Some(format) = &definition.key_format {
        ddl::key_format_text(&in_encoding(format)).map_err(|error| at(".key_format", error))?;
    }
    let owned_by = described.owned_by.as_deref().and_then(|column| {
        let path = format!("{path}.owned_by");
        at_path(&path, || owned_by::parse(&in_encoding(column), purpose).or_raise())
    });
    let owner = described.owner.as_deref().map(|owner| grants::existing_role(&in_encoding(owner)));
    let owner = owner.transpose().map_err(|error| at(".owner", error))?;
    let mut privileges: Option<Vec<_>> = None;
    for (number, grant) in described.privileges.iter().flatten().enumerate() {
        let at = |error| at(&format!(".privileges[{number}].grantee"), error);
        let grantee = grants::role_or_public(&in_encoding(&grant.grantee)).map_err(at)?;
        let of = grant.privileges.iter().filter_map(|name| Privileges::by_name(name));
        let set = of.fold(Privileges::NONE, Privileges::or);
        let list = privileges.get_or_insert_default();
        if list.iter().any(|(other, _)| *other == grantee) {
            let what = format!("the grantee \"{}\" appears twice", grant.grantee);
            return Err(at(HiloError::Argument(what, "Give each role one entry.")));
        }
        list.try_push((grantee, set))?;
    }
    if described.privileges.is_some() {
        privileges.get_or_insert_default().retain(|(_, set)| *set != Privileges::NONE);
    }
    let name = name.as_slice().into();
    Ok(Wanted {
        path,
        name,
        definition,
        owned_by,
        owner,
        privileges,
        numbering: described.numbering,
        is_of_server: document.node.is_some(),
    })
}

impl Wanted {
    /// The numbering of the other nodes, if this server is yet to be told it. It has not served the
    /// sequence as the node that it is now, and would begin differently or not at all. Refuses a
    /// sequence that it numbers differently: both could serve the same values.
    ///
    /// # Errors
    /// `NumberingDiffers`
    pub fn untold(&self, found: &Sequence) -> Result<Option<Numbering>, HiloError> {
        let Some(there) = self.numbering else { return Ok(None) };
        let id = node::id();
        let here = export::numbering(found, id)?;
        if here.is_some_and(|here| here.is_as(&there)) {
            return Ok(None);
        }
        match (here, positions::find(found.id, id)?) {
            (Some(here), Some(_)) => Err(HiloError::NumberingDiffers {
                name: found.name.to_string(),
                here: here.to_string(),
                there: there.to_string(),
            }),
            _ => Ok(numbering::is_open(found)?.then_some(there)),
        }
    }

    /// Whether a sequence is already as wanted.
    ///
    /// # Errors
    /// `NumberingDiffers` if it is but for its numbering.
    pub fn is_met_by(&self, found: &Sequence) -> Result<bool, HiloError> {
        let met = difference(&found.definition, &self.definition).is_none()
            && self.owned_by == found.owned_by
            && self.owner.is_none_or(|owner| owner == found.owner)
            && match &self.privileges {
                Some(wanted) => {
                    let granted = privileges::grants_on(found.id)?;
                    granted.len() == wanted.len() && granted.iter().all(|one| wanted.contains(one))
                }
                None => true,
            };
        Ok(met && self.untold(found)?.is_none())
    }
}

const CANCELED: PgSqlErrorCode = PgSqlErrorCode::ERRCODE_QUERY_CANCELED;

/// Runs `work`; an error says which place of the document it belongs to.
pub fn at_path<T>(path: &str, work: impl FnOnce() -> T) -> T {
    PgTryBuilder::new(AssertUnwindSafe(work))
        .catch_others(|error| match error {
            error if subtransaction::sqlstate(&error) == CANCELED => error.rethrow(),
            CaughtError::PostgresError(report) | CaughtError::ErrorReport(report) => {
                let detail = with_path(report.detail().map(str::to_owned), path);
                let mut placed =
                    ErrorReport::new(report.sql_error_code(), report.message().to_owned(), "hilo")
                        .set_detail(detail);
                if let Some(hint) = report.hint() {
                    placed = placed.set_hint(hint);
                }
                placed.report(PgLogLevel::ERROR);
                unreachable!("an ERROR does not return")
            }
            error => error.rethrow(),
        })
        .execute()
}
