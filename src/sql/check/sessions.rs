//! The part of `hilo_check` about sessions that do not load hilo.

use super::finding::{Finding, Severity, finding};
use crate::catalog::{catalog_oids, privileges};
use crate::errors::{OrRaise, load_in_sessions, preload_excluded_by};
use crate::sql::generated_always;
use crate::sql::owned_by::sessions::{LoadedBy, loaded_by};
use crate::sql::spi;

/// What can go wrong in a session that does not load hilo.
#[derive(Clone, Copy, PartialEq, Eq)]
enum AtRisk {
    Nothing,
    /// A sequence stays behind when its column is dropped.
    Owned,
    /// A column gets values that its sequence is yet to serve.
    Always,
}

pub(super) fn all() -> Option<Finding> {
    let loaded_by = loaded_by();
    let at_risk = match loaded_by {
        LoadedBy::All => return None,
        _ => at_risk(),
    };
    let who = match &loaded_by {
        LoadedBy::AllBut(whose) => preload_excluded_by(whose),
        LoadedBy::Unknown => {
            "a setting of its own hides from this session whether all others load hilo".into()
        }
        _ => "only sessions that call hilo load it".into(),
    };
    let (severity, so) = match (at_risk, &loaded_by) {
        (AtRisk::Nothing, _) => (Severity::Note, "so columns cannot own sequences"),
        (_, LoadedBy::Unknown) => (Severity::Warning, "on which columns depend"),
        (AtRisk::Owned, _) => (
            Severity::Warning,
            "but columns own sequences, which stay behind when other sessions drop or truncate the table",
        ),
        (AtRisk::Always, _) => (
            Severity::Error,
            "but columns are GENERATED ALWAYS by hilo, into which other sessions insert values of their own",
        ),
    };
    let whose = match &loaded_by {
        LoadedBy::AllBut(whose) => Some(whose.as_str()),
        _ => None,
    };
    let then = match at_risk {
        AtRisk::Nothing => ", or ignore this if no column owns a sequence",
        _ => ", and let all sessions connect again",
    };
    Some(finding(
        "setting session_preload_libraries",
        severity,
        format!("{who}, {so}"),
        format!("{}{then}.", load_in_sessions(whose)),
    ))
}

fn at_risk() -> AtRisk {
    let schema = catalog_oids().and_then(|ids| privileges::extension_schema(ids.extension));
    let sql = format!(
        "SELECT EXISTS (SELECT FROM pg_depend d JOIN pg_proc p ON p.oid = d.refobjid
                         WHERE d.classid = 'pg_attrdef'::regclass AND d.refclassid = 'pg_proc'::regclass
                           AND p.proname = {} AND p.pronamespace = {}::oid),
                EXISTS (SELECT FROM hilo.sequence s WHERE s.owned_by IS NOT NULL AND s.owned_by::text <> '-')",
        spi::literal(generated_always::FUNCTION.to_bytes()),
        schema.or_raise().to_u32(),
    );
    let found = spi::rows(&sql, |row| (row.bool(1), row.bool(2)));
    match found.first() {
        Some((true, _)) => AtRisk::Always,
        Some((_, true)) => AtRisk::Owned,
        _ => AtRisk::Nothing,
    }
}
