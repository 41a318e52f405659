//! What `hilo_check` finds about several servers: identities that two of them have, numberings that
//! differ.

use std::sync::atomic::Ordering::*;

use pgrx::pg_sys;

use super::check::{ERROR, Findings, WARNING, finding, readable, sequence};
use super::query;
use crate::catalog::positions;
use crate::errors::OrRaise;
use crate::memory::Grow;
use crate::{ffi, gucs, shared};

pub(super) fn all(caller: pg_sys::Oid) -> Findings {
    let mut found = twin();
    found.grow_by(triggers()).or_raise();
    found.grow_by(left_behind(caller)).or_raise();
    found.grow_by(numberings(caller)).or_raise();
    found.grow_by(other_counts(caller)).or_raise();
    found
}

/// The triggers that judge replicated rows fire for these alone, unless somebody has changed that, as
/// pg_restore --disable-triggers does.
fn triggers() -> Findings {
    let sql = "SELECT c.relname::text
                 FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
                 LEFT JOIN pg_trigger t ON t.tgrelid = c.oid AND t.tgname = 'replicated'
                WHERE n.nspname = 'hilo' AND c.relname IN ('sequence', 'position', 'privilege', 'free_range')
                  AND c.relkind = 'r' AND t.tgenabled IS DISTINCT FROM 'R'";
    query::rows(sql, |row| {
        let table = row.text(1);
        finding(
            format!("table hilo.{table}"),
            ERROR,
            "rows that logical replication brings are not looked at, and may have a number dealt twice",
            format!("ALTER TABLE hilo.{table} ENABLE REPLICA TRIGGER replicated"),
        )
    })
}

/// Rows of this node have come from another server within the last hour.
fn twin() -> Findings {
    let Ok(shared) = shared::get() else { return Vec::new() };
    let ago = ffi::now() - shared.control.twin_seen_at.load(Relaxed);
    if ago >= 3_600_000_000 {
        return Vec::new();
    }
    vec![finding(
        format!("node {}", gucs::node().0),
        ERROR,
        format!(
            "{} s ago a position of this node arrived by replication from another server, which deals the same numbers",
            ago / 1_000_000
        ),
        "Stop one of the two, or give it a hilo.node_id of its own.",
    )]
}

/// Positions of this node that another server has written, or this one before it was promoted or copied.
fn left_behind(caller: pg_sys::Oid) -> Findings {
    let (system_id, timeline) = positions::server();
    let sql = format!(
        "SELECT p.system_id, count(*), min(s.name), hilo.node_id()::bigint, min(p.timeline)::bigint
           FROM hilo.position p JOIN ({readable}) s ON s.id = p.sequence
          WHERE p.node = hilo.node_id()
            AND (p.timeline < 0 OR p.system_id NOT IN (0, {system_id})
                 OR (p.system_id = {system_id} AND {timeline} NOT IN (0, p.timeline)))
          GROUP BY p.system_id, p.timeline",
        readable = readable(caller)
    );
    query::rows(&sql, |row| {
        let number = |at| row.int8(at).unwrap_or(0);
        let (system, count, name, node) = (number(1), number(2), row.text(3), number(4));
        let of = format!("{count} positions of this node, such as that of \"{name}\",");
        let (what, to_do) = if number(5) < 0 {
            (
                format!("{of} have come by replication from another server ({})", system as u64),
                "If this one is to take over when that one is lost: nothing, the first use of each passes over hilo.failover_skip values. If both are to serve: give each its own hilo.node_id.",
            )
        } else if system == system_id {
            (
                format!(
                    "{of} were last written on timeline {}, before this server was promoted or copied",
                    number(5)
                ),
                "Once the server that it was copied from is stopped for good: nothing, the first use of each passes over hilo.failover_skip values. If that one still serves: give this one a hilo.node_id of its own.",
            )
        } else {
            (
                format!("{of} were last written by another cluster ({})", system as u64),
                "After a restore from a dump: nothing, the first use takes them over. If that cluster still serves beside this one: give each its own hilo.node_id.",
            )
        };
        finding(format!("node {node}"), WARNING, what, to_do)
    })
}

/// Nodes that number a sequence otherwise than this one.
fn numberings(caller: pg_sys::Oid) -> Findings {
    let sql = format!(
        "SELECT s.name, p.node, p.base, p.nodes, o.base, o.nodes,
                (p.next_index > 0 AND o.next_index > 0 AND NOT s.cycle
                 AND GREATEST(p.base, pv.last) >= LEAST(o.base, ov.last)
                 AND GREATEST(o.base, ov.last) >= LEAST(p.base, pv.last))
           FROM hilo.position p
           JOIN hilo.position o ON o.sequence = p.sequence AND o.node = hilo.node_id()
           JOIN ({readable}) s ON s.id = p.sequence
          CROSS JOIN LATERAL (SELECT hilo.value_at(p.next_index - 1, p.base, s.increment, s.min_value,
                                     s.max_value, s.cycle, p.node, p.nodes, p.stripe) AS last) pv
          CROSS JOIN LATERAL (SELECT hilo.value_at(o.next_index - 1, o.base, s.increment, s.min_value,
                                     s.max_value, s.cycle, o.node, o.nodes, o.stripe) AS last) ov
          WHERE p.node <> o.node AND (p.base, p.nodes, p.stripe) <> (o.base, o.nodes, o.stripe)",
        readable = readable(caller)
    );
    query::rows(&sql, |row| {
        let number = |at| row.int8(at).unwrap_or(0);
        let count = |at| row.int4(at).unwrap_or(0);
        let mut what = format!(
            "numbered differently: here from {} on among {} nodes, by node {} from {} on among {}",
            number(5),
            count(6),
            count(2),
            number(3),
            count(4)
        );
        let overlap = row.bool(7);
        if overlap {
            what += "; what the two have reserved may overlap";
        }
        finding(
            sequence(&row.text(1)),
            if overlap { ERROR } else { WARNING },
            what,
            "hilo_alter(…, restart_with => …) on every node, with the same value beyond all that any has reserved. A node that is gone for good may be left as it is.",
        )
    })
}

/// Sequences that are dealt among another number of nodes than is set.
fn other_counts(caller: pg_sys::Oid) -> Findings {
    let count = gucs::node().1;
    let sql = format!(
        "SELECT p.nodes, count(*), min(s.name) FROM hilo.position p JOIN ({}) s ON s.id = p.sequence
          WHERE p.node = hilo.node_id() AND p.nodes <> {count} GROUP BY p.nodes",
        readable(caller)
    );
    query::rows(&sql, |row| {
        let (nodes, sequences) = (row.int4(1).unwrap_or(0), row.int8(2).unwrap_or(0));
        finding(
            "setting hilo.node_count",
            WARNING,
            format!(
                "{sequences} sequences, such as \"{}\", are dealt among {nodes} nodes, and hilo.node_count is {count}",
                row.text(3)
            ),
            "Number them anew, the same on every node: hilo_alter(…, restart_with => …).",
        )
    })
}
