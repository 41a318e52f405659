//! The pool against a model that knows where every index is: each is taken at most once, unless it
//! was returned, and none is lost.
#![cfg(not(loom))]

use hilo_core::cursor::{Cursor, Taken};
use hilo_core::numbers::{Index, Serial};
use hilo_core::pool::Pool;
use hilo_core::range::Range;
use proptest::prelude::*;
use std::collections::BTreeSet;

const SERIAL: Serial = Serial(1);

#[derive(Clone, Debug)]
enum Step {
    Publish {
        len: i64,
        skip: i64,
    },
    Take {
        want: i64,
    },
    /// returns the part from `keep` on of one of the slices out
    Return {
        which: usize,
        keep: i64,
    },
    /// the caller serves nothing from `end` on
    TakeReturned {
        want: i64,
        floor: i64,
        end: i64,
    },
    /// `count` indexes, beginning at a multiple of `align`
    Claim {
        count: i64,
        align: i64,
    },
    /// moves returned ranges to the catalog, and some of them back
    Overflow {
        back: usize,
        keep: usize,
    },
    Freeze,
    Thaw,
    /// serves nothing from `ahead` indexes beyond the first untaken one on
    Limit {
        ahead: i64,
    },
    Drain,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (1i64..60, prop_oneof![3 => Just(0i64), 1 => 1i64..5])
            .prop_map(|(len, skip)| Step::Publish { len, skip }),
        6 => (1i64..20).prop_map(|want| Step::Take { want }),
        4 => (0usize..64, 0i64..12).prop_map(|(which, keep)| Step::Return { which, keep }),
        3 => (1i64..20, 0i64..400, prop_oneof![3 => Just(i64::MAX), 1 => 0i64..400])
            .prop_map(|(want, floor, end)| Step::TakeReturned { want, floor, end }),
        2 => (1i64..50, 1i64..16).prop_map(|(count, align)| Step::Claim { count, align }),
        1 => (0usize..8, 0usize..8).prop_map(|(back, keep)| Step::Overflow { back, keep }),
        1 => Just(Step::Freeze),
        2 => Just(Step::Thaw),
        1 => (0i64..200).prop_map(|ahead| Step::Limit { ahead }),
        1 => Just(Step::Drain),
    ]
}

fn indexes(range: Range) -> impl Iterator<Item = Index> {
    (range.start.0..range.end.0).map(Index)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn each_index_is_taken_once_and_none_is_lost(steps in prop::collection::vec(step(), 1..120)) {
        let (cursor, mut pool) = (Cursor::new(), Pool::default());
        let mut end = Index::ZERO;
        // Where each index is: in the pool, out in a slice, or permanently gone.
        let mut inside = BTreeSet::new();
        let mut out: Vec<Range> = Vec::new();
        let mut count_out = 0;
        let (mut frozen, mut limit) = (false, Index::MAX);
        for step in steps {
            let (given, taken) = (out.len(), limit);
            match step {
                Step::Freeze => {
                    pool.freeze(&cursor);
                    frozen = true;
                }
                Step::Thaw => {
                    pool.thaw();
                    frozen = false;
                }
                Step::Limit { ahead } => {
                    limit = pool.first_untaken(&cursor).unwrap_or(end) + ahead;
                    pool.set_bounds(&cursor, Range::below(limit));
                }
                Step::Publish { len, skip } => {
                    if !pool.has_room() {
                        continue;
                    }
                    let block = Range::with_len(end + skip, len);
                    end = block.end;
                    prop_assert!(pool.publish(block));
                    pool.promote(&cursor, SERIAL);
                    inside.extend(indexes(block));
                }
                Step::Take { want } => {
                    pool.promote(&cursor, SERIAL);
                    if let Taken::Range { range, .. } = cursor.take(want, SERIAL, |_| true) {
                        for index in indexes(range) {
                            prop_assert!(inside.remove(&index), "{index} taken twice");
                        }
                        count_out += range.len();
                        out.push(range);
                    }
                }
                Step::Return { which, keep } => {
                    if out.is_empty() {
                        continue;
                    }
                    let mut range = out.swap_remove(which % out.len());
                    range.take(keep);
                    if pool.return_range(&cursor, SERIAL, range) {
                        inside.extend(indexes(range));
                        count_out -= range.len();
                    }
                }
                Step::TakeReturned { want, floor, end } => {
                    let fits = |range: Range| range.end <= Index(end);
                    if let Taken::Range { range, .. } =
                        pool.take_returned(want, Index(floor), fits)
                    {
                        prop_assert!(range.start >= Index(floor) && !range.is_empty());
                        prop_assert!(fits(range));
                        for index in indexes(range) {
                            prop_assert!(inside.remove(&index), "{index} taken twice");
                        }
                        count_out += range.len();
                        out.push(range);
                    }
                }
                Step::Claim { count, align } => {
                    let claimed = pool.claim(&cursor, SERIAL, |run| {
                        let start = (run.start.0 + align - 1) / align * align;
                        let fit = Range::with_len(Index(start), count);
                        (fit.end <= run.end).then_some(fit)
                    });
                    if let Some(range) = claimed {
                        prop_assert_eq!(range.len(), count);
                        for index in indexes(range) {
                            prop_assert!(inside.remove(&index), "{index} taken twice");
                        }
                        count_out += count;
                        out.push(range);
                    }
                }
                Step::Overflow { back, keep } => {
                    for (at, range) in pool.drain_returned(keep).as_slice().iter().enumerate() {
                        if at >= back || !pool.restore(&cursor, *range) {
                            // It stays in the catalog.
                            indexes(*range).for_each(|index| { inside.remove(&index); });
                            continue;
                        }
                        // A range from the catalog counts as neither taken nor returned.
                    }
                }
                Step::Drain => {
                    let held = pool.drain(&cursor);
                    let held: Vec<Index> =
                        held.as_slice().iter().flat_map(|range| indexes(*range)).collect();
                    let set: BTreeSet<Index> = held.iter().copied().collect();
                    prop_assert_eq!(set.len(), held.len());
                    prop_assert_eq!(&set, &inside);
                    inside.clear();
                }
            }
            if out.len() > given {
                prop_assert!(!frozen && out[given].end <= taken, "took what is kept");
            }
            prop_assert_eq!(pool.lowest(&cursor), inside.first().copied());
            let queued = pool.queue().total() + cursor.peek().0.len();
            prop_assert_eq!(queued + pool.returned_ranges().total(), inside.len() as i64);
            prop_assert!(pool.available(&cursor) <= queued);
            prop_assert_eq!(pool.taken_count(&cursor), count_out);
        }
    }
}

/// A caller of the pool: in its session the values rise.
#[derive(Clone, Debug)]
enum Act {
    /// The worker reserves a block, which is published or, if the commit is not acknowledged, comes
    /// back from the catalog later.
    Reserve {
        len: i64,
        skip: i64,
        acknowledged: bool,
    },
    /// The ranges in the catalog come back, as many as there are places.
    Reload,
    Freeze,
    /// A session takes returned indexes or, if there are none for it, some from the cursor. It
    /// returns what it does not serve.
    Draw {
        session: usize,
        want: i64,
        serves: i64,
    },
    /// A session takes the next run of so many consecutive indexes.
    Claim {
        session: usize,
        count: i64,
    },
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        3 => (1i64..60, 0i64..3, any::<bool>())
            .prop_map(|(len, skip, acknowledged)| Act::Reserve { len, skip, acknowledged }),
        2 => Just(Act::Reload),
        1 => Just(Act::Freeze),
        6 => (0usize..3, 1i64..20, 1i64..20)
            .prop_map(|(session, want, serves)| Act::Draw { session, want, serves }),
        3 => (0usize..3, 1i64..30).prop_map(|(session, count)| Act::Claim { session, count }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn what_a_session_takes_rises(acts in prop::collection::vec(act(), 1..120)) {
        let (cursor, mut pool) = (Cursor::new(), Pool::default());
        let (mut end, mut reserved, mut served_count) = (Index::ZERO, 0, 0);
        let mut catalog: Vec<Range> = Vec::new();
        // The indexes that each session was served lie below these.
        let mut floors = [Index::ZERO; 3];
        for act in acts {
            match act {
                Act::Reserve { len, skip, acknowledged } => {
                    let block = Range::with_len(end + skip, len);
                    (end, reserved) = (block.end, reserved + len);
                    if !acknowledged || !pool.publish(block) {
                        catalog.push(block);
                    }
                    pool.promote(&cursor, SERIAL);
                }
                Act::Freeze => {
                    pool.freeze(&cursor);
                    pool.thaw();
                    pool.promote(&cursor, SERIAL);
                }
                Act::Reload => {
                    catalog = Range::union(catalog);
                    catalog.retain(|range| !pool.restore(&cursor, *range));
                    pool.promote(&cursor, SERIAL);
                }
                Act::Draw { session, want, serves } => {
                    pool.promote(&cursor, SERIAL);
                    let mut taken = pool.take_returned(want, floors[session], |_| true);
                    if taken == Taken::Empty {
                        taken = cursor.take(want, SERIAL, |_| true);
                    }
                    let Taken::Range { mut range, .. } = taken else { continue };
                    let served = range.take(serves);
                    prop_assert!(served.start >= floors[session], "{served:?} after {floors:?}");
                    floors[session] = served.end;
                    served_count += served.len();
                    if !pool.return_range(&cursor, SERIAL, range) {
                        catalog.push(range);
                    }
                }
                Act::Claim { session, count } => {
                    let part = |run: Range| Range::with_len(run.start, count);
                    let fit = |run: Range| (run.len() >= count).then(|| part(run));
                    if let Some(range) = pool.claim(&cursor, SERIAL, fit) {
                        prop_assert!(range.start >= floors[session], "{range:?} after {floors:?}");
                        floors[session] = range.end;
                        served_count += range.len();
                    }
                }
            }
            let beside = pool.queue().total() + pool.returned_ranges().total();
            let held = beside + cursor.peek().0.len();
            let stored: i64 = catalog.iter().map(Range::len).sum();
            prop_assert_eq!(served_count + held + stored, reserved, "some are lost");
        }
    }
}
