//! The mapping between indexes and values, for queries.

use pgrx::prelude::*;

use hilo_core::mapping::{Mapping, Stripes};
use hilo_core::numbers::Index;

use crate::sql::call::border::Call;

/// Computes a value from the columns of a definition and a position, so that a view over a million
/// of them needs no look-up.
#[pg_extern(sql = false)]
#[expect(clippy::too_many_arguments, reason = "SQL has an argument for each column")]
fn hilo_value_at(
    _call: Call,
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
