//! `hilo_adopt`: a serial or identity column, or one whose default is `nextval(…)`, becomes one of
//! hilo's.

use std::ffi::CStr;

use pgrx::pg_sys;
use pgrx::prelude::*;

use hilo_core::numbers::SequenceId;
use hilo_core::options::Definition;

use crate::catalog::column_ref::ColumnRef;
use crate::catalog::definitions::{self, Sequence};
use crate::catalog::name::{Name, escape_for_message};
use crate::catalog::node;
use crate::catalog::positions::Position;
use crate::catalog::privileges::{self, Privileges};
use crate::catalog::roles::{self, PUBLIC};
use crate::catalog::table::text_datum;
use crate::catalog::{catalog_oids, gaps, numbering};
use crate::errors::{HiloError, OrRaise};
use crate::gucs;
use crate::session::invalidation;
use crate::session::uncommitted::Origin;
use crate::shared;
use crate::sql::call::args::{Args, sql_functions};
use crate::sql::call::spi;
use crate::sql::column::core_sequence::{CoreSequence, Rights, oid_list, rights};
use crate::sql::column::fed_column::{Column, Identity, Source, Use};
use crate::sql::column::lock;
use crate::sql::define::ddl::{self, Duplicate};
use crate::sql::define::ddl_checks;
use crate::sql::define::loads_hilo as sessions;
use crate::sql::define::{owners, renumber};

sql_functions!(hilo_adopt);

/// `hilo_adopt(relation, column_name, name)`. Returns the name of the sequence.
fn hilo_adopt(args: Args) -> pg_sys::Datum {
    ddl_checks::begin_write(c"hilo_adopt()");
    ddl_checks::required(args, 0, "relation");
    let relid = args.oid(0).unwrap_or(pg_sys::InvalidOid);
    let column_name = column_name(args, 1);
    let given = args.datum(2).map(|_| args.new_name(2));
    privileges::may_create().or_raise();
    let (column, ..) = core_source(relid, column_name);
    let tables = lock::for_move(&column, |tables| {
        // Only what is going to be dropped is kept from others.
        let may_go = |oid: &pg_sys::Oid| rights(column.table_owner, *oid) == Some(Rights::Own);
        column.core_sequences(tables).into_iter().filter(may_go).for_each(lock::sequence);
    });
    // Whatever was seen before the locks may have changed.
    let (column, own, identity) = core_source(relid, column_name);
    if identity == Some(Identity::Always) || column.owns(own) {
        sessions::check().or_raise();
    }
    let olds = column.core_sequences(&tables);
    let olds: Vec<CoreSequence> = olds.into_iter().map(CoreSequence::read).collect();
    for old in &olds {
        let others = column.others_fed_by(old.oid, &tables);
        if !others.is_empty() {
            let sequence = escape_for_message(&old.qualified);
            HiloError::UsedTwice { sequence, others }.raise();
        }
    }
    let old = olds.iter().find(|old| old.oid == own).expect("it was found among the sources");
    let sequence = create(&column, old, &olds, given);
    let granted = grant(&sequence, old, identity, &tables);
    let fates: Vec<OldSequence> = olds.iter().map(|old| fate(&column, old, &tables)).collect();
    set_default(&column, &sequence.name, identity);
    olds.iter().zip(fates).for_each(|(old, fate)| retire_old(old, fate, &sequence.name));
    report(&sequence.name, &granted);
    if identity == Some(Identity::Always) {
        report_protection(&column);
    }
    text_datum(&sequence.name)
}

/// The argument that names a column.
pub(in crate::sql) fn column_name(args: Args, at: usize) -> &'static CStr {
    let datum = ddl_checks::required(args, at, "column name");
    // SAFETY: the argument is of type name, which ends with a zero byte, and lives as long as the
    // call.
    unsafe { CStr::from_ptr(datum.cast_mut_ptr()) }
}

/// A column with the sequence of core's that feeds it.
fn core_source(relid: pg_sys::Oid, column_name: &CStr) -> (Column, pg_sys::Oid, Option<Identity>) {
    let column = Column::find(relid, column_name, Use::Move).or_raise();
    match column.source(relid) {
        Source::Core { sequence, identity } => match rights(column.table_owner, sequence) {
            Some(_) => (column, sequence, identity),
            None => HiloError::CannotDraw(column.describe()).raise(),
        },
        Source::Hilo(name) => {
            let (column, name) = (column.describe(), name.to_string());
            HiloError::UsesHilo { column, name }.raise()
        }
        Source::Other(default) => {
            HiloError::NoCoreSequence { column: column.describe(), default }.raise()
        }
    }
}

/// Creates the sequence that takes the place of `old`: behind the values of the column, and behind
/// all the sequences that have fed it. It has the table's owner.
fn create(
    column: &Column,
    old: &CoreSequence,
    olds: &[CoreSequence],
    given: Option<Name>,
) -> Sequence {
    let name = given.unwrap_or_else(|| free_name(old));
    if definitions::by_name(&name).or_raise().is_some() {
        HiloError::Duplicate(name.to_string()).raise();
    }
    let mut next = old.next_beyond(column.furthest(old.direction(), old.last()));
    for other in olds.iter().filter(|other| other.oid != old.oid) {
        // What the other one serves next is free; what lies before that may be taken.
        if let (Some(mine), Some(theirs)) = (next, other.next)
            && old.direction().is_beyond(theirs, mine)
        {
            next = old.next_beyond(theirs.checked_sub(old.increment.signum()));
        }
    }
    let definition = Definition::create(&old.options(column.data_type)).or_raise();
    let next = next.filter(|next| (definition.min_value..=definition.max_value).contains(next));
    let its_column = ColumnRef { relid: column.relid, attnum: column.attnum };
    let sequence = Sequence {
        id: SequenceId(shared::random_id()),
        name,
        owner: column.table_owner,
        created_at: definitions::now(),
        owned_by: Some(its_column).filter(|_| column.owns(old.oid)),
        highest_node: None,
        definition,
    };
    let here = node::serves(&sequence).or_raise().id;
    node::check_set(gucs::node_count()).or_raise();
    numbering::check_begins(&sequence.name, gucs::node_count()).or_raise();
    ddl::insert(&sequence, &Position::first(&sequence, here), Origin::New, Duplicate::Refuse);
    invalidation::begin();
    gaps::adopt(&catalog_oids().or_raise(), its_column, sequence.id).or_raise();
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

/// Makes the column's default draw from the new sequence.
fn set_default(column: &Column, name: &Name, identity: Option<Identity>) {
    let default = hilo_default(name, identity);
    let mut actions = Vec::new();
    if identity.is_some() {
        actions.push(b"DROP IDENTITY".to_vec());
    }
    actions.push([b"SET DEFAULT ".as_slice(), &default].concat());
    column.alter(&actions);
}

/// `hilo_nextval('name')`, qualified; for a column that was GENERATED ALWAYS, the function that
/// keeps it so.
fn hilo_default(name: &Name, identity: Option<Identity>) -> Vec<u8> {
    let literal = spi::literal(name);
    let function = match identity {
        Some(Identity::Always) => "hilo_nextval_always",
        _ => "hilo_nextval",
    };
    let type_oid = owners::name_type().or_raise().to_u32();
    let sql = format!(
        "SELECT format('%I.{function}(%L::%I.%I)', n.nspname, {literal}, n.nspname, t.typname)
           FROM pg_type t JOIN pg_namespace n ON n.oid = t.typnamespace WHERE t.oid = \
           {type_oid}::oid"
    );
    spi::look_up(&sql, |row| row.bytes(1).unwrap_or_default()).swap_remove(0)
}

/// Grants on the new sequence what those had on the old one who used it and, since an identity
/// column needs no right on its sequence, USAGE to all who may insert. Returns their names.
fn grant(
    sequence: &Sequence,
    old: &CoreSequence,
    identity: Option<Identity>,
    tables: &[pg_sys::Oid],
) -> Vec<String> {
    let (id, list) = (old.oid.to_u32(), oid_list(tables));
    let inserters = match identity {
        None => String::new(),
        Some(_) => format!(
            "UNION SELECT a.grantee, 'USAGE' FROM pg_class c, aclexplode(c.relacl) a
              WHERE c.oid = ANY ({list}) AND a.privilege_type = 'INSERT'
             UNION SELECT a.grantee, 'USAGE' FROM pg_attribute t, aclexplode(t.attacl) a
              WHERE t.attrelid = ANY ({list}) AND NOT t.attisdropped AND a.privilege_type = \
              'INSERT'"
        ),
    };
    let owner = sequence.owner.to_u32();
    let sql = format!(
        "SELECT g.grantee, g.privilege_type FROM (
             SELECT a.grantee, a.privilege_type FROM pg_class c, aclexplode(c.relacl) a
              WHERE c.oid = {id}::oid AND a.privilege_type IN ('USAGE', 'SELECT', 'UPDATE') \
              {inserters}
         ) g WHERE g.grantee <> {owner}::oid ORDER BY 1, 2"
    );
    let found = spi::look_up(&sql, |row| (row.oid(1), row.text(2)));
    let mut names: Vec<String> = Vec::new();
    for (grantee, privilege) in found {
        if let Some(set) = Privileges::named(&privilege) {
            privileges::grant(sequence, grantee, set).or_raise();
            let grantee = if grantee == PUBLIC { "PUBLIC".into() } else { roles::name_of(grantee) };
            names.push(format!("{privilege} to {grantee}"));
        }
    }
    names
}

/// What becomes of an old sequence.
enum OldSequence {
    /// The identity column has dropped it.
    Gone,
    Dropped,
    /// It is kept, because of these objects or because of its owner.
    Kept(Vec<String>),
}

fn fate(column: &Column, old: &CoreSequence, tables: &[pg_sys::Oid]) -> OldSequence {
    let is_identity = tables.iter().any(|table| match column.source(*table) {
        Source::Core { sequence, identity } => sequence == old.oid && identity.is_some(),
        _ => false,
    });
    let uses = old.other_uses(tables);
    if is_identity && !uses.is_empty() {
        let sequence = escape_for_message(&old.qualified);
        HiloError::IdentityInUse { sequence, others: uses }.raise()
    } else if is_identity {
        OldSequence::Gone
    } else if !uses.is_empty() {
        OldSequence::Kept(uses)
    } else if rights(column.table_owner, old.oid) != Some(Rights::Own) {
        let owner = roles::name_of(old.owner);
        OldSequence::Kept(vec![format!("its owner is role {owner}")])
    } else {
        OldSequence::Dropped
    }
}

fn retire_old(old: &CoreSequence, fate: OldSequence, name: &Name) {
    let sequence = escape_for_message(&old.qualified);
    match fate {
        OldSequence::Gone => {
            notice!("hilo sequence \"{name}\" replaces sequence {sequence}, which is dropped");
        }
        OldSequence::Dropped => {
            spi::execute(&[b"DROP SEQUENCE ".as_slice(), &old.qualified].concat());
            notice!("hilo sequence \"{name}\" replaces sequence {sequence}, which is dropped");
        }
        OldSequence::Kept(reasons) => {
            ereport!(
                WARNING,
                PgSqlErrorCode::ERRCODE_WARNING,
                format!("hilo sequence \"{name}\" replaces sequence {sequence}, which is kept"),
                format!(
                    "{}\nWhoever still draws from it gets numbers that the column gets from hilo.",
                    reasons.join("\n")
                ),
            );
        }
    }
}

fn report(name: &Name, granted: &[String]) {
    if !granted.is_empty() {
        ereport!(
            NOTICE,
            PgSqlErrorCode::ERRCODE_SUCCESSFUL_COMPLETION,
            format!("privileges on hilo sequence \"{name}\" are granted as before"),
            format!("{}.", granted.join(", ")),
        );
    }
}

fn report_protection(column: &Column) {
    ereport!(
        NOTICE,
        PgSqlErrorCode::ERRCODE_SUCCESSFUL_COMPLETION,
        format!("column {} takes no other values, as before", column.describe()),
        "Its default calls hilo_nextval_always. INSERT and UPDATE through a view are not checked \
         any more."
    );
}
