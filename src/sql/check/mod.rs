//! `hilo_check`: reports the problems that an operator would want to know of.
//!
//! It reads the catalog with the rights of the extension's owner. It shows what it finds about a sequence
//! only if the caller may read the sequence, and about a column only if the caller also has a privilege on
//! the column. It reads the furthest values of a table only if the caller may read all of its rows, and
//! without a statement (`catalog::column_values`). A role that may read every sequence watches the server: of what
//! it may not see about columns, it is told that there is something, and how bad it is.

mod columns;
mod finding;
mod nodes;
mod notes;
mod other_nodes;
mod sessions;

use pgrx::pg_sys;
use pgrx::prelude::*;

use columns::{Column, columns};
use hilo_core::numbers::Monotonic;

use finding::{Finding, Findings, HOUR, SECOND, Severity, finding, readable, sequence};

use super::{spi, stat};
use crate::catalog::{catalog_oids, node};
use crate::errors::{HiloError, OrRaise};
use crate::ffi;
use crate::gucs;
use crate::memory::{self, Grow};
use crate::shared;

#[pg_extern(sql = false)]
#[allow(clippy::type_complexity)]
fn hilo_check() -> TableIterator<
    'static,
    (
        name!(object, String),
        name!(severity, String),
        name!(what, String),
        name!(what_to_do, String),
    ),
> {
    memory::check().or_raise();
    let caller = ffi::current_user();
    let defaults = columns::defaults();
    let columns = spi::with_rights_of(owner(), || columns(caller, &defaults));
    let mut findings: Findings =
        memory::collected(columns.iter().filter_map(Column::check_rows)).or_raise();
    let beyond = columns.iter().filter_map(|column| column.check_rows_of(&columns::replicated));
    findings.grow_by(beyond).or_raise();
    findings.grow_by(columns.iter().filter_map(Column::check_definition)).or_raise();
    let others = spi::with_rights_of(owner(), || {
        let mut all = settings();
        all.grow_by(servers(caller)).or_raise();
        all.grow_by(sequences(caller)).or_raise();
        all.grow_by(notes::shared(&columns)).or_raise();
        all.grow_by(notes::unused(caller, &defaults)).or_raise();
        all
    });
    findings.grow_by(others).or_raise();
    findings.grow_by(other_nodes::all(&columns)).or_raise();
    // An unstable sort needs no buffer.
    findings.sort_unstable_by(|a, b| {
        (a.severity, &a.object, &a.what).cmp(&(b.severity, &b.object, &b.what))
    });
    TableIterator::new(
        findings
            .into_iter()
            .map(|f| (f.object, f.severity.name().to_string(), f.what, f.what_to_do)),
    )
}

/// The role that owns the catalog.
fn owner() -> pg_sys::Oid {
    let table = catalog_oids().or_raise().sequence;
    let sql = format!(
        "SELECT c.relowner FROM pg_catalog.pg_class c WHERE c.oid OPERATOR(pg_catalog.=) {}::pg_catalog.oid",
        table.to_u32()
    );
    spi::rows(&sql, |row| row.oid(1)).first().copied().unwrap_or(pg_sys::InvalidOid)
}

fn settings() -> Findings {
    let mut found = Vec::new();
    let mut add = |object: &str, severity, what: String, to_do: &str| {
        found.push(finding(object, severity, what, to_do))
    };
    if let Err(error @ HiloError::NoGroup(_)) = node::id() {
        let what = format!("{error}, so nothing is served. {}", error.detail().unwrap_or_default());
        add(
            "setting hilo.node_id",
            Severity::Error,
            what.trim_end_matches('.').into(),
            &error.hint().unwrap_or_default(),
        );
    }
    let nodes = gucs::node_count();
    if let Err(error) = node::check_set(nodes) {
        let what = format!(
            "{error}, and hilo.node_count is {nodes}: no sequence can be created or renumbered"
        );
        add("setting hilo.node_id", Severity::Warning, what, &error.hint().unwrap_or_default());
    }
    if let Some(node) = node::known().filter(|node| *node >= nodes) {
        let what = format!(
            "hilo.node_id = {node} is not less than hilo.node_count = {nodes}: nothing can be reserved"
        );
        add(
            "setting hilo.node_id",
            Severity::Error,
            what,
            "Set hilo.node_id to a value from 0 to hilo.node_count - 1 and reload.",
        );
    }
    let number = |name: &str| {
        let sql = format!(
            "SELECT setting::bigint FROM pg_settings WHERE name = {}",
            pgrx::spi::quote_literal(name)
        );
        spi::rows(&sql, |row| row.int8(1)).first().copied().flatten().unwrap_or(0)
    };
    let (least, most) = (number("hilo.min_block_size"), number("hilo.max_block_size"));
    if least > most {
        let what = format!(
            "hilo.min_block_size = {least} is greater than hilo.max_block_size = {most}, which is used for both"
        );
        add(
            "setting hilo.min_block_size",
            Severity::Warning,
            what,
            "Lower hilo.min_block_size or raise hilo.max_block_size, and reload.",
        );
    }
    let settings = gucs::refill(None);
    if !settings.prefetch {
        let what = "with hilo.prefetch = off, callers wait for every block, and hilo.min_threshold and hilo.buffer have no effect";
        add(
            "setting hilo.prefetch",
            Severity::Warning,
            what.into(),
            "Set hilo.prefetch = on and reload.",
        );
    }
    if settings.prefetch && settings.min_threshold > settings.max_block {
        let what = format!(
            "hilo.min_threshold = {} is greater than hilo.max_block_size = {most}: the next block is always requested before the current one is begun",
            settings.min_threshold
        );
        add(
            "setting hilo.min_threshold",
            Severity::Warning,
            what,
            "Lower hilo.min_threshold or raise hilo.max_block_size, and reload.",
        );
    }
    if gucs::sample_interval() > gucs::window() {
        let what = "hilo.sample_interval is longer than hilo.window, so rates are computed from a single sample";
        add(
            "setting hilo.sample_interval",
            Severity::Warning,
            what.into(),
            "Lower hilo.sample_interval below hilo.window and reload.",
        );
    }
    let off = "SELECT name FROM pg_settings WHERE name IN ('fsync', 'full_page_writes') AND setting = 'off'";
    for name in spi::rows(off, |row| row.text(1)) {
        let what = format!(
            "with {name} = off, reserved values may be served again after a crash of the machine"
        );
        add(
            &format!("setting {name}"),
            Severity::Error,
            what,
            &format!("Set {name} = on and reload."),
        );
    }
    found
}

fn servers(caller: pg_sys::Oid) -> Findings {
    let mut found = Vec::new();
    match shared::get() {
        Err(error) => found.push(finding(
            "setting shared_preload_libraries",
            Severity::Error,
            error.to_string(),
            "Add hilo to shared_preload_libraries in postgresql.conf and restart the server.",
        )),
        Ok(shared) => {
            found.grow_by(sessions::all()).or_raise();
            let (free, slots) = (shared.free_slots(), shared.slots.len());
            if shared.is_nearly_full() {
                found.push(finding("setting hilo.max_sequences", Severity::Warning,
                    format!("{} of {slots} slots for active sequences are taken", slots - free),
                    "Raise hilo.max_sequences and restart the server, or make sure that fewer sequences are in use at the same time."));
            }
            let wanted_at =
                shared.control.workers_wanted_at.load(std::sync::atomic::Ordering::Relaxed);
            let ago = ffi::monotonic().since(Monotonic(wanted_at));
            if wanted_at != 0 && ago < HOUR {
                found.push(finding(
                    "setting max_worker_processes",
                    Severity::Error,
                    format!(
                        "{} s ago a session found no free background worker slot for the worker of its database",
                        ago.0 / SECOND
                    ),
                    "Raise max_worker_processes and restart the server.",
                ));
            }
        }
    }
    found.grow_by(workers()).or_raise();
    found.grow_by(nodes::all(caller)).or_raise();
    found
}

/// Background workers of all kinds share one limit.
fn workers() -> Option<Finding> {
    let sql = "SELECT count(*), current_setting('max_worker_processes')::bigint FROM pg_stat_activity
                WHERE backend_type NOT IN ('client backend', 'autovacuum launcher', 'autovacuum worker',
                      'background writer', 'checkpointer', 'startup', 'walreceiver', 'walsender', 'walwriter',
                      'archiver', 'standalone backend', 'slotsync worker', 'walsummarizer', 'io worker', 'logger')";
    let (taken, limit) = spi::rows(sql, |row| (row.int8(1).unwrap_or(0), row.int8(2).unwrap_or(0)))
        .first()
        .copied()?;
    (taken >= limit).then(|| {
        finding("setting max_worker_processes", Severity::Warning,
            format!("all {limit} background worker slots are taken: a database without a hilo worker cannot get one"),
            "Raise max_worker_processes and restart the server.")
    })
}

fn sequences(caller: pg_sys::Oid) -> Findings {
    let mut found = exhaustion(caller);
    found.grow_by(without_owner(caller)).or_raise();
    found.grow_by(let_in()).or_raise();
    if shared::get().is_ok() {
        found.grow_by(faults(caller)).or_raise();
    }
    found
}

/// A sequence is reported when this fraction of its range is reserved, or half of it if the rest, at the
/// current rate, lasts for fewer than `WARN_WITHIN_DAYS` days.
const WARN_AT_USED: f64 = 0.8;
const ERROR_AT_USED: f64 = 0.95;
const WARN_WITHIN_DAYS: i64 = 7;

fn exhaustion(caller: pg_sys::Oid) -> Findings {
    let rates = match shared::get() {
        Ok(_) => {
            "SELECT sequence, rate, in_slices + in_current + in_standby + in_returned AS ready FROM hilo.stat_slots()"
        }
        Err(_) => {
            "SELECT 0::bigint AS sequence, 0::double precision AS rate, 0::bigint AS ready WHERE false"
        }
    };
    let sql = format!(
        "SELECT name, (used * 10000)::bigint, increment > 0, bound, (days * 24)::bigint
           FROM (SELECT s.name, s.increment, CASE WHEN s.increment > 0 THEN s.max_value ELSE s.min_value END AS bound,
                        CASE WHEN v.next IS NULL THEN 1
                             WHEN s.increment > 0 THEN (v.next - s.min_value::float8) / (s.max_value::float8 - s.min_value + 1)
                             ELSE (s.max_value::float8 - v.next) / (s.max_value::float8 - s.min_value + 1) END AS used,
                        CASE WHEN r.rate > 0 THEN
                             LEAST((r.ready + CASE WHEN v.next IS NULL THEN 0
                                        WHEN s.increment > 0 THEN (s.max_value::float8 - v.next) / s.increment / p.nodes
                                        ELSE (s.min_value::float8 - v.next) / s.increment / p.nodes END) / r.rate / 86400, 1e9)
                        END AS days
                   FROM ({readable}) s
                   JOIN hilo.position p ON p.sequence = s.id AND p.node = hilo.node_id()
                   LEFT JOIN ({rates}) r ON r.sequence = s.id
                  CROSS JOIN LATERAL (SELECT hilo.value_at(p.next_index, p.base, s.increment, s.min_value, s.max_value,
                                             s.cycle, p.node, p.nodes, p.stripe)::float8 AS next) v
                  WHERE NOT s.cycle
                    -- What is far from its end is sorted out before anything is computed of it.
                    AND (CASE WHEN s.increment > 0 THEN p.base::float8 - s.min_value ELSE s.max_value::float8 - p.base END
                         + p.next_index::float8 * abs(s.increment::float8) * p.nodes)
                        >= {WARN_AT_USED} / 2 * (s.max_value::float8 - s.min_value)) f
          WHERE used >= {WARN_AT_USED} OR (used >= {WARN_AT_USED} / 2 AND days < {WARN_WITHIN_DAYS})",
        readable = readable(caller)
    );
    spi::rows(&sql, |row| {
        let (name, used, bound) = (row.text(1), row.int8(2).unwrap_or(0), row.int8(4).unwrap_or(0));
        let severity = if used as f64 >= ERROR_AT_USED * 10_000.0 {
            Severity::Error
        } else {
            Severity::Warning
        };
        let end = if row.bool(3) { "maximum" } else { "minimum" };
        let mut what = format!(
            "{}.{:02} % of its values are reserved, up to its {end} {bound}",
            used / 100,
            used % 100
        );
        if let Some(hours) = row.int8(5).filter(|hours| *hours < 24 * WARN_WITHIN_DAYS * 100) {
            what += &format!("; at the current rate the rest lasts {hours} hours");
        }
        finding(
            sequence(&name),
            severity,
            what,
            "Use hilo_alter to give the sequence a wider data type or wider bounds, and give the columns that it fills a wider type.",
        )
    })
}

/// Sequences whose owner does not exist, although the record in `pg_shdepend` should prevent that: after a
/// restore without roles, for example.
fn without_owner(caller: pg_sys::Oid) -> Findings {
    let sql = format!(
        "SELECT count(*), min(s.name) FROM ({}) s
          WHERE NOT EXISTS (SELECT FROM pg_roles r WHERE r.oid = s.owner::oid)",
        readable(caller)
    );
    let found = spi::rows(&sql, |row| (row.int8(1).unwrap_or(0), row.text(2)));
    let ownerless = found.into_iter().filter(|(count, _)| *count > 0);
    ownerless
        .map(|(count, name)| {
            finding(
                sequence(&name),
                Severity::Warning,
                format!("{count} sequences, such as this one, belong to no role that exists"),
                "Give each of them an owner with hilo_set_owner; until then they belong to the superusers.",
            )
        })
        .collect()
}

/// Roles that can write to the catalog without the library, for example through default privileges.
fn let_in() -> Findings {
    let sql = "SELECT CASE a.grantee WHEN 0 THEN 'PUBLIC' ELSE a.grantee::regrole::text END, min(c.oid::regclass::text)
           FROM pg_class c, aclexplode(c.relacl) a
          WHERE c.relnamespace = 'hilo'::regnamespace AND a.grantee <> c.relowner AND a.privilege_type <> 'SELECT'
          GROUP BY 1";
    spi::rows(sql, |row| {
        let (role, table) = (row.text(1), row.text(2));
        finding(
            format!("role {role}"),
            Severity::Error,
            format!(
                "the role may write to the catalog of hilo, such as {table}, and so cause values to be served twice"
            ),
            format!("REVOKE ALL ON ALL TABLES IN SCHEMA hilo FROM {role}"),
        )
    })
}

/// Reservations that have failed within the last hour and have not succeeded since.
fn faults(caller: pg_sys::Oid) -> Findings {
    let failing = stat::failing();
    memory::room(failing.len() * 128).or_raise();
    let failing: Vec<String> = failing.iter().map(i64::to_string).collect();
    if failing.is_empty() {
        return Vec::new();
    }
    let sql = format!(
        "SELECT s.name, st.last_error, st.errors, date_trunc('second', now() - st.last_error_at)::text
           FROM hilo.stat_slots() st JOIN ({}) s ON s.id = st.sequence
          WHERE st.last_error_at > now() - interval '1 hour' AND st.sequence = ANY ('{{{}}}'::bigint[])",
        readable(caller),
        failing.join(",")
    );
    spi::rows(&sql, |row| {
        let what = format!(
            "reservations have failed {} times, last {} ago: {}",
            row.int8(3).unwrap_or(0),
            row.text(4),
            row.text(2)
        );
        finding(
            sequence(&row.text(1)),
            Severity::Error,
            what,
            "Remove the cause; hilo retries by itself. hilo_stat_reset clears the count.",
        )
    })
}
