//! Privileges: on one sequence, on all that match a pattern, and on those to come.

use std::ffi::{CStr, CString};

use pgrx::memcxt::PgMemoryContexts;
use pgrx::pg_sys;
use pgrx::prelude::*;

use crate::catalog::default_privileges::{self, Which};
use crate::catalog::definitions::{self, LockedSequence, Sequence};
use crate::catalog::name::escape_for_message;
use crate::catalog::privileges::{self, Privileges};
use crate::catalog::roles::{self, PUBLIC};
use crate::errors::{HiloError, OrRaise};
use crate::process::ffi;
use crate::session::invalidation::{self, Change};
use crate::sql::call::args::{Args, sql_functions};
use crate::sql::define::ddl_checks::{begin_with_name, begin_write, lock_owned, require};

sql_functions!(
    hilo_grant,
    hilo_revoke,
    hilo_grant_all,
    hilo_revoke_all,
    hilo_default_grant,
    hilo_default_revoke,
);

/// A role by name, or PUBLIC.
fn role_or_public(name: &[u8]) -> Result<pg_sys::Oid, HiloError> {
    // A role may have this name in any other case than lower case; such a role comes first.
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

/// Who gets or loses what: the two arguments from `at` on.
fn grantee_and_privileges(args: Args, at: usize) -> (pg_sys::Oid, Privileges) {
    require(args, at, "grantee");
    require(args, at + 1, "privilege");
    let grantee = role_or_public(args.bytes(at)).or_raise();
    (grantee, Privileges::parse_list(&args.text(at + 1).unwrap_or_default()).or_raise())
}

/// A pattern of LIKE, in argument `at`.
fn pattern(args: Args, at: usize) -> &'static [u8] {
    require(args, at, "pattern");
    let pattern = args.bytes(at);
    default_privileges::check_pattern(pattern);
    pattern
}

/// The role in argument `at`, whose rights the current user must have.
fn own_role(args: Args, at: usize) -> Option<pg_sys::Oid> {
    args.datum(at)?;
    let role = existing_role(args.bytes(at)).or_raise();
    if !privileges::acts_as(ffi::current_user(), role) {
        HiloError::NotMember(roles::name_of(role)).raise();
    }
    Some(role)
}

type Changes = fn(&Sequence, pg_sys::Oid, Privileges) -> Result<(), HiloError>;

fn change(locked: LockedSequence, changes: Changes, grantee: pg_sys::Oid, set: Privileges) {
    changes(&locked.sequence, grantee, set).or_raise();
    invalidation::note(locked.sequence.id, Change::Outdated).or_raise();
}

fn change_one(args: Args, function: &'static CStr, changes: Changes) {
    let name = begin_with_name(args, function);
    let (grantee, set) = grantee_and_privileges(args, 1);
    change(lock_owned(name), changes, grantee, set);
}

/// `hilo_grant(name, grantee, privilege)`.
fn hilo_grant(args: Args) {
    change_one(args, c"hilo_grant()", privileges::grant);
}

/// `hilo_revoke(name, grantee, privilege)`.
fn hilo_revoke(args: Args) {
    change_one(args, c"hilo_revoke()", privileges::revoke);
}

/// Changes the privileges on every matching sequence that the current user may grant on, and
/// returns how many these are. Like core's GRANT … ON ALL SEQUENCES it warns if there are others,
/// but not of those that the user cannot see.
///
/// This is no SQL: a loop over `hilo_grant` would need a subtransaction for each sequence. One that
/// is dropped during the wait for its lock is no error here.
fn change_all(args: Args, changes: Changes, code: PgSqlErrorCode, what: &str) -> i64 {
    let (grantee, set) = grantee_and_privileges(args, 0);
    let (pattern, owner, user) = (pattern(args, 2), own_role(args, 3), ffi::current_user());
    let matches = |sequence: &Sequence| {
        owner.is_none_or(|owner| sequence.owner == owner)
            && default_privileges::matches(&sequence.name, pattern)
    };
    let mut others = 0;
    let own = definitions::collect(|sequence| {
        if !matches(&sequence) {
            return None;
        }
        let is_own = privileges::acts_as(user, sequence.owner);
        if !is_own && privileges::may_see(&sequence, user).or_raise() {
            others += 1;
        }
        is_own.then_some(sequence.id)
    });
    let mut own = own.or_raise();
    // Every such call locks in the same order.
    own.sort_unstable();
    let mut scratch = PgMemoryContexts::new("hilo privileges");
    let mut changed = 0;
    for id in own {
        pgrx::check_for_interrupts!();
        let mut change = || {
            // It may have been dropped, renamed or given away during the wait for its lock.
            if let Some(locked) = definitions::lock_existing(id).or_raise()
                && matches(&locked.sequence)
                && privileges::acts_as(user, locked.sequence.owner)
            {
                self::change(locked, changes, grantee, set);
                changed += 1;
            }
        };
        // SAFETY: nothing that is allocated in the scratch context is used after the round.
        unsafe {
            scratch.switch_to(|_| change());
            scratch.reset();
        }
    }
    if others > 0 {
        ereport!(
            PgLogLevel::WARNING,
            code,
            format!("no privileges were {what} {others} matching hilo sequences of other owners")
        );
    }
    changed
}

/// `hilo_grant_all(grantee, privilege, pattern, owner)`.
fn hilo_grant_all(args: Args) -> i64 {
    begin_write(c"hilo_grant_all()");
    let code = PgSqlErrorCode::ERRCODE_WARNING_PRIVILEGE_NOT_GRANTED;
    change_all(args, privileges::grant, code, "granted on")
}

/// `hilo_revoke_all(grantee, privilege, pattern, owner)`.
fn hilo_revoke_all(args: Args) -> i64 {
    begin_write(c"hilo_revoke_all()");
    let code = PgSqlErrorCode::ERRCODE_WARNING_PRIVILEGE_NOT_REVOKED;
    change_all(args, privileges::revoke, code, "revoked on")
}

fn change_default(
    args: Args,
    changes: fn(Which, pg_sys::Oid, Privileges) -> Result<(), HiloError>,
) {
    let (grantee, set) = grantee_and_privileges(args, 0);
    let pattern = pattern(args, 2);
    let owner = own_role(args, 3).unwrap_or_else(ffi::current_user);
    changes(Which { owner, pattern }, grantee, set).or_raise();
}

/// `hilo_default_grant(grantee, privilege, pattern, for_role)`: for sequences that `for_role` will
/// create.
fn hilo_default_grant(args: Args) {
    begin_write(c"hilo_default_grant()");
    change_default(args, default_privileges::grant);
}

/// `hilo_default_revoke(grantee, privilege, pattern, for_role)`: takes back what was granted in
/// this way with the same pattern.
fn hilo_default_revoke(args: Args) {
    begin_write(c"hilo_default_revoke()");
    change_default(args, default_privileges::revoke);
}
