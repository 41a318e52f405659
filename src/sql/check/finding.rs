//! What `hilo_check` reports, and of which sequences.

use pgrx::pg_sys;

use hilo_core::numbers::Micros;

/// Microseconds.
pub(super) const SECOND: i64 = 1_000_000;
pub(super) const HOUR: Micros = Micros(3600 * SECOND);

/// The severities, the worst one first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Severity {
    Error,
    Warning,
    /// It may be meant to be so.
    Note,
}

impl Severity {
    pub fn name(self) -> &'static str {
        match self {
            Severity::Error => "error",
            Severity::Warning => "warning",
            Severity::Note => "note",
        }
    }
}

pub(super) struct Finding {
    pub object: String,
    pub severity: Severity,
    pub what: String,
    pub what_to_do: String,
}

pub(super) type Findings = Vec<Finding>;

pub(super) fn finding(
    object: impl Into<String>,
    severity: Severity,
    what: impl Into<String>,
    to_do: impl Into<String>,
) -> Finding {
    Finding { object: object.into(), severity, what: what.into(), what_to_do: to_do.into() }
}

impl Finding {
    /// What is left of it for a role that watches everything and may not see this.
    pub(super) fn hidden(self) -> Finding {
        finding(
            "a column",
            self.severity,
            "this role may not see which column has this finding, nor what it is",
            "Run hilo_check as a superuser, or grant the role pg_read_all_data.",
        )
    }
}

/// A condition: `caller` may read every sequence, as those who watch a server may.
pub(super) fn reads_all(caller: pg_sys::Oid) -> String {
    let caller = caller.to_u32();
    format!(
        "(SELECT pg_has_role({caller}::oid, 'pg_read_all_data'::name, 'USAGE')
              OR pg_has_role({caller}::oid, 'pg_write_all_data'::name, 'USAGE')
              OR pg_has_role({caller}::oid, 'pg_read_all_stats'::name, 'USAGE'))"
    )
}

/// A query for the sequences that `caller` may read, with the conditions of `hilo.readable`.
pub(super) fn readable(caller: pg_sys::Oid) -> String {
    let reads_all = reads_all(caller);
    let caller = caller.to_u32();
    format!(
        "SELECT s.* FROM hilo.sequence s
          WHERE {reads_all}
             OR pg_has_role({caller}::oid, s.owner::oid, 'USAGE')
             OR EXISTS (SELECT FROM hilo.privilege p
                         WHERE p.sequence = s.id
                           AND (p.grantee::oid = 0 OR pg_has_role({caller}::oid, p.grantee::oid, 'USAGE')))"
    )
}

pub(super) fn sequence(name: &str) -> String {
    format!("sequence \"{name}\"")
}
