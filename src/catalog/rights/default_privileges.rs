//! `_hilo.hilo_default_privilege`: the privileges that new sequences of a role start with, as those
//! of ALTER DEFAULT PRIVILEGES.
//!
//! Any role may have rows here, and keep its transaction open. So only changes of the default
//! privileges of one owner wait for each other (`lock_owner`). DROP OWNED waits only for another
//! transaction that is deleting a row which it would delete too.

use pgrx::pg_sys;

use crate::catalog::rights::privileges::{self, Privileges};
use crate::catalog::rows::catalog_tables::{self, CatalogTable};
use crate::catalog::rows::columns::default_privilege as column;
use crate::catalog::rows::object_lock::ObjectLock;
use crate::catalog::rows::roles;
use crate::catalog::rows::scan::{Index, Match};
use crate::catalog::rows::table::{LockWait, RowLock, Strength, Table, next_command, text_datum};
use crate::catalog::sequence::definitions::Sequence;
use crate::errors::{HiloError, check_argument};
use crate::process::memory::TryGrow;

/// Which new sequences get a privilege: those of `owner` whose names match `pattern`, as LIKE
/// compares them.
#[derive(Clone, Copy)]
pub struct Which<'a> {
    pub owner: pg_sys::Oid,
    pub pattern: &'a [u8],
}

/// Opens the table to change the default privileges of `owner`. Other transactions that do so wait,
/// because none may add a row that another has just added.
fn lock_owner(owner: pg_sys::Oid) -> Result<Table, HiloError> {
    let table = CatalogTable::DefaultPrivilege.write()?;
    ObjectLock::new(table.id(), owner.to_u32().into()).acquire(pg_sys::ExclusiveLock, false);
    Ok(table)
}

/// Deletes the rows that match, which other transactions may be deleting too.
fn delete(table: &Table, index: Index, keys: &[(i16, Match)]) -> Result<(), HiloError> {
    loop {
        let (mut rows, mut missed) = (Vec::new(), false);
        table.scan(index, keys, |row| {
            rows.try_push(row)?;
            Ok(true)
        })?;
        for row in rows {
            match table.lock(row, LockWait::Block, Strength::Alone) {
                RowLock::Locked(row) => table.delete(&row),
                _ => missed = true,
            }
        }
        next_command();
        // Replication may have replaced a row instead.
        if !missed {
            return Ok(());
        }
    }
}

fn keys<'a>(which: Which<'a>, grantee: pg_sys::Oid, name: &'a str) -> [(i16, Match<'a>); 4] {
    [
        (column::OWNER, Match::Oid(which.owner)),
        (column::PATTERN, Match::Text(which.pattern)),
        (column::GRANTEE, Match::Oid(grantee)),
        (column::PRIVILEGE, Match::Text(name.as_bytes())),
    ]
}

/// Adds the privileges of `set` that are not there yet.
pub fn grant(which: Which, grantee: pg_sys::Oid, set: Privileges) -> Result<(), HiloError> {
    roles::depend_on(which.owner)?;
    roles::depend_on(grantee)?;
    let table = lock_owner(which.owner)?;
    for name in set.names() {
        table.ensure(catalog_tables::DEFAULT_PRIVILEGE_PKEY, &keys(which, grantee, name), &[]);
    }
    next_command();
    Ok(())
}

/// Removes the privileges of `set` that are there.
pub fn revoke(which: Which, grantee: pg_sys::Oid, set: Privileges) -> Result<(), HiloError> {
    let table = lock_owner(which.owner)?;
    set.names().try_for_each(|name| {
        delete(&table, catalog_tables::DEFAULT_PRIVILEGE_PKEY, &keys(which, grantee, name))
    })
}

/// Gives a new sequence the privileges that the sequences of its owner start with.
pub fn apply(sequence: &Sequence) -> Result<(), HiloError> {
    let table = CatalogTable::DefaultPrivilege.read()?;
    let keys = [(column::OWNER, Match::Oid(sequence.owner))];
    let mut granted = false;
    table.scan(catalog_tables::DEFAULT_PRIVILEGE_PKEY, &keys, |row| {
        let grantee = row.oid(column::GRANTEE);
        let set = row.text(column::PRIVILEGE).as_deref().and_then(Privileges::by_name);
        // The owner has every privilege anyway.
        if let Some(set) = set
            && grantee != sequence.owner
            && matches(&sequence.name, &row.name(column::PATTERN))
        {
            privileges::grant(sequence, grantee, set)?;
            granted = true;
        }
        Ok(true)
    })?;
    if granted {
        next_command();
    }
    Ok(())
}

/// Whether a name matches a pattern of LIKE, character by character.
///
/// The pattern must have passed [`check_pattern`].
pub fn matches(name: &[u8], pattern: &[u8]) -> bool {
    let texts = [name, pattern].map(text_datum);
    let like = pg_sys::Oid::from_u32(pg_sys::F_TEXTLIKE);
    // SAFETY: LIKE takes two texts, which both are, and the collation of the column. It keeps
    // neither, and `text_datum` has allocated both.
    unsafe {
        let result =
            pg_sys::OidFunctionCall2Coll(like, pg_sys::C_COLLATION_OID, texts[0], texts[1]);
        texts.into_iter().for_each(|text| pg_sys::pfree(text.cast_mut_ptr()));
        result.value() & 0xff != 0
    }
}

/// Refuses a pattern that LIKE would refuse for some names only: one that ends with an escape.
pub fn check_pattern(pattern: &[u8]) -> Result<(), HiloError> {
    let escapes = pattern.iter().rev().take_while(|byte| **byte == b'\\').count();
    let message = || "pattern must not end with an escape character".into();
    let advice = "Write \\\\ for a backslash, \\_ for an underscore and \\% for a percent sign.";
    check_argument(escapes % 2 == 0, message, advice)
}

/// Where a role is mentioned: as the owner, and as the grantee.
const MENTIONS: [(Index, i16); 2] = [
    (catalog_tables::DEFAULT_PRIVILEGE_PKEY, column::OWNER),
    (catalog_tables::DEFAULT_PRIVILEGE_GRANTEE_IDX, column::GRANTEE),
];

/// Removes a role's default privileges: for its own new sequences, and those that other roles' new
/// sequences would grant it. If there are none, no lock is held.
pub fn forget(role: pg_sys::Oid) -> Result<(), HiloError> {
    if mentioning(role)?.is_empty() {
        return Ok(());
    }
    let table = CatalogTable::DefaultPrivilege.write()?;
    MENTIONS
        .into_iter()
        .try_for_each(|(index, column)| delete(&table, index, &[(column, Match::Oid(role))]))
}

/// The default privileges that keep a role from being dropped, as messages name them.
pub fn mentioning(role: pg_sys::Oid) -> Result<Vec<String>, HiloError> {
    let table = CatalogTable::DefaultPrivilege.read()?;
    let [owns, gets] =
        MENTIONS.map(|(index, column)| table.find(index, &[(column, Match::Oid(role))]).is_some());
    let owns = owns.then(|| "owner of default privileges on new hilo sequences".to_owned());
    let gets = gets.then(|| "privileges on new hilo sequences by default".to_owned());
    Ok(owns.into_iter().chain(gets).collect())
}
