//! What `hilo_check` finds about several servers: an identity that two of them share, numberings that differ.

use std::sync::atomic::Ordering::*;

use pgrx::pg_sys;

use hilo_core::numbers::Timestamp;

use super::finding::{Findings, HOUR, SECOND, Severity, finding, readable, sequence};
use crate::advice::RESTART;
use crate::catalog::node::{self, Here};
use crate::catalog::positions::{self, RESTORED};
use crate::errors::OrRaise;
use crate::memory::Grow;
use crate::sql::spi;
use crate::{ffi, gucs, shared};

pub(super) fn all(caller: pg_sys::Oid) -> Findings {
    let mut found = twin();
    found.grow_by(triggers()).or_raise();
    found.grow_by(left_behind(caller)).or_raise();
    found.grow_by(numberings(caller)).or_raise();
    found.grow_by(other_counts(caller)).or_raise();
    found.grow_by(citus(caller)).or_raise();
    found.grow_by(untold(caller)).or_raise();
    found
}

/// The triggers that check replicated rows fire for these rows only, unless that has been changed, as by
/// pg_restore --disable-triggers.
fn triggers() -> Findings {
    let sql = "SELECT c.relname::text
                 FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
                 LEFT JOIN pg_trigger t ON t.tgrelid = c.oid AND t.tgname = 'replicated'
                WHERE n.nspname = 'hilo' AND c.relname IN ('sequence', 'position', 'privilege', 'default_privilege', 'free_range', 'lease')
                  AND c.relkind = 'r' AND t.tgenabled IS DISTINCT FROM 'R'";
    spi::rows(sql, |row| {
        let table = row.text(1);
        finding(
            format!("table hilo.{table}"),
            Severity::Error,
            "rows that arrive by logical replication are not checked, and may cause a value to be served twice",
            format!("ALTER TABLE hilo.{table} ENABLE REPLICA TRIGGER replicated"),
        )
    })
}

/// Reports if rows of this node have arrived from another server within the last hour.
fn twin() -> Findings {
    let Ok(shared) = shared::get() else { return Vec::new() };
    let ago = ffi::now().since(Timestamp(shared.control.twin_seen_at.load(Relaxed)));
    if ago >= HOUR {
        return Vec::new();
    }
    vec![finding(
        format!("node {}", node::known().unwrap_or_default()),
        Severity::Error,
        format!(
            "{} s ago a position of this node arrived by replication from another server, which serves the same values",
            ago.0 / SECOND
        ),
        "Stop one of the two servers, or give it its own hilo.node_id.",
    )]
}

/// Positions of this node that may lack reservations from which values have been served. Positions that
/// pg_upgrade brought are left out: it requires a clean shutdown, and leaves the server on its first
/// timeline.
fn left_behind(caller: pg_sys::Oid) -> Findings {
    let (system_id, timeline) = positions::server();
    let sql = format!(
        "SELECT l.cause, l.origin, count(*), min(l.name), hilo.node_id()::bigint
           FROM (SELECT s.name,
                        CASE WHEN p.timeline < 0 AND p.system_id = {system_id} AND p.incarnation = {RESTORED} THEN 'restored'
                             WHEN p.timeline < 0 THEN 'replicated'
                             WHEN p.system_id = {system_id} THEN 'promoted'
                             ELSE 'converted' END AS cause,
                        CASE WHEN p.timeline >= 0 AND p.system_id = {system_id} THEN p.timeline ELSE p.system_id END AS origin
                   FROM hilo.position p JOIN ({readable}) s ON s.id = p.sequence
                  WHERE p.node = hilo.node_id()
                    AND (p.timeline < 0
                         OR (p.system_id = {system_id} AND {timeline} NOT IN (0, p.timeline))
                         OR (p.system_id NOT IN (0, {system_id}) AND {timeline} > 1 AND p.next_index > 0))) l
          GROUP BY l.cause, l.origin",
        readable = readable(caller)
    );
    spi::rows(&sql, |row| {
        let number = |at| row.int8(at).unwrap_or(0);
        let (cause, origin, count, name, node) =
            (row.text(1), number(2), number(3), row.text(4), number(5));
        let of = format!("{count} positions of this node, such as that of \"{name}\",");
        let server = origin as u64;
        let (what, to_do) = match cause.as_str() {
            "replicated" => (
                format!("{of} arrived by replication from another server ({server})"),
                "If this server is to take over when that server is lost, do nothing: the first use of each sequence skips hilo.failover_skip values. If both are to serve, give each its own hilo.node_id.",
            ),
            "restored" => (
                format!(
                    "{of} were restored from a dump of a server at which they had arrived by replication"
                ),
                "If the server that served them is stopped permanently, do nothing: the first use of each sequence skips hilo.failover_skip values. If it still serves, give this server its own hilo.node_id.",
            ),
            "promoted" => (
                format!(
                    "{of} were last written on timeline {origin}, before this server was promoted or copied"
                ),
                "Once the server that this one was copied from is stopped permanently, do nothing: the first use of each sequence skips hilo.failover_skip values. If that server still serves, give this server its own hilo.node_id.",
            ),
            _ => (
                format!(
                    "{of} were last written by the server {server}, from which this server was made by pg_createsubscriber, or by pg_upgrade before it was promoted"
                ),
                "Once that server is stopped permanently, do nothing: the first use of each sequence skips hilo.failover_skip values. If it still serves, give this server its own hilo.node_id.",
            ),
        };
        finding(format!("node {node}"), Severity::Warning, what, to_do)
    })
}

/// On Citus any node may be asked to serve a sequence.
fn citus(caller: pg_sys::Oid) -> Findings {
    // That it is not known which node this is, or that its id is too high, is found with the settings.
    let Ok(Here { id, group: Some(group), .. }) = Here::read() else { return Vec::new() };
    // Separate ranges of values for each node, like those of Citus's own sequences, are as good as stripes.
    let sql = format!(
        "SELECT count(*), min(s.name) FROM ({}) s
          WHERE NOT (s.min_value > {group}::bigint << 48 AND s.max_value <= ({group} + 1)::bigint << 48)
            AND ({id} <> {group}
                 OR EXISTS (SELECT FROM hilo.position p WHERE p.sequence = s.id AND p.node = {id} AND p.nodes = 1))
         HAVING count(*) > 0",
        readable(caller)
    );
    spi::rows(&sql, |row| {
        let some = format!("{} sequences, such as \"{}\",", row.int8(1).unwrap_or(0), row.text(2));
        if id == group {
            return finding(
                format!("group {group} of Citus"),
                Severity::Warning,
                format!(
                    "{some} are served by this node alone: the other nodes refuse to serve them"
                ),
                "If distributed tables use them, set hilo.node_id = 'citus' and hilo.node_count above all groups on every node, SET hilo.on_every_node = on and run hilo_alter(..., restart_with => ...) here, with a value beyond all that was reserved, and then hilo_create_on_all_nodes(name) for each.",
            );
        }
        finding(
            "setting hilo.node_id",
            Severity::Error,
            format!(
                "{some} are not served here: hilo.node_id is {id}, and not the group of this node in Citus, which is {group}"
            ),
            "On every node of Citus, set hilo.node_id = 'citus' and hilo.node_count to more than there will ever be groups, and reload.",
        )
    })
}

/// Sequences that this node of Citus refuses to serve, because it has not been told how the others number them.
fn untold(caller: pg_sys::Oid) -> Findings {
    let Some(here) = Here::read().ok().filter(Here::is_of_citus) else { return Vec::new() };
    let id = here.id;
    // That the id is not the group is found above.
    if here.group.is_some_and(|group| group != id) {
        return Vec::new();
    }
    let sql = format!(
        "SELECT count(*), min(s.name) FROM ({}) s
          WHERE NOT s.gapless
            AND NOT EXISTS (SELECT FROM hilo.position p WHERE p.sequence = s.id AND p.node = {id})
         HAVING count(*) > 0",
        readable(caller)
    );
    spi::rows(&sql, |row| {
        finding(
            format!("group {id} of Citus"),
            Severity::Warning,
            format!(
                "{} sequences, such as \"{}\", are not served here: this node has not been told how the others number them",
                row.int8(1).unwrap_or(0),
                row.text(2)
            ),
            "Run hilo_create_on_all_nodes(name) for each of them.",
        )
    })
}

/// Nodes that number a sequence differently from this one. On Citus, the rows that replication has not brought are those of
/// groups that this server had before: nothing is served by them any more.
fn numberings(caller: pg_sys::Oid) -> Findings {
    let of_citus = Here::read().is_ok_and(|here| here.is_of_citus());
    let sql = format!(
        "SELECT d.* FROM (
         SELECT s.name, p.node, p.base, p.nodes, o.base AS own_base, o.nodes AS own_nodes,
                (p.next_index > 0 AND o.next_index > 0 AND NOT s.cycle
                 AND GREATEST(p.base, pv.last) >= LEAST(o.base, ov.last)
                 AND GREATEST(o.base, ov.last) >= LEAST(p.base, pv.last)) AS overlap,
                p.timeline < 0 AS arrived
           FROM hilo.position p
           JOIN hilo.position o ON o.sequence = p.sequence AND o.node = hilo.node_id()
           JOIN ({readable}) s ON s.id = p.sequence
          CROSS JOIN LATERAL (SELECT hilo.value_at(p.next_index - 1, p.base, s.increment, s.min_value,
                                     s.max_value, s.cycle, p.node, p.nodes, p.stripe) AS last) pv
          CROSS JOIN LATERAL (SELECT hilo.value_at(o.next_index - 1, o.base, s.increment, s.min_value,
                                     s.max_value, s.cycle, o.node, o.nodes, o.stripe) AS last) ov
          WHERE p.node <> o.node AND (p.base, p.nodes, p.stripe) <> (o.base, o.nodes, o.stripe)) d
          WHERE d.overlap OR d.arrived OR NOT {of_citus}",
        readable = readable(caller)
    );
    spi::rows(&sql, |row| {
        let number = |at| row.int8(at).unwrap_or(0);
        let count = |at| row.int4(at).unwrap_or(0);
        let mut what = format!(
            "numbered differently: here from {} with node count {}, by node {} from {} with node count {}",
            number(5),
            count(6),
            count(2),
            number(3),
            count(4)
        );
        let overlap = row.bool(7);
        if overlap {
            what += "; the values that the two have reserved may overlap";
        }
        finding(
            sequence(&row.text(1)),
            if overlap { Severity::Error } else { Severity::Warning },
            what,
            format!("{RESTART} A node that is permanently gone can be left as it is."),
        )
    })
}

/// Sequences that are numbered for another number of nodes than is set.
fn other_counts(caller: pg_sys::Oid) -> Findings {
    let count = gucs::node_count();
    let sql = format!(
        "SELECT p.nodes, count(*), min(s.name) FROM hilo.position p JOIN ({}) s ON s.id = p.sequence
          WHERE p.node = hilo.node_id() AND p.nodes <> {count} AND NOT s.gapless GROUP BY p.nodes",
        readable(caller)
    );
    spi::rows(&sql, |row| {
        let (nodes, sequences) = (row.int4(1).unwrap_or(0), row.int8(2).unwrap_or(0));
        finding(
            "setting hilo.node_count",
            Severity::Warning,
            format!(
                "{sequences} sequences, such as \"{}\", are numbered for hilo.node_count = {nodes}, but the setting is {count}",
                row.text(3)
            ),
            RESTART,
        )
    })
}
