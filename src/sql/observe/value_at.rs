//! `hilo.value_at`: the mapping from index to value, for the views.

use hilo_core::mapping::{Mapping, Stripes};
use hilo_core::numbers::Index;

use crate::sql::call::args::{Args, sql_functions};

sql_functions!(hilo_value_at);

/// Computes a value from the columns of a definition and a position, so that a view over a million
/// of them looks nothing up.
fn hilo_value_at(args: Args) -> Option<i64> {
    let int8 = |at| args.int8(at).unwrap_or(0);
    let int4 = |at, least: i32| (int8(at) as i32).max(least) as u32;
    let stripes = Stripes { node: int4(6, 0), nodes: int4(7, 1), size: int8(8) };
    let mapping = Mapping {
        base: int8(1),
        increment: int8(2),
        min_value: int8(3),
        max_value: int8(4),
        cycle: args.bool(5).unwrap_or(false),
        stripes,
    };
    mapping.value(Index(int8(0)))
}
