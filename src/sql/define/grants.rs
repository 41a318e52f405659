//! Privileges: on one sequence, on all that match a pattern, and on those to come.

use std::ffi::{CStr, CString};

use pgrx::pg_sys;
use pgrx::pg_sys::panic::ErrorReport;
use pgrx::prelude::*;

use crate::catalog::rights::default_privileges::{self, Which};
use crate::catalog::rights::privileges::{self, Privileges};
use crate::catalog::rows::name::escape_for_message;
use crate::catalog::rows::roles::{self, PUBLIC};
use crate::catalog::sequence::definitions::{self, LockedSequence, Sequence};
use crate::errors::HiloError;
use crate::process::ffi;
use crate::process::scratch::Scratch;
use crate::session::invalidation::{self, Change};
use crate::sql::call::border::Call;
use crate::sql::call::text::Text;
use crate::sql::define::ddl_checks::{begin_with_name, begin_write, lock_owned, require};
use crate::sql::types::sequence_type::SequenceName;

/// A role by name, or PUBLIC.
pub fn role_or_public(name: &[u8]) -> Result<pg_sys::Oid, HiloError> {
    // A role may have this name in another case than lower case; such a role comes first.
    existing_role(name)
        .or_else(|none| if name.eq_ignore_ascii_case(b"public") { Ok(PUBLIC) } else { Err(none) })
}

/// A role by name.
pub fn existing_role(name: &[u8]) -> Result<pg_sys::Oid, HiloError> {
    // SAFETY: a catalog look-up inside a transaction; the name is a C string.
    let look_up = |name: CString| unsafe { pg_sys::get_role_oid(name.as_ptr(), true) };
    let found = CString::new(name).ok().map(look_up).filter(|role| *role != pg_sys::InvalidOid);
    found.ok_or_else(|| HiloError::NoSuchRole(escape_for_message(name)))
}

/// The role and the privileges of a GRANT or REVOKE.
fn grantee_and_privileges(
    grantee: Option<Text>,
    privilege: Option<Text>,
) -> Result<(pg_sys::Oid, Privileges), HiloError> {
    let (grantee, privilege) = (require(grantee, "grantee")?, require(privilege, "privilege")?);
    Ok((role_or_public(&grantee)?, Privileges::parse_list(&privilege.escaped())?))
}

/// A pattern of LIKE.
fn pattern(pattern: Option<Text<'_>>) -> Result<&[u8], HiloError> {
    let pattern = require(pattern, "pattern")?.bytes();
    default_privileges::check_pattern(pattern)?;
    Ok(pattern)
}

/// A role whose rights the current user must have.
fn own_role(name: Option<Text>) -> Result<Option<pg_sys::Oid>, HiloError> {
    let Some(role) = name.map(|name| existing_role(&name)).transpose()? else { return Ok(None) };
    match privileges::acts_as(ffi::current_user(), role) {
        true => Ok(Some(role)),
        false => Err(HiloError::NotMember(roles::name_of(role))),
    }
}

pub type Changes = fn(&Sequence, pg_sys::Oid, Privileges) -> Result<(), HiloError>;

/// Changes what `grantee` may do with a locked sequence.
pub fn change(
    locked: LockedSequence,
    changes: Changes,
    grantee: pg_sys::Oid,
    set: Privileges,
) -> Result<(), HiloError> {
    changes(&locked.sequence, grantee, set)?;
    invalidation::note(locked.sequence.id, Change::Outdated)
}

/// Does the work of a function about one sequence that the caller owns.
fn change_one(
    (name, function): (Option<SequenceName>, &'static CStr),
    changes: Changes,
    grantee: Option<Text>,
    privilege: Option<Text>,
) -> Result<(), HiloError> {
    let name = begin_with_name(name, function)?;
    let (grantee, set) = grantee_and_privileges(grantee, privilege)?;
    change(lock_owned(&name)?, changes, grantee, set)
}

/// `hilo_grant(name, grantee, privilege)`.
#[pg_extern(sql = false)]
fn hilo_grant(
    _call: Call,
    name: Option<SequenceName>,
    grantee: Option<Text>,
    privilege: Option<Text>,
) -> Result<(), ErrorReport> {
    Ok(change_one((name, c"hilo_grant()"), privileges::grant, grantee, privilege)?)
}

/// `hilo_revoke(name, grantee, privilege)`.
#[pg_extern(sql = false)]
fn hilo_revoke(
    _call: Call,
    name: Option<SequenceName>,
    grantee: Option<Text>,
    privilege: Option<Text>,
) -> Result<(), ErrorReport> {
    Ok(change_one((name, c"hilo_revoke()"), privileges::revoke, grantee, privilege)?)
}

/// The arguments of a function about all sequences that match a pattern.
struct All<'a> {
    grantee: Option<Text<'a>>,
    privilege: Option<Text<'a>>,
    pattern: Option<Text<'a>>,
    role: Option<Text<'a>>,
}

/// Changes the privileges on every matching sequence that the current user may grant on, and
/// returns how many these are. Like core's GRANT … ON ALL SEQUENCES it warns if there are others,
/// but not of sequences that the user cannot see.
///
/// This is not SQL, because a loop over `hilo_grant` would need a subtransaction for each sequence.
/// A sequence that is dropped during the wait for its lock is no error here.
fn change_all(
    all: All,
    changes: Changes,
    code: PgSqlErrorCode,
    what: &str,
) -> Result<i64, HiloError> {
    let (grantee, set) = grantee_and_privileges(all.grantee, all.privilege)?;
    let (pattern, owner, user) = (pattern(all.pattern)?, own_role(all.role)?, ffi::current_user());
    let matches = |sequence: &Sequence| {
        owner.is_none_or(|owner| sequence.owner == owner)
            && default_privileges::matches(&sequence.name, pattern)
    };
    let mut others = 0;
    let mut own = definitions::collect(|sequence| {
        if !matches(&sequence) {
            return Ok(None);
        }
        let is_own = privileges::acts_as(user, sequence.owner);
        if !is_own && privileges::may_see(&sequence, user)? {
            others += 1;
        }
        Ok(is_own.then_some(sequence.id))
    })?;
    // All such calls lock in the same order.
    own.sort_unstable();
    let mut scratch = Scratch::new("hilo privileges");
    let mut changed = 0;
    for id in own {
        pgrx::check_for_interrupts!();
        let change = || {
            // The sequence may have been dropped, renamed or given away during the wait for its
            // lock.
            if let Some(locked) = definitions::lock_existing(id)?
                && matches(&locked.sequence)
                && privileges::acts_as(user, locked.sequence.owner)
            {
                self::change(locked, changes, grantee, set)?;
                changed += 1;
            }
            Ok::<_, HiloError>(())
        };
        // SAFETY: nothing that is allocated in the scratch context is used after the round.
        unsafe { scratch.round(change) }?;
    }
    if others > 0 {
        ereport!(
            PgLogLevel::WARNING,
            code,
            format!("no privileges were {what} {others} matching hilo sequences of other owners")
        );
    }
    Ok(changed)
}

/// `hilo_grant_all(grantee, privilege, pattern, owner)`.
#[pg_extern(sql = false)]
fn hilo_grant_all(
    _call: Call,
    grantee: Option<Text>,
    privilege: Option<Text>,
    pattern: Option<Text>,
    owner: Option<Text>,
) -> Result<i64, ErrorReport> {
    begin_write(c"hilo_grant_all()")?;
    let code = PgSqlErrorCode::ERRCODE_WARNING_PRIVILEGE_NOT_GRANTED;
    let all = All { grantee, privilege, pattern, role: owner };
    Ok(change_all(all, privileges::grant, code, "granted on")?)
}

/// `hilo_revoke_all(grantee, privilege, pattern, owner)`.
#[pg_extern(sql = false)]
fn hilo_revoke_all(
    _call: Call,
    grantee: Option<Text>,
    privilege: Option<Text>,
    pattern: Option<Text>,
    owner: Option<Text>,
) -> Result<i64, ErrorReport> {
    begin_write(c"hilo_revoke_all()")?;
    let code = PgSqlErrorCode::ERRCODE_WARNING_PRIVILEGE_NOT_REVOKED;
    let all = All { grantee, privilege, pattern, role: owner };
    Ok(change_all(all, privileges::revoke, code, "revoked on")?)
}

fn change_default(
    all: All,
    changes: fn(Which, pg_sys::Oid, Privileges) -> Result<(), HiloError>,
) -> Result<(), HiloError> {
    let (grantee, set) = grantee_and_privileges(all.grantee, all.privilege)?;
    let pattern = pattern(all.pattern)?;
    let owner = own_role(all.role)?.unwrap_or_else(ffi::current_user);
    changes(Which { owner, pattern }, grantee, set)
}

/// `hilo_default_grant(grantee, privilege, pattern, for_role)`: for sequences that `for_role` will
/// create.
#[pg_extern(sql = false)]
fn hilo_default_grant(
    _call: Call,
    grantee: Option<Text>,
    privilege: Option<Text>,
    pattern: Option<Text>,
    for_role: Option<Text>,
) -> Result<(), ErrorReport> {
    begin_write(c"hilo_default_grant()")?;
    let all = All { grantee, privilege, pattern, role: for_role };
    Ok(change_default(all, default_privileges::grant)?)
}

/// `hilo_default_revoke(grantee, privilege, pattern, for_role)`: takes back what was granted in
/// this way with the same pattern.
#[pg_extern(sql = false)]
fn hilo_default_revoke(
    _call: Call,
    grantee: Option<Text>,
    privilege: Option<Text>,
    pattern: Option<Text>,
    for_role: Option<Text>,
) -> Result<(), ErrorReport> {
    begin_write(c"hilo_default_revoke()")?;
    let all = All { grantee, privilege, pattern, role: for_role };
    Ok(change_default(all, default_privileges::revoke)?)
}
