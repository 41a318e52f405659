//! The columns of hilo's tables, as sql/catalog.sql has them. A release adds columns at a table's
//! end, so a number never changes.

use hilo_core::options::each_option;

/// Numbers the columns of tables, from 1 on, in the order in which they stand here.
macro_rules! columns {
    ($($(#[$doc:meta])* $table:ident { $first:ident $($next:ident)* })+) => { $(
        $(#[$doc])*
        #[allow(dead_code, non_upper_case_globals)]
        pub mod $table {
            columns!(@ 1, $first $($next)*);
        }
    )+ };
    (@ $at:expr, $column:ident $($next:ident)*) => {
        pub const $column: i16 = $at;
        columns!(@ $at + 1, $($next)*);
    };
    (@ $end:expr,) => {
        /// The number of columns.
        pub const WIDTH: usize = $end - 1;
    };
}

macro_rules! sequence {
    ($($(#[$about:meta])* $option:ident: $type:ty,)+) => {
        columns! {
            /// The options are the last columns, and have their names.
            sequence { ID NAME OWNER CREATED_AT OWNED_BY EXTENSION FORMER $($option)+ }
        }
    };
}

each_option!(sequence);

columns! {
    source {
        SEQUENCE NODE REQUEST WANTED REQUESTED_AT SYSTEM_ID TIMELINE REQUESTED RECEIVED
        BROUGHT OWN OWN_EPOCH LATENCY FAILURES LAST_ERROR LAST_ERROR_AT DATABASE RECEIVER
        ANSWERED MOST PARTED_AT FAILING_SINCE PASSES
    }
    position {
        SEQUENCE NODE EPOCH BASE NEXT_INDEX SETTLED_INDEX INCARNATION NODES STRIPE SYSTEM_ID
        TIMELINE SKIP SERVED SLICES BLOCKS_RESERVED BLOCKS_PREFETCHED WAITS WAIT_TIME
        RECYCLED LOST ERRORS
    }
    free_range {
        SEQUENCE NODE EPOCH FIRST_INDEX END_INDEX INCARNATION
    }
    gap {
        SEQUENCE NODE EPOCH FIRST_VALUE LAST_VALUE COUNT INCREMENT REASON RECORDED_AT NAME
        RELEASED_FROM
    }
    lease {
        LEASE SEQUENCE NODE EPOCH FIRST_INDEX END_INDEX NEXT_INDEX FIRST_VALUE LAST_VALUE
        INCREMENT HOLDER ROLE CLIENT_ADDR LEASED_AT EXPIRES_AT ENDED ENDED_AT DUE_AT
        SYSTEM_ID TIMELINE PASSED
    }
    privilege {
        SEQUENCE GRANTEE PRIVILEGE GRANTOR
    }
    default_privilege {
        OWNER PATTERN GRANTEE PRIVILEGE
    }
}
