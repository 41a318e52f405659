//! Runs code with the rights of another role, or with other settings.

use std::ffi::CStr;

use pgrx::pg_sys;

/// Runs `work` with the rights of another role, and with a search_path in which no user can plant
/// anything. After an error the transaction's end restores both.
pub fn with_rights_of<T>(role: pg_sys::Oid, work: impl FnOnce() -> T) -> T {
    let (mut user, mut context) = (pg_sys::InvalidOid, 0);
    // SAFETY: the calls set statics of this process, as core does where a check runs as the owner
    // of a table.
    unsafe {
        pg_sys::GetUserIdAndSecContext(&mut user, &mut context);
        let flags = pg_sys::SECURITY_LOCAL_USERID_CHANGE | pg_sys::SECURITY_RESTRICTED_OPERATION;
        pg_sys::SetUserIdAndSecContext(role, context | flags as i32);
    }
    // A query from which a policy hides rows fails.
    let settings = [(c"search_path", c"pg_catalog, pg_temp"), (c"row_security", c"off")];
    let result = with_settings(&settings, work);
    // SAFETY: as above; the user and the context are those that were saved there.
    unsafe { pg_sys::SetUserIdAndSecContext(user, context) };
    result
}

/// Makes this the session of a role, as SET SESSION AUTHORIZATION does. Policies and functions that
/// ask for `session_user` or `is_superuser` then see that role. The role stays after the
/// transaction. To be called within a transaction.
///
/// The process remains authenticated as the bootstrap superuser. So no user's code may run here
/// except in [`with_rights_of`], from which nobody reaches another session authorization.
pub fn authorize_session(role: pg_sys::Oid) {
    // SAFETY: the transaction may look at the catalogs, where the name of the role is. A role that
    // does not exist is an error.
    unsafe {
        pg_sys::SetConfigOption(
            c"session_authorization".as_ptr(),
            pg_sys::GetUserNameFromId(role, false),
            pg_sys::GucContext::PGC_BACKEND,
            pg_sys::GucSource::PGC_S_OVERRIDE,
        );
    }
}

/// Runs `work` with these settings overridden, and skips settings that do not exist. After an error
/// the transaction's end restores them.
pub fn with_settings<T>(settings: &[(&CStr, &CStr)], work: impl FnOnce() -> T) -> T {
    // SAFETY: the calls set statics of this process; names and values are C strings, and the level
    // that is opened is closed.
    unsafe {
        let level = pg_sys::NewGUCNestLevel();
        for (name, value) in settings {
            if pg_sys::GetConfigOption(name.as_ptr(), true, false).is_null() {
                continue;
            }
            pg_sys::set_config_option(
                name.as_ptr(),
                value.as_ptr(),
                pg_sys::GucContext::PGC_USERSET,
                pg_sys::GucSource::PGC_S_SESSION,
                pg_sys::GucAction::GUC_ACTION_SAVE,
                true,
                0,
                false,
            );
        }
        let result = work();
        pg_sys::AtEOXact_GUC(false, level);
        result
    }
}
