//! `hilo.value_at`: the mapping from index to value, for the views.

use hilo_core::mapping::{Mapping, Stripes};
use hilo_core::numbers::Index;
use pgrx::prelude::*;

/// Computes a value from the columns of a definition and a position, so that a view over a million
/// of them looks nothing up.
#[allow(clippy::too_many_arguments)]
#[pg_extern(sql = false)]
fn hilo_value_at(
    index: i64,
    base: i64,
    increment: i64,
    min_value: i64,
    max_value: i64,
    cycle: bool,
    node: i32,
    nodes: i32,
    stripe: i64,
) -> Option<i64> {
    let stripes = Stripes { node: node.max(0) as u32, nodes: nodes.max(1) as u32, size: stripe };
    Mapping { base, increment, min_value, max_value, cycle, stripes }.value(Index(index))
}
