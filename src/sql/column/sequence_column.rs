//! A column that is to change from one kind of sequence to the other: what it is, and what feeds
//! it. `fed.sql` finds that in core's catalogs, and `columns.sql` says what forbids the change.

use std::ffi::{CStr, CString};

use pgrx::pg_sys;

use hilo_core::options::DataType;

use crate::catalog::columns::column_ref::ColumnRef;
use crate::catalog::rights::privileges::{self, Privileges};
use crate::catalog::rows::catalog_tables::catalog_oids;
use crate::catalog::rows::name::{Name, escape_for_message};
use crate::catalog::rows::relations;
use crate::catalog::rows::table::text_datum;
use crate::catalog::sequence::definitions::data_type_from;
use crate::errors::HiloError;
use crate::process::ffi;
use crate::sql::call::spi::{Planned, Row};
use crate::sql::column::core_sequence::CoreSequence;
use crate::sql::column::stored::base_type;
use crate::sql::column::values::{self, Use};

/// A column of a table that the current user owns.
pub struct SequenceColumn {
    pub place: ColumnRef,
    pub name: CString,
    pub table_owner: pg_sys::Oid,
    /// `None`: the column is of type numeric.
    pub data_type: Option<DataType>,
    /// Whether it is an identity column that refuses the caller's values.
    pub is_always: bool,
    /// Whether it owns its core sequence, as a serial or identity column does.
    pub owns: bool,
    /// The name of its hilo sequence.
    pub hilo: Name,
}

/// A request to give columns another kind of sequence.
#[derive(Clone, Copy)]
pub enum MoveRequest<'a> {
    /// A column gets a hilo sequence, which is ordered as this says; `None`: as the old sequence.
    Adopt(pg_sys::Oid, &'a CStr, Option<bool>),
    /// All columns that this core sequence feeds get a hilo sequence.
    AdoptAll(pg_sys::Oid, Option<bool>),
    /// A column gets a core sequence, and becomes an identity column if this says so.
    Release(pg_sys::Oid, &'a CStr, bool),
}

/// A query about the columns, as `MoveRequest::ask` runs it. Its parameters must stand wherever
/// they are used, or else all dependencies of the database are read.
macro_rules! query {
    ($rest:literal) => {
        Planned::new(concat!(
            "WITH RECURSIVE given (relation, column_name, sequence, adopts, identity, name, schema,
                                   path, ordered) AS NOT MATERIALIZED (
             VALUES ($1::oid, $2, $3::oid, $4::boolean, $5::boolean, $6,
                     $7::oid::regnamespace::text, $8::oid[], $9::boolean)),\n",
            include_str!("fed.sql"),
            include_str!($rest)
        ))
    };
}

static COLUMNS: Planned = query!("columns.sql");
static SEQUENCES: Planned = query!("sequences.sql");
static STEPS: Planned = query!("steps.sql");

impl MoveRequest<'_> {
    /// Runs a query about the columns. `name`: that of a hilo sequence.
    fn ask<T>(
        self,
        query: &Planned,
        name: &[u8],
        each: impl FnMut(Row) -> T,
    ) -> Result<Vec<T>, HiloError> {
        let none = (pg_sys::InvalidOid, c"");
        let ((relation, column), sequence, ordered, identity) = match self {
            MoveRequest::Adopt(relation, column, ordered) => {
                ((relation, column), None, ordered, None)
            }
            MoveRequest::AdoptAll(sequence, ordered) => (none, Some(sequence), ordered, None),
            MoveRequest::Release(relation, column, identity) => {
                ((relation, column), None, None, Some(identity))
            }
        };
        // SAFETY: the list is made for this call, inside a transaction.
        let path = unsafe { relations::oids(pg_sys::fetch_search_path(true)) }?;
        let schema = catalog_oids()?.schema;
        let text = |text: String| text_datum(text.as_bytes());
        let number = |oid: pg_sys::Oid| text(oid.to_u32().to_string());
        let parameters = [
            Some(number(relation)),
            Some(text_datum(column.to_bytes())),
            sequence.map(number),
            Some(text(identity.is_none().to_string())),
            Some(text(identity.unwrap_or(false).to_string())),
            Some(text_datum(name)),
            Some(number(schema)),
            Some(text(oid_list(&path))),
            ordered.map(|ordered| text(ordered.to_string())),
        ];
        query.look_up(&parameters, each)
    }

    /// Looks the columns up, and checks that they may be moved.
    pub fn columns(self) -> Result<Vec<SequenceColumn>, HiloError> {
        if let MoveRequest::Adopt(relid, column, _) | MoveRequest::Release(relid, column, _) = self
        {
            values::find_column(relid, column, Use::Move)?;
        }
        let found = self.ask(&COLUMNS, b"", |row| {
            let column = SequenceColumn {
                place: ColumnRef { relid: row.oid(1), attnum: 0 },
                name: CString::new(row.bytes(2).unwrap_or_default()).unwrap_or_default(),
                table_owner: row.oid(3),
                data_type: None,
                is_always: row.bool(4),
                owns: row.bool(5),
                hilo: Name::from(row.bytes(6).unwrap_or_default().as_slice()),
            };
            (column, report_of_row(&row, 7))
        })?;
        found.into_iter().map(|(column, refusal)| column.check(refusal)).collect()
    }

    /// The core sequences that feed the columns and those of tables that inherit from them.
    pub fn sequences(self) -> Result<Vec<CoreSequence>, HiloError> {
        self.ask(&SEQUENCES, b"", CoreSequence::read)
    }

    /// The statements that let the columns draw from the hilo sequence `name`, each with its report
    /// for the user.
    ///
    /// # Errors
    /// The first reason that forbids the move.
    pub fn steps(self, name: &Name) -> Result<Vec<Step>, HiloError> {
        let mut steps = self.ask(&STEPS, name, |row| {
            let grant = Privileges::by_name(&row.text(7)).map(|privilege| (row.oid(6), privilege));
            Step { statement: row.bytes(5), grant, report: report_of_row(&row, 1) }
        })?;
        // A reason against the move comes first.
        match steps.first_mut().and_then(|step| step.report.take_if(|report| report.is_error())) {
            Some(error) => Err(error),
            None => Ok(steps),
        }
    }
}

/// A statement, a privilege that somebody has had, or a message.
pub struct Step {
    pub statement: Option<Vec<u8>>,
    pub grant: Option<(pg_sys::Oid, Privileges)>,
    pub report: Option<HiloError>,
}

/// The report that a query returns in the columns from `at` on: SQLSTATE, message, DETAIL, HINT.
fn report_of_row(row: &Row, at: i32) -> Option<HiloError> {
    let text = |number| Some(row.text(number)).filter(|text| !text.is_empty());
    let (message, detail, hint) = (row.text(at + 1), text(at + 2), text(at + 3));
    text(at).map(|state| HiloError::Told { state, message, detail, hint })
}

impl SequenceColumn {
    /// Completes a column that was found, unless a `refusal` or another reason forbids it.
    fn check(mut self, refusal: Option<HiloError>) -> Result<SequenceColumn, HiloError> {
        let relid = self.place.relid;
        let table = || escape_for_message(&relations::identifier(relid).unwrap_or_default());
        if !privileges::acts_as(ffi::current_user(), self.table_owner) {
            return Err(HiloError::NotTableOwner(table()));
        }
        if values::is_distributed(relid)? {
            return Err(HiloError::Distributed(table()));
        }
        self.place = values::find_column(relid, &self.name, Use::Move)?;
        self.data_type = data_type_from(base_type(self.place));
        refusal.map_or(Ok(self), Err)
    }
}

/// OIDs as the text of an array.
pub fn oid_list(oids: &[pg_sys::Oid]) -> String {
    let list: Vec<String> = oids.iter().map(|oid| oid.to_u32().to_string()).collect();
    format!("{{{}}}", list.join(","))
}
