//! Which statements come, and how often.

use proptest::prelude::*;

use crate::model::statement::Statement::*;
use crate::model::statement::{Create, Many, Name, Statement, Step, TAKEN, Way};

pub fn step() -> impl Strategy<Value = Step> {
    (0..2u8, statement()).prop_map(|(session, statement)| Step { session, statement })
}

pub fn statement() -> impl Strategy<Value = Statement> {
    prop_oneof![
        20 => definition(),
        4 => column(),
        4 => moves(),
        25 => draw(),
        9 => lease(),
        18 => control(),
    ]
}

fn name() -> impl Strategy<Value = Name> {
    prop_oneof![6 => Just(0u8), 2 => Just(1), 1 => Just(2)]
}

fn increment() -> impl Strategy<Value = i64> {
    prop_oneof![4 => Just(1i64), 1 => Just(-1), 4 => 2..10i64, 1 => -9..-1i64]
}

fn create() -> impl Strategy<Value = Create> {
    let counts = prop_oneof![4 => Just(None), 1 => (2..60i64).prop_map(Some)];
    let seldom = prop::bool::weighted(0.15);
    (name(), -20..20i64, increment(), counts, any::<bool>(), seldom, any::<bool>(), seldom)
        .prop_map(|(name, start, increment, count, ordered, gapless, block, by_document)| {
            let block = block && !gapless;
            Create { name, start, increment, count, ordered, gapless, block, by_document }
        })
}

fn definition() -> impl Strategy<Value = Statement> {
    let far = prop_oneof![2 => Just(1_000_000), 1 => Just(2_000_000)];
    let bounds = prop_oneof![2 => 20..300i64, 1 => 300..5_000i64, 3 => far];
    let alter = (name(), increment(), prop::bool::weighted(0.2));
    prop_oneof![
        6 => create().prop_map(Create),
        5 => alter
            .prop_map(|(name, increment, by_document)| Alter { name, increment, by_document }),
        4 => (name(), any::<bool>(), bounds).prop_map(|(name, largest, value)| Bound {
            name, largest, value: if largest { value } else { -value }
        }),
        1 => (name(), any::<bool>()).prop_map(|(name, yes)| Cycle { name, yes }),
        1 => (name(), any::<bool>()).prop_map(|(name, yes)| Ordered { name, yes }),
        1 => (name(), any::<bool>()).prop_map(|(name, yes)| Gapless { name, yes }),
        1 => (name(), 1..40i64).prop_map(|(name, block)| Tune { name, block }),
        1 => (name(), -30..60i64).prop_map(|(name, with)| Restart { name, with }),
        2 => (name(), -30..60i64, any::<bool>())
            .prop_map(|(name, value, called)| Setval { name, value, called }),
        1 => (name(), name()).prop_map(|(name, to)| Rename { name, to }),
        1 => name().prop_map(|name| Drop { name }),
    ]
}

fn column() -> impl Strategy<Value = Statement> {
    prop_oneof![
        1 => (name(), 0..2u8).prop_map(|(name, table)| Own { name, table }),
        1 => (0..2u8).prop_map(|table| Truncate { table }),
        1 => (name(), -20..20i64, increment())
            .prop_map(|(name, start, increment)| Adopt { name, start, increment }),
        1 => name().prop_map(|name| Unadopt { name }),
        1 => (name(), 1..60i64).prop_map(|(name, largest)| CreateMissing { name, largest }),
    ]
}

fn moves() -> impl Strategy<Value = Statement> {
    let values = prop_oneof![8 => -60..200i64, 2 => -5_000..5_000i64, 1 => Just(3_000_000)];
    prop_oneof![
        2 => (name(), values).prop_map(|(name, at_least)| Advance { name, at_least }),
        1 => (name(), 0..TAKEN.len()).prop_map(|(name, column)| Sync { name, column }),
    ]
}

fn draw() -> impl Strategy<Value = Statement> {
    let way = prop_oneof![4 => Just(Way::Nextval), 1 => Just(Way::Always), 1 => Just(Way::Key)];
    let many = prop_oneof![
        3 => Just(Many::Nextvals),
        1 => Just(Many::Copy),
        1 => Just(Many::CopyKeys)
    ];
    prop_oneof![
        12 => (name(), way).prop_map(|(name, way)| Nextval { name, way }),
        6 => (name(), 0..40i64, many)
            .prop_map(|(name, count, many)| Nextvals { name, count, many }),
        4 => (name(), 1..40i64).prop_map(|(name, count)| Nextrange { name, count }),
        1 => name().prop_map(|name| NextHi { name }),
        2 => name().prop_map(|name| Currval { name }),
    ]
}

fn lease() -> impl Strategy<Value = Statement> {
    let brief = || prop::bool::weighted(0.2);
    prop_oneof![
        5 => (name(), 1..40i64, brief())
            .prop_map(|(name, count, brief)| Lease { name, count, brief }),
        4 => (0..100usize, 0..100usize).prop_map(|(lease, used)| Return { lease, used }),
        1 => (0..100usize, brief()).prop_map(|(lease, brief)| Renew { lease, brief }),
        1 => (0..100usize).prop_map(|lease| Revoke { lease }),
        1 => (0..2usize).prop_map(|holder| RevokeAll { holder }),
        1 => Just(Expire),
    ]
}

fn control() -> impl Strategy<Value = Statement> {
    prop_oneof![
        30 => Just(Begin),
        30 => Just(Commit),
        30 => Just(Rollback),
        30 => Just(Savepoint),
        20 => Just(RollbackTo),
        10 => Just(Release),
        6 => Just(Prepare),
        6 => Just(CommitPrepared),
        6 => Just(RollbackPrepared),
        10 => Just(Discard),
        10 => Just(Reconnect),
        2 => any::<bool>().prop_map(|kill| Crash { kill }),
        1 => Just(Stop),
    ]
}
