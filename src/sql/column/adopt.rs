//! `hilo_adopt`: lets a serial or identity column, or one whose default is `nextval(…)`, draw from
//! a hilo sequence. `hilo_adopt_sequence`: does so with all columns that share a sequence.

use std::ffi::CStr;

use pgrx::pg_sys;
use pgrx::pg_sys::panic::ErrorReport;
use pgrx::prelude::*;

use hilo_core::options::{DataType, Definition};

use crate::catalog::rights::privileges;
use crate::catalog::rows::name::{Name, escape_for_message};
use crate::catalog::rows::relations;
use crate::catalog::sequence::definitions::{self, Sequence};
use crate::catalog::sequence::gaps;
use crate::errors::HiloError;
use crate::process::subtransaction;
use crate::sql::call::border::Call;
use crate::sql::call::spi;
use crate::sql::call::stored_rows::{Record, row};
use crate::sql::call::text::Text;
use crate::sql::column::core_sequence::CoreSequence;
use crate::sql::column::lock;
use crate::sql::column::sequence_column::{MoveRequest, SequenceColumn, Step};
use crate::sql::column::values::Values;
use crate::sql::define::ddl::{self, Duplicate};
use crate::sql::define::ddl_checks;
use crate::sql::define::loads_hilo as sessions;
use crate::sql::define::renumber;
use crate::sql::types::sequence_type::SequenceName;

/// `hilo_adopt(relation, column_name, name, ordered)`. Returns the name of the sequence.
#[pg_extern(sql = false)]
fn hilo_adopt(
    _call: Call,
    relation: Option<pg_sys::Oid>,
    column_name: Option<&CStr>,
    name: Option<SequenceName>,
    ordered: Option<bool>,
) -> Result<Name, ErrorReport> {
    ddl_checks::begin_write(c"hilo_adopt()")?;
    let (relation, column) = column_of(relation, column_name)?;
    let name = name.map(SequenceName::new_name).transpose()?;
    let (sequence, reports) = adopt(MoveRequest::Adopt(relation, column, ordered), name)?;
    tell(reports);
    Ok(sequence.name)
}

/// `_hilo.hilo_adopt_sequence(sequence, name, ordered, mentions)`: adopts all columns that a
/// sequence feeds. `mentions`: what else names the sequence.
#[pg_extern(sql = false)]
fn hilo_adopt_columns(
    _call: Call,
    sequence: Option<pg_sys::Oid>,
    name: Option<SequenceName>,
    ordered: Option<bool>,
    mentions: Option<Text>,
) -> Result<Name, ErrorReport> {
    ddl_checks::begin_write(c"hilo_adopt_sequence()")?;
    let sequence = ddl_checks::require(sequence, "sequence")?;
    let name = name.map(SequenceName::new_name).transpose()?;
    let (sequence, mut reports) = adopt(MoveRequest::AdoptAll(sequence, ordered), name)?;
    reports.extend(mentions.map(|mentions| mention_report(&sequence.name, &mentions.escaped())));
    tell(reports);
    Ok(sequence.name)
}

row! {
    struct Adopted {
        name: Option<Name>,
        failure: Option<String>,
        said: Option<String>,
        kind: Option<&'static str>,
    }
}

/// `_hilo.hilo_try_adopt(relation, column_name, sequence, ordered, dry_run)`: adopts a column or,
/// with a sequence, all columns that it feeds. Returns the name of the new sequence, its reports,
/// and whether it is ordered, or else why there is none. A dry run checks what can be checked
/// without a lock.
#[pg_extern(sql = false)]
fn hilo_try_adopt(
    _call: Call,
    relation: Option<pg_sys::Oid>,
    column_name: Option<&CStr>,
    sequence: Option<pg_sys::Oid>,
    ordered: Option<bool>,
    dry_run: Option<bool>,
) -> Result<Record<Adopted>, ErrorReport> {
    ddl_checks::begin_write(c"hilo_adopt_all()")?;
    let (relation, column) = column_of(relation, column_name)?;
    let request = match sequence {
        Some(sequence) => MoveRequest::AdoptAll(sequence, ordered),
        None => MoveRequest::Adopt(relation, column, ordered),
    };
    let try_out = || {
        privileges::may_create()?;
        let sequences = request.sequences()?;
        let (name, _) = plan(request, &find(request)?, &sequences, None)?;
        Ok((name, main(&sequences)?.ordered, Vec::new()))
    };
    let outcome = subtransaction::run(subtransaction::is_of_work, || match dry_run {
        Some(false) => adopt(request, None)
            .map(|(adopted, told)| (adopted.name, adopted.definition.ordered, told)),
        _ => try_out(),
    });
    Ok(Record(match outcome {
        Ok((name, ordered, reports)) => {
            let said: Vec<String> = reports.iter().filter_map(in_a_row).collect();
            let said = (!said.is_empty()).then(|| said.join("; "));
            let kind = Some(if ordered { "ordered" } else { "unordered" });
            Adopted { name: Some(name), failure: None, said, kind }
        }
        Err(report) => {
            let failure = Some(subtransaction::message_with_detail(&report));
            Adopted { name: None, failure, said: None, kind: None }
        }
    }))
}

/// A column, by its table and its name.
pub(in crate::sql) fn column_of(
    relation: Option<pg_sys::Oid>,
    column_name: Option<&CStr>,
) -> Result<(pg_sys::Oid, &CStr), HiloError> {
    Ok((
        ddl_checks::require(relation, "relation")?,
        ddl_checks::require(column_name, "column name")?,
    ))
}

/// All columns that a sequence feeds, or the requested column.
fn find(request: MoveRequest) -> Result<Vec<SequenceColumn>, HiloError> {
    let columns = request.columns()?;
    if let MoveRequest::AdoptAll(sequence, _) = request
        && columns.is_empty()
    {
        // SAFETY: a look-up in a system cache, which takes any OID.
        if unsafe { pg_sys::get_rel_relkind(sequence) } as u8 != pg_sys::RELKIND_SEQUENCE {
            return Err(HiloError::NoSuchRelation(sequence.to_u32()));
        }
        let name = relations::identifier(sequence).unwrap_or_default();
        return Err(HiloError::FeedsNothing(escape_for_message(&name)));
    }
    Ok(columns)
}

/// Moves the columns. Returns their new sequence, and the reports for the user.
fn adopt(
    request: MoveRequest,
    name: Option<Name>,
) -> Result<(Sequence, Vec<HiloError>), HiloError> {
    privileges::may_create()?;
    let (mut columns, mut sequences) = (find(request)?, request.sequences()?);
    loop {
        let tables = lock::for_move(&columns, || {
            // Only the sequences that are going to be dropped are locked.
            let own = sequences.iter().filter(|sequence| sequence.own);
            own.for_each(|sequence| lock::sequence(sequence.oid));
            Ok(())
        })?;
        // The sequences may have changed before they were locked.
        let before = sequences;
        (columns, sequences) = (find(request)?, request.sequences()?);
        let is_locked = |column: &SequenceColumn| tables.contains(&column.place.relid);
        if columns.iter().all(is_locked) && sequences == before {
            break;
        }
    }
    let (name, steps) = plan(request, &columns, &sequences, name)?;
    let sequence = create(&columns, &sequences, name)?;
    for step in &steps {
        if let Some((grantee, privilege)) = step.grant {
            privileges::grant(&sequence, grantee, privilege)?;
        }
        step.statement.iter().try_for_each(|statement| spi::execute(statement))?;
    }
    Ok((sequence, steps.into_iter().filter_map(|step| step.report).collect()))
}

/// Checks that the columns can be moved. Returns the name of their new sequence, and the steps.
fn plan(
    request: MoveRequest,
    columns: &[SequenceColumn],
    sequences: &[CoreSequence],
    name: Option<Name>,
) -> Result<(Name, Vec<Step>), HiloError> {
    if columns.iter().any(|column| column.is_always || column.owns) {
        sessions::check()?;
    }
    let name = match name {
        Some(name) => name,
        None => free_name(main(sequences)?)?,
    };
    let steps = request.steps(&name)?;
    if definitions::by_name(&name)?.is_some() {
        return Err(HiloError::Duplicate(name.to_string()));
    }
    Ok((name, steps))
}

/// The sequence that feeds the columns themselves. It exists unless it was just dropped.
fn main(sequences: &[CoreSequence]) -> Result<&CoreSequence, HiloError> {
    let main = sequences.iter().find(|sequence| sequence.is_main);
    main.ok_or(HiloError::NoSuchRelation(0))
}

/// Creates the sequence that replaces the old one. It begins beyond the values of the columns, and
/// beyond all sequences that have fed them.
fn create(
    columns: &[SequenceColumn],
    sequences: &[CoreSequence],
    name: Name,
) -> Result<Sequence, HiloError> {
    let old = main(sequences)?;
    let direction = old.direction();
    // Every committed row counts, and no row is hidden from this read. Beyond the bound nothing is
    // served.
    let furthest = |column: &SequenceColumn| {
        Values::all(column.place, None).and_then(|all| all.furthest(direction, old.last()))
    };
    let held = columns.iter().map(furthest).collect::<Result<Vec<_>, _>>()?;
    let held = held.into_iter().flatten().reduce(|a, b| direction.further(a, b));
    let mut next = old.next_beyond(old.next()?, held);
    for other in sequences.iter().filter(|other| other.oid != old.oid) {
        // The next value of the other sequence is free; the values before it may be taken.
        let taken = other.next()?.and_then(|theirs| theirs.checked_sub(old.increment.signum()));
        next = old.next_beyond(next, taken);
    }
    // The widest column decides; numeric holds everything.
    let widest = columns.iter().map(|column| column.data_type);
    let widest = widest.max_by_key(|data_type| data_type.map_or(i64::MAX, DataType::max));
    let definition = Definition::create(&old.options(widest.flatten()))?;
    let next = next.filter(|next| (definition.min_value..=definition.max_value).contains(next));
    let owner = old.new_owner;
    let owns = |column: &&SequenceColumn| column.table_owner == owner && column.owns;
    let owned_by = columns.iter().find(owns).map(|column| column.place);
    let former = Some(Name::from(old.former.as_slice()));
    let sequence = Sequence { owned_by, former, ..Sequence::new(name.clone(), owner, definition) };
    let sequence = ddl::begin(sequence, None, Duplicate::Refuse)?
        .ok_or_else(|| HiloError::Duplicate(name.to_string()))?;
    for column in columns {
        gaps::adopt(column.place, sequence.id)?;
    }
    if next != Some(sequence.definition.start_value) {
        renumber::begin_with(&sequence, next)?;
    }
    Ok(sequence)
}

/// The name of the old sequence, with its schema if another sequence has the bare name.
fn free_name(old: &CoreSequence) -> Result<Name, HiloError> {
    let [bare, qualified] = [0, 1].map(|at| old.names[at].as_slice());
    let is_free = definitions::by_name(bare)?.is_none();
    Name::new(if is_free { bare } else { qualified })
}

/// Other objects still name the old sequence.
fn mention_report(name: &Name, mentions: &str) -> HiloError {
    let message = format!("what hilo sequence \"{name}\" replaces is still named elsewhere");
    let detail =
        format!("{mentions}\nLet it call hilo_nextval, hilo_currval and hilo_lastval instead.");
    HiloError::Told { state: "00000".into(), message, detail: Some(detail), hint: None }
}

/// The report as text in a row whose action is clear.
fn in_a_row(report: &HiloError) -> Option<String> {
    report.detail().map(|detail| format!("{report}: {}", detail.replace('\n', " ")))
}

/// Reports to the user.
fn tell(reports: Vec<HiloError>) {
    for report in reports {
        let is_warning = report.sqlstate() == PgSqlErrorCode::ERRCODE_WARNING as i32;
        report.report(if is_warning { PgLogLevel::WARNING } else { PgLogLevel::NOTICE });
    }
}
