//! `hilo_adopt`: a serial or identity column, or one whose default is `nextval(…)`, becomes one of
//! hilo's. `hilo_adopt_sequence`: so do all columns that share a sequence.

use std::ffi::{CStr, CString};

use pgrx::pg_sys::{self, panic::ErrorReport};
use pgrx::prelude::*;

use hilo_core::options::{DataType, Definition};

use crate::catalog::definitions::{self, Sequence};
use crate::catalog::gaps;
use crate::catalog::name::{Name, escape_for_message};
use crate::catalog::privileges::{self, Privileges};
use crate::catalog::roles::{self, PUBLIC};
use crate::catalog::table::text_datum;
use crate::catalog::version;
use crate::errors::{HiloError, OrRaise};
use crate::process::{ffi, subtransaction};
use crate::sql::call::args::{Args, sql_functions};
use crate::sql::call::spi;
use crate::sql::column::core_sequence::{self, CoreSequence, Feed, Rights, rights};
use crate::sql::column::fed_column::{FedColumn, Identity, Source, Use};
use crate::sql::column::lock;
use crate::sql::define::ddl::{self, Duplicate};
use crate::sql::define::ddl_checks;
use crate::sql::define::loads_hilo as sessions;
use crate::sql::define::renumber;
use crate::sql::draw::nextval::record;

sql_functions!(hilo_adopt, hilo_adopt_columns, hilo_try_adopt);

/// Columns that one sequence of core's feeds, and that are moved together.
struct Moved {
    /// That sequence. Tables that inherit may have others.
    sequence: pg_sys::Oid,
    columns: Vec<FedColumn>,
}

/// `hilo_adopt(relation, column_name, name)`. Returns the name of the sequence.
fn hilo_adopt(args: Args) -> pg_sys::Datum {
    ddl_checks::begin_write(c"hilo_adopt()");
    let (relid, column_name) = column_of(args);
    raise_reports(adopt(
        || core_source(relid, column_name),
        args.datum(2).map(|_| args.new_name(2)),
    ))
}

/// `hilo.adopt_sequence(sequence, name, mentions)`: all columns that a sequence feeds. `mentions`:
/// what else names it.
fn hilo_adopt_columns(args: Args) -> pg_sys::Datum {
    ddl_checks::begin_write(c"hilo_adopt_sequence()");
    ddl_checks::require(args, 0, "sequence");
    let sequence = args.oid(0).unwrap_or(pg_sys::InvalidOid);
    let (name, mut reports) =
        adopt(|| find_columns(sequence), args.datum(1).map(|_| args.new_name(1)));
    reports.extend(args.text(2).map(|mentions| mention_report(&name, &mentions)));
    raise_reports((name, reports))
}

/// `hilo.try_adopt(relation, column_name, sequence, dry_run)`: a column or, with a sequence, all
/// that it feeds. Returns the name of the new sequence and what there is to tell, or why there is
/// none. A dry run checks what can be checked without a lock.
fn hilo_try_adopt(args: Args) -> pg_sys::Datum {
    ddl_checks::begin_write(c"hilo_adopt_all()");
    let (relid, column) = column_of(args);
    let find = || match args.oid(2) {
        Some(sequence) => find_columns(sequence),
        None => core_source(relid, column),
    };
    let outcome = subtransaction::run(|| match args.bool(3) {
        Some(false) => adopt(find, None),
        _ => {
            privileges::may_create().or_raise();
            (plan(&find(), None).1, Vec::new())
        }
    });
    let row = match outcome {
        Ok((name, reports)) => {
            let said: Vec<String> = reports.iter().filter_map(Report::in_a_row).collect();
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

/// A column with the sequence of core's that feeds it.
fn core_source(relid: pg_sys::Oid, column_name: &CStr) -> Moved {
    let column = FedColumn::find(relid, column_name, Use::Move).or_raise();
    match column.source(relid) {
        Source::Core { sequence, .. } if rights(column.table_owner, sequence).is_none() => {
            HiloError::CannotDraw(column.describe()).raise()
        }
        Source::Core { sequence, .. } => Moved { sequence, columns: vec![column] },
        Source::Hilo(name) => {
            let (column, name) = (column.describe(), name.to_string());
            HiloError::UsesHilo { column, name }.raise()
        }
        Source::Other(default) => {
            HiloError::NoCoreSequence { column: column.describe(), default }.raise()
        }
    }
}

/// All columns that a sequence feeds. Columns that inherit go along with their parents.
fn find_columns(sequence: pg_sys::Oid) -> Moved {
    let name = CoreSequence::read(sequence).qualified;
    let all = core_sequence::feeds(sequence);
    let inherits = |fed: &Feed| all.iter().any(|other| other.is_above(fed));
    let columns: Vec<FedColumn> = all
        .iter()
        .filter(|fed| !inherits(fed))
        .flat_map(|fed| core_source(fed.relid, &fed.column).columns)
        .collect();
    if columns.is_empty() {
        HiloError::FeedsNothing(escape_for_message(&name)).raise();
    }
    Moved { sequence, columns }
}

/// Moves the columns that `find` finds. Returns the name of their new sequence, and what there is
/// to tell.
fn adopt(find: impl Fn() -> Moved, name: Option<Name>) -> (Name, Vec<Report>) {
    privileges::may_create().or_raise();
    let mut moved = find();
    loop {
        let tables = lock::for_move(&moved.columns, || {
            // Only what is going to be dropped is kept from others.
            let may_go = |oid: &pg_sys::Oid| moved.own(*oid);
            moved.sequences().into_iter().filter(may_go).for_each(lock::sequence);
        });
        // Whatever was seen before the locks may have changed.
        moved = find();
        if moved.columns.iter().all(|column| tables.contains(&column.place.relid)) {
            break;
        }
    }
    // DROP IDENTITY drops the sequence, which the other defaults must no longer use then.
    moved.columns.sort_by_key(|column| column.identity().is_some());
    let (olds, name) = plan(&moved, name);
    let old = olds.iter().find(|old| old.oid == moved.sequence).expect("it feeds the columns");
    let sequence = create(&moved, old, &olds, name);
    let granted = grant(&sequence, old);
    let fates: Vec<OldSequence> = olds.iter().map(|old| fate(&moved, old)).collect();
    let always: Vec<&FedColumn> =
        moved.columns.iter().filter(|column| set_default(column, &sequence.name)).collect();
    let retired = olds.iter().zip(fates).map(|(old, fate)| retire_old(old, fate, &sequence.name));
    let mut reports: Vec<Report> = retired.collect();
    reports.extend((!granted.is_empty()).then(|| as_before(&sequence.name, &granted)));
    reports.extend(always.into_iter().map(protection_report));
    (sequence.name, reports)
}

impl Moved {
    /// The sequences of core's that feed the columns, also of tables that inherit.
    fn sequences(&self) -> Vec<pg_sys::Oid> {
        let mut all: Vec<_> = self.columns.iter().flat_map(FedColumn::core_sequences).collect();
        all.sort_unstable_by_key(|oid| oid.to_u32());
        all.dedup();
        all
    }

    fn tables(&self) -> Vec<pg_sys::Oid> {
        self.columns.iter().flat_map(FedColumn::tables).collect()
    }

    /// Whether a sequence belongs to the owner of one of the tables.
    fn own(&self, sequence: pg_sys::Oid) -> bool {
        let is_own = |column: &FedColumn| rights(column.table_owner, sequence) == Some(Rights::Own);
        self.columns.iter().any(is_own)
    }

    /// The owner of the tables or, if they have several, of their sequence, as whom the user acts.
    fn owner(&self, old: &CoreSequence) -> pg_sys::Oid {
        let (user, first) = (ffi::current_user(), self.columns[0].table_owner);
        if self.columns.iter().all(|column| column.table_owner == first) {
            first
        } else if privileges::acts_as(user, old.owner) {
            old.owner
        } else {
            user
        }
    }
}

/// Checks that the columns can be moved. Returns their sequences and the name of the new one.
fn plan(moved: &Moved, name: Option<Name>) -> (Vec<CoreSequence>, Name) {
    let needs_hooks = |column: &FedColumn| {
        column.identity() == Some(Identity::Always) || column.owns(moved.sequence)
    };
    if moved.columns.iter().any(needs_hooks) {
        sessions::check().or_raise();
    }
    let olds: Vec<CoreSequence> = moved.sequences().into_iter().map(CoreSequence::read).collect();
    for old in &olds {
        let mut others = core_sequence::feeds(old.oid);
        others.retain(|fed| !moved.columns.iter().any(|column| column.covers(fed)));
        if !others.is_empty() {
            let sequence = escape_for_message(&old.qualified);
            let others = others.into_iter().map(|fed| fed.description).collect();
            let hint = "Move all of them at once with hilo_adopt_sequence.";
            HiloError::UsedTwice { sequence, others, hint }.raise();
        }
        fate(moved, old);
    }
    let own = olds.iter().find(|old| old.oid == moved.sequence);
    let name = name.unwrap_or_else(|| free_name(own.expect("it feeds the columns")));
    if definitions::by_name(&name).or_raise().is_some() {
        HiloError::Duplicate(name.to_string()).raise();
    }
    (olds, name)
}

/// Creates the sequence that takes the place of `old`: behind the values of the columns, and behind
/// all the sequences that have fed them.
fn create(moved: &Moved, old: &CoreSequence, olds: &[CoreSequence], name: Name) -> Sequence {
    let direction = old.direction();
    let held = moved.columns.iter().filter_map(|column| column.furthest(direction, old.last()));
    let mut next = old.next_beyond(held.reduce(|a, b| direction.further(a, b)));
    for other in olds.iter().filter(|other| other.oid != old.oid) {
        // The next value of the other one is free; those before it may be taken.
        if let (Some(mine), Some(theirs)) = (next, other.next)
            && direction.is_beyond(theirs, mine)
        {
            next = old.next_beyond(theirs.checked_sub(old.increment.signum()));
        }
    }
    // The widest column decides; numeric holds everything.
    let widest = moved.columns.iter().map(|column| column.data_type);
    let widest = widest.max_by_key(|data_type| data_type.map_or(i64::MAX, DataType::max));
    let definition = Definition::create(&old.options(widest.flatten())).or_raise();
    let next = next.filter(|next| (definition.min_value..=definition.max_value).contains(next));
    let owner = moved.owner(old);
    let owns = |column: &&FedColumn| column.table_owner == owner && column.owns(old.oid);
    let owned_by = moved.columns.iter().find(owns).map(|column| column.place);
    let sequence = Sequence { owned_by, ..Sequence::new(name.clone(), owner, definition) };
    let sequence = ddl::begin(sequence, None, Duplicate::Refuse)
        .ok_or_else(|| HiloError::Duplicate(name.to_string()))
        .or_raise();
    for column in &moved.columns {
        gaps::adopt(column.place, sequence.id).or_raise();
    }
    if next != Some(sequence.definition.start_value) {
        renumber::begin_with(&sequence, next);
    }
    sequence
}

/// The name of the old sequence, with its schema if another sequence has the bare name.
fn free_name(old: &CoreSequence) -> Name {
    let bare = Name::from(old.name.as_slice());
    let name = match definitions::by_name(&bare).or_raise() {
        None => bare,
        Some(_) => Name::from([&old.schema[..], b".", &old.name].concat().as_slice()),
    };
    hilo_core::name::validate(&name).or_raise();
    name
}

/// Makes the column's default draw from the new sequence. Returns whether it was GENERATED ALWAYS.
fn set_default(column: &FedColumn, name: &Name) -> bool {
    let identity = column.identity();
    let mut actions = Vec::new();
    if identity.is_some() {
        actions.push(b"DROP IDENTITY".to_vec());
    }
    actions.push([b"SET DEFAULT ".as_slice(), &hilo_default(name, identity)].concat());
    column.alter(&actions);
    identity == Some(Identity::Always)
}

/// `hilo_nextval('name')`, qualified; for a column that was GENERATED ALWAYS, the function that
/// keeps it so.
fn hilo_default(name: &Name, identity: Option<Identity>) -> Vec<u8> {
    let function: &[u8] = match identity {
        Some(Identity::Always) => b".hilo_nextval_always(",
        _ => b".hilo_nextval(",
    };
    let name = CString::new(&**name).unwrap_or_default();
    // SAFETY: the name is a C string, and the result is one in the current memory context.
    let literal = unsafe { CStr::from_ptr(pg_sys::quote_literal_cstr(name.as_ptr())) };
    let schema = version::schema_identifier().or_raise();
    [&schema, function, literal.to_bytes(), b"::", &schema, b".hilo_sequence)"].concat()
}

/// Grants the users of the old sequence the same on the new one. Returns their names.
/// Whoever may insert draws from an identity column's sequence without a privilege, as before.
fn grant(sequence: &Sequence, old: &CoreSequence) -> Vec<String> {
    let (id, owner) = (old.oid.to_u32(), sequence.owner.to_u32());
    let sql = format!(
        "SELECT a.grantee, a.privilege_type FROM pg_class c, aclexplode(c.relacl) a
          WHERE c.oid = {id}::oid AND a.privilege_type IN ('USAGE', 'SELECT', 'UPDATE')
            AND a.grantee <> {owner}::oid ORDER BY 1, 2"
    );
    let found = spi::look_up(&sql, |row| (row.oid(1), row.text(2)));
    let mut names: Vec<String> = Vec::new();
    for (grantee, privilege) in found {
        if let Some(set) = Privileges::by_name(&privilege) {
            privileges::grant(sequence, grantee, set).or_raise();
            let grantee = if grantee == PUBLIC { "PUBLIC".into() } else { roles::name_of(grantee) };
            names.push(format!("{privilege} to {grantee}"));
        }
    }
    names
}

/// The fate of an old sequence.
enum OldSequence {
    /// The identity column has dropped it.
    Gone,
    Dropped,
    /// It is kept, because of these objects or because of its owner.
    Kept(Vec<String>),
}

fn fate(moved: &Moved, old: &CoreSequence) -> OldSequence {
    let is_identity = moved.columns.iter().any(|column| {
        column.tables().into_iter().any(|table| match column.source(table) {
            Source::Core { sequence, identity } => sequence == old.oid && identity.is_some(),
            _ => false,
        })
    });
    let uses = old.other_uses(&moved.tables());
    if is_identity && !uses.is_empty() {
        let sequence = escape_for_message(&old.qualified);
        HiloError::IdentityInUse { sequence, others: uses }.raise()
    } else if is_identity {
        OldSequence::Gone
    } else if !uses.is_empty() {
        OldSequence::Kept(uses)
    } else if !moved.own(old.oid) {
        let owner = roles::name_of(old.owner);
        OldSequence::Kept(vec![format!("its owner is role {owner}")])
    } else {
        OldSequence::Dropped
    }
}

fn retire_old(old: &CoreSequence, fate: OldSequence, name: &Name) -> Report {
    let sequence = escape_for_message(&old.qualified);
    if let OldSequence::Dropped = fate {
        spi::execute(&[b"DROP SEQUENCE ".as_slice(), &old.qualified].concat());
    }
    match fate {
        OldSequence::Gone | OldSequence::Dropped => Report {
            level: PgLogLevel::NOTICE,
            message: format!(
                "hilo sequence \"{name}\" replaces sequence {sequence}, which is dropped"
            ),
            detail: String::new(),
        },
        OldSequence::Kept(reasons) => Report {
            level: PgLogLevel::WARNING,
            message: format!(
                "hilo sequence \"{name}\" replaces sequence {sequence}, which is kept"
            ),
            detail: format!(
                "{}\nWhoever still draws from it gets numbers that the column gets from hilo.",
                reasons.join("\n")
            ),
        },
    }
}

fn as_before(name: &Name, granted: &[String]) -> Report {
    Report {
        level: PgLogLevel::NOTICE,
        message: format!("privileges on hilo sequence \"{name}\" are granted as before"),
        detail: format!("{}.", granted.join(", ")),
    }
}

fn mention_report(name: &Name, mentions: &str) -> Report {
    Report {
        level: PgLogLevel::NOTICE,
        message: format!("what hilo sequence \"{name}\" replaces is still named elsewhere"),
        detail: format!(
            "{mentions}\nLet it call hilo_nextval, hilo_currval and hilo_lastval instead."
        ),
    }
}

fn protection_report(column: &FedColumn) -> Report {
    let (level, column) = (PgLogLevel::NOTICE, column.describe());
    let message = format!("column {column} takes no other values, as before");
    let detail = "Its default calls hilo_nextval_always. INSERT and UPDATE through a view are not \
                  checked any more.";
    Report { level, message, detail: detail.into() }
}

/// A message to the user.
struct Report {
    level: PgLogLevel,
    message: String,
    /// Empty: the message says it all.
    detail: String,
}

impl Report {
    fn raise(self) {
        let code = match self.level {
            PgLogLevel::WARNING => PgSqlErrorCode::ERRCODE_WARNING,
            _ => PgSqlErrorCode::ERRCODE_SUCCESSFUL_COMPLETION,
        };
        let report = ErrorReport::new(code, self.message, "hilo");
        match self.detail.is_empty() {
            true => report.report(self.level),
            false => report.set_detail(self.detail).report(self.level),
        }
    }

    /// As a row tells it whose action is clear.
    fn in_a_row(&self) -> Option<String> {
        let detail = self.detail.replace('\n', " ");
        (!detail.is_empty()).then(|| format!("{}: {detail}", self.message))
    }
}

/// Tells the user, and returns the name.
fn raise_reports((name, reports): (Name, Vec<Report>)) -> pg_sys::Datum {
    reports.into_iter().for_each(Report::raise);
    text_datum(&name)
}
