//! The columns of hilo's tables by their attribute numbers, as sql/catalog.sql has them. A release
//! adds columns at a table's end, so a number never changes.

pub mod sequence {
    pub const ID: i16 = 1;
    pub const NAME: i16 = 2;
    pub const DATA_TYPE: i16 = 3;
    pub const START_VALUE: i16 = 4;
    pub const INCREMENT: i16 = 5;
    pub const MIN_VALUE: i16 = 6;
    pub const MAX_VALUE: i16 = 7;
    pub const CYCLE: i16 = 8;
    pub const ORDERED: i16 = 9;
    pub const BLOCK_SIZE: i16 = 10;
    pub const SLICE_SIZE: i16 = 11;
    pub const KEY_FORMAT: i16 = 12;
    pub const OWNER: i16 = 13;
    pub const CREATED_AT: i16 = 14;
    pub const OWNED_BY: i16 = 15;
    pub const GAPLESS: i16 = 16;
    pub const HIGHEST_NODE: i16 = 17;
    pub const SOURCE: i16 = 18;
    pub const RESERVE_AHEAD: i16 = 19;
    /// The number of columns.
    pub const COUNT: usize = 19;
}

pub mod source {
    pub const SEQUENCE: i16 = 1;
    pub const NODE: i16 = 2;
    pub const REQUEST: i16 = 3;
    pub const WANTED: i16 = 4;
    pub const REQUESTED_AT: i16 = 5;
    pub const SYSTEM_ID: i16 = 6;
    pub const TIMELINE: i16 = 7;
    pub const REQUESTED: i16 = 8;
    pub const RECEIVED: i16 = 9;
    pub const FIRST_VALUE: i16 = 10;
    pub const LAST_VALUE: i16 = 11;
    pub const OWN_FIRST: i16 = 12;
    pub const OWN_LAST: i16 = 13;
    pub const LATENCY: i16 = 14;
    pub const FAILURES: i16 = 15;
    pub const LAST_ERROR: i16 = 16;
    pub const LAST_ERROR_AT: i16 = 17;
    pub const DATABASE: i16 = 18;
    /// The number of columns.
    pub const COUNT: usize = 18;
}

pub mod position {
    pub const SEQUENCE: i16 = 1;
    pub const NODE: i16 = 2;
    pub const EPOCH: i16 = 3;
    pub const BASE: i16 = 4;
    pub const NEXT_INDEX: i16 = 5;
    pub const SETTLED_INDEX: i16 = 6;
    pub const INCARNATION: i16 = 7;
    pub const NODES: i16 = 8;
    pub const STRIPE: i16 = 9;
    pub const SYSTEM_ID: i16 = 10;
    pub const TIMELINE: i16 = 11;
    pub const SKIP: i16 = 12;
    /// The first of the counters, which stand last, in the order of `shared::totals`.
    pub const SERVED: i16 = 13;
    /// The number of columns.
    pub const COUNT: usize = 12 + crate::shared::totals::COUNT;
}

pub mod free_range {
    pub const SEQUENCE: i16 = 1;
    pub const NODE: i16 = 2;
    pub const EPOCH: i16 = 3;
    pub const FIRST_INDEX: i16 = 4;
    pub const END_INDEX: i16 = 5;
    pub const INCARNATION: i16 = 6;
    /// The number of columns.
    pub const COUNT: usize = 6;
}

pub mod gap {
    pub const SEQUENCE: i16 = 1;
    pub const NODE: i16 = 2;
    pub const FIRST_VALUE: i16 = 3;
    pub const LAST_VALUE: i16 = 4;
    pub const COUNT: i16 = 5;
    pub const REASON: i16 = 6;
    pub const RECORDED_AT: i16 = 7;
    pub const NAME: i16 = 8;
    pub const RELEASED_FROM: i16 = 9;
    /// The number of columns.
    pub const WIDTH: usize = 9;
}

pub mod lease {
    pub const LEASE: i16 = 1;
    pub const SEQUENCE: i16 = 2;
    pub const NODE: i16 = 3;
    pub const EPOCH: i16 = 4;
    pub const FIRST_INDEX: i16 = 5;
    pub const END_INDEX: i16 = 6;
    pub const NEXT_INDEX: i16 = 7;
    pub const FIRST_VALUE: i16 = 8;
    pub const INCREMENT: i16 = 10;
    pub const HOLDER: i16 = 11;
    pub const ROLE: i16 = 12;
    pub const EXPIRES_AT: i16 = 15;
    pub const ENDED: i16 = 16;
    pub const ENDED_AT: i16 = 17;
    pub const DUE_AT: i16 = 18;
    pub const SYSTEM_ID: i16 = 19;
    pub const TIMELINE: i16 = 20;
    pub const PASSED: i16 = 21;
    /// The number of columns.
    pub const COUNT: usize = 21;
}

pub mod privilege {
    pub const SEQUENCE: i16 = 1;
    pub const GRANTEE: i16 = 2;
    pub const PRIVILEGE: i16 = 3;
    pub const GRANTOR: i16 = 4;
}

pub mod default_privilege {
    pub const OWNER: i16 = 1;
    pub const PATTERN: i16 = 2;
    pub const GRANTEE: i16 = 3;
    pub const PRIVILEGE: i16 = 4;
}
