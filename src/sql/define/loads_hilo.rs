//! Which sessions of this database load hilo when they begin. If the server does not load it,
//! session_preload_libraries decides. Postgres applies one setting: that of the role in this
//! database, else of the role, of the database, of all roles, of the server. All but the last are
//! read from the catalog, so the answer is about sessions that connect from now on.

use crate::errors::HiloError;
use crate::gucs::{self, lists_hilo};
use crate::sql::call::spi;

/// Which sessions load hilo.
pub enum LoadedBy {
    All,
    /// Only sessions that have called hilo, and those for which a setting of their own says so.
    Callers,
    /// All sessions except those for whom this was set, as in ALTER.
    AllBut(String),
    /// This session cannot tell: a setting of its role hides what the server has set for all.
    Unknown,
}

struct Setting {
    of_role: bool,
    has_hilo: bool,
    whose: String,
}

pub fn loader() -> Result<LoadedBy, HiloError> {
    if gucs::is_preloaded() {
        return Ok(LoadedBy::All);
    }
    let Some(own) = gucs::session_libraries() else { return Ok(LoadedBy::Callers) };
    let set = set_in_catalog()?;
    // The first one counts.
    match set.iter().find(|setting| !setting.of_role) {
        Some(for_all) if !for_all.has_hilo => return Ok(LoadedBy::AllBut(for_all.whose.clone())),
        None if !own.of_server => return Ok(LoadedBy::Unknown),
        None if !own.has_hilo => return Ok(LoadedBy::Callers),
        _ => {}
    }
    let other = set.into_iter().find(|setting| setting.of_role && !setting.has_hilo);
    Ok(other.map_or(LoadedBy::All, |setting| LoadedBy::AllBut(setting.whose)))
}

/// The settings in the catalog for sessions of this database. For each role it is the one that
/// takes effect. Settings for all roles come in the order of their precedence.
fn set_in_catalog() -> Result<Vec<Setting>, HiloError> {
    let sql = "SELECT DISTINCT ON (s.setrole, CASE s.setrole WHEN 0 THEN s.setdatabase END)
                      s.setrole <> 0, substr(c.line, length('session_preload_libraries=') + 1),
                      CASE WHEN s.setrole <> 0 THEN 'ROLE ' || \
                      quote_ident(pg_get_userbyid(s.setrole))
                                || CASE s.setdatabase WHEN 0 THEN '' ELSE ' IN DATABASE ' || \
                                quote_ident(d.datname) END
                           WHEN s.setdatabase <> 0 THEN 'DATABASE ' || quote_ident(d.datname)
                           ELSE 'ROLE ALL' END
                 FROM pg_db_role_setting s JOIN pg_database d ON d.datname = current_database() \
                 AND s.setdatabase IN (0, d.oid)
                CROSS JOIN unnest(s.setconfig) c (line)
                WHERE starts_with(c.line, 'session_preload_libraries=')
                ORDER BY s.setrole, CASE s.setrole WHEN 0 THEN s.setdatabase END DESC, \
                s.setdatabase DESC";
    spi::look_up(sql, |row| Setting {
        of_role: row.bool(1),
        has_hilo: lists_hilo(&row.bytes(2).unwrap_or_default()),
        whose: row.text(3),
    })
}

/// Checks that no session drops, truncates or writes a table without hilo's hooks.
///
/// # Errors
/// `NotInAllSessions`
pub fn check() -> Result<(), HiloError> {
    let refused = |except| Err(HiloError::NotInAllSessions { except });
    match loader()? {
        LoadedBy::AllBut(whose) => refused(Some(whose)),
        LoadedBy::Callers | LoadedBy::Unknown => refused(None),
        // Sessions beside this one may have begun before hilo was set, and do not know hilo.
        LoadedBy::All if gucs::is_preloaded() => Ok(()),
        LoadedBy::All if gucs::session_libraries().is_some_and(|own| own.has_hilo) => Ok(()),
        LoadedBy::All => refused(None),
    }
}
