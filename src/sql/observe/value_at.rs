//! The mapping between indexes and values, for queries.

use hilo_core::mapping::{Mapping, Stripes};
use hilo_core::numbers::Index;

use crate::sql::call::args::{Args, sql_functions};

sql_functions!(hilo_value_at, hilo_index_from);

/// Computes a value from the columns of a definition and a position, so that a view over a million
/// of them looks nothing up.
fn hilo_value_at(args: Args) -> Option<i64> {
    mapping(args, 1).value(Index(args.int8(0).unwrap_or(0)))
}

/// The smallest index whose value does not lie before a value.
fn hilo_index_from(args: Args) -> i64 {
    mapping(args, 1).first_index_from(args.int8(0).unwrap_or(0)).0
}

/// The mapping that the arguments from `at` on describe.
pub fn mapping(args: Args, at: usize) -> Mapping {
    let int8 = |offset| args.int8(at + offset).unwrap_or(0);
    let int4 = |offset, least: i32| (int8(offset) as i32).max(least) as u32;
    Mapping {
        base: int8(0),
        increment: int8(1),
        min_value: int8(2),
        max_value: int8(3),
        cycle: args.bool(at + 4).unwrap_or(false),
        stripes: Stripes { node: int4(5, 0), nodes: int4(6, 1), size: int8(7) },
    }
}
