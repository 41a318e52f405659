//! A sequence of a document that `hilo_apply` makes true.

use std::panic::AssertUnwindSafe;

use pgrx::pg_sys;
use pgrx::pg_sys::panic::{CaughtError, ErrorReport};
use pgrx::prelude::*;

use hilo_core::document::{Entry, place_of};
use hilo_core::plan::{Change, Found, Wanted};

use crate::catalog::column_ref::ColumnRef;
use crate::catalog::name::{Name, escape_for_message};
use crate::catalog::privileges;
use crate::errors::{DocumentError, HiloError, OrRaise, with_path};
use crate::sql::define::ddl_checks::find_owned;
use crate::sql::define::owned_by::{self, Purpose};
use crate::sql::define::{ddl, grants};
use crate::sql::node::compare::in_document;
use crate::sql::node::json::{decode, encode};
use crate::sql::node::known::Known;

pub struct Target {
    pub at: usize,
    pub name: Name,
    pub wanted: Wanted,
    /// The role of its `owner`.
    pub owner: Option<pg_sys::Oid>,
}

impl Target {
    pub fn new(at: usize, entry: Entry) -> Result<Target, HiloError> {
        let name = encode(&entry.name);
        let definition = entry.definition(at, &name).map_err(in_document)?;
        if entry.is_fed() && entry.source.is_none() {
            let hidden = DocumentError::SourceHidden(escape_for_message(&name));
            return Err(placed(at, "", hidden.into()));
        }
        let stored = [
            definition.key_format.as_deref().map(|text| ddl::key_format(&encode(text))),
            definition.source.as_deref().map(|text| ddl::source(&encode(text))),
        ];
        for text in stored.into_iter().flatten() {
            text.map_err(|error| placed(at, "", error))?;
        }
        let role = |role: &str, field: &str| {
            grants::existing_role(&encode(role)).map_err(|error| placed(at, field, error))
        };
        let owner = entry.owner.as_deref().map(|owner| role(owner, ".owner")).transpose()?;
        let is_role = |name: &str| grants::existing_role(&encode(name)).is_ok();
        let privileges = entry.grants(at, is_role).map_err(in_document)?;
        for (number, grant) in entry.privileges.iter().flatten().enumerate() {
            if !grant.grantee.eq_ignore_ascii_case("public") {
                role(&grant.grantee, &format!(".privileges[{number}].grantee"))?;
            }
        }
        let wanted = Wanted { entry, definition, privileges };
        Ok(Target { at, name: Name::from(&name[..]), wanted, owner })
    }

    /// The column that is to own it.
    pub fn column(&self, purpose: Purpose) -> Result<Option<ColumnRef>, HiloError> {
        match &self.wanted.entry.owned_by {
            Some(owned_by) => owned_by::parse(&encode(owned_by), purpose),
            None => Ok(None),
        }
    }

    /// The same. An error says where the document names it.
    pub fn placed_column(&self, purpose: Purpose) -> Option<ColumnRef> {
        at_path(&place_of(self.at, ".owned_by"), || self.column(purpose).or_raise())
    }

    /// Whether the caller may change the sequence or, if there is none, create it.
    pub fn check_rights(&self) -> Result<(), HiloError> {
        let may = find_owned(&self.name).and_then(|found| match found {
            None => privileges::may_create(),
            Some(_) => Ok(()),
        });
        may.map_err(|error| placed(self.at, "", error))
    }

    /// The changes of the sequence, if it needs any.
    pub fn change(&self, known: &Known) -> Result<Option<Change>, HiloError> {
        let column = self.placed_column(Purpose::Look).and_then(ColumnRef::text);
        let wanted = &self.wanted;
        let numbering = match wanted.entry.numbering {
            Some(_) => known.numbering()?,
            None => None,
        };
        let found = Found {
            definition: known.definition(),
            owner: known.owner(),
            owned_by: known.owned_by(),
            privileges: known.grants(),
            numbering,
        };
        Ok(wanted.change(&found, column.map(|column| decode(column.to_bytes()))))
    }
}

pub fn placed(at: usize, field: &str, error: HiloError) -> HiloError {
    HiloError::InDocument { path: place_of(at, field), error: Box::new(error) }
}

/// Runs `work`; an error says which place of the document it belongs to.
pub fn at_path<T>(path: &str, work: impl FnOnce() -> T) -> T {
    PgTryBuilder::new(AssertUnwindSafe(work))
        .catch_others(|error| match error {
            CaughtError::PostgresError(report) | CaughtError::ErrorReport(report)
                if report.sql_error_code() != PgSqlErrorCode::ERRCODE_QUERY_CANCELED =>
            {
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
