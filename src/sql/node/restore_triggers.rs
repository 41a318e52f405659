//! Judges each row that a restored dump brings: whether it is stored, and what of it is changed. It
//! also judges the replicated rows that `replication_triggers.rs` does not. pg_restore and psql
//! write to the tables of schema _hilo through SQL, which the library never does, and which is
//! refused to everybody else. So a row for which an ordinary trigger fires is a restored one
//! (sql/triggers.sql).
//!
//! A dump shows one snapshot: every value that any session had seen by then lies below its
//! positions and in none of its free ranges. So no values have to be skipped. A restored position
//! is in no server's memory until the first reservation takes it over. Then it records as a gap
//! what the memory of the dumped server held.

use std::ffi::CStr;

use pgrx::prelude::*;

use hilo_core::numbers::SequenceId;

use crate::catalog::rights::privileges;
use crate::catalog::rows::catalog_tables::{CatalogTable, INTERNALS};
use crate::catalog::rows::columns::{free_range, lease, position, privilege, sequence, source};
use crate::catalog::rows::scan::{Index, Match};
use crate::catalog::rows::table::{LockWait, Row, RowLock, Table, next_command, split, text_datum};
use crate::catalog::rows::{restore, roles, script};
use crate::catalog::sequence::definitions;
use crate::catalog::sequence::positions::{self, Position, REPLICATED, RESTORED};
use crate::errors::HiloError;
use crate::process::ffi;
use crate::session::invalidation::{self, Change};
use crate::session::{self, uncommitted};
use crate::sql::call::raw_function::call_functions;
use crate::sql::define::ddl_checks;

/// The source of a restored sequence whose owner does not exist. It fails with the cause.
const NO_OWNER: &[u8] = b"SELECT NULL::bigint, NULL::bigint FROM _hilo.hilo_refuse(\
    'it was not restored, since the owner of the sequence did not exist'::text, \
    'Attach the sequence again, or give it numbers of its own: hilo_detach(name, start).'::text)";

call_functions!(judge_row; hilo_judge_row);
call_functions!(refuse_write; hilo_refuse_write);

/// The row as a trigger of this name stores it in this table. NULL omits the row.
fn judge_row(fcinfo: pg_sys::FunctionCallInfo) -> Result<pg_sys::Datum, HiloError> {
    let Some(arrived) = Arrived::from_call(fcinfo) else { refuse() };
    let row = arrived.row();
    let replaced = match (arrived.table(), arrived.trigger()) {
        // Its owner does not exist. The current user becomes the owner, as of any object whose
        // ALTER … OWNER failed in a restore. No query of the row runs with that role's rights: its
        // source is replaced by one that fails.
        (b"hilo_definition", b"missing_owner") => {
            let query = row.text(sequence::source).map(|_| text_datum(NO_OWNER));
            let owner = Some(ffi::current_user().into());
            match query {
                Some(query) => vec![(sequence::OWNER, owner), (sequence::source, Some(query))],
                None => vec![(sequence::OWNER, owner)],
            }
        }
        (b"hilo_definition", b"restored") => {
            make_way(&row)?;
            vec![]
        }
        // The current user becomes the owner here too. No source comes with the row.
        (b"hilo_definition", b"replicated_owner") => {
            roles::depend_on(ffi::current_user())?;
            vec![(sequence::OWNER, Some(ffi::current_user().into()))]
        }
        (b"hilo_position", b"restored") => {
            if further_than_known(&row)? {
                return Ok(pg_sys::Datum::null());
            }
            let (here, now) = positions::server();
            // A row that came to the dumped server by replication may lack reservations here too.
            // Other rows lack none until this server is promoted.
            let replicated = row.int4(position::TIMELINE) == REPLICATED;
            let timeline = if replicated { REPLICATED } else { now };
            vec![
                (position::INCARNATION, Some(RESTORED.into())),
                (position::SYSTEM_ID, Some(here.into())),
                (position::TIMELINE, Some(timeline.into())),
            ]
        }
        // The range may have been served since the dump, if the sequence is in use here.
        (b"hilo_free_range", b"restored") => {
            arrived.refuse_in_use(row.int8(free_range::SEQUENCE), row.int4(free_range::NODE))?;
            vec![]
        }
        // The dumped server may make its request again.
        (b"hilo_source", b"restored") => {
            vec![(source::REQUEST, None), (source::DATABASE, Some(0_i64.into()))]
        }
        // Another server may have taken the lease back since the dump, and served its rest.
        (b"hilo_lease", b"restored") => {
            arrived.refuse_in_use(row.int8(lease::SEQUENCE), row.int4(lease::NODE))?;
            vec![(lease::TIMELINE, Some(REPLICATED.into()))]
        }
        // A role that does not exist. A second such row would collide with the first.
        (b"hilo_privilege", b"missing_grantee") | (b"hilo_default_privilege", b"missing_role") => {
            return Ok(pg_sys::Datum::null());
        }
        (b"hilo_privilege", b"replicated") => match arrived.replicated_privilege(&row)? {
            true => vec![],
            false => return Ok(pg_sys::Datum::null()),
        },
        // A range that another server returned is for that server to serve, and a lease is ended
        // at the server that made it.
        (b"hilo_free_range" | b"hilo_lease" | b"hilo_source", b"replicated") => {
            return Ok(pg_sys::Datum::null());
        }
        _ => refuse(),
    };
    // SAFETY: the columns get values of the types that sql/catalog.sql gives them.
    Ok(unsafe { arrived.replacing(&replaced) })
}

/// An extension's script may have made a sequence of this name here, as while the restore created
/// the extension. The restored one replaces it.
fn make_way(row: &Row) -> Result<(), HiloError> {
    match row.text(sequence::NAME).map_or(Ok(()), |name| {
        replace_made_by_script(name.as_bytes(), SequenceId(row.int8(sequence::ID)))
    }) {
        // The library does not read the rows of an older version.
        Err(HiloError::Version { newer: false, .. }) => Ok(()),
        done => done,
    }
}

fn replace_made_by_script(name: &[u8], id: SequenceId) -> Result<(), HiloError> {
    let made = definitions::by_name(name)?;
    let Some(made) = made.filter(|made| made.extension.is_some() && made.id != id) else {
        return Ok(());
    };
    session::prepare();
    // Another session may be restoring the positions: those of this sequence are there already, or
    // come later.
    let positions = CatalogTable::Position.oid()?;
    // SAFETY: the table exists. The lock is kept until the transaction ends.
    unsafe { pg_sys::LockRelationOid(positions, pg_sys::ShareRowExclusiveLock as _) };
    if let Some(locked) = definitions::lock_existing(made.id)? {
        for position in positions::of_all_nodes(made.id)? {
            keep_served(&position, id)?;
        }
        ddl_checks::remove_replaced(locked)?;
    }
    Ok(())
}

/// Keeps values that the script may have drawn from being served again: the position of the
/// restored sequence lies beyond them.
fn keep_served(made: &Position, id: SequenceId) -> Result<(), HiloError> {
    // In the transaction that has run the script, the draws are counted in memory.
    let own = positions::find_own_write(made.sequence, made.node)?;
    let counted = own.and_then(|(_, version)| uncommitted::progress(&version));
    let made = &Position { next_index: made.next_index.max(counted.unwrap_or_default()), ..*made };
    if !made.has_reserved() {
        return Ok(());
    }
    match positions::lock(id, made.node, LockWait::Block)? {
        RowLock::Locked(restored) if is_further(made, &restored.position) => {
            restored.update(&Position { next_index: made.next_index, ..restored.position });
        }
        RowLock::Locked(_) | RowLock::Skipped => {}
        RowLock::Missing => {
            let skip = 0;
            positions::insert(&Position { sequence: id, incarnation: RESTORED, skip, ..*made })?;
        }
    }
    next_command();
    Ok(())
}

/// Whether `one` lies beyond `other` in the same numbering. In another epoch the owner of the
/// dumped database has begun other numbers on purpose.
fn is_further(one: &Position, other: &Position) -> bool {
    (one.epoch, one.base, one.nodes, one.stripe)
        == (other.epoch, other.base, other.nodes, other.stripe)
        && one.next_index > other.next_index
}

/// Whether an arriving position exists already, was kept by [`keep_served`], and lies further. Then
/// it gets the other columns of the row. A position that lies less far is deleted.
fn further_than_known(row: &Row) -> Result<bool, HiloError> {
    let arrived = Position::from_row(row);
    let known = match positions::lock(arrived.sequence, arrived.node, LockWait::Block) {
        Err(HiloError::Version { newer: false, .. }) => return Ok(false),
        known => known?,
    };
    let RowLock::Locked(known) = known else { return Ok(false) };
    // A position in use is a duplicate, which Postgres refuses.
    if known.position.incarnation != RESTORED {
        return Ok(false);
    }
    let further = is_further(&known.position, &arrived);
    if further {
        let (system_id, timeline) = positions::server();
        let next_index = known.position.next_index;
        let incarnation = RESTORED;
        known.update(&Position { next_index, incarnation, system_id, timeline, ..arrived });
    } else {
        known.delete();
    }
    next_command();
    Ok(further)
}

/// Refuses statements that write to the tables, unless their rows come from elsewhere. The triggers
/// `replicated` judge the rows of replication. TRUNCATE is always refused.
fn refuse_write(fcinfo: pg_sys::FunctionCallInfo) -> Result<pg_sys::Datum, HiloError> {
    use pg_sys::{TRIGGER_EVENT_DELETE, TRIGGER_EVENT_INSERT, TRIGGER_EVENT_UPDATE};
    let Some(trigger) = trigger(fcinfo) else { refuse() };
    let statement = match trigger.tg_event & pg_sys::TRIGGER_EVENT_OPMASK {
        TRIGGER_EVENT_INSERT => "INSERT",
        TRIGGER_EVENT_UPDATE => "UPDATE",
        TRIGGER_EVENT_DELETE => "DELETE",
        _ => "TRUNCATE",
    };
    if statement == "TRUNCATE" || !(restore::is_under_way() || script::runs()) {
        // SAFETY: a trigger has its relation, which is open, and whose name ends with a zero byte.
        let table =
            unsafe { CStr::from_ptr((*(*trigger.tg_relation).rd_rel).relname.data.as_ptr()) };
        let table = table.to_string_lossy().into_owned();
        return Err(HiloError::ClosedTable { table, statement });
    }
    Ok(pg_sys::Datum::null())
}

/// The trigger that calls; `None`: the caller is no trigger.
fn trigger<'a>(fcinfo: pg_sys::FunctionCallInfo) -> Option<&'a pg_sys::TriggerData> {
    // SAFETY: Postgres passes a live call to a trigger function. Its context is null, which is
    // checked, or a node, whose tag tells what it is.
    unsafe {
        let context = (*fcinfo).context;
        let is_trigger = !context.is_null() && (*context).type_ == pg_sys::NodeTag::T_TriggerData;
        is_trigger.then(|| &*context.cast())
    }
}

/// Refuses a call that does not come from a trigger of sql/triggers.sql. On another table the
/// function would misread the row.
fn refuse() -> ! {
    ereport!(
        ERROR,
        PgSqlErrorCode::ERRCODE_E_R_I_E_TRIGGER_PROTOCOL_VIOLATED,
        "this function can only be called as a trigger of the catalog of hilo",
        "The trigger runs before a row of a table in schema _hilo is written."
    );
}

/// A row of one of the catalog's tables that is about to be written. It must not outlive the call.
struct Arrived<'a> {
    trigger: &'a pg_sys::TriggerData,
    tuple: pg_sys::HeapTuple,
    relation: &'a pg_sys::RelationData,
}

impl Arrived<'_> {
    /// `None`: the call does not come from such a trigger.
    fn from_call<'a>(fcinfo: pg_sys::FunctionCallInfo) -> Option<Arrived<'a>> {
        const TIMING: u32 = pg_sys::TRIGGER_EVENT_ROW | pg_sys::TRIGGER_EVENT_TIMINGMASK;
        const BEFORE_ROW: u32 = pg_sys::TRIGGER_EVENT_ROW | pg_sys::TRIGGER_EVENT_BEFORE;
        let trigger = trigger(fcinfo)?;
        // SAFETY: a trigger has its relation, which is open. The name of a schema is null or a C
        // string.
        unsafe {
            let relation = &*trigger.tg_relation;
            let schema = pg_sys::get_namespace_name((*relation.rd_rel).relnamespace);
            let is_own = trigger.tg_event & TIMING == BEFORE_ROW
                && !schema.is_null()
                && CStr::from_ptr(schema) == INTERNALS;
            let tuple = match trigger.tg_event & pg_sys::TRIGGER_EVENT_OPMASK {
                pg_sys::TRIGGER_EVENT_UPDATE => trigger.tg_newtuple,
                _ => trigger.tg_trigtuple,
            };
            is_own.then_some(Arrived { trigger, tuple, relation })
        }
    }

    /// The name of the table.
    fn table(&self) -> &[u8] {
        // SAFETY: the relation is open, and its name ends with a zero byte.
        unsafe { CStr::from_ptr((*self.relation.rd_rel).relname.data.as_ptr()).to_bytes() }
    }

    /// The name of the trigger.
    fn trigger(&self) -> &[u8] {
        // SAFETY: the trigger lives as long as the call, and its name is a C string.
        unsafe { CStr::from_ptr((*self.trigger.tg_trigger).tgname).to_bytes() }
    }

    /// Lets DROP ROLE and sessions know of a replicated privilege. `false`: it is known already.
    fn replicated_privilege(&self, row: &Row) -> Result<bool, HiloError> {
        use pg_sys::{TRIGGER_EVENT_DELETE, TRIGGER_EVENT_INSERT, TRIGGER_EVENT_OPMASK};
        let id = SequenceId(row.int8(privilege::SEQUENCE));
        let grantee = row.oid(privilege::GRANTEE);
        let name = row.text(privilege::PRIVILEGE).unwrap_or_default();
        let event = self.trigger.tg_event & TRIGGER_EVENT_OPMASK;
        if event == TRIGGER_EVENT_INSERT && privileges::is_recorded(id, grantee, &name)? {
            return Ok(false);
        }
        if event != TRIGGER_EVENT_DELETE {
            roles::depend_on(grantee)?;
        }
        invalidation::note(id, Change::Outdated)?;
        Ok(true)
    }

    fn row(&self) -> Row {
        // SAFETY: the tuple is one of the relation, and both live as long as the call.
        unsafe { Row::from_tuple(self.tuple, self.relation.rd_att) }
    }

    /// The row with these columns replaced, as the answer of the trigger.
    ///
    /// # Safety
    /// Each value must be of its column's type.
    unsafe fn replacing(&self, columns: &[(i16, Option<pg_sys::Datum>)]) -> pg_sys::Datum {
        let (mut numbers, values): (Vec<i32>, Vec<_>) =
            columns.iter().map(|(at, value)| (i32::from(*at), *value)).unzip();
        let (mut values, mut nulls) = split(&values);
        // SAFETY: the caller guarantees the types, and each array has an element for every column
        // replaced.
        unsafe {
            pg_sys::heap_modify_tuple_by_cols(
                self.tuple,
                self.relation.rd_att,
                columns.len() as i32,
                numbers.as_mut_ptr(),
                values.as_mut_ptr(),
                nulls.as_mut_ptr(),
            )
            .into()
        }
    }

    /// The table of this name in the same schema.
    fn neighbour(&self, name: &CStr) -> Result<Table, HiloError> {
        // SAFETY: the relation is open, and the name is a C string.
        Table::read(unsafe {
            pg_sys::get_relname_relid(name.as_ptr(), (*self.relation.rd_rel).relnamespace)
        })
    }

    /// Refuses a row of a sequence that has been used here since it was restored. A dump of an
    /// older version is restored into SQL objects of that version, whose tables the library does
    /// not read.
    fn refuse_in_use(&self, id: i64, node: i32) -> Result<(), HiloError> {
        let key = [(position::SEQUENCE, Match::Int8(id)), (position::NODE, Match::Int4(node))];
        let position =
            self.neighbour(c"hilo_position")?.find(Index::Named(c"hilo_position_pkey"), &key);
        if position.is_some_and(|row| row.int8(position::INCARNATION) != RESTORED) {
            let key = [(sequence::ID, Match::Int8(id))];
            let known = self
                .neighbour(c"hilo_definition")?
                .find(Index::Named(c"hilo_definition_pkey"), &key);
            let name = known.and_then(|row| row.text(sequence::NAME));
            return Err(HiloError::RestoreInUse(name.unwrap_or(id.to_string())));
        }
        Ok(())
    }
}
