//! `hilo_adopt`: a serial or identity column, or one whose default is `nextval(…)`, becomes one of
//! hilo's. `hilo_adopt_sequence`: so do all columns that share a sequence.

use std::ffi::CStr;

use pgrx::pg_sys;
use pgrx::prelude::*;

use hilo_core::options::{DataType, Definition};

use crate::catalog::definitions::{self, Sequence};
use crate::catalog::gaps;
use crate::catalog::name::{Name, escape_for_message};
use crate::catalog::table::text_datum;
use crate::catalog::{privileges, relations};
use crate::errors::{HiloError, OrRaise};
use crate::process::subtransaction;
use crate::sql::call::args::{Args, sql_functions};
use crate::sql::call::spi;
use crate::sql::call::values::Values;
use crate::sql::column::core_sequence::CoreSequence;
use crate::sql::column::fed_column::{FedColumn, Question, Step};
use crate::sql::column::lock;
use crate::sql::define::ddl::{self, Duplicate};
use crate::sql::define::ddl_checks;
use crate::sql::define::loads_hilo as sessions;
use crate::sql::define::renumber;
use crate::sql::draw::nextval::record;

sql_functions!(hilo_adopt, hilo_adopt_columns, hilo_try_adopt);

/// `hilo_adopt(relation, column_name, name, ordered)`. Returns the name of the sequence.
fn hilo_adopt(args: Args) -> pg_sys::Datum {
    ddl_checks::begin_write(c"hilo_adopt()");
    let (relid, column_name) = column_of(args);
    let name = args.datum(2).map(|_| args.new_name(2));
    raise_reports(adopt(Question::Adopt(relid, column_name, args.bool(3)), name))
}

/// `_hilo.hilo_adopt_sequence(sequence, name, ordered, mentions)`: all columns that a sequence
/// feeds. `mentions`: what else names it.
fn hilo_adopt_columns(args: Args) -> pg_sys::Datum {
    ddl_checks::begin_write(c"hilo_adopt_sequence()");
    ddl_checks::require(args, 0, "sequence");
    let sequence = args.oid(0).unwrap_or(pg_sys::InvalidOid);
    let name = args.datum(1).map(|_| args.new_name(1));
    let (name, mut reports) = adopt(Question::AdoptAll(sequence, args.bool(2)), name);
    reports.extend(args.text(3).map(|mentions| mention_report(&name, &mentions)));
    raise_reports((name, reports))
}

/// `_hilo.hilo_try_adopt(relation, column_name, sequence, ordered, dry_run)`: a column or, with a
/// sequence, all that it feeds. Returns the name of the new sequence and what there is to tell, or
/// why there is none. A dry run checks what can be checked without a lock.
fn hilo_try_adopt(args: Args) -> pg_sys::Datum {
    ddl_checks::begin_write(c"hilo_adopt_all()");
    let (relid, column) = column_of(args);
    let ordered = args.bool(3);
    let question = match args.oid(2) {
        Some(sequence) => Question::AdoptAll(sequence, ordered),
        None => Question::Adopt(relid, column, ordered),
    };
    let outcome = subtransaction::run(|| match args.bool(4) {
        Some(false) => adopt(question, None),
        _ => {
            privileges::may_create().or_raise();
            let (name, _) = plan(question, &find(question), &question.sequences(), None);
            (name, Vec::new())
        }
    });
    let row = match outcome {
        Ok((name, reports)) => {
            let said: Vec<String> = reports.iter().filter_map(in_a_row).collect();
            let said = (!said.is_empty()).then(|| text_datum(said.join("; ").as_bytes()));
            [Some(text_datum(&name)), None, said]
        }
        Err(error) if subtransaction::is_final(&error) => error.rethrow(),
        Err(error) => {
            [None, Some(text_datum(subtransaction::message_with_detail(&error).as_bytes())), None]
        }
    };
    // SAFETY: the function is declared to return a record of three texts.
    unsafe { record(args.raw(), &row) }
}

/// The column that the first two arguments name.
fn column_of(args: Args) -> (pg_sys::Oid, &'static CStr) {
    ddl_checks::require(args, 0, "relation");
    (args.oid(0).unwrap_or(pg_sys::InvalidOid), column_name(args, 1))
}

/// The argument that names a column.
pub(in crate::sql) fn column_name(args: Args, at: usize) -> &'static CStr {
    let datum = ddl_checks::require(args, at, "column name");
    // SAFETY: the argument is of type name, which ends with a zero byte, and lives as long as the
    // call.
    unsafe { CStr::from_ptr(datum.cast_mut_ptr()) }
}

/// All columns that a sequence feeds, or the one that is asked for.
fn find(question: Question) -> Vec<FedColumn> {
    let columns = question.columns();
    if let Question::AdoptAll(sequence, _) = question
        && columns.is_empty()
    {
        // SAFETY: a look-up in a system cache, which takes any OID.
        if unsafe { pg_sys::get_rel_relkind(sequence) } as u8 != pg_sys::RELKIND_SEQUENCE {
            HiloError::NoSuchRelation(sequence.to_u32()).raise();
        }
        let name = relations::identifier(sequence).unwrap_or_default();
        HiloError::FeedsNothing(escape_for_message(&name)).raise();
    }
    columns
}

/// Moves the columns. Returns the name of their new sequence, and what there is to tell.
fn adopt(question: Question, name: Option<Name>) -> (Name, Vec<HiloError>) {
    privileges::may_create().or_raise();
    let (mut columns, mut sequences) = (find(question), question.sequences());
    loop {
        let tables = lock::for_move(&columns, || {
            // Only what is going to be dropped is kept from others.
            let own = sequences.iter().filter(|sequence| sequence.own);
            own.for_each(|sequence| lock::sequence(sequence.oid));
        });
        // Whatever was seen before the locks may have changed.
        let before = sequences;
        (columns, sequences) = (find(question), question.sequences());
        let is_locked = |column: &FedColumn| tables.contains(&column.place.relid);
        if columns.iter().all(is_locked) && sequences == before {
            break;
        }
    }
    let (name, steps) = plan(question, &columns, &sequences, name);
    let sequence = create(&columns, &sequences, name);
    for step in &steps {
        if let Some((grantee, privilege)) = step.grant {
            privileges::grant(&sequence, grantee, privilege).or_raise();
        }
        step.statement.iter().for_each(|statement| spi::execute(statement));
    }
    (sequence.name, steps.into_iter().filter_map(|step| step.report).collect())
}

/// Checks that the columns can be moved. Returns the name of their new sequence, and the steps.
fn plan(
    question: Question,
    columns: &[FedColumn],
    sequences: &[CoreSequence],
    name: Option<Name>,
) -> (Name, Vec<Step>) {
    if columns.iter().any(|column| column.is_always || column.owns) {
        sessions::check().or_raise();
    }
    let name = name.unwrap_or_else(|| free_name(main(sequences)));
    let steps = question.steps(&name).or_raise();
    if definitions::by_name(&name).or_raise().is_some() {
        HiloError::Duplicate(name.to_string()).raise();
    }
    (name, steps)
}

/// The sequence that feeds the columns themselves. It is there unless it was just dropped.
fn main(sequences: &[CoreSequence]) -> &CoreSequence {
    let main = sequences.iter().find(|sequence| sequence.is_main);
    main.ok_or(HiloError::NoSuchRelation(0)).or_raise()
}

/// Creates the sequence that takes the place of the old one. It begins behind the values of the
/// columns, and behind all the sequences that have fed them.
fn create(columns: &[FedColumn], sequences: &[CoreSequence], name: Name) -> Sequence {
    let old = main(sequences);
    let direction = old.direction();
    // Every committed row counts, and no row is hidden from this. Beyond the bound nothing is
    // served.
    let furthest = |column: &FedColumn| {
        Values::all(column.place, None).and_then(|all| all.furthest(direction, old.last()))
    };
    let held = columns.iter().filter_map(|column| furthest(column).or_raise());
    let mut next = old.next_beyond(old.next(), held.reduce(|a, b| direction.further(a, b)));
    for other in sequences.iter().filter(|other| other.oid != old.oid) {
        // The next value of the other one is free; those before it may be taken.
        let taken = other.next().and_then(|theirs| theirs.checked_sub(old.increment.signum()));
        next = old.next_beyond(next, taken);
    }
    // The widest column decides; numeric holds everything.
    let widest = columns.iter().map(|column| column.data_type);
    let widest = widest.max_by_key(|data_type| data_type.map_or(i64::MAX, DataType::max));
    let definition = Definition::create(&old.options(widest.flatten())).or_raise();
    let next = next.filter(|next| (definition.min_value..=definition.max_value).contains(next));
    let owner = old.heir;
    let owns = |column: &&FedColumn| column.table_owner == owner && column.owns;
    let owned_by = columns.iter().find(owns).map(|column| column.place);
    let sequence = Sequence { owned_by, ..Sequence::new(name.clone(), owner, definition) };
    let sequence = ddl::begin(sequence, None, Duplicate::Refuse)
        .ok_or_else(|| HiloError::Duplicate(name.to_string()))
        .or_raise();
    for column in columns {
        gaps::adopt(column.place, sequence.id).or_raise();
    }
    if next != Some(sequence.definition.start_value) {
        renumber::begin_with(&sequence, next);
    }
    sequence
}

/// The name of the old sequence, with its schema if another sequence has the bare name.
fn free_name(old: &CoreSequence) -> Name {
    let [bare, qualified] = [0, 1].map(|at| Name::from(old.names[at].as_slice()));
    let is_free = definitions::by_name(&bare).or_raise().is_none();
    let name = if is_free { bare } else { qualified };
    hilo_core::name::validate(&name).or_raise();
    name
}

/// Other objects still name the old sequence.
fn mention_report(name: &Name, mentions: &str) -> HiloError {
    let message = format!("what hilo sequence \"{name}\" replaces is still named elsewhere");
    let detail =
        format!("{mentions}\nLet it call hilo_nextval, hilo_currval and hilo_lastval instead.");
    HiloError::Told { state: "00000".into(), message, detail: Some(detail), hint: None }
}

/// As a row tells it whose action is clear.
fn in_a_row(report: &HiloError) -> Option<String> {
    report.detail().map(|detail| format!("{report}: {}", detail.replace('\n', " ")))
}

/// Tells the user, and returns the name.
fn raise_reports((name, reports): (Name, Vec<HiloError>)) -> pg_sys::Datum {
    for report in reports {
        let is_warning = report.sqlstate() == PgSqlErrorCode::ERRCODE_WARNING as i32;
        report.report(if is_warning { PgLogLevel::WARNING } else { PgLogLevel::NOTICE });
    }
    text_datum(&name)
}
